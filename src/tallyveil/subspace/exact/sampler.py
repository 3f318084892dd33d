"""Exact samplers: one repeats trials until they succeed, the other splits sums and never fails.

Wanted are lattice vectors z with probability proportional to weight(z). The sum of all weights is not known.

`TrialSampler` repeats the trials of a proposal until one succeeds. A trial gives the vector z with probability
weight(z) / mass, for one known mass, and otherwise fails. So the first success has exactly the law, whatever the sum of
the weights is. The proposals are here (`BlockProposal`, `TwoWayProposal`), in `look_ahead` and in `nearest_planes`.

`SplitSampler` is for lattices on which every block of like cells sums to zero: it draws the cells of each block given
that sum (`split`), and all other cells independently.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import SolverError
from tallyveil.noise.balls import rational
from tallyveil.noise.laws import DiscreteGaussian, Law
from tallyveil.subspace.constraints import Structure, independent_columns
from tallyveil.subspace.exact.convolution import FLOAT_TABLE_BITS, SumLaws, unit_float
from tallyveil.subspace.exact.digits import NoiseAddress, prefix
from tallyveil.subspace.exact.split import LARGEST_ENTRIES, MOST_WORDS, BlockSplitter
from tallyveil.subspace.lattice import flint_matrix

LARGEST_COEFFICIENT: Final = 1 << 20
"""Of the pivot sums. A product with it leaves 43 bits of an int64 for the sum of a block."""

MOST_TRIALS_AT_ONCE: Final = 1024
"""Number of trials of one draw that are made together if a trial takes little time."""

_MARGIN: Final = 2.0**-38
"""Relative error of a product of up to 512 factors, each right to 2**-47. Within it, exact arithmetic decides."""
_FLOOR: Final = 2.0**-55
"""Absolute error of a factor whose table holds 0 in the place of a value below 2**-55."""


class Proposal(Protocol):
    """Trials of one law on one lattice."""

    @property
    def always_accepts(self) -> bool:
        """Whether no trial fails."""

    @property
    def trials_at_once(self) -> int:
        """Largest number of trials of one draw that are worth making together."""

    def trials(
        self, address: NoiseAddress, draws: Integers, first_trial: int, n_trials: int
    ) -> tuple[Integers, Bools]:
        """Trials of each draw from first_trial: (vectors [n * n_trials, n_cells], whether each succeeded)."""

    def mass(self, single: arb, bits: int) -> arb:
        """The mass for which a trial gives z with probability weight(z) / mass, from the sum of one cell's weights."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockProposal:
    """Trials by block sums. Made by `block_proposal`.

    Steps by block sums. A block is a set of cells that the constraints treat alike. Some blocks are pivots. Free
    cells and the cells of all other blocks are drawn independently. The constraints then determine the sums g_b
    of the pivot blocks. The trial fails if a sum is not an integer. It continues with probability prod P_b(g_b) /
    P_b(0), where P_b is the law of a block's sum, which is largest at 0. Finally the pivot blocks' cells are
    drawn given their sums. So z has probability prod p(z_i) / prod P_b(0).

    If every block's sum is fixed at zero, every trial succeeds.

    Worked case. The constraint z1 + z2 - z3 = 0 has the blocks {1, 2} (the pivot) and {3}. If z3 = 2 is drawn, g
    = 2. The trial continues with probability P(2) / P(0), for the sum of two cells, and then z1 and z2 are drawn
    given that their sum is 2.

    Attributes:
        laws: Laws of sums of cells.
        n_cells: Number of cells of the table.
        drawn: Cells that are drawn independently.
        heads: Start of each free block's cells in `drawn`, then start of the cells of no block.
        pivots: Cells of each pivot block.
        splitters: One for each pivot block.
        numerators: int64 [n_pivots, n_free_blocks]; pivot sums are numerators times the free blocks' sums /
            denominator.
        denominator: Above 0.
    """

    laws: SumLaws
    n_cells: int
    drawn: Integers
    heads: Integers
    pivots: tuple[Integers, ...]
    splitters: tuple[BlockSplitter, ...]
    numerators: Integers
    denominator: int

    @property
    def trials_at_once(self) -> int:
        """Largest number of trials of one draw that are worth making together."""
        return 1 if self.always_accepts else MOST_TRIALS_AT_ONCE

    @property
    def always_accepts(self) -> bool:
        """Whether no trial fails. This holds if all block sums are zero."""
        return bool(self.numerators.shape[1] == 0)

    def trials(
        self, address: NoiseAddress, draws: Integers, first_trial: int, n_trials: int
    ) -> tuple[Integers, Bools]:
        """Trials of each draw from first_trial: (vectors [n * n_trials, n_cells], whether each succeeded)."""
        words, rows, sites = address.trial_numbers(draws, first_trial, n_trials, self._n_sites)
        n = self.drawn.size
        cells = address.cells(self.laws.law, draws, first_trial * n, n_trials * n).reshape(rows.size, n)
        sums, accepted = self._pivot_sums(cells)
        if not self.always_accepts:
            blocks = tuple(int(block.size) for block in self.pivots)
            accepted &= accepted_sums(self.laws, blocks, sums, words[:, 0], address, rows, sites)
        vectors = np.zeros((rows.size, self.n_cells), dtype=np.int64)
        places = np.flatnonzero(accepted)
        vectors[:, self.drawn] = cells
        column = 0 if self.always_accepts else 2
        for b, (block, splitter) in enumerate(zip(self.pivots, self.splitters, strict=True)):
            part = words[places, column : column + block.size - 1]
            split = splitter.split(part, sums[places, b], address, rows[places], sites[places] + column)
            vectors[np.ix_(places, block)] = split
            column += splitter.n_sites
        return vectors, accepted

    def mass(self, single: arb, bits: int) -> arb:
        """The mass for which a trial gives z with probability weight(z) / mass."""
        sizes = [int(block.size) for block in self.pivots]
        total = single ** (int(self.drawn.size) + sum(sizes))
        for size in sizes:
            total = total * zero_sum(self.laws, size, bits)
        return total

    @property
    def _n_sites(self) -> int:
        return sum(splitter.n_sites for splitter in self.splitters) + (0 if self.always_accepts else 2)

    def _pivot_sums(self, cells: Integers) -> tuple[Integers, Bools]:
        if self.always_accepts:
            zeros = np.zeros((cells.shape[0], len(self.pivots)), dtype=np.int64)
            return zeros, np.ones(cells.shape[0], dtype=np.bool_)
        free = np.add.reduceat(cells, self.heads, axis=1)[:, : self.numerators.shape[1]]
        scaled = free @ self.numerators.T
        sums = scaled // self.denominator
        return sums, np.all(sums * self.denominator == scaled, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class TwoWayProposal:
    """Trials of a two-way table, row by row.

    Steps for two-way tables. All rows except the last are drawn given that they sum to zero. The last row makes
    the columns sum to zero. The trial succeeds with probability prod p(z_j) / p(0) over the last row.

    Attributes:
        laws: Laws of sums of cells.
        grid: Cells by row and column. Rows are the shorter side.
        splitter: Splits one row.
        n_cells: Number of cells of the table.
        free: Cells in no margin.
    """

    laws: SumLaws
    grid: Integers
    splitter: BlockSplitter
    n_cells: int
    free: Integers

    @property
    def always_accepts(self) -> bool:
        """Whether no trial fails: always false."""
        return False

    @property
    def trials_at_once(self) -> int:
        """Largest number of trials of one draw that are worth making together."""
        return MOST_TRIALS_AT_ONCE

    def trials(
        self, address: NoiseAddress, draws: Integers, first_trial: int, n_trials: int
    ) -> tuple[Integers, Bools]:
        """Trials of each draw from first_trial: (vectors [n * n_trials, n_cells], whether each succeeded)."""
        n_rows, n_columns = self.grid.shape
        n_sites = 2 + (n_rows - 1) * self.splitter.n_sites
        words, rows, sites = address.trial_numbers(draws, first_trial, n_trials, n_sites)
        vectors = np.zeros((rows.size, self.n_cells), dtype=np.int64)
        nothing = np.zeros(rows.size, dtype=np.int64)
        last = np.zeros((rows.size, n_columns), dtype=np.int64)
        for i in range(n_rows - 1):
            column = 2 + i * self.splitter.n_sites
            part = words[:, column : column + n_columns - 1]
            row = self.splitter.split(part, nothing, address, rows, sites + column)
            vectors[:, self.grid[i]] = row
            last -= row
        vectors[:, self.grid[-1]] = last
        n = self.free.size
        if n:
            free = address.cells(self.laws.law, draws, first_trial * n, n_trials * n)
            vectors[:, self.free] = free.reshape(rows.size, n)
        ones = (1,) * n_columns
        return vectors, accepted_sums(self.laws, ones, last, words[:, 0], address, rows, sites)

    def mass(self, single: arb, bits: int) -> arb:
        """The mass for which a trial gives z with probability weight(z) / mass."""
        n_rows, n_columns = self.grid.shape
        row = single**n_columns * zero_sum(self.laws, n_columns, bits)
        total: arb = row ** (n_rows - 1) * single ** int(self.free.size)
        return total


def single_mass(law: Law) -> arb:
    """The sum of the weights of one cell, at the current precision. It is 1 / P(0), since the weight of 0 is 1."""
    if isinstance(law, DiscreteGaussian):
        return 1 / law.probability_ball(0, max(256, ctx.prec))
    rate = -1 / rational(law.scale)
    return -(1 + rate.exp()) / rate.expm1()


def zero_sum(laws: SumLaws, n: int, bits: int) -> arb:
    """The ball of P(the sum of n cells is 0)."""
    # The tables for floats are finer than most callers need, so they are reused.
    table = laws.table(n, FLOAT_TABLE_BITS if bits <= FLOAT_TABLE_BITS - 32 else bits + 32)
    return (arb(table.at(0)) + arb(0, table.error)) / arb(2) ** table.bits


def block_proposal(laws: SumLaws, structure: Structure, n_cells: int) -> BlockProposal:
    """Trials by block sums for any structure. The pivots are the largest possible blocks.

    Raises:
        SolverError: the pivots' sums have coefficients above 2**20.
    """
    sizes = [int(block.size) for block in structure.blocks]
    order = sorted(range(len(sizes)), key=lambda b: -sizes[b])
    columns = structure.columns[:, order]
    chosen = independent_columns(flint_matrix(columns)) if order else []
    others = [place for place in range(len(order)) if place not in set(chosen)]
    numerators, denominator = _solved(columns, chosen, others)
    pivots = tuple(structure.blocks[order[place]] for place in chosen)
    blocks = [structure.blocks[order[place]] for place in others]
    drawn = np.concatenate([*blocks, structure.free]).astype(np.int64)
    ends = np.cumsum([0, *(block.size for block in blocks)]).astype(np.int64)
    heads = ends if structure.free.size else ends[:-1]
    by_size = {size: BlockSplitter.build(laws, size) for size in {int(block.size) for block in pivots}}
    splitters = tuple(by_size[int(block.size)] for block in pivots)
    return BlockProposal(laws, n_cells, drawn, heads, pivots, splitters, numerators, denominator)


def two_way_proposal(laws: SumLaws, structure: Structure, n_cells: int) -> TwoWayProposal:
    """Trials by rows for a two-way table."""
    grid = structure.grid
    if grid.shape[1] > grid.shape[0]:
        grid = np.ascontiguousarray(grid.T)
    splitter = BlockSplitter.build(laws, grid.shape[1])
    return TwoWayProposal(laws, grid, splitter, n_cells, structure.free)


def accepted_sums(
    laws: SumLaws,
    blocks: tuple[int, ...],
    sums: Integers,
    words: npt.NDArray[np.uint64],
    address: NoiseAddress,
    draws: Integers,
    sites: Integers,
) -> Bools:
    """Whether each uniform number is below prod P_b(g_b) / P_b(0), exactly.

    Args:
        laws: Laws of sums of cells.
        blocks: Number of cells of each block.
        sums: [n, n_blocks], the sums g.
        words: [n], the first 64 digits of the uniform numbers.
        address: Source of further digits.
        draws: [n], number of each draw.
        sites: [n], site of each uniform number.
    """
    ratio = np.ones(words.size)
    for b, size in enumerate(blocks):
        table = laws.float_table(size)
        reach = table.size // 2
        inside = np.abs(sums[:, b]) <= reach
        value = np.where(inside, table[np.clip(sums[:, b], -reach, reach) + reach], 0.0)
        ratio *= value / table[reach]
    # Each factor's relative error is below 2**-47, or its absolute error below 2**-55 if the table holds 0.
    uniform = unit_float(words)
    margin = ratio * _MARGIN + _FLOOR
    # The whole uniform number lies in [uniform, uniform + 2**-53]: both ends must agree.
    accepted = np.asarray(uniform + 2.0**-53 <= ratio - margin)
    unclear = ~accepted & (uniform < ratio + margin)
    for i in np.flatnonzero(unclear).tolist():
        accepted[i] = _accepted_exactly(laws, blocks, sums[i].tolist(), address, int(draws[i]), int(sites[i]))
    return accepted


def _accepted_exactly(
    laws: SumLaws, blocks: tuple[int, ...], sums: list[int], address: NoiseAddress, draw: int, site: int
) -> bool:
    words = 1
    while words <= MOST_WORDS:
        uniform, digits = prefix(address.all_digits(draw, site), words)
        bits = digits + FLOAT_TABLE_BITS
        above = least = 1
        full = most = 1
        for size, s in zip(blocks, sums, strict=True):
            table = laws.table(size, bits)
            least, most = least * max(table.at(s) - table.error, 0), most * (table.at(s) + table.error)
            above, full = above * (table.at(0) + table.error), full * (table.at(0) - table.error)
        if (uniform + 1) * above <= least << digits:
            return True
        if uniform * full >= most << digits:
            return False
        words *= 2
    raise SolverError(
        f"{laws.law}: a trial was not decided by {64 * words} bits, which has a negligible probability for random "
        "bits. Check that the bits come from a cipher."
    )


def _solved(columns: Integers, chosen: list[int], others: list[int]) -> tuple[Integers, int]:
    """(N, d), for which the pivot sums are N times the free blocks' sums, divided by d."""
    if not others or not chosen:
        return np.zeros((len(chosen), len(others)), dtype=np.int64), 1
    rows = independent_columns(flint_matrix(columns).transpose())
    square, rest = flint_matrix(columns[rows][:, chosen]), flint_matrix(columns[rows][:, others])
    numerators, denominator = (square.inv() * rest).numer_denom()
    values = [[-int(v) for v in row] for row in numerators.tolist()]
    if max(abs(v) for row in values for v in row) > LARGEST_COEFFICIENT or denominator > LARGEST_COEFFICIENT:
        raise SolverError(
            "Exact trials: the pivot sums have coefficients above 2**20. Use the chain sampler for this system."
        )
    return np.array(values, dtype=np.int64), int(denominator)


MOST_TRIALS: Final = 1 << 26
"""Number of trials of one draw after which there must be an error."""

ROUND_CELLS: Final = 1 << 20
"""Number of cells in all trials that are computed together."""

CACHED_CELLS: Final = 1 << 16
"""Number of cells that split sums draw at a time, so that their uniform numbers stay in cache."""


class VectorSampler(Protocol):
    """Draws lattice vectors of one law."""

    @property
    def total_variation(self) -> Fraction:
        """Bound on the total variation between the output and the law; 0 if the support is not truncated."""

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers, int64 [n, n_cells]."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialSampler:
    """Repeats the trials of a proposal until one succeeds. The output has exactly the law.

    Stopping rule. A draw ends with its first successful trial. After `MOST_TRIALS` trials an error is raised.

    Worked case. If trials succeed with probability 1/4, a draw takes 4 trials on average. Trials of one draw have
    consecutive numbers, so the first success does not depend on how many trials are computed at once.

    Attributes:
        proposal: Makes the trials.
        n_cells: Number of cells of the table.
    """

    proposal: Proposal
    n_cells: int

    @property
    def total_variation(self) -> Fraction:
        """Zero, because the support is not truncated."""
        return Fraction(0)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers. The result for a number does not depend on the other numbers.

        Args:
            address: Place of the noise in the address space.
            draws: [n], each 0 to 2**36 - 1.
        Returns:
            int64 [n, n_cells].
        """
        wanted = np.asarray(draws, dtype=np.int64)
        out = np.empty((wanted.size, self.n_cells), dtype=np.int64)
        at_once = max(1, ROUND_CELLS // self.n_cells)
        for first in range(0, wanted.size, at_once):
            self._fill(address, wanted[first : first + at_once], out[first : first + at_once], at_once)
        return out

    def _fill(self, address: NoiseAddress, draws: Integers, out: Integers, at_once: int) -> None:
        left = np.arange(draws.size)
        trial = 0
        while left.size:
            if trial >= MOST_TRIALS:
                raise SolverError(
                    f"An exact sampler rejected {trial} trials of one draw. Use the chain sampler, or, if outputs are "
                    "restricted, nonnegative outputs."
                )
            # Fewer draws left, more trials each: the cells of a round stay within `ROUND_CELLS`.
            n = max(1, min(self.proposal.trials_at_once, at_once // left.size))
            vectors, accepted = self.proposal.trials(address, draws[left], trial, n)
            hits = accepted.reshape(left.size, n)
            done = hits.any(axis=1)
            # The first success in the order of trials: any other choice would depend on how they are batched.
            first = np.argmax(hits, axis=1)
            out[left[done]] = vectors.reshape(left.size, n, -1)[np.flatnonzero(done), first[done]]
            left = left[~done]
            trial += n


@dataclass(frozen=True, slots=True, eq=False)
class SplitSampler:
    """Draws the cells of every block given that they sum to zero, and all others independently.

    Made by `split_sampler`.

    Attributes:
        law: The law of one cell.
        n_cells: Number of cells of the table.
        free: Cells in no block.
        blocks: Cells of each block.
        splitters: One for each block.
    """

    law: Law
    n_cells: int
    free: Integers
    blocks: tuple[Integers, ...]
    splitters: tuple[BlockSplitter, ...]

    @property
    def total_variation(self) -> Fraction:
        """Zero, because the support is not truncated."""
        return Fraction(0)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers, int64 [n, n_cells]."""
        wanted = np.asarray(draws, dtype=np.int64)
        out = np.empty((wanted.size, self.n_cells), dtype=np.int64)
        at_once = max(1, CACHED_CELLS // self.n_cells)
        for first in range(0, wanted.size, at_once):
            self._fill(address, wanted[first : first + at_once], out[first : first + at_once])
        return out

    def _fill(self, address: NoiseAddress, draws: Integers, out: Integers) -> None:
        if self.free.size:
            out[:, self.free] = address.cells(self.law, draws, 0, self.free.size)
        words = address.numbers(draws, 0, sum(splitter.n_sites for splitter in self.splitters))
        site = 0
        for block, splitter in zip(self.blocks, self.splitters, strict=True):
            splitter.fill(words[:, site : site + block.size - 1], address, draws, site, block, out)
            site += splitter.n_sites


def split_sampler(law: Law, structure: Structure, n_cells: int) -> SplitSampler:
    """Prepare a sampler for a structure whose block sums are all zero (`Structure.sums_vanish`)."""
    laws = SumLaws(law)
    # Like cells have one law, so blocks of one size share their tables.
    sizes = {int(block.size) for block in structure.blocks}
    part = LARGEST_ENTRIES // max(len(sizes), 1)
    by_size = {size: BlockSplitter.build(laws, size, alias_entries=part) for size in sizes}
    splitters = tuple(by_size[int(block.size)] for block in structure.blocks)
    return SplitSampler(law, n_cells, structure.free, structure.blocks, splitters)


def acceptance_rate(proposal: Proposal, address: NoiseAddress, n_trials: int = 4096) -> float:
    """The fraction of some trials that succeed, without data. It is an estimate, used only for choosing a sampler."""
    if proposal.always_accepts:
        return 1.0
    _, accepted = proposal.trials(address, np.zeros(1, dtype=np.int64), 0, n_trials)
    return float(accepted.mean())
