"""The kinds of areas: one tree whose finest geounits are in depth-first order, and families beside it."""

import numpy as np
import polars as pl
import pytest

from tallyveil.explore.areas import KindType, areas_of
from tallyveil.geography.areas import Hierarchies, plain_hierarchies
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.tables import entities_from_columns


@pytest.fixture
def spine():
    blocks = [f"{region}{town}{block}" for region in "AB" for town in "12" for block in "xyz"]
    return spine_from_prefixes(blocks, ["Region", "Town", "Block"], [1, 2, 3])


def family(spine, name, codes):
    columns = {"geocode": spine.geocodes[spine.finest].text, name: pl.Series(codes, dtype=pl.String)}
    return entities_from_columns(spine, columns, [name], "geocode")[0]


def test_a_plain_geography(spine):
    place = family(spine, "place", ["q", None, "p"] * 4)
    areas = areas_of(plain_hierarchies(spine, [place]), {"entities": ["place"]})
    assert areas.tree is spine
    assert [(kind.name, kind.type, kind.n) for kind in areas.kinds] == [
        ("Region", KindType.GEOLEVEL, 2),
        ("Town", KindType.GEOLEVEL, 4),
        ("Block", KindType.GEOLEVEL, 12),
        ("place", KindType.FAMILY, 2),
    ]
    assert [areas.parent(number) for number in range(4)] == [None, 0, 1, None]
    assert areas.kinds[3].family.members_of(0).tolist() == [2, 5, 8, 11]
    assert all(kind.in_order and kind.rises for kind in areas.kinds)


def test_families_without_tables_are_left_out(spine):
    place = family(spine, "place", ["q", None, "p"] * 4)
    areas = areas_of(plain_hierarchies(spine, [place]), {})
    assert [kind.name for kind in areas.kinds] == ["Region", "Town", "Block"]


def test_a_geography_that_the_spine_replaced(spine):
    """The towns are cut on the spine; the explorer has them whole, and what only the spine has as a family."""
    blocks = spine.geocodes[2].text
    groups = [f"g{code[2]}{code[0]}" for code in blocks]
    measured = spine_from_columns(
        {"Region": blocks.str.slice(0, 1), "Group": groups, "Block": blocks}, ["Region", "Group", "Block"]
    )
    own = measured.geocodes[2].text
    towns = family(measured, "Town", own.str.slice(0, 2))
    place = family(measured, "place", ["p" if code.endswith("x") else None for code in own])
    hierarchies = Hierarchies(measured, measured, (place,), (towns,))
    plan = {"entities": ["place"], "spine": {"from": ["Region", "Town", "Block"]}}
    areas = areas_of(hierarchies, plan)
    assert areas.tree.geolevels == ("Region", "Town", "Block")
    assert areas.tree.digest() == spine.digest()
    assert [kind.name for kind in areas.kinds] == ["Region", "Town", "Block", "Group", "place"]
    assert own.gather(areas.measured).to_list() == blocks.to_list()
    for number, ending in ((3, "gxA"), (4, "p")):
        kind = areas.kinds[number]
        row = kind.codes.to_list().index(ending)
        members = kind.family.members_of(row)
        wanted = [code for code in blocks if code[2] == "x" and (ending == "p" or code[0] == "A")]
        assert blocks.gather(members).to_list() == wanted
        assert np.all(np.diff(members) > 0)
    assert [kind.in_order for kind in areas.kinds] == [False, False, False, False, True]
