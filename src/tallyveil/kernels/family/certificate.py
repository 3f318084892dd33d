"""How far a point is from the optimum of a pass, in persons, compiled.

Problem: measure the violation of the optimality conditions. With s for the curvature that converts a gradient to
persons, a variable violates them by |x - max(0, x - reduced cost / s)|, a cell by what its children lack to the
parent's count, and a row by |sum - clip(sum - price / s, between its bounds)|. The residual is the largest of these.

Worked case: x = 2 with reduced cost 0.5 at curvature 1 violates by half a person. x = 0 with reduced cost 4 does not
violate.

Specification: `tests.oracles.block_program.residual_persons`, and `tests.oracles.certificate`.
"""

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.family.descent import gradients, row_activity
from tallyveil.kernels.family.groups import children_of
from tallyveil.kernels.family.program import Program

# A tenth of the 2^-20 persons to which estimates are snapped before they are rounded, and far above the
# rounding errors of double precision at the counts of a family.
CERTIFIED_PERSONS = 1e-7
"""A point no further from its optimality conditions is certified."""


@internal
def reduced_costs(program: Program, x: Floats, cell_price: Floats, row_price: Floats, costs: Floats) -> None:
    """Gradient of the Lagrangian into `costs` of shape (C, g)."""
    n_children, n_cells = x.shape
    gradients(program, x, costs)
    for c in range(n_children):
        # prices of sums enter every child alike; at a root there are none, and the costs are the plain
        # gradient
        if program.has_sums:
            for i in range(n_cells):
                costs[c, i] -= cell_price[i]
    for row in range(row_price.size):
        # most rows do not bind, and one that does costs a pass over its cells
        if row_price[row] != 0.0:
            bound, group, label = program.row_bound[row], program.row_group[row], program.row_label[row]
            labels, groups = program.bound_label[bound], program.bound_group[bound]
            first, last = children_of(program, bound, group)
            for c in range(first, last):
                # the range of a group of several children holds others too, see `children_of`
                if groups[c] == group:
                    child_costs = costs[c]
                    for i in range(n_cells):
                        if labels[i] == label:
                            child_costs[i] -= row_price[row]


@internal
def residual(program: Program, x: Floats, cell_price: Floats, row_price: Floats) -> tuple[float, float]:
    """Largest violation of the optimality conditions in persons; specification: `tests.oracles.block_program`.

    Returns:
        Of all conditions; of sums and rows alone.
    """
    costs, activity = np.empty(x.shape), np.empty(row_price.size)
    reduced_costs(program, x, cell_price, row_price, costs)
    row_activity(program, x, activity)
    return violation(program, x, costs, activity, row_price)


@internal
def violation(
    program: Program, x: Floats, costs: Floats, activity: Floats, row_price: Floats
) -> tuple[float, float]:
    """`residual` of a point whose reduced costs and row sums are known."""
    n_children, n_cells = x.shape
    worst = 0.0
    for c in range(n_children):
        for i in range(n_cells):
            if program.allowed[c, i]:
                # The natural residual: zero if and only if x >= 0, cost >= 0 and their product is zero; it
                # needs no guess of the face.
                step = x[c, i] - max(0.0, x[c, i] - costs[c, i] / program.scale[program.kind[c], i])
                worst = _larger(worst, abs(step))
    unmet = 0.0
    # every cell is looked at, also one that no child may have: its people would be missing
    if program.has_sums:
        for i in range(n_cells):
            total = 0.0
            for c in range(n_children):
                total += x[c, i]
            # No curvature here: a sum is missed in persons already.
            unmet = _larger(unmet, abs(total - program.sums[i]))
    for row in range(row_price.size):
        shifted = activity[row] - row_price[row] / program.row_scale
        # the same residual for a row: its price may pull only where the sum is at the bound
        moved = min(max(shifted, program.row_lower[row]), program.row_upper[row])
        unmet = _larger(unmet, abs(activity[row] - moved))
    return _larger(worst, unmet), unmet


@internal
def _larger(worst: float, value: float) -> float:
    """The larger of two numbers; a value that is not a number counts as infinite."""
    # False for a value that is not a number, so that no such point can be certified.
    if value <= worst:
        return worst
    return value if value < np.inf else np.inf


@njit(nogil=True, cache=True)
def squared_deviation(
    labels: Int32s, widths: Integers, values: Floats, weights: Floats, estimate: Floats
) -> float:
    """Sum over queries of weight * (Q x - y)^2, over the answers that hold a cell; arrays as in `PassArrays`."""
    n_children, n_cells = estimate.shape
    total, place = 0.0, 0
    for q in range(widths.size):
        width = widths[q]
        reached = np.zeros(width, np.bool_)
        # an answer that no cell of the support counts in does not depend on the estimate, and is left out
        for i in range(n_cells):
            if labels[q, i] >= 0:
                reached[labels[q, i]] = True
        answers = np.empty(width)
        for c in range(n_children):
            for k in range(width):
                answers[k] = -values[place + k]
            for i in range(n_cells):
                # summed up cell by cell in place of a product with a matrix: each cell counts in one answer
                # of a query at most
                if labels[q, i] >= 0:
                    answers[labels[q, i]] += estimate[c, i]
            for k in range(width):
                if reached[k]:
                    total += weights[q, c] * answers[k] * answers[k]
            place += width
    return total
