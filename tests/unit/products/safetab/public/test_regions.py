"""Blocks, regions, and regions with the same blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import toy_country as toy

from tallyveil.errors import TallyveilError
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import (
    Regions,
    first_block_in_all,
    read_regions,
    same_blocks,
    tabulate_all,
    tabulate_once,
)


def test_regions_have_their_published_ids(params, data):
    regions = read_regions(data, read_plan(params).config)
    us = regions["US"]
    assert us.names("USA").to_list() == ["1"]
    assert us.names("STATE").to_list() == ["01", "11"]
    assert us.names("COUNTY").to_list() == ["01001", "01003", "11001"]
    assert us.names("TRACT").to_list()[0] == "01001000100"
    assert us.names("PLACE").to_list() == ["0100124", "1150000"]
    assert us.names("AIANNH").to_list() == ["0020"]  # across two states, one area
    assert regions["PR"].names("PR-PLACE").to_list() == ["7200124"]
    assert us.digest() != regions["PR"].digest()
    assert first_block_in_all(us, list(us.ids)) == int("110010002001001")
    assert first_block_in_all(us, ["PLACE", "USA"]) == int("010010001001000")


def test_regions_with_the_same_blocks(params, data):
    us = read_regions(data, read_plan(params).config)["US"]
    assert same_blocks(us, "COUNTY", "STATE").tolist() == [-1, -1, 1]
    assert same_blocks(us, "PLACE", "STATE").tolist() == [-1, 1]
    assert same_blocks(us, "STATE", "COUNTY").tolist() == [-1, 2]
    assert same_blocks(us, "AIANNH", "TRACT").tolist() == [-1]


@given(st.data())
def test_same_blocks_by_sets(data):
    n = data.draw(st.integers(1, 12))
    columns = [data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)) for _ in range(2)]
    ids, region_of = {}, {}
    for name, column in zip(("A", "B"), columns, strict=True):
        values = np.array(column)
        ids[name] = np.unique(values[values >= 0])
        place = np.searchsorted(ids[name], values)
        region_of[name] = np.where(values >= 0, place, -1).astype(np.int32)
    regions = Regions("US", np.arange(n), ids, region_of)
    blocks = {
        name: [{b for b in range(n) if region_of[name][b] == r} for r in range(len(ids[name]))]
        for name in "AB"
    }
    wanted = [blocks["B"].index(own) if own in blocks["B"] else -1 for own in blocks["A"]]
    assert same_blocks(regions, "A", "B").tolist() == wanted


def test_each_region_is_measured_once_or_is_a_twin(params, data):
    plan = read_plan(params)
    for run in plan.runs:
        regions = read_regions(data, plan.config)[run.run]
        once, every = tabulate_once(run.sets, regions), tabulate_all(run.sets, regions)
        assert every.n_twins == 0
        measured = sum(len(m) for m in once.measured.values())
        assert measured + once.n_twins == sum(len(m) for m in every.measured.values())
        for one in run.sets:
            for twin in once.twins[one.geography, one.level]:
                assert twin.measured in once.measured[one.geography, one.level]
                mine = regions.region_of[twin.geography] == twin.region
                theirs = regions.region_of[one.geography] == twin.measured
                assert (mine == theirs).all()


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("01|001|000100|1001|", "01|001|000100|1000|", "safetab-repeated"),
        ("01|001|000100|1001|", "01|01|000100|1001|", "safetab-values"),
        ("|00124|", "|124|", "safetab-values"),
        ("AIANNHCE", "AIANNH", "safetab-columns"),
        ("TABBLKST|TABBLKCOU", "TABBLKCOU|TABBLKST", "safetab-columns"),
    ],
)
def test_bad_geography(params, data, old, new, code):
    edit(data / "GRF-C.txt", old, new)
    with pytest.raises(TallyveilError) as raised:
        read_regions(data, read_plan(params).config)
    assert raised.value.code == code
    assert "GRF-C" in str(raised.value)


def test_further_columns_of_the_geography_are_passed_over(params, data):
    path = data / "GRF-C.txt"
    lines = path.read_text().strip().split("\n")
    path.write_text("\n".join(["OTHER|" + lines[0], *("x|" + line for line in lines[1:]), ""]))
    assert len(read_regions(data, read_plan(params).config)["US"].blocks) == 18


def test_a_state_without_blocks(tmp_path, data):
    params = toy.write_params(tmp_path / "q", state_filter_us=["01", "06"])
    with pytest.raises(TallyveilError, match="'06'") as raised:
        read_regions(data, read_plan(params).config)
    assert raised.value.code == "safetab-no-blocks"
