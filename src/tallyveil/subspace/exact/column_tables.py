"""Tables for look-ahead trials: the weight that the rows below can still give to a column.

Problem. Look-ahead trials (`look_ahead`) need for m = 1, 2, ... rows a table g_m(x) of positive numbers. The law of the
trials is exact with every choice of these numbers for which the probabilities of the rows that a trial can take add up
to at most 1. Good numbers make most trials succeed.

Variables. T is the length of the transforms. It is at least 5.5 standard deviations of a row's sum, so that few trials
are lost to rows whose sum is a multiple of T other than 0: about exp(-5.5**2 / 2) of them in each row. The *reach* is
the largest value w of a cell whose weight the tables hold by itself. The weights beyond it are added up in one bound.
The *width* is the number of entries of a table.

Steps. g_1 is the weight L of one cell. g_m(x) is a norm of the transform of w -> L(w) g_{m-1}(x - w)
(`tallyveil.kernels.subspace.look_ahead_tables`), rounded up by 2**-26 or more (`inflations`). Beyond the largest x of
the table, g_m keeps its last value, which is large enough there. So g is defined on all integers, and no outcome is cut
off.

The width is so large that at the end of a table the sum of r independent cells is at most exp(-35) times as likely as
at zero. The last value, which is too large further out, adds about this much elsewhere.

Worked case. For the Laplace weight L(x) = exp(-abs(x) / 4), g_1(0) = 1 and g_1(4) = exp(-1) = 0.37.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from flint import arb, fmpq

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.look_ahead import ColumnTables, Scratch, added_errors
from tallyveil.kernels.subspace.look_ahead_tables import LEAST_INFLATION, next_head
from tallyveil.kernels.subspace.transform import Roots
from tallyveil.noise.balls import certified_float, precision, rational
from tallyveil.noise.laws import DiscreteGaussian, Law

LARGEST_WORK: Final = 1 << 31
"""Largest number of entries of all transforms for the tables together."""

_SPREAD: Final = 5.5
_NATS_BEYOND_REACH: Final = 31
_NATS_BEYOND_WIDTH: Final = 35
_SMALLEST_WEIGHT_BITS: Final = 300
_SMALLEST_BEYOND: Final = 2.0**-200
_BITS: Final = 160


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the tables.

    Attributes:
        length: T, a power of two.
        reach: Largest w whose weight is in the tables by itself.
        width: Number of entries of each table g.
        flat: For x up to `flat`, g_1(x) is the weight of x. Beyond, g_1(x) is the weight of `flat`.
    """

    length: int
    reach: int
    width: int
    flat: int


def cell_weight(law: Law, x: int) -> arb:
    """The weight L(x) of one cell, with L(0) = 1, at the current precision."""
    if isinstance(law, DiscreteGaussian):
        return (-(x * x) / (2 * rational(law.variance))).exp()
    return (-abs(x) / rational(law.scale)).exp()


def weight_beyond(law: Law, reach: int) -> arb:
    """An upper bound of the sum of L(w) over w > reach >= 0: a geometric sum, which is exact for the Laplace law."""
    first, second = cell_weight(law, reach + 1), cell_weight(law, reach + 2)
    return first / (1 - second / first)


