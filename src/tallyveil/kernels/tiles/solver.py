"""Least squares of one component of tables, from first prices to proved counts, compiled.

Problem: that of `approach`. Step: the rungs of a ladder, of which nearly every component needs the first alone.

1. Newton's method (`newton`), which may restart (RESTARTED). It begins with prices of zero, whose point is the
   projection of the own measurements. In small components whose labels sum few counts, some steps of accelerated
   gradients nearly reach the optimum, and it begins there.
2. Many steps of accelerated gradients from the parent's shares, then Newton's method again (MORE_STEPS).
3. The prices that came nearest are taken (APPROXIMATE). The counts still have all sums.

A component without labels needs one projection. At the end the counts are projected once more for the prices that were
found. Each sum is then right to 1e-9 persons, or to its rounding errors where these are larger (`projection`). Finally
`certificate` measures what is left of the conditions of optimality.

Oracle: PIQP, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal, njit, pointers
from tallyveil.kernels.tiles.certificate import Gaps, gaps_of
from tallyveil.kernels.tiles.newton import Climb, Methods
from tallyveil.kernels.tiles.tables import Prices, Tables, clear_sums, label_forces

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
SUM_TOLERANCE, PROJECTION_LIMIT = 1e-9, 1000
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
    climb: Climb


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
        if attempt == 0 and x.size <= FEW_ENTRIES:
            # the parent's shares, which are feasible and nearer the optimum than zeros
            _spread(tables, prices, x)
            parts.methods.approach(
                tables, prices, x, FEW_STEPS, FEW_TOLERANCE, STEEPEST, parts.methods.project
            )
        elif attempt == 1:
            _spread(tables, prices, x)
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
    label_forces(tables, prices.label, point)
    for e in range(x.size):
        point[e] = tables.centre[e] - point[e]
    missed = parts.methods.project(tables, point, prices, x, SUM_TOLERANCE, PROJECTION_LIMIT)
    # A projection that starts from bad prices can stop early. Starting from zero then helps.
    # `missed` is a multiple of what is allowed, not persons
    if missed > 1.0:
        clear_sums(prices)
        missed = parts.methods.project(tables, point, prices, x, SUM_TOLERANCE, PROJECTION_LIMIT)
    gaps = gaps_of(tables, prices, x)
    # the caller gets the counts all the same: they meet all sums, and the certificate says how far they are
    if gaps.labels > tolerance or missed > 1.0:
        rung = APPROXIMATE
    return ComponentOutcome(rung, gaps, restarts, steps, cg_steps)


@internal
def _spread(tables: Tables, prices: Prices, x: Floats) -> None:
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
