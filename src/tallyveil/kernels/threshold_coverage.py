"""How often the error of an estimate near a threshold lies within given ends, and its mean square.

A group has true count theta. Its stage-1 count y chose its detail. The noise of k of its n cells is z, that of the
other cells is r; s = k / n. Stage 1 enters the estimate of the total with weight w, which is the same for all groups
(Gaussian noise) or depends on y (Laplace noise). The error of the sum of the k cells is, in the terms of
`tallyveil.products.safetab.public.group_numbers`,

    Gaussian:  e = H(T) - theta - r - (1 - s) w y / (1 - w),   T = (1 - w) (theta + z + r) + w y,
    Laplace:   e = (1 - s w) z + s w (y - theta - r).

Both rise with z, so low <= e <= high holds for whole z between two ends. The chance of that is read off a table of the
distribution of z, and it is summed over y and r with their chances.

H is given at knots and is linear between them. For a fixed y, the argument of the look-up rises with r. For the first r
it also rises with y. So each search in the table goes on from the place where an earlier one ended. The time is
proportional to the number of values of y times the number of values of r. For `mean_squared_error`, x, the noise of all
cells, takes the place of r.
"""

import math

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal, njit

Law = tuple[Floats, Floats]
"""Values, ascending, and the chance of each."""
Line = tuple[Floats, Floats]
"""Knots, ascending, and the height at each, with straight lines between them."""


@internal
def _between(at: float, knots: Floats, heights: Floats, place: int) -> tuple[float, int]:
    """A straight line between knots, read off at `at`, and the knot before it; the search begins at `place`."""
    # Constant beyond the ends.
    last = knots.size - 1
    if at <= knots[0]:
        return heights[0], place
    if at >= knots[last]:
        return heights[last], place
    # Only forward: callers ask in rising order, so that all searches of a row together pass each knot once.
    while knots[place + 1] <= at:
        place += 1
    along = (at - knots[place]) / (knots[place + 1] - knots[place])
    return heights[place] + along * (heights[place + 1] - heights[place]), place


@internal
def _at_most(end: int, below: Floats, reach: int) -> float:
    """P(z <= end)."""
    # Beyond the table, its first and its last entry stand.
    return float(below[min(max(end + reach + 1, 0), below.size - 1)])


@njit(nogil=True, cache=True)
def interval_chance(
    count: float,
    ends: tuple[float, float],
    share: float,
    stage_1: tuple[Floats, Floats, Floats],
    others: Law,
    below: Floats,
    levels: Line,
) -> float:
    """P(low <= e <= high).

    Args:
        count: theta.
        ends: low and high.
        share: s.
        stage_1: Stage-1 counts y, ascending, their chances, and w at each of them; each [stage 1].
        others: Values of r, ascending, and their chances; each [others].
        below: P(z < -reach), P(z <= -reach), ... , P(z <= reach).
        levels: Values of T, ascending, and H there, which never falls; both empty with Laplace noise.
    """
    low, high = ends
    y1, chances, weights = stage_1
    rest, rest_chances = others
    totals, of_totals = levels
    # `below` has an entry for z < -reach and one for each z from -reach to reach.
    reach = (below.size - 2) // 2
    covered = 0.0
    low_start = high_start = 0  # pieces of H for the first r: they move forward with y too
    for i in range(y1.size):
        w = weights[i]
        # A row starts where the first r of the row before ended; it may not start further on, as r begins anew at
        # its lowest value.
        low_place, high_place = low_start, high_start
        inside = 0.0
        for j in range(rest.size):
            if totals.size:
                at = count + rest[j] + (1.0 - share) * w / (1.0 - w) * y1[i]
                # Solving H(T) for z: `of_totals` holds H and `totals` holds T, so that the look-up is the inverse
                # of H.
                first, low_place = _between(at + low, of_totals, totals, low_place)
                last, high_place = _between(at + high, of_totals, totals, high_place)
                if j == 0:
                    low_start, high_start = low_place, high_place
                first = (first - w * y1[i]) / (1.0 - w) - rest[j] - count
                last = (last - w * y1[i]) / (1.0 - w) - rest[j] - count
            else:
                # Linear, so it is solved for z directly.
                moved = share * w * (y1[i] - rest[j] - count)
                first, last = (low - moved) / (1.0 - share * w), (high - moved) / (1.0 - share * w)
            # Whole z between two ends: floor of the upper and ceiling of the lower one.
            chance = _at_most(math.floor(last), below, reach) - _at_most(math.ceil(first) - 1, below, reach)
            # Ends may cross where no z fits; then the chance is 0 and not negative.
            inside += rest_chances[j] * max(chance, 0.0)
        covered += chances[i] * inside
    return covered


@njit(nogil=True, cache=True)
def mean_squared_error(
    count: float,
    weight: float,
    stage_1: Law,
    sums: Law,
    levels: Line,
) -> float:
    """E[(H(T) - theta)**2] for the total, T = (1 - w) (theta + x) + w y, with Gaussian noise.

    Args:
        count: theta.
        weight: w.
        stage_1: Stage-1 counts y, ascending, and their chances; each [stage 1].
        sums: Values of x, the noise of all cells, ascending, and their chances; each [sums].
        levels: Values of T, ascending, and H there.
    """
    y1, chances = stage_1
    values, value_chances = sums
    totals, of_totals = levels
    square, start = 0.0, 0
    for i in range(y1.size):
        place, inner = start, 0.0
        for j in range(values.size):
            at = (1.0 - weight) * (count + values[j]) + weight * y1[i]
            value, place = _between(at, totals, of_totals, place)
            if j == 0:
                start = place
            inner += value_chances[j] * (value - count) ** 2
        square += chances[i] * inner
    return square
