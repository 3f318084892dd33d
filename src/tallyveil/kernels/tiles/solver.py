"""Least squares of one component of tables, from first prices to proved counts, compiled.

Problem: minimise, over counts with the tables' fixed sums,

    sum over entries of weight/2 (x - centre)^2 + sum over labels, children of label_weight/2 (sum - target)^2

Step: the rungs of a ladder, of which nearly every component needs the first alone.

1. Newton's method, which may restart (RESTARTED). It begins with prices of zero, whose point is the
   projection of the own measurements. In small components whose labels sum few counts, some steps of
   accelerated gradients nearly reach the optimum, and it begins there.
2. Many steps of accelerated gradients from the parent's shares, then Newton's method again (MORE_STEPS).
3. The prices that came nearest are taken (APPROXIMATE). The counts still have all sums.

A component without labels needs one projection. At the end the counts are projected once more for the prices
that were found. Each sum is then right to 1e-9 persons, or to its rounding errors where these are larger.
Finally the certificate measures what is left of the conditions of optimality.

`approach` has the accelerated gradients, `climb` Newton's method, and `gaps_of` the certificate.

Oracle: PIQP, in the tests, and the conditions of optimality in numpy.

Sources: Beck and Teboulle 2009, A fast iterative shrinkage-thresholding algorithm; Qi and Sun 2006, A
quadratically convergent Newton method for computing the nearest correlation matrix.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import FloatRows, Floats
from tallyveil.kernels.compiled import internal, njit, pointers
from tallyveil.kernels.tiles.direction import DirectionParts
from tallyveil.kernels.tiles.tables import (
    Prices,
    Tables,
    clear_sums,
    label_forces,
    label_sums,
    whole_strip,
)
from tallyveil.kernels.vectors import largest_of, set_rows, set_to


class Gaps(NamedTuple):
    """Persons by which the conditions fail.

    Attributes:
        labels: Largest |sum - target - price / weight| of a label and child: the backward error.
        entries: Largest difference between a count and what the prices ask for. A negative count is one.
        sums: Largest difference between a sum and its total.
    """

    labels: float
    entries: float
    sums: float


@njit(nogil=True, cache=True)
def gaps_of(tables: Tables, prices: Prices, x: Floats) -> Gaps:
    """By how much each condition fails.

    The counts are the optimum of a strictly convex problem if and only if there are prices with
    which they meet four conditions (docs/proofs/tiles.md): no count is negative; all sums are right; each count
    is what the prices ask for; and each label's price is its weight times (sum - target). This returns by
    how many persons these fail, entry by entry. It shares no code with the kernels that find the answer. In the
    worked case of `climb` all four numbers are zero; with the price -1 instead of -2/3, the counts asked for are
    (3/2, 1/2), each 1/6 away, and the label's sum misses target + price / weight = 1 by 1/3.
    """
    # recomputed from counts, prices and tables alone; nothing that the solver kept is read
    answers = np.zeros((prices.label.shape[0], prices.label.shape[1]))
    count, total = 0.0, 0.0
    for p in range(tables.upright.size):
        first, last = tables.column_begin[p], tables.column_begin[p + 1]
        top, bottom = tables.row_begin[p], tables.row_begin[p + 1]
        row_sums = np.zeros(bottom - top)
        for i in range(first, last):
            # the long way round for each entry: speed does not matter here, and being plain does
            column_sum = 0.0
            for k in range(top, bottom):
                if tables.upright[p]:
                    value = x[tables.entry_begin[p] + (i - first) * (bottom - top) + k - top]
                    wanted = tables.centre[tables.entry_begin[p] + (i - first) * (bottom - top) + k - top]
                else:
                    value = x[tables.entry_begin[p] + (k - top) * (last - first) + i - first]
                    wanted = tables.centre[tables.entry_begin[p] + (k - top) * (last - first) + i - first]
                # minus all prices of the entry, as the formula in `tables` says
                for z in range(tables.label_begin[i], tables.label_begin[i + 1]):
                    wanted -= prices.label[tables.label[z], tables.child[k]] / tables.weight[k]
                    answers[tables.label[z], tables.child[k]] += value
                wanted -= tables.slack[k] * (prices.column[i] + prices.row[k])
                # the first condition of step T6; a negative count fails it by itself
                count = max(count, abs(value - max(0.0, wanted)))
                column_sum += value
                row_sums[k - top] += value
            # at a root columns have no totals to miss
            if tables.column_total.size:
                total = max(total, abs(column_sum - tables.column_total[i]))
        for k in range(top, bottom):
            total = max(total, abs(row_sums[k - top] - tables.row_total[k]))
    label = 0.0
    for j in range(answers.shape[0]):
        for c in range(answers.shape[1]):
            weight = tables.label_weight[j, c]
            if weight > 0.0:
                # delta of step T7: measurements moved by it make these counts the exact optimum
                gap = answers[j, c] - tables.label_target[j, c] - prices.label[j, c] / weight
                label = max(label, abs(gap))
            else:
                # a label that is not measured must not pull: its price has to be zero
                label = max(label, abs(prices.label[j, c]))
    return Gaps(label, count, total)


FIRST_CURVATURE, CURVATURE_FALLS, TRIALS = 8.0, 0.93, 12
"""The method's step is 1 / curvature, in units of the entries' own weights, whose curvature is 1. The first step is
short. Each step that was short enough makes the next one longer by 7.5 %; one that was too long is tried again,
at most TRIALS times. The values decide how many steps are made, and not where they lead."""

ROUGH_PROJECTION_LIMIT = 30
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

    A gradient step from an extrapolated point, and the projection on the tables, in the
    metric of the entries' weights. The curvature L, in units of these weights, is tried: it rises where the step
    turns out too long, and falls a little after each step. The extrapolation starts again where it points uphill
    (O'Donoghue and Candès). Stopping rule: no count moved by the tolerance or more, or the steps are used up. The
    point is only a start for Newton's method, which has a rule that means something to a reader. Worked case:
    without labels, L is 1 and the first step is the answer.

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
    n, strip = x.size, whole_strip(tables)
    sums, fresh_sums, ahead_sums = prices.label.copy(), prices.label.copy(), prices.label.copy()
    ahead, fresh, point, force = x.copy(), np.empty(n), np.empty(n), np.empty(n)
    # sums are linear in the counts: those of the extrapolated point follow from two others, without a pass
    # over entries
    label_sums(tables, x, sums, strip)
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
            project(tables, point, prices, fresh, allowed, ROUGH_PROJECTION_LIMIT)
            label_sums(tables, fresh, fresh_sums, strip)
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


Approach = Callable[[Tables, Prices, Floats, int, float, float, Project], float]

STEPS, POINTS = 60, 360
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

NEWTON_PROJECTION_LIMIT = 600
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


FindDirection = Callable[[Tables, Floats, FloatRows, Prices, float, DirectionParts], tuple[float, int]]


class State(NamedTuple):
    """Arrays of the method.

    Attributes:
        trial: Trial prices.
        gradient: Their gradient, [K, C].
        move: Direction of the step.
        point: [entries], the point that is projected.
        energy: [rows], each row's part of the dual function.
    """

    trial: Prices
    gradient: FloatRows
    move: Prices
    point: Floats
    energy: Floats


@pointers
class Methods(NamedTuple):
    """The kernels that Newton's method calls through pointers."""

    project: Project
    approach: Approach
    find_direction: FindDirection
    direction: DirectionParts
    evaluate: Callable[[Tables, Floats, State, float, Project], tuple[float, float]]
    combine: Callable[[Prices, Prices, float, Prices], None]


