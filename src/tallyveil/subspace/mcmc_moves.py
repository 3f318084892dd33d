"""How chains move: along which vectors, by which tables, and the plan that determines a chain.

The vectors along which chains move: the columns of a basis, or more vectors of the lattice, for faster
mixing.

Tables that chains compare random bits with: slacks, jump laws, and the integer form of a law.

The approximations made here have bounds: `ChainTarget.rounding` is a total variation that occurs once, and
`update_error` is one for every drawn slack. Both are part of the guarantee
(`tallyveil.subspace.diagnostics`).
"""

import hashlib
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import arb

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.chain import ABSOLUTE, ROOT, SQUARES
from tallyveil.noise.balls import certified_floor, precision, rational
from tallyveil.subspace.constraints import Structure, StructureKind
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import LatticeLaw

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


DIGIT: Final = 256
"""Base of the digits of a slack, and so the thresholds of one digit. `update_error` grows in proportion to it."""
_WORD: Final = 1 << 64
"""One more than the largest random word: probabilities are compared in units of 2**-64."""
_CUT_BITS: Final = 80
"""The probability beyond the largest slack, and that beyond the largest size, is below 2**-80."""
_MANTISSA: Final = 52
"""The l2 norm times `scale` stays below 2**52, where floats hold every integer and its halves exactly."""
_GREATEST_BITS: Final = 40
"""Bits of the largest size of a chain. Wider noise is refused."""
_JUMP_POINTS: Final = 1 << 32
"""Jump probabilities are whole multiples of 2**-32. The rest goes to no jump, so that they add up exactly."""
_JUMP_CUT: Final = 30.0
"""Jumps beyond 30 widths are left out: e**-30 is less than 2**-32, so their weight would round down to zero."""
_PRECISION: Final = 256
"""Bits of ball arithmetic for thresholds of 64 bits."""
_CERTAIN: Final = 50
"""Nats: e**-50 is below 2**-64, so that beyond them the threshold is 2**64 - 1 without any evaluation."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainTarget:
    """A law on a lattice in integer form: weight exp(-rate * F(z)), and zero if the size exceeds `limit`.

    Attributes:
        kind: How F depends on z (`tallyveil.kernels.subspace.chain`).
        scale: A power of two. The l2 norm is counted in units of 1 / scale.
        rate: The law's rate divided by `scale`; exact.
        limit: Largest size (sum of absolute values or of squares) that a chain may reach.
        thresholds: uint64 [digits, 256], 2**64 times the distribution function of each digit of the slack.
        guide: int64 [digits, 256], where to start the search for each value of the top 8 bits.
        rounding: Upper bound on the total variation between this law and the wanted one.
        update_error: Upper bound on the total variation between a drawn slack and an exact one.
    """

    kind: int
    scale: float
    rate: Fraction
    limit: int
    thresholds: npt.NDArray[np.uint64]
    guide: npt.NDArray[np.int64]
    rounding: float
    update_error: float


def chain_target(law: LatticeLaw, n_cells: int, column_square: int) -> ChainTarget:
    """The integer form of a law.

    For the l1 Laplace and the Gaussian law, it is exact except for sizes with probability below 2**-80. The l2 Laplace
    law has F = floor(scale * sqrt(size)), which is at most two units from scale * |z|. Its weights are therefore
    correct up to a factor exp(2 rate), and the total variation between the laws is at most 2 rate.

    Args:
        law: The law that the chains should follow.
        n_cells: Number of cells of the table.
        column_square: Largest squared length of a column that the chains move along.
    Raises:
        SolverError: the noise is so wide, or the columns are so long, that sums would not fit into 64 bits.
    """
    limit = greatest_size(law, n_cells)
    scale = 1.0
    if law.takes_root:
        scale = math.ldexp(1.0, _MANTISSA - math.isqrt(limit).bit_length())
    fits = limit.bit_length() <= _GREATEST_BITS and 2 * (column_square + 1) * limit < 1 << 62
    if not fits or scale < 1:
        raise SolverError(
            f"Chain on {n_cells} cells under {law}: absolute values up to 2**{limit.bit_length()} along columns of "
            f"squared length {column_square} may overflow 64 bits. Use an exact sampler, a reduced basis, or less "
            "noise.",
            code="subspace-chain-range",
        )
    rate = law.rate / Fraction(scale)
    thresholds = slack_thresholds(rate)
    return ChainTarget(
        kind=ROOT if law.takes_root else SQUARES if law.squares else ABSOLUTE,
        scale=scale,
        rate=rate,
        limit=limit,
        thresholds=_frozen(thresholds),
        guide=_frozen(_guide(thresholds)),
        rounding=2.0**-_CUT_BITS + (2 * float(rate) if law.takes_root else 0.0),
        # Each of the 255 thresholds of a digit is off by less than 2**-64; 2**-64 of mass for each covers this.
        update_error=thresholds.shape[0] * DIGIT * 2.0**-64 + 2.0**-_CUT_BITS,
    )


def greatest_size(law: LatticeLaw, n_cells: int) -> int:
    """A size that the law exceeds with probability below 2**-80, on any lattice.

    P(F > f) <= exp(-rate f / 2) x (sum over the lattice of exp(-rate F / 2)). This sum is at most the sum over all
    integer vectors, which is a product over cells (for the l2 norm because |z|_2 >= |z|_1 / sqrt(n_cells)).
    """
    rate = float(law.rate)
    cut = _CUT_BITS * math.log(2)
    if law.squares and not law.takes_root:
        cells = n_cells * math.log1p(math.sqrt(2 * math.pi / rate))
        return math.ceil(1.01 * 2 * (cells + cut) / rate) + 1
    quarter = rate / 4 / (math.sqrt(n_cells) if law.takes_root else 1.0)
    cells = n_cells * -math.log(math.tanh(quarter))
    radius = math.ceil(1.01 * 2 * (cells + cut) / rate) + 1
    return radius * radius if law.takes_root else radius


def slack_thresholds(rate: Fraction) -> npt.NDArray[np.uint64]:
    """floor(2**64 P(digit <= d)) for each base-256 digit of G, where P(G >= g) = exp(-rate g).

    The digits of a geometric number are independent. Digit i has P(d) proportional to exp(-rate 256**i d). The omitted
    digits are zero except with probability below 2**-80.

    Returns:
        uint64 [digits, 256]. The last entry of each row is never used.
    """
    rows = []
    step = rate
    while True:
        rows.append(_digit_thresholds(step))
        step *= DIGIT
        # 7/10 is above ln 2: the next digit would be above zero with probability below 2**-80.
        if step > _CUT_BITS * Fraction(7, 10):
            return np.array(rows, dtype=np.uint64)


def _digit_thresholds(step: Fraction) -> list[int]:
    thresholds = []
    with precision(_PRECISION):
        whole = -(rational(-step * DIGIT).expm1())
        for digit in range(1, DIGIT):
            if step * digit > _CERTAIN:
                thresholds.append(_WORD - 1)  # 1, less an amount below 2**-64 that the balls cannot see
                continue
            floor = certified_floor(-(rational(-step * digit).expm1()) / whole * arb(_WORD))
            if floor is None:
                raise SolverError(
                    f"Slack variable of rate {step}: a threshold could not be certified. Please report the "
                    "parameters of the noise."
                )
            thresholds.append(floor)
    return [*thresholds, _WORD - 1]


def _guide(thresholds: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    # The least word with each value of its top 8 bits; the search goes upwards from there.
    tops = np.arange(DIGIT, dtype=np.uint64) << np.uint64(56)
    return np.array([np.searchsorted(row[:-1], tops, side="right") for row in thresholds], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class JumpLaws:
    """Double-geometric jumps, P(e) proportional to exp(-|e| / scale), rounded to 2**32 points and exactly symmetric.

    A chain's stationary law does not depend on its jumps as long as they are symmetric, so rounding them costs nothing.

    Attributes:
        masses: uint32 [laws, reach + 1], points at 0, 1, ...; a negative jump has as many as the opposite positive one.
        totals: uint64 [laws, reach + 1], points at 1..e together. The last is half of the points that are not at 0.
        finders: int64 [laws, 256], the least e whose total exceeds b * 2**23, where the search starts.
    """

    masses: npt.NDArray[np.uint32]
    totals: npt.NDArray[np.uint64]
    finders: npt.NDArray[np.int64]


def jump_laws(scales: npt.ArrayLike) -> JumpLaws:
    """Tables of double-geometric laws.

    Args:
        scales: float [laws]; the paper's parameter is a = exp(-1 / scale).
    Raises:
        SolverError: a scale is outside 0.05 to 1e5.
    """
    widths: npt.NDArray[Any] = np.asarray(scales, dtype=np.float64)
    if not widths.size or not np.all((widths >= 0.05) & (widths <= 1e5)):
        raise SolverError(
            "Jump laws: scales must lie between 0.05 and 1e5. Use tune_jumps, or give other scales."
        )
    reach = max(1, math.ceil(_JUMP_CUT * float(widths.max())))
    sizes = np.arange(1, reach + 1)
    masses = np.zeros((widths.size, reach + 1), dtype=np.uint32)
    for row, width in zip(masses, widths.tolist(), strict=True):
        a = math.exp(-1 / width)
        row[1:] = np.floor((1 - a) / (1 + a) * np.exp(-sizes / width) * _JUMP_POINTS)
        # What rounding down took off both sides goes to no jump: symmetric, and 2**32 points in all.
        row[0] = _JUMP_POINTS - 2 * int(row[1:].sum(dtype=np.uint64))
    totals = np.concatenate(
        [np.zeros((widths.size, 1), np.uint64), np.cumsum(masses[:, 1:], axis=1, dtype=np.uint64)], axis=1
    )
    tops = np.arange(DIGIT, dtype=np.uint64) << np.uint64(23)
    finders = np.array([np.searchsorted(row, tops, side="right") for row in totals], dtype=np.int64)
    return JumpLaws(_frozen(masses), _frozen(totals), _frozen(finders))


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
