import numpy as np
import polars as pl
import pytest

from tallyveil.errors import ConfigError
from tallyveil.synthetic.country import (
    LARGEST_COUNTRY,
    _state_of_county,
    _tract_of_block_group,
    make_geography,
)


def geography(n_blocks: int, seed: int = 3) -> pl.DataFrame:
    return make_geography(n_blocks, np.random.Generator(np.random.PCG64(seed)))


@pytest.mark.parametrize("n_blocks", [1, 2, 17, 3_000])
def test_every_block_has_its_place_in_a_tree(n_blocks: int) -> None:
    table = geography(n_blocks)
    assert table.columns == ["geocode", "state", "county", "tract", "block_group"]
    assert table.height == n_blocks
    assert table["geocode"].is_sorted()
    assert table["geocode"].n_unique() == n_blocks
    assert (table["geocode"].str.len_bytes() == 15).all()
    for column, width in (("state", 2), ("county", 5), ("tract", 11), ("block_group", 12)):
        assert (table["geocode"].str.slice(0, width) == table[column]).all()


def test_sizes_are_those_of_a_census() -> None:
    table = geography(60_000)
    blocks = table["block_group"].value_counts()["count"]
    groups = table.group_by("tract").agg(pl.col("block_group").n_unique())["block_group"]
    assert 25 < blocks.mean() < 36
    assert blocks.max() <= 999
    assert 3 < groups.mean() < 4
    assert groups.max() <= 9
    assert table["county"].n_unique() >= 5


def test_a_tract_never_has_more_block_groups_than_one_digit_counts() -> None:
    tracts = _tract_of_block_group(300_000, np.random.Generator(np.random.PCG64(1)))
    assert np.bincount(tracts).max() == 9


def test_small_country_has_several_counties() -> None:
    for seed in range(20):
        assert geography(2_000, seed)["county"].n_unique() >= 3


def test_states_are_not_real_and_split_large_countries_evenly() -> None:
    assert geography(1_000)["state"].unique().to_list() == ["99"]
    table = geography(900_000)
    sizes = table["state"].value_counts().sort("state")
    assert sizes["state"].to_list() == ["97", "98", "99"]
    assert sizes["count"].min() > 200_000
    assert table["geocode"].is_sorted()


def test_states_are_numbered_without_gaps() -> None:
    # One county of 9 tracts beside one of 1: the middle third would hold no county.
    counties = np.repeat([0, 1], [9, 1])
    assert _state_of_county(counties, 3).tolist() == [0, 1]


@pytest.mark.parametrize("n_blocks", [0, -1, LARGEST_COUNTRY + 1])
def test_impossible_sizes_are_refused(n_blocks: int) -> None:
    with pytest.raises(ConfigError, match="number of blocks"):
        geography(n_blocks)


def test_one_large_state_and_many_small_ones_can_be_had() -> None:
    generator = np.random.Generator(np.random.PCG64(3))
    assert make_geography(500_000, generator, 1)["state"].n_unique() == 1
    assert 30 < make_geography(500_000, generator, 51)["state"].n_unique() <= 51