Climb = Callable[[Tables, Prices, Floats, float, Methods], Effort]


@njit(nogil=True, cache=True)
def climb(tables: Tables, prices: Prices, x: Floats, tolerance: float, methods: Methods) -> Effort:
    """Find the prices of the optimum.

    Variables: the price of each label in each child; these are as many as there are labels and
    children, whatever the number of columns. For given prices the counts are one exact projection. The dual
    function of the prices is concave and smooth. Its gradient is sum - target - price / label_weight for each
    label and child. The direction also has the prices of the tables' inner lines, from which the next projection
    starts. The step is shortened until the dual function rises enough. Where this fails, accelerated gradients
    give a better point to start from, and the prices are those of that point (a *restart*). Stopping rule: the
    gradient is at most the tolerance in every label and child, in persons. Then the counts are the exact optimum
    for measurements that differ from the given ones by no more than that: target + gradient in the place of
    target makes the gradient zero (docs/proofs/tiles.md). This is a backward error, and it is the unit in which
    the noise is known.

    Worked case: one child of a root, one table with two columns and total 2, centres 0, weights 1, one label of
    weight 1 on the first column with target 2. At the price -2/3 the centres become 2/3 and 0, and x = (4/3,
    2/3); then sum - target - price = 4/3 - 2 + 2/3 = 0.

    Args:
        tables: The tables.
        prices: Prices to start from; changed to the best ones that were found.
        x: Changed to the last point that was tried. A restart begins there.
        tolerance: Largest gradient that is accepted, in persons.
        methods: Kernels.
    """
    state = State(
        _copied(prices),
        np.empty(prices.label.shape),
        _copied(prices),
        np.empty(x.size),
        np.empty(tables.row_total.size),
    )
    # -inf at first, so that the first trial is a step whatever it brings
    value, residual, slope, step, precision = -np.inf, np.inf, 0.0, 1.0, PRECISION
    close, shortenings, restarts, steps, cg_steps = LOOSE_PROJECTION, 0, 0, 0, 0
    for _ in range(POINTS):
        tried, gap = methods.evaluate(tables, x, state, close, methods.project)
        # Armijo's rule, with room for the rounding errors of the dual function
        rises = np.isfinite(gap) and tried >= value + 1e-4 * step * slope - 1e-13 * abs(tried)
        halves = gap < 0.5 * residual and (
            residual < NEAR or (residual < 1.0 and tried >= value - 1e-10 * abs(tried))
        )
        if rises or halves:
            methods.combine(prices, state.trial, 0.0, state.move)
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
                tables,
                x,
                state.gradient,
                state.move,
                max(precision, ENOUGH * tolerance / gap),
                methods.direction,
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
        methods.combine(state.trial, prices, step, state.move)
    return Effort(residual, restarts, steps, cg_steps)


