"""Areas people know, beside a spine that need not have them."""

import numpy as np
import pytest

from tallyveil.errors import GeographyError
from tallyveil.geography.areas import area_spine, hierarchies_of, plain_hierarchies, stated_geounits
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.optimise import (
    Branch,
    GroupByDistance,
    GroupByMembership,
    geolevels_after,
    optimise_spine,
)
from tallyveil.geography.steps import FanOutLimit
from tallyveil.geography.tables import entities_from_columns

LEVELS = ("State", "County", "Group", "Block")
CODES = [f"{s}{c}{g}{b}" for s in "PQ" for c in "21" for g in range(3) for b in range(4)]
SPINE = spine_from_prefixes(CODES, LEVELS, (1, 2, 3, 4))
TABLE = {
    "geocode": SPINE.geocodes[-1].tolist(),
    "place": ["elm" if k % 5 < 2 else None for k in range(len(CODES))],
    "tribe": ["t" if 7 <= k < 11 else None for k in range(len(CODES))],
}
FAMILIES = entities_from_columns(SPINE, TABLE, ("place", "tribe"))
STEPS = (
    Branch("tribe", "State", "T", parts="State_Part"),
    GroupByMembership(("place",), "Group", "Block", FanOutLimit(3)),
    GroupByDistance(("place",), "County_Group", "County"),
)


def test_a_branch_with_parts_keeps_its_geolevel_whole():
    made = optimise_spine(SPINE, FAMILIES, STEPS[:1]).spine
    assert made.geolevels == ("State", "State_Part", "County", "Group", "Block")
    assert made.geocodes[0].tolist() == ["P", "Q"]
    assert made.geocodes[1].tolist() == ["P+T", "P-T", "Q"]
    assert made.geocodes[2].tolist() == ["P1+T", "P1-T", "P2", "Q1", "Q2"]


def test_parts_need_a_new_name():
    with pytest.raises(GeographyError, match="Give them a new name") as caught:
        optimise_spine(SPINE, FAMILIES, [Branch("tribe", "State", "T", parts="County")])
    assert caught.value.code == "spine-step"


@pytest.mark.parametrize("n", range(4))
def test_the_names_that_steps_leave_are_told_without_geography(n):
    assert geolevels_after(LEVELS, STEPS[:n]) == optimise_spine(SPINE, FAMILIES, STEPS[:n]).spine.geolevels
    assert geolevels_after(LEVELS, [Branch("tribe", "County", "T")]) == LEVELS


def test_a_step_that_names_no_geolevel_is_told_what_there_is():
    with pytest.raises(GeographyError, match="State, State_Part, County, Group, Block") as caught:
        geolevels_after(LEVELS, [STEPS[0], GroupByDistance(("place",), "x", "Tract")])
    assert caught.value.code == "spine-step"


def test_replaced_geolevels_are_families_of_the_original_geounits():
    known = hierarchies_of(SPINE, optimise_spine(SPINE, FAMILIES, STEPS), FAMILIES)
    assert known.replaced_names == ("County", "Group")
    finest = known.spine.geocodes[-1].tolist()
    for family, length in zip(known.replaced, (2, 3), strict=True):
        for number, code in enumerate(family.codes):
            members = [finest[row] for row in family.members_of(number)]
            assert sorted(members) == sorted(one for one in CODES if one[:length] == code)
    assert [known.spine.geolevels[level] for level in known.known_levels] == [
        "State", "State_Part", "County_Group", "Block",
    ]  # fmt: skip
    place = known.family("place")
    assert {finest[row] for row in place.members} == {
        code for code, name in zip(TABLE["geocode"], TABLE["place"], strict=True) if name
    }


def test_a_geolevel_that_happens_to_stay_whole_is_not_replaced():
    """The branch names no county that it cuts: all stay as they are, with their geocodes."""
    whole = entities_from_columns(
        SPINE,
        {**TABLE, "tribe": ["t" if code[:2] == "P1" else None for code in TABLE["geocode"]]},
        ("tribe",),
    )
    made = optimise_spine(SPINE, whole, [Branch("tribe", "State", "T", parts="State_Part")])
    known = hierarchies_of(SPINE, made, whole)
    assert known.replaced == ()
    assert stated_geounits(known, "County", "the invariant").groups is None


def test_groups_that_are_the_old_geounits_under_other_geocodes_are_replaced():
    """Tables must show the geocodes people know."""
    own = entities_from_columns(
        SPINE, {**TABLE, "group": [code[:3] for code in TABLE["geocode"]]}, ("group",)
    )
    made = optimise_spine(SPINE, own, [GroupByMembership(("group",), "Group", "Block")])
    known = hierarchies_of(SPINE, made, own)
    assert made.keeps(2)
    assert known.replaced_names == ("Group",)
    assert known.replaced[0].codes == tuple(sorted({code[:3] for code in CODES}))


def test_geocodes_that_are_not_in_the_order_of_the_tree():
    columns = {"Top": ["b", "b", "a"], "Middle": ["x", "z", "y"], "Block": ["1", "2", "3"]}
    spine = spine_from_columns(columns, list(columns))
    family = entities_from_columns(spine, {"geocode": ["1", "2", "3"], "e": ["e", None, "e"]}, ("e",))
    made = optimise_spine(spine, family, [Branch("e", "Top", "E")])
    known = hierarchies_of(spine, made, family)
    blocks = known.spine.geocodes[-1].tolist()
    found = {
        (area.name, code): [blocks[row] for row in area.members_of(number)]
        for area in known.replaced
        for number, code in enumerate(area.codes)
    }
    assert found == {("Top", "a"): ["3"], ("Top", "b"): ["1", "2"]}


def test_areas_are_tabulated_like_geounits():
    spine = area_spine(FAMILIES[0])
    assert spine.geolevels == ("place",)
    assert spine.geocodes[0].tolist() == ["elm"]


def test_what_is_stated_for_a_replaced_geolevel_is_refused():
    known = hierarchies_of(SPINE, optimise_spine(SPINE, FAMILIES, STEPS), FAMILIES)
    assert stated_geounits(known, "State", "the invariant on 'total'").groups is None
    for geolevel in ("County", "Group"):
        with pytest.raises(GeographyError, match="Geolevels kept whole: State, Block") as caught:
            stated_geounits(known, geolevel, "the invariant on 'total'")
        assert caught.value.code == "not-on-spine"


def test_an_unknown_family_is_told():
    with pytest.raises(GeographyError, match="place, tribe"):
        plain_hierarchies(SPINE, FAMILIES).family("school")


def test_a_family_s_digest_tells_members_and_names_apart():
    same = entities_from_columns(SPINE, TABLE, ("place",))[0]
    moved = entities_from_columns(
        SPINE, {**TABLE, "place": ["elm" if k % 5 < 3 else None for k in range(len(CODES))]}, ("place",)
    )[0]
    renamed = entities_from_columns(
        SPINE, {**TABLE, "place": ["oak" if name else None for name in TABLE["place"]]}, ("place",)
    )[0]
    digests = [family.digest() for family in (FAMILIES[0], same, moved, renamed, FAMILIES[1])]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4
    assert np.array_equal(FAMILIES[0].members, same.members)
