"""Spines on which sums of siblings are geounits, for constraints on geounits that the measured spine cuts."""

import numpy as np
import pytest

from tallyveil.geography.areas import StatedGeounits, with_sums
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.spine import Spine


def spine_of(*parts):
    """A nation whose states are cut: parts such as "A+R", each with two blocks."""
    codes = [f"{part} {block}" for part in parts for block in range(2)]
    columns = {"US": ["0"] * len(codes), "Part": [code[:-2] for code in codes], "Block": codes}
    return spine_from_columns(columns, list(columns))


def stated(name, level, groups):
    groups = np.array(groups, np.int64)
    codes = [f"{name} {number}" for number in range(int(groups.max()) + 1)]
    return StatedGeounits(name, level, Spine((name,), (codes,), ()), 0, groups)


def blocks_of(spine, name):
    level = spine.level_index(name)
    return {
        code: np.flatnonzero(spine.ancestors(level) == number).tolist()
        for number, code in enumerate(spine.geocodes[level])
    }


def test_a_state_is_a_geounit_above_its_parts():
    spine = spine_of("A+R", "A-R", "B", "C+R", "C-R")
    made = with_sums(spine, [stated("State", 1, [0, 0, 1, 2, 2])])
    assert made.geolevels == ("US", "State/sums", "Part", "Block")
    assert blocks_of(made, "State/sums") == {
        "State 0": [0, 1, 2, 3],
        "State 1": [4, 5],
        "State 2": [6, 7, 8, 9],
    }
    for level in ("US", "Part", "Block"):
        assert blocks_of(made, level) == blocks_of(spine, level)


def test_sums_of_roots_and_coarser_sums_of_the_same_siblings():
    spine = spine_from_columns({"Part": list("aabbcc"), "Block": list("123456")}, ["Part", "Block"])
    made = with_sums(spine, [stated("State", 0, [0, 0, 1]), stated("Division", 0, [0, 0, 0])])
    assert made.geolevels == ("Division/sums", "State/sums", "Part", "Block")
    assert blocks_of(made, "Division/sums") == {"Division 0": [0, 1, 2, 3, 4, 5]}
    assert blocks_of(made, "State/sums") == {"State 0": [0, 1, 2, 3], "State 1": [4, 5]}


def test_geounits_whose_parts_lie_between_each_other_make_one_sum():
    spine = spine_of("A", "B", "C", "D", "E")
    mixed = stated("State", 1, [0, 1, 0, 2, 2])
    assert (mixed.apart, stated("State", 1, [0, 0, 1, 2, 2]).apart) == ("State 0", None)
    made = with_sums(spine, [mixed])
    assert blocks_of(made, "State/sums") == {"State 0": [0, 1, 2, 3, 4, 5], "State 2": [6, 7, 8, 9]}


@pytest.mark.parametrize("whole", [True, False])
def test_a_spine_without_sums_stays_as_it_is(whole):
    spine = spine_of("A", "B")
    assert with_sums(spine, [StatedGeounits("Part", 1, spine, 1)] if whole else []) is spine
