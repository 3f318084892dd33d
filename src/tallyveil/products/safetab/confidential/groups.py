"""True counts of population groups in the Census layout: the groups of a region are its iterations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import REDACTED
from tallyveil.kernels.records.safetab_groups import IterationMaps, RegionBlocks, count_tables, count_totals
from tallyveil.products.safetab.confidential.records import ConfidentialPersons
from tallyveil.products.safetab.public.ages import FINEST_CELLS
from tallyveil.products.safetab.public.plan import LevelSet
from tallyveil.products.safetab.public.regions import Regions


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PersonCounts:
    """Counts of the people of one run in its population groups.

    Attributes:
        persons: The people. Confidential.
        regions: The public geography.
    """

    persons: ConfidentialPersons
    regions: Regions

    def __repr__(self) -> str:
        return f"PersonCounts(run={self.regions.run!r}, persons={REDACTED})"

    def of(self, level: LevelSet) -> "_SetCounts":
        """The counts of one level set."""
        view = level.view
        # The kernel counts race and ethnicity in one pass over the people of a block.
        maps = IterationMaps(view.alone_of, view.combination_of, view.ethnicity_of)
        return _SetCounts(self.persons, self.regions.blocks_of(level.geography), maps, len(view.iterations))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _SetCounts:
    """Counts of the groups of one level set. Rows are regions."""

    persons: ConfidentialPersons
    blocks: RegionBlocks
    maps: IterationMaps
    width: int

    def totals(self, rows: Integers) -> Integers:
        """People in each group of some regions."""
        # Zeros, because the kernel adds. int64, because noise is added in place and may be large.
        counts = np.zeros((len(rows), self.width), np.int64)
        count_totals(rows, self.blocks, self.persons.coded(), self.maps, counts)
        return counts

    def tables(self, rows: Integers, slots: NDArray[np.int32], n: int) -> Integers:
        """Tables of sex by 23 ages of some groups; see `LevelCounts.tables`."""
        # One row more than asked for: the kernel adds people without a slot there instead of branching.
        finest = np.zeros((n + 1, FINEST_CELLS), np.int64)
        persons = self.persons
        count_tables(rows, self.blocks, persons.coded(), persons.cells, self.maps, slots, finest)
        return finest[:n]
