"""Tables for look-ahead trials: the weight that the rows below can still give to a column.

Look-ahead trials (`look_ahead`) need for m = 1, 2, ... rows a table g_m(x) of positive numbers. The law of the trials
is exact with every choice of these numbers for which the probabilities of the rows that a trial can take add up to at
most 1. Good numbers make most trials succeed.

`column_tables` makes them. For wide Gaussian noise a formula takes the place of the transforms (`fill_by_formula`).

Proof: `docs/proofs/integer-subspace.md`, section 5.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from flint import arb, fmpq

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.look_ahead import (
    LEAST_INFLATION,
    AddedCell,
    ColumnTables,
    Roots,
    TrialScratch,
    added_errors,
    next_head,
    norm_of_weights,
)
from tallyveil.noise.balls import certified_float, precision
from tallyveil.noise.laws import DiscreteGaussian, Law
from tallyveil.subspace.exact.convolution import cell_weight, weight_beyond
from tallyveil.subspace.exact.two_way_grid import HistoryStep, LawGrid, histories, norm_exponent

LEAST_VARIANCE: Final = 2
"""With smaller variances of cells the formula would be clearly above the norm, so that fewer trials succeed."""

LARGEST_LENGTH: Final = 1 << 16
"""Longest transform for which the bound of its roundings holds (see `has_formula`)."""

_BITS: Final = 160
"""Bits of ball arithmetic, far more than the 53 of the floats that are certified with it."""
_LOG_2: Final = math.log(2.0)
"""Arguments of exp are split into whole multiples of it, which only change the exponent, and a rest."""
_TERMS: Final = tuple(1 / math.factorial(k) for k in range(14))
"""Taylor coefficients of exp for |x| <= ln(2)/2. The first term left out is 0.35**14 / 14!, below 2**-53."""


def has_formula(grid: LawGrid, length: int) -> bool:
    """Whether all cells are Gaussian and wide, and transforms are not too long for the bound of the roundings."""
    return length <= LARGEST_LENGTH and all(
        isinstance(law, DiscreteGaussian) and law.variance >= LEAST_VARIANCE for law in grid.laws
    )


def fill_by_formula(
    columns: ColumnTables,
    roots: Roots,
    grid: LawGrid,
    steps: list[HistoryStep],
    shares: Floats,
    edges: list[int],
) -> Integers:
    """Fill in the tables after the first ones; returns the exponent of each table.

    Problem. A table g_m(x) needs a transform for every x. For a Gaussian law a formula gives a
    number that is never below the norm of that transform, and it is equal up to about exp(-2 pi^2 v) if the
    variance v of a cell, given the sum of its column, is not small.

    Variables. a is the variance of the cell that is added, and b that of the cells below it together. S = a + b
    and v = a b / S. K and d are the peak and the floor of a table: g_m(x) <= K exp(-x^2 / (2 S)) + d for all x.

    Steps. The product exp(-w^2 / (2 a)) exp(-(x - w)^2 / (2 b)) is exp(-x^2 / (2 S)) exp(-(w - x a / S)^2 / (2
    v)). By Poisson summation, the transform of the second factor is largest in absolute value if its centre is 0.
    So the norm for any x is at most exp(-x^2 / (2 S)) times the norm N for x = 0, and the new peak is K N.

    The table before has a floor, and keeps its last value beyond its end. Both together add at most a constant e
    to its formula. By Minkowski's inequality, this adds e times the norm of the law's transform to the new norm.
    Cells beyond the reach add at most 4 T (K + d) times the weight beyond the reach. These two numbers make the
    new floor.

    Rounding. Exponentials are made of IEEE operations only, with relative errors below 2**-43. They change a norm
    by a share of at most 2**-43 T. The share 2**-26 covers this and the other roundings, because T is at most
    2**16.

    Worked case. Two cells with variance 4 have S = 8 and v = 2. With two columns, N is the root of the sum of
    exp(-w^2 / 2) over all integers w, which is 1.58.

    Args:
        columns: The tables, of which the first ones are there.
        roots: Of transforms.
        grid: The laws of the cells.
        steps: How each table is made.
        shares: For each row, the share by which g must be larger than the norm.
        edges: For each first table, the x from which it keeps its value.
    """
    variances = [law.variance for law in grid.laws if isinstance(law, DiscreteGaussian)]
    heads, length = columns.heads, roots.mirror.size
    ends = np.array([*edges, *([heads.shape[1] - 1] * (len(steps) - len(edges)))])
    spans = [*variances, *([Fraction(0)] * (len(steps) - len(variances)))]
    peaks, floors = np.ones(len(steps)), np.zeros(len(steps))
    exponents = np.zeros(len(steps), dtype=np.int64)
    squares = np.arange(heads.shape[1], dtype=np.float64) ** 2
    norms: dict[tuple[Fraction, int], float] = {}
    for place, step in enumerate(steps[len(edges) :], start=len(edges)):
        before, cell_variance = step.before, variances[step.law]
        spans[place] = spans[before] + cell_variance
        conditional = cell_variance * spans[before] / spans[place]
        for variance in (conditional, cell_variance):
            if (variance, step.exponent) not in norms:
                norms[variance, step.exponent] = _norm(variance, step.exponent, columns, roots)
        last = float(exponential(np.array([float(ends[before]) ** 2 / (2 * float(spans[before]))]))[0])
        outside = 4 * length * columns.beyond[step.law] * (peaks[before] + floors[before])
        growth = 1 + shares[step.row] + LEAST_INFLATION
        peak = peaks[before] * norms[conditional, step.exponent] * growth
        floor = (floors[before] + peaks[before] * last) * norms[cell_variance, step.exponent] + outside
        scale = 2.0 ** -int(np.frexp(peak + floor * growth)[1])
        peaks[place], floors[place] = peak * scale, floor * growth * scale
        exponents[place] = exponents[before] - int(math.log2(scale))
        formula = peaks[place] * exponential(squares / (2 * float(spans[place]))) + floors[place]
        heads[place] = np.minimum.accumulate(formula)
    return exponents


def exponential(y: Floats) -> Floats:
    """exp(-y) for y >= 0, with a relative error below 2**-43 if y is below 300; the same on every machine."""
    whole = np.rint(y / _LOG_2)
    rest = whole * _LOG_2 - y
    total = np.full_like(rest, _TERMS[-1])
    for term in _TERMS[-2::-1]:
        total = total * rest + term
    return np.asarray(np.ldexp(total, -np.minimum(whole, 2000).astype(np.int64)))


def _norm(variance: Fraction, exponent: int, columns: ColumnTables, roots: Roots) -> float:
    """At least the norm of the transform of exp(-w^2 / (2 variance)), up to the roundings of `next_head`."""
    law = DiscreteGaussian(variance)
    reach = min(roots.mirror.size // 2 - 1, columns.weights.shape[1] - 1)
    with precision(_BITS):
        weights = np.array([certified_float(cell_weight(law, w)) for w in range(reach + 1)])
        rest = certified_float(2 * weight_beyond(law, reach))
    return norm_of_weights(weights, roots, AddedCell(0, *norm_exponent(exponent))) + rest


LARGEST_WORK: Final = 1 << 31
"""Largest number of entries of all transforms for the tables together (`planned_work`)."""

_SPREAD: Final = 5.5
"""Least length of a transform, in standard deviations of the widest row."""
_NATS_BEYOND_REACH: Final = 31
"""A transform is so long that the weight of one cell at its ends is below e**-31."""
_NATS_BEYOND_WIDTH: Final = 35
"""Tables are sqrt(2 x 35) = 8.4 standard deviations of the widest column wide, to either side."""
_SMALLEST_WEIGHT_BITS: Final = 300
"""A cell is not tabulated where its weight is below 2**-300, which keeps entries well above underflow."""
_SMALLEST_BEYOND: Final = 2.0**-200
"""Floor of the weight beyond a reach. A bound may be too large, never zero by underflow."""
_NORM_BY_FORMULA: Final = 32
"""About the time of one norm by transform length, if an entry of a transform takes the time 1."""

_BYTES: Final = 8
"""Bytes of an entry of a table. Where a formula fills the tables, their memory limits them."""


@dataclass(frozen=True, slots=True)
class ColumnTableSizes:
    """Sizes of the tables.

    Attributes:
        length: T, a power of two.
        reaches: For each law, the largest w whose weight is in the tables by itself.
        width: Number of entries of each table g.
        flats: For each law, the first table of a column has the weight of x up to `flat`, and the weight of `flat`
            beyond.
    """

    length: int
    reaches: tuple[int, ...]
    width: int
    flats: tuple[int, ...]


def sizes_for(grid: LawGrid) -> ColumnTableSizes:
    """The sizes of the tables of a two-way table."""
    wanted = max(_value_at(law, _NATS_BEYOND_REACH) for law in grid.laws)
    row, column = grid.largest_deviations()
    least = max(_SPREAD * row, 2 * wanted + 2, 16)
    length = 1 << math.ceil(math.log2(least))
    largest = [int(_value_at(law, _SMALLEST_WEIGHT_BITS * math.log(2))) for law in grid.laws]
    reaches = tuple(min(length // 2 - 1, most) for most in largest)
    width = max(math.ceil(math.sqrt(2 * _NATS_BEYOND_WIDTH) * column), max(reaches) + 2)
    return ColumnTableSizes(length, reaches, width, tuple(min(most, width - 1) for most in largest))


def _value_at(law: Law, nats: float) -> float:
    """The x at which the weight is exp(-nats)."""
    if isinstance(law, DiscreteGaussian):
        return math.sqrt(2 * nats * float(law.variance))
    return nats * float(law.scale)


def planned_work(grid: LawGrid) -> int:
    """About the number of entries of all transforms that `column_tables` needs. Millions take some milliseconds."""
    return _work(grid, sizes_for(grid), len(histories(grid)[1]))


def _work(grid: LawGrid, sizes: ColumnTableSizes, n_tables: int) -> int:
    if has_formula(grid, sizes.length):
        return n_tables * (_BYTES * sizes.width + _NORM_BY_FORMULA * sizes.length)
    return n_tables * sizes.width * sizes.length


@dataclass(frozen=True, eq=False)
class LookAheadTables:
    """The tables g of a two-way table, for the kernels and as balls.

    Attributes:
        laws: The laws of cells. Table i is the first table of a column whose lowest cell has law i.
        sizes: Sizes of the tables.
        columns: The tables for the kernels.
        roots: Roots of unity for the transforms.
        exponents: int64 [n_tables]. Each table is stored divided by 2**exponent.
    """

    laws: tuple[Law, ...]
    sizes: ColumnTableSizes
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

    def cells(self, m: int) -> list[int]:
        """The columns of the cells of the m-th row from below that are not fixed."""
        return [int(k) for k in self.columns.cells[m - 1, : self.columns.counts[m - 1]]]

    def law(self, m: int, k: int) -> Law:
        """The law of a cell that is not fixed."""
        return self.laws[int(self.columns.law_of[m - 1, k])]

    def is_forced(self, m: int, k: int) -> bool:
        """Whether a cell that is not fixed is the lowest of its column, so that the rows above it decide it."""
        return m == 1 or bool(self.columns.table_of[m - 2, k] < 0)

    def head(self, m: int, k: int, x: int) -> arb:
        """g_m(x) of a column that has a cell in these m rows, at the current precision."""
        place = int(self.columns.table_of[m - 1, k])
        if place < len(self.laws):
            return cell_weight(self.laws[place], min(abs(x), self.sizes.flats[place]))
        value = float(self.columns.heads[place, min(abs(x), self.sizes.width - 1)])
        return arb(value) * arb(2) ** int(self.exponents[place])

    def mass(self) -> arb:
        """prod g_r(0) over the columns: a trial ends in N with the probability (weight of N) / mass."""
        total = arb(1)
        for k in range(self.n_columns):
            total = total * self.head(self.n_rows, k, 0)
        return total


def column_tables(grid: LawGrid) -> LookAheadTables:
    """Make the tables of a two-way table.

    Variables. T is the length of the transforms. It is at least 5.5 standard deviations of a row's sum, so that
    few trials are lost to rows whose sum is a multiple of T other than 0: about exp(-5.5**2 / 2) of them in each
    row. The *reach* is the largest value w of a cell whose weight the tables hold by itself. The weights beyond
    it are added up in one bound. The *width* is the number of entries of a table.

    Steps. The first table of a column is the weight L of its lowest cell. g_m(x) is a norm of the transform of w
    -> L(w) g_{m-1}(x - w) (`tallyveil.kernels.subspace.look_ahead`), rounded up by 2**-26 or more
    (`inflations`). A cell that is fixed at 0 leaves the table of its column as it is. Columns with the same
    history share their tables. Beyond the largest x of the table, g_m keeps its last value, which is large enough
    there. So g is defined on all integers, and no outcome is cut off.

    The norms of a row have exponents p_k, and the numbers 1 / p_k must add up to at most 1. Most trials succeed
    if 1 / p_k is proportional to the variance that cell k has, given the sum of its column. So the exponents of a
    row are equal if all cells have one law and none is fixed.

    The width is so large that at the end of a table the sum of a column's independent cells is at most exp(-35)
    times as likely as at zero. The last value, which is too large further out, adds about this much elsewhere.

    Worked case. For the Laplace weight L(x) = exp(-abs(x) / 4), g_1(0) = 1 and g_1(4) = exp(-1) = 0.37. Two cells
    of a row with variances 1 and 3, and far more variance below them, get the exponents 4 and 4/3.

    Raises:
        SolverError: the tables would take too long.
    """
    sizes = sizes_for(grid)
    table_of, steps, exponent_of = histories(grid)
    if _work(grid, sizes, len(steps)) > LARGEST_WORK:
        raise SolverError(
            f"{grid.said()}: look-ahead trials need {len(steps)} tables of {sizes.width} numbers with transforms of "
            f"length {sizes.length}, which take too long. Use the chain sampler, or less noise."
        )
    shares = inflations(grid.law_of, exponent_of, sizes.length)
    if (shares * np.maximum((exponent_of > 0).sum(axis=1), 1)).max() > 1:
        raise SolverError(
            f"{grid.said()}: look-ahead trials need transforms of length {sizes.length}, whose errors of floats are "
            "too large. Use the chain sampler."
        )
    columns = _first_tables(grid, sizes, table_of, len(steps))
    roots = transform_roots(sizes.length)
    if has_formula(grid, sizes.length):
        exponents = fill_by_formula(columns, roots, grid, steps, shares, list(sizes.flats))
    else:
        exponents = _fill(columns, roots, steps, shares, len(grid.laws))
    below = np.where(table_of[:-1] < 0, table_of[1:], table_of[:-1])
    columns.steps[1:] = np.ldexp(1.0, exponents[below] - exponents[table_of[1:]])
    return LookAheadTables(grid.laws, sizes, columns, roots, exponents)


def _first_tables(grid: LawGrid, sizes: ColumnTableSizes, table_of: Integers, n_tables: int) -> ColumnTables:
    n_laws = len(grid.laws)
    weights = np.zeros((n_laws, max(sizes.reaches) + 1))
    beyond = np.zeros(n_laws)
    heads = np.zeros((n_tables, sizes.width))
    with precision(_BITS):
        for i, law in enumerate(grid.laws):
            reach, flat = sizes.reaches[i], sizes.flats[i]
            heads[i, : flat + 1] = [certified_float(cell_weight(law, x)) for x in range(flat + 1)]
            heads[i, flat + 1 :] = heads[i, flat]
            weights[i, : reach + 1] = heads[i, : reach + 1]
            beyond[i] = max(certified_float(weight_beyond(law, reach)) * (1 + 2.0**-40), _SMALLEST_BEYOND)
    cells = np.argsort(grid.law_of < 0, axis=1, kind="stable").astype(np.int64)
    counts = (grid.law_of >= 0).sum(axis=1).astype(np.int64)
    reaches = np.array(sizes.reaches, dtype=np.int64)
    ones = np.ones(grid.law_of.shape)
    return ColumnTables(weights, reaches, beyond, heads, ones, table_of, grid.law_of, cells, counts)


def _fill(
    columns: ColumnTables, roots: Roots, steps: list[HistoryStep], shares: Floats, n_laws: int
) -> Integers:
    """Fill in the tables after the first ones; returns the exponent of each table."""
    heads = columns.heads
    exponents = np.zeros(len(steps), dtype=np.int64)
    memory = scratch_memory(2, roots.mirror.size)
    for place, step in enumerate(steps[n_laws:], start=n_laws):
        cell = AddedCell(step.law, *norm_exponent(step.exponent))
        next_head(columns, roots, cell, 1 + shares[step.row], heads[step.before], memory, heads[place])
        exponent = int(np.frexp(heads[place, 0])[1])
        heads[place] *= 2.0**-exponent
        exponents[place] = exponents[step.before] + exponent
    return exponents


def inflations(law_of: Integers, exponent_of: Integers, length: int) -> Floats:
    """For each row, the share by which g is larger than the norm. It makes s_1(0) at most 1 for every x.

    The norm of a cell with exponent p is at least its sum divided by T**(1/p). So the sum n_k of t_k is at most
    T**(1/p), and 1 for a forced cell. Let b be the bound of the errors of s_1(0) for these sums (`added_errors`), and n
    the number of cells that are neither fixed nor forced. With the share 2**-26 + 2 b / n, the product of the n norms
    is at most 1 / (1 + n 2**-26 + 2 b), up to the errors of norms. If n 2**-26 + 2 b is at most 1, this is at most
    1 - b.

    Args:
        law_of: [r, c], the law of each cell, -1 if it is fixed.
        exponent_of: [r, c], 16 p for each cell, 0 if it is fixed or forced.
        length: T.
    """
    shares = np.zeros(law_of.shape[0])
    known: dict[bytes, float] = {}
    for i, (laws, sixteenths) in enumerate(zip(law_of, exponent_of, strict=True)):
        values = sixteenths[laws >= 0]
        key = values.tobytes()
        if key not in known:
            n = max(1, int((values > 0).sum()))
            totals = np.ones(values.size + values.size % 2)
            totals[: values.size][values > 0] = [length ** (16 / p) for p in values[values > 0].tolist()]
            share = LEAST_INFLATION + 2 * added_errors(1.001 * totals, length, np.zeros(totals.size)) / n
            known[key] = (
                math.ceil(share * 2**40) / 2**40
            )  # the same on machines whose powers differ in the last bit
        shares[i] = known[key]
    return shares


def scratch_memory(n_columns: int, length: int) -> TrialScratch:
    """Memory of one trial."""
    n = n_columns + n_columns % 2
    t, s, imaginary = (np.zeros((n, length)) for _ in range(3))
    omegas, totals, added = (np.zeros(n) for _ in range(3))
    return TrialScratch(t, s, imaginary, np.zeros((2, length)), omegas, totals, added)


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
