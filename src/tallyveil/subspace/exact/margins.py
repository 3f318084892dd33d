"""Two-way tables with two columns: dynamic programming over the rows, in one dimension.

Problem. Noise on a table with two columns must have zero row sums and zero column sums. Each cell has weight w(x).

Steps. A row with sum zero is (x, -x), with weight w(x)^2, which is the weight of the same law at twice the rate. The
first column must sum to zero over the rows, and there is no other condition. So the first column is drawn as a block of
cells that sum to zero, with the doubled rate, by splitting the rows (`tallyveil.subspace.exact.split`). The second
column is its negative.

Worked case. In a table with two rows, (x, -x) and (-x, x), x has the weight w(x)^4.

Tables with more columns are drawn by look-ahead trials (`look_ahead`).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.noise.laws import Law
from tallyveil.subspace.exact.alias import LARGEST_ENTRIES
from tallyveil.subspace.exact.cell_laws import joint_law
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.split import BlockSplitter
from tallyveil.subspace.structure import Structure


@dataclass(frozen=True, slots=True, eq=False)
class TwoColumnSampler:
    """Draws tables with two columns whose margins are all zero. Made by `two_column_sampler`.

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
