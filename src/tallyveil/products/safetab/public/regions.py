"""Blocks, the regions that contain them, and regions that cover the same blocks.

Regions that cover the same blocks are measured once and published under each of their names. The District of
Columbia is a state, a county and a place. Three sets of noisy counts of the same people would differ. Of such
regions, the one whose level has the largest budget is measured (the earlier geography if budgets are equal).
The others take its numbers.

Production measures each region by itself, and each region chooses its detail with its own thresholds. Here
the measured stage-1 count is compared with the thresholds of each region that takes its numbers. If these
choose a coarser detail than was measured, the region's cells are sums of measured cells. A finer detail than
was measured cannot be made. So a region takes numbers only from a region that has all its iterations, with
the same ones total-only, and no threshold above its own. Any other region is measured by itself, with its own
budget and thresholds, as in production.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Int32s, Integers
from tallyveil.errors import GeographyError, SchemaError
from tallyveil.kernels.records import RegionBlocks, order_by_region
from tallyveil.products.safetab.public.config import GEOGRAPHIES, SafetabConfig
from tallyveil.products.safetab.public.files import GEOGRAPHY, read_file, some
from tallyveil.products.safetab.public.plan import LevelSet

NO_PLACE = 99999
"""PLACEFP of a block in no place."""

NO_AIANNH = 9999
"""AIANNHCE of a block in no tribal area."""

ID_DIGITS = {"USA": 1, "STATE": 2, "COUNTY": 5, "TRACT": 11, "PLACE": 7, "AIANNH": 4}
"""Number of digits of a region's id. Ids in Puerto Rico have the same numbers of digits."""


