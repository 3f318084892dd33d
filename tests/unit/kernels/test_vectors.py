"""Loops along flat arrays against numpy."""

import numpy as np
import pytest

from tallyveil.kernels.vectors import add_scaled, copy_stretch, invert_small, set_rows, set_to, sort_first


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


def test_set_to_and_set_rows_copy_what_a_slice_would():
    rng = np.random.default_rng(3)
    for n in (0, 1, 5):
        out, source = np.full(6, -1), rng.integers(0, 9, n)
        set_to(out, source)
        np.testing.assert_array_equal(out, [*source, *[-1] * (6 - n)])
        wide, rows = np.full((6, 3), -1.0), rng.normal(size=(n, 3))
        set_rows(wide, rows)
        np.testing.assert_array_equal(wide[:n], rows)
        assert (wide[n:] == -1).all()


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_sort_first_sorts_the_first_ones_only(n):
    rng = np.random.default_rng([4, n])
    values = rng.integers(0, max(n, 2), n + 3)
    expected = [*np.sort(values[:n]), *values[n:]]
    sort_first(values, n)
    np.testing.assert_array_equal(values, expected)
