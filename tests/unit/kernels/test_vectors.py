"""Loops along flat arrays against numpy."""

import numpy as np
import pytest

from tallyveil.kernels.vectors import add_scaled, copy_stretch, invert_small


@pytest.mark.parametrize("n", [0, 1, 3, 8, 33])
def test_stretches(n):
    rng = np.random.default_rng(n)
    source, out = rng.normal(size=50), rng.normal(size=60)
    expected = out.copy()
    expected[7 : 7 + n] += 2.5 * source[11 : 11 + n]
    add_scaled(out, 7, 2.5, source, 11, n)
    np.testing.assert_array_equal(out, expected)
    expected[20 : 20 + n] = source[3 : 3 + n]
    copy_stretch(out, 20, source, 3, n)
    np.testing.assert_array_equal(out, expected)
    expected[2 : 2 + n] = expected[9 : 9 + n]
    copy_stretch(out, 2, out, 9, n)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", range(1, 13))
def test_invert_small(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    matrix = root @ root.T + np.eye(n)
    width, at = n + 2, 5
    flat = np.full(at + n * width, 7.0)
    held = flat[at:].reshape(n, width)
    held[:, :n] = matrix
    assert invert_small(flat, at, width, n)
    np.testing.assert_allclose(held[:, :n], np.linalg.inv(matrix), rtol=1e-10, atol=1e-12)
    assert (held[:, n:] == 7.0).all()
    assert (flat[:at] == 7.0).all()


def test_invert_small_refuses_what_is_not_definite():
    assert not invert_small(np.array([1.0, 2.0, 2.0, 1.0]), 0, 2, 2)
