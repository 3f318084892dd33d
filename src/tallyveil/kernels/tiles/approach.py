"""A first point of coupled tables, by accelerated projected gradients, compiled.

Problem: minimise, over counts with the tables' fixed sums,

    sum over entries of weight/2 * (x - centre)^2 + sum over labels and children of label_weight/2 * (sum - target)^2.

Step: a gradient step from an extrapolated point, and the projection on the tables (`projection`), in the metric of the
entries' weights. The curvature L, in units of these weights, is tried: it rises where the step turns out too long, and
falls a little after each step. The extrapolation starts again where it points uphill (O'Donoghue and Candès).

Stopping rule: no count moved by the tolerance or more, or the steps are used up. The point is only a start
for Newton's method (`newton`), which has a rule that means something to a reader.

Worked case: without labels, L is 1 and the first step is the answer.

Oracle: `newton`, which ends at the same optimum, and PIQP, in the tests.

Source: Beck and Teboulle 2009, A fast iterative shrinkage-thresholding algorithm.
"""

from collections.abc import Callable

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.tiles.tables import Prices, Tables, clear_sums, label_forces, label_sums
from tallyveil.kernels.vectors import set_rows, set_to

FIRST_CURVATURE, CURVATURE_FALLS, TRIALS = 8.0, 0.93, 12
"""The method's step is 1 / curvature, in units of the entries' own weights, whose curvature is 1. The first step is
short. Each step that was short enough makes the next one longer by 7.5 %; one that was too long is tried again,
at most TRIALS times. The values decide how many steps are made, and not where they lead."""

PROJECTION_LIMIT = 30
"""Most steps of one projection. These points need not be exact, so that a projection that stops early only costs the
method some steps."""

LOOSE, LEAST_TOLERANCE = 0.1, 0.02
"""Tolerance of the projections, as a multiple of the last step's largest move, and at least as one of that of the
method."""

Project = Callable[[Tables, Floats, Prices, Floats, float, int], float]


@njit(nogil=True, cache=True)
def approach(
    tables: Tables,
    prices: Prices,
    x: Floats,
    limit: int,
    tolerance: float,
    steepest: float,
    project: Project,
) -> float:
    """Move a point near the optimum.

    Args:
        tables: The tables.
        prices: To start the projections from; changed. Afterwards they are those of Newton's method at the point.
        x: A point with the tables' sums; changed.
        limit: Most steps.
        tolerance: In persons, see the stopping rule.
        steepest: Largest curvature. Where it is larger, so that many steps would be needed, the method gives up.
        project: The projection.
    Returns:
        The largest move of the last step, in persons. It is infinite if the method gave up; all prices are then zero.
    """
    n = x.size
    sums, fresh_sums, ahead_sums = prices.label.copy(), prices.label.copy(), prices.label.copy()
    ahead, fresh, point, force = x.copy(), np.empty(n), np.empty(n), np.empty(n)
    # sums are linear in the counts: those of the extrapolated point follow from two others, without a pass
    # over entries
    label_sums(tables, x, sums)
    set_rows(ahead_sums, sums)
    curvature, momentum, moved = FIRST_CURVATURE, 1.0, np.inf
    for _ in range(limit):
        _price_labels(tables, ahead_sums, prices.label)
        label_forces(tables, prices.label, force)
        for _ in range(TRIALS):
            rate = 1.0 / curvature
            for e in range(n):
                point[e] = ahead[e] - (ahead[e] - tables.centre[e] + force[e]) * rate
            # Projections are only as exact as the last move makes worth while: the larger the step, the less
            # they cost.
            allowed = max(LOOSE * min(moved, 1.0), LEAST_TOLERANCE * tolerance)
            project(tables, point, prices, fresh, allowed, PROJECTION_LIMIT)
            label_sums(tables, fresh, fresh_sums)
            needed = _curvature_between(tables, fresh, ahead, fresh_sums, ahead_sums)
            # The curvature along the step must not exceed the one that the step assumed; 0.01 % is left to rounding.
            if needed <= 1.0001 * curvature:
                break
            # Longer by half at least, so that few trials are needed; four times as long at most, as one direction
            # can be far steeper than all others.
            curvature = min(max(1.5 * curvature, 1.02 * needed), 4.0 * curvature)
            if curvature > steepest:
                clear_sums(prices)
                set_rows(prices.label, np.zeros(prices.label.shape))
                return np.inf
        moved, uphill = 0.0, 0.0
        for e in range(n):
            change = fresh[e] - x[e]
            # O'Donoghue and Candes's test by the gradient: the generalised gradient at `ahead` against the
            # way that x goes
            uphill += (ahead[e] - fresh[e]) * change
            moved = max(moved, abs(change))
        # The momentum carries the point away from the optimum: begin again without it (O'Donoghue and Candes 2015).
        if uphill > 0.0:
            momentum = 1.0
        # Nesterov's sequence of momenta
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        further, momentum = (momentum - 1.0) / following, following
        for e in range(n):
            ahead[e] = fresh[e] + further * (fresh[e] - x[e])
        for label in range(sums.shape[0]):
            for c in range(sums.shape[1]):
                value = fresh_sums[label, c]
                ahead_sums[label, c] = value + further * (value - sums[label, c])
        set_to(x, fresh)
        set_rows(sums, fresh_sums)
        if moved < tolerance:
            break
        curvature = max(curvature * CURVATURE_FALLS, 1.0)
    # The projection's metric is L times the entries' weights, so its prices are 1 / L of those of Newton's
    # method.
    _price_labels(tables, sums, prices.label)
    for i in range(prices.column.size):
        prices.column[i] *= curvature
    for k in range(prices.row.size):
        prices.row[k] *= curvature
    return moved


@internal
def _price_labels(tables: Tables, sums: Floats, price: Floats) -> None:
    """Label weight * (sum - target)."""
    for label in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            price[label, c] = tables.label_weight[label, c] * (sums[label, c] - tables.label_target[label, c])


@internal
def _curvature_between(
    tables: Tables, point: Floats, other: Floats, sums: Floats, other_sums: Floats
) -> float:
    """The objective's second derivative along the line between two points, in units of the entries' weights."""
    length = 0.0
    for p in range(tables.upright.size):
        first, base = tables.row_begin[p], tables.entry_begin[p]
        n_rows = tables.row_begin[p + 1] - first
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        along, across = (n_rows, 1) if tables.upright[p] else (1, n_columns)
        for k in range(n_rows):
            squares = 0.0
            for i in range(n_columns):
                e = base + i * along + k * across
                squares += (point[e] - other[e]) * (point[e] - other[e])
            length += tables.weight[first + k] * squares
    # both points are the same: any curvature will do, and a division by zero is avoided
    if length == 0.0:
        return 1.0
    coupled = 0.0
    for label in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            change = sums[label, c] - other_sums[label, c]
            coupled += tables.label_weight[label, c] * change * change
    return 1.0 + coupled / length
