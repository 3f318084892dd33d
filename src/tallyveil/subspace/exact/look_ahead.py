"""Two-way tables of any size with all margins zero: look-ahead trials, and dynamic programming for two columns.

Problem. Noise on a two-way table must have zero row sums and zero column sums. If all rows but one are drawn
without regard to the columns, a trial hardly ever succeeds in a large table. So each row is drawn
with regard to what the rows below can still give to the columns.

Tables with more than two columns are drawn by trials, row by row (`LookAheadProposal`). Where floats leave a decision
of a row open, `ExactRow` decides it. Tables with two columns need no trials (`TwoColumnSampler`).

Proof: `docs/proofs/integer-subspace.md`, section 5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from flint import arb

from tallyveil.arrays import Bools, Floats, Integers, Words
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.look_ahead import BROKEN, DONE, FAILED, TrialScratch, draw_rows
from tallyveil.noise.balls import power_of_two, precision
from tallyveil.noise.laws import Law
from tallyveil.subspace.constraints import Structure
from tallyveil.subspace.exact.column_tables import (
    LookAheadTables,
    column_tables,
    planned_work,
    scratch_memory,
)
from tallyveil.subspace.exact.convolution import cell_weight, joint_law, weight_beyond
from tallyveil.subspace.exact.digits import NoiseAddress, is_below, prefix
from tallyveil.subspace.exact.sampler import TrialSampler
from tallyveil.subspace.exact.split import LARGEST_ENTRIES, MOST_WORDS, BlockSplitter, candidates
from tallyveil.subspace.exact.two_way_grid import LawGrid, TwoWayGrid, law_grid, two_way_grid
from tallyveil.subspace.lattice import Lattice


@dataclass(frozen=True, slots=True, eq=False)
class TwoColumnSampler:
    """Draws tables with two columns whose margins are all zero. Made by `two_column_sampler`.

    Problem. Noise on a table with two columns must have zero row sums and zero column sums. Each cell has weight
    w(x).

    Steps. A row with sum zero is (x, -x), with weight w(x)^2, which is the weight of the same law at twice the
    rate. The first column must sum to zero over the rows, and there is no other condition. So the first column is
    drawn as a block of cells that sum to zero, with the doubled rate, by splitting the rows
    (`tallyveil.subspace.exact.split`). The second column is its negative.

    Worked case. In a table with two rows, (x, -x) and (-x, x), x has the weight w(x)^4.

    Attributes:
        splitter: Splits the first column, at twice the rate.
        grid: [n_rows, 2], the cells.
        free: Cells in no margin.
        law: The law of one cell.
        n_cells: Number of cells of the table.
    """

    splitter: BlockSplitter
    grid: Integers
    free: Integers
    law: Law
    n_cells: int

    @property
    def total_variation(self) -> Fraction:
        """Zero, because the support is not truncated."""
        return Fraction(0)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers, int64 [n, n_cells]."""
        wanted = np.asarray(draws, dtype=np.int64)
        out = np.zeros((wanted.size, self.n_cells), dtype=np.int64)
        column = self.splitter.draw(address, wanted, 0, np.zeros(wanted.size, dtype=np.int64))
        out[:, self.grid[:, 0]] = column
        out[:, self.grid[:, 1]] = -column
        out[:, self.free] = address.cells(self.law, wanted, 0, self.free.size)
        return out


def two_column_sampler(law: Law, structure: Structure, n_cells: int) -> TwoColumnSampler:
    """Prepare a sampler for a two-way structure with two columns, or two rows."""
    grid = structure.grid if structure.grid.shape[1] == 2 else structure.grid.T
    splitter = BlockSplitter.build(joint_law([law, law]), grid.shape[0], alias_entries=LARGEST_ENTRIES)
    return TwoColumnSampler(splitter, np.ascontiguousarray(grid), structure.free, law, n_cells)


