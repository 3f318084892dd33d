"""Made-up people of every block by voting age and race, with empty blocks, skewed sizes and segregation.

People of two or more races, and Hispanics, report one of 63 sets of races. Some people of a block live in
group quarters; what is made up is which of them, and how many facilities there are.
"""

import math
from collections.abc import Iterator
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


# The six races of cenrace, named by their levels of race_ethnicity, in the order of cenrace.
SINGLE_RACES = ("white", "black", "aian", "asian", "nhpi", "other")
TWO_OR_MORE, HISPANIC = RACES.index("two"), RACES.index("hisp")
RACE_CODES = {"white": 0, "black": 1, "aian": 2, "asian": 3, "nhopi": 4, "sor": 5}

# Shares of sets of two or more races among non-Hispanic people. The other sets divide the rest.
COMMON_SETS = {
    "white_black": 0.24, "white_aian": 0.17, "white_asian": 0.19, "white_nhopi": 0.02, "white_sor": 0.10,
    "black_aian": 0.05, "black_asian": 0.02, "black_sor": 0.04, "aian_asian": 0.006, "asian_nhopi": 0.02,
    "asian_sor": 0.015, "white_black_aian": 0.04, "white_asian_nhopi": 0.015, "white_black_asian": 0.012,
}  # fmt: skip
# Part of the Hispanic people with each single race, in the order of `SINGLE_RACES`; the others have several.
HISPANIC_SINGLE_SHARE = np.array([0.50, 0.045, 0.015, 0.005, 0.002, 0.36])
# Number of rows drawn at once. It limits memory and does not change the draws, which go row by row.
CHUNK = 20_000


@dataclass(frozen=True, slots=True)
class RaceDetail:
    """Shares of the 63 sets of races, by area.

    Attributes:
        two_or_more: Shape (n_areas, 63): shares among non-Hispanics of two or more races; zero for single races.
        hispanic: Shape (n_areas, 63): shares among Hispanics.
    """

    two_or_more: NDArray[np.float64]
    hispanic: NDArray[np.float64]


def tilt_races(
    levels: tuple[str, ...], area_races: NDArray[np.int64], generator: np.random.Generator
) -> RaceDetail:
    """Adjust the national shares of sets of races towards the races of the people in each area.

    Args:
        levels: Levels of cenrace, single races first.
        area_races: Shape (n_areas, 8): people by area and race.
        generator: Source of the random adjustments.
    Returns:
        Shares by area.
    """
    singles = area_races[:, [RACES.index(race) for race in SINGLE_RACES]].astype(np.float64)
    local = (singles + 1) / (singles + 1).sum(axis=1, keepdims=True)
    national = (singles.sum(axis=0) + 1) / (singles.sum() + 6)
    log_tilt = 0.4 * np.log((local + 0.01) / (national + 0.01))
    log_tilt += generator.normal(0.0, 0.3, log_tilt.shape)
    tilts = np.exp(np.clip(log_tilt, -3.0, 3.0) @ _membership(levels).T)
    combined = _combined_shares(levels)
    hispanic = combined * (1 - HISPANIC_SINGLE_SHARE.sum())
    hispanic[: len(SINGLE_RACES)] = HISPANIC_SINGLE_SHARE
    return RaceDetail(two_or_more=_normalised(tilts * combined), hispanic=_normalised(tilts * hispanic))


