"""Instructions on four numbers against the same lines in Python, bit by bit."""

import numpy as np
import pytest
from numba import njit

from tallyveil.kernels.fours import four_sums, subtract_fours


@njit
def compiled(values, n, shift):
    return four_sums(values, n, shift)


@njit
def subtracted(out, rows, factors, n):
    subtract_fours(out, rows, factors, n)


@pytest.mark.parametrize("n", [0, 4, 8, 160])
def test_the_same_bits(n):
    values = np.random.default_rng(n).normal(size=n + 3)
    for shift in (-0.3, 0.0, 0.5):
        assert compiled(values, n, shift) == four_sums(values, n, shift)


def test_the_worked_case():
    values = np.array([5.0, 1.0, 2.0, 9.0, 7.0, 0.0, 0.0, 0.0])
    assert compiled(values, 8, 2.0) == ((8.0, 0.0, 0.0, 7.0), 3)


@pytest.mark.parametrize("n", [0, 4, 160])
def test_four_rows_are_subtracted_one_after_the_other(n):
    rng = np.random.default_rng(n)
    # rows that begin at any number, and one number more than is subtracted from
    rows, factors = tuple(rng.normal(size=(4, n + 2))[:, 1:]), tuple(rng.normal(size=4).tolist())
    out = rng.normal(size=n + 2)[1:]
    expected = out.copy()
    for row, factor in zip(rows, factors, strict=True):
        expected[:n] = expected[:n] - factor * row[:n]
    python = out.copy()
    subtract_fours(python, rows, factors, n)
    subtracted(out, rows, factors, n)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(python, expected)
