"""Loops along flat arrays against numpy."""

import numpy as np
import pytest
from tests.from_python import from_python

from tallyveil.kernels.vectors import first_at_least, inner, largest_of, set_rows, set_to, sort_first

first_at_least = from_python(first_at_least)
inner = from_python(inner)
largest_of = from_python(largest_of)
set_rows = from_python(set_rows)
set_to = from_python(set_to)
sort_first = from_python(sort_first)


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


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_first_at_least_is_where_numpy_would_insert(n):
    values = np.sort(np.random.default_rng([6, n]).integers(0, 5, n + 4))
    for least in range(-1, 7):
        expected = 2 + int(np.searchsorted(values[2 : 2 + n], least))
        assert first_at_least(values, 2, 2 + n, least) == expected


@pytest.mark.parametrize("n", [0, 1, 8])
def test_inner_and_largest_of_agree_with_numpy(n):
    rng = np.random.default_rng([5, n])
    one, two = rng.normal(size=n), rng.normal(size=n)
    assert inner(one, two) == pytest.approx(one @ two, abs=1e-12)
    assert largest_of(one) == np.abs(one).max(initial=0.0)
