"""Kernel that puts bounds on the sum of several children into the network of a rounding.

A group is a set of children. A shared set is a set of cells with a bound on what a whole group has in it. It gets a
node for each group, between the nodes of the group's children and node 0: what the children have in the set flows
through it. This is possible where no set of a single child lies strictly around a shared set, because that set would
cross what the group has. docs/proofs/rounding.md proves that the matrix is then still that of a network.

Worked case: two children with one open cell each and estimates of 0.3 and 0.7, together bounded by 1 at both sides.
The bound is one node. Both cells' arcs lead to it, and one arc of capacity 0 leads from it to node 0, because its
lower bound of 1 is sent on beforehand.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.rounding.arrays import Bounds, Entries, Network
from tallyveil.kernels.rounding.laminar_forest import Forest
from tallyveil.kernels.vectors import set_to


class Gates(NamedTuple):
    """Nodes of the shared sets of all groups.

    Attributes:
        shared: Whether a set is shared. [sets]
        single: Whether single children have an answer or a bound on a set. [sets]
        node: The node of each group and shared set; -1 for other sets. [groups, sets]; no groups where nothing is
            shared.
        low: Bounds in persons above the floors. [groups, sets]
        high: Likewise.
    """

    shared: Bools
    single: Bools
    node: Integers
    low: Integers
    high: Integers


@internal
def gates_of(forest: Forest, weight: Integers, bounds: Bounds, entries: Entries, left: Integers) -> Gates:
    """The shared sets of a family with their bounds; nodes are not numbered yet."""
    n_sets = forest.above.size
    shared, single = np.zeros(n_sets, np.bool_), np.zeros(n_sets, np.bool_)
    # an answer of a rounding query is measured on single children, as are bounds that are not shared
    for k in range(weight.shape[0]):
        for z in range(n_sets):
            single[z] |= weight[k, z] > 0
    n_groups = 0
    for q in range(bounds.shared.size):
        for column in range(bounds.offset[q], bounds.offset[q + 1]):
            z = _set_of(forest, q, column - bounds.offset[q])
            if z >= 0 and bounds.shared[q]:
                shared[z] = True
            elif z >= 0:
                single[z] = True
        if bounds.shared[q]:
            for group in bounds.groups:
                n_groups = max(n_groups, group + 1)
    shape = (n_groups, n_sets)
    live, whole = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    # without groups nothing below is filled, and the network is as if groups did not exist
    for c in range(entries.start.size - 1 if n_groups else 0):
        for e in range(entries.start[c], entries.start[c + 1]):
            z = forest.deepest[entries.cell[e]]
            while z >= 0:
                # open: the cell has people left over. Each of the child's sets that hold the cell counts it.
                live[bounds.groups[c], z] += 1 if left.size == 0 or left[entries.cell[e]] != 0 else 0
                whole[bounds.groups[c], z] += entries.floor[e]
                z = forest.above[z]
    low, high = np.zeros(shape, np.int64), live
    for q in range(bounds.shared.size):
        if bounds.shared[q]:
            for column in range(bounds.offset[q], bounds.offset[q + 1]):
                z = _set_of(forest, q, column - bounds.offset[q])
                for g in range(n_groups if z >= 0 else 0):
                    # several queries may bound the same set of cells: the tightest bounds hold
                    low[g, z] = max(low[g, z], bounds.lower[g, column] - whole[g, z])
                    high[g, z] = min(high[g, z], bounds.upper[g, column] - whole[g, z])
    return Gates(shared, single, np.full(shape, -1, np.int64), low, high)


@internal
def _set_of(forest: Forest, q: int, k: int) -> int:
    """The set of an answer, or -1 where no cell is in it."""
    return int(forest.set_of[q, k]) if k < forest.set_of.shape[1] else -1


@internal
def unreachable_bounds_hold(forest: Forest, bounds: Bounds) -> bool:
    """Whether shared bounds on answers that no cell is in allow zero."""
    # no cell can reach the answer: its sum is zero in every rounding
    for q in range(bounds.shared.size):
        if bounds.shared[q]:
            for column in range(bounds.offset[q], bounds.offset[q + 1]):
                if _set_of(forest, q, column - bounds.offset[q]) < 0:
                    for g in bounds.groups:
                        if bounds.lower[g, column] > 0 or bounds.upper[g, column] < 0:
                            return False
    return True


@internal
def groups_cross(forest: Forest, gates: Gates) -> bool:
    """Whether a set of single children lies strictly around a shared set."""
    around = np.zeros(forest.above.size, np.bool_)
    # sets are ordered by size, so that `around` of the set above is known
    for z in range(around.size):  # larger sets first
        above = forest.above[z]
        if above >= 0:
            around[z] = around[above] or gates.single[above]
        if gates.shared[z] and around[z]:
            return True
    return False


@internal
def add_gates(forest: Forest, gates: Gates, net: Network, out: Integers) -> tuple[bool, int, int]:
    """Number the nodes of shared sets from 1 on and add the arc out of each; a lower bound is sent on beforehand.

    Returns:
        Whether every bound leaves room; the next node and the next arc.
    """
    n, a, feasible = int(np.int64(1)), int(np.int64(0)), True
    for z in range(forest.above.size):
        # the next larger shared set, whose node has a smaller number already; else node 0
        above = forest.above[z]
        while above >= 0 and not gates.shared[above]:
            above = forest.above[above]
        for g in range(gates.node.shape[0] if gates.shared[z] else 0):
            into = gates.node[g, above] if above >= 0 else 0
            gates.node[g, z], out[n] = n, a
            low, high = gates.low[g, z], gates.high[g, z]
            # an empty range has no flow, and the arrays stay in step all the same
            feasible &= low <= high
            # A lower bound is sent on beforehand, so that all flows lie between 0 and a capacity.
            net.supply[n] -= low
            net.supply[into] += low
            # equal bounds leave nothing to choose: no arc
            if low < high:
                net.tail[a], net.head[a], net.capacity[a], net.useful[a] = n, into, high - low, True
                net.costs[:, a] = 0
                a += 1
            n += 1
    return feasible, n, a


@internal
def gates_of_child(gates: Gates, bounds: Bounds, c: int) -> Integers:
    """The node that a child's flow through each set enters next, where the set is shared; else -1. [sets]"""
    nodes = np.full(gates.shared.size, -1, np.int64)
    if gates.node.shape[0]:
        set_to(nodes, gates.node[bounds.groups[c]])
    return nodes


@internal
def groups_hold(labels: Int32s, bounds: Bounds, entries: Entries, up: Integers) -> bool:
    """Whether a rounding meets every bound on the sum of a group, straight from the answers."""
    for q in range(bounds.shared.size):
        begin, width = bounds.offset[q], bounds.offset[q + 1] - bounds.offset[q]
        if bounds.shared[q] and width > 0:
            n_groups = 0
            # from the answers and not from `gates`: a check that shares their mistakes would be none
            for group in bounds.groups:
                n_groups = max(n_groups, group + 1)
            persons = np.zeros((n_groups, width), np.int64)
            for c in range(bounds.groups.size):
                for e in range(entries.start[c], entries.start[c + 1]):
                    k = labels[q, entries.cell[e]]
                    if k >= 0:
                        persons[bounds.groups[c], k] += entries.floor[e] + up[e]
            for g in range(n_groups):
                for k in range(width):
                    if not bounds.lower[g, begin + k] <= persons[g, k] <= bounds.upper[g, begin + k]:
                        return False
    return True