@internal
def _copied(prices: Prices) -> Prices:
    return Prices(prices.column.copy(), prices.row.copy(), prices.label.copy())


@njit(nogil=True, cache=True)
def combine(out: Prices, start: Prices, step: float, move: Prices) -> None:
    """out = start + step * move; a step of zero copies."""
    if step == 0.0:
        set_to(out.column, start.column)
        set_to(out.row, start.row)
        set_rows(out.label, start.label)
        return
    for i in range(out.column.size):
        out.column[i] = start.column[i] + step * move.column[i]
    for k in range(out.row.size):
        out.row[k] = start.row[k] + step * move.row[k]
    for label in range(out.label.shape[0]):
        for c in range(out.label.shape[1]):
            out.label[label, c] = start.label[label, c] + step * move.label[label, c]


@njit(nogil=True, cache=True)
def evaluate(
    tables: Tables, x: Floats, state: State, tolerance: float, project: Project
) -> tuple[float, float]:
    """Project for the trial prices, and fill in the gradient.

    Returns:
        The dual function, and the largest gradient in persons.
    """
    aim(tables, state.trial.label, state.point)
    if project(tables, state.point, state.trial, x, tolerance, NEWTON_PROJECTION_LIMIT) > 1.0:
        # the projection failed, so that the trial must not be taken
        return -np.inf, np.inf
    label_sums(tables, x, state.gradient, whole_strip(tables))
    row_energies(tables, x, state)
    return dual_value(tables, state), largest_of(state.gradient.reshape(-1))


@internal
def aim(tables: Tables, price: Floats, point: Floats) -> None:
    """Write for each entry of the tables the count that its own measurements and its labels' prices ask for."""
    label_forces(tables, price, point)
    for e in range(tables.entry_begin[0], tables.entry_begin[tables.upright.size]):
        point[e] = tables.centre[e] - point[e]


@internal
def row_energies(tables: Tables, x: Floats, state: State) -> None:
    """Each row's part of the dual function."""
    point = state.point
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
            state.energy[first + k] = tables.weight[first + k] * energy


@internal
def dual_value(tables: Tables, state: State) -> float:
    """The dual function, from the energies of rows and the sums of labels. These sums become the gradient."""
    trial, gradient, value = state.trial.label, state.gradient, 0.0
    # in the order of the rows, whoever has computed the energies
    for energy in state.energy:
        value += energy
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


PLAIN, RESTARTED, MORE_STEPS, APPROXIMATE = 0, 1, 2, 3
"""How the prices of a component were found, from the easiest."""

# Twice as many cost as many projections and gain less the nearer the optimum is; half as many leave Newton's
# method to begin farther away.
FEW_STEPS, FEW_TOLERANCE, FEW_ENTRIES, STEEPEST = 25, 1e-2, 1 << 20, 64.0
"""Accelerated gradients before Newton's method: steps, the largest move in persons at which they end, and the largest
component (in counts) and curvature for which they are tried. Each step costs a projection, as one of Newton's method
does, and near the optimum it gains less. In larger or steeper components, so few of them bring the point no nearer."""

# Half or twice as many only decide when the second rung gives up.
MANY_STEPS, MANY_TOLERANCE = 1000, 1e-3
"""The same on the second rung, where time matters less than an answer."""

