"""Slow and obvious specifications of the kernels in `tallyveil.kernels.rounding.network_simplex`."""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.kernels.rounding.network_simplex import INFEASIBLE, OPTIMAL


def minimum_cost_flow_reference(
    tail: Integers, head: Integers, capacity: Integers, costs: Integers, supply: Integers
) -> tuple[int, Integers]:
    """Oracle of `minimum_cost_flow`, by shortest augmenting paths under costs compared as tuples.

    Returns:
        OPTIMAL or INFEASIBLE, and the flow, which may be another one of the same costs.
    """
    price = [tuple(int(c) for c in column) for column in costs.T]
    zero = (0,) * costs.shape[0]
    flow = np.where([p < zero for p in price], capacity, 0).astype(np.int64)
    excess = supply.copy()
    np.subtract.at(excess, tail, flow)
    np.add.at(excess, head, flow)
    while (excess > 0).any():
        source = int(np.argmax(excess > 0))
        before = _shortest_paths(tail, head, capacity, price, flow, source)
        ends = [u for u in range(supply.size) if u in before and excess[u] < 0]
        if not ends:
            return INFEASIBLE, flow
        steps, u = [], ends[0]
        while u != source:
            arc, forward = before[u]
            steps.append((arc, forward))
            u = int(tail[arc] if forward else head[arc])
        spare = [int(capacity[arc] - flow[arc]) if forward else int(flow[arc]) for arc, forward in steps]
        amount = min(*spare, int(excess[source]), -int(excess[ends[0]]))
        for arc, forward in steps:
            flow[arc] += amount if forward else -amount
        excess[source] -= amount
        excess[ends[0]] += amount
    return OPTIMAL, flow


def _shortest_paths(
    tail: Integers,
    head: Integers,
    capacity: Integers,
    price: list[tuple[int, ...]],
    flow: Integers,
    source: int,
) -> dict[int, tuple[int, bool]]:
    """The last step (arc, forward) of a cheapest path to every node that can be reached (Bellman, Ford)."""
    length = {source: (0,) * len(price[0])}
    before: dict[int, tuple[int, bool]] = {}
    changed = True
    while changed:
        changed = False
        for arc in range(tail.size):
            for u, v, sign in ((int(tail[arc]), int(head[arc]), 1), (int(head[arc]), int(tail[arc]), -1)):
                spare = capacity[arc] - flow[arc] if sign == 1 else flow[arc]
                if spare > 0 and u in length:
                    reach = tuple(a + sign * b for a, b in zip(length[u], price[arc], strict=True))
                    if v not in length or reach < length[v]:
                        length[v], before[v], changed = reach, (arc, sign == 1), True
    return before
