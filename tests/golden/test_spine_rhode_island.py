"""Off-spine distances of Rhode Island's real entities, on the spines the steps make of it."""

from fractions import Fraction

import polars as pl
import pytest

from tallyveil.geography import (
    Branch,
    BypassRule,
    GroupByDistance,
    GroupByMembership,
    entities_from_columns,
    off_spine_distances,
    optimise_spine,
    path_total,
    recipe_of,
    spine_from_prefixes,
)

GEOLEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
FAMILIES = ("place", "county_subdivision", "school_district", "tribal_area")
BRANCH = Branch("tribal_area", "State", "AIAN")
BLOCK_GROUPS = GroupByMembership(FAMILIES, "Block_Group", "Block")
TRACT_GROUPS = GroupByDistance(FAMILIES, "Tract_Group", "Tract")

# Sum and greatest of the distances of 36 places, 40 county subdivisions and 36 school districts.
WANTED = {
    "plain": ((), ((1055, 108), (778, 108), (764, 108))),
    "branch": ((BRANCH,), ((1055, 108), (779, 108), (765, 108))),
    "block groups": ((BRANCH, BLOCK_GROUPS), ((291, 59), (413, 59), (405, 59))),
    "tract groups": ((BRANCH, BLOCK_GROUPS, TRACT_GROUPS), ((170, 22), (267, 22), (261, 22))),
}


@pytest.fixture(scope="module")
def rhode_island(shared_data):
    blocks = pl.read_parquet(shared_data / "ri_2010_blocks.parquet")
    table = pl.read_parquet(shared_data / "ri_2010_entities.parquet")
    spine = spine_from_prefixes(blocks["geocode"], GEOLEVELS, (0, 2, 5, 11, 12, 15))
    return spine, entities_from_columns(spine, table.to_dict(), FAMILIES)


@pytest.mark.parametrize("case", WANTED)
def test_distances(rhode_island, case):
    spine, families = rhode_island
    steps, wanted = WANTED[case]
    made = optimise_spine(spine, families, steps)
    found = [off_spine_distances(made.spine, family.reordered(made.rows)) for family in families[:3]]
    assert tuple((int(one.distance.sum()), one.maximum) for one in found) == wanted


def test_whole_spine_with_shares(rhode_island):
    spine, families = rhode_island
    steps = (BRANCH, BLOCK_GROUPS, TRACT_GROUPS)
    shares = {
        name: Fraction(1, 7)
        for name in ("US", "State", "County", "Tract_Group", "Tract", "Block_Group", "Block")
    }
    made = optimise_spine(spine, families, steps, shares=shares, bypassing=BypassRule.SINGLE_CHILD)
    assert path_total(made.spine, made.shares) == 1
    assert made.spine.geocodes[1].tolist() == ["44+AIAN", "44-AIAN"]
    assert made.origins[1].tolist() == [0, 0]
    place = families[0].reordered(made.rows)
    distances = off_spine_distances(made.spine, place)
    lengths = [len(recipe_of(made.spine, place, code)) for code in place.codes]
    assert lengths == distances.distance.tolist()
