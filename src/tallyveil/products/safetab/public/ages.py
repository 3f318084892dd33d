"""Sex by age, in the details in which a population group can be tabulated.

The finest detail has 46 cells, sex by 23 age groups: cell = 23 * sex + age group, with males first. The cells of
coarser details are unions of these.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

OLDEST: Final = 115
"""Oldest age in years; the published format allows no other. The last group of every detail ends here."""

SEXES: Final = ("1", "2")
"""Male and female, as the published files write them."""

FINEST_CELLS: Final = 46
"""Cells of the finest table: two sexes and 23 age groups."""

STARTS_4: Final = (0, 18, 45, 65)
"""First years of four groups, the coarsest table."""

STARTS_9: Final = (0, 5, 18, 25, 35, 45, 55, 65, 75)
"""First years of nine groups. Each of the four is a union of these."""

STARTS_23: Final = (
    *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40),
    *(45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)  # fmt: skip
"""First years of 23 groups, those of Census tables by sex and age. Each of the nine is a union of these, so
that cells of a coarser detail are sums of finer ones."""


@dataclass(frozen=True, slots=True)
class Detail:
    """One detail: sex by age groups, which are given by their first years.

    Attributes:
        starts: First year of each age group. The last group ends at 115.
    """

    starts: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells, sex by age group."""
        return 2 * len(self.starts)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First and last year of each age group."""
        ends = (*(start - 1 for start in self.starts[1:]), OLDEST)
        return tuple(zip(self.starts, ends, strict=True))

    def cell_of_finest(self) -> NDArray[np.int64]:
        """For each of the 46 finest cells, the cell of this detail that contains it."""
        # "right" minus one: a group that starts at a boundary belongs to the group that starts there.
        age = np.searchsorted(self.starts, STARTS_23, side="right") - 1
        return np.concatenate([age, len(self.starts) + age]).astype(np.int64)

    def cells_in(self, coarser: "Detail") -> NDArray[np.int64]:
        """For each cell of this detail, the cell of a coarser detail that contains it."""
        age = np.searchsorted(coarser.starts, self.starts, side="right") - 1
        return np.concatenate([age, len(coarser.starts) + age]).astype(np.int64)

    def collapse(self, finest: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tables of this detail, [groups, n_cells], from tables of the finest detail, [groups, 46]."""
        tables = np.zeros((len(finest), self.n_cells), np.int64)
        # At most 46 additions of whole columns; np.add.at over cells would be slower and no clearer.
        for cell, into in enumerate(self.cell_of_finest()):
            tables[:, into] += finest[:, cell]
        return tables


DETAILS: Final = (Detail(STARTS_4), Detail(STARTS_9), Detail(STARTS_23))
"""Details 1, 2 and 3. Detail 0 is the total alone."""


def cells_by_age() -> NDArray[np.int8]:
    """The finest age group of each year 0..115."""
    # A table of 116 entries, so that reading a record looks its cell up.
    return (np.searchsorted(STARTS_23, np.arange(OLDEST + 1), side="right") - 1).astype(np.int8)
