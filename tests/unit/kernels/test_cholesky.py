"""Small dense systems against numpy."""

import numpy as np
import pytest
from tests.from_python import from_python

from tallyveil.kernels.vectors import cholesky, invert, solve_cholesky

cholesky = from_python(cholesky)
invert = from_python(invert)
solve_cholesky = from_python(solve_cholesky)


def definite(n, seed=0):
    root = np.random.default_rng([8, n, seed]).normal(size=(n, n + 3))
    return root @ root.T


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 40, 131])
def test_against_numpy(n):
    matrix = definite(n)
    factor = matrix.copy()
    assert cholesky(factor, n)
    np.testing.assert_allclose(np.triu(factor), np.linalg.cholesky(matrix).T, atol=1e-9)
    np.testing.assert_array_equal(factor, factor.T)
    right = np.arange(n) + 1.0
    solved = right.copy()
    solve_cholesky(factor, solved)
    np.testing.assert_allclose(matrix @ solved, right, atol=1e-7)
    inverse = matrix.copy()
    assert invert(inverse)
    np.testing.assert_allclose(inverse @ matrix, np.eye(n), atol=1e-7)


@pytest.mark.parametrize("n", [1, 4, 9])
def test_what_is_not_definite_is_refused(n):
    matrix = definite(n)
    matrix[n - 1, n - 1] = -1.0
    assert not cholesky(matrix.copy(), n)
    assert not invert(matrix.copy())
    assert not cholesky(np.full((n, n), np.nan), n)
