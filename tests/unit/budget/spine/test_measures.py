"""Totals as a strategy measures them, on a spine and on its geography."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.budget.spine.variance import AS_GOOD_AS_EXACT, TotalMeasures, entity_variances, spine_variances
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.optimise import Branch, optimise_spine
from tallyveil.geography.spine import GeounitShares, uniform_shares
from tallyveil.geography.tables import entities_from_columns

LEVELS = ("Region", "Part", "Town", "Block")
SHARES = (Fraction(1, 4), Fraction(1, 8), Fraction(3, 8), Fraction(1, 4))


def measures(**keys):
    strategy = Strategy(
        mechanism=Mechanism.DISCRETE_GAUSSIAN,
        neighbours="bounded",
        total=Fraction(2),
        geolevel_shares=tuple(zip(LEVELS, SHARES, strict=True)),
        query_shares=tuple((name, (("total", Fraction(1)),)) for name in LEVELS),
    )
    return TotalMeasures(strategy, **{"summed": {"total": 1}, **keys})


def test_the_geography_spends_the_whole_budget():
    """It has no parts: the shares of the other three geolevels are scaled by 8 / 7."""
    spine = spine_from_prefixes(["a1", "a2", "b1"], ("Region", "Town", "Block"), (0, 1, 2))
    found = measures().on_geography(spine)
    scale = 2 * 8 / 7  # a precision is the share of the budget, times 2 over the answers moved, which are 2
    wanted = spine_variances(spine, [np.full(n, scale * s) for n, s in ((1, 1 / 4), (2, 3 / 8), (3, 1 / 4))])
    for one, two in zip(found.variance, wanted.variance, strict=True):
        assert one == pytest.approx(two)


def test_what_is_published_exactly():
    found = measures(exact=("Region", "Town")).by_geolevel(LEVELS)
    assert found["Region"] == np.inf
    assert found["Town"] == AS_GOOD_AS_EXACT * 0.75
    assert found["Block"] == pytest.approx(0.5)
    spine = spine_from_prefixes(["a1", "a2", "b1"], ("Region", "Town", "Block"), (0, 1, 2))
    known = measures(exact=("Region", "Part", "Town")).on_geography(spine)
    assert known.variance[1].tolist() == [0, 0]
    fewer = measures(exact=("Region", "Town"), exact_on_geography=("Region", "Part")).on_geography(spine)
    assert fewer.variance[0].tolist() == [0]
    assert min(fewer.variance[1]) > 0


def test_on_the_spine_of_its_steps():
    spine = spine_from_prefixes(["a111", "a122", "b111"], LEVELS, (0, 1, 2, 4))
    found = measures(exact=("Part",)).on(spine)
    assert found.variance[1].tolist() == [0, 0]
    assert found.precisions[3].tolist() == pytest.approx([0.5] * 3)
    shares = uniform_shares(spine, dict(zip(LEVELS, SHARES, strict=True)))
    halved = GeounitShares(tuple(one / 2 for one in shares.values), shares.positions)
    assert measures().on(spine, halved).precisions[3].tolist() == pytest.approx([0.25] * 3)


def test_the_sum_of_the_parts_of_what_the_steps_cut_is_exact():
    """Two towns in two parts each, against dense generalised least squares with both sums as constraints."""
    blocks = [f"a{town}{block}" for town in range(2) for block in range(5)]
    original = spine_from_prefixes(blocks, ("Region", "Part", "Block"), (0, 2, 3))
    table = {"geocode": blocks, "reserve": ["r" if 2 <= n < 7 else None for n in range(10)]}
    families = entities_from_columns(original, table, ("reserve",))
    made = optimise_spine(original, families, [Branch("reserve", "Part", "R")])
    stated = measures(exact=("Part",))
    found = stated.made_into(original, made)
    assert (found.exact, found.exact_on_geography) == (("Region",), ("Part",))
    variances = found.on(made.spine)

    shares = dict(zip(LEVELS, (float(2 * share) for share in SHARES), strict=True))
    rows = [
        (made.spine.ancestors(level) == geounit, shares[name])
        for level, name in enumerate(made.spine.geolevels)
        for geounit in range(made.spine.n_geounits(level))
    ]
    information = sum(weight * np.outer(row, row) for row, weight in rows)
    towns = np.array([made.rows < 5, made.rows >= 5], float)
    spread = np.linalg.inv(information)
    spread -= spread @ towns.T @ np.linalg.solve(towns @ spread @ towns.T, towns @ spread)
    parts = variances.variance[variances.spine.level_index("Part")]
    inside = made.spine.ancestors(made.spine.level_index("Part"))
    for number, value in enumerate(parts):
        assert value == pytest.approx((inside == number) @ spread @ (inside == number))
    reserve = families[0].reordered(made.rows)
    member = np.isin(np.arange(10), reserve.members)
    assert entity_variances(variances, reserve)[0] == pytest.approx(member @ spread @ member)
    assert entity_variances(variances, geounits_as_entities(original, 1).reordered(made.rows)).tolist() == [
        0,
        0,
    ]


def test_without_a_query_that_tells_a_total():
    blind = measures(summed={"total": 0})
    assert not blind.tell_totals()
    with pytest.raises(BudgetError, match="no measured query tells a total"):
        blind.by_geolevel(LEVELS)
