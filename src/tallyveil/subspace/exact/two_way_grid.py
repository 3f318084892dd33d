"""The grid of a two-way table for look-ahead trials: found, ordered, and its columns told apart by law.

Look-ahead trials (`exact.look_ahead`) draw a table whose cells each belong to one row and one column, all of which sum
to zero; some cells may be missing. Many systems of constraints are such a table, but do not look like one: margins
with fixed cells, or all two-way margins of a three-way table in which one attribute has two levels. Steps that keep
the set of allowed noise vectors:

1. A cell that is alone in a constraint is fixed at 0. It is left out.
2. If one constraint's cells are all in another, larger constraint, they are left out of the larger one.
3. If every other cell is in two constraints, the cells that are in one only are made a constraint. The other
   constraints imply it, if step 4 finds a grid.
4. If every cell is in two constraints, these are told apart as rows and columns by colouring: two constraints that
   share a cell are of different kinds.
5. If there is no such colouring, a constraint with two cells says that one is minus the other. One of the two then
   stands for both, and the steps begin again, until no pair is left.

The rows are put in order from the last to the first, each time one with the most cells in columns that have a cell
already: the rows above the lowest cell of a column decide it, so the order matters for the share of trials that
succeed.

*Which columns can share tables.* Every column has a table g_m for each number m of rows, counted from the last
(`column_tables`). The first belongs to its lowest free cell, and depends on its law alone. Each further free cell
makes a new table from its own law and an exponent V / v, where v is its variance given the sum of its column (a b / (a
+ b), with a of the cell and b of those below), and V the sum of v over the row. Exponents are rounded to sixteenths,
so that the sum of their inverses stays at most 1 and is close to it. Where all cells have one law, all columns share
one table for each m, and the exponent is the number of columns.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.noise.laws import Law
from tallyveil.subspace.constraints import StructureKind
from tallyveil.subspace.exact.convolution import joint_law
from tallyveil.subspace.lattice import Lattice

Members = dict[int, list[tuple[int, int]]]
"""For each cell that stands for others and itself: their numbers and signs."""


@dataclass(frozen=True, slots=True, eq=False)
class TwoWayGrid:
    """A two-way table of numbers, and the cells that each number decides.

    Attributes:
        moving: [r, c], whether there is a number at this place. The others are 0.
        cells: int64 [n], cells of the table that a number decides.
        places: int64 [n], row times c plus column of that number.
        signs: int64 [n], 1 if the cell is that number, -1 if it is minus that number.
    """

    moving: Bools
    cells: Integers
    places: Integers
    signs: Integers

    def turned(self) -> "TwoWayGrid":
        """The same table with rows as columns."""
        n_rows, n_columns = self.moving.shape
        order = row_order(self.moving.T)
        rank = np.argsort(order)
        places = rank[self.places % n_columns] * n_rows + self.places // n_columns
        return TwoWayGrid(np.ascontiguousarray(self.moving.T[order]), self.cells, places, self.signs)


def two_way_grid(lattice: Lattice) -> TwoWayGrid | None:
    """The two-way table behind the constraints of a lattice, or None if they have another form.

    The columns are the shorter side.
    """
    structure = lattice.structure
    if structure.kind is StructureKind.TWO_WAY:
        return _ordered(structure.grid, {cell: [(cell, 1)] for cell in structure.grid.ravel().tolist()})
    matrix = lattice.system.matrix
    if not np.all(matrix.data == 1):
        return None
    sets = [set(part.tolist()) for part in np.split(matrix.indices, matrix.indptr[1:-1])]
    members: Members = {cell: [(cell, 1)] for cells in sets for cell in cells}
    while True:
        sets = _simplified(sets)
        grid = _coloured(sets)
        if grid is not None:
            return _ordered(grid, members)
        paired = _paired(sets, members)
        if paired is None:
            return None
        sets = paired


def _simplified(sets: list[set[int]]) -> list[set[int]]:
    """The constraints without fixed cells, and without the cells of smaller constraints inside them."""
    while True:
        alone = {cell for cells in sets if len(cells) == 1 for cell in cells}
        sets = [cells - alone for cells in sets]
        smaller = _without_subsets([cells for cells in sets if cells])
        if not alone and sum(map(len, smaller)) == sum(map(len, sets)):
            return smaller
        sets = smaller


def _without_subsets(sets: list[set[int]]) -> list[set[int]]:
    """The constraints in their order. From each, those before it by size that lie within it are taken away."""
    maximal: list[tuple[int, set[int]]] = []
    with_cell: dict[int, list[set[int]]] = defaultdict(list)
    for i in sorted(range(len(sets)), key=lambda i: len(sets[i])):
        left = set(sets[i])
        for cell in sorted(sets[i]):
            for smaller in with_cell[cell]:
                if cell in left and smaller <= left:
                    left -= smaller
        if left:
            maximal.append((i, left))
            for cell in left:
                with_cell[cell].append(left)
    return [cells for _, cells in sorted(maximal, key=lambda pair: pair[0])]


def _coloured(sets: list[set[int]]) -> Integers | None:
    """The grid [r, c] of cells, if the constraints can be told apart as rows and columns; -1 where there is none."""
    of_cell: dict[int, list[int]] = defaultdict(list)
    for i, cells in enumerate(sets):
        for cell in cells:
            of_cell[cell].append(i)
    once = [cell for cell, rows_of_cell in of_cell.items() if len(rows_of_cell) == 1]
    for cell in once:
        of_cell[cell].append(len(sets))
    if not of_cell or any(len(rows_of_cell) != 2 for rows_of_cell in of_cell.values()):
        return None
    side = _sides(of_cell)
    if side is None:
        return None
    numbers = {
        margin: i for kind in (0, 1) for i, margin in enumerate(sorted(m for m in side if side[m] == kind))
    }
    shape = [sum(1 for kind in side.values() if kind == wanted) for wanted in (0, 1)]
    grid = np.full(shape, -1, dtype=np.int64)
    for cell, (a, b) in of_cell.items():
        row, column = (a, b) if side[a] == 0 else (b, a)
        if grid[numbers[row], numbers[column]] >= 0:
            return None
        grid[numbers[row], numbers[column]] = cell
    return grid


def _sides(of_cell: dict[int, list[int]]) -> dict[int, int] | None:
    """0 for rows and 1 for columns, by margin; None if margins cannot be told apart."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    for a, b in of_cell.values():
        neighbours[a].add(b)
        neighbours[b].add(a)
    side: dict[int, int] = {}
    for start in sorted(neighbours):
        if start in side:
            continue
        side[start] = 0
        queue = [start]
        while queue:
            here = queue.pop()
            for there in neighbours[here]:
                if there not in side:
                    side[there] = 1 - side[here]
                    queue.append(there)
                elif side[there] == side[here]:
                    return None
    return side


