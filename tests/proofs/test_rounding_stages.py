"""The steps of docs/proofs/rounding.md about stages, feasibility, 64-bit integers, termination and checks."""

from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.proofs.exact import all_flows, least_of
from tests.samples import every

from tallyveil.kernels.rounding.network_simplex import (
    INFEASIBLE,
    OPTIMAL,
    TOO_LARGE,
    Network,
    minimum_cost_flow,
    proves_least_cost,
)

BATCHES = every(10, [range(60 * i, 60 * (i + 1)) for i in range(20)])


def random_network(seed, balanced=True):
    """A few arcs with few different costs, so that optima are seldom unique; and what each node sends out."""
    random = Random(f"network {seed}")
    n, n_costs = random.randint(2, 4), random.randint(1, 3)
    arcs = [
        (random.randrange(n), random.randrange(n), random.randint(1, 2)) for _ in range(random.randint(2, 6))
    ]
    costs = [[random.randint(-2, 2) for _ in arcs] for _ in range(n_costs)]
    supply = [0] * n
    for tail, head, capacity in arcs:
        amount = random.randint(0, capacity)
        supply[tail] += amount
        supply[head] -= amount
    if not balanced:
        supply[0] += 1
        supply[-1] -= 1
    return arcs, costs, supply


def as_arrays(arcs, costs, supply) -> tuple[Any, Any, Any, Any, Any]:
    tail, head, capacity = (np.array(side, dtype=np.int64) for side in zip(*arcs, strict=True))
    return tail, head, capacity, np.array(costs, dtype=np.int64), np.array(supply, dtype=np.int64)


def solve(arcs, costs, supply):
    tail, head, capacity, prices, sent = as_arrays(arcs, costs, supply)
    nothing = np.zeros(len(arcs), np.int64), np.full(len(supply), -1)
    return minimum_cost_flow(Network(tail, head, capacity, prices, sent, np.ones(len(arcs), bool), *nothing))


def cost_of(costs, flow):
    return tuple(sum(price * amount for price, amount in zip(row, flow, strict=True)) for row in costs)


def held(arcs, cost, potential, flow, others):
    """The flows that equal this one wherever the reduced cost is not zero."""
    fixed = [a for a, (tail, head, _) in enumerate(arcs) if cost[a] + potential[tail] - potential[head] != 0]
    return {other for other in others if all(other[a] == flow[a] for a in fixed)}


@pytest.mark.parametrize("seeds", BATCHES)
def test_r8_optima_are_the_flows_that_keep_every_arc_with_a_reduced_cost(seeds):
    for seed in seeds:
        arcs, costs, supply = random_network(seed)
        status, flow, potentials = solve(arcs, costs, supply)
        assert status == OPTIMAL
        left = set(all_flows(arcs, supply))
        for k, cost in enumerate(costs):
            left = held(arcs, cost, potentials[k].tolist(), flow.tolist(), left)
        assert left == least_of(all_flows(arcs, supply), partial(cost_of, costs))


def test_r8_fails_with_potentials_that_prove_nothing():
    wrong = 0
    for seed in range(60):
        arcs, costs, supply = random_network(seed)
        _, flow, potentials = solve(arcs, costs, supply)
        found = held(arcs, costs[0], [0] * len(supply), flow.tolist(), set(all_flows(arcs, supply)))
        wrong += found != least_of(all_flows(arcs, supply), partial(cost_of, costs[:1]))
        assert potentials.shape[1] == len(supply)
    assert wrong


@pytest.mark.parametrize("seeds", BATCHES)
def test_r9_a_flow_is_found_if_and_only_if_there_is_one(seeds):
    refused = 0
    for seed in seeds:
        arcs, costs, supply = random_network(seed, balanced=seed % 2 == 0)
        status, flow, _ = solve(arcs, costs, supply)
        flows = set(all_flows(arcs, supply))
        assert status == (OPTIMAL if flows else INFEASIBLE)
        if flows:
            assert cost_of(costs, flow.tolist()) == min(cost_of(costs, one) for one in flows)
        refused += not flows
    assert 5 < refused < 55


def with_artificial(arcs, costs, supply, price):
    """The network with an arc from each node to node 0 and back, of this first cost and no later one."""
    most = 3
    more = [(u, 0, most) for u in range(1, len(supply))] + [(0, u, most) for u in range(1, len(supply))]
    return arcs + more, [row + [price if k == 0 else 0] * len(more) for k, row in enumerate(costs)]


def uses_artificial(arcs, costs, supply, price):
    """Whether some optimum of the network with artificial arcs uses one of them, though a real flow exists."""
    wider, prices = with_artificial(arcs, costs, supply, price)
    optima = least_of(all_flows(wider, supply), partial(cost_of, prices))
    return any(any(one[len(arcs) :]) for one in optima)


