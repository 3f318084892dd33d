"""Kernel that states one family's controlled rounding as a minimum-cost flow, and solves it.

Problem: every estimate goes down or up to a neighbouring whole number. The children must sum to the parent in
every cell, and bounds on answers must hold. Among all such roundings, the sum of |rounded answer - target|
over the queries of the first stage is least; among those, the sum of the second stage is least; and so on.
Variables: one 0 or 1 for each pair of a child and a cell. Where the sets of cells that answers sum are
nested, the network simplex method solves the flow exactly, and integers prove the answer optimal.

*Nested sets.* A set is the cells that one answer sums. If any two of the sets are nested or disjoint, the
smallest set that holds each is found; otherwise two sets cross. Step: place the sets in order of falling
size. A set whose cells do not all have the same smallest set so far crosses another set. Worked case: the
sets {0, 1, 2}, {0, 1} and {2} are nested; the first holds the other two. The sets {0, 1} and {1, 2} cross.

*Network.* People flow from each cell's leftover (the parent's count minus the children's floors) to the
smallest set of a child that holds the cell, then through ever larger sets, to node 0. One unit through a set
is one person above the floors. An answer's deviation is convex, and linear between whole numbers, so it is
the cost of up to three parallel arcs. Every arc leads to a node of smaller number. A set needs no node of its
own where its deviation is linear in what flows through it: where it has one open cell, or a target of zero
and no bound that binds. Its cost is then added to the arcs that pass through it. Sets with the same open
cells and the same target share a node. docs/proofs/rounding.md proves that all this keeps the optimum.

*Groups of children.* A shared set is a set of cells with a bound on what a whole group of children has in it.
It gets a node for each group, between the nodes of the group's children and node 0: what the children have in
the set flows through it. This is possible where no set of a single child lies strictly around a shared set,
because that set would cross what the group has. docs/proofs/rounding.md proves that the matrix is then still
that of a network. Worked case: two children with one open cell each and estimates of 0.3 and 0.7, together
bounded by 1 at both sides. The bound is one node. Both cells' arcs lead to it, and one arc of capacity 0
leads from it to node 0, because its lower bound of 1 is sent on beforehand.

Worked case: a parent has one person in one cell, and two children have estimates of 0.3 and 0.7. Both floors
are 0, so the leftover of one person can take two arcs, one to each child's total. Each total has one open
cell, so it needs no node, and both arcs lead to node 0, at costs 1 - 2 * 0.3 = 0.4 and 1 - 2 * 0.7 = -0.4.
The second child gets the person: the answers then miss their targets by 0.3 each instead of 0.7.

Oracle: the tests try every rounding of a small family, and compare Python's sets two by two.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Int32Rows, Int32s, Integers
from tallyveil.kernels.compiled import inlined, internal, njit
from tallyveil.kernels.rounding.network_simplex import (
    INFEASIBLE,
    ONE,
    OPTIMAL,
    Bounds,
    Entries,
    Network,
    first_flow,
    minimum_cost_flow,
    proves_least_cost,
)
from tallyveil.kernels.vectors import set_rows, set_to


class Forest(NamedTuple):
    """The different sets of cells that the answers of some queries sum, larger sets first.

    Attributes:
        above: [sets], the smallest other set that holds this one, or -1.
        deepest: [s], the smallest set that holds each cell, or -1.
        set_of: [m, width], the set of each query and answer, or -1 where no cell is in it.
    """

    above: Integers
    deepest: Integers
    set_of: Integers


@njit(nogil=True, cache=True)
def laminar_forest(labels: Int32s) -> tuple[bool, Forest]:
    """Order the sets of all queries by inclusion.

    Sets are placed in order of falling size. A set whose cells do not all have the same smallest set so far
    crosses one of these, for that one is not smaller and holds some of the cells but not all.

    Args:
        labels: [m, s], the answer each cell is in, by query; -1: none.
    Returns:
        Whether all sets are nested or disjoint, two by two; and the forest, which is void if they are not.
    """
    size, cells, begin = _sets_of_queries(labels)
    (m, width), s = size.shape, labels.shape[1]
    above, measure = np.empty(m * width, dtype=np.int64), np.empty(m * width, dtype=np.int64)
    deepest, set_of = np.full(s, -1, dtype=np.int64), np.full((m, width), -1, dtype=np.int64)
    n_sets = 0
    # Larger sets first: each set need only be compared with the smallest sets that hold its cells, not with
    # all.
    for j in _falling(size, s):
        q, k = j // width, j % width
        # sizes fall, so that only empty sets follow
        if size[q, k] == 0:
            break
        members = cells[q, begin[q, k] : begin[q, k] + size[q, k]]
        over = deepest[members[0]]
        for i in members:
            # Step R1 of the proof: one of the two smallest sets then crosses this one.
            if deepest[i] != over:
                return False, Forest(above[:n_sets], deepest, set_of)
        # Equal size and all cells inside: the same set, asked for by another query. One node serves both.
        if over >= 0 and measure[over] == size[q, k]:
            set_of[q, k] = over
            continue
        above[n_sets], measure[n_sets], set_of[q, k] = over, size[q, k], n_sets
        # the cells' smallest set is now this one; later sets are not larger
        for i in members:
            deepest[i] = n_sets
        n_sets += 1
    return True, Forest(above[:n_sets], deepest, set_of)


@internal
def _sets_of_queries(labels: Int32s) -> tuple[Integers, Integers, Integers]:
    """Size of every answer's set, [m, width]; each query's cells by answer, [m, s]; where each answer's begin."""
    m, s = labels.shape
    width = 1
    for q in range(m):
        # -1 is no answer, and leaves the width at 1 where a query has none
        for i in range(s):
            width = max(width, labels[q, i] + 1)
    size = np.zeros((m, width), dtype=np.int64)
    for q in range(m):
        for i in range(s):
            if labels[q, i] >= 0:
                size[q, labels[q, i]] += 1
    cells, begin = np.empty((m, s), dtype=np.int64), np.zeros((m, width), dtype=np.int64)
    for q in range(m):
        for k in range(1, width):
            begin[q, k] = begin[q, k - 1] + size[q, k - 1]
        # a counting sort, which keeps cells in rising order within an answer
        place = begin[q].copy()
        for i in range(s):
            k = labels[q, i]
            if k >= 0:
                cells[q, place[k]] = i
                place[k] += 1
    return size, cells, begin


