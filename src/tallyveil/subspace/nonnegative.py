"""The nearest integer table without negative counts that has the same invariants as a given table.

Problem. A table y of integers has the invariants of some table without negative counts, but some y_i are negative.
Wanted is an integer table w >= 0 with A w = A y whose l1 distance from y is least.

Steps for one block of cells whose sum is kept. Negative cells become 0, and what this adds is taken from the others:
w_i = max(0, y_i - t) for one level t, and some cells at or above the level keep one more, so that the sum is right. No
table is nearer: the l1 distance is twice the sum of the negative counts, which every w >= 0 with this sum has to move.
Among the tables at this distance, w is also nearest in the l2 distance.

Steps for two-way margins. Negative cells become 0, which leaves rows and columns with more than their margins. Units
are then moved along shortest paths from a row with too much to a column with too much. A step from a row to a column
takes units from their cell, and a step from a column to a row gives units to their cell. A step costs +1 for each unit
that moves a cell away from y, and -1 for each unit that moves it back. Shortest paths keep the table nearest among all
tables with its margins (successive shortest paths; Ahuja, Magnanti, Orlin 1993, section 9.7).

Stopping rule. The margins are those of y. A path exists as long as they are not, because some table without negative
counts has these margins.

Ties. Cells at the same level, and paths of the same length, are taken in an order that the caller draws at random. A
fixed order would favour the same cells in every release.

Worked case. y = (-3, 5, 2), one sum: t = 2 takes 2 from 5 and 2 from 2, which is one unit too many. So one of the two
keeps one more: w = (0, 3, 1) or (0, 4, 0). Both are at l1 distance 6.
"""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.subspace.structure import Structure, StructureKind

_FAR = np.int64(1) << 60
"""Distance of what cannot be reached. Twice it is 2**61, so a sum of two of them does not overflow 64 bits."""


def nearest_nonnegative(table: Integers, structure: Structure, order: Integers) -> Integers:
    """The nearest table of integers from 0 with the same invariants, in the l1 distance.

    Args:
        table: int64 [n_cells]; some table without negative counts has its invariants.
        structure: Structure of the invariants: every block of like cells sums to a constant, or two-way margins.
        order: A random permutation of the cells, which decides among equally near tables.
    Returns:
        int64 [n_cells].
    Raises:
        SolverError: no such table exists, or the structure is another one.
    Privacy: post-processing of the given table.
    """
    nearest = np.maximum(table, 0)
    if structure.sums_vanish:
        for block in structure.blocks:
            cells = block[np.argsort(order[block])]
            nearest[cells] = _with_sum(table[cells])
    elif structure.kind is StructureKind.TWO_WAY:
        grid = structure.grid
        grid = grid[np.argsort(order[grid[:, 0]])][:, np.argsort(order[grid[0]])]
        nearest[grid.ravel()] = _with_margins(table[grid]).ravel()
    else:
        raise _impossible()
    return nearest


def _with_sum(values: Integers) -> Integers:
    """max(0, y - t) with the sum of y; the last of the cells at or above the level keep one more."""
    total = int(values.sum())
    if total < 0:
        raise _impossible()
    low, high = (
        0,
        int(values.max(initial=0)),
    )  # the sum at t = low is at least the total, at high it is at most that
    while low < high:
        middle = (low + high) // 2
        if int(np.maximum(values - middle, 0).sum()) <= total:
            high = middle
        else:
            low = middle + 1
    lowered = np.maximum(values - low, 0)
    at_level = np.flatnonzero(values >= low) if low else np.empty(0, dtype=np.int64)
    missing = total - int(lowered.sum())
    lowered[at_level[at_level.size - missing :]] += 1
    return lowered


def _with_margins(values: Integers) -> Integers:
    """The nearest table by successive shortest paths."""
    table = np.maximum(values, 0)
    rows, columns = (table.sum(axis=a) - values.sum(axis=a) for a in (1, 0))
    while rows.any():
        path = _shortest_path(table, values, np.flatnonzero(rows > 0), np.flatnonzero(columns > 0))
        amount = min(int(rows[path[0]]), int(columns[path[-1]]), *_capacities(table, values, path))
        for step, (row, column) in enumerate(_cells(path)):
            table[row, column] += amount if step % 2 else -amount
        rows[path[0]] -= amount
        columns[path[-1]] -= amount
    return table


def _cells(path: list[int]) -> list[tuple[int, int]]:
    """The cells of a path row, column, row, ..., column."""
    return [(path[i], path[i + 1]) if i % 2 == 0 else (path[i + 1], path[i]) for i in range(len(path) - 1)]


def _capacities(table: Integers, values: Integers, path: list[int]) -> list[int]:
    """For each step, how many units it can move at its cost."""
    capacities = []
    for step, (row, column) in enumerate(_cells(path)):
        now, start = int(table[row, column]), max(0, int(values[row, column]))
        if step % 2:
            capacities.append(start - now if now < start else int(_FAR))
        else:
            capacities.append(now - start if now > start else now)
    return capacities


def _shortest_path(table: Integers, values: Integers, rows: Integers, columns: Integers) -> list[int]:
    """A shortest path row, column, ..., column, by rounds of relaxation (Bellman, Ford)."""
    start = np.maximum(values, 0)
    take = np.where(table > start, -1, np.where(table > 0, 1, _FAR))
    give = np.where(table < start, -1, 1).T
    to_row = np.full(table.shape[0], _FAR)
    to_row[rows] = 0
    to_column = np.full(table.shape[1], _FAR)
    before_row = np.full(table.shape[0], -1)
    before_column = np.full(table.shape[1], -1)
    while True:
        changed = _relaxed(to_row, take, to_column, before_column)
        if not changed or not _relaxed(to_column, give, to_row, before_row):
            break
    end = int(columns[np.argmin(to_column[columns])])
    if to_column[end] >= _FAR:
        raise _impossible()
    path = [end]
    while True:
        path.append(int(before_column[path[-1]]))
        if before_row[path[-1]] < 0:
            return path[::-1]
        path.append(int(before_row[path[-1]]))


def _relaxed(source: Integers, costs: Integers, target: Integers, before: Integers) -> bool:
    """Shorten the distances of the target by one step from the source; returns whether any became shorter."""
    lengths = source[:, None] + costs
    best = lengths.argmin(axis=0)
    shorter = lengths[best, np.arange(target.size)]
    better = (shorter < target) & (shorter < _FAR)
    target[better] = shorter[better]
    before[better] = best[better]
    return bool(better.any())


def _impossible() -> SolverError:
    return SolverError(
        "no table without negative counts has these invariants, or they have a structure for which none is looked "
        "for. Release the table with outputs 'free'; if it was a table of counts, please report this.",
        code="check-failed",
    )
