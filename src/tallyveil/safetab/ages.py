"""Sex by age, in the four details a population group can be tabulated in.

The finest detail has 46 cells, sex by 23 age groups: cell = 23 * sex + age group, male first. The coarser ones
are unions of these.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

OLDEST: Final = 115
SEXES: Final = ("1", "2")
FINEST_CELLS: Final = 46

STARTS_4: Final = (0, 18, 45, 65)
STARTS_9: Final = (0, 5, 18, 25, 35, 45, 55, 65, 75)
STARTS_23: Final = (
    *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40),
    *(45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Detail:
    """One detail: age groups by their first year, by sex.

    Attributes:
        starts: First year of each age group; the last ends at 115.
    """

    starts: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        """Sex by age groups."""
        return 2 * len(self.starts)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First and last year of each age group."""
        ends = (*(start - 1 for start in self.starts[1:]), OLDEST)
        return tuple(zip(self.starts, ends, strict=True))

    def cell_of_finest(self) -> NDArray[np.int64]:
        """Cell of this detail that each of the 46 finest cells lies in."""
        age = np.searchsorted(self.starts, STARTS_23, side="right") - 1
        return np.concatenate([age, len(self.starts) + age]).astype(np.int64)

    def cells_in(self, coarser: "Detail") -> NDArray[np.int64]:
        """Cell of a coarser detail that each cell of this one lies in."""
        age = np.searchsorted(coarser.starts, self.starts, side="right") - 1
        return np.concatenate([age, len(coarser.starts) + age]).astype(np.int64)

    def collapse(self, finest: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tables of this detail, [groups, n_cells], from finest ones, [groups, 46]."""
        tables = np.zeros((len(finest), self.n_cells), np.int64)
        for cell, into in enumerate(self.cell_of_finest()):
            tables[:, into] += finest[:, cell]
        return tables


DETAILS: Final = (Detail(STARTS_4), Detail(STARTS_9), Detail(STARTS_23))
"""Details 1, 2 and 3; detail 0 is the total alone."""


def cells_by_age() -> NDArray[np.int8]:
    """Finest age group of each year 0..115."""
    return (np.searchsorted(STARTS_23, np.arange(OLDEST + 1), side="right") - 1).astype(np.int8)
