"""The optimum of coupled tables, by Newton's method on the prices of the labels, compiled.

Problem: as in `approach`. Variables: the price of each label in each child; these are as many as there are labels and
children, whatever the number of columns. For given prices the counts are one exact projection (`projection`). The dual
function of the prices is concave and smooth. Its gradient is sum - target - price / label_weight for each label and
child.

Step: Newton's method. The direction
(`direction`) also has the prices of the tables' inner lines, from which the next projection starts. The step is
shortened until the dual function rises enough. Where this fails, accelerated gradients give a better point to start
from, and the prices are those of that point (a *restart*).

Stopping rule: the gradient is at most the tolerance in every label and child, in persons. Then the counts are the
exact optimum for measurements that differ from the given ones by no more than that: target + gradient in the place of
target makes the gradient zero (docs/proofs/tiles.md). This is a backward error, and it is the unit in which the noise
is known.

Worked case: one child of a root, one table with two columns and total 2, centres 0, weights 1, one label of weight 1
on the first column with target 2. At the price -2/3 the centres become 2/3 and 0, and x = (4/3, 2/3); then
sum - target - price = 4/3 - 2 + 2/3 = 0.

Oracle: PIQP, in the tests.

Source: Qi and Sun 2006, A quadratically convergent Newton method for computing the nearest correlation matrix.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import FloatRows, Floats
from tallyveil.kernels.compiled import internal, njit, pointers
from tallyveil.kernels.tiles.approach import Project
from tallyveil.kernels.tiles.tables import Prices, Tables, clear_sums, label_forces, label_sums
from tallyveil.kernels.vectors import largest_of, set_rows, set_to

Approach = Callable[[Tables, Prices, Floats, int, float, float, Project], float]

STEPS, TRIALS = 60, 360
"""Most steps of Newton's method, and most points that are tried."""

NEAR = 0.01
"""Persons. Below, a step is taken if it halves the gradient: the projections' errors hide what it does to the dual
function."""

PRECISION, BEST_PRECISION, ENOUGH = 0.1, 1e-3, 0.3
"""Newton's equations are solved up to a residual of at most PRECISION. Near the optimum it falls to BEST_PRECISION, but
not below ENOUGH of the tolerance."""

SHORTER, SHORTENINGS = 0.4, 6
"""A step that does not help is shortened by this factor. After so many in a row, to 0.4 % of the step, the prices are
given up and accelerated gradients look for a better point."""

PROJECTION_LIMIT = 600
"""Most steps of one projection. One that has not reached its tolerance by then counts as a step that does
not help."""

LOOSE_PROJECTION, CLOSE_PROJECTION = 1e-6, 1e-9
"""Tolerance of the projections in persons, far from the optimum and near it. Between them the
tolerance is 1e-5 of the gradient, whose error it is."""


RESTART_STEPS, MORE_RESTART_STEPS, RESTART_TOLERANCE = 20, 10, 1e-4
"""Steps of accelerated gradients in the first restart, how many more in each later one, and their tolerance."""


class Effort(NamedTuple):
    """How Newton's method ended: the largest gradient in persons, restarts, Newton's steps, conjugate gradients."""

    residual: float
    restarts: int
    steps: int
    cg_steps: int


FindDirection = Callable[[Tables, Floats, FloatRows, Prices, float], tuple[float, int]]


@pointers
class Methods(NamedTuple):
    """The kernels that Newton's method calls through pointers."""

    project: Project
    approach: Approach
    find_direction: FindDirection


Climb = Callable[[Tables, Prices, Floats, float, Methods], Effort]


class _State(NamedTuple):
    """Arrays of the method: trial prices, their gradient, the step's direction, and the point that is projected."""

    trial: Prices
    gradient: Floats
    move: Prices
    point: Floats