def draw_sets(
    counts: NDArray[np.int64],
    areas: NDArray[np.int64],
    shares: NDArray[np.float64],
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Give a set of races to each person of several rows.

    Args:
        counts: Shape (n,): number of people in each row.
        areas: Shape (n,): area of each row.
        shares: Shape (n_areas, 63): shares of the sets.
        generator: Source of the random choices.
    Returns:
        Row, code of cenrace, and count, for every count above zero.
    """
    parts = list(_draw_chunks(counts, areas, shares, generator))
    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, empty
    row, code, count = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return row, code, count


def _draw_chunks(
    counts: NDArray[np.int64],
    areas: NDArray[np.int64],
    shares: NDArray[np.float64],
    generator: np.random.Generator,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    for start in range(0, len(counts), CHUNK):
        stop = start + CHUNK
        drawn = generator.multinomial(counts[start:stop], shares[areas[start:stop]])
        row, code = np.nonzero(drawn)
        yield row + start, code, drawn[row, code]


def _membership(levels: tuple[str, ...]) -> NDArray[np.float64]:
    """The races in each level of cenrace; shape (63, 6)."""
    member = np.zeros((len(levels), len(RACE_CODES)))
    for code, level in enumerate(levels):
        member[code, [RACE_CODES[race] for race in level.split("_")]] = 1.0
    return member


def _combined_shares(levels: tuple[str, ...]) -> NDArray[np.float64]:
    """National shares of the sets of two or more races, summing to one; shape (63,)."""
    rare = [code for code, level in enumerate(levels) if code >= len(RACE_CODES) and level not in COMMON_SETS]
    shares = np.zeros(len(levels))
    for level, share in COMMON_SETS.items():
        shares[levels.index(level)] = share
    # Larger sets come later in the list, and are rarer.
    fall = 1.0 / np.arange(4, len(rare) + 4) ** 1.5
    shares[rare] = fall / fall.sum() * (1 - shares.sum())
    return shares


def _normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return shares


HOUSEHOLD, JUVENILE, N_TYPES = 0, 2, 8
"""Codes of attribute hhgq, in the order of preset pl94-persons."""

# Probability of living in the facility, relative to that of its most common residents: (under 18, 18+) by hhgq code.
# For nursing facilities and minors it must be zero, because that is a structural zero.
RESIDENTS = np.array(
    [(0, 0), (0.005, 1), (1, 0.03), (0, 1), (0.1, 1), (0.02, 1), (0.005, 1), (0.3, 1)], dtype=np.float64
)
# A block with only adults is assumed to have one large facility. These are the probabilities of its type, by hhgq code.
LARGE_TYPE_SHARE = np.array([0, 0.05, 0, 0.32, 0.03, 0.46, 0.02, 0.12])
# The same for a small facility in a block of others, by hhgq code; scaled to the sum 1 where it is used.
SMALL_TYPE_SHARE = np.array([0, 0.01, 0.11, 0.20, 0.08, 0.15, 0, 0.45])
LARGE_BLOCK, LARGE_ADULT_SHARE = 60, 0.975
SMALL_BLOCK, SMALL_CHANCE, SECOND_CHANCE, SECOND_SHARE = 20, 0.012, 0.10, 0.15
# Probability that a block has vacant housing units. Where it has residents in households it has housing anyway.
VACANT_CHANCE = 0.08


@dataclass(frozen=True, slots=True)
class Dwellings:
    """Where people live.

    Attributes:
        households: Shape (n_blocks, 2, 8): people in households by voting age and race.
        block: Shape (n,): block of each group of residents.
        hhgq: Shape (n,): code of the group's facility type, 1 to 7.
        residents: Shape (n, 2, 8): residents by voting age and race; a group may have none.
        facilities: Shape (n,): number of facilities, at most the number of residents, so zero without residents.
        housing: Shape (n_blocks,): whether the block has housing units, occupied or vacant.
    """

    households: NDArray[np.int64]
    block: NDArray[np.int64]
    hhgq: NDArray[np.int64]
    residents: NDArray[np.int64]
    facilities: NDArray[np.int64]
    housing: NDArray[np.bool_]


def settle(people: NDArray[np.int64], generator: np.random.Generator) -> Dwellings:
    """Choose who lives in group quarters.

    Args:
        people: Shape (n_blocks, 2, 8): people by voting age and race.
        generator: Source of the random choices.
    Returns:
        Where people live. Household and group quarters populations together are the given people.
    """
    block, hhgq, share = _place_first(people, generator)
    chances = share[:, None] * RESIDENTS[hhgq]
    households = people.copy()
    residents = generator.binomial(households[block], chances[:, :, None]).astype(np.int64)
    households[block] -= residents
    # Some of these blocks also have a small facility of another type.
    # Further types are drawn after the first residents have left, so that nobody lives in two facilities.
    again = np.flatnonzero(generator.random(len(block)) < SECOND_CHANCE)
    # A step of 1 to 6 around the circle of the seven types never returns to the first one.
    second = 1 + (hhgq[again] - 1 + generator.integers(1, N_TYPES - 1, len(again))) % (N_TYPES - 1)
    left = households[block[again]]
    few = generator.binomial(left, SECOND_SHARE * RESIDENTS[second][:, :, None]).astype(np.int64)
    # No block occurs twice in `again`, so that the subtraction by index loses nothing.
    households[block[again]] -= few
    residents = np.concatenate([residents, few])
    numbers = residents.sum(axis=(1, 2))
    # At most one facility, and one more for every 25 residents.
    facilities = np.minimum(generator.geometric(0.6, len(numbers)), 1 + numbers // 25)
    vacant = generator.random(len(people)) < VACANT_CHANCE
    return Dwellings(
        households=households,
        block=np.concatenate([block, block[again]]),
        hhgq=np.concatenate([hhgq, second]),
        residents=residents,
        facilities=np.minimum(facilities, numbers),
        housing=households.any(axis=(1, 2)) | vacant,
    )


def _place_first(
    people: NDArray[np.int64], generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Blocks with group quarters, their main type, and the share of its most common residents who live there."""
    totals = people.sum(axis=(1, 2))
    adults = people[:, ADULT].sum(axis=1)
    large = (totals >= LARGE_BLOCK) & (adults > LARGE_ADULT_SHARE * totals)
    small = ~large & (totals >= SMALL_BLOCK) & (generator.random(len(people)) < SMALL_CHANCE)
    block = np.flatnonzero(large | small)
    types = np.where(
        large[block],
        generator.choice(N_TYPES, len(block), p=LARGE_TYPE_SHARE),
        generator.choice(N_TYPES, len(block), p=SMALL_TYPE_SHARE / SMALL_TYPE_SHARE.sum()),
    )
    # In half of the large facilities all adults of the block live in the facility, in the others nine tenths.
    filled = np.where(generator.random(len(block)) < 0.5, 1.0, 0.9)
    wanted = generator.integers(3, 20, len(block))
    eligible = np.where(types == JUVENILE, (totals - adults)[block], adults[block])
    share = np.where(large[block], filled, np.minimum(wanted / np.maximum(eligible, 1), 0.9))
    return block, types.astype(np.int64), share