def base_name(geography: str) -> str:
    """The name of a geography without "PR-", such as `COUNTY` for `PR-COUNTY` and for `COUNTY`."""
    return geography.removeprefix("PR-")


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The regions of one run.

    Attributes:
        run: "US" or "PR".
        blocks: Block numbers (state, county, tract, block: 15 digits), ascending; int64.
        ids: For each geography, its region numbers, ascending; int64.
        region_of: For each geography, the position in `ids` of each block's region, or -1 for none; int32.
    """

    run: str
    blocks: Integers
    ids: Mapping[str, Integers]
    region_of: Mapping[str, Int32s]

    def names(self, geography: str) -> pl.Series:
        """Region ids as published: digits with leading zeros."""
        digits = ID_DIGITS[base_name(geography)]
        return pl.Series(self.ids[geography]).cast(pl.String).str.zfill(digits)

    def blocks_of(self, geography: str) -> RegionBlocks:
        """The blocks of each region."""
        first, blocks = np.zeros(len(self.ids[geography]) + 1, np.int64), np.empty(len(self.blocks), np.int32)
        order_by_region(self.region_of[geography], len(first) - 1, first, blocks)
        return RegionBlocks(first, blocks)

    def digest(self) -> bytes:
        """SHA-256 of the blocks and their regions."""
        digest = hashlib.sha256(self.run.encode())
        digest.update(self.blocks.astype("<i8").tobytes())
        for geography, ids in self.ids.items():
            # The name before its arrays, so that two geographies cannot be exchanged.
            digest.update(geography.encode() + ids.astype("<i8").tobytes())
            digest.update(self.region_of[geography].astype("<i4").tobytes())
        return digest.digest()


def read_regions(folder: Path, config: SafetabConfig) -> dict[str, Regions]:
    """Read GRF-C and make the regions of each run of the config.

    Raises:
        ConfigError, SchemaError, StoreError: the file breaks its format, or has a repeated block.
        GeographyError: a run or a state of the filter has no block.
    """
    path, frame = read_file(folder, GEOGRAPHY)
    state, county, tract, block = GEOGRAPHY.columns[:4]
    numbers = frame.select(
        pl.col(state).alias("state"),
        # 15 digits fit int64 (below 10**15); as a number a block takes 8 bytes instead of a text.
        pl.concat_str(state, county, tract, block).cast(pl.Int64).alias("block"),
        pl.col("PLACEFP").cast(pl.Int64).alias("place"),
        pl.col("AIANNHCE").cast(pl.Int64).alias("aiannh"),
    ).sort("block")
    # People of a repeated block would be counted in either of its regions.
    repeated = numbers.filter(pl.col("block").is_duplicated())
    if repeated.height:
        names = repeated["block"].cast(pl.String).str.zfill(15).unique(maintain_order=True).to_list()
        raise SchemaError(
            f"{path}: {repeated.height} rows repeat a block: {some(names)}. Keep one row for each block.",
            code="safetab-repeated",
        )
    runs = {}
    for run in config.runs:
        numbers_of_run = numbers.filter(pl.col("state").is_in(config.states_of(run)))
        # A state without blocks would have no groups, and its people would be refused later as lost.
        missing = sorted(set(config.states_of(run)) - set(numbers_of_run["state"].unique().to_list()))
        if missing:
            raise GeographyError(
                f"{path} has no block in state(s) {some(missing)} of the {run} run. Add the blocks of these states, "
                "or remove the states from state_filter_us (for Puerto Rico: set run_pr to false).",
                code="safetab-no-blocks",
            )
        runs[run] = _regions(run, numbers_of_run)
    return runs


def _regions(run: str, frame: pl.DataFrame) -> Regions:
    blocks = frame["block"].to_numpy()
    state = blocks // 10**13
    place, aiannh = frame["place"].to_numpy(), frame["aiannh"].to_numpy()
    numbers = {
        # One region for all, with id 1.
        "USA": np.ones_like(blocks),
        "STATE": state,
        "COUNTY": blocks // 10**10,
        "TRACT": blocks // 10**4,
        # Places are numbered within a state; tribal areas may cross states and have one number.
        "PLACE": np.where(place == NO_PLACE, -1, state * 10**5 + place),
        "AIANNH": np.where(aiannh == NO_AIANNH, -1, aiannh),
    }
    ids, region_of = {}, {}
    for geography in GEOGRAPHIES[run]:
        region_numbers = numbers[base_name(geography)]
        ids[geography] = _frozen(np.unique(region_numbers[region_numbers >= 0]))
        region_of[geography] = _frozen(
            np.where(region_numbers >= 0, np.searchsorted(ids[geography], region_numbers), -1).astype(
                np.int32
            )
        )
    return Regions(run, _frozen(np.array(blocks)), ids, region_of)


def same_blocks(regions: Regions, geography: str, other: str) -> Int32s:
    """For each region of a geography, the region of another geography with exactly the same blocks, or -1.

    It uses only the public geography, including empty blocks.
    """
    mine, theirs = regions.region_of[geography], regions.region_of[other]
    n = len(regions.ids[geography])
    lowest, highest = np.full(n, np.iinfo(np.int32).max, np.int32), np.full(n, -2, np.int32)
    inside = mine >= 0
    # One pass: the region's blocks all lie in one other region exactly if lowest and highest agree.
    np.minimum.at(lowest, mine[inside], theirs[inside])
    np.maximum.at(highest, mine[inside], theirs[inside])
    size = np.bincount(mine[inside], minlength=n)
    other_size = np.bincount(theirs[theirs >= 0], minlength=len(regions.ids[other]))
    # All blocks of the region lie in one region of the other geography, and that region has no other blocks.
    alike = (lowest == highest) & (lowest >= 0)
    region = np.where(alike, lowest, 0)
    # Equal numbers of blocks, and one contains the other: the same blocks.
    same = alike & (other_size[region] == size) if len(other_size) else np.zeros(n, bool)
    return np.where(same, region, -1).astype(np.int32)


def first_block_in_all(regions: Regions, geographies: Sequence[str]) -> int | None:
    """A block that lies in a region of every given geography, or None."""
    inside = np.ones(len(regions.blocks), bool)
    for geography in geographies:
        inside &= regions.region_of[geography] >= 0
    blocks = np.flatnonzero(inside)
    return int(regions.blocks[blocks[0]]) if blocks.size else None


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


OWN: Final = -1
"""Region without a twin, in the arrays of `same_blocks`."""


@dataclass(frozen=True, slots=True, eq=False)
class Twin:
    """A region that takes the numbers of another region.

    Attributes:
        geography: Geography of the region.
        region: Its position.
        measured: Position of the measured region, in the geography of the measured level set.
        thresholds: Noisy counts from which a group of the region gets details 1, 2 and 3.
    """

    geography: str
    region: int
    measured: int
    thresholds: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tabulation:
    """Which regions of each level set are measured, and which regions take their numbers.

    Attributes:
        measured: For each level set (geography, level), the positions of the regions that it measures; int64,
            ascending.
        twins: For each level set, the regions of other sets of the level that take numbers of its regions.
    """

    measured: Mapping[tuple[str, int], NDArray[np.int64]]
    twins: Mapping[tuple[str, int], tuple[Twin, ...]]

    @property
    def n_twins(self) -> int:
        """Number of regions, counted by level, that are not measured themselves."""
        return sum(len(twins) for twins in self.twins.values())


def tabulate_all(sets: Sequence[LevelSet], regions: Regions) -> Tabulation:
    """Measure every region of every level set by itself, as in production."""
    measured = {
        level_set.place: np.arange(len(regions.ids[level_set.geography]), dtype=np.int64)
        for level_set in sets
    }
    return Tabulation(measured, {level_set.place: () for level_set in sets})


def tabulate_once(sets: Sequence[LevelSet], regions: Regions) -> Tabulation:
    """Measure regions with the same blocks once for each level.

    Args:
        sets: Level sets of one run.
        regions: The geography of the run.
    """
    # The largest budget measures, because its noise is the smallest. Ties go to the earlier geography, so
    # that the order does not depend on anything else.
    order = sorted(range(len(sets)), key=lambda n: (-sets[n].budget, n))
    measured: dict[tuple[str, int], NDArray[np.int64]] = {}
    twins: dict[tuple[str, int], list[Twin]] = {level_set.place: [] for level_set in sets}
    own_regions: dict[tuple[str, int], NDArray[np.bool_]] = {}
    same: dict[tuple[str, str], NDArray[np.int32]] = {}
    for place, number in enumerate(order):
        level_set = sets[number]
        # Regions that no earlier set covers and that this one measures itself.
        left = np.ones(len(regions.ids[level_set.geography]), bool)
        # Quadratic in the level sets of a run, of which there are at most twelve.
        for earlier in order[:place]:
            other = sets[earlier]
            if other.level != level_set.level or not _covers(other, level_set):
                continue
            pair = level_set.geography, other.geography
            # Both iteration levels ask for the same pairs of geographies.
            if pair not in same:
                same[pair] = same_blocks(regions, *pair)
            region = same[pair]
            covered = left & (region != OWN)
            # Only a region that is measured itself can give numbers: a twin of a twin would have no
            # measurement.
            covered[covered] = own_regions[other.place][region[covered]]
            twins[other.place] += [
                Twin(level_set.geography, int(r), int(region[r]), level_set.thresholds)
                for r in np.flatnonzero(covered)
            ]
            left &= ~covered
        own_regions[level_set.place] = left
        measured[level_set.place] = np.flatnonzero(left)
    return Tabulation(measured, {key: tuple(region) for key, region in twins.items()})


def _covers(larger: LevelSet, smaller: LevelSet) -> bool:
    """Whether a level set has all iterations of another, in at least the detail that the other's thresholds choose."""
    finer = all(
        threshold <= wanted for threshold, wanted in zip(larger.thresholds, smaller.thresholds, strict=True)
    )
    return finer and set(smaller.view.iterations) <= set(larger.view.iterations)
