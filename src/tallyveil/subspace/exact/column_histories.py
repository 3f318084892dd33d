"""Which cells of a two-way table have which law, and which columns can share the tables of look-ahead trials.

Problem. Every column has a table g_m for each number m of rows (`column_tables`). Tables take time, and so columns with
the same cells in the same rows should share them.

Variables. The rows are numbered from the last, m = 1, to the first. The lowest cell of a column that is not fixed at 0
is *forced*: the rows above it decide its value.

Steps. The first table of a column belongs to its forced cell, and depends on its law alone. Each further cell that is
not fixed makes a new table from the one before, from its own law and from its exponent. A cell gets the exponent V / v,
where v is its variance given the sum of its column, and V the sum of v over the row. If the cell has variance a and
those below it b, then v = a b / (a + b). Exponents are rounded to sixteenths, so that the sum of their inverses stays
at most 1 and is close to it.

Worked case. All cells have one law, and none is fixed. All columns then share one table for each m, and the exponent of
every cell is the number of columns.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.noise.laws import Law
from tallyveil.subspace.exact.cell_laws import joint_law
from tallyveil.subspace.two_way_grid import TwoWayGrid

_LARGEST_EXPONENT: Final = 1024
"""The variance of a cell counts as at least this share of the row's, so that no exponent is much larger."""


class HistoryStep(NamedTuple):
    """How a table is made.

    Attributes:
        before: The table from which it is made; -1 for the first table of a column.
        law: The law of the cell that is added.
        exponent: 16 times the exponent of the norm; 0 for the first table of a column.
        row: Index of the row of that cell, counted from the last row, 0.
    """

    before: int
    law: int
    exponent: int
    row: int


@dataclass(frozen=True, eq=False)
class LawGrid:
    """The laws of the cells of a two-way table.

    Attributes:
        laws: The distinct laws.
        law_of: int64 [r, c], the number of each cell's law, -1 if the cell is fixed at 0. The rows go from the last to
            the first. Every column has a cell that is not fixed.
    """

    laws: tuple[Law, ...]
    law_of: Integers

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """About the variance of each law; good exponents need no more."""
        return tuple(_rounded(law.standard_deviation() ** 2) for law in self.laws)

    def largest_deviations(self) -> tuple[float, float]:
        """The largest standard deviations of (a row's sum, a column's sum), if its cells were independent."""
        # Rounded variances have few digits, so that these sums do not depend on their order.
        values = np.array([*(float(variance) for variance in self.variances), 0.0])[self.law_of]
        return math.sqrt(values.sum(axis=1).max()), math.sqrt(values.sum(axis=0).max())

    @property
    def is_uniform(self) -> bool:
        """Whether all cells have one law and none is fixed."""
        return len(self.laws) == 1 and bool((self.law_of >= 0).all())

    def said(self) -> str:
        """The table in words, for messages."""
        n_rows, n_columns = self.law_of.shape
        which = str(self.laws[0]) if len(self.laws) == 1 else f"{len(self.laws)} laws"
        return f"{which} on {n_rows} x {n_columns} cells"


def law_grid(grid: TwoWayGrid, law_of_cell: Law | Sequence[Law]) -> LawGrid:
    """The laws of the numbers of a two-way table, from one law for all its cells or from the law of each cell.

    Raises:
        SolverError: a number decides cells whose joint law is not known.
    """
    of_place: dict[int, list[Law]] = defaultdict(list)
    for cell, place in zip(grid.cells.tolist(), grid.places.tolist(), strict=True):
        of_place[place].append(law_of_cell[cell] if isinstance(law_of_cell, Sequence) else law_of_cell)
    joint: dict[tuple[Law, ...], Law] = {}
    numbers: dict[Law, int] = {}
    law_of = np.full(grid.moving.size, -1, dtype=np.int64)
    for place, several in of_place.items():
        key = tuple(several)
        if key not in joint:
            joint[key] = joint_law(several)
        law_of[place] = numbers.setdefault(joint[key], len(numbers))
    return LawGrid(tuple(numbers), np.ascontiguousarray(law_of.reshape(grid.moving.shape)[::-1]))


def histories(grid: LawGrid) -> tuple[Integers, list[HistoryStep], Integers]:
    """(table of each cell [r, c], how each table is made, 16 times the exponent of each cell [r, c]).

    The table is -1 as long as all cells of the column are fixed. The exponent is 0 if the cell is fixed or forced.
    """
    n_rows, n_columns = grid.law_of.shape
    steps = [HistoryStep(-1, law, 0, 0) for law in range(len(grid.laws))]
    places: dict[HistoryStep, int] = {}
    below = list(grid.variances)  # the variance of the cells that each table stands for
    table_of, exponents = np.zeros((2, n_rows, n_columns), dtype=np.int64)
    now = np.full(n_columns, -1, dtype=np.int64)
    for i, laws in enumerate(grid.law_of):
        pairs, group_of = np.unique(np.stack([now, laws]), axis=1, return_inverse=True)
        sizes = np.bincount(group_of.ravel())
        groups = [(int(before), int(law)) for before, law in pairs.T]
        chosen = _exponents(grid, below, groups, sizes.tolist())
        after = []
        for (before, law), exponent in zip(groups, chosen, strict=True):
            if law < 0:
                after.append(before)
            elif before < 0:
                after.append(law)
            else:
                key = HistoryStep(before, law, exponent, i)
                if key not in places:
                    places[key] = len(steps)
                    steps.append(key)
                    below.append(below[before] + grid.variances[law])
                after.append(places[key])
        now = np.array(after)[group_of.ravel()]
        table_of[i] = now
        exponents[i] = np.array(chosen)[group_of.ravel()]
    return table_of, steps, exponents


def norm_exponent(sixteenths: int) -> tuple[int, int]:
    """(power, halvings) for the exponent p = sixteenths / 16 = 2 power / 2**halvings."""
    half = Fraction(sixteenths, 32)
    return half.numerator, half.denominator.bit_length() - 1


def _exponents(
    grid: LawGrid, below: list[Fraction], groups: list[tuple[int, int]], sizes: list[int]
) -> list[int]:
    """16 times the exponent of each group of like cells of a row; 0 for cells that are fixed or forced."""
    powers = [
        grid.variances[law] * below[before] / (grid.variances[law] + below[before])
        if min(before, law) >= 0
        else Fraction(0)
        for before, law in groups
    ]
    if not any(powers):
        return [0] * len(groups)
    least = sum(v * n for v, n in zip(powers, sizes, strict=True)) / _LARGEST_EXPONENT
    raised = [max(v, least) if v else v for v in powers]
    total = sum((v * n for v, n in zip(raised, sizes, strict=True)), Fraction(0))
    exponents = [math.ceil(16 * total / v) if v else 0 for v in raised]
    left = 1 - sum((Fraction(16 * n, p) for p, n in zip(exponents, sizes, strict=True) if p), Fraction(0))
    # Rounding up leaves a little of the sum of inverses. Small exponents, which have coarse steps, get it first.
    for i in sorted(range(len(groups)), key=lambda i: exponents[i]):
        if exponents[i]:
            share = Fraction(16 * sizes[i], exponents[i])
            exponents[i] = max(16, math.ceil(16 * sizes[i] / (share + left)))
            left += share - Fraction(16 * sizes[i], exponents[i])
    return exponents


def _rounded(value: float) -> Fraction:
    mantissa, exponent = math.frexp(value)
    return Fraction(round(256 * mantissa), 256) * Fraction(2) ** exponent
