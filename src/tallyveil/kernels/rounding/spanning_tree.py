"""Kernels for the spanning tree of the network simplex method (see `network_simplex`).

Node 0 is the root. Arcs are numbered, the real ones first. After them comes an artificial arc for each node, which
joins the node to the root.

They are tested through `network_simplex`, whose proof of optimality fails where a tree is wrong.
"""

import numpy as np

from tallyveil.arrays import Int8s, Integers
from tallyveil.kernels.compiled import internal

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
