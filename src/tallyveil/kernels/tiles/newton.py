"""The optimum of coupled tables, by Newton's method on the prices of the labels, compiled.

Problem: as in `approach`. Variables: the price of each label in each child; these are as many as there are labels and
children, whatever the number of columns. For given prices the counts are one exact projection (`projection`). The dual
function of the prices is concave and smooth. Its gradient is sum - target - price / label_weight for each label and
child.

Step: Newton's method. Its equations are solved by conjugate gradients with exact projections on the face of the counts
above zero (`face`), and the step is shortened until the dual function rises enough. Where this fails, accelerated
gradients give a better point to start from, and the prices are those of that point (a *restart*).

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

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal, pointed
from tallyveil.kernels.tiles.approach import Project
from tallyveil.kernels.tiles.face import active_forces, active_sums, answer_forces, list_face
from tallyveil.kernels.tiles.tables import Prices, Tables, clear_sums, label_forces, label_sums
from tallyveil.kernels.vectors import largest_of, set_rows, set_to

Approach = Callable[[Tables, Prices, Floats, int, float, float, Project], float]

STEPS, TRIALS = 60, 360
"""Most steps of Newton's method, and most points that are tried."""

NEAR = 0.01
"""Persons. Below, a step is taken if it halves the gradient: the projections' errors hide what it does to the dual
function."""

CG_STEPS = 400
ENOUGH = 0.3
"""Newton's equations are not solved to less than this part of the tolerance."""

SHORTER, SHORTENINGS = 0.4, 6
PROJECTION_LIMIT = 600
LOOSE_PROJECTION, CLOSE_PROJECTION = 1e-6, 1e-9

RESTART_STEPS, MORE_RESTART_STEPS, RESTART_TOLERANCE = 20, 10, 1e-4
"""Steps of accelerated gradients in the first restart, how many more in each later one, and their tolerance."""


class Effort(NamedTuple):
    """How Newton's method ended: the largest gradient in persons, restarts, Newton's steps, conjugate gradients."""

    residual: float
    restarts: int
    steps: int
    cg_steps: int


FindDirection = Callable[[Tables, Floats, Floats, Floats, float], tuple[float, int]]


class Methods(NamedTuple):
    """The kernels that Newton's method calls through pointers."""

    project: Project
    approach: Approach
    find_direction: FindDirection


Climb = Callable[[Tables, Prices, Floats, float, Methods], Effort]


class _State(NamedTuple):
    """Arrays of the method: trial prices, their gradient, the step's direction, and the projected point."""

    trial: Floats
    gradient: Floats
    move: Floats
    point: Floats


@pointed
def climb(tables: Tables, prices: Prices, x: Floats, tolerance: float, methods: Methods) -> Effort:
    """Find the prices of the optimum.

    Args:
        tables: The tables.
        prices: Prices to start from; changed to the best ones that were found.
        x: A point with the tables' sums, to restart from; changed to the last point that was tried.
        tolerance: Largest gradient that is accepted, in persons.
        methods: Kernels.
    """
    state = _State(
        prices.label.copy(), np.empty(prices.label.shape), np.zeros(prices.label.shape), np.empty(x.size)
    )
    good = x.copy()
    value, residual, slope, step, precision = -np.inf, np.inf, 0.0, 1.0, 0.1
    close, shortenings, restarts, steps, cg_steps = LOOSE_PROJECTION, 0, 0, 0, 0
    for _ in range(TRIALS):
        tried = _evaluate(tables, prices, x, state, close, methods.project)
        found = largest_of(state.gradient.reshape(-1))
        rises = np.isfinite(found) and tried >= value + 1e-4 * step * slope - 1e-13 * abs(tried)
        halves = found < 0.5 * residual and (
            residual < NEAR or (residual < 1.0 and tried >= value - 1e-10 * abs(tried))
        )
        if rises or halves:
            set_rows(prices.label, state.trial)
            set_to(good, x)
            steps += 1
            close = min(LOOSE_PROJECTION, max(CLOSE_PROJECTION, 1e-5 * found))
            precision = max(1e-4, min(precision, 0.3 * found / residual)) if shortenings == 0 else 0.1
            value, residual, shortenings, step = tried, found, 0, 1.0
            if residual <= tolerance or steps > STEPS:
                break
            slope, made = methods.find_direction(
                tables, x, state.gradient, state.move, max(precision, ENOUGH * tolerance / found)
            )
            cg_steps += made
        else:
            step, shortenings = SHORTER * step, shortenings + 1
            if shortenings == SHORTENINGS:
                set_to(x, good)
                clear_sums(prices)
                methods.approach(
                    tables,
                    prices,
                    x,
                    RESTART_STEPS + MORE_RESTART_STEPS * restarts,
                    RESTART_TOLERANCE,
                    0.02,
                    methods.project,
                )
                step = 0.0
                restarts, shortenings = restarts + 1, 0
                value, residual, slope = -np.inf, np.inf, 0.0
        for label in range(state.trial.shape[0]):
            for c in range(state.trial.shape[1]):
                state.trial[label, c] = prices.label[label, c] + step * state.move[label, c]
    return Effort(residual, restarts, steps, cg_steps)