_GUARD_BITS: Final = 96
"""Bits beyond the digits of the uniform number. With too few, a cell stays undecided and more words are taken."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactRow:
    """A row whose decisions are made in balls.

    Problem. The kernel (`tallyveil.kernels.subspace.look_ahead`) reports a row in which floats leave a decision
    open. The row must then be decided exactly, with the true weights t_k (`LookAheadProposal`) and with the kernel's
    own functions s_k. s_k(y) bounds the weight of the cells from k on if they must add up to y. Its values are
    floats, and so exact binary numbers.

    Steps. The probabilities of a cell's outcomes are added up in balls, in the order of the kernel: 0, 1, -1, 2,
    ... The outcomes go on beyond the reach of the tables, because the law has no largest outcome. The probability
    of all outcomes that are left has a bound.

    Stopping rule. The digits that were read place the uniform number in an interval. If this interval lies inside
    that of one outcome, the outcome is found. If it lies beyond the bound of all outcomes, the trial fails.
    Otherwise the number of digits doubles.

    Worked case. Let the first cell have outcomes 0, 1 and -1 with probabilities 0.5, 0.2 and 0.2. The uniform
    number 0.6 is between 0.5 and 0.7, which gives the outcome 1. The number 0.95 is in the remainder of 0.1: the
    trial fails.

    Attributes:
        tables: The tables g.
        m: The row's number, counted from the last row, which has number 1.
        left: What each column has still to receive from these m rows.
        s: [n, T], the functions s_k of the row's cells that are not fixed; exact binary numbers.
        address: Source of the digits.
        draw: Number of the draw.
        site: Site of the row's first uniform number.
    """

    tables: LookAheadTables
    m: int
    left: list[int]
    s: Floats
    address: NoiseAddress
    draw: int
    site: int

    def drawn(self) -> list[int] | None:
        """The row, or None if the trial fails."""
        cells = self.tables.cells(self.m)
        if all(self.tables.is_forced(self.m, k) for k in cells):
            values = self._forced(cells)
        else:
            values = self._cells(len(cells))
        if values is None:
            return None
        row = [0] * len(self.left)
        for k, value in zip(cells, values, strict=True):
            row[k] = value
        return row

    def _forced(self, cells: list[int]) -> list[int] | None:
        """The values of a row in which every cell is fixed or forced. They add up to 0."""

        def share() -> arb:
            total = arb(1)
            for place in range(len(cells)):
                total = total * self._weight(place, self.left[cells[place]])
            return total

        return [self.left[k] for k in cells] if self._below(share, self.site) else None

    def _cells(self, n: int) -> list[int] | None:
        start = float(self.s[0, 0])
        if not self._below(lambda: arb(start), self.site):
            return None
        values: list[int] = []
        y = 0
        for place in range(n - 1):
            w = self._cell(place, y)
            if w is None:
                return None
            values.append(w)
            y -= w
        total = float(self.s[n - 1, y % self.s.shape[1]])
        if not self._below(lambda: self._weight(n - 1, y) / arb(total), self.site + n):
            return None
        return [*values, y]

    def _below(self, bound: Callable[[], arb], site: int) -> bool:
        word = next(self.address.all_digits(self.draw, site))
        return is_below(bound, word, lambda: self.address.all_digits(self.draw, site))

    def _weight(self, place: int, w: int) -> arb:
        """t_k(w), at the current precision, for the cell at this place among the row's cells that are not fixed."""
        tables, m = self.tables, self.m
        k = tables.cells(m)[place]
        x, law = self.left[k], tables.law(m, k)
        if not tables.is_forced(m, k):
            return cell_weight(law, w) * tables.head(m - 1, k, x - w) / tables.head(m, k, x)
        return cell_weight(law, w) / tables.head(m, k, x) if w == x else arb(0)

    def _rest(self, place: int, reach: int) -> arb:
        """An upper bound of the sum of t_k(w) s_{k+1}(y - w) over abs(w) > reach."""
        tables, m = self.tables, self.m
        k = tables.cells(m)[place]
        if tables.is_forced(m, k):
            largest = arb(int(abs(self.left[k]) > reach))
        else:
            before, here = tables.head(m - 1, k, 0), tables.head(m, k, self.left[k])
            largest = 2 * weight_beyond(tables.law(m, k), reach) * before / here
        return largest * float(self.s[place + 1].max())

    def _cell(self, place: int, y: int) -> int | None:
        """The outcome of a cell, or None if the trial fails."""
        words = 1
        while words <= MOST_WORDS:
            uniform, digits = prefix(self.address.all_digits(self.draw, self.site + 1 + place), words)
            with precision(digits + _GUARD_BITS):
                decided, outcome = self._decide(place, y, uniform, digits)
            if decided:
                return outcome
            words *= 2
        raise SolverError(
            f"{self.tables.law(self.m, self.tables.cells(self.m)[place])}: a cell was not decided by {64 * words} "
            "bits, which has a negligible probability for random bits. Check that the bits come from a cipher."
        )

    def _decide(self, place: int, y: int, uniform: int, digits: int) -> tuple[bool, int | None]:
        """(whether these digits decide, the outcome or None if the trial fails)."""
        length = self.s.shape[1]
        total = arb(float(self.s[place, y % length])) * power_of_two(-digits)
        low, high = total * uniform, total * (uniform + 1)
        cumulated = arb(0)
        for i, w in enumerate(candidates(0)):
            before = cumulated
            cumulated = before + self._weight(place, w) * float(self.s[place + 1, (y - w) % length])
            if not cumulated <= low:
                return bool(cumulated >= high and before <= low), w
            if i % 64 == 0:
                rest = self._rest(place, abs(w))
                if cumulated + rest <= low:
                    return True, None
                if rest <= total * power_of_two(-64):
                    return False, None
        return False, None


