"""Kernel that shares out a parent's counts among its blocks at the least expected absolute error, as a flow.

Problem: find whole counts x[b, c] of at least 0 that add up to the parent's count of every cell, so that

    sum over b, c of E|X[b, c] - x[b, c]| + sum over b of E|N[b] - sum over c of x[b, c]|

is least, where X and N are the counts and totals of blocks as the posterior knows them. One unit more, the u-th,
changes an expectation by 2 P(X < u) - 1: its price, which rises with u. So this is a flow from cells to blocks and from
blocks to one sink, with convex costs. Prices are whole numbers of 2^-20 persons, and the answer is an exact optimum
for these.

Step: every block first takes what is best for itself, which is an optimum of its own; what cells then have left over
or too little of goes along shortest paths of the residual network, unit by unit (successive shortest paths). There is
never a negative cycle, so paths are found by passes over the network until nothing changes.

Beyond the range in which its law is known, a price rises by one part in 2^20 a unit. So what must go where nobody
expects it is divided evenly.

Source: Ahuja, Magnanti, Orlin 1993, Network Flows, chapters 9 and 14.
Oracle: the tests try all tables of small families.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import IntegerRows, Integers
from tallyveil.kernels.allocation.law import Laws
from tallyveil.kernels.compiled import hot, internal, njit
from tallyveil.kernels.rounding.network_simplex import ONE

FAR = 1 << 60
"""Longer than any path, and such that two of them can be added."""


class State(NamedTuple):
    """A flow of a family of n blocks, and the price of one unit more and of the last unit.

    Attributes:
        units: Units of each block and cell; the last column is the block's total; shape (n, cells + 1).
        more: Price of one unit more of each.
        last: Price of the last unit of each; -FAR where there is none.
    """

    units: IntegerRows
    more: IntegerRows
    last: IntegerRows


@hot
def price(laws: Laws, row: int, unit: int) -> int:
    """Price of a unit, numbered from 1 on, in 2^-20 persons: 2 P(count < unit) - 1."""
    place = unit - 1 - laws.first[row]
    width = laws.begin[row + 1] - laws.begin[row]
    if place < 0:
        return int(place - ONE)
    if place >= width - 1:
        return int(ONE + place - (width - 1))
    return int(np.rint(ONE * (2.0 * laws.below[laws.begin[row] + place] - 1.0)))


@hot
def _changed(state: State, laws: Laws, b: int, c: int, by: int) -> None:
    """Change a count by one unit, or none, and look up its prices."""
    row = b * state.units.shape[1] + c
    state.units[b, c] += by
    count = state.units[b, c]
    state.more[b, c] = price(laws, row, count + 1)
    state.last[b, c] = price(laws, row, count) if count > 0 else -FAR


@internal
def _begin(laws: Laws, n: int, n_cells: int, allowed: Integers) -> State:
    """What every block takes for itself."""
    shape = (n, n_cells + 1)
    state = State(np.zeros(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, np.int64))
    for b in range(n):
        for c in range(n_cells + 1):
            _changed(state, laws, b, c, 0)
        while True:
            best = -1
            for c in range(n_cells):
                if allowed[c] and (best < 0 or state.more[b, c] < state.more[b, best]):
                    best = c
            if best < 0 or state.more[b, best] + state.more[b, n_cells] >= 0:
                break
            _changed(state, laws, b, best, 1)
            _changed(state, laws, b, n_cells, 1)
    return state


@njit(nogil=True, cache=True)
def share_out(laws: Laws, supply: Integers) -> IntegerRows:
    """Counts of blocks that add up to their parent's, at the least cost.

    Args:
        laws: Laws of the counts of each block: a row for each cell, and one for the total.
        supply: The parent's count of each cell.
    Returns:
        The counts; shape (blocks, cells).
    """
    n_cells = supply.size
    n = laws.first.size // (n_cells + 1)
    state = _begin(laws, n, n_cells, supply)
    # Nodes: cells, then the sink, then blocks.
    sink, n_nodes = n_cells, n_cells + 1 + n
    excess = np.zeros(n_cells + 1, np.int64)
    for c in range(n_cells):
        excess[c] = supply[c]
        for b in range(n):
            excess[c] -= state.units[b, c]
    # The sink must take in all supplies, and takes in what blocks have.
    excess[sink] = -excess[:n_cells].sum()
    distance, came_from = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    while True:
        wanted = False
        for v in range(n_nodes):
            distance[v], came_from[v] = FAR, -1
        for v in range(n_cells + 1):
            if excess[v] > 0:
                distance[v] = 0
                wanted = True
        if not wanted:
            break
        _find_paths(state, distance, came_from)
        end = -1
        for v in range(n_cells + 1):
            if excess[v] < 0 and (end < 0 or distance[v] < distance[end]):
                end = v
        _send(state, laws, came_from, end)
        start = end
        while came_from[start] >= 0:
            start = came_from[start]
        excess[start] -= 1
        excess[end] += 1
    return state.units[:, :n_cells].copy()


@hot
def _cost(state: State, b: int, c: int, more: bool) -> int:
    """What one unit more, or one less, of a cell or of the total costs; `FAR` where there is none to take."""
    if more:
        return int(state.more[b, c])
    return -int(state.last[b, c]) if state.units[b, c] > 0 else FAR


@internal
def _find_paths(state: State, distance: Integers, came_from: Integers) -> None:
    """Shortest distances from all nodes at distance 0, and the node before each on its path."""
    n, n_cells = state.units.shape[0], state.units.shape[1] - 1
    changed = True
    while changed:
        changed = False
        for b in range(n):
            node = n_cells + 1 + b
            # Into the block: one more of a cell; or out of the sink: one less in total.
            for c in range(n_cells + 1):
                cost = _cost(state, b, c, c < n_cells)
                # Costs can be negative, so that what is far must be left out by itself.
                if distance[c] != FAR and cost != FAR and distance[c] + cost < distance[node]:
                    distance[node], came_from[node] = distance[c] + cost, c
                    changed = True
            # Out of the block: one less of a cell; or into the sink: one more in total.
            for c in range(n_cells + 1):
                cost = _cost(state, b, c, c == n_cells)
                if distance[node] != FAR and cost != FAR and distance[node] + cost < distance[c]:
                    distance[c], came_from[c] = distance[node] + cost, node
                    changed = True


@internal
def _send(state: State, laws: Laws, came_from: Integers, end: int) -> None:
    """Send one unit along the path to a node."""
    n_cells = state.units.shape[1] - 1
    node = end
    while came_from[node] >= 0:
        before = came_from[node]
        if node > n_cells:  # into a block
            b, c, by = node - n_cells - 1, before, 1
        else:
            b, c, by = before - n_cells - 1, node, -1
        # What passes between a block and the sink is its total, in the other direction.
        _changed(state, laws, b, c, -by if c == n_cells else by)
        node = before
