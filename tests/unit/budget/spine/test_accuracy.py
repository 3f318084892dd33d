"""Accuracy of areas: geounits asked as entities are what they are as geounits."""

from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.spine_matrices import strategy_shares

from tallyveil.budget.spine.variance import (
    answer_precisions,
    entity_variances,
    family_accuracies,
    geolevel_accuracies,
    measured_variances,
    spine_variances,
)
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import GeounitShares
from tallyveil.geography.tables import entities_from_pairs


@pytest.mark.parametrize("seed", range(10))
def test_geounits_as_entities(random_spine, seed):
    rng = np.random.default_rng([95, seed])
    spine = random_spine(rng, int(rng.integers(2, 40)), 4)
    found = spine_variances(spine, [np.exp(rng.normal(0, 1, spine.n_geounits(level))) for level in range(4)])
    families = [geounits_as_entities(spine, level) for level in range(4)]
    for level, family in enumerate(families):
        rows = spine.locate(level, list(family.codes))
        np.testing.assert_allclose(entity_variances(found, family), found.variance[level][rows], rtol=1e-10)
    for one, two in zip(geolevel_accuracies(found), family_accuracies(found, families), strict=True):
        assert (one.name, one.areas) == (two.name, two.areas)
        values = (one.mean, one.median, one.q90, one.greatest)
        assert values == pytest.approx((two.mean, two.median, two.q90, two.greatest))
        assert one.median <= one.q90 <= one.greatest


def test_quantiles_by_hand(random_spine):
    spine = random_spine(np.random.default_rng(96), 10, 1)
    found = spine_variances(spine, [1 / np.arange(1.0, 11.0) ** 2])
    (only,) = geolevel_accuracies(found)
    assert (only.mean, only.median, only.q90, only.greatest) == pytest.approx((5.5, 5, 9, 10))


def test_what_an_area_is_and_that_families_without_entities_are_left_out(random_spine, random_family):
    rng = np.random.default_rng(97)
    spine = random_spine(rng, 10, 2)
    found = spine_variances(spine, [np.ones(spine.n_geounits(level)) for level in range(2)])
    assert [(one.name, one.kind) for one in geolevel_accuracies(found)] == [
        ("L0", "geolevel"),
        ("L1", "geolevel"),
    ]
    families = [entities_from_pairs(spine, "none", [], []), random_family(rng, spine, 3, "f")]
    assert [(one.name, one.kind, one.areas) for one in family_accuracies(found, families)] == [
        ("f", "entities", 3)
    ]
    assert [one.kind for one in family_accuracies(found, families, "geolevel")] == ["geolevel"]


def test_shares_that_a_strategy_cannot_pay_for_have_no_variances():
    spine = spine_from_columns(
        {"A": ["a"] * 3, "B": ["b0", "b0", "b1"], "C": ["c0", "c1", "c2"]}, ("A", "B", "C")
    )
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        "bounded",
        Fraction(2),
        tuple((name, Fraction(1, 3)) for name in "ABC"),
        tuple((name, (("total", Fraction(1)),)) for name in "ABC"),
    )
    made, shares = bypass(spine, strategy_shares(spine, strategy), BypassRule.SINGLE_CHILD)
    summed = {"total": 1}
    found = measured_variances(made.spine, strategy, summed, shares=shares, exact=["A"])
    wanted = spine_variances(
        made.spine, answer_precisions(made.spine, strategy, summed, shares=shares, exact=["A"])
    )
    for one, two in zip(found.variance, wanted.variance, strict=True):
        assert one.tolist() == two.tolist()
    assert found.variance[0].tolist() == [0]
    uniform = measured_variances(spine, strategy, summed)
    assert uniform.precisions[2].tolist() == pytest.approx([2 / 3] * 3)
    twice = GeounitShares(tuple(2 * one for one in shares.values), shares.positions)
    with pytest.raises(BudgetError) as error:
        measured_variances(made.spine, strategy, summed, shares=twice)
    assert error.value.code == "overspent-path"
