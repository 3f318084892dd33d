"""Exact shares of single geounits."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.errors import BudgetError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.spine import GeounitShares, distinct_pairs, path_total, uniform_shares

SPINE = spine_from_prefixes(["a1", "a2", "b1"], ("Tract", "Block"), (1, 2))
THIRD = {"Tract": Fraction(1, 3), "Block": Fraction(2, 3)}


def shares(values, *positions):
    return GeounitShares(
        tuple(map(Fraction, values)), tuple(np.array(one, dtype=np.int32) for one in positions)
    )


def test_uniform_shares_sum_to_one_on_every_path():
    made = uniform_shares(SPINE, THIRD)
    assert made.share(0, 1) == Fraction(1, 3)
    assert made.tally(1) == {Fraction(2, 3): 3}
    assert path_total(SPINE, made) == 1
    assert made.measured(0).tolist() == [True, True]


def test_a_geounit_with_share_zero_is_not_measured():
    made = shares(["0", "1"], [1, 0], [0, 0, 1])
    assert made.measured(0).tolist() == [True, False]
    assert path_total(SPINE, made) == 1


def test_paths_that_differ_are_named():
    uneven = shares(["1/3", "2/3"], [0, 0], [1, 0, 1])
    with pytest.raises(
        BudgetError, match="2/3 on the path to Block 'a2' and to 1 on the path to 'a1'"
    ) as caught:
        path_total(SPINE, uneven)
    assert caught.value.code == "unequal-paths"


def test_a_difference_too_small_for_floats_is_seen():
    hair = Fraction(1, 10**30)
    with pytest.raises(BudgetError, match="on the path to"):
        path_total(SPINE, shares([Fraction(1, 2), Fraction(1, 2) + hair], [0, 0], [0, 0, 1]))


def test_arrays_that_do_not_fit_are_refused():
    for values, positions in (
        (["1/2", "1/2"], [0]),
        (["1", "1/2"], [0]),
        (["-1"], [0]),
        (["1"], [1]),
        (["1"], [-1]),
    ):
        with pytest.raises(BudgetError, match="share"):
            shares(values, positions)
    with pytest.raises(BudgetError, match="wanted Fractions"):
        GeounitShares((0.5,), (np.zeros(1, np.int32),))
    with pytest.raises(BudgetError, match="do not fit the spine"):
        path_total(SPINE, shares(["1"], [0], [0, 0]))


def test_distinct_pairs_are_those_of_unique():
    rng = np.random.default_rng(12)
    for _ in range(50):
        first, second = rng.integers(0, 5, 40), rng.integers(0, 3, 40).astype(np.int32)
        pairs, index = np.unique(first * 7 + second, return_inverse=True)
        found = distinct_pairs(first, second, 7)
        assert np.array_equal(found[0], pairs)
        assert np.array_equal(found[1], index)
