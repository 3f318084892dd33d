"""Kernel that gives the network of a rounding a first flow. The optimum does not depend on it.

Each cell's leftover people go to the largest fractional parts first, which is near the optimum.
"""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.rounding.arrays import ONE, Entries, Network


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