@dataclass(frozen=True, eq=False)
class LookAheadProposal:
    """Look-ahead trials of a two-way table. Made by `look_ahead_proposal` and `unequal_sampler`.

    Variables. The table N has r rows and c columns, and its weight is the product of the weights L of its cells.
    L may be another function for every cell, and cells may be fixed at 0 (`two_way_grid`). A number g_m(x) says
    how much weight m rows can still give to a column that has to receive x (`column_tables`). t_k(w) = L(w)
    g_{m-1}(x - w) / g_m(x) is the weight of the value w in column k of the next row.

    Steps. A trial draws the rows from the first to the last. A row w with sum zero is taken with probability prod
    t_k(w_k) (`tallyveil.kernels.subspace.look_ahead`), so that the columns stay within reach of zero. With the
    remaining probability the trial fails. The probability that a trial ends in N is (weight of N) / mass, with
    mass = prod g_r(0) over the columns. So the law is exact. Few trials fail unless nearly all cells of the noise
    are zero.

    The lowest cell of a column must make the column sum to zero. Its weight is in the first table g of the column
    already, except for cells beyond that table, which practically never occur. Such a cell is accepted with the
    ratio of the two weights. In the last row all cells are of this kind. In another row with only such cells the
    trial fails if they do not add up to 0.

    Stopping rule. Trials are repeated until one succeeds (`tallyveil.subspace.exact.sampler.TrialSampler`).

    Worked case. In a table with two rows, the first row w is taken with probability prod L(w_k)^2 / g_2(0)^c. The
    second row is then -w, which is accepted.

    Attributes:
        grid: The two-way table behind the constraints. Its last row is drawn last.
        free: Cells that no constraint counts.
        free_law: The law of such a cell.
        n_cells: Number of cells of the table.
        tables: The tables g.
        ignored_digits: Number of digits of every word that floats ignore. It is 0 except in tests of the decisions in
            balls.
    """

    grid: TwoWayGrid
    free: Integers
    free_law: Law
    n_cells: int
    tables: LookAheadTables
    ignored_digits: int = 0

    @property
    def always_accepts(self) -> bool:
        """Whether no trial fails: always false."""
        return False

    @property
    def trials_at_once(self) -> int:
        """Number of trials of one draw that are made together: one, because usually most trials succeed."""
        return 1

    def trials(
        self, address: NoiseAddress, draws: Integers, first_trial: int, n_trials: int
    ) -> tuple[Integers, Bools]:
        """Trials of each draw from first_trial: (vectors [n * n_trials, n_cells], whether each succeeded)."""
        words, numbers, sites = address.trial_numbers(draws, first_trial, n_trials, self._n_sites)
        vectors = np.zeros((numbers.size, self.n_cells), dtype=np.int64)
        accepted = np.zeros(numbers.size, dtype=np.bool_)
        scratch = scratch_memory(self.tables.n_columns, self.tables.sizes.length)
        for i in range(numbers.size):
            rows = self._trial(words[i], address, int(numbers[i]), int(sites[i]), scratch)
            if rows is not None:
                vectors[i, self.grid.cells] = self.grid.signs * rows.ravel()[self.grid.places]
                accepted[i] = True
        n = self.free.size
        if n:
            free = address.cells(self.free_law, draws, first_trial * n, n_trials * n)
            vectors[:, self.free] = free.reshape(numbers.size, n)
        return vectors, accepted

    def mass(self, single: arb, bits: int) -> arb:
        """The mass for which a trial gives z with probability weight(z) / mass."""
        return self.tables.mass() * single ** int(self.free.size)

    @cached_property
    def _n_sites(self) -> int:
        n = 1 + (self.tables.n_rows - 1) * (self.tables.n_columns + 1)
        return n + n % 2

    def _trial(
        self, words: Words, address: NoiseAddress, draw: int, site: int, scratch: TrialScratch
    ) -> Integers | None:
        """The rows of one trial, or None if it fails."""
        n_rows, n_columns = self.tables.n_rows, self.tables.n_columns
        left = np.zeros(n_columns, dtype=np.int64)
        rows = np.zeros((n_rows + 1, n_columns), dtype=np.int64)
        shift = np.uint64(self.ignored_digits)
        while True:
            status = int(draw_rows(words, shift, self.tables.columns, self.tables.roots, left, rows, scratch))
            if status == FAILED:
                return None
            if status == DONE:
                return rows[:n_rows]
            if status == BROKEN:
                raise SolverError(
                    "A look-ahead trial has rows whose probabilities add up to more than 1. This is a defect of its "
                    "tables, not of the input: please report the law and the size of the table."
                )
            place = site + status * (n_columns + 1)
            exact = ExactRow(self.tables, n_rows - status, left.tolist(), scratch.s, address, draw, place)
            row = exact.drawn()
            if row is None:
                return None
            rows[status] = row
            left -= rows[status]
            rows[n_rows, 0] = status + 1