@internal
def _falling(size: Integers, largest: int) -> Integers:
    """Flat positions in order of falling size, equal sizes in order of position (a counting sort)."""
    flat = size.reshape(-1)
    place = np.zeros(largest + 2, dtype=np.int64)
    # a counting sort is linear, and keeps equal sizes in order, so that ties are broken alike everywhere
    for value in flat:
        place[largest - value + 1] += 1
    for k in range(1, place.size):
        place[k] += place[k - 1]
    order = np.empty(flat.size, dtype=np.int64)
    for j in range(flat.size):
        order[place[largest - flat[j]]] = j
        place[largest - flat[j]] += 1
    return order


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


class RoundingStages(NamedTuple):
    """The stages of a rounding, most important first.

    Attributes:
        weight: [K, sets], how many queries of a stage have each set as an answer.
        nearest: [K], whether a stage aims at the nearest whole number instead of the estimate.
    """

    weight: Integers
    nearest: Bools


class _FamilyLeftover(NamedTuple):
    """Persons left over when every estimate goes down, and who may get them.

    Attributes:
        left: [s], parent minus floors; or empty where the children need not sum to anything.
        forced: [s], how many of them bounds give away.
        up: [n], 1 where a bound leaves an entry no choice but up.
        arc_of: [n], each entry's arc, or -1 where there is no choice.
    """

    left: Integers
    forced: Integers
    up: Integers
    arc_of: Integers


class _ChildSets(NamedTuple):
    """Sets of one child; the last one is for answers that no cell is in.

    live: open cells. target: in units above the floors. low, high: bounds in persons above the floors. weight:
    [K, sets], how many queries of a stage have the set as an answer. number: the set's node, or -1.

    whole: sum of the floors. alias: the set above whose node this one shares, or -1. gate: the node of the group
    that stands directly above the set, or -1.

    Of the sets that are passed from this one, itself included, up to the first one with a node: onward, that
    node, or 0; toll, [K, sets], the sum of their costs; least and most, the bounds within 0 and 1 of those with a
    single open cell.
    """

    live: Integers
    target: Integers
    low: Integers
    high: Integers
    weight: Integers
    number: Integers
    onward: Integers
    toll: Integers
    least: Integers
    most: Integers
    whole: Integers
    alias: Integers
    gate: Integers


