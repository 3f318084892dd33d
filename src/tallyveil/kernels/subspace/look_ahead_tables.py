"""The tables g of look-ahead trials: how much weight the rows below can still give to a column.

Problem: `look_ahead` needs positive numbers g_m(x) for which the rows that a trial can take have probabilities that add
up to at most 1. The closer to 1, the more trials succeed.

Variables: L(w) is the weight of a cell with the value w. T is the length of transforms. The cell has an exponent p. The
numbers 1 / p of the cells of a row that are neither fixed nor forced add up to at most 1.

Step: the first table of a column is L, and g_m(x) is the norm ((1/T) sum over f of abs(F(f))**p)**(1/p) of the
transform F of the sequence w -> L(w) g_{m-1}(x - w) modulo T, rounded up. By Hoelder's inequality the rows'
probabilities then add up to at most 1.

Worked case: two cells with p = 2. The norm is the root of the sum of squares of the sequence. A row is (w, -w), and the
sum of t_1(w) t_2(-w) over w is at most 1 by Cauchy's and Schwarz's inequality.

Proof: `docs/proofs/integer-subspace.md`, section 5.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.subspace.look_ahead import ColumnTables, TrialScratch, sum_of, weight_past_reach
from tallyveil.kernels.subspace.transform import Roots, forward

LEAST_INFLATION = 2.0**-26
"""The share by which g is larger than the norm computed in floats, at least. It covers the errors of the norm, which
are below 2**-28. `inflations` in `column_tables` adds what the errors of s_1(0) need, so that s_1(0) is at most 1."""


class AddedCell(NamedTuple):
    """A cell that makes a table from the one before: its law and the exponent p = 2 power / 2**halvings >= 1.

    Attributes:
        law: Number of its law.
        power: A positive integer.
        halvings: 0 to 5.
    """

    law: int
    power: int
    halvings: int


@internal
def _power(base: float, exponent: int) -> float:
    # By squaring, in one order: a library's pow differs from machine to machine in the last digit.
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@internal
def _root(value: float, n: int) -> float:
    """The n-th root of 0 < value <= 1, by Newton's method from above; only IEEE operations."""
    # From above the iterates fall until rounding stops them: at most a few dozen steps, and the end is the same on
    # every machine, since there are only IEEE operations. The result is off by a few units in the last place, which
    # LEAST_INFLATION covers.
    y = 1.0
    while True:
        z = y - (y - value / _power(y, n - 1)) / n
        if z >= y:
            return y
        y = z


@njit(nogil=True, cache=True)
def next_head(
    tables: ColumnTables,
    roots: Roots,
    cell: AddedCell,
    inflation: float,
    before: Floats,
    scratch: TrialScratch,
    out: Floats,
) -> None:
    """The table g_m from g_{m-1}, in the units of g_{m-1}.

    By Hoelder's inequality, the weights of rows with sum 0 add up to at most 1 if g_m(x) is at least the norm of the
    transform of the sequence L(w) g_{m-1}(x - w). An upper bound of this sequence's sum over all w beyond the reach is
    added to every place of it. For x beyond the table, g_{m-1}(x - w) is written as the last value of the table plus an
    excess. The norm is then at most the sum of two numbers: the last value times the norm of L, and the sum of L(w)
    times the excess. The second number is largest for the first x beyond the table.

    Args:
        tables: Of which the weights are used.
        roots: Of transforms.
        cell: The cell of the m-th row.
        inflation: Factor by which g is larger than the norm.
        before: [width], g_{m-1}, which does not increase.
        scratch: Memory.
        out: [width], filled in; it does not increase.
    """
    # The cell's law and its reach; `before` holds the flat end of the earlier table.
    weights, reach = tables.weights[cell.law], tables.reaches[cell.law]
    last, length = before.size - 1, roots.mirror.size
    # Two places x at a time, as two real sequences fit into one complex transform.
    t, omegas = scratch.t, scratch.omegas
    for first in range(0, last + 1, 2):
        for k in range(2):
            # The last pair may have a place beyond the table; it is computed and not stored.
            x = first + k
            t[k, :] = 0.0
            for w in range(-reach, reach + 1):
                # Each |w| <= reach has a place of its own modulo T, as T exceeds twice the reach.
                t[k, w if w >= 0 else w + length] = weights[abs(w)] * before[min(abs(x - w), last)]
            # Rows with cells beyond the reach have weight too: without this bound the proof would miss them.
            omegas[k] = length * weight_past_reach(tables, cell.law, before, x)
        norms = _norms(t, omegas, roots, cell, scratch.spare)
        for k in range(min(2, last + 1 - first)):
            # Larger than the norm, so that s_1(0) stays below 1 with the errors that it contains.
            out[first + k] = norms[k] * inflation
    # For all x beyond the table at once: Minkowski's inequality parts the sequence into a flat one and an excess.
    flat = before[last]
    total = length * tables.beyond[cell.law] * (before[0] + flat)
    t[:] = 0.0
    omegas[:] = 0.0
    # The flat part has the weights of the law; the excess is largest at last + 1, since g does not increase.
    for w in range(-reach, reach + 1):
        t[:, w if w >= 0 else w + length] = weights[abs(w)]
        total += weights[abs(w)] * (before[min(last + 1 - w, last)] - flat)
    total += _norms(t, omegas, roots, cell, scratch.spare)[0] * flat
    # The last entry stands for itself and for all x beyond, so it takes the larger of the two bounds.
    out[last] = max(out[last], total * inflation)
    # From the end on, so that the table does not increase; raising an entry is always allowed.
    for x in range(last - 1, -1, -1):
        out[x] = max(out[x], out[x + 1])