def _paired(sets: list[set[int]], members: Members) -> list[set[int]] | None:
    """The constraints after one cell of each pair stands for both; None if that is not possible. Changes `members`."""
    minus: dict[int, int] = {}
    paired: set[int] = set()
    for cells in _pairs(sets):
        if not cells & paired:
            held_cells, other = sorted(cells)
            minus[other] = held_cells
            paired |= cells
    if not minus:
        return None
    result = []
    for cells in sets:
        coefficients: dict[int, int] = defaultdict(int)
        for cell in cells:
            coefficients[minus.get(cell, cell)] += -1 if cell in minus else 1
        values = {value for value in coefficients.values() if value}
        if len(values) > 1:
            return None
        if values:
            result.append({cell for cell, value in coefficients.items() if value})
    for other, held_cells in minus.items():
        members[held_cells] += [(cell, -sign) for cell, sign in members.pop(other)]
    return result


def _pairs(sets: list[set[int]]) -> list[set[int]]:
    """The constraints with two cells, first those of the longest run. A run of them is likely to be one margin."""
    runs = [list(run) for is_pair, run in groupby(sets, key=lambda cells: len(cells) == 2) if is_pair]
    return [cells for run in sorted(runs, key=len, reverse=True) for cells in run]


def _ordered(grid: Integers, members: Members) -> TwoWayGrid:
    """The grid with the columns on the shorter side and its rows in a good order."""
    side = grid if grid.shape[1] <= grid.shape[0] else grid.T
    side = side[row_order(side >= 0)]
    triples = [
        (cell, place, sign)
        for place, number in enumerate(side.ravel().tolist())
        if number >= 0
        for cell, sign in members[number]
    ]
    cells, places, signs = np.array(triples, dtype=np.int64).T
    return TwoWayGrid(np.ascontiguousarray(side >= 0), cells, places, signs)


def row_order(moving: Bools) -> Integers:
    """The rows from the first to the last, of which each has the most cells in the columns of those after it."""
    totals = moving.sum(axis=1)
    covered = np.zeros(moving.shape[1], dtype=np.bool_)
    left = np.ones(moving.shape[0], dtype=np.bool_)
    order: list[int] = []
    while left.any():
        score = np.where(left, (moving & covered).sum(axis=1) * (moving.shape[1] + 1) + totals, -1)
        best = int(np.flatnonzero(score == score.max())[-1])
        order.append(best)
        left[best] = False
        covered |= moving[best]
    return np.array(order[::-1], dtype=np.int64)


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
