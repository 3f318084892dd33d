"""Families of entities: what is read, and what is refused."""

import numpy as np
import pytest

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.tables import entities_from_columns, entities_from_pairs

SPINE = spine_from_prefixes(["b1", "a2", "a1", "b2"], ("Tract", "Block"), (1, 2))


def table(**changed):
    return {
        "geocode": ["b1", "a1", "b2", "a2"],
        "place": ["Y", None, "X", "Y"],
        "school": ["s", "s", "s", "s"],
    } | changed


def test_columns_give_disjoint_families_in_the_spines_order():
    place, school = entities_from_columns(SPINE, table(), ("place", "school"))
    assert place.codes == ("X", "Y")
    assert place.offsets.tolist() == [0, 1, 3]
    assert place.members.tolist() == [3, 1, 2]
    assert place.sizes.tolist() == [1, 2]
    assert place.is_disjoint
    assert place.inside().tolist() == [False, True, True, True]
    assert place.inside(["X"]).tolist() == [False, False, False, True]
    assert school.members_of(0).tolist() == [0, 1, 2, 3]
    assert repr(place) == "EntityFamily(place: 2 entities over 4 finest geounits)"
    assert not place.members.flags.writeable


def test_pairs_may_overlap_and_leave_out():
    family = entities_from_pairs(SPINE, "area", ["a2", "a1", "a2"], ["p", "q", "q"])
    assert family.members.tolist() == [1, 0, 1]
    assert not family.is_disjoint


def test_the_remainder_is_one_entity_more():
    place, school = entities_from_columns(SPINE, table(), ("place", "school"))
    whole = place.with_remainder()
    assert whole.codes == ("X", "Y", "outside place")
    assert whole.members_of(2).tolist() == [0]
    assert place.with_remainder("A").codes == ("A", "X", "Y")
    assert school.with_remainder() is school
    with pytest.raises(GeographyError, match="has an entity 'X' already"):
        place.with_remainder("X")


def test_reordered_names_the_same_finest_geounits():
    family = entities_from_pairs(SPINE, "area", ["a2", "a1", "a2", "b2"], ["p", "q", "q", "q"])
    rows = np.array([3, 1, 0, 2])  # the present row of each new one
    moved = family.reordered(rows)
    for entity in range(2):
        assert sorted(rows[moved.members_of(entity)]) == family.members_of(entity).tolist()
        assert np.all(np.diff(moved.members_of(entity)) > 0)
    with pytest.raises(GeographyError, match="each of 4 rows once"):
        family.reordered(np.array([0, 0, 1, 2]))
    with pytest.raises(GeographyError, match="each of 4 rows once"):
        family.reordered(np.array([0, 1]))


COLUMN_ERRORS = {
    "a block that does not exist": (
        {"geocode": ["b1", "a1", "zz", "a2"]},
        "entity-geocode",
        ["1 rows", "'zz'"],
    ),
    "a null block": ({"geocode": ["b1", "a1", None, "a2"]}, "entity-geocode", ["1 rows", "null"]),
    "a block twice": (
        {"geocode": ["b1", "a1", "b1", "a2"]},
        "entity-overlap",
        ["1 finest", "Block 'b1'", "a row for each pair"],
    ),
    "a name that is empty": ({"place": ["Y", "", "X", "Y"]}, "entity-table", ["place", "empty", "null"]),
    "rows that differ": ({"place": ["Y"]}, "entity-table", ["place", "has 1 rows", "has 4"]),
    "a block without a row": (
        {"geocode": ["b1", "a1", "b2"], "place": ["Y", None, "X"], "school": ["s"] * 3},
        "entity-geocode",
        ["1 finest", "Block 'a2'", "leave the entity null"],
    ),
}


@pytest.mark.parametrize("case", COLUMN_ERRORS)
def test_columns_refuse_and_say_how_to_mend(case):
    changed, code, words = COLUMN_ERRORS[case]
    with pytest.raises(GeographyError) as caught:
        entities_from_columns(SPINE, table(**changed), ("place", "school"))
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)


def test_a_missing_column_is_named():
    with pytest.raises(GeographyError, match=r"no column county\. It has: geocode, place, school"):
        entities_from_columns(SPINE, table(), ("place", "county"))


PAIR_ERRORS = {
    "a block that does not exist": (
        (["zz", "a1"], ["p", "p"]),
        "entity-geocode",
        ["entity family area", "'zz'"],
    ),
    "only blocks that do not exist": ((["zz"], ["p"]), "entity-geocode", ["1 rows", "no row has one"]),
    "a pair twice": ((["a1", "a1"], ["p", "p"]), "entity-table", ["'a1'", "'p'", "more than once"]),
    "an overlap": ((["a1", "a1"], ["p", "q"]), "entity-overlap", ["'a1'", "'p'", "'q'", "disjoint"]),
    "a name missing": ((["a1"], [None]), "entity-table", ["1 rows", "no entity"]),
    "lengths that differ": ((["a1", "a2"], ["p"]), "entity-table", ["2 geocodes", "1 entities"]),
}


@pytest.mark.parametrize("case", PAIR_ERRORS)
def test_pairs_refuse_and_say_how_to_mend(case):
    (geocodes, entities), code, words = PAIR_ERRORS[case]
    with pytest.raises(GeographyError) as caught:
        entities_from_pairs(SPINE, "area", geocodes, entities, disjoint=True)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)
