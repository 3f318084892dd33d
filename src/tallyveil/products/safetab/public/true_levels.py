"""Declassified true counts of a level of population groups, beside the tables of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Int32s, Integers
from tallyveil.products.safetab.public.declassified import TRUE
from tallyveil.products.safetab.public.group_plan import MappedLevel

NUMBERS = ("COUNT", "MARGIN", "ESTIMATE", "ESTIMATE_MARGIN")
TOTAL = "TOTAL"
"""Column of the true total of the group that a cell belongs to."""
_POSITION: Final = "cells/position"
"""Column of the position of a group. No grouping has such a name, because no name holds a slash."""


@dataclass(frozen=True, slots=True, eq=False)
class TrueLevel:
    """The true counts of all groups of a level. No privacy protects them.

    Attributes:
        level: The level.
        totals: Records in each group, counted row by row; int64.
        slots: For each group, its place among `finest`; -1 for an empty or a total-only one; int32.
        finest: Tables of the finest cells; int64.
    """

    level: MappedLevel
    totals: Integers
    slots: Int32s
    finest: Integers

    def table(self) -> pl.DataFrame:
        """The true totals, with the labels of the groups."""
        labels = self.level.listed.labels(np.arange(len(self.totals)))
        return pl.DataFrame({**labels, TRUE: self.totals})

    def beside_totals(self, totals: pl.DataFrame) -> pl.DataFrame:
        """Published totals with the true ones, without the labels of the groups."""
        places = self._places(totals)
        return totals.select("DETAIL", *NUMBERS).with_columns(pl.Series(TRUE, self.totals[places]))

    def beside_cells(self, cells: pl.DataFrame) -> pl.DataFrame:
        """Published cells with the true ones and the true totals, without labels, one detail after the other."""
        return pl.concat([self._cells(cells, number) for number in range(1, self.level.ladder.total_only)])

    def _cells(self, cells: pl.DataFrame, number: int) -> pl.DataFrame:
        of_detail = cells.filter(pl.col("DETAIL") == self.level.ladder.names[number])
        table = self.level.ladder.tables[number - 1]
        names = {label: n for n, label in enumerate(self.level.cell_labels(number))}
        cell = of_detail["CELL"].replace_strict(names, return_dtype=pl.Int64).to_numpy()
        places = self._places(of_detail)
        slots = self.slots[places]
        # Slot -1 is an empty group, whose cells are all 0.
        true = np.zeros(len(of_detail), np.int64)
        true[slots >= 0] = table.collapse(self.finest)[slots[slots >= 0], cell[slots >= 0]]
        columns = [pl.Series(TRUE, true), pl.Series(TOTAL, self.totals[places])]
        return of_detail.select("DETAIL", *NUMBERS).with_columns(columns)

    def _places(self, frame: pl.DataFrame) -> Integers:
        """Positions of the groups of published rows."""
        keys: Sequence[str] = [grouping.name for grouping in self.level.listed.groupings]
        if not keys:
            # A level without groupings has one group.
            return np.zeros(frame.height, np.int64)
        labels = pl.DataFrame(self.level.listed.labels(np.arange(len(self.totals))))
        numbered = labels.with_row_index(_POSITION)
        # By labels, because the tables promise no order. The left table's order is kept for the rows.
        placed = frame.select(keys).join(numbered, on=keys, how="left", maintain_order="left")
        return placed[_POSITION].cast(pl.Int64).to_numpy()