def few_arcs(seed):
    random = Random(f"path {seed}")
    arcs = [(1, 2, 1), (2, 0, 1), (1, 0, 1)][: random.randint(2, 3)]
    costs = [[random.randint(-3, 3) for _ in arcs] for _ in range(2)]
    return arcs, costs, [-1, 1, 0]


@pytest.mark.parametrize("seeds", every(10, [range(6 * i, 6 * (i + 1)) for i in range(20)]))
def test_r9_no_optimum_uses_an_artificial_arc_where_a_flow_exists(seeds):
    """Every flow of the network with artificial arcs, at the first cost M of the proof."""
    for seed in seeds:
        arcs, costs, supply = few_arcs(seed)
        largest = max(abs(price) for row in costs for price in row)
        assert not uses_artificial(arcs, costs, supply, (largest + 1) * (len(supply) + 1))


def test_r9_fails_with_a_small_first_cost():
    """An artificial arc that costs 1, beside a real way that costs 6."""
    assert uses_artificial([(1, 2, 1), (2, 0, 1)], [[3, 3]], [-1, 1, 0], 1)
    assert not uses_artificial([(1, 2, 1), (2, 0, 1)], [[3, 3]], [-1, 1, 0], 16)


@pytest.mark.parametrize("seed", every(10, range(100)))
def test_r10_what_is_accepted_stays_below_2_to_the_61(seed):
    """The kernel's own refusal, at random sizes of costs around its limit, against the bounds of the proof."""
    random = Random(f"size {seed}")
    n = random.randint(2, 5)
    largest = (2**58 // (n + 1)) + random.choice([-3, -2, -1, 0, 1, random.randint(-(2**50), 2**50)])
    arcs = [(u, u - 1, 1) for u in range(1, n)]
    status, _, potentials = solve(arcs, [[largest] * len(arcs)], [-1] + [0] * (n - 2) + [1])
    first = (largest + 1) * (n + 1)
    if status == TOO_LARGE:
        assert first >= 2**58 - 2 * (n + 1)
    else:
        assert status == OPTIMAL
        assert first < 2**58
        assert 2 * (first + n * largest) + largest < 5 * first < 2**61
        assert abs(potentials).max() <= first + n * largest


def test_r10_fails_just_above_the_limit():
    n = 3
    largest = 2**58 // (n + 1)
    assert (largest + 1) * (n + 1) >= 2**58
    assert solve([(1, 0, 1), (2, 1, 1)], [[largest, largest]], [-1, 0, 1])[0] == TOO_LARGE


@pytest.mark.parametrize("seeds", BATCHES)
def test_r11_the_method_ends_where_nearly_every_pivot_moves_nothing(seeds):
    """No supplies, equal costs, and capacities of one: the pivots that a weaker rule repeats for ever."""
    for seed in seeds:
        random = Random(f"degenerate {seed}")
        n = random.randint(3, 12)
        arcs = [(random.randrange(n), random.randrange(n), 1) for _ in range(4 * n)]
        costs = [[random.randint(-1, 1) for _ in arcs] for _ in range(2)]
        status, flow, potentials = solve(arcs, costs, [0] * n)
        assert status == OPTIMAL
        assert proves_least_cost(*as_arrays(arcs, costs, [0] * n), flow, potentials)


def proofs(seeds, break_balance):
    """How many random flows and potentials are accepted as proved, and how many of these are not optimal."""
    accepted = wrong = 0
    for seed in seeds:
        arcs, costs, supply = random_network(seed)
        random = Random(f"proof {seed}")
        optima = least_of(all_flows(arcs, supply), partial(cost_of, costs))
        _, found, potentials = solve(arcs, costs, supply)
        for _ in range(20):
            flow = [max(0, amount + random.choice([0, 0, 0, 1, -1])) for amount in found.tolist()]
            moved = potentials + np.array(
                [[random.choice([0, 0, 0, 1]) for _ in row] for row in potentials], dtype=np.int64
            )
            sent = supply
            if break_balance:
                sent = [0] * len(supply)
                for (tail, head, _), amount in zip(arcs, flow, strict=True):
                    sent[tail] += amount
                    sent[head] -= amount
            good = proves_least_cost(*as_arrays(arcs, costs, sent), np.array(flow), moved)
            accepted += good
            wrong += good and tuple(flow) not in optima
    return accepted, wrong


@pytest.mark.parametrize("seeds", BATCHES)
def test_r12_what_the_check_accepts_is_an_optimum(seeds):
    accepted, wrong = proofs(seeds, break_balance=False)
    assert accepted > 20
    assert wrong == 0


def test_r12_fails_without_the_check_of_conservation():
    assert proofs(range(60), break_balance=True)[1]
