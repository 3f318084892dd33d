"""What chains move along, and how: columns of a basis, slices or jumps."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat

from tallyveil.errors import SolverError
from tallyveil.subspace.mcmc_tables import ChainTarget, JumpLaws, chain_target, jump_laws
from tallyveil.subspace.mechanisms import LatticeLaw

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SliceMoves:
    """Along each column in turn, a uniform point among those no less likely than a random height.

    Needs no tuning: the slice is as wide as the law is there.

    Source: Neal 2003, "Slice sampling", for whole numbers.
    """


@dataclass(frozen=True, slots=True)
class JumpMoves:
    """Double-geometric jumps along all columns, accepted by Metropolis' rule.

    Attributes:
        scales: One for each column; the paper's parameter is a = exp(-1 / scale). See `tune_jumps`.
        at_once: Columns in one proposal; None for all of them, as in Algorithm 1 of the paper.
    """

    scales: tuple[float, ...]
    at_once: int | None = None


Moves: TypeAlias = SliceMoves | JumpMoves


@dataclass(frozen=True, slots=True, eq=False)
class ChainColumns:
    """Columns that chains move along, sparse, each with a row that tells how often it was added.

    Rows are the cells, then coordinates for those columns that have no cell of their own with a step of one.

    Attributes:
        n_cells: Cells of the table.
        n_rows: Cells and coordinates.
        starts: int64 [columns + 1], first entry of each column.
        ends: int64 [columns], where its cells end and its coordinates begin.
        rows, steps: int64 [entries].
        pivots: int64 [columns], a row in which the step is +1.
    """

    n_cells: int
    n_rows: int
    starts: Integers
    ends: Integers
    rows: Integers
    steps: Integers
    pivots: Integers

    @property
    def n_columns(self) -> int:
        """Moves of a sweep."""
        return self.pivots.size

    def dense(self) -> Integers:
        """int64 [n_cells, columns]."""
        matrix = np.zeros((self.n_rows, self.n_columns), dtype=np.int64)
        matrix[self.rows, np.repeat(np.arange(self.n_columns), np.diff(self.starts))] = self.steps
        return matrix[: self.n_cells]


def chain_columns(basis: npt.ArrayLike) -> ChainColumns:
    """Prepare a basis for chains; columns may come out with their signs changed.

    Args:
        basis: int [n_cells, columns], a basis of the lattice, or more of its vectors; none of them zero.
    Raises:
        SolverError: no column, or a column of zeros.
    """
    matrix: Integers = np.array(basis, dtype=np.int64)
    if matrix.ndim != 2 or not matrix.shape[1] or not matrix.any(axis=0).all():
        raise SolverError(
            f"Chain columns: got shape {matrix.shape} with a zero column or none at all. Give a basis of the lattice.",
            code="subspace-chain-range",
        )
    n_cells, n_columns = matrix.shape
    own = (np.count_nonzero(matrix, axis=1) == 1)[:, None] & (np.abs(matrix) == 1)
    pivots = np.where(own.any(axis=0), own.argmax(axis=0), -1)
    signs = np.where(pivots >= 0, matrix[pivots, np.arange(n_columns)], 1)
    matrix *= signs
    n_rows = n_cells
    starts, ends, rows, steps = [0], [], [], []
    for k in range(n_columns):
        cells = np.flatnonzero(matrix[:, k])
        rows.extend(cells.tolist())
        steps.extend(matrix[cells, k].tolist())
        ends.append(len(rows))
        if pivots[k] < 0:
            pivots[k] = n_rows
            rows.append(n_rows)
            steps.append(1)
            n_rows += 1
        starts.append(len(rows))
    arrays = (np.array(part, dtype=np.int64) for part in (starts, ends, rows, steps, pivots))
    return ChainColumns(n_cells, n_rows, *(_frozen(array) for array in arrays))


def systematic_basis(basis: npt.ArrayLike) -> Integers:
    """A basis of the same lattice by Hermite form, in which columns have cells of their own where that is possible.

    For one sum these are the differences from one cell; for a two-way table the rectangles through one corner.
    Chains along them meet soon, since each column's own cell can be made equal in both.

    Args:
        basis: int [n_cells, dimension].
    """
    matrix: Integers = np.asarray(basis, dtype=np.int64)
    rows = fmpz_mat(matrix.shape[1], matrix.shape[0], [int(value) for value in matrix.T.ravel()])
    return np.array([[int(value) for value in row] for row in rows.hnf().tolist()], dtype=np.int64).T


@dataclass(frozen=True, slots=True, eq=False)
class ChainPlan:
    """Everything that fixes a chain but its key.

    Attributes:
        law: The law asked for.
        columns: What to move along.
        moves: How.
        target: The law in whole numbers.
        jumps: Tables of the jump laws, empty for slices.
        jump_law: int64 [columns], which of them each column has.
        words: 64-bit words a sweep of one chain takes.
        coupled_words: And one of two chains together.
        digest: What the random bits are bound to.
    """

    law: LatticeLaw
    columns: ChainColumns
    moves: Moves
    target: ChainTarget
    jumps: JumpLaws
    jump_law: Integers
    words: int = field(init=False)
    coupled_words: int = field(init=False)
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        digits, columns = self.target.thresholds.shape[0], self.columns.n_columns
        if isinstance(self.moves, SliceMoves):
            words, coupled = columns * (digits + 1), columns * (2 * digits + 3)
        else:
            words = coupled = (columns + 1) // 2 + -(-columns // self.block) * digits
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "coupled_words", coupled)
        told = hashlib.sha256(repr((str(self.law), self.moves, self.columns.n_cells)).encode())
        for part in (self.columns.starts, self.columns.rows, self.columns.steps):
            told.update(part.astype("<i8").tobytes())
        object.__setattr__(self, "digest", told.digest())

    @property
    def block(self) -> int:
        """Columns accepted together."""
        at_once = self.moves.at_once if isinstance(self.moves, JumpMoves) else 1
        return self.columns.n_columns if at_once is None else at_once

    @property
    def slacks_per_sweep(self) -> int:
        """Draws of a slack in a sweep of one chain."""
        return -(-self.columns.n_columns // self.block)


def plan_chain(law: LatticeLaw, basis: npt.ArrayLike, moves: Moves | None = None) -> ChainPlan:
    """Plan chains for a law along the columns of a basis.

    Args:
        law: What they should follow.
        basis: int [n_cells, columns], spanning the lattice.
        moves: How to move; slices by default.
    Raises:
        SolverError: numbers that may overflow, jumps that do not fit the columns, or no columns.
    """
    columns = chain_columns(basis)
    moves = SliceMoves() if moves is None else moves
    longest = int((columns.dense() ** 2).sum(axis=0).max())
    target = chain_target(law, columns.n_cells, longest)
    if isinstance(moves, SliceMoves):
        return ChainPlan(law, columns, moves, target, jump_laws([1.0]), np.zeros(columns.n_columns, np.int64))
    at_once = columns.n_columns if moves.at_once is None else moves.at_once
    if len(moves.scales) != columns.n_columns or not 1 <= at_once <= columns.n_columns:
        raise SolverError(
            f"Chain jumps: {len(moves.scales)} scales, {at_once} columns at once, for {columns.n_columns} columns. "
            "Give a scale for each column and 1 or more of them at once, or use tune_jumps.",
            code="subspace-chain-range",
        )
    distinct = sorted(set(moves.scales))
    chosen = np.array([distinct.index(scale) for scale in moves.scales], dtype=np.int64)
    return ChainPlan(law, columns, moves, target, jump_laws(distinct), _frozen(chosen))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
