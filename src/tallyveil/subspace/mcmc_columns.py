"""The vectors along which chains move: the columns of a basis, or more vectors of the lattice, for faster mixing."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.structure import Structure, StructureKind

Entries: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class ChainColumns:
    """Sparse columns along which chains move. Each has a row at which coupled chains are compared.

    The rows are the cells, followed by coordinates. A coordinate counts how often a column was added; only columns of a
    basis that need one have it.

    Attributes:
        n_cells: Number of cells of the table.
        n_rows: Number of cells and coordinates.
        dimension: Dimension of the lattice that the columns span.
        starts: int64 [columns + 1], first entry of each column.
        ends: int64 [columns], position where its cells end and its coordinates start.
        rows, steps: int64 [entries], row and value of each entry.
        pivots: int64 [columns], a row in which the value is +1.
    """

    n_cells: int
    n_rows: int
    dimension: int
    starts: Integers
    ends: Integers
    rows: Integers
    steps: Integers
    pivots: Integers

    @property
    def n_columns(self) -> int:
        """Number of moves in a sweep."""
        return self.pivots.size

    def squares(self) -> Integers:
        """int64 [columns], squared lengths."""
        return self._sums(self.steps**2)

    def absolutes(self) -> Integers:
        """int64 [columns], sums of absolute values."""
        return self._sums(np.abs(self.steps))

    def dense(self) -> Integers:
        """int64 [n_cells, columns]."""
        matrix = np.zeros((self.n_rows, self.n_columns), dtype=np.int64)
        matrix[self.rows, np.repeat(np.arange(self.n_columns), np.diff(self.starts))] = self.steps
        return matrix[: self.n_cells]

    def _sums(self, values: Integers) -> Integers:
        of_cells = np.where(self.rows < self.n_cells, values, 0)
        return np.add.reduceat(of_cells, self.starts[:-1])


def basis_columns(basis: Any) -> ChainColumns:
    """The columns of a basis. The signs of some may be changed.

    A column is compared at a cell that no other column touches and where its value is one. If there is no such cell, it
    gets a coordinate.

    Args:
        basis: int [n_cells, dimension], dense or sparse, with independent columns.
    Raises:
        SolverError: there is no column, or a column is zero.
    """
    matrix = sp.csc_matrix(basis).astype(np.int64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    touched = np.bincount(matrix.indices, minlength=matrix.shape[0])
    columns: list[Entries] = []
    pivots: list[int | None] = []
    for k in range(matrix.shape[1]):
        part = slice(matrix.indptr[k], matrix.indptr[k + 1])
        entries = list(zip(matrix.indices[part].tolist(), matrix.data[part].tolist(), strict=True))
        private_cells = [cell for cell, step in entries if touched[cell] == 1 and abs(step) == 1]
        columns.append(entries)
        pivots.append(private_cells[0] if private_cells else None)
    return _columns(columns, pivots, matrix.shape[0], matrix.shape[1])


def lattice_columns(lattice: Lattice) -> ChainColumns:
    """More columns than a basis has. Along them, chains mix and meet in few sweeps.

    Within each set of cells that the same constraints name, the columns are differences of cells that are 1, 2, 4, ...
    positions apart, as in the butterflies of a fast Fourier transform. With differences of neighbours alone, noise
    would have to diffuse along a path. A two-way table has the rectangles of butterflies of rows and of columns. Other
    structures also have the basis vectors that connect different sets. Each column is compared at its last cell, so a
    sweep moves differences between two chains towards the first cell.

    Args:
        lattice: Any lattice. If a connecting vector has no entry of absolute value one, the basis alone is used.
    """
    structure = lattice.structure
    if structure.kind is StructureKind.TWO_WAY:
        columns = _rectangles(structure)
        columns += [[(int(cell), 1)] for cell in structure.free]
    else:
        columns = [
            [(int(block[i]), -1), (int(block[j]), 1)]
            for block in structure.blocks
            for i, j in butterfly_pairs(block.size)
        ]
        columns += _joining(lattice)
    pivots = [max((cell for cell, step in column if abs(step) == 1), default=None) for column in columns]
    if None in pivots:
        return basis_columns(lattice.sparse_basis)
    return _columns(columns, pivots, lattice.n_cells, lattice.dimension)


def butterfly_pairs(n: int) -> list[tuple[int, int]]:
    """Pairs i, i + s of 0..n - 1, for s = 1, 2, 4, ... and i mod 2 s < s. They connect all numbers."""
    pairs = []
    stride = 1
    while stride < n:
        pairs += [(i, i + stride) for i in range(n - stride) if i % (2 * stride) < stride]
        stride *= 2
    return pairs


def _rectangles(structure: Structure) -> list[Entries]:
    grid = structure.grid
    return [
        [(int(grid[a, c]), 1), (int(grid[a, d]), -1), (int(grid[b, c]), -1), (int(grid[b, d]), 1)]
        for a, b in butterfly_pairs(grid.shape[0])
        for c, d in butterfly_pairs(grid.shape[1])
    ]


def _joining(lattice: Lattice) -> list[Entries]:
    """Basis vectors that butterflies do not span: those that do not sum to zero within every block."""
    block_of = np.full(lattice.n_cells, -1, dtype=np.int64)
    for number, block in enumerate(lattice.structure.blocks):
        block_of[block] = number
    matrix = sp.csc_matrix(lattice.sparse_basis)
    columns = []
    for k in range(matrix.shape[1]):
        cells = matrix.indices[matrix.indptr[k] : matrix.indptr[k + 1]]
        steps = matrix.data[matrix.indptr[k] : matrix.indptr[k + 1]]
        free = bool((block_of[cells] < 0).any())
        sums = np.zeros(len(lattice.structure.blocks), dtype=np.int64)
        np.add.at(sums, np.maximum(block_of[cells], 0) if sums.size else [], steps if sums.size else [])
        if free or sums.any():
            columns.append([(int(cell), int(step)) for cell, step in zip(cells, steps, strict=True)])
    return columns


def _columns(columns: list[Entries], pivots: list[int | None], n_cells: int, dimension: int) -> ChainColumns:
    if not columns or not all(columns):
        raise SolverError(
            f"Chain columns: there are {len(columns)} columns on {n_cells} cells; wanted at least one, and none that "
            "is zero. Give a basis of the lattice.",
            code="subspace-chain-range",
        )
    n_rows = n_cells
    starts, ends, rows, steps, places = [0], [], [], [], []
    for entries, pivot in zip(columns, pivots, strict=True):
        sign = dict(entries)[pivot] if pivot is not None else 1
        rows += [cell for cell, _ in sorted(entries)]
        steps += [sign * step for _, step in sorted(entries)]
        ends.append(len(rows))
        if pivot is None:
            rows.append(n_rows)
            steps.append(1)
            n_rows += 1
        places.append(rows[-1] if pivot is None else pivot)
        starts.append(len(rows))
    arrays = [np.array(part, dtype=np.int64) for part in (starts, ends, rows, steps, places)]
    for array in arrays:
        array.flags.writeable = False
    return ChainColumns(n_cells, n_rows, dimension, *arrays)
