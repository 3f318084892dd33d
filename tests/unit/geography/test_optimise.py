"""Steps in a row, and what is handed to later stages."""

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, QueryShares
from tallyveil.geography.entities import off_spine_distances
from tallyveil.geography.optimise import Branch, GroupByDistance, GroupByMembership, optimise_spine
from tallyveil.geography.spine import path_total
from tallyveil.geography.steps import FanOutLimit, branch_spine, group_by_distance, group_by_membership
from tallyveil.geography.tables import entities_from_columns

LEVELS = ("State", "County", "Tract", "Group", "Block")


def country(seed=0):
    rng = np.random.default_rng([81, seed])
    codes = [
        f"{s}{c}{t}{g}{b}"
        for s in "PQ"
        for c in range(2)
        for t in range(4)
        for g in range(2)
        for b in range(5)
    ]
    n = len(codes)
    area = np.arange(n) + rng.integers(0, 9, n)
    table = {
        "geocode": codes,
        "place": [f"p{k // 13}" if k % 3 else None for k in area.tolist()],
        "tribe": ["t" if 33 <= k < 47 else None for k in range(n)],
    }
    spine = spine_from_prefixes(codes, LEVELS, (1, 2, 3, 4, 5))
    return spine, entities_from_columns(spine, table, ("place", "tribe"))


STEPS = (
    Branch("tribe", "State", "T"),
    GroupByMembership(("place", "tribe"), "Group", "Block", FanOutLimit(1)),
    GroupByDistance(("place",), "Tract_Group", "Tract", FanOutLimit(1)),
)
SHARES = {name: Fraction(1, 6) for name in ("State", "County", "Tract_Group", "Tract", "Group", "Block")}


def test_steps_are_the_functions_in_a_row():
    spine, (place, tribe) = country()
    made = optimise_spine(spine, (place, tribe), STEPS)
    first = branch_spine(spine, tribe.inside(), "State", "T")
    families = [family.reordered(first.rows) for family in (place, tribe)]
    second = group_by_membership(
        first.spine, families, geolevel="Group", children="Block", limit=FanOutLimit(1)
    )
    moved = families[0].reordered(second.rows).with_remainder()
    third = group_by_distance(
        second.spine, [moved], geolevel="Tract_Group", children="Tract", limit=FanOutLimit(1)
    )
    assert made.spine.digest() == third.spine.digest()
    assert np.array_equal(spine.geocodes[-1][made.rows], made.spine.geocodes[-1])
    assert made.shares is None


@pytest.mark.parametrize("rule", [None, *BypassRule])
def test_origins_name_the_original_geounit_that_holds_each(rule):
    spine, families = country()
    alike = QueryShares(({"total": Fraction(1)},) * len(SHARES), squared=False)
    made = optimise_spine(spine, families, STEPS, shares=SHARES, bypassing=rule, queries=alike)
    assert path_total(made.spine, made.shares) == 1
    for level, name in enumerate(made.spine.geolevels):
        if name not in spine.geolevels:
            assert np.all(made.origins[level] == -1)
            continue
        before = spine.ancestors(spine.level_index(name))[made.rows]
        for g in range(made.spine.n_geounits(level)):
            held = set(before[made.spine.ancestors(level) == g].tolist())
            assert made.origins[level][g] == (held.pop() if len(held) == 1 else -1)
    state = made.origins[0]
    assert made.keeps(0)
    if rule is not BypassRule.PURE_DP:
        assert made.spine.geocodes[0].tolist() == ["P+T", "P-T", "Q"]
        assert state.tolist() == [0, 0, 1]  # the two halves share P's invariant
    assert not made.keeps(made.spine.level_index("Group"))


def test_distances_fall_with_the_steps():
    spine, families = country()
    sums = []
    for n in range(4):
        made = optimise_spine(spine, families, STEPS[:n])
        found = [off_spine_distances(made.spine, family.reordered(made.rows)) for family in families]
        sums.append([int(one.distance.sum()) for one in found])
    assert sums[1][1] <= 2 < sums[0][1]
    assert sums[2][0] < sums[1][0]
    assert sums[3][0] <= sums[2][0]


def test_the_order_of_rows_does_not_matter():
    spine, families = country()
    wanted = optimise_spine(spine, families, STEPS, shares=SHARES, bypassing=BypassRule.SINGLE_CHILD)
    order = np.random.default_rng(5).permutation(spine.n_geounits(spine.finest))
    codes = pl.Series(spine.geocodes[-1])[order]
    again = spine_from_prefixes(codes, LEVELS, (1, 2, 3, 4, 5))
    table: dict[str, Any] = {"geocode": codes}
    for family in families:
        column = np.full(len(order), None, dtype=object)
        for entity, code in enumerate(family.codes):
            column[family.members_of(entity)] = code
        table[family.name] = column[order]
    same = entities_from_columns(again, table, ("place", "tribe"))
    made = optimise_spine(again, same, STEPS, shares=SHARES, bypassing=BypassRule.SINGLE_CHILD)
    assert made.spine.digest() == wanted.spine.digest()
    assert made.shares.values == wanted.shares.values


def test_no_steps_are_the_spine_itself():
    spine, families = country()
    made = optimise_spine(spine, families, ())
    assert made.spine is spine
    assert all(
        np.array_equal(origin, np.arange(spine.n_geounits(level)))
        for level, origin in enumerate(made.origins)
    )


def test_what_does_not_fit_is_refused():
    spine, families = country()
    with pytest.raises(GeographyError, match="family school; there are place, tribe") as caught:
        optimise_spine(spine, families, [Branch("school", "State", "x")])
    assert caught.value.code == "unknown-entity"
    with pytest.raises(GeographyError, match="no entity 'u' in family tribe"):
        optimise_spine(spine, families, [Branch("tribe", "State", "x", ("u",))])
    with pytest.raises(GeographyError, match="two entity families are called place"):
        optimise_spine(spine, [families[0], families[0]], ())
    with pytest.raises(GeographyError, match="none are given"):
        optimise_spine(spine, families, STEPS, bypassing=BypassRule.SINGLE_CHILD)
    with pytest.raises(BudgetError, match="Tract_Group"):
        optimise_spine(spine, families, STEPS, shares=dict.fromkeys(LEVELS, Fraction(1, 5)))
    other = spine_from_prefixes(["P"], ("State",), (1,))
    with pytest.raises(GeographyError, match="160 finest geounits; this one has 1"):
        optimise_spine(other, families, ())
