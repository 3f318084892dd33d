"""Maps from values to groups, and the list of a level's groups."""

import numpy as np
import pytest

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.products.safetab.public.groupings import grouping_from_rows, grouping_of_maps, list_groups

ROWS = [("i1", "I"), ("i2", "I"), ("j1", "J"), ("none", None), ("both", "I"), ("both", "J")]
REGION = grouping_from_rows("region", ["region"], "any", [("N", "N"), ("S", "S"), ("W", "W")])


def test_values_and_groups_are_numbered_in_order():
    one = grouping_from_rows("chapter", ["a", "b"], "any", [*ROWS, ROWS[0]])
    assert one.maps[0].values == ("i1", "i2", "j1", "none", "both")
    assert one.groups == ("I", "J")
    assert one.maps[0].pairs.tolist() == [[0, 0], [1, 0], [2, 1], [4, 0], [4, 1]]


@pytest.mark.parametrize(
    ("columns", "match", "most"), [(1, "any", 2), (2, "any", 2), (1, "all", 2), (3, "all", 2)]
)
def test_the_largest_number_of_groups_of_a_record(columns, match, most):
    names = [f"c{n}" for n in range(columns)]
    assert grouping_from_rows("chapter", names, match, ROWS).most == most
    single = grouping_from_rows("code", names, match, [(c, c) for c in "abcdef"])
    assert single.most == (1 if match == "all" else columns)


def test_groups_are_all_combinations_with_the_total_only_ones_last():
    chapter = grouping_from_rows("chapter", ["a"], "any", ROWS)
    listed = list_groups("level", [REGION, chapter], {"region": ["S"], "chapter": ["J"]})
    assert (listed.n_groups, listed.n_adaptive) == (6, 2)
    labels = listed.labels(np.arange(6))
    found = list(zip(labels["region"], labels["chapter"], strict=True))
    assert found[:2] == [("N", "I"), ("W", "I")]
    assert found[2:] == [("N", "J"), ("S", "I"), ("S", "J"), ("W", "J")]
    numbers = listed.place_of[[0, 1, 2, 3, 4, 5]]
    assert [found[place] for place in numbers] == [(r, c) for r in "NSW" for c in "IJ"]


@pytest.mark.parametrize(("total_only", "n_adaptive"), [(False, 1), (True, 0)])
def test_no_grouping_is_the_one_group_of_all_records(total_only, n_adaptive):
    listed = list_groups("all", [], total_only)
    assert (listed.n_groups, listed.n_adaptive, listed.most, listed.labels(np.arange(1))) == (
        1,
        n_adaptive,
        1,
        {},
    )


@pytest.mark.parametrize("total_only", [{"county": ["S"]}, {"region": ["S", "X"]}])
def test_an_unknown_total_only_group_is_refused(total_only):
    with pytest.raises(ConfigError, match="total_only names") as caught:
        list_groups("level", [REGION], total_only)
    assert caught.value.code == "groups-file"


def test_a_level_of_too_many_groups_is_refused_before_they_are_listed():
    wide = grouping_from_rows("wide", ["a"], "any", [(str(n), str(n)) for n in range(3000)])
    with pytest.raises(SchemaError, match="81,000,000,000,000 groups") as caught:
        list_groups("level", [wide] * 4, False)
    assert caught.value.code == "schema-too-large"


def test_a_grouping_of_several_maps_has_the_groups_of_all():
    parts = [
        grouping_from_rows("x", ["a", "b"], "any", ROWS),
        grouping_from_rows("x", ["c"], "all", [("z", "H")]),
    ]
    one = grouping_of_maps("both", [*parts, grouping_from_rows("x", ["d"], "joined", [("q", "J")])])
    assert one.groups == ("H", "I", "J")
    assert one.maps[0].pairs.tolist() == [[0, 1], [1, 1], [2, 2], [4, 1], [4, 2]]
    assert [item.pairs.tolist() for item in one.maps[1:]] == [[[0, 0]], [[0, 2]]]
    assert one.most == 3
    assert grouping_of_maps("two", parts[1:]).most == 1


def test_rows_come_before_the_groups_within():
    chapter = grouping_from_rows("chapter", ["a"], "any", ROWS)
    listed = list_groups("level", [chapter], {"chapter": ["I"]}, REGION)
    assert (listed.n_rows, listed.width, listed.n_groups, listed.n_total_only) == (3, 2, 6, 3)
    labels = listed.labels(np.arange(6))
    found = list(zip(labels["region"], labels["chapter"], strict=True))
    assert found == [(r, c) for r in "NSW" for c in "JI"]
    assert [found[place] for place in listed.places(np.arange(6))] == [(r, c) for r in "NSW" for c in "IJ"]
