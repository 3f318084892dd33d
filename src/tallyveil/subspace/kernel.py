"""Bases of the integer kernel of a constraint system, in closed form or from the Hermite normal form.

All bases here are bases over the integers: every integer solution of A z = 0 is an integer combination of the columns.
They are sparse if the structure allows it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from flint import fmpz, fmpz_mat

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.smith import hermite_columns, independent_columns, smith_form
from tallyveil.subspace.structure import Structure, StructureKind

Entries: TypeAlias = list[tuple[int, int]]
"""The nonzero entries of one basis vector, as (cell, value)."""


def structured_basis(structure: Structure, n_cells: int) -> Any | None:
    """The closed-form basis of a recognised structure, sparse [n_cells, dimension]; None for a general structure.

    Free cells give unit vectors. A block gives the differences of neighbouring cells, which span all vectors that sum
    to zero. A two-way table gives the moves +1 -1 / -1 +1 on neighbouring rows and columns. These moves are the tensor
    product of two bases of differences, hence a basis of the tensor product of their lattices.

    Source: Conway and Sloane 1999, chapter 4, section 6.1 (the root lattice); Diaconis and Sturmfels 1998 (moves).
    """
    if structure.kind is StructureKind.GENERAL:
        return None
    vectors = _unit_vectors(structure)
    if structure.kind is StructureKind.TWO_WAY:
        grid = structure.grid
        for i in range(grid.shape[0] - 1):
            for j in range(grid.shape[1] - 1):
                a, b, c, d = (int(cell) for cell in grid[i : i + 2, j : j + 2].ravel())
                vectors.append([(a, 1), (b, -1), (c, -1), (d, 1)])
    else:
        vectors.extend(_differences(structure))
    return sparse_columns(vectors, n_cells)


def general_basis(structure: Structure, n_cells: int) -> Any:
    """A basis for any structure: differences within blocks, and a kernel between blocks from the Hermite form."""
    vectors = _unit_vectors(structure) + _differences(structure)
    if structure.blocks:
        heads = [int(block[0]) for block in structure.blocks]
        pivots = pivot_columns(structure.columns)
        for vector in _kernel_between(structure.columns, pivots):
            vectors.append([(heads[b], value) for b, value in vector])
    return sparse_columns(vectors, n_cells)


def smith_basis(system: ConstraintSystem) -> Any:
    """The last columns of V in the Smith form U A V = D, the basis in the paper. For small systems.

    Source: Dharangutte et al. 2022, proof of Proposition 8 (which says "rows" instead of "columns").
    """
    form = smith_form(flint_matrix(system.dense()))
    right = form.right.tolist()
    vectors = [
        [(cell, int(row[column])) for cell, row in enumerate(right) if row[column] != 0]
        for column in range(form.rank, system.n_cells)
    ]
    return sparse_columns(vectors, system.n_cells)


@dataclass(frozen=True, slots=True, eq=False)
class PivotColumns:
    """Columns of A that generate all columns of A over the integers.

    Attributes:
        chosen: Their numbers.
        rows: Independent rows of A; their number is the rank.
        hermite: fmpz_mat [rank, rank], the Hermite form of the chosen columns in those rows.
        transform: fmpz_mat, unimodular: the chosen columns times this matrix are the Hermite form followed by zeros.
        inverse: fmpq_mat, the inverse of `hermite`.
    """

    chosen: tuple[int, ...]
    rows: tuple[int, ...]
    hermite: Any
    transform: Any
    inverse: Any

    @property
    def rank(self) -> int:
        """Rank of A."""
        return len(self.rows)

    def coordinates(self, targets: Any) -> Any:
        """fmpq_mat [rank, n]: coordinates, in the Hermite basis, of columns that are already restricted to `rows`."""
        return self.inverse * targets


def pivot_columns(columns: Integers) -> PivotColumns:
    """Choose columns of A that generate all of them: first independent ones, then those that are still missing.

    Args:
        columns: int64 [k, n].
    """
    whole = flint_matrix(columns)
    rows = independent_columns(whole.transpose())
    # Sparse columns with small entries come first, because a single 1 or -1 generates its whole row.
    order = np.lexsort((np.abs(columns).max(axis=0, initial=0), np.count_nonzero(columns, axis=0)))
    pivots = columns[rows][:, order]
    chosen = independent_columns(flint_matrix(pivots))
    everything = flint_matrix(pivots)
    while True:
        hermite, transform, rank = hermite_columns(flint_matrix(pivots[:, chosen]))
        square = (
            fmpz_mat([[hermite[i, j] for j in range(rank)] for i in range(rank)]) if rank else fmpz_mat(0, 0)
        )
        inverse = square.inv() if rank else fmpz_mat(0, 0)
        missing = _first_fractional(inverse * everything) if rank else []
        if not missing:
            break
        chosen = [*chosen, *missing]
    return PivotColumns(tuple(int(order[j]) for j in chosen), tuple(rows), square, transform, inverse)


def _kernel_between(columns: Integers, pivots: PivotColumns) -> list[Entries]:
    """Kernel vectors of the distinct columns, as (block, value).

    A column f that is not chosen is an integer combination x of the chosen ones, which gives the kernel vector f - x.
    Any kernel vector minus a combination of these has entries only at the chosen columns. The transform contains a
    basis of the chosen columns' own kernel.
    """
    rank, chosen = pivots.rank, pivots.chosen
    transform = pivots.transform.tolist()
    vectors: list[Entries] = [
        [(chosen[i], int(row[column])) for i, row in enumerate(transform) if row[column] != 0]
        for column in range(rank, len(chosen))
    ]
    others = [f for f in range(columns.shape[1]) if f not in set(chosen)]
    if not others:
        return vectors
    targets = flint_matrix(columns[list(pivots.rows)][:, others])
    coordinates, denominator = pivots.coordinates(targets).numer_denom()
    if denominator != 1:
        raise ConstraintError(
            "Constraint matrix: a column is not an integer combination of the pivot columns. This is a defect of "
            "the elimination: please report the matrix.",
            code="subspace-constraints",
        )
    first = fmpz_mat([row[:rank] for row in transform]) if rank else fmpz_mat(len(chosen), 0)
    combined = (first * coordinates).tolist()
    for place, f in enumerate(others):
        inner = [(chosen[i], -int(row[place])) for i, row in enumerate(combined) if row[place] != 0]
        vectors.append([(f, 1), *inner])
    return vectors


def flint_matrix(values: Integers) -> Any:
    """An integer array as fmpz_mat."""
    return fmpz_mat(values.shape[0], values.shape[1], [int(v) for v in values.ravel()])


def sparse_columns(vectors: list[Entries], n_cells: int) -> Any:
    """A sparse int64 matrix in compressed columns, from vectors given by their entries.

    Raises:
        ConstraintError: an entry does not fit into 62 bits.
    """
    values = [value for vector in vectors for _, value in vector]
    if values and max(abs(v) for v in values) >= 1 << 62:
        raise ConstraintError(
            "Lattice basis: an entry does not fit 64 bits. Divide each row by the common divisor of its "
            "coefficients, or use fewer constraints, or constraints that share fewer cells. Disjoint sums, nested "
            "sums and two-way margins always have short bases.",
            code="subspace-constraints",
        )
    cells = np.array([cell for vector in vectors for cell, _ in vector], dtype=np.int64)
    starts = np.cumsum([0, *(len(vector) for vector in vectors)])
    matrix = sp.csc_matrix((np.array(values, dtype=np.int64), cells, starts), shape=(n_cells, len(vectors)))
    matrix.sort_indices()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.setflags(write=False)
    return matrix


def _unit_vectors(structure: Structure) -> list[Entries]:
    return [[(int(cell), 1)] for cell in structure.free]


def _differences(structure: Structure) -> list[Entries]:
    return [[(int(a), 1), (int(b), -1)] for block in structure.blocks for a, b in pairwise(block)]


def _first_fractional(coordinates: Any) -> list[int]:
    """For each coordinate, the first column where it is not an integer; each column once."""
    numerators, denominator = coordinates.numer_denom()
    if denominator == 1:
        return []
    places: dict[int, None] = {}
    for row in numerators.tolist():
        column = next((j for j, value in enumerate(row) if fmpz(value) % denominator != 0), None)
        if column is not None:
            places[column] = None
    return list(places)
