"""The made-up geography: states, counties, tracts, block groups and blocks."""

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import ConfigError

GEOGRAPHY_COLUMNS = ("geocode", "state", "county", "tract", "block_group")
"""Columns of the geography table: the block's geocode, then those of the geounits that contain it."""

# States are numbered upwards to 99. Codes of up to 21 states are above the last code of a real state or territory (78).
# With more states, some codes are the same as codes of real states.
LAST_STATE, MOST_STATES = 99, 51
# Blocks in a state where the number of states is left open. Twice as many halve the states and double the memory,
# because one state is made at a time.
BLOCKS_PER_STATE = 400_000
# Largest number of blocks, above the 11 million of the 2010 Census.
LARGEST_COUNTRY = 12_000_000

# Sizes of the census hierarchy, measured on the published geography of 2010.
BLOCKS_PER_BLOCK_GROUP_MEAN, BLOCKS_PER_BLOCK_GROUP_SPREAD = 30.0, 0.6
# Mean number of block groups of a tract. The codes allow nine, and a mean near it would cut the draws off there.
BLOCK_GROUPS_PER_TRACT_MEAN = 3.5
TRACTS_PER_COUNTY_MEDIAN, TRACTS_PER_COUNTY_SPREAD = 20.0, 1.0


def make_geography(
    n_blocks: int, generator: np.random.Generator, n_states: int | None = None
) -> pl.DataFrame:
    """Lay out a country.

    Args:
        n_blocks: Number of blocks.
        generator: Source of the random sizes.
        n_states: Wanted number of states. There are fewer if there are fewer counties. None gives one state for every
            400,000 blocks.
    Returns:
        One row for each block, sorted by geocode, with columns `GEOGRAPHY_COLUMNS`, all strings. A geocode has 15
        digits: state 2, county 3, tract 6, block group 1, block 3. Each geounit's geocode is a prefix of its blocks'
        geocodes.
    Raises:
        ConfigError: the number of blocks is not between 1 and 12 million, or the number of states is not between 1
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
    # Real county codes are odd, so that new counties can be inserted between them.
    county_code = state_code * 1_000 + 2 * _rank_within(states) + 1
    tract_code = county_code[counties] * 1_000_000 + 100 * (101 + _rank_within(counties))
    block_group_code = tract_code[tracts] * 10 + 1 + _rank_within(tracts)
    block_code = block_group_code[block_groups] * 1_000 + _rank_within(block_groups)
    geocode = pl.Series("geocode", block_code).cast(pl.String)
    widths = zip(GEOGRAPHY_COLUMNS[1:], (2, 5, 11, 12), strict=True)
    return pl.DataFrame([geocode, *(geocode.str.slice(0, width).alias(name) for name, width in widths)])


def _block_group_of_block(n_blocks: int, generator: np.random.Generator) -> NDArray[np.int64]:
    mean, spread = BLOCKS_PER_BLOCK_GROUP_MEAN, BLOCKS_PER_BLOCK_GROUP_SPREAD
    # Every block group has at least two blocks, so half as many draws as blocks are enough.
    draws = generator.lognormal(math.log(mean) - spread**2 / 2, spread, n_blocks // 2 + 1)
    return _fill(np.clip(np.rint(draws), 2, 999), n_blocks)


def _tract_of_block_group(n_block_groups: int, generator: np.random.Generator) -> NDArray[np.int64]:
    # A block group's code is one digit, 1 to 9.
    draws = 1 + generator.poisson(BLOCK_GROUPS_PER_TRACT_MEAN - 1, n_block_groups)
    return _fill(np.minimum(draws, 9), n_block_groups)


def _county_of_tract(n_tracts: int, generator: np.random.Generator) -> NDArray[np.int64]:
    # A small country still has several counties, so that every geolevel has some content.
    median = min(TRACTS_PER_COUNTY_MEDIAN, max(2.0, n_tracts / 5))
    largest = min(2_500, max(1, n_tracts // 3))
    draws = generator.lognormal(math.log(median), TRACTS_PER_COUNTY_SPREAD, n_tracts)
    return _fill(np.clip(np.rint(draws), 1, largest), n_tracts)


def _state_of_county(counties: NDArray[np.int64], n_states: int) -> NDArray[np.int64]:
    """Divide counties, in order, into states with about equal numbers of tracts; shape (n_counties,)."""
    tracts = np.bincount(counties)
    middle = np.cumsum(tracts) - tracts / 2
    states = np.minimum((middle * n_states / tracts.sum()).astype(np.int64), n_states - 1)
    # A county that is larger than a state would leave a gap in the numbering.
    return np.unique(states, return_inverse=True)[1].astype(np.int64)


def _fill(sizes: NDArray[np.float64] | NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Put `total` things into boxes of given sizes, in order; returns the box of each thing, shape (total,)."""
    ends = np.cumsum(sizes.astype(np.int64))
    return np.searchsorted(ends, np.arange(total), side="right").astype(np.int64)


def _rank_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each entry within its group; `groups` is sorted."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    rank: NDArray[np.int64] = np.arange(len(groups)) - starts[groups]
    return rank