@internal
def aim(target: int, nearest: bool) -> int:
    """The target itself, or the nearest whole number of persons (halves to even), in units."""
    # as `np.rint` does, but in whole numbers
    # `//` and `%` round down, so that the part is not negative, for a negative target too
    if not nearest:
        return target
    whole, part = target // ONE, target % ONE
    up = part > ONE // 2 or (part == ONE // 2 and whole % 2 == 1)
    return (whole + (1 if up else 0)) * ONE


@inlined
def rounding_network(
    forest: Forest,
    stages: RoundingStages,
    bounds: Bounds,
    gates: Gates,
    entries: Entries,
    left: Integers,
    up: Integers,
) -> tuple[bool, Integers, Network]:
    """The network of one family.

    Args:
        forest: The sets.
        stages: The stages.
        bounds: Constraints.
        gates: Sets with bounds on sums over groups of children; their nodes are numbered here.
        entries: Estimates.
        left: [s], parent minus floors; or empty where the children need not sum to anything.
        up: [n], changed: 1 where a bound leaves an entry no choice but up.
    Returns:
        Whether every bound leaves room (if not, the rest is void); each entry's arc, [n], or -1 where there is
        no choice; and the network.
    """
    # a set has at most three arcs, an entry one, and so has a group's set
    n_sets, n_children, cell = forest.above.size, entries.start.size - 1, entries.cell
    most_arcs = cell.size + 3 * n_children * n_sets + gates.node.size
    most_nodes = 1 + n_children * n_sets + left.size + gates.node.size
    net = Network(
        np.empty(most_arcs, dtype=np.int64),
        np.empty(most_arcs, dtype=np.int64),
        np.empty(most_arcs, dtype=np.int64),
        np.empty((stages.nearest.size, most_arcs), dtype=np.int64),
        np.zeros(most_nodes, dtype=np.int64),
        np.empty(most_arcs, dtype=np.bool_),
        np.empty(most_arcs, dtype=np.int64),
        np.empty(most_nodes, dtype=np.int64),
    )
    out = np.empty(most_nodes + 1, dtype=np.int64)  # where the arcs out of each set's node begin; at most 3
    arc_of = np.full(cell.size, -1, dtype=np.int64)
    leftover = _FamilyLeftover(left, np.zeros(left.size, dtype=np.int64), up, arc_of)
    feasible, n, a = add_gates(forest, gates, net, out)
    sets = _no_sets(n_sets, stages.nearest.size)
    for c in range(n_children):
        # Children in order, and larger sets first within a child: every arc then leads to a smaller number.
        _load_child(sets, forest, stages.weight, bounds, entries, left, c)
        _share_nodes(forest, sets, gates)
        for z in range(n_sets + 1):
            feasible &= sets.low[z] <= sets.high[z]
        # a group's bounds leave no room, or this child's do: what has been made is void
        if not feasible:
            break
        set_to(sets.gate, gates_of_child(gates, bounds, c))
        n, a = _add_sets(n, a, forest, sets, stages, net, out)
        a = _add_entries(c, a, forest, sets, entries, leftover, net)
    # nodes of cells come last: what they send out is known only when all children are read
    n_inner = n
    n_open = n
    for i in range(left.size):
        n_open += left[i] != 0
    # cut to size before cells are added: the solver's work arrays are as long as these
    net = _trim(net, n_open, a)
    if feasible:
        _add_cells(n_inner, leftover, entries, net)
        first_flow(net, out, n_inner, entries, arc_of)
    return feasible, arc_of, net


@internal
def _trim(net: Network, n: int, a: int) -> Network:
    """The network with n nodes and a arcs, and a first flow of zero."""
    return Network(
        net.tail[:a],
        net.head[:a],
        net.capacity[:a],
        net.costs[:, :a].copy(),
        net.supply[:n],
        net.useful[:a],
        np.zeros(a, dtype=np.int64),
        np.full(n, -1, dtype=np.int64),
    )


