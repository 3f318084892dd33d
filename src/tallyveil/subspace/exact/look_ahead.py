"""Look-ahead trials: two-way tables of any size with all margins zero, row by row.

Problem. Noise on a two-way table must have zero row sums and zero column sums. If all rows but one are drawn without
regard to the columns, a trial hardly ever succeeds in a large table.

Variables. The table N has r rows and c columns, and its weight is the product of the weights L of its cells. A number
g_m(x) says how much weight m rows can still give to a column that has to receive x (`column_tables`). t_k(w) =
L(w) g_{m-1}(x - w) / g_m(x) is the weight of the value w in column k of the next row.

Steps. A trial draws the rows from the first to the last. A row w with sum zero is taken with probability prod t_k(w_k)
(`tallyveil.kernels.subspace.look_ahead`), so that the columns stay within reach of zero. With the remaining probability
the trial fails. The probability that a trial ends in N is (weight of N) / mass, with mass = prod g_r(0) over the
columns. So the law is exact. Few trials fail unless nearly all cells of the noise are zero.

The last row must make the columns sum to zero. Its weight is in g_1 already, except for cells beyond the table g_1,
which practically never occur. A row with such a cell is accepted with the ratio of the two weights.

A cell that is fixed at 0 has t_k(0) = 1, and leaves the table of its column as it is. The bound that makes g_m
(`column_tables`) then uses the number of the row's other cells in the place of c.

Stopping rule. Trials are repeated until one succeeds (`tallyveil.subspace.exact.sampler.TrialSampler`).

Worked case. In a table with two rows, the first row w is taken with probability prod L(w_k)^2 / g_2(0)^c. The second
row is then -w, which is accepted.

Proof: `docs/proofs/integer-subspace.md`, section 5.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from tallyveil.arrays import Bools, Integers, Words
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.look_ahead import BROKEN, DONE, FAILED, Scratch, draw_rows
from tallyveil.subspace.exact.column_tables import Tables, cell_weight, column_tables, scratch_memory
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.inversion_table import is_below
from tallyveil.subspace.exact.look_ahead_row import ExactRow


@dataclass(frozen=True, eq=False)
class LookAheadProposal:
    """Look-ahead trials of a two-way table. Made by `look_ahead_proposal`.

    Attributes:
        laws: Laws of sums of cells; only the law of one cell is used.
        grid: int64 [r, c], cells by row and column, -1 where the noise is fixed at 0. The last row has no such cell.
        free: Cells that no constraint counts.
        n_cells: Number of cells of the table.
        tables: The tables g.
        ignored_digits: Number of digits of every word that floats ignore. It is 0 except in tests of the decisions in
            balls.
    """

    laws: SumLaws
    grid: Integers
    free: Integers
    n_cells: int
    tables: Tables
    ignored_digits: int

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
        scratch = scratch_memory(self.grid.shape[1], self.tables.sizes.length)
        moving = self.grid >= 0
        for i in range(numbers.size):
            rows = self._trial(words[i], address, int(numbers[i]), int(sites[i]), scratch)
            if rows is not None:
                vectors[i, self.grid[moving]] = rows[moving]
                accepted[i] = True
        n = self.free.size
        if n:
            free = address.cells(self.laws.law, draws, first_trial * n, n_trials * n)
            vectors[:, self.free] = free.reshape(numbers.size, n)
        return vectors, accepted

    def mass(self, single: arb, bits: int) -> arb:
        """The mass for which a trial gives z with probability weight(z) / mass."""
        return self.tables.mass() * single ** int(self.free.size)

    @cached_property
    def _n_sites(self) -> int:
        n_rows, n_columns = int(self.grid.shape[0]), int(self.grid.shape[1])
        n = 1 + (n_rows - 1) * (n_columns + 1)
        return n + n % 2

    def _trial(
        self, words: Words, address: NoiseAddress, draw: int, site: int, scratch: Scratch
    ) -> Integers | None:
        """The rows of one trial, or None if it fails."""
        n_rows, n_columns = self.grid.shape
        left = np.zeros(n_columns, dtype=np.int64)
        rows = np.zeros((n_rows + 1, n_columns), dtype=np.int64)
        shift = np.uint64(self.ignored_digits)
        while True:
            status = int(draw_rows(words, shift, self.tables.columns, self.tables.roots, left, rows, scratch))
            if status == FAILED:
                return None
            if status == DONE:
                break
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
        if np.abs(left).max() > self.tables.sizes.flat and not self._last_accepted(left, address, draw, site):
            return None
        return rows[:n_rows]

    def _last_accepted(self, last: Integers, address: NoiseAddress, draw: int, site: int) -> bool:
        place = site + (self.grid.shape[0] - 1) * (self.grid.shape[1] + 1)

        def ratio() -> arb:
            law, total = self.laws.law, arb(1)
            for x in last.tolist():
                total = total * cell_weight(law, x) / cell_weight(law, min(abs(x), self.tables.sizes.flat))
            return total

        word = next(address.all_digits(draw, place))
        return is_below(ratio, word, lambda: address.all_digits(draw, place))


def moving_cells(grid: Integers) -> Bools:
    """Whether each cell of a grid has noise, by rows from the last to the first, as the tables want it."""
    return np.ascontiguousarray(grid[::-1] >= 0)


def look_ahead_proposal(
    laws: SumLaws, grid: Integers, free: Integers, n_cells: int, *, ignored_digits: int = 0
) -> LookAheadProposal:
    """Look-ahead trials for the grid of a two-way table (`two_way_grid`).

    Raises:
        SolverError: the tables would take too long.
    """
    tables = column_tables(laws.law, moving_cells(grid))
    return LookAheadProposal(laws, grid, free, n_cells, tables, ignored_digits)
