"""What chains move along: the columns of a basis, or more vectors of the lattice, chosen so that chains mix."""

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
    """Columns that chains move along, sparse, each with a row that coupled chains are compared at.

    Rows are the cells, then coordinates: how often a column was added, for columns of a basis that need one.

    Attributes:
        n_cells: Cells of the table.
        n_rows: Cells and coordinates.
        dimension: Of the lattice they span.
        starts: int64 [columns + 1], first entry of each column.
        ends: int64 [columns], where its cells end and its coordinates begin.
        rows, steps: int64 [entries].
        pivots: int64 [columns], a row in which the step is +1.
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
        """Moves of a sweep."""
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
    """Columns of a basis; some may come out with their signs changed.

    A column is compared at a cell that no other column touches, with a step of one; where it has none, at a coordinate.

    Args:
        basis: int [n_cells, dimension], dense or sparse, independent columns.
    Raises:
        SolverError: no column, or a column of zeros.
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
        own = [cell for cell, step in entries if touched[cell] == 1 and abs(step) == 1]
        columns.append(entries)
        pivots.append(own[0] if own else None)
    return _columns(columns, pivots, matrix.shape[0], matrix.shape[1])


def lattice_columns(lattice: Lattice) -> ChainColumns:
    """More columns than a basis has, along which chains mix and meet in few sweeps.

    Within each set of cells that the same constraints name, differences of cells 1, 2, 4, ... places apart, as in the
    butterflies of a Fourier transform: along a path of neighbours noise would have to diffuse. Two-way tables get the
    rectangles of butterflies of rows and of columns; other structures besides the vectors of the basis that join sets.
    Each column is compared at its last cell, so that a sweep drives differences between two chains towards the first.

    Args:
        lattice: Of any structure. Where a joining vector has no step of one, the basis alone is used.
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
    """Pairs i, i + s of 0..n - 1 for s = 1, 2, 4, ... and i mod 2 s < s; they connect all."""
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
    """Vectors of the basis that butterflies do not span: those that do not sum to zero within every block."""
    block_of = np.full(lattice.n_cells, -1, dtype=np.int64)
    for number, block in enumerate(lattice.structure.blocks):
        block_of[block] = number
    matrix = sp.csc_matrix(lattice.sparse_basis)
    found = []
    for k in range(matrix.shape[1]):
        cells = matrix.indices[matrix.indptr[k] : matrix.indptr[k + 1]]
        steps = matrix.data[matrix.indptr[k] : matrix.indptr[k + 1]]
        free = bool((block_of[cells] < 0).any())
        sums = np.zeros(len(lattice.structure.blocks), dtype=np.int64)
        np.add.at(sums, np.maximum(block_of[cells], 0) if sums.size else [], steps if sums.size else [])
        if free or sums.any():
            found.append([(int(cell), int(step)) for cell, step in zip(cells, steps, strict=True)])
    return found


def _columns(columns: list[Entries], pivots: list[int | None], n_cells: int, dimension: int) -> ChainColumns:
    if not columns or not all(columns):
        raise SolverError(
            f"Chain columns: {len(columns)} columns on {n_cells} cells, some of them zero or none at all. Give a basis "
            "of the lattice.",
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
