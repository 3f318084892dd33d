"""Minimum-cost flows with several costs in order of importance, compiled, and what roundings state them with.

The arrays of a rounding (its entries, bounds and network) and the unit in which estimates are whole numbers
come first.

Problem: send the supplies of all nodes through arcs of limited capacity so that the first cost is least;
among those flows, so that the second cost is least; and so on. All numbers are whole. Variables: the flow on
each arc, and a potential for each node. The reduced cost of an arc is cost + potential[tail] -
potential[head].

Step: the primal network simplex method. An arc whose reduced cost has the wrong sign enters the spanning
tree, flow is pushed around the cycle it closes, and an arc whose flow reaches a bound leaves. Node 0 is the
root. The tree is kept strongly feasible: from every node a positive amount can be sent to the root along tree
arcs. So no sequence of pivots repeats, and the method ends. Artificial arcs join every node to the root at a
first cost above that of any cycle; they are numbered after the real ones.

A later cost is minimised over all the optima of the earlier ones. Those are the flows that stay at their
bounds wherever an earlier reduced cost is not zero. So such arcs are frozen, and the method goes on from its
tree (proof: docs/proofs/rounding.md). No weights are needed.

First flow: each cell's leftover people go to the largest fractional parts first, which is near the optimum of
a rounding. The optimum does not depend on it.

Stopping rule: no arc's reduced cost has the wrong sign.

Worked case: node 1 sends two persons to node 0 by an arc of capacity 1 and cost 1 and an arc of capacity 2
and cost 3. The optimum uses each arc once, at cost 4. The potential of node 1 is then -3: the reduced costs
are 1 - 3 = -2 on the full arc and 3 - 3 = 0 on the other.

Oracle: shortest augmenting paths under costs that are compared as tuples, in the tests. The proof of
optimality fails where a spanning tree is wrong.

Source: Cunningham 1976, A network simplex method; Ahuja, Magnanti, Orlin 1993, Network Flows, chapter 11.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Int8s, IntegerRows, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.vectors import set_to

# A power of two, so that whole persons are told by exact arithmetic. A unit is a millionth of a person: ten
# times the error of a certified estimate, and small beside any part that decides. Twice or half as many units
# decide differently only within a unit of a tie; published counts depend on it.
ONE = 2**20
"""Units of an estimate in one person."""


class Entries(NamedTuple):
    """Every pair of a child and a cell it may have people in, ordered by child.

    Attributes:
        start: [C + 1], where each child's entries begin.
        cell: [n].
        floor: [n], floor of the estimate, persons.
        part: [n], its fractional part, in units of 2^-20.
    """

    start: Integers
    cell: Integers
    floor: Integers
    part: Integers


class Bounds(NamedTuple):
    """Bounds on the sums of persons by child, or group of children, and answer.

    Attributes:
        offset: [m + 1], where the columns of each query begin; queries without bounds have none.
        lower, upper: [C, columns]; 2^62 or more: no upper bound. In the columns of a shared query, row g is that of
            group g, and the rows after the last group mean nothing.
        shared: [m], whether a query's bounds are on sums over groups.
        groups: [C], the group of each child, numbered from 0 on without gaps.
    """

    offset: Integers
    lower: IntegerRows
    upper: IntegerRows
    shared: Bools
    groups: Integers


class Network(NamedTuple):
    """A network of n nodes and a arcs, and hints where to start.

    Attributes:
        tail, head: [a], nodes of each arc.
        capacity: [a], above zero; flows lie between 0 and it.
        costs: [K, a], cost of one unit, most important first; K at least 1.
        supply: [n], what each node sends out (negative: takes in); sums to zero.
        useful: [a], arcs to try first; the others are priced when these are done.
        begin: [a], a flow to start from: at zero or at capacity on every arc but the first arcs.
        first_arc: [n], an arc with room left that leads from the node to one of smaller number, to start the
            tree with; or -1. Where `begin` does not balance at a node, its first arc must be at zero.
    """

    tail: Integers
    head: Integers
    capacity: Integers
    costs: Integers
    supply: Integers
    useful: Bools
    begin: Integers
    first_arc: Integers


# Columns of the tree array: the node above, the arc to it, +1 if that arc leads up or -1, the depth, and the
# doubly linked list of the nodes below. -1: none. Eight columns, so that a node is one line of the cache.
ABOVE, ARC, SENSE, DEPTH, BELOW, NEXT, PREVIOUS = 0, 1, 2, 3, 4, 5, 6


@internal
def first_tree(
    tail: Integers, head: Integers, supply: Integers, first_arc: Integers, flow: Integers, state: Int8s
) -> Integers:
    """Hang every node on its first arc, or on an artificial arc that carries what does not balance."""
    n, n_arcs = supply.size, head.size
    excess = supply.copy()
    for arc in range(n_arcs):
        # begins at capacity, or is a first arc with room left, whose state is set below
        if flow[arc]:
            state[arc] = -1
            excess[tail[arc]] -= flow[arc]
            excess[head[arc]] += flow[arc]
    tree = np.full((n, 8), -1, dtype=np.int64)
    tree[0, DEPTH] = 0
    for u in range(1, n):
        arc, above, sense = first_arc[u], 0, 1
        # a tree arc with zero flow must lead up, and a first arc does; its room is left by `first_flow`
        if excess[u] == 0 and arc >= 0:
            above = head[arc]
        else:
            arc = n_arcs + u
            # The artificial arc carries all that does not balance, in the direction in which it must. An
            # empty one leads up, where it has room.
            flow[arc] = abs(excess[u])
            sense = 1 if excess[u] >= 0 else -1
        tree[u, ARC] = arc
        tree[u, SENSE] = sense
        state[arc] = 0
        # arcs lead to smaller numbers, so the node above has its depth already
        tree[u, DEPTH] = tree[above, DEPTH] + 1
        _hang(tree, u, above)
    return tree


@internal
def _hang(tree: Integers, u: int, above: int) -> None:
    """Put node u first in the list below `above`."""
    after = tree[above, BELOW]
    tree[u, ABOVE] = above
    tree[u, NEXT] = after
    tree[u, PREVIOUS] = -1
    # a doubly linked list, so that a node leaves it without a search
    if after >= 0:
        tree[after, PREVIOUS] = u
    tree[above, BELOW] = u


@internal
def _unhang(tree: Integers, u: int) -> None:
    """Take node u out of the list below the node above it."""
    before, after = tree[u, PREVIOUS], tree[u, NEXT]
    if after >= 0:
        tree[after, PREVIOUS] = before
    if before >= 0:
        tree[before, NEXT] = after
    else:
        tree[tree[u, ABOVE], BELOW] = after


@internal
def shift(tree: Integers, potential: Integers, top: int, change: int) -> None:
    """Add to the potentials of `top` and everything below it, and set their depths."""
    # the subtree in preorder, by links alone: no recursion and no stack
    u = top
    while True:
        # the node above comes before, so its depth is right already
        tree[u, DEPTH] = tree[tree[u, ABOVE], DEPTH] + 1
        potential[u] += change
        after = tree[u, BELOW]
        # preorder by the links alone: no stack, and only the moved part of the tree is visited
        while after < 0:
            if u == top:
                return
            after = tree[u, NEXT]
            if after < 0:
                u = tree[u, ABOVE]
        u = after


@internal
def reprice(tree: Integers, cost: Integers, potential: Integers) -> None:
    """Compute all potentials; the root has 0."""
    potential[0] = 0
    # the same walk over the whole tree; a root alone has nothing below
    u = tree[0, BELOW]
    while u > 0:
        potential[u] = potential[tree[u, ABOVE]] - tree[u, SENSE] * cost[tree[u, ARC]]
        after = tree[u, BELOW]
        while after < 0 and u > 0:
            after = tree[u, NEXT]
            if after < 0:
                u = tree[u, ABOVE]
        u = after


@internal
def rehang(tree: Integers, below: int, above: int, leaving: int, arc: int, sense: int) -> None:
    """Turn the path from `below` up to `leaving` round, and hang it on `above` by the arc."""
    u = below
    while True:
        # read before the node is hung anew; the path is turned, so the sense of each arc is, too
        next_u, next_arc, next_sense = tree[u, ABOVE], tree[u, ARC], -tree[u, SENSE]
        _unhang(tree, u)
        _hang(tree, u, above)
        tree[u, ARC] = arc
        tree[u, SENSE] = sense
        if u == leaving:
            return
        above, arc, sense, u = u, next_arc, next_sense, next_u


# INFEASIBLE is a proof (R9); the last two only send the family to the linear and integer programs.
OPTIMAL, INFEASIBLE, TOO_LARGE, STOPPED = 0, 1, 2, 3

ASLEEP, AWAKE, FROZEN = 0, 1, 2

# Far above any count of persons, and so far below 2^63 that a flow and a room can be added.
NO_LIMIT = 2**60
"""Capacity of artificial arcs; flows must be smaller."""

# A bound against a defect alone: half of it is still fifty times what families take.
PIVOTS_PER_ARC = 200
"""Pivots allowed, as a multiple of nodes and arcs. Families take less than 2."""

# Twice as much leaves room for fewer stages below the limit. With half as much the second cost weighs more
# against the first one, and the exact stages begin farther from their end.
BLEND = 2**12
"""Weight of a cost against the next one where all are minimised at once to begin with; no answer depends on it."""


class _Arcs(NamedTuple):
    """All arcs, the artificial ones last; these have no tail and head here.

    Attributes:
        tail, head: [a], nodes of each real arc.
        room: [a + n], capacity.
        cost: [a + n], the cost that is minimised now.
    """

    tail: Integers
    head: Integers
    room: Integers
    cost: Integers


class _Basis(NamedTuple):
    """A flow and the spanning tree that goes with it.

    Attributes:
        flow: [a + n].
        state: [a + n], 1: at zero; -1: at capacity; 0: in the tree, or frozen.
        tree: See `first_tree`.
    """

    flow: Integers
    state: Int8s
    tree: Integers


@njit(nogil=True, cache=True)
def minimum_cost_flow(net: Network) -> tuple[int, Integers, Integers]:
    """A flow of least first cost, among those of least second cost, and so on.

    Args:
        net: The network.
    Returns:
        OPTIMAL, INFEASIBLE, TOO_LARGE (costs could overflow) or STOPPED (too many pivots); the flow, [a]; and
        potentials, [K, n], that prove it optimal.
    """
    tail, head, capacity, costs, supply, useful, begin, first_arc = net
    n, n_arcs = supply.size, tail.size
    flow = np.zeros(n_arcs + n, dtype=np.int64)
    set_to(flow, begin)
    potentials = np.zeros((costs.shape[0], n), dtype=np.int64)
    # the largest cost decides what an artificial arc must cost, and whether sums of costs fit into 64 bits
    largest = int(np.int64(0))
    for k in range(costs.shape[0]):
        for arc in range(n_arcs):
            largest = max(largest, abs(costs[k, arc]))
    # Step R10 of docs/proofs/rounding.md: a path to the root has at most n real arcs and one artificial one. So
    # potentials stay below 2^59 and reduced costs below 2^61.
    if largest >= 2**58 // (n + 1) - 1:
        return TOO_LARGE, flow[:n_arcs], potentials
    room = np.full(n_arcs + n, NO_LIMIT, dtype=np.int64)
    set_to(room, capacity)
    # every arc at zero until `first_tree` says otherwise
    state = np.ones(n_arcs + n, dtype=np.int8)
    tree = first_tree(tail, head, supply, first_arc, flow, state)
    mark = np.empty(n_arcs, dtype=np.int8)
    # true and false are AWAKE and ASLEEP
    set_to(mark, useful)
    cost = np.empty(n_arcs + n, dtype=np.int64)
    arcs, basis = _Arcs(tail, head, room, cost), _Basis(flow, state, tree)
    budget = PIVOTS_PER_ARC * (n_arcs + n)
    if _blend(costs, largest, cost, n):  # only to begin the exact stages near their end
        # the flow is kept, its potentials are not: the first exact stage computes its own
        budget = _minimise(arcs, basis, mark, potentials[0], budget)
    for k in range(costs.shape[0]):
        if budget < 0:
            return STOPPED, flow[:n_arcs], potentials
        set_to(cost, costs[k])
        # Artificial arcs cost more than any path, so that they carry flow only if they must; in later stages
        # none can gain any (step R9 of docs/proofs/rounding.md).
        cost[n_arcs:] = (largest + 1) * (n + 1) if k == 0 else 0
        budget = _minimise(arcs, basis, mark, potentials[k], budget)
        if budget < 0:
            return STOPPED, flow[:n_arcs], potentials
        # Artificial flow at the end of the first stage proves that nothing is feasible; later stages cannot
        # bring it back (R9).
        for arc in range(n_arcs, n_arcs + n):
            if k == 0 and flow[arc] != 0:
                return INFEASIBLE, flow[:n_arcs], potentials
        # The optima of this stage are the flows that agree with it on these arcs (R8), so no weights are
        # needed.
        _freeze(tail, head, cost, potentials[k], state, mark)
    return OPTIMAL, flow[:n_arcs], potentials


@internal
def _blend(costs: Integers, largest: int, cost: Integers, n: int) -> bool:
    """Write a weighted sum of several costs, most important first; False where there is one, or too large."""
    n_arcs = costs.shape[1]
    # Costs are held so small that M stays below 2^58, and no number exceeds 2^61 (R10).
    limit, total = 2**58 // (n + 1) - 1, largest
    for _ in range(1, costs.shape[0]):
        if total > (limit - largest) // BLEND:
            return False
        total = total * BLEND + largest
    set_to(cost, costs[0])
    for k in range(1, costs.shape[0]):
        for arc in range(n_arcs):
            cost[arc] = cost[arc] * BLEND + costs[k, arc]
    cost[n_arcs:] = (total + 1) * (n + 1)
    return bool(costs.shape[0] > 1)


@internal
def _minimise(arcs: _Arcs, basis: _Basis, mark: Int8s, potential: Integers, budget: int) -> int:
    """Pivot to the least cost. Returns the pivots left, or -1 when they ran out.

    Only awake arcs are searched, in blocks that go round; when none of them helps, every other arc is priced
    and those that help are woken.
    """
    tail, head, _, cost = arcs
    _, state, tree = basis
    # the awake arcs, in a ring that the search goes round
    ring = np.empty(tail.size, dtype=np.int64)
    n_ring = int(np.int64(0))
    for arc in range(tail.size):
        if mark[arc] == AWAKE:
            ring[n_ring] = arc
            n_ring += 1
    # potentials are computed once, and then moved by subtrees
    reprice(tree, cost, potential)
    place = int(np.int64(0))
    while True:
        entering, place = _search(arcs, potential, state, ring, n_ring, place)
        if entering < 0:
            woken = n_ring
            # Dantzig's rule over all arcs only when the ring has nothing left: it also proves the optimum for
            # all of them
            for arc in range(tail.size):
                reduced = state[arc] * (cost[arc] + potential[tail[arc]] - potential[head[arc]])
                if reduced < 0 and mark[arc] == ASLEEP:
                    mark[arc] = AWAKE
                    ring[n_ring] = arc
                    n_ring += 1
            if n_ring == woken:
                return budget
            # the new ones first
            place = woken
            continue
        if budget == 0:
            return -1
        budget -= 1
        _pivot(arcs, entering, basis, potential)


@internal
def _search(
    arcs: _Arcs, potential: Integers, state: Int8s, ring: Integers, n_ring: int, place: int
) -> tuple[int, int]:
    """The arc that helps most in the first block that has one, or -1; and where to go on."""
    tail, head, _, cost = arcs
    # a block of arcs a search: the best arc of all would cost a pass over the ring for each pivot
    block = max(int(np.sqrt(n_ring)), 10)
    best, entering, left = 0, -1, block
    for _ in range(n_ring):
        if place >= n_ring:
            place = 0
        arc = ring[place]
        # state is 1 at zero and -1 at capacity, so that a negative product means it pays to move; 0 never
        # does
        reduced = state[arc] * (cost[arc] + potential[tail[arc]] - potential[head[arc]])
        if reduced < best:
            best, entering = reduced, arc
        place += 1
        left -= 1
        if left == 0:
            if entering >= 0:
                break
            left = block
    return entering, place


@internal
def _pivot(arcs: _Arcs, entering: int, basis: _Basis, potential: Integers) -> None:
    """Send as much as possible round the cycle of the entering arc; the last arc that stops it leaves the tree.

    Last along the cycle, which is walked in its direction from the apex on: that keeps the tree strongly feasible.
    """
    tail, head = arcs.tail[entering], arcs.head[entering]
    room, cost = arcs.room, arcs.cost
    flow, state, tree = basis
    # the direction in which flow would change: forward from zero, back from capacity
    forward = state[entering] == 1
    first, second = (tail, head) if forward else (head, tail)
    u, v = first, second
    while u != v:
        # the deeper end climbs, so that both meet at the apex without marking nodes
        if tree[u, DEPTH] >= tree[v, DEPTH]:
            u = tree[u, ABOVE]
        else:
            v = tree[v, ABOVE]
    apex = u
    amount, leaving, below, other = room[entering], -1, first, second
    u = first
    while u != apex:  # down from the apex to the first end
        arc = tree[u, ARC]
        spare = flow[arc] if tree[u, SENSE] == 1 else room[arc] - flow[arc]
        # Less on this side and at most on the other: the last blocking arc along the cycle leaves (R11).
        if spare < amount:
            amount, leaving = spare, u
        u = tree[u, ABOVE]
    u = second
    while u != apex:  # and from the second end up to it
        arc = tree[u, ARC]
        spare = room[arc] - flow[arc] if tree[u, SENSE] == 1 else flow[arc]
        if spare <= amount:
            amount, leaving, below, other = spare, u, second, first
        u = tree[u, ABOVE]
    # a degenerate pivot moves no flow, and only the tree changes
    if amount > 0:
        flow[entering] += amount if forward else -amount
        u = first
        while u != apex:
            flow[tree[u, ARC]] -= tree[u, SENSE] * amount
            u = tree[u, ABOVE]
        u = second
        while u != apex:
            flow[tree[u, ARC]] += tree[u, SENSE] * amount
            u = tree[u, ABOVE]
    # the entering arc itself was the first to fill: the tree stays as it is
    if leaving < 0:
        state[entering] = -state[entering]
        return
    out = tree[leaving, ARC]
    state[entering] = 0
    # the leaving arc is at one of its bounds, since it stopped the flow
    state[out] = 1 if flow[out] == 0 else -1
    rehang(tree, below, other, leaving, entering, 1 if below == tail else -1)
    # all below the entering arc change by its reduced cost, so that the arc's own becomes zero
    reduced = cost[entering] + potential[tail] - potential[head]
    shift(tree, potential, below, -reduced if below == tail else reduced)


@internal
def _freeze(
    tail: Integers, head: Integers, cost: Integers, potential: Integers, state: Int8s, mark: Int8s
) -> None:
    """Hold every arc whose reduced cost is not zero where it is."""
    for arc in range(tail.size):
        # an arc of the tree has a reduced cost of zero, and stays free for the next cost
        if state[arc] != 0 and cost[arc] + potential[tail[arc]] != potential[head[arc]]:
            state[arc] = 0
            mark[arc] = FROZEN


@njit(nogil=True, cache=True)
def proves_least_cost(
    tail: Integers,
    head: Integers,
    capacity: Integers,
    costs: Integers,
    supply: Integers,
    flow: Integers,
    potentials: Integers,
) -> bool:
    """Whether the potentials prove a flow feasible and lexicographically of least cost, in whole numbers.

    An arc's first reduced cost that is not zero must hold it at zero (positive) or at capacity (negative).

    Args:
        tail, head, capacity, costs, supply: Of the network, see `Network`.
        flow: [a].
        potentials: [K, n].
    """
    left = supply.copy()
    for arc in range(tail.size):
        # feasible first: between bounds, and balanced at each node at the end
        if flow[arc] < 0 or flow[arc] > capacity[arc]:
            return False
        left[tail[arc]] -= flow[arc]
        left[head[arc]] += flow[arc]
        for k in range(costs.shape[0]):
            reduced = costs[k, arc] + potentials[k, tail[arc]] - potentials[k, head[arc]]
            # the first cost that is not zero decides; later ones are of lower rank
            if reduced != 0:
                if flow[arc] != (0 if reduced > 0 else capacity[arc]):
                    return False
                break
    balanced = True
    for u in range(left.size):
        balanced &= left[u] == 0
    return balanced


@internal
def first_flow(net: Network, out: Integers, n_inner: int, entries: Entries, arc_of: Integers) -> None:
    """Fill `begin` and `first_arc`: each cell's people to its largest fractional parts, then up as it comes.

    Args:
        net: The network; `begin` is zero and `first_arc` is -1. Changed.
        out: Where the arcs out of each set's node begin.
        n_inner: Nodes that are not cells, node 0 included; they come first.
        entries: Estimates.
        arc_of: [n], each entry's arc, or -1.
    """
    arcs, start = _arcs_by_cell(net, n_inner)
    part = np.zeros(net.tail.size, dtype=np.int64)
    for e in range(arc_of.size):
        if arc_of[e] >= 0:
            part[arc_of[e]] = entries.part[e]
            # a root has no sums to keep, so each entry goes to its nearest whole number
            if net.tail[arc_of[e]] == 0 and part[arc_of[e]] > ONE // 2:
                net.begin[arc_of[e]] = 1
    for u in range(n_inner, net.supply.size):
        leaving = arcs[start[u - n_inner] : start[u - n_inner + 1]]
        # fractional parts first: only these are worth an order, all others are zero
        n_useful = 0
        for j in range(leaving.size):
            if net.useful[leaving[j]]:
                # Pairs with part zero come last, as in the search of the simplex method.
                leaving[j], leaving[n_useful] = leaving[n_useful], leaving[j]
                n_useful += 1
        # only as many as the supply are selected; the order of the other arcs does not matter
        for turn in range(leaving.size):
            best = turn
            for j in range(turn + 1, n_useful):
                if part[leaving[j]] > part[leaving[best]]:
                    best = j
            leaving[turn], leaving[best] = leaving[best], leaving[turn]
            if turn >= net.supply[u]:
                # An arc at zero that leads up to the root: it makes the first tree strongly feasible (R11).
                net.first_arc[u] = leaving[turn]
                break
            net.begin[leaving[turn]] = 1
    _send_on(net, out, n_inner)


@internal
def _send_on(net: Network, out: Integers, n_inner: int) -> None:
    """Send on what comes to each set's node, its arcs in order; the first arc with room left is the tree's."""
    through = net.supply.copy()
    for a in range(net.tail.size):
        if net.begin[a]:
            through[net.head[a]] += 1
    # Arcs lead to smaller numbers, so that all that comes to a node is known when its turn comes.
    for u in range(n_inner - 1, 0, -1):
        # at most three parallel arcs, cheapest first: filling them in order is least for every stage (R6)
        for a in range(out[u], min(out[u] + 3, net.tail.size)):
            if net.tail[a] != u:
                break
            # less than nothing may come where a lower bound was sent on beforehand: an artificial arc makes
            # up for it
            net.begin[a] = max(0, min(through[u], net.capacity[a]))
            through[u] -= net.begin[a]
            through[net.head[a]] += net.begin[a]
            # room is left towards the root, which is what strong feasibility asks of a tree arc
            if net.begin[a] < net.capacity[a]:
                net.first_arc[u] = a
                break


@internal
def _arcs_by_cell(net: Network, n_inner: int) -> tuple[Integers, Integers]:
    """Arcs out of the nodes from n_inner on, by node, and where each node's begin."""
    # a counting sort of the arcs by tail; node 0 and sets have `out` for that
    start = np.zeros(net.supply.size - n_inner + 2, dtype=np.int64)
    for u in net.tail:
        if u >= n_inner:
            start[u - n_inner + 2] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    arcs = np.empty(start[-1], dtype=np.int64)
    for a in range(net.tail.size):
        u = net.tail[a] - n_inner
        if u >= 0:
            arcs[start[u + 1]] = a
            start[u + 1] += 1
    return arcs, start