@njit(nogil=True, cache=True)
def climb(tables: Tables, prices: Prices, x: Floats, tolerance: float, methods: Methods) -> Effort:
    """Find the prices of the optimum.

    Args:
        tables: The tables.
        prices: Prices to start from; changed to the best ones that were found.
        x: Changed to the last point that was tried. A restart begins there.
        tolerance: Largest gradient that is accepted, in persons.
        methods: Kernels.
    """
    state = _State(_copied(prices), np.empty(prices.label.shape), _copied(prices), np.empty(x.size))
    # -inf at first, so that the first trial is a step whatever it brings
    value, residual, slope, step, precision = -np.inf, np.inf, 0.0, 1.0, PRECISION
    close, shortenings, restarts, steps, cg_steps = LOOSE_PROJECTION, 0, 0, 0, 0
    for _ in range(TRIALS):
        tried = _evaluate(tables, x, state, close, methods.project)
        gap = largest_of(state.gradient.reshape(-1))
        # Armijo's rule, with room for the rounding errors of the dual function
        rises = np.isfinite(gap) and tried >= value + 1e-4 * step * slope - 1e-13 * abs(tried)
        halves = gap < 0.5 * residual and (
            residual < NEAR or (residual < 1.0 and tried >= value - 1e-10 * abs(tried))
        )
        if rises or halves:
            _set(prices, state.trial)
            steps += 1
            close = min(LOOSE_PROJECTION, max(CLOSE_PROJECTION, 1e-5 * gap))
            # Newton's equations are solved the more exactly the faster the gradient falls (an inexact Newton method);
            # after a shortened step exact directions are in vain.
            if shortenings or steps == 1:
                precision = PRECISION
            else:
                precision = max(BEST_PRECISION, min(precision, 0.3 * gap / residual))
            value, residual, shortenings, step = tried, gap, 0, 1.0
            # too many steps: the solver's next rung begins from another point
            if residual <= tolerance or steps > STEPS:
                break
            slope, n_products = methods.find_direction(
                tables, x, state.gradient, state.move, max(precision, ENOUGH * tolerance / gap)
            )
            cg_steps += n_products
        else:
            # backtracking: the last accepted prices are the base, and the direction stays
            step, shortenings = SHORTER * step, shortenings + 1
            if shortenings == SHORTENINGS:
                clear_sums(prices)
                methods.approach(
                    tables,
                    prices,
                    x,
                    RESTART_STEPS + MORE_RESTART_STEPS * restarts,
                    RESTART_TOLERANCE,
                    np.inf,
                    methods.project,
                )
                step = 0.0
                restarts, shortenings = restarts + 1, 0
                # nothing to compare with: the next trial is taken, whatever the dual function is there
                value, residual, slope = -np.inf, np.inf, 0.0
        _add(state.trial, prices, step, state.move)
    return Effort(residual, restarts, steps, cg_steps)


@internal
def _copied(prices: Prices) -> Prices:
    return Prices(prices.column.copy(), prices.row.copy(), prices.label.copy())


@internal
def _set(out: Prices, source: Prices) -> None:
    set_to(out.column, source.column)
    set_to(out.row, source.row)
    set_rows(out.label, source.label)


@internal
def _add(out: Prices, start: Prices, step: float, move: Prices) -> None:
    """out = start + step * move."""
    for i in range(out.column.size):
        out.column[i] = start.column[i] + step * move.column[i]
    for k in range(out.row.size):
        out.row[k] = start.row[k] + step * move.row[k]
    for label in range(out.label.shape[0]):
        for c in range(out.label.shape[1]):
            out.label[label, c] = start.label[label, c] + step * move.label[label, c]


@internal
def _evaluate(tables: Tables, x: Floats, state: _State, tolerance: float, project: Project) -> float:
    """Project for the trial prices, and fill in the gradient. Returns the dual function."""
    point, trial, gradient = state.point, state.trial.label, state.gradient
    label_forces(tables, trial, point)
    for e in range(x.size):
        point[e] = tables.centre[e] - point[e]
    if project(tables, point, state.trial, x, tolerance, PROJECTION_LIMIT) > 1.0:
        # the projection failed, so that the trial must not be taken: one infinite entry is enough
        gradient[0, 0] = np.inf
        return -np.inf
    label_sums(tables, x, gradient)
    value = 0.0
    for p in range(tables.upright.size):
        first, base = tables.row_begin[p], tables.entry_begin[p]
        n_rows = tables.row_begin[p + 1] - first
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        along, across = (n_rows, 1) if tables.upright[p] else (1, n_columns)
        for k in range(n_rows):
            energy = 0.0
            for i in range(n_columns):
                e = base + i * along + k * across
                # x (x / 2 - point): what is least at the projection, without the constant of the centres
                energy += x[e] * (0.5 * x[e] - point[e])
            value += tables.weight[first + k] * energy
    for label in range(trial.shape[0]):
        for c in range(trial.shape[1]):
            weight, target, price = (
                tables.label_weight[label, c],
                tables.label_target[label, c],
                trial[label, c],
            )
            # a label that is not measured has no term, and its price stays where it is
            if weight > 0.0:
                gradient[label, c] -= target + price / weight
                value -= price * (0.5 * price / weight + target)
            else:
                # no measurement, hence no price and nothing to move
                gradient[label, c] = 0.0
    return value
