"""Kernel that rounds one family by one minimum-cost flow.

Problem: every estimate goes down or up to a neighbouring whole number. The children must sum to the parent in every
cell, and bounds on answers must hold. Among all such roundings, the sum of |rounded answer - target| over the
queries of the first stage is least; among those, the sum of the second stage is least; and so on. Variables: one 0
or 1 for each pair of a child and a cell.

Step: where the sets of cells that answers sum are nested, the problem is a minimum-cost flow (`network`), which the
network simplex method solves exactly (`network_simplex`). Integers prove the answer optimal.

Worked case: a parent has one person in one cell, and two children have estimates of 0.3 and 0.7. Both floors are 0,
so one person is left to give. The second child gets it: the answers then miss their targets by 0.3 each instead of
0.7.

Oracle: the tests try every rounding of a small family.
"""

import numpy as np

from tallyveil.arrays import Bools, Int32Rows, Integers
from tallyveil.kernels.compiled import njit
from tallyveil.kernels.rounding.arrays import ONE, Bounds, Entries
from tallyveil.kernels.rounding.groups import (
    gates_of,
    groups_cross,
    groups_hold,
    unreachable_bounds_hold,
)
from tallyveil.kernels.rounding.laminar_forest import laminar_forest
from tallyveil.kernels.rounding.network import RoundingStages, aim, rounding_network
from tallyveil.kernels.rounding.network_simplex import (
    INFEASIBLE,
    OPTIMAL,
    minimum_cost_flow,
    proves_least_cost,
)

CROSSED, UNPROVED, SETTLED = 16, 17, 18
"""Outcomes beside those of the network simplex: sets that are not nested, or a set around a group's; a flow whose proof
failed (a defect); nothing left to choose."""


@njit(nogil=True, cache=True)
def round_by_flow(
    labels: Int32Rows,
    stage: Integers,
    nearest: Bools,
    bounds: Bounds,
    entries: Entries,
    parent_counts: Integers,
) -> tuple[int, Integers]:
    """Round one family of C children on s cells, each estimate down or up.

    Args:
        labels: [m, s], answers of the rounding queries and of the constraints; -1: none.
        stage: [m], the rounding stage of each, from 0 on; -1: a constraint.
        nearest: [K], whether a stage aims at the nearest whole number instead of the estimate.
        bounds: Of each of the m queries; rounding queries have none.
        entries: Estimates of the n pairs of a child and a cell it may have people in.
        parent_counts: [s], or empty where the children need not sum to anything.
    Returns:
        OPTIMAL, SETTLED, INFEASIBLE (no neighbouring whole numbers satisfy everything), CROSSED, TOO_LARGE,
        STOPPED or UNPROVED; and, for the first two, each entry's person above its floor, [n], 0 or 1.
    """
    # 0 or 1, above the floor; an entry that bounds leave no choice gets its person from `rounding_network`
    up = np.zeros(entries.cell.size, dtype=np.int64)
    nested, forest = laminar_forest(labels)
    if not nested:
        # Crossing sets are no network. The caller has linear and integer programs for these families.
        return CROSSED, up
    weight = np.zeros((nearest.size, forest.above.size), dtype=np.int64)
    for q in range(stage.size):
        if stage[q] >= 0:
            for z in forest.set_of[q]:
                # an answer without cells is a constant, whose deviation no rounding changes
                if z >= 0:
                    weight[stage[q], z] += 1
    left = parent_counts.copy()
    if left.size:
        for e in range(up.size):
            # The persons that floors leave over: the supply of the cell's node (proof, step R2).
            left[entries.cell[e]] -= entries.floor[e]
    gates = gates_of(forest, weight, bounds, entries, left)
    if groups_cross(forest, gates):
        return CROSSED, up
    feasible, arc_of, net = rounding_network(
        forest, RoundingStages(weight, nearest), bounds, gates, entries, left, up
    )
    # a bound below the floors or above what is open cannot be met by any flow
    if not (feasible and unreachable_bounds_hold(forest, bounds)):
        return INFEASIBLE, up
    status, flow, potentials = minimum_cost_flow(net)
    if status != OPTIMAL:
        return status, up
    # Checked at every solve, in whole numbers: a defect of the simplex method cannot reach published counts
    # (R12).
    if not proves_least_cost(net.tail, net.head, net.capacity, net.costs, net.supply, flow, potentials):
        return UNPROVED, up
    free = 0
    for e in range(up.size):
        if arc_of[e] >= 0:
            # added to, as bounds may have given the person already
            up[e] += flow[arc_of[e]]
            free += 1
    return (OPTIMAL if free else SETTLED), up


@njit(nogil=True, cache=True)
def attained(
    labels: Int32Rows,
    stage: Integers,
    nearest: Bools,
    bounds: Bounds,
    entries: Entries,
    parent_counts: Integers,
    up: Integers,
) -> tuple[bool, Integers]:
    """Check a rounding and sum its deviations, straight from the answers and in whole numbers.

    Args:
        up: [n], each entry's persons above its floor; the others as for `round_by_flow`.
    Returns:
        Whether counts are not negative, each entry is one of its two neighbours, and every sum and bound holds;
        and the deviation of each stage, [K], in units of 2^-20.
    """
    good, deviation = True, np.zeros(nearest.size, dtype=np.int64)
    left = parent_counts.copy()
    for e in range(up.size):
        # Nothing here comes from the network, so that a mistake of its builder shows.
        good &= (up[e] == 0 or up[e] == 1) and entries.floor[e] >= 0
        if left.size:
            left[entries.cell[e]] -= entries.floor[e] + up[e]
    for i in range(left.size):
        good &= left[i] == 0
    # one width for all queries, so that the arrays are made once for the family
    width = 0
    for q in range(labels.shape[0]):
        width = max(width, bounds.offset[q + 1] - bounds.offset[q])
        for i in range(labels.shape[1]):
            width = max(width, labels[q, i] + 1)
    sums, floors, parts = np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width, np.int64)
    for c in range(entries.start.size - 1):
        for q in range(stage.size):
            # one query and child at a time: memory does not grow with queries times children
            for k in range(width):
                sums[k], floors[k], parts[k] = 0, 0, 0
            for e in range(entries.start[c], entries.start[c + 1]):
                k = labels[q, entries.cell[e]]
                if k >= 0:
                    sums[k] += up[e]
                    floors[k] += entries.floor[e]
                    parts[k] += entries.part[e]
            if stage[q] >= 0:
                for k in range(width):
                    # in units of 2^-20 persons, whole numbers; floors cancel in the difference
                    deviation[stage[q]] += abs(sums[k] * ONE - aim(parts[k], nearest[stage[q]]))
            if not bounds.shared[q]:
                for column in range(bounds.offset[q], bounds.offset[q + 1]):
                    persons = sums[column - bounds.offset[q]] + floors[column - bounds.offset[q]]
                    good &= bounds.lower[c, column] <= persons <= bounds.upper[c, column]
    return good and groups_hold(labels, bounds, entries, up), deviation
