"""Projection on a simplex, compiled: non-negative numbers of a given sum.

Problem: given v and a positive total, find the x >= 0 with sum of x = total that is nearest to v. The answer is
x = max(0, v - t) for one shift t; with weighted distances, x = max(0, v - t * slack). Variable: t.

Step: Newton's method on the sum of max(0, v - t) as a function of t, which is convex, piecewise linear and decreasing.
Stopping rule: a step no longer changes t, which happens after finitely many steps. Rounding errors of a long sum can
move t up and down for ever. So the method also ends after FEW_STEPS steps where two steps have the same numbers above
zero: the second one has then only mended rounding.

Worked case: v = (5, -2) and total 3. At t = 0 the sum is 5 with one number above zero, so t = 2; the sum is 3 there.
x = (3, 0).

Oracles: `tests.oracles.simplex`, which sorts the numbers.
"""

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.lanes import LANES, four_sums

FEW_STEPS = 20
"""Steps that are made without looking for this. Nearly every search has ended before."""


@internal
def simplex_shift(values: Floats, n: int, total: float, start: float) -> float:
    """The shift t with sum over the first n values of max(0, value - t) = total, which is positive.

    Newton's method reaches the root's piece from the left after finitely many steps, wherever it starts. One value or
    two values need no search.
    """
    # Closed forms for one value and for two.
    if n == 1:
        return float(values[0] - total)
    if n == 2:
        larger, smaller = max(values[0], values[1]), min(values[0], values[1])
        # The smaller one ends at 0: t lies at or above it, and the larger one alone makes the total.
        if larger - smaller >= total:
            return float(larger - total)
        return float((larger + smaller - total) * 0.5)
    # 4 n + 100 is a bound against rounding that would go on for ever; in exact arithmetic each step but the first
    # moves to another piece, of which there are n + 1.
    shift, before, whole = start, 0, n // LANES * LANES
    for number in range(4 * n + 100):
        # four sums side by side, in a fixed order
        (first, second, third, fourth), count = four_sums(values, whole, shift)
        for i in range(whole, n):
            first += max(values[i] - shift, 0.0)
            count += values[i] > shift
        above = (first + second) + (third + fourth)
        # All values lie at or below t, where the slope is 0: start again to the left of the root, where the largest
        # value alone makes the total.
        if count == 0:
            largest = values[0]
            for i in range(1, n):
                largest = max(largest, values[i])
            shift = largest - total
            continue
        # The slope of the piece is minus the number of values above t.
        step = (above - total) / count
        shift += step
        # About 4 units in the last place: a smaller step is rounding.
        if abs(step) <= 1e-15 * (1.0 + abs(shift)) or (number >= FEW_STEPS and count == before):
            break
        before = count
    return shift


@internal
def weighted_shift(values: Floats, slack: Floats, n: int, total: float, start: float) -> float:
    """The shift t with sum over the first n values of max(0, value - t * slack) = total, which is positive.

    This is the projection with distances weighted by 1 / slack, which is positive. It uses Newton's method too.
    """
    shift, before = start, 0.0
    for number in range(4 * n + 100):
        # One sum in order: the lanes of `four_sums` have no weights.
        above, slope = 0.0, 0.0
        for i in range(n):
            left = values[i] - shift * slack[i]
            if left > 0.0:
                above += left
                slope += slack[i]
        if slope == 0.0:
            # The largest t at which some value alone makes the total: the root lies at or above it, and the slope
            # there is not 0.
            shift = (values[0] - total) / slack[0]
            for i in range(1, n):
                shift = max(shift, (values[i] - total) / slack[i])
            continue
        step = (above - total) / slope
        shift += step
        # Relative to t or to the total, because either may be 0 or far smaller than the other.
        if abs(step) <= 1e-15 * abs(shift) or abs(above - total) <= 1e-15 * total:
            break
        if number >= FEW_STEPS and slope == before:
            break
        before = slope
    return shift
