"""How chains move (slices or jumps), and the plan that determines a chain."""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.chain import ABSOLUTE
from tallyveil.subspace.mcmc_columns import ChainColumns
from tallyveil.subspace.mcmc_tables import ChainTarget, JumpLaws, chain_target, jump_laws
from tallyveil.subspace.mechanisms import LatticeLaw


@dataclass(frozen=True, slots=True)
class SliceMoves:
    """Along each column in turn, move to a uniform point among those whose weight is at least a random height.

    These moves need no tuning, because the slice is as wide as the law is there.

    Source: Neal 2003, "Slice sampling", adapted to integers.
    """


@dataclass(frozen=True, slots=True)
class JumpMoves:
    """Double-geometric jumps along columns, accepted by Metropolis' rule.

    Attributes:
        scales: One for each column. The paper's parameter is a = exp(-1 / scale). See `tune_jumps`.
        at_once: Number of columns in one proposal; None for all of them, as in Algorithm 1 of the paper.
    """

    scales: tuple[float, ...]
    at_once: int | None = None


Moves: TypeAlias = SliceMoves | JumpMoves


@dataclass(frozen=True, slots=True, eq=False)
class ChainPlan:
    """Everything that determines a chain except its key.

    Attributes:
        law: The wanted law.
        columns: The columns to move along.
        moves: How to move.
        target: The law in integer form.
        jumps: Tables of the jump laws; those of slices are not used.
        jump_law: int64 [columns], number of the jump law of each column.
        words: Number of 64-bit words that a sweep of one chain takes.
        coupled_words: Number of words that a sweep of two coupled chains takes.
        digest: Digest that the random bits are bound to.
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
            words, coupled = columns * (digits + 1), columns * (digits + 3)
        else:
            words = coupled = (columns + 1) // 2 + -(-columns // self.block) * digits
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "coupled_words", coupled)
        # Random bits are bound to the plan: two plans under one key never share noise.
        digest = hashlib.sha256(repr((str(self.law), self.moves, self.columns.n_cells)).encode())
        # Fixed width and byte order, so that a key gives the same chain on every machine.
        for part in (self.columns.starts, self.columns.rows, self.columns.steps):
            digest.update(part.astype("<i8").tobytes())
        object.__setattr__(self, "digest", digest.digest())

    @property
    def block(self) -> int:
        """Number of columns that are accepted together."""
        at_once = self.moves.at_once if isinstance(self.moves, JumpMoves) else 1
        return self.columns.n_columns if at_once is None else at_once

    @property
    def slacks_per_sweep(self) -> int:
        """Number of slacks drawn in a sweep of one chain."""
        return -(-self.columns.n_columns // self.block)

    @property
    def points_error(self) -> float:
        """Upper bound on the total variation between drawn and exactly uniform points of slices, in a sweep.

        It is 0 for jumps. A slice has at most 2 M + 1 points, where M is the largest absolute value that a cell may
        have. A point is chosen with 64 random bits. A single chain leaves the move out with probability below
        (2 M + 1) / 2**64. Two coupled chains never leave it out; each of their probabilities is off by less than
        2**-64, and there are at most 4 M + 3 of them: those of the points of both slices, and one of a decision.
        """
        if isinstance(self.moves, JumpMoves):
            return 0.0
        limit = self.target.limit
        largest = limit if self.target.kind == ABSOLUTE else math.isqrt(limit)
        return self.columns.n_columns * (4 * largest + 3) * 2.0**-64


def plan_chain(law: LatticeLaw, columns: ChainColumns, moves: Moves | None = None) -> ChainPlan:
    """Plan chains for a law on the lattice of the columns.

    Args:
        law: The law that the chains should follow.
        columns: The columns to move along; see `lattice_columns` and `basis_columns`.
        moves: How to move; slices by default.
    Raises:
        SolverError: numbers may overflow, or the jumps do not fit the columns.
    """
    moves = SliceMoves() if moves is None else moves
    target = chain_target(law, columns.n_cells, int(columns.squares().max()))
    if isinstance(moves, SliceMoves):
        return ChainPlan(law, columns, moves, target, jump_laws([1.0]), np.zeros(columns.n_columns, np.int64))
    at_once = columns.n_columns if moves.at_once is None else moves.at_once
    if len(moves.scales) != columns.n_columns or not 1 <= at_once <= columns.n_columns:
        raise SolverError(
            f"Chain jumps: got {len(moves.scales)} scales and {at_once} columns at once for {columns.n_columns} "
            "columns. Give a scale for each column, and move 1 or more columns at once, or use tune_jumps.",
            code="subspace-chain-range",
        )
    # Columns of equal scale share one table.
    distinct = sorted(set(moves.scales))
    chosen = np.array([distinct.index(scale) for scale in moves.scales], dtype=np.int64)
    return ChainPlan(law, columns, moves, target, jump_laws(distinct), _frozen(chosen))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
