"""Kernel for minimum-cost flows with several costs in order of importance.

Problem: send the supplies of all nodes through arcs of limited capacity so that the first cost is least; among those
flows, so that the second cost is least; and so on. All numbers are whole. Variables: the flow on each arc, and a
potential for each node. The reduced cost of an arc is cost + potential[tail] - potential[head].

Step: the primal network simplex method. An arc whose reduced cost has the wrong sign enters the spanning tree, flow
is pushed around the cycle it closes, and an arc whose flow reaches a bound leaves. Node 0 is the root. The tree is
kept strongly feasible: from every node a positive amount can be sent to the root along tree arcs. So no sequence of
pivots repeats, and the method ends. Artificial arcs join every node to the root at a first cost above that of any
cycle; they are numbered after the real ones.

A later cost is minimised over all the optima of the earlier ones. Those are the flows that stay at their bounds
wherever an earlier reduced cost is not zero. So such arcs are frozen, and the method goes on from its tree (proof:
docs/proofs/rounding.md). No weights are needed.

Stopping rule: no arc's reduced cost has the wrong sign.

Worked case: node 1 sends two persons to node 0 by an arc of capacity 1 and cost 1 and an arc of capacity 2 and cost
3. The optimum uses each arc once, at cost 4. The potential of node 1 is then -3: the reduced costs are 1 - 3 = -2 on
the full arc and 3 - 3 = 0 on the other.

Oracle: shortest augmenting paths under costs that are compared as tuples, in the tests.

Source: Cunningham 1976, A network simplex method; Ahuja, Magnanti, Orlin 1993, Network Flows, chapter 11.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Int8s, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.rounding.arrays import Network
from tallyveil.kernels.rounding.spanning_tree import (
    ABOVE,
    ARC,
    DEPTH,
    SENSE,
    first_tree,
    rehang,
    reprice,
    shift,
)
from tallyveil.kernels.vectors import set_to

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
        tree: See `spanning_tree`.
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
