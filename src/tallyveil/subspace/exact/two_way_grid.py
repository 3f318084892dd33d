"""The grid of a two-way table for look-ahead trials, also if some cells are fixed.

Problem. A constraint that names a single cell fixes it, so that its noise is zero. The other cells of a two-way table
still have row sums and column sums of zero, but the table is no longer a complete grid.

Steps. Cells that a constraint names alone are left out. If a single cell of a constraint is then left, it is fixed too,
and so on. Every other cell that is named must be in exactly two of the other constraints: its row and its column. Rows
and columns are told apart by colouring: two constraints that share a cell are of different kinds. The last row of a
trial must be complete, so some row or column must have no fixed cell.

Worked case. Of a table with 4 rows and 4 columns, cell (1, 1) is fixed. Rows 2 to 4 are complete, and one of them
becomes the last row.
"""

from typing import Any

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.structure import StructureKind


def two_way_grid(lattice: Lattice) -> Integers | None:
    """The cells by row and column, int64 [r, c], -1 where there is no noise; None for constraints of another form.

    The columns are the shorter side, if the rows then have a complete row to end with.
    """
    structure = lattice.structure
    if structure.kind is StructureKind.TWO_WAY:
        grid: Integers | None = structure.grid
    else:
        grid = _incomplete(lattice)
    if grid is None:
        return None
    sides = [grid, grid.T] if grid.shape[1] <= grid.shape[0] else [grid.T, grid]
    for side in sides:
        fixed = (side < 0).sum(axis=1)
        if fixed.min() == 0:
            return np.ascontiguousarray(side[np.argsort(-fixed, kind="stable")])
    return None


def _incomplete(lattice: Lattice) -> Integers | None:
    matrix = lattice.system.matrix
    if not np.all(matrix.data == 1):
        return None
    named: Bools = np.asarray(matrix.sum(axis=0)).ravel() > 0
    moving = np.flatnonzero(named & ~_fixed(matrix))
    margins = matrix[:, moving]
    # A grand total follows from the margins.
    margins = margins[
        np.flatnonzero((np.diff(margins.indptr) > 0) & (np.diff(margins.indptr) < moving.size))
    ].tocsc()
    if not moving.size or not np.all(np.diff(margins.indptr) == 2):
        return None
    pairs = np.sort(margins.indices.reshape(-1, 2), axis=1)
    return _coloured(pairs, moving, margins.shape[0])


def _fixed(matrix: Any) -> Bools:
    """Which cells have no noise: those that a constraint names alone, or with other cells that have no noise."""
    fixed = np.zeros(matrix.shape[1], dtype=np.bool_)
    while True:
        counts = matrix @ (~fixed).astype(np.int64)
        alone = np.unique(matrix[np.flatnonzero(counts == 1)].indices)
        alone = alone[~fixed[alone]]
        if not alone.size:
            return fixed
        fixed[alone] = True


def _coloured(pairs: Integers, cells: Integers, n_margins: int) -> Integers | None:
    """The grid of cells whose two margins are given, if margins can be told apart as rows and columns."""
    neighbours: dict[int, set[int]] = {margin: set() for margin in range(n_margins)}
    for a, b in pairs.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    kind = {0: 0}
    queue = [0]
    while queue:
        here = queue.pop()
        for there in neighbours[here]:
            if there not in kind:
                kind[there] = 1 - kind[here]
                queue.append(there)
            elif kind[there] == kind[here]:
                return None
    rows = [margin for margin, side in kind.items() if side == 0]
    columns = [margin for margin, side in kind.items() if side == 1]
    if len(kind) < n_margins or min(len(rows), len(columns)) < 2:
        return None
    row_of, column_of = ({margin: i for i, margin in enumerate(sorted(side))} for side in (rows, columns))
    grid = np.full((len(rows), len(columns)), -1, dtype=np.int64)
    for (a, b), cell in zip(pairs.tolist(), cells.tolist(), strict=True):
        row, column = (a, b) if a in row_of else (b, a)
        if grid[row_of[row], column_of[column]] >= 0:
            return None
        grid[row_of[row], column_of[column]] = cell
    return grid
