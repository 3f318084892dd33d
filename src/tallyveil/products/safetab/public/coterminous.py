"""Regions that cover the same blocks are measured once and published under each of their names.

The District of Columbia is a state, a county and a place. Three sets of noisy counts of the same people would differ.
Of such regions, the one whose level has the largest budget is measured (the earlier geography if budgets are equal).
The others take its numbers.

Production measures each region by itself, and each region chooses its detail with its own thresholds. Here the measured
stage-1 count is compared with the thresholds of each region that takes its numbers. If these choose a coarser detail
than was measured, the region's cells are sums of measured cells. A finer detail than was measured cannot be made. So a
region takes numbers only from a region that has all its iterations, with the same ones total-only, and no threshold
above its own. Any other region is measured by itself, with its own budget and thresholds, as in production.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.products.safetab.public.plan import LevelSet
from tallyveil.products.safetab.public.regions import Regions, same_blocks

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
        _key(level_set): np.arange(len(regions.ids[level_set.geography]), dtype=np.int64)
        for level_set in sets
    }
    return Tabulation(measured, {_key(level_set): () for level_set in sets})


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
    twins: dict[tuple[str, int], list[Twin]] = {_key(level_set): [] for level_set in sets}
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
            covered[covered] = own_regions[_key(other)][region[covered]]
            twins[_key(other)] += [
                Twin(level_set.geography, int(r), int(region[r]), level_set.thresholds)
                for r in np.flatnonzero(covered)
            ]
            left &= ~covered
        own_regions[_key(level_set)] = left
        measured[_key(level_set)] = np.flatnonzero(left)
    return Tabulation(measured, {key: tuple(region) for key, region in twins.items()})


def _covers(larger: LevelSet, smaller: LevelSet) -> bool:
    """Whether a level set has all iterations of another, in at least the detail that the other's thresholds choose."""
    finer = all(
        threshold <= wanted for threshold, wanted in zip(larger.thresholds, smaller.thresholds, strict=True)
    )
    return finer and set(smaller.view.iterations) <= set(larger.view.iterations)


def _key(level_set: LevelSet) -> tuple[str, int]:
    return level_set.geography, level_set.level
