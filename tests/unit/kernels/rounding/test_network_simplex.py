"""Minimum-cost flows against shortest augmenting paths, and the proof of their optimality."""

from typing import Any

import numpy as np
import pytest
from tests.from_python import from_python
from tests.oracles.network_simplex import minimum_cost_flow_reference

from tallyveil.kernels.rounding.network_simplex import (
    INFEASIBLE,
    OPTIMAL,
    TOO_LARGE,
    Network,
    minimum_cost_flow,
    proves_least_cost,
)

minimum_cost_flow = from_python(minimum_cost_flow)
proves_least_cost = from_python(proves_least_cost)


def random_network(seed, n_costs) -> tuple[Any, Any, Any, Any, Any]:
    """Arcs either way, some parallel, some loops, few different costs, so that there are many ties."""
    rng = np.random.default_rng([52, seed])
    n, n_arcs = int(rng.integers(2, 8)), int(rng.integers(3, 22))
    tail, head = rng.integers(0, n, (2, n_arcs))
    capacity = rng.integers(1, 5, n_arcs)
    costs = rng.integers(-3, 4, (n_costs, n_arcs))
    inside = np.minimum(rng.integers(0, 5, n_arcs), capacity)
    supply = np.zeros(n, np.int64)
    np.add.at(supply, tail, inside)
    np.subtract.at(supply, head, inside)
    if seed % 5 == 0:
        supply[0] += 3
        supply[1] -= 3
    return tail, head, capacity, costs, supply


def solve(network, useful=None, begin=None, first_arc=None):
    tail, head, capacity, costs, supply = network
    useful = np.ones(tail.size, bool) if useful is None else useful
    begin = np.zeros(tail.size, np.int64) if begin is None else begin
    first_arc = np.full(supply.size, -1) if first_arc is None else first_arc
    return minimum_cost_flow(Network(tail, head, capacity, costs, supply, useful, begin, first_arc))


@pytest.mark.parametrize("n_costs", [1, 2, 3])
def test_least_cost_agrees_with_its_twin(n_costs):
    statuses = []
    for seed in range(120):
        network = random_network(seed, n_costs)
        status, flow, potentials = solve(network)
        expected, other = minimum_cost_flow_reference(*network)
        assert status == expected
        statuses.append(status)
        if status == OPTIMAL:
            np.testing.assert_array_equal(network[3] @ flow, network[3] @ other)
            assert proves_least_cost(*network, flow, potentials)
    assert set(statuses) == {OPTIMAL, INFEASIBLE}


def test_where_it_starts_and_what_it_tries_first_do_not_matter():
    for seed in range(80):
        network = random_network(seed, 2)
        tail, head, capacity, costs, supply = network
        rng = np.random.default_rng([53, seed])
        begin = np.where(rng.random(tail.size) < 0.5, capacity, 0)
        first_arc = np.full(supply.size, -1)
        for arc in np.flatnonzero((begin == 0) & (head < tail)):
            first_arc[tail[arc]] = arc
        one = solve(network)
        other = solve(network, rng.random(tail.size) < 0.3, begin, first_arc)
        assert one[0] == other[0]
        if one[0] == OPTIMAL:
            np.testing.assert_array_equal(costs @ one[1], costs @ other[1])
            assert proves_least_cost(*network, other[1], other[2])


def test_second_cost_counts_only_among_the_first_ones_optima():
    """Three parallel arcs from 1 to 0: two are cheapest by the first cost; of these the second decides."""
    network = (
        np.array([1, 1, 1]), np.array([0, 0, 0]), np.array([1, 1, 1]),
        np.array([[5, 5, 6], [9, 2, -100]]), np.array([-1, 1]),
    )  # fmt: skip
    status, flow, _ = solve(network)
    assert status == OPTIMAL
    np.testing.assert_array_equal(flow, [0, 1, 0])


def test_a_proof_of_the_wrong_thing_fails():
    for seed in range(1, 60, 2):
        network = random_network(seed, 2)
        costs = network[3]
        status, flow, potentials = solve(network)
        if status != OPTIMAL:
            continue
        assert not proves_least_cost(*network, flow + 1, potentials)
        moved = (*network[:4], network[4] + np.eye(network[4].size, dtype=np.int64)[0])
        assert not proves_least_cost(*moved, flow, potentials)
        # a cost that would make an arc worth changing
        for arc in range(flow.size):
            dearer = costs.copy()
            dearer[0, arc] += 1000 if flow[arc] else -1000
            assert not proves_least_cost(*network[:3], dearer, network[4], flow, potentials)


def test_a_circulation_of_gain_is_taken():
    """No supply at all; the cycle 1 -> 2 -> 1 gains, and a loop at the root does."""
    network = (
        np.array([1, 2, 0]), np.array([2, 1, 0]), np.array([4, 3, 2]),
        np.array([[1, -2, -1]]), np.zeros(3, np.int64),
    )  # fmt: skip
    status, flow, _ = solve(network)
    assert status == OPTIMAL
    np.testing.assert_array_equal(flow, [3, 3, 2])


def test_costs_that_could_overflow_are_refused():
    network = (np.array([1]), np.array([0]), np.array([1]), np.array([[2**57]]), np.array([-1, 1]))
    assert solve(network)[0] == TOO_LARGE
    fine = (*network[:3], np.array([[2**50]]), network[4])
    assert solve(fine)[0] == OPTIMAL


def test_later_costs_too_large_to_blend_are_still_exact():
    """Two costs whose weighted sum would overflow: the method goes on without the blend."""
    network = (
        np.array([1, 1]), np.array([0, 0]), np.array([1, 1]),
        np.array([[2**52, 2**52], [2**50, -(2**50)]]), np.array([-1, 1]),
    )  # fmt: skip
    status, flow, potentials = solve(network)
    assert status == OPTIMAL
    np.testing.assert_array_equal(flow, [0, 1])
    assert proves_least_cost(*network, flow, potentials)
