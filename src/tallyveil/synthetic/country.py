"""The made-up geography: states, counties, tracts, block groups and blocks."""

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import ConfigError

GEOGRAPHY_COLUMNS = ("geocode", "state", "county", "tract", "block_group")
"""Columns of the geography table: the block's geocode, then those of the geounits it lies in."""

# States are numbered upwards to 99. Up to 21 of them have codes after the last one given to a real state or
# territory (78); more reach down among the real ones.
LAST_STATE, MOST_STATES = 99, 51
BLOCKS_PER_STATE = 400_000
LARGEST_COUNTRY = 12_000_000

# Sizes of the census hierarchy, measured on published 2010 geography.
BLOCKS_PER_BLOCK_GROUP_MEAN, BLOCKS_PER_BLOCK_GROUP_SPREAD = 30.0, 0.6
BLOCK_GROUPS_PER_TRACT_MEAN = 3.5
TRACTS_PER_COUNTY_MEDIAN, TRACTS_PER_COUNTY_SPREAD = 20.0, 1.0


def make_geography(
    n_blocks: int, generator: np.random.Generator, n_states: int | None = None
) -> pl.DataFrame:
    """Lay out a country.

    Args:
        n_blocks: Number of blocks.
        generator: Source of the made-up sizes.
        n_states: Number of states wanted, fewer where there are fewer counties; None for one every
            400,000 blocks.
    Returns:
        One row per block, sorted by geocode, columns `GEOGRAPHY_COLUMNS`, all strings. A geocode has 15
        digits: state 2, county 3, tract 6, block group 1, block 3; each geounit's geocode is a prefix of its
        blocks'.
    Raises:
        ConfigError: the number of blocks is not between 1 and 12 million, or that of states not between 1
            and 51.
    """
    if not 1 <= n_blocks <= LARGEST_COUNTRY:
        raise ConfigError(f"number of blocks: got {n_blocks}, wanted 1 to {LARGEST_COUNTRY}.")
    if n_states is None:
        n_states = math.ceil(n_blocks / BLOCKS_PER_STATE)
    if not 1 <= n_states <= MOST_STATES:
        raise ConfigError(f"number of states: got {n_states}, wanted 1 to {MOST_STATES}.")
    block_groups = _block_group_of_block(n_blocks, generator)
    tracts = _tract_of_block_group(int(block_groups[-1]) + 1, generator)
    counties = _county_of_tract(int(tracts[-1]) + 1, generator)
    states = _state_of_county(counties, n_states)
    state_code = states + (LAST_STATE - states[-1])
    # Real county codes are odd, so that new counties find a place between them.
    county_code = state_code * 1_000 + 2 * _rank_within(states) + 1
    tract_code = county_code[counties] * 1_000_000 + 100 * (101 + _rank_within(counties))
    block_group_code = tract_code[tracts] * 10 + 1 + _rank_within(tracts)
    block_code = block_group_code[block_groups] * 1_000 + _rank_within(block_groups)
    geocode = pl.Series("geocode", block_code).cast(pl.String)
    widths = zip(GEOGRAPHY_COLUMNS[1:], (2, 5, 11, 12), strict=True)
    return pl.DataFrame([geocode, *(geocode.str.slice(0, width).alias(name) for name, width in widths)])


def _block_group_of_block(n_blocks: int, generator: np.random.Generator) -> NDArray[np.int64]:
    mean, spread = BLOCKS_PER_BLOCK_GROUP_MEAN, BLOCKS_PER_BLOCK_GROUP_SPREAD
    # At two blocks each or more, half as many draws as blocks always suffice.
    draws = generator.lognormal(math.log(mean) - spread**2 / 2, spread, n_blocks // 2 + 1)
    return _fill(np.clip(np.rint(draws), 2, 999), n_blocks)


def _tract_of_block_group(n_block_groups: int, generator: np.random.Generator) -> NDArray[np.int64]:
    # The block group is one digit, 1 to 9.
    draws = 1 + generator.poisson(BLOCK_GROUPS_PER_TRACT_MEAN - 1, n_block_groups)
    return _fill(np.minimum(draws, 9), n_block_groups)


def _county_of_tract(n_tracts: int, generator: np.random.Generator) -> NDArray[np.int64]:
    # A small country still has a handful of counties, so that every geolevel is at work.
    median = min(TRACTS_PER_COUNTY_MEDIAN, max(2.0, n_tracts / 5))
    largest = min(2_500, max(1, n_tracts // 3))
    draws = generator.lognormal(math.log(median), TRACTS_PER_COUNTY_SPREAD, n_tracts)
    return _fill(np.clip(np.rint(draws), 1, largest), n_tracts)


def _state_of_county(counties: NDArray[np.int64], n_states: int) -> NDArray[np.int64]:
    """Split counties, in order, into states of about as many tracts each; shape (n_counties,)."""
    tracts = np.bincount(counties)
    middle = np.cumsum(tracts) - tracts / 2
    states = np.minimum((middle * n_states / tracts.sum()).astype(np.int64), n_states - 1)
    # A county larger than a state would leave a gap in the numbering.
    return np.unique(states, return_inverse=True)[1].astype(np.int64)


def _fill(sizes: NDArray[np.float64] | NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Put `total` things into boxes of the sizes given, in order, until none is left; shape (total,)."""
    ends = np.cumsum(sizes.astype(np.int64))
    return np.searchsorted(ends, np.arange(total), side="right").astype(np.int64)


def _rank_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each entry among those of its group; `groups` is sorted."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    rank: NDArray[np.int64] = np.arange(len(groups)) - starts[groups]
    return rank
