"""Made-up people of every block by voting age and race, with empty blocks, skewed sizes and segregation."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import ConfigError

# Axes of the table of people: voting age (under 18, 18 and over), and the eight levels of race_ethnicity.
UNDER_18, ADULT = 0, 1
RACES = ("hisp", "white", "black", "aian", "asian", "nhpi", "other", "two")
# Part of the people with each race, in the order of `RACES`, before areas stray from it. The parts sum to 1.
NATIONAL_SHARE = np.array([0.17, 0.60, 0.12, 0.008, 0.055, 0.002, 0.005, 0.04])
# Part of the people of each race that is under 18, in the same order. All must stay below 1, where the odds end.
MINOR_SHARE = np.array([0.32, 0.20, 0.26, 0.28, 0.20, 0.27, 0.28, 0.42])

# Standard deviations of the log shares of races around those of the geounit above. Together they make the segregation.
STRAY = {"county": 0.4, "tract": 0.8, "block_group": 0.4, "geocode": 0.3}

# Part of the blocks without people, such as parks and water. At twice, blocks with people would be rare.
EMPTY_SHARE = 0.38
BLOCK_SIZE_MEDIAN, BLOCK_SIZE_SPREAD, LARGEST_BLOCK = 34.0, 1.0, 2_500.0
# Part of the inhabited blocks with a large institution, such as a prison. Twice as many double their residents.
INSTITUTION_SHARE = 0.006
INSTITUTION_SIZE_MEDIAN, INSTITUTION_SIZE_SPREAD = 130.0, 0.9
# Part of an institution's residents that is under 18: nearly none, so that its block is known by its adults.
INSTITUTION_MINOR_SHARE = 0.003


@dataclass(frozen=True, slots=True)
class BlockTotals:
    """The number of people in each block.

    Attributes:
        people: Shape (n_blocks,).
        institution: Shape (n_blocks,): whether the block has a large institution.
    """

    people: NDArray[np.int64]
    institution: NDArray[np.bool_]

    def rows(self, start: int, stop: int) -> "BlockTotals":
        """The totals of blocks start to stop - 1."""
        return BlockTotals(self.people[start:stop], self.institution[start:stop])


def make_people(
    geography: pl.DataFrame, totals: BlockTotals, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Give every person a voting age and a race.

    Args:
        geography: One row for each block.
        totals: Number of people in each block.
        generator: Source of the random counts.
    Returns:
        Shape (n_blocks, 2, 8): people by voting age and race.
    """
    institution = totals.institution
    races = generator.multinomial(totals.people, _race_shares(geography, generator))
    shift = generator.normal(0.0, 0.5, geography.height)[:, None]
    # Odds and not shares are shifted, so that no share leaves 0 to 1.
    odds = MINOR_SHARE / (1 - MINOR_SHARE) * np.exp(shift)
    minor_share = np.where(institution[:, None], INSTITUTION_MINOR_SHARE, odds / (1 + odds))
    minors = generator.binomial(races, minor_share)
    return np.stack([minors, races - minors], axis=1).astype(np.int64)


def make_totals(
    geography: pl.DataFrame, generator: np.random.Generator, n_people: int | None = None
) -> BlockTotals:
    """Choose the number of people in each block.

    Args:
        geography: One row for each block.
        generator: Source of the random counts.
        n_people: Exact total number of people; None for a random total of about forty people for each block.
    Raises:
        ConfigError: this many people do not fit, or there are fewer people than nonempty blocks.
    """
    n_blocks = geography.height
    group = _index(geography, "block_group")
    n_groups = int(group.max()) + 1
    # Parks, water and farmland are contiguous, so empty blocks form clusters.
    wild = generator.normal(0.0, 0.9, n_groups)[group]
    empty = generator.random(n_blocks) < 1 / (1 + np.exp(-(wild + math.log(EMPTY_SHARE / (1 - EMPTY_SHARE)))))
    density = generator.normal(0.0, 0.5, n_groups)[group]
    size = BLOCK_SIZE_MEDIAN * np.exp(density + generator.normal(0.0, BLOCK_SIZE_SPREAD, n_blocks))
    institution = ~empty & (generator.random(n_blocks) < INSTITUTION_SHARE)
    inmates = INSTITUTION_SIZE_MEDIAN * np.exp(generator.normal(0.0, INSTITUTION_SIZE_SPREAD, n_blocks))
    # At least 60, the size from which a block of adults counts as one large facility.
    size = np.where(institution, 60 + inmates, size)
    size[empty] = 0.0
    if n_people is not None:
        return BlockTotals(_scaled(size, n_people), institution)
    return BlockTotals(_whole(size), institution)


def _whole(size: NDArray[np.float64]) -> NDArray[np.int64]:
    """Integer numbers of people. A block with a size above zero has at least one person."""
    # Rounded up: no inhabited block becomes empty, and none has more than `LARGEST_BLOCK`.
    return np.ceil(np.minimum(size, LARGEST_BLOCK)).astype(np.int64)


def _scaled(size: NDArray[np.float64], n_people: int) -> NDArray[np.int64]:
    """Integer numbers of people in proportion to the sizes, with a given sum."""
    inhabited = np.flatnonzero(size)
    fewest, most = len(inhabited), int(LARGEST_BLOCK) * len(inhabited)
    if not fewest <= n_people <= most:
        raise ConfigError(
            f"number of people: got {n_people}, wanted {fewest} to {most} for the {fewest} blocks that are not "
            "empty. Give a number in that range.",
            code="bad-flag",
        )
    low, high = 0.0, LARGEST_BLOCK / float(size[inhabited].min(initial=1.0)) + 1.0
    for _ in range(60):  # the sum increases with the factor, so bisection finds it
        middle = (low + high) / 2
        low, high = (middle, high) if int(_whole(size * middle).sum()) <= n_people else (low, middle)
    people = _whole(size * low)
    # Rounding leaves a few people over. They are added one by one to blocks with room.
    people[inhabited] = np.maximum(people[inhabited], 1)
    over = n_people - int(people.sum())
    people[inhabited[people[inhabited] < LARGEST_BLOCK][:over]] += 1
    return people


def _race_shares(geography: pl.DataFrame, generator: np.random.Generator) -> NDArray[np.float64]:
    """Race shares of each block, which vary from geolevel to geolevel; shape (n_blocks, 8)."""
    log_shares = np.tile(np.log(NATIONAL_SHARE), (geography.height, 1))
    for column, stray in STRAY.items():
        geounit = _index(geography, column)
        log_shares += generator.normal(0.0, stray, (int(geounit.max()) + 1, len(RACES)))[geounit]
    weights = np.exp(log_shares)
    shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _index(geography: pl.DataFrame, column: str) -> NDArray[np.int64]:
    """Number of each block's geounit, in order of geocode. The table must be sorted."""
    return geography[column].rle_id().to_numpy().astype(np.int64)
