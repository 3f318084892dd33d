"""Integer linear constraints on the cells of a table: their normal forms, and those with a closed form.

Hermite and Smith normal forms are exact, on integers of any size (python-flint). The routines are for dense matrices
of a few hundred rows and columns. `tallyveil.subspace.lattice` reduces larger systems to that size.

Systems whose lattices have closed forms are recognised from the matrix alone. Cells with the same column form a
*block*: the constraints depend only on the sum of a block. If the distinct columns are linearly independent, A z = 0
holds exactly if every block sums to zero. The lattice is then a direct sum of root lattices (vectors that sum to
zero), one for each block. One sum, disjoint sums and nested (laminar) sums are of this kind; nested sums, because the
part of an outer set outside its inner sets also sums to zero. Two-way margins have the other closed form.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpz_mat, nmod_mat

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError

LARGEST_COEFFICIENT: Final = 1 << 31
"""Coefficients must be below this, so that sums over many cells fit into 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintSystem:
    """Sums of cells that are published exactly: A x is the same before and after noise.

    Attributes:
        matrix: A, int64 [n_constraints, n_cells], in compressed rows, sorted, without stored zeros. Read-only.
        names: One for each row, for messages and guarantees.

    Make it with `ConstraintSystem.from_matrix` or `ConstraintSystem.from_sets`, which check their arguments.
    """

    matrix: Any
    names: tuple[str, ...]

    @classmethod
    def from_matrix(cls, matrix: Any, names: Sequence[str] | None = None) -> "ConstraintSystem":
        """A system from a dense or sparse matrix of integers.

        Args:
            matrix: [n_constraints, n_cells]. Floats are accepted if they are integers.
            names: One for each row; by default "constraint 1" and so on.
        Raises:
            ConstraintError: the argument is not a matrix, has no columns, has a coefficient that is not an integer or
                is too large, or the number of names is wrong.
        """
        rows = sp.csr_matrix(matrix) if sp.issparse(matrix) else sp.csr_matrix(_dense(matrix))
        labels = _names(names, rows.shape[0])
        values = _whole(rows, labels)
        checked = sp.csr_matrix((values, rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)
        checked.sum_duplicates()
        checked.eliminate_zeros()
        if checked.shape[1] == 0:
            raise ConstraintError(
                "Constraint matrix: it has no columns, wanted one for each cell of the table. Name the cells to "
                "which noise is added.",
                code="subspace-constraints",
            )
        return cls(_frozen(checked), labels)

    @classmethod
    def from_sets(
        cls, sets: Iterable[Iterable[int]], n_cells: int, names: Sequence[str] | None = None
    ) -> "ConstraintSystem":
        """A system of sums over sets of cells.

        Args:
            sets: For each sum, its cell numbers, each at most once.
            n_cells: Number of cells of the table.
            names: One for each set.
        Raises:
            ConstraintError: a set names a cell that the table does not have, or names a cell twice.
        """
        members = [[int(cell) for cell in cells] for cells in sets]
        labels = _names(names, len(members))
        for label, cells in zip(labels, members, strict=True):
            unknown = sorted({cell for cell in cells if not 0 <= cell < n_cells})
            if unknown:
                raise ConstraintError(
                    f"Constraint '{label}': it names cells {unknown[:5]}, but the table has cells 0 to "
                    f"{n_cells - 1}. Correct the list of cells, or the table.",
                    code="subspace-unknown-cell",
                )
            if len(set(cells)) != len(cells):
                twice = sorted({cell for cell in cells if cells.count(cell) > 1})
                raise ConstraintError(
                    f"Constraint '{label}': it names cells {twice[:5]} more than once, wanted each once. Leave out "
                    "the repetitions, or give a matrix with the coefficients that you mean.",
                    code="subspace-constraints",
                )
        indices = np.array([cell for cells in members for cell in sorted(cells)], dtype=np.int64)
        starts = np.cumsum([0, *(len(cells) for cells in members)])
        ones = np.ones(indices.size, dtype=np.int64)
        return cls.from_matrix(sp.csr_matrix((ones, indices, starts), shape=(len(members), n_cells)), labels)

    @property
    def n_constraints(self) -> int:
        """Number of rows of A."""
        return int(self.matrix.shape[0])

    @property
    def n_cells(self) -> int:
        """Number of columns of A."""
        return int(self.matrix.shape[1])

    def rows(self, chosen: Sequence[int]) -> "ConstraintSystem":
        """The system of some of the rows, in the given order."""
        return ConstraintSystem(
            _frozen(self.matrix[list(chosen)].tocsr()), tuple(self.names[i] for i in chosen)
        )

    def totals(self, table: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """A x for a table x of integers, exactly.

        Args:
            table: Integers of shape [n_cells] or [n_cells, n], below 2**62 / (sum of coefficients) in absolute value.
        Raises:
            ConstraintError: the shape or type is wrong, or the numbers are so large that a sum may overflow.
        """
        cells = checked_cells(table, self.n_cells, "table")
        heaviest = int(abs(self.matrix).sum(axis=1).max()) if self.n_constraints else 0
        largest = int(np.abs(cells).max(initial=0))
        if heaviest * largest >= 1 << 62:
            raise ConstraintError(
                f"Table: cells of up to {largest.bit_length()} bits, with coefficients whose absolute values add up "
                f"to {heaviest}, may overflow 64 bits. Use coarser units for the counts.",
                code="subspace-constraints",
            )
        return np.asarray(self.matrix @ cells, dtype=np.int64)

    def dense(self) -> npt.NDArray[np.int64]:
        """A as a dense array."""
        return np.asarray(self.matrix.toarray(), dtype=np.int64)


def checked_cells(table: npt.ArrayLike, n_cells: int, name: str) -> npt.NDArray[np.int64]:
    """Integers of shape [n_cells] or [n_cells, n], as int64.

    Raises:
        ConstraintError: the shape or type is wrong.
    """
    cells: npt.NDArray[Any] = np.asarray(table)
    if cells.ndim not in (1, 2) or cells.shape[0] != n_cells or cells.dtype.kind not in "iu":
        raise ConstraintError(
            f"Subspace {name}: got shape {cells.shape} and type {cells.dtype}, wanted whole numbers with "
            f"{n_cells} cells along the first axis. Give integers, one for each cell.",
            code="subspace-constraints",
        )
    return cells.astype(np.int64)


def _dense(matrix: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.asarray(matrix)
    if array.ndim != 2 or array.dtype.kind not in "iufb":
        raise ConstraintError(
            f"Constraint matrix: got shape {array.shape} and type {array.dtype}, wanted a matrix of whole "
            "numbers with a row for each constraint and a column for each cell.",
            code="subspace-constraints",
        )
    return array


def _whole(rows: Any, names: tuple[str, ...]) -> npt.NDArray[np.int64]:
    values: npt.NDArray[Any] = rows.data
    if values.dtype.kind == "f":
        whole = np.isfinite(values) & (values == np.rint(values))
        if not whole.all():
            place = int(np.flatnonzero(~whole)[0])
            row = int(np.searchsorted(rows.indptr, place, side="right")) - 1
            raise ConstraintError(
                f"Constraint '{names[row]}': cell {int(rows.indices[place])} has coefficient {float(values[place])}, "
                "wanted an integer. Multiply the row by the common denominator of its coefficients: the invariant "
                "stays the same.",
                code="subspace-not-integer",
            )
    if values.size and not -LARGEST_COEFFICIENT < values.min() <= values.max() < LARGEST_COEFFICIENT:
        raise ConstraintError(
            f"Constraint matrix: coefficients lie in {values.min()}..{values.max()}, wanted absolute values below "
            "2**31. Divide each row by the common divisor of its coefficients.",
            code="subspace-constraints",
        )
    return values.astype(np.int64)


def _names(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"constraint {i + 1}" for i in range(n))
    if len(names) != n:
        raise ConstraintError(
            f"Constraint names: got {len(names)} names for {n} constraints. Give one name for each.",
            code="subspace-constraints",
        )
    return tuple(names)


def _frozen(matrix: Any) -> Any:
    matrix.sort_indices()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.setflags(write=False)
    return matrix


_PRIMES: Final = (2305843009213693951, 2305843009213693921, 2305843009213693907)
"""2**61 - 1, 2**61 - 31 and 2**61 - 45. A rank that falls modulo one of them is noticed, and the next is tried."""


@dataclass(frozen=True, slots=True, eq=False)
class SmithForm:
    """U A V = D, where U and V are unimodular and each diagonal entry of D divides the next.

    Attributes:
        left: U.
        diagonal: D, with the shape of A.
        right: V. Its columns beyond the rank of A are a basis of the kernel of A.
        rank: Number of nonzero diagonal entries.

    Source: Schrijver 1998, section 4.4; Dharangutte et al. 2022, equation 4.
    """

    left: Any
    diagonal: Any
    right: Any
    rank: int


def hermite_columns(matrix: Any) -> tuple[Any, Any, int]:
    """(H, U, rank), where A U = H is in column Hermite form: pivots in the first `rank` columns, then zeros.

    The last columns of the unimodular U are a basis of the integer kernel of A.

    Args:
        matrix: fmpz_mat [k, s].
    Source: Cohen 1993, Proposition 2.4.9.
    """
    k, s = matrix.nrows(), matrix.ncols()
    joined = [[*row, *(int(i == j) for j in range(s))] for i, row in enumerate(matrix.transpose().tolist())]
    if s == 0:
        return matrix, fmpz_mat(0, 0), 0
    form = fmpz_mat(joined).hnf().tolist()
    upper = [row[:k] for row in form]
    rank = sum(any(value != 0 for value in row) for row in upper)
    lower = [row[k:] for row in form]
    hermite = fmpz_mat(upper).transpose() if k else fmpz_mat(0, s)
    return hermite, fmpz_mat(lower).transpose(), rank


def smith_form(matrix: Any) -> SmithForm:
    """The Smith normal form with both transformations.

    It alternates Hermite forms of the matrix and of its transpose until the matrix is diagonal. Then it repairs
    neighbours on the diagonal of which the first does not divide the second.

    Args:
        matrix: fmpz_mat [k, d].
    """
    k, d = matrix.nrows(), matrix.ncols()
    left, right, diagonal = _identity(k), _identity(d), matrix
    while True:
        diagonal, change, _ = hermite_columns(diagonal)
        right = right * change
        flipped, change, _ = hermite_columns(diagonal.transpose())
        left, diagonal = change.transpose() * left, flipped.transpose()
        if not _is_diagonal(diagonal):
            continue
        break_at = _indivisible(diagonal)
        if break_at is None:
            break
        # After adding the later row to the earlier one, the next column operations find their common divisor.
        mixing = _identity(k)
        mixing[break_at, break_at + 1] = 1
        diagonal, left = mixing * diagonal, mixing * left
    rank = sum(diagonal[i, i] != 0 for i in range(min(k, d)))
    return SmithForm(left, diagonal, right, rank)


def elementary_divisors(matrix: Any) -> tuple[int, ...]:
    """The nonzero diagonal of the Smith form, ascending. All are 1 exactly if the rows span a primitive lattice."""
    form = matrix.snf()
    diagonal = (int(form[i, i]) for i in range(min(form.nrows(), form.ncols())))
    return tuple(value for value in diagonal if value)


def independent_columns(matrix: Any) -> list[int]:
    """The first columns that are linearly independent; their number is the rank.

    They are found modulo a prime. Independence modulo a prime implies independence over the rationals. A comparison
    with the exact rank shows that none is missed.

    Args:
        matrix: fmpz_mat.
    Raises:
        ConstraintError: all three primes divide the relevant minors, which practically never happens.
    """
    if matrix.nrows() == 0 or matrix.ncols() == 0:
        return []
    rank = matrix.rank()
    for prime in _PRIMES:
        reduced, rank_found = nmod_mat(matrix, prime).rref()
        # The rank can only fall modulo a prime, so an equal one proves that these columns are independent.
        if rank_found == rank:
            return _pivots(reduced, rank)
    raise ConstraintError(
        "Constraint matrix: its rank could not be determined modulo three primes of 61 bits. Divide each row by the "
        "common divisor of its coefficients.",
        code="subspace-constraints",
    )


def _pivots(reduced: Any, rank: int) -> list[int]:
    pivots: list[int] = []
    column = 0
    for row in range(rank):
        while int(reduced[row, column]) == 0:
            column += 1
        pivots.append(column)
        column += 1
    return pivots


def _identity(n: int) -> Any:
    return fmpz_mat([[int(i == j) for j in range(n)] for i in range(n)]) if n else fmpz_mat(0, 0)


def _is_diagonal(matrix: Any) -> bool:
    return all(value == 0 for i, row in enumerate(matrix.tolist()) for j, value in enumerate(row) if i != j)


def _indivisible(diagonal: Any) -> int | None:
    """The first position whose entry does not divide the next one."""
    for i in range(min(diagonal.nrows(), diagonal.ncols()) - 1):
        here, after = int(diagonal[i, i]), int(diagonal[i + 1, i + 1])
        if (here == 0 and after != 0) or (here != 0 and after % here != 0):
            return i
    return None


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
    return _frozen_array(np.array(grid, dtype=np.int64))


def _flint(columns: Integers) -> Any:
    from flint import fmpz_mat

    return fmpz_mat(columns.shape[0], columns.shape[1], [int(v) for v in columns.ravel()])


def _integers(cells: list[int]) -> Integers:
    return _frozen_array(np.array(cells, dtype=np.int64))


def _frozen_array(array: Integers) -> Integers:
    array.setflags(write=False)
    return array
