"""Noisy measurements of population groups, as they leave the wall."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.products.safetab.public.plan import LevelSet


@dataclass(frozen=True, slots=True, eq=False)
class TableMeasurements:
    """Noisy tables of the groups with one chosen detail.

    Attributes:
        places: Flat position of each group in the array (rows, adaptive groups); int64, ascending.
        values: Noisy cells; int64, shape (groups, cells).
    """

    places: Integers
    values: Integers


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeasurements:
    """Noisy measurements of all population groups of some rows of one level, including empty groups.

    Attributes:
        rows: Position of each row, in the Census layout that of its region; int64, shape (rows,).
        stage_1: Totals that chose the detail; int64, shape (rows, adaptive groups).
        detail: The chosen detail; int8, the same shape.
        totals: Totals of stage 2 if the detail is 0, otherwise 0; int64, the same shape.
        listed: Flat positions of the groups of detail 0 whose total is above the suppression bound; int64, ascending.
        tables: Tables of details 1, 2 and so on.
        total_only: Totals of the total-only groups; int64, shape (rows, total-only groups).
    """

    rows: Integers
    stage_1: Integers
    detail: NDArray[np.int8]
    totals: Integers
    listed: Integers
    tables: tuple[TableMeasurements, ...]
    total_only: Integers

    @property
    def n_counts(self) -> int:
        """Number of noisy counts in these measurements: two for a group, or one and its cells, or one if total-only."""
        # Each tabulated group has its cells in the place of the second total.
        in_tables = sum(table.values.size - table.places.size for table in self.tables)
        return 2 * self.stage_1.size + in_tables + self.total_only.size


class GroupSource(Protocol):
    """A source of measurements of groups, behind the wall."""

    def measure(self, level_set: LevelSet, rows: Integers) -> Iterator[GroupMeasurements]:
        """Measurements of the given rows, in order, in parts of limited size."""
        ...
