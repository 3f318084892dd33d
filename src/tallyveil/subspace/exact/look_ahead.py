"""Look-ahead trials: two-way tables of any size with all margins zero, row by row.

Problem. Noise on a two-way table must have zero row sums and zero column sums. If all rows but one are drawn without
regard to the columns, a trial hardly ever succeeds in a large table.

Variables. The table N has r rows and c columns, and its weight is the product of the weights L of its cells. L may be
another function for every cell, and cells may be fixed at 0 (`two_way_grid`). A number g_m(x) says how much weight m
rows can still give to a column that has to receive x (`column_tables`). t_k(w) = L(w) g_{m-1}(x - w) / g_m(x) is the
weight of the value w in column k of the next row.

Steps. A trial draws the rows from the first to the last. A row w with sum zero is taken with probability prod t_k(w_k)
(`tallyveil.kernels.subspace.look_ahead`), so that the columns stay within reach of zero. With the remaining probability
the trial fails. The probability that a trial ends in N is (weight of N) / mass, with mass = prod g_r(0) over the
columns. So the law is exact. Few trials fail unless nearly all cells of the noise are zero.

The lowest cell of a column must make the column sum to zero. Its weight is in the first table g of the column already,
except for cells beyond that table, which practically never occur. Such a cell is accepted with the ratio of the two
weights. In the last row all cells are of this kind. In another row with only such cells the trial fails if they do not
add up to 0.

Stopping rule. Trials are repeated until one succeeds (`tallyveil.subspace.exact.sampler.TrialSampler`).

Worked case. In a table with two rows, the first row w is taken with probability prod L(w_k)^2 / g_2(0)^c. The second
row is then -w, which is accepted.

Proof: `docs/proofs/integer-subspace.md`, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from tallyveil.arrays import Bools, Integers, Words
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.look_ahead import BROKEN, DONE, FAILED, TrialScratch, draw_rows
from tallyveil.noise.laws import Law
from tallyveil.subspace.exact.column_histories import LawGrid, law_grid
from tallyveil.subspace.exact.column_tables import (
    LookAheadTables,
    column_tables,
    planned_work,
    scratch_memory,
)
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.look_ahead_row import ExactRow
from tallyveil.subspace.exact.sampler import TrialSampler
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.two_way_grid import TwoWayGrid, two_way_grid


@dataclass(frozen=True, eq=False)
class LookAheadProposal:
    """Look-ahead trials of a two-way table. Made by `look_ahead_proposal` and `unequal_sampler`.

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