@internal
def _evaluate(
    tables: Tables, prices: Prices, x: Floats, state: _State, tolerance: float, project: Project
) -> float:
    """Project for the trial prices, and fill in the gradient. Returns the dual function."""
    point, trial, gradient = state.point, state.trial, state.gradient
    label_forces(tables, trial, point)
    for e in range(x.size):
        point[e] = tables.centre[e] - point[e]
    if project(tables, point, prices, x, tolerance, PROJECTION_LIMIT) > 1.0:
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
            own = 0.0
            for i in range(n_columns):
                e = base + i * along + k * across
                own += x[e] * (0.5 * x[e] - point[e])
            value += tables.weight[first + k] * own
    for label in range(trial.shape[0]):
        for c in range(trial.shape[1]):
            weight, target, price = (
                tables.label_weight[label, c],
                tables.label_target[label, c],
                trial[label, c],
            )
            if weight > 0.0:
                gradient[label, c] -= target + price / weight
                value -= price * (0.5 * price / weight + target)
            else:
                gradient[label, c] = 0.0
    return value


@pointed
def find_direction(
    tables: Tables, x: Floats, slopes: Floats, moves: Floats, precision: float
) -> tuple[float, int]:
    """Newton's direction at a point, given the gradient (`slopes`), into `moves`.

    Returns:
        How fast the dual function rises along it, and the steps of conjugate gradients.
    """
    n = slopes.size
    face = list_face(tables, x)
    weight, gradient, move = tables.label_weight.reshape(-1), slopes.reshape(-1), moves.reshape(-1)
    root, left, ahead, product = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    force = np.empty(face.inner.size)
    energy = 0.0
    for j in range(n):
        root[j] = np.sqrt(weight[j])
        left[j] = root[j] * gradient[j]
        ahead[j], move[j] = left[j], 0.0
        energy += left[j] * left[j]
    enough, steps = precision * precision * energy, 0
    while energy > enough and steps < CG_STEPS:
        steps += 1
        for j in range(n):
            product[j] = root[j] * ahead[j]
        active_forces(tables, face, product, force)
        answer_forces(tables, face, force)
        active_sums(tables, face, force, product)
        curvature = 0.0
        for j in range(n):
            product[j] = ahead[j] + root[j] * product[j]
            curvature += product[j] * ahead[j]
        rate, before = energy / curvature, energy
        energy = 0.0
        for j in range(n):
            move[j] += rate * ahead[j]
            left[j] -= rate * product[j]
            energy += left[j] * left[j]
        for j in range(n):
            ahead[j] = left[j] + energy / before * ahead[j]
    slope = 0.0
    for j in range(n):
        move[j] *= root[j]
        slope += move[j] * gradient[j]
    return slope, steps
