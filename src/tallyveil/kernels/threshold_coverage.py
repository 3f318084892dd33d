"""How often the error of an estimate near a threshold lies within given ends, and its mean square.

A group has true count theta. Its stage-1 count y chose its detail. The noise of k of its n cells is z, that of the
other cells is r; s = k / n. Stage 1 enters the estimate of the total with weight w, which is the same for all groups
(Gaussian noise) or depends on y (Laplace noise). The error of the sum of the k cells is, in the terms of
`tallyveil.safetab.near_threshold`,

    Gaussian:  e = H(T) - theta - r - (1 - s) w y / (1 - w),   T = (1 - w) (theta + z + r) + w y,
    Laplace:   e = (1 - s w) z + s w (y - theta - r).

Both rise with z, so low <= e <= high holds for whole z between two ends. The chance of that is read off a table of the
distribution of z, and it is summed over y and r with their chances.

Both functions take time in proportion to the values of y times those of r. H is given at knots, between which it is a
straight line. What is looked up there rises along r, and for the first r along y too, so the place in the table only
moves forward.
"""

import math

import numpy as np
from numba import njit

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal


@internal
def _between(at: float, knots: Floats, heights: Floats, place: int) -> tuple[float, int]:
    """A straight line between knots, read off at `at`, and the knot before it; the search begins at `place`."""
    last = knots.size - 1
    if at <= knots[0]:
        return heights[0], place
    if at >= knots[last]:
        return heights[last], place
    while knots[place + 1] <= at:
        place += 1
    along = (at - knots[place]) / (knots[place + 1] - knots[place])
    return heights[place] + along * (heights[place + 1] - heights[place]), place


@internal
def _at_most(end: int, below: Floats, reach: int) -> float:
    """P(z <= end)."""
    return float(below[min(max(end + reach + 1, 0), below.size - 1)])


@njit(nogil=True, cache=True)
def interval_chance(
    count: float,
    low: float,
    high: float,
    share: float,
    y1: Floats,
    chances: Floats,
    weights: Floats,
    others: Floats,
    other_chances: Floats,
    below: Floats,
    totals: Floats,
    of_totals: Floats,
) -> float:
    """P(low <= e <= high).

    Args:
        count: theta.
        low, high: Ends of the interval.
        share: s.
        y1: Stage-1 counts, [stage 1].
        chances: Their chances, [stage 1].
        weights: w at each of them, [stage 1].
        others: r, ascending, [others].
        other_chances: Their chances, [others].
        below: P(z < -reach), P(z <= -reach), ... , P(z <= reach).
        totals: Values of T, ascending; empty with Laplace noise.
        of_totals: H there, which never falls.
    """
    reach = (below.size - 2) // 2
    covered = 0.0
    low_start = high_start = 0  # pieces of H for the first r: they move forward with y too
    for i in range(y1.size):
        w = weights[i]
        low_place, high_place = low_start, high_start
        inside = 0.0
        for j in range(others.size):
            if totals.size:
                at = count + others[j] + (1.0 - share) * w / (1.0 - w) * y1[i]
                first, low_place = _between(at + low, of_totals, totals, low_place)
                last, high_place = _between(at + high, of_totals, totals, high_place)
                if j == 0:
                    low_start, high_start = low_place, high_place
                first = (first - w * y1[i]) / (1.0 - w) - others[j] - count
                last = (last - w * y1[i]) / (1.0 - w) - others[j] - count
            else:
                moved = share * w * (y1[i] - others[j] - count)
                first, last = (low - moved) / (1.0 - share * w), (high - moved) / (1.0 - share * w)
            chance = _at_most(math.floor(last), below, reach) - _at_most(math.ceil(first) - 1, below, reach)
            inside += other_chances[j] * max(chance, 0.0)
        covered += chances[i] * inside
    return covered


@njit(nogil=True, cache=True)
def mean_squared_error(
    count: float,
    weight: float,
    y1: Floats,
    chances: Floats,
    sums: Floats,
    sum_chances: Floats,
    totals: Floats,
    of_totals: Floats,
) -> float:
    """E[(H(T) - theta)**2] for the total, T = (1 - w) (theta + x) + w y, with Gaussian noise.

    Args:
        count: theta.
        weight: w.
        y1: Stage-1 counts, [stage 1].
        chances: Their chances, [stage 1].
        sums: x, the noise of all cells, ascending, [sums].
        sum_chances: Their chances, [sums].
        totals: Values of T, ascending.
        of_totals: H there.
    """
    square, start = 0.0, 0
    for i in range(y1.size):
        place, inner = start, 0.0
        for j in range(sums.size):
            at = (1.0 - weight) * (count + sums[j]) + weight * y1[i]
            value, place = _between(at, totals, of_totals, place)
            if j == 0:
                start = place
            inner += sum_chances[j] * (value - count) ** 2
        square += chances[i] * inner
    return square


def interval_chance_reference(
    count: float,
    low: float,
    high: float,
    share: float,
    y1: Floats,
    chances: Floats,
    weights: Floats,
    others: Floats,
    other_chances: Floats,
    below: Floats,
    totals: Floats,
    of_totals: Floats,
) -> float:
    """Specification of `interval_chance`: all y and r at once."""
    reach = (below.size - 2) // 2
    w, y, r = weights[:, None], y1[:, None], others[None, :]
    if totals.size:
        at = count + r + (1 - share) * w / (1 - w) * y
        ends = [(np.interp(at + end, of_totals, totals) - w * y) / (1 - w) - r - count for end in (low, high)]
    else:
        moved = share * w * (y - r - count)
        ends = [(end - moved) / (1 - share * w) for end in (low, high)]
    last, before = np.floor(ends[1]), np.ceil(ends[0]) - 1
    places = [np.clip(end + reach + 1, 0, below.size - 1).astype(np.int64) for end in (last, before)]
    inside = np.maximum(below[places[0]] - below[places[1]], 0.0)
    return float(chances @ inside @ other_chances)


def mean_squared_error_reference(
    count: float,
    weight: float,
    y1: Floats,
    chances: Floats,
    sums: Floats,
    sum_chances: Floats,
    totals: Floats,
    of_totals: Floats,
) -> float:
    """Specification of `mean_squared_error`: all y and x at once."""
    at = (1 - weight) * (count + sums[None, :]) + weight * y1[:, None]
    return float(chances @ (np.interp(at, totals, of_totals) - count) ** 2 @ sum_chances)
