"""Made-up race detail: which of the 63 sets of races is reported by people of two or more races, and by Hispanics."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.synthetic.people import RACES

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