def sizes_for(law: Law, n_rows: int, n_columns: int) -> Sizes:
    """The sizes of the tables of a law."""
    deviation = law.standard_deviation()
    if isinstance(law, DiscreteGaussian):
        variance = float(law.variance)
        wanted = math.sqrt(2 * _NATS_BEYOND_REACH * variance)
        largest = math.sqrt(2 * variance * _SMALLEST_WEIGHT_BITS * math.log(2))
    else:
        wanted = _NATS_BEYOND_REACH * float(law.scale)
        largest = float(law.scale) * _SMALLEST_WEIGHT_BITS * math.log(2)
    least = max(_SPREAD * deviation * math.sqrt(n_columns), 2 * wanted + 2, 16)
    length = 1 << math.ceil(math.log2(least))
    reach = min(length // 2 - 1, int(largest))
    width = max(math.ceil(math.sqrt(2 * _NATS_BEYOND_WIDTH * n_rows) * deviation), reach + 2)
    return Sizes(length, reach, width, min(int(largest), width - 1))


def planned_work(law: Law, active: Bools) -> int:
    """Number of entries of all transforms that the tables of `column_tables` need. Millions take some milliseconds."""
    sizes = sizes_for(law, *active.shape)
    return len(_histories(active)[1]) * sizes.width * sizes.length


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables g of a two-way table, for the kernels and as balls.

    Attributes:
        law: The law of one cell.
        sizes: Sizes of the tables.
        columns: The tables for the kernels.
        roots: Roots of unity for the transforms.
        exponents: int64 [n_tables]. Each table is stored divided by 2**exponent. Table 0 is g_1.
    """

    law: Law
    sizes: Sizes
    columns: ColumnTables
    roots: Roots
    exponents: Integers

    @property
    def n_rows(self) -> int:
        """Number of rows of the two-way table."""
        return int(self.columns.table_of.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns of the two-way table."""
        return int(self.columns.table_of.shape[1])

    def head(self, m: int, k: int, x: int) -> arb:
        """g_m(x) of column k, at the current precision."""
        place = int(self.columns.table_of[m - 1, k])
        if place == 0:
            return cell_weight(self.law, min(abs(x), self.sizes.flat))
        value = float(self.columns.heads[place, min(abs(x), self.sizes.width - 1)])
        return arb(value) * arb(2) ** int(self.exponents[place])

    def mass(self) -> arb:
        """prod g_r(0) over the columns: a trial ends in N with the probability (weight of N) / mass."""
        total = arb(1)
        for k in range(self.n_columns):
            total = total * self.head(self.n_rows, k, 0)
        return total


def column_tables(law: Law, active: Bools) -> Tables:
    """Make the tables of a two-way table whose cells have one law, or are fixed at 0.

    Args:
        law: The law of a cell that is not fixed.
        active: [r, c], whether a cell is not fixed, by rows from the last to the first. The last row has no fixed cell.

    Raises:
        SolverError: the tables would take too long.
    """
    n_rows, n_columns = active.shape
    sizes = sizes_for(law, n_rows, n_columns)
    table_of, made_from = _histories(active)
    if len(made_from) * sizes.width * sizes.length > LARGEST_WORK:
        raise SolverError(
            f"{law}: look-ahead trials of {n_rows} x {n_columns} cells need {len(made_from)} tables of {sizes.width} "
            f"numbers with transforms of length {sizes.length}, which take too long. Use the chain sampler, or less "
            "noise."
        )
    roots = transform_roots(sizes.length)
    with precision(_BITS):
        weights = np.array([certified_float(cell_weight(law, w)) for w in range(sizes.reach + 1)])
        first = [certified_float(cell_weight(law, min(x, sizes.flat))) for x in range(sizes.flat + 1)]
        beyond = certified_float(weight_beyond(law, sizes.reach)) * (1 + 2.0**-40)
    heads = np.full((len(made_from), sizes.width), first[-1])
    heads[0, : len(first)] = first
    exponents = np.zeros(len(made_from), dtype=np.int64)
    steps = np.ones((n_rows, n_columns))
    columns = ColumnTables(weights, max(beyond, _SMALLEST_BEYOND), heads, steps, table_of, active)
    memory = scratch_memory(2, sizes.length)
    shares = inflations(active, sizes.length)
    if (shares * active.sum(axis=1)).max() > 1:
        raise SolverError(
            f"{law}: look-ahead trials of {n_rows} x {n_columns} cells need transforms of length {sizes.length}, whose "
            "errors of floats are too large. Use the chain sampler."
        )
    for place, (before, row) in enumerate(made_from[1:], start=1):
        n_active = int(active[row].sum())
        next_head(columns, roots, n_active, 1 + shares[row], heads[before], memory, heads[place])
        exponent = int(np.frexp(heads[place, 0])[1])
        heads[place] *= 2.0**-exponent
        exponents[place] = exponents[before] + exponent
    steps[1:] = np.ldexp(1.0, exponents[table_of[:-1]] - exponents[table_of[1:]])
    return Tables(law, sizes, columns, roots, exponents)


def inflations(active: Bools, length: int) -> Floats:
    """For each row, the share by which g is larger than the norm. It makes s_1(0) at most 1 for every x.

    The norm of a row's cell is at least its sum divided by T**(1/n), for the n cells of the row that are not fixed. So
    the sum n_k of t_k is at most T**(1/n), and 1 for a fixed cell. Let b be the bound of the errors of s_1(0) for these
    sums (`added_errors`). With the share 2**-26 + 2 b / n, the product of the n norms is at most
    1 / (1 + n 2**-26 + 2 b), up to the errors of norms. If n 2**-26 + 2 b is at most 1, this is at most
    1 - b.
    """
    shares = np.zeros(active.shape[0])
    known: dict[bytes, float] = {}
    width = active.shape[1] + active.shape[1] % 2
    for i, row in enumerate(active):
        key = row.tobytes()
        if key not in known:
            n = int(row.sum())
            totals = np.ones(width)
            totals[: row.size][row] = length ** (1 / n)
            known[key] = LEAST_INFLATION + 2 * added_errors(1.001 * totals, length, np.zeros(width)) / n
        shares[i] = known[key]
    return shares


def _histories(active: Bools) -> tuple[Integers, list[tuple[int, int]]]:
    """(table of each cell, for each table the table before and its row).

    Columns whose cells below are fixed in the same rows share a table. A fixed cell leaves its column's table as it is.
    """
    table_of = np.zeros(active.shape, dtype=np.int64)
    places: dict[tuple[int, int], int] = {}
    made_from = [(0, 0)]
    for i in range(1, active.shape[0]):
        for k in range(active.shape[1]):
            before = int(table_of[i - 1, k])
            key = before, i
            if active[i, k] and key not in places:
                places[key] = len(made_from)
                made_from.append(key)
            table_of[i, k] = places[key] if active[i, k] else before
    return table_of, made_from


def scratch_memory(n_columns: int, length: int) -> Scratch:
    """Memory of one trial."""
    n = n_columns + n_columns % 2
    t, s, imaginary = (np.zeros((n, length)) for _ in range(3))
    omegas, totals, added = (np.zeros(n) for _ in range(3))
    return Scratch(t, s, imaginary, np.zeros((2, length)), omegas, totals, added)


def transform_roots(length: int) -> Roots:
    """The roots of unity and the order of places for transforms of this length."""
    cosines, sines = np.ones(length), np.zeros(length)
    half = 1
    with precision(_BITS):
        angles = [(-fmpq(j, length // 2)) for j in range(length // 2)]
        values = [(float(arb.cos_pi_fmpq(angle)), float(arb.sin_pi_fmpq(angle))) for angle in angles]
    table = np.array(values)
    while half < length:
        step = length // (2 * half)
        cosines[half : 2 * half], sines[half : 2 * half] = table[::step].T
        half *= 2
    bits = length.bit_length() - 1
    reverse = np.array([int(f"{j:0{bits}b}"[::-1], 2) for j in range(length)], dtype=np.int64)
    # The place of frequency f is its reverse, and the reverse of a place is its frequency.
    return Roots(cosines, sines, np.ascontiguousarray(reverse[-reverse % length]))