# Half of it costs steps that the rounding does not need; twice as much would still be far below its unit.
SUM_TOLERANCE, LAST_PROJECTION_LIMIT = 1e-9, 1000
"""Persons by which a sum of the last projection may miss, and its most steps. The rounding to whole numbers reads the
estimates as multiples of 2^-20, so that a thousandth of that is as good as nothing."""

# Nearer to 1, the last projection could bring a component past the tolerance; at half as much, Newton's
# method makes steps that nobody asked for.
SAFETY = 0.9
"""Newton's method is held to this part of the backward error, since its projections are less exact than the last."""


@pointers
class ComponentParts(NamedTuple):
    """The kernels that the solver calls through pointers."""

    methods: Methods
    spread: Callable[[Tables, Prices, Floats], None]
    climb: Climb
    gaps_of: Callable[[Tables, Prices, Floats], Gaps]


class ComponentOutcome(NamedTuple):
    """How a component ended.

    Attributes:
        rung: PLAIN, RESTARTED, MORE_STEPS or APPROXIMATE.
        gaps: What is left of the conditions of optimality, in persons.
        restarts, steps, cg_steps: Of Newton's method.
    """

    rung: int
    gaps: Gaps
    restarts: int
    steps: int
    cg_steps: int


@njit(nogil=True, cache=True)
def solve_component(
    tables: Tables, prices: Prices, x: Floats, tolerance: float, parts: ComponentParts
) -> ComponentOutcome:
    """Fill in the counts of a component, and the prices that prove them.

    Args:
        tables: The tables.
        prices: Filled.
        x: Filled.
        tolerance: Backward error that is asked for, in persons.
        parts: Kernels.
    """
    rung, restarts, steps, cg_steps = PLAIN, 0, 0, 0
    # a component without labels has one projection, and no rung
    for attempt in range(2 if prices.label.size else 0):
        if attempt == 0:
            take_few_steps(tables, prices, x, parts)
        elif attempt == 1:
            parts.spread(tables, prices, x)
            parts.methods.approach(
                tables, prices, x, MANY_STEPS, MANY_TOLERANCE, np.inf, parts.methods.project
            )
        effort = parts.climb(tables, prices, x, SAFETY * tolerance, parts.methods)
        restarts, steps, cg_steps = (
            restarts + effort.restarts,
            steps + effort.steps,
            cg_steps + effort.cg_steps,
        )
        if effort.residual <= tolerance:
            rung = MORE_STEPS if attempt == 1 else (RESTARTED if effort.restarts else PLAIN)
            break
        rung = APPROXIMATE
    # the point of the best prices, projected more exactly than in Newton's method
    point = np.empty(x.size)
    aim(tables, prices.label, point)
    missed = parts.methods.project(tables, point, prices, x, SUM_TOLERANCE, LAST_PROJECTION_LIMIT)
    # A projection that starts from bad prices can stop early. Starting from zero then helps.
    # `missed` is a multiple of what is allowed, not persons
    if missed > 1.0:
        clear_sums(prices)
        missed = parts.methods.project(tables, point, prices, x, SUM_TOLERANCE, LAST_PROJECTION_LIMIT)
    gaps = parts.gaps_of(tables, prices, x)
    # the caller gets the counts all the same: they meet all sums, and the certificate says how far they are
    if gaps.labels > tolerance or missed > 1.0:
        rung = APPROXIMATE
    return ComponentOutcome(rung, gaps, restarts, steps, cg_steps)


@internal
def take_few_steps(tables: Tables, prices: Prices, x: Floats, parts: ComponentParts) -> None:
    """Accelerated gradients before Newton's method, in small components."""
    if x.size <= FEW_ENTRIES:
        # the parent's shares, which are feasible and nearer the optimum than zeros
        parts.spread(tables, prices, x)
        methods = parts.methods
        methods.approach(tables, prices, x, FEW_STEPS, FEW_TOLERANCE, STEEPEST, methods.project)


@njit(nogil=True, cache=True)
def spread(tables: Tables, prices: Prices, x: Floats) -> None:
    """Give every child the parent's share of each column, and every price zero."""
    clear_sums(prices)
    for p in range(tables.upright.size):
        first, last = tables.column_begin[p], tables.column_begin[p + 1]
        top, bottom = tables.row_begin[p], tables.row_begin[p + 1]
        along, across = (bottom - top, 1) if tables.upright[p] else (1, last - first)
        total = 0.0
        for k in range(top, bottom):
            total += tables.row_total[k]
        for i in range(last - first):
            share = (
                tables.column_total[first + i] / total if tables.column_total.size else 1.0 / (last - first)
            )
            for k in range(bottom - top):
                x[tables.entry_begin[p] + i * along + k * across] = share * tables.row_total[top + k]
