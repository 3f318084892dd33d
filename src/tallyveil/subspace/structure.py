"""Recognises, from the matrix alone, constraint systems whose lattices have closed forms.

Cells with the same column form a *block*: the constraints depend only on the sum of a block. If the distinct columns
are linearly independent, A z = 0 holds exactly if every block sums to zero. The lattice is then a direct sum of root
lattices (vectors that sum to zero), one for each block. One sum, disjoint sums and nested (laminar) sums are of this
kind. Nested sums are, because the part of an outer set outside its inner sets also sums to zero. Two-way margins have
the other closed form.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.smith import independent_columns


class StructureKind(StrEnum):
    """The kinds of constraint systems that are distinguished."""

    UNCONSTRAINED = "no constraint"
    ONE_SUM = "one sum"
    DISJOINT = "disjoint sums"
    LAMINAR = "nested sums"
    BLOCKS = "sums that fix every block of like cells"
    TWO_WAY = "two-way margins"
    GENERAL = "general"


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """How the constraints relate the cells of a table.

    Attributes:
        kind: The recognised kind.
        blocks: For each distinct nonzero column, the cells with this column, ascending.
        columns: int64 [n_constraints, n_blocks], the distinct columns in the order of `blocks`.
        free: Cells that no constraint names.
        grid: int64 [n_rows, n_columns], the cells of a two-way table; empty for other kinds.
    """

    kind: StructureKind
    blocks: tuple[Integers, ...]
    columns: Integers
    free: Integers
    grid: Integers

    @property
    def sums_vanish(self) -> bool:
        """Whether every block sums to zero in every lattice vector."""
        return self.kind not in (StructureKind.TWO_WAY, StructureKind.GENERAL)


def recognise(system: ConstraintSystem) -> Structure:
    """Find the structure of a system. Its rows may be dependent."""
    blocks, columns, free = _blocks(system)
    grid = _grid(system, blocks)
    if grid.size:
        kind = StructureKind.TWO_WAY
    elif len(independent_columns(_flint(columns))) == len(blocks):
        kind = _kind_of_blocks(system, len(blocks))
    else:
        kind = StructureKind.GENERAL
    return Structure(kind, blocks, columns, free, grid)


def _blocks(system: ConstraintSystem) -> tuple[tuple[Integers, ...], Integers, Integers]:
    by_column = system.matrix.tocsc()
    by_column.sort_indices()
    starts, indices, data = by_column.indptr, by_column.indices, by_column.data
    members: dict[bytes, list[int]] = {}
    free: list[int] = []
    for cell in range(system.n_cells):
        part = slice(starts[cell], starts[cell + 1])
        if starts[cell] == starts[cell + 1]:
            free.append(cell)
        else:
            key = indices[part].astype(np.int64).tobytes() + data[part].astype(np.int64).tobytes()
            members.setdefault(key, []).append(cell)
    blocks = tuple(_integers(cells) for cells in members.values())
    first = [int(cells[0]) for cells in blocks]
    columns = np.asarray(by_column[:, first].toarray(), dtype=np.int64)
    columns.setflags(write=False)
    return blocks, columns, _integers(free)


def _kind_of_blocks(system: ConstraintSystem, n_blocks: int) -> StructureKind:
    if n_blocks == 0:
        return StructureKind.UNCONSTRAINED
    matrix = system.matrix
    if not np.all(matrix.data == 1):
        return StructureKind.BLOCKS
    if n_blocks == 1:
        return StructureKind.ONE_SUM
    shared = (matrix @ matrix.T).toarray()
    sizes = np.diag(shared)
    smaller = np.minimum(sizes[:, None], sizes[None, :])
    apart = shared == 0
    np.fill_diagonal(apart, val=True)
    if apart.all():
        return StructureKind.DISJOINT
    if np.all((shared == 0) | (shared == smaller)):
        return StructureKind.LAMINAR
    return StructureKind.BLOCKS


def _grid(system: ConstraintSystem, blocks: tuple[Integers, ...]) -> Integers:
    """The cells of a two-way table by row and column, or an empty array.

    A grand total follows from the margins and is ignored. Each cell is an edge between the two margins that contain it.
    The margins are those of a two-way table exactly if the edges form a complete bipartite graph. One margin may be
    missing, since the others imply it; its cells are then those that only one margin names.
    """
    nothing = np.zeros((0, 0), dtype=np.int64)
    matrix = system.matrix
    if not blocks or not np.all(matrix.data == 1) or any(block.size != 1 for block in blocks):
        return nothing
    inner = np.flatnonzero(np.diff(matrix.indptr) < len(blocks))
    by_column = matrix[inner].tocsc()
    edges: dict[tuple[int, int], int] = {}
    for block in blocks:
        cell = int(block[0])
        margins = by_column.indices[by_column.indptr[cell] : by_column.indptr[cell + 1]].tolist()
        if not 1 <= len(margins) <= 2:
            return nothing
        low, high = (-1, margins[0]) if len(margins) == 1 else (min(margins), max(margins))
        edges[low, high] = cell
    margins_used = sorted({margin for edge in edges for margin in edge})
    first = margins_used[0]
    others = [m for m in margins_used if (first, m) in edges]
    rows = [m for m in margins_used if m not in set(others)]
    if len(rows) < 2 or len(others) < 2 or len(rows) * len(others) != len(edges):
        return nothing
    try:
        grid = [[edges[min(row, column), max(row, column)] for column in others] for row in rows]
    except KeyError:  # some row and column have no common cell, so the table is not complete
        return nothing
    return _frozen(np.array(grid, dtype=np.int64))


def _flint(columns: Integers) -> Any:
    from flint import fmpz_mat

    return fmpz_mat(columns.shape[0], columns.shape[1], [int(v) for v in columns.ravel()])


def _integers(cells: list[int]) -> Integers:
    return _frozen(np.array(cells, dtype=np.int64))


def _frozen(array: Integers) -> Integers:
    array.setflags(write=False)
    return array
