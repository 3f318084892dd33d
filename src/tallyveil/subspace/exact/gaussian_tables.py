"""Tables for look-ahead trials of wide Gaussian noise, by a formula.

Problem. A table g_m(x) of `column_tables` needs a transform for every x. For a Gaussian law a formula gives a number
that is never below the norm of that transform, and it is equal up to about exp(-2 pi^2 v) if the variance v of a cell,
given the sum of its column, is not small.

Variables. a is the variance of the cell that is added, and b that of the cells below it together. S = a + b and
v = a b / S. K and d are the peak and the floor of a table: g_m(x) <= K exp(-x^2 / (2 S)) + d for all x.

Steps. The product exp(-w^2 / (2 a)) exp(-(x - w)^2 / (2 b)) is exp(-x^2 / (2 S)) exp(-(w - x a / S)^2 / (2 v)). By
Poisson summation, the transform of the second factor is largest in absolute value if its centre is 0. So the norm for
any x is at most exp(-x^2 / (2 S)) times the norm N for x = 0, and the new peak is K N.

The table before has a floor, and keeps its last value beyond its end. Both together add at most a constant e to its
formula. By Minkowski's inequality, this adds e times the norm of the law's transform to the new norm. Cells beyond the
reach add at most 4 T (K + d) times the weight beyond the reach. These two numbers make the new floor.

Rounding. Exponentials are made of IEEE operations only, with relative errors below 2**-43. They change a norm by a
share of at most 2**-43 T. The share 2**-26 covers this and the other roundings, because T is at most 2**16.

Worked case. Two cells with variance 4 have S = 8 and v = 2. With two columns, N is the root of the sum of
exp(-w^2 / 2) over all integers w, which is 1.58.

Proof: `docs/proofs/integer-subspace.md`, section 5.
"""

import math
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.subspace.look_ahead import ColumnTables
from tallyveil.kernels.subspace.look_ahead_tables import LEAST_INFLATION, AddedCell, norm_of_weights
from tallyveil.kernels.subspace.transform import Roots
from tallyveil.noise.balls import certified_float, precision
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.subspace.exact.cell_laws import cell_weight, weight_beyond
from tallyveil.subspace.exact.column_histories import HistoryStep, LawGrid, norm_exponent

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