@internal
def _no_sets(nothing: int, n_stages: int) -> _ChildSets:
    """Arrays for the sets of one child, to be used for every child in turn."""
    return _ChildSets(
        np.empty(nothing + 1, dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty((n_stages, nothing), dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty((n_stages, nothing + 1), dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty(nothing + 1, dtype=np.int64),
        np.empty(nothing, dtype=np.int64),
        np.empty(nothing, dtype=np.int64),
    )


@internal
def _load_child(
    sets: _ChildSets,
    forest: Forest,
    weight: Integers,
    bounds: Bounds,
    entries: Entries,
    left: Integers,
    c: int,
) -> None:
    """Sums over the entries of child c, and its bounds."""
    nothing = forest.above.size
    live, whole, target, low, high = sets.live, sets.whole, sets.target, sets.low, sets.high
    # the arrays serve one child after another
    for z in range(nothing + 1):
        live[z], whole[z], target[z], low[z], sets.number[z] = 0, 0, 0, 0, -1
        sets.onward[z], sets.least[z], sets.most[z] = 0, 0, 1
    sets.toll[:] = 0
    set_rows(sets.weight, weight)
    for e in range(entries.start[c], entries.start[c + 1]):
        z = forest.deepest[entries.cell[e]]
        z = z if z >= 0 else nothing
        # cells without leftover people are settled: every y is zero there (R7)
        live[z] += 1 if left.size == 0 or left[entries.cell[e]] != 0 else 0
        whole[z] += entries.floor[e]
        target[z] += entries.part[e]
    live[nothing], whole[nothing], target[nothing] = 0, 0, 0
    # Sets stand with larger ones first, so that a set is complete before it is added to the one above.
    for z in range(nothing - 1, -1, -1):
        above = forest.above[z]
        if above >= 0:
            live[above] += live[z]
            whole[above] += whole[z]
            target[above] += target[z]
    for z in range(nothing + 1):
        # each open cell brings one person at most
        high[z] = live[z]
    for q in range(bounds.offset.size - 1):
        if bounds.shared[q]:
            continue
        for column in range(bounds.offset[q], bounds.offset[q + 1]):
            k = column - bounds.offset[q]
            z = forest.set_of[q, k] if k < forest.set_of.shape[1] else -1
            z = z if z >= 0 else nothing
            # several constraints on one set make one bound; the set of no cells has the sum zero
            low[z] = max(low[z], bounds.lower[c, column] - whole[z])
            high[z] = min(high[z], bounds.upper[c, column] - whole[z])


@internal
def _share_nodes(forest: Forest, sets: _ChildSets, gates: Gates) -> None:
    """Mark the sets that need a node (number 0), and find those that share the node of the set above (alias).

    A set that only groups have a bound on needs none. Between a shared set and the set above it stands the group's.
    """
    live, target, low, high = sets.live, sets.target, sets.low, sets.high
    # from small to large, so that a set's own weight and bounds are complete before they are handed up
    for z in range(forest.above.size - 1, -1, -1):
        sets.alias[z] = -1
        # Linear in what flows through it: one open cell, or a target that no flow undershoots and no bound
        # that binds. Its cost is a toll on what passes.
        if live[z] < 2 or (target[z] == 0 and low[z] <= 0 and high[z] >= live[z]) or not gates.single[z]:
            continue
        sets.number[z] = 0
        # Smaller sets first, so that weights and bounds of a chain of equal sets all reach its top.
        p = forest.above[z] if not gates.shared[z] else -1
        if p >= 0 and gates.single[p] and live[p] == live[z] and target[p] == target[z]:
            sets.alias[z] = p
            for k in range(sets.weight.shape[0]):
                sets.weight[k, p] += sets.weight[k, z]
            low[p], high[p] = max(low[p], low[z]), min(high[p], high[z])


@internal
def _add_sets(
    n: int, a: int, forest: Forest, sets: _ChildSets, stages: RoundingStages, net: Network, out: Integers
) -> tuple[int, int]:
    """Number the nodes of a child's sets from n on, add the arcs out of them from a on, and sum up what is passed.

    A lower bound is sent on beforehand. Returns the next node and the next arc.
    """
    weight, nearest, gate = stages.weight, stages.nearest, sets.gate
    for z in range(forest.above.size):
        above = forest.above[z] if gate[z] < 0 else -1  # -1 is the last set, which is passed at no cost
        into = sets.onward[above] if gate[z] < 0 else gate[z]
        if sets.alias[z] >= 0 or sets.number[z] == 0:
            if sets.alias[z] >= 0:
                # the set above was numbered before, as larger sets come first
                sets.number[z] = sets.number[sets.alias[z]]
            else:
                sets.number[z], out[n] = n, a
                a = _add_arcs(z, a, into, above, sets, nearest, net)
                n += 1
            sets.onward[z] = sets.number[z]
            continue
        sets.onward[z], sets.least[z], sets.most[z] = into, sets.least[above], sets.most[above]
        # with one cell f is 0 or 1: bounds become those of the arc, and the deviation is its slope (R7)
        if sets.live[z] == 1:
            sets.least[z], sets.most[z] = max(sets.least[z], sets.low[z]), min(sets.most[z], sets.high[z])
        for k in range(nearest.size):
            goal = aim(sets.target[z], nearest[k])
            # what one person more costs: the deviation at one person less that at none, in units
            sets.toll[k, z] = sets.toll[k, above] + weight[k, z] * (abs(ONE - goal) - abs(goal))
    return n, a


@internal
def _add_arcs(z: int, a: int, into: int, above: int, sets: _ChildSets, nearest: Bools, net: Network) -> int:
    """Add the arcs out of a set's node: below the target, across it, above it. Returns the next arc."""
    node, reached, high = sets.number[z], sets.low[z], sets.high[z]
    whole, rest, priced = sets.target[z] // ONE, sets.target[z] % ONE, False
    for k in range(nearest.size):
        priced |= sets.weight[k, z] > 0
    # A lower bound without a lower capacity: the persons go on beforehand, and arcs begin at zero.
    net.supply[node] -= reached
    net.supply[into] += reached
    for piece in range(3):
        until = min(max(whole + (1 if piece and rest else 0), reached), high)
        # without a price all pieces cost the same, and one arc does for three
        if piece == 2 or not priced:
            until = high
        if until <= reached:
            continue
        net.tail[a], net.head[a], net.capacity[a] = node, into, until - reached
        # a target of zero is rarely left, and its arc is priced only when all others are done
        net.useful[a] = sets.target[z] > 0
        for k in range(nearest.size):
            slope = -ONE if piece == 0 else ONE
            if piece == 1:
                goal = aim(sets.target[z], nearest[k])
                # the chord between the two whole numbers, exact in units (R6)
                slope = abs((whole + 1) * ONE - goal) - abs(whole * ONE - goal)
            net.costs[k, a] = sets.weight[k, z] * slope + sets.toll[k, above]
        reached = until
        a += 1
    return a


@internal
def _add_entries(
    c: int,
    a: int,
    forest: Forest,
    sets: _ChildSets,
    entries: Entries,
    leftover: _FamilyLeftover,
    net: Network,
) -> int:
    """Add the arcs of a child's open entries from a on; their tails are cells for now. Returns the next arc."""
    left, forced, up, arc_of = leftover
    for e in range(entries.start[c], entries.start[c + 1]):
        i = entries.cell[e]
        # nobody is left over in the cell: the entry goes down
        if left.size and left[i] == 0:
            continue
        z = forest.deepest[i]
        # from the bounds of sets with this one open cell: at least 1 means up, at most 0 means no arc
        up[e] = sets.least[z]
        net.supply[sets.onward[z]] += up[e]
        if left.size:
            forced[i] += up[e]
        if up[e] < sets.most[z]:
            net.tail[a], net.head[a], net.capacity[a] = i, sets.onward[z], 1
            # a whole estimate goes up only where nothing else helps
            net.useful[a] = entries.part[e] > 0
            for k in range(net.costs.shape[0]):
                net.costs[k, a] = sets.toll[k, z]
            arc_of[e] = a
            a += 1
    return a


@internal
def _add_cells(n: int, leftover: _FamilyLeftover, entries: Entries, net: Network) -> None:
    """Number the cells with people left over from n on and make them the tails of their entries."""
    # last, since `forced` needs all children
    left, forced, _, arc_of = leftover
    node = np.zeros(max(left.size, 1), dtype=np.int64)
    for i in range(left.size):
        if left[i] != 0:
            node[i] = n
            net.supply[n] = left[i] - forced[i]
            n += 1
    for e in range(arc_of.size):
        if arc_of[e] >= 0:
            net.tail[arc_of[e]] = node[entries.cell[e]] if left.size else 0
    sent = 0
    for u in range(1, net.supply.size):
        sent += net.supply[u]
    # node 0 takes up the rest, so that supplies sum to zero as the flow needs
    net.supply[0] = -sent


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
