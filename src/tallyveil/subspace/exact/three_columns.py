"""Two-way tables with three columns: dynamic programming over the rows, in two dimensions.

Problem. Noise on a table with three columns must have zero row sums and zero column sums. Each cell has probability
p(x).

Variables. A row with sum zero is (x, y, -x - y), with weight p(x) p(y) p(x + y) times a constant. The constant makes
these weights add up to slightly less than 1. For n rows, a square table holds the weights of the pair (sum of x, sum of
y).

Steps. The table of one row follows from the cell's law. Tables of more rows are convolutions in integers, with proved
errors: if the weights add up to less than 1, an entry of a product is off by at most the sum of the two errors plus two
units, as for sums of cells. A table with zero margins is drawn by splitting its rows into halves, as
`tallyveil.subspace.exact.split` splits cells. Floats decide most splits; the others are decided with finer tables and
more digits. So the support is not truncated.

Stopping rule. As in `split`: digits double until they decide, at most `_MOST_WORDS` words.

Worked case. In a table with two rows, the first row is (x, y, -x - y) and the second its negative. The only split draws
(x, y) with probability proportional to the product of both rows' weights, (p(x) p(y) p(x + y))^2.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from flint import fmpz_poly

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.pairs import SquareTables, ring_cell, split_pairs
from tallyveil.kernels.subspace.sums import TreeNodes
from tallyveil.noise.laws import Law
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress, prefix
from tallyveil.subspace.exact.split import SplitTree, split_tree
from tallyveil.subspace.structure import Structure

LARGEST_DEVIATION: Final = 8.0
"""If the standard deviation of a cell is above this, the tables are too large."""

LARGEST_ROWS: Final = 64

_BITS: Final = 160
_ACCURATE: Final = 50
_BATCH: Final = 1 << 16
_MOST_WORDS: Final = 4


class PairTable(NamedTuple):
    """Weights of pairs of sums, in units of 2**-bits.

    Attributes:
        reach: Largest absolute value of both sums in the table.
        error: Largest error of any entry, in units. It covers entries beyond the reach too.
        values: Rows of integers, [2 reach + 1] of [2 reach + 1].
    """

    reach: int
    error: int
    values: list[list[int]]

    def at(self, s: int, t: int) -> int:
        """Entry (s, t); 0 beyond the reach."""
        if max(abs(s), abs(t)) > self.reach:
            return 0
        return self.values[s + self.reach][t + self.reach]


@dataclass(frozen=True, slots=True, eq=False)
class ThreeColumnSampler:
    """Draws tables with three columns whose margins are all zero. Made by `three_column_sampler`.

    Attributes:
        laws: Laws of sums of cells.
        grid: [n_rows, 3], the cells.
        free: Cells in no margin.
        n_cells: Number of cells of the table.
        tree: Tree over the rows.
        kinds: Number of the table of each node of the tree.
        tables: All tables as floats.
        ignored_digits: Number of digits of every word that the floats ignore. It is 0 except in tests of the exact
            decisions.
    """

    laws: SumLaws
    grid: Integers
    free: Integers
    n_cells: int
    tree: SplitTree
    kinds: Integers
    tables: SquareTables
    ignored_digits: int
    _tables: dict[tuple[int, int], PairTable] = field(repr=False)

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
        out = np.zeros((wanted.size, self.n_cells), dtype=np.int64)
        for first in range(0, wanted.size, _BATCH):
            some = wanted[first : first + _BATCH]
            rows = self._rows(address, some)
            part = out[first : first + _BATCH]
            part[:, self.grid[:, 0]], part[:, self.grid[:, 1]] = rows[:, :, 0], rows[:, :, 1]
            part[:, self.grid[:, 2]] = -rows.sum(axis=2)
            part[:, self.free] = address.cells(self.laws.law, some, 0, self.free.size)
        return out

    def _rows(self, address: NoiseAddress, draws: Integers) -> Integers:
        tree = self.tree
        words = np.ascontiguousarray(address.numbers(draws, 0, self.grid.shape[0] - 1))
        sums = np.zeros((draws.size, tree.sizes.size, 2), dtype=np.int64)
        open_draws = np.zeros(draws.size, dtype=np.bool_)
        nodes = TreeNodes(tree.lefts, tree.rights, tree.sizes, self.kinds)
        split_pairs(words, self.tables, nodes, np.uint64(self.ignored_digits), sums, open_draws)
        for i in np.flatnonzero(open_draws).tolist():
            sums[i] = self._exactly(address, int(draws[i]))
        return np.asarray(sums[:, tree.leaves])

    def _exactly(self, address: NoiseAddress, draw: int) -> Integers:
        tree = self.tree
        sums = np.zeros((tree.sizes.size, 2), dtype=np.int64)
        site = 0
        for node in range(tree.sizes.size):
            left, right = int(tree.lefts[node]), int(tree.rights[node])
            if left < 0:
                continue
            parts = int(tree.sizes[left]), int(tree.sizes[right])
            s, t = (int(x) for x in sums[node])
            sums[left] = self._exact_split(parts, s, t, address, draw, site)
            sums[right] = sums[node] - sums[left]
            site += 1
        return sums

    def _exact_split(
        self, parts: tuple[int, int], s: int, t: int, address: NoiseAddress, draw: int, site: int
    ) -> tuple[int, int]:
        words = 1
        while words <= _MOST_WORDS:
            uniform, digits = prefix(address.all_digits(draw, site), words)
            bits = _BITS * words
            tables = [_table(self.laws, n, bits, self._tables) for n in (*parts, sum(parts))]
            found = _decide(tables, parts, (s, t), uniform, digits, bits)
            if found is not None:
                return found
            words *= 2
        raise SolverError(
            f"{self.laws.law}: one draw had no outcome after {64 * _MOST_WORDS} bits, which has a negligible "
            "probability for random bits. Check that the bits come from a cipher."
        )


def three_column_sampler(
    law: Law, structure: Structure, n_cells: int, *, ignored_digits: int = 0
) -> ThreeColumnSampler | None:
    """Prepare a two-way structure with three columns or rows; None if its tables would be too large."""
    grid = structure.grid if structure.grid.shape[1] == 3 else structure.grid.T
    laws = SumLaws(law)
    if grid.shape[0] > LARGEST_ROWS or laws.standard_deviation > LARGEST_DEVIATION:
        return None
    tree = split_tree(grid.shape[0])
    sizes, kinds = np.unique(tree.sizes, return_inverse=True)
    made: dict[tuple[int, int], PairTable] = {}
    squares = [_floats(_table(laws, int(n), _BITS, made)) for n in sizes]
    reaches = np.array([square.shape[0] // 2 for square in squares], dtype=np.int64)
    starts = np.cumsum([0, *(square.size for square in squares)])[:-1].astype(np.int64)
    values = np.concatenate([square.ravel() for square in squares])
    return ThreeColumnSampler(
        laws, np.ascontiguousarray(grid), structure.free, n_cells, tree, kinds.astype(np.int64),
        SquareTables(values, starts, reaches), ignored_digits, made,
    )  # fmt: skip


def _table(laws: SumLaws, n: int, bits: int, made: dict[tuple[int, int], PairTable]) -> PairTable:
    found = made.get((n, bits))
    if found is None:
        if n == 1:
            found = _single(laws, bits)
        else:
            left, right = _table(laws, n // 2, bits, made), _table(laws, n - n // 2, bits, made)
            found = _joined(left, right, bits)
        made[n, bits] = found
    return found


def _single(laws: SumLaws, bits: int) -> PairTable:
    """Table of one row. Its weights are scaled to add up to just under 1; otherwise those of many rows vanish."""
    numerator, denominator = _scale(laws)
    values = [[value * numerator // (denominator << 2 * bits) for value in row] for row in _raw(laws, bits)]
    # Three factors of at most 1, each off by the cell's error; then the scale and the rounding down.
    cell = laws.table(1, bits)
    return _trimmed(PairTable(cell.reach, (3 * cell.error + 2) * (numerator // denominator + 1) + 2, values))


def _raw(laws: SumLaws, bits: int) -> list[list[int]]:
    """p(x) p(y) p(x + y) in units of 8**-bits."""
    cell = laws.table(1, bits)
    axis = range(-cell.reach, cell.reach + 1)
    return [[cell.at(x) * cell.at(y) * cell.at(x + y) for y in axis] for x in axis]


def _scale(laws: SumLaws) -> tuple[int, int]:
    """The constant of the weights, the same at all precisions: 1 - 2**-32 divided by their computed sum."""
    return ((1 << 32) - 1) << (3 * _BITS - 32), sum(map(sum, _raw(laws, _BITS)))


def _joined(left: PairTable, right: PairTable, bits: int) -> PairTable:
    reach = left.reach + right.reach
    side = 2 * reach + 1
    product = _packed(left, side) * _packed(right, side)
    flat = [int(value) >> bits for value in product.coeffs()]
    flat += [0] * (side * side - len(flat))
    error = left.error + right.error + 2
    if error * error * side * side >= 1 << bits:
        raise SolverError(
            f"Tables of three columns need more than {bits} bits of precision. Use the chain sampler."
        )
    return _trimmed(PairTable(reach, error, [flat[i * side : (i + 1) * side] for i in range(side)]))


def _packed(table: PairTable, side: int) -> fmpz_poly:
    """The table as a polynomial. Its rows start `side` apart, so that the rows of a product do not overlap."""
    gap = [0] * (side - len(table.values))
    flat: list[int] = []
    for row in table.values:
        flat += row
        flat += gap
    return fmpz_poly(flat)


def _trimmed(table: PairTable) -> PairTable:
    """The table without its outer rings of zeros."""
    inside = [i for i, row in enumerate(table.values) if any(row)]
    reach = max(table.reach - inside[0], inside[-1] - table.reach)
    cut = table.reach - reach
    rows = table.values[cut : len(table.values) - cut]
    # The weights are symmetric in the two columns, so the columns can be cut where the rows are cut.
    return PairTable(reach, table.error, [row[cut : len(row) - cut] for row in rows])


def _floats(table: PairTable) -> npt.NDArray[np.float64]:
    least = table.error << _ACCURATE
    rows = [[math.ldexp(float(v), -_BITS) if v >= least else 0.0 for v in row] for row in table.values]
    array = np.array(rows, dtype=np.float64)
    inside = np.flatnonzero(array.any(axis=1))
    cut = int(min(inside[0], array.shape[0] - 1 - inside[-1]))
    return array[cut : array.shape[0] - cut, cut : array.shape[0] - cut]


def _decide(
    tables: list[PairTable],
    parts: tuple[int, int],
    sums: tuple[int, int],
    uniform: int,
    digits: int,
    bits: int,
) -> tuple[int, int] | None:
    """The outcome of every uniform number with these digits, or None if more digits are needed."""
    here, there, whole = tables
    s, t = sums
    n = parts[0] + parts[1]
    mass, slack = whole.at(s, t) << bits, whole.error << bits
    low = uniform * max(mass - slack, 0) >> digits
    high = -(-(uniform + 1) * (mass + slack) >> digits)
    c, d = ((2 * x * parts[0] + n) // (2 * n) for x in sums)
    cumulated = error = 0
    for ring in range(max(abs(c), abs(d)) + here.reach + 1):
        for place in range(max(1, 8 * ring)):
            i, j = ring_cell(ring, place)
            p, q = here.at(c + i, d + j), there.at(s - c - i, t - d - j)
            cumulated += p * q
            error += here.error * q + there.error * p + here.error * there.error
            if cumulated + error > low:
                return (c + i, d + j) if cumulated - error >= high else None
    return None
