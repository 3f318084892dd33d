"""Integer linear constraints on the cells of a table: the invariants that noise must not change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

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
