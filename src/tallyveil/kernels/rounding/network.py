"""Kernel that states one family's controlled rounding as a minimum-cost flow.

A *set* is the cells that one answer sums. Where all sets are nested or disjoint, people flow from each cell's
leftover (the parent's count minus the children's floors) to the smallest set of a child that holds the cell, then
through ever larger sets, to node 0. One unit through a set is one person above the floors. An answer's deviation is
convex, and linear between whole numbers, so it is the cost of up to three parallel arcs. Every arc leads to a node
of smaller number.

A set needs no node of its own where its deviation is linear in what flows through it: where it has one open cell, or
a target of zero and no bound that binds. Its cost is then added to the arcs that pass through it. Sets with the same
open cells and the same target share a node. docs/proofs/rounding.md proves that all this keeps the optimum.

Bounds on the sum of several children are nodes of their own between these sets and node 0 (`groups`).

Worked case: the family of `tallyveil.kernels.rounding.flow`. Its leftover of one person can take two arcs, one to
each child's total. Each total has one open cell, so it needs no node, and both arcs lead to node 0, at costs 1 - 2 *
0.3 = 0.4 and 1 - 2 * 0.7 = -0.4.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.kernels.compiled import inlined, internal
from tallyveil.kernels.rounding.arrays import ONE, Bounds, Entries, Network
from tallyveil.kernels.rounding.groups import Gates, add_gates, gates_of_child
from tallyveil.kernels.rounding.laminar_forest import Forest
from tallyveil.kernels.rounding.start import first_flow
from tallyveil.kernels.vectors import set_rows, set_to


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
