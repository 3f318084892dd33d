"""Two-way tables with two columns: dynamic programming over the rows, in one dimension.

A row that sums to zero is (x, -x), of weight w(x)^2, which is the same law at twice the rate. The first column then
sums to zero over the rows, and nothing else binds it: the tables of sums over rows are those of one sum, and a
table is drawn by splitting the rows (`tallyveil.subspace.exact.split`). Three columns need tables in two dimensions
(`three_columns`); with more, trials by rows (`proposals.TwoWayProposal`) are exact too, and quicker.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law
from tallyveil.subspace.exact.alias import LARGEST_ENTRIES
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.split import BlockSplitter
from tallyveil.subspace.structure import Structure


def doubled_rate(law: Law) -> Law:
    """The law whose weights are the squares of this one's."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.variance / 2)
    return DiscreteLaplace(law.scale / 2)


@dataclass(frozen=True, slots=True, eq=False)
class TwoColumnSampler:
    """Draws tables of two columns whose margins are all zero. Made by `two_column_sampler`.

    Attributes:
        splitter: Of the first column, at twice the rate.
        grid: [n_rows, 2] cells.
        free: Cells of no margin.
        law: Of one cell.
        n_cells: Of the table.
    """

    splitter: BlockSplitter
    grid: Integers
    free: Integers
    law: Law
    n_cells: int

    @property
    def total_variation(self) -> Fraction:
        """Zero: nothing is cut."""
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
    """Prepare a two-way structure with two columns, or two rows."""
    grid = structure.grid if structure.grid.shape[1] == 2 else structure.grid.T
    splitter = BlockSplitter.build(doubled_rate(law), grid.shape[0], alias_entries=LARGEST_ENTRIES)
    return TwoColumnSampler(splitter, np.ascontiguousarray(grid), structure.free, law, n_cells)