@njit(nogil=True, cache=True)
def norm_of_weights(weights: Floats, roots: Roots, cell: AddedCell) -> float:
    """The norm of the transform of weights of w = 0, 1, ..., which are the same for -w."""
    # The same sequence twice, since a transform takes two; the first norm is returned.
    length = roots.mirror.size
    t = np.zeros((2, length))
    for w in range(weights.size):
        t[:, w] = weights[w]
        t[:, -w] = weights[w]
    return _norms(t, np.zeros(2), roots, cell, np.zeros((2, length)))[0]


@internal
def _norms(t: Floats, omegas: Floats, roots: Roots, cell: AddedCell, spare: Floats) -> tuple[float, float]:
    # Powers need numbers up to 1, so that no power overflows: each sequence is divided by its sum, which bounds its
    # transform, and the norm is multiplied by it in the end.
    length = roots.mirror.size
    # All terms are 0 or more, so the sum is frequency 0 and the largest of the transform.
    tops = sum_of(t[0]) + omegas[0], sum_of(t[1]) + omegas[1]
    spare[0, :] = t[0] / tops[0]
    spare[1, :] = t[1] / tops[1]
    forward(spare[0], spare[1], roots)
    # Frequency 0 is the sum itself, omega included: exactly 1 after the division.
    spare[0, 0] = 1.0
    spare[1, 0] = 1.0
    first, second = 0.0, 0.0
    # Even and odd part of the complex transform, as in `product_of_transforms`; only absolute values are needed.
    for j in range(length):
        i = roots.mirror[j]
        a, b = 0.5 * (spare[0, j] + spare[0, i]), 0.5 * (spare[1, j] - spare[1, i])
        first += _absolute_power(a * a + b * b, cell)
        a, b = 0.5 * (spare[1, j] + spare[1, i]), 0.5 * (spare[0, i] - spare[0, j])
        second += _absolute_power(a * a + b * b, cell)
    return tops[0] * _mean_root(first / length, cell), tops[1] * _mean_root(second / length, cell)


@internal
def _absolute_power(square: float, cell: AddedCell) -> float:
    """The power p of a number, from its square."""
    # p = 2 power / 2^halvings of the absolute value is `power` / 2^halvings of its square: square roots and
    # products alone, no exp and no log.
    for _ in range(cell.halvings):
        square = np.sqrt(square)
    return _power(square, cell.power)


@internal
def _mean_root(mean: float, cell: AddedCell) -> float:
    """The p-th root of a mean of powers of numbers up to 1."""
    # min: rounding may lift the mean of numbers up to 1 above 1 by a unit, and `_root` wants at most 1.
    return _root(_power(min(mean, 1.0), 1 << cell.halvings), 2 * cell.power)