def look_ahead_proposal(law: Law, grid: TwoWayGrid, free: Integers, n_cells: int) -> LookAheadProposal:
    """Look-ahead trials of a table whose cells have one law.

    Args:
        law: The law of one cell.
        grid: The two-way table behind the constraints.
        free: Cells that no constraint counts.
        n_cells: Number of cells of the table.

    Raises:
        SolverError: the tables would take too long.
    """
    chosen, laws = sided(grid, law)
    return LookAheadProposal(chosen, free, law, n_cells, column_tables(laws))


def sided(grid: TwoWayGrid, law_of_cell: Law | Sequence[Law]) -> tuple[TwoWayGrid, LawGrid]:
    """The grid with its laws, with those sums as rows that are better drawn one by one.

    If all cells have one law and none is fixed, the columns are the shorter side. Otherwise that side is taken whose
    tables take less work. Its columns then have more in common, and more trials succeed.

    Raises:
        SolverError: a number decides cells whose joint law is not known.
    """
    laws = law_grid(grid, law_of_cell)
    if laws.is_uniform:
        return grid, laws
    other = grid.turned()
    turned = law_grid(other, law_of_cell)
    return (other, turned) if planned_work(turned) < planned_work(laws) else (grid, laws)


def unequal_sampler(lattice: Lattice, laws: Sequence[Law]) -> TrialSampler:
    """An exact sampler of tables whose cells have different laws, given that the constraints' sums are zero.

    The probability of a noise vector is proportional to the product of its cells' weights.

    Args:
        lattice: Behind its constraints there must be a two-way table (`two_way_grid`), and they must name every cell.
        laws: The law of each cell.

    Raises:
        SolverError: the constraints have another form, there is not one law for each cell, or the tables would take too
            long.
    """
    if len(laws) != lattice.n_cells:
        raise SolverError(
            f"Unequal laws: got {len(laws)} laws for {lattice.n_cells} cells. Give one law for each cell."
        )
    grid = two_way_grid(lattice)
    if grid is None or lattice.structure.free.size:
        raise SolverError(
            f"Unequal laws: the constraints ({lattice.structure.kind.value}) leave {lattice.structure.free.size} cells "
            "free or are not those of a two-way table. Only tables with sums of rows and columns, where some cells may "
            "be fixed, are drawn with unequal laws. Draw cells that no constraint names by themselves."
        )
    chosen, law_of = sided(grid, laws)
    proposal = LookAheadProposal(
        chosen, lattice.structure.free, laws[0], lattice.n_cells, column_tables(law_of)
    )
    return TrialSampler(proposal, lattice.n_cells)
