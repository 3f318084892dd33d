"""The tree that geocodes of the files give, and the tabulation geography of its blocks."""

import polars as pl
import pytest

from tallyveil.errors import GeographyError
from tallyveil.geography.spine import Spine, geocodes_of
from tallyveil.measurements.layouts.census_2020.write import published_geocodes
from tallyveil.measurements.layouts.described.spine import read_spine, tabulation_blocks

PLAIN = ["4400100010011001", "4400100010011002", "4400100010022001"]
"""Two block groups of one tract of Rhode Island."""
LEVELS = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 16}


def prefixes(blocks: list[str], lengths: dict[str, int] = LEVELS) -> dict[str, list[str]]:
    return {name: sorted({code[:length] for code in blocks}) for name, length in lengths.items()}


def split(blocks: list[str]) -> list[str]:
    """Geocodes of production's kind: the last block lies in another part of the State, and nothing else differs."""
    own = ["0", "0", "1"]
    return [f"{part}44{part}001{part}0{code}" for part, code in zip(own, blocks, strict=True)]


DEEP = {"State": 3, "County": 7, "Tract": 8, "Block_Group": 9, "Block": 25}


def test_a_tabulation_tree_gets_tabulation_geocodes(make_files):
    found = read_spine(make_files({}, prefixes(PLAIN)))
    spine = found.spine
    assert spine.geolevels == tuple(LEVELS)
    assert spine.geocodes[-1].tolist() == ["440010001001001", "440010001001002", "440010001002001"]
    assert spine.geocodes[3].tolist() == ["440010001001", "440010001002"]
    assert found.hierarchies.replaced == ()
    assert found.locate(4, pl.Series([PLAIN[2], "x", PLAIN[0]])).tolist() == [2, -1, 0]
    assert all(one.all() for one in found.measured)
    assert [codes.to_list() for codes in published_geocodes(spine)] == list(prefixes(PLAIN).values())


def test_a_state_in_two_parts_is_one_state_of_the_tabulation_geography(make_files):
    blocks = split(PLAIN)
    found = read_spine(make_files({}, prefixes(blocks, DEEP)))
    spine, hierarchies = found.spine, found.hierarchies
    assert spine.geocodes[0].tolist() == ["044", "144"]
    assert hierarchies.replaced_names == ("State", "County", "Tract")
    assert hierarchies.replaced[0].codes == ("44",)
    assert hierarchies.replaced[0].sizes.tolist() == [3]
    assert spine.geocodes[3].tolist() == ["440010001001", "440010001002"]  # as in the tabulation geography
    codes = published_geocodes(spine)
    assert [one.to_list() for one in codes[:3]] == [["0", "1"], ["00", "10"], ["000", "100"]]
    assert codes[-1].to_list() == ["0000" + PLAIN[0], "0000" + PLAIN[1], "1000" + PLAIN[2]]


def test_a_root_of_everything_has_the_empty_geocode(make_files):
    lengths = {"US": 0, **LEVELS}
    found = read_spine(make_files({}, prefixes(PLAIN, lengths)))
    assert found.spine.geocodes[0].tolist() == ["US"]
    assert found.locate(0, pl.Series(["", ""])).tolist() == [0, 0]
    assert published_geocodes(found.spine)[0].to_list() == [""]


def test_bypassed_geounits_are_listed_and_not_measured(make_files):
    found = read_spine(make_files({"Block": PLAIN[:2]}, prefixes(PLAIN)))
    assert found.measured[-1].tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda codes: codes["Tract"].append("44001000199"),
            "have nothing below them at Block: '44001000199'",
        ),
        (lambda codes: codes["Block_Group"].pop(), "that no table of Block_Group lists: '440010001002'"),
        (lambda codes: codes["Block"].append("44"), "have different lengths, such as '44'"),
        (lambda codes: codes.update(County=codes["Tract"]), "wanted more at each finer geolevel"),
        (lambda codes: codes.update(Block=["44001000100a1001"]), "do not end with the 16 digits"),
        (lambda codes: codes.pop("Block"), "has no geolevel Block"),
    ],
)
def test_what_is_no_tree_is_refused(make_files, change, said):
    codes = prefixes(PLAIN)
    if "16 digits" in said:
        codes = prefixes(["44001000100a1001"])
    change(codes)
    with pytest.raises(GeographyError, match=said) as caught:
        read_spine(make_files({}, codes))
    assert caught.value.code == "layout-geounits"


def test_two_blocks_of_one_tabulation_block(make_files):
    blocks = split([PLAIN[0], PLAIN[1], PLAIN[0]])
    with pytest.raises(GeographyError, match="end with the same tabulation block"):
        read_spine(make_files({}, prefixes(blocks, DEEP)))


def test_the_block_group_is_written_twice():
    assert tabulation_blocks(pl.Series(["xx4400100010011001"])).to_list() == ["440010001001001"]


@pytest.mark.parametrize(
    ("geolevels", "codes"),
    [(("Region", "Block"), ["A"]), (("State", "County", "Tract", "Block_Group", "Block"), ["A"])],
)
def test_a_spine_that_the_layout_cannot_name(geolevels, codes):
    import numpy as np

    offsets = tuple(np.array([0, 1]) for _ in geolevels[1:])
    spine = Spine(geolevels, tuple(geocodes_of(codes, name) for name in geolevels), offsets)
    with pytest.raises(GeographyError, match='Write the layout "tidy"') as caught:
        published_geocodes(spine)
    assert caught.value.code == "layout-unsuited"
