"""Events for groups of persons: all that several persons together can do is enumerated."""

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tallyveil.accounting import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Laplace,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    RandomizedResponse,
    SequentialEvent,
    WorstEvent,
    compose,
    for_group,
    group_privacy,
)
from tallyveil.accounting.groups import for_group_of_secret
from tallyveil.errors import BudgetError

EPSILONS = (0, Fraction(1, 2), 1, Fraction(5, 2), 4)
REACH = 22
"""Noise beyond this is left out: at scale 1 less than 1e-9 of it, and still less of the other noise here."""
PLACES = np.arange(-REACH, REACH + 1)


def weights(event, moved):
    """The law of one answer that moves, on the places; not normalised."""
    distance = PLACES - moved
    if isinstance(event, DiscreteGaussian):
        return np.exp(-(distance**2) / (2 * float(event.variance)))
    return np.exp(-np.abs(distance) / float(event.scale))


def pair(moves) -> tuple[Any, Any]:
    """Both laws of independent answers, each an event and by how much it moves."""
    p, q = np.ones(1), np.ones(1)
    for event, moved in moves:
        if moved:
            total = weights(event, 0).sum()
            p = np.outer(p, weights(event, moved) / total).ravel()
            q = np.outer(q, weights(event, 0) / total).ravel()
    return p, q


def delta(p, q, epsilon):
    return np.maximum(p - np.exp(float(epsilon)) * q, 0).sum()


def worst(all_moves, epsilon):
    """The largest delta of all ways to move the answers. Only how far each answer moves matters."""
    ways = {tuple(sorted(((event, abs(n)) for event, n in moves if n), key=repr)) for moves in all_moves}
    return max(delta(*pair(moves), epsilon) for moves in ways)


def changes(cells, size, neighbours):
    """By how much each cell of a histogram moves, for every way that so many persons can change, one after another."""
    unit = np.eye(cells, dtype=int)
    single = [*unit, *-unit, 0 * unit[0]]
    if neighbours == "bounded":
        single = [unit[a] - unit[b] for a in range(cells) for b in range(cells)]
    return {tuple(sum(persons)) for persons in itertools.combinations_with_replacement(single, size)}


@pytest.mark.parametrize("noise", [DiscreteGaussian(2), DiscreteGaussian("1/2"), DiscreteLaplace("2/3")])
@pytest.mark.parametrize(("neighbours", "moved"), [("unbounded", 1), ("bounded", 2)])
@pytest.mark.parametrize("size", [2, 3])
def test_persons_in_the_same_cells_are_the_worst_of_a_histogram(noise, neighbours, moved, size):
    event = type(noise)(noise.to_mapping().get("variance") or noise.scale, 1, moved)
    guarantee = compose(for_group(event, size), neighbours=neighbours)
    moves = [[(noise, n) for n in cells] for cells in changes(3, size, neighbours)]
    for epsilon in EPSILONS:
        assert worst(moves, epsilon) == pytest.approx(guarantee.delta(epsilon).upper, abs=1e-8)


def test_persons_who_are_alike_are_the_worst_of_several_queries():
    first, second = DiscreteGaussian(1), DiscreteLaplace(1)
    # A record has two attributes, and each query counts the levels of one.
    guarantee = compose(for_group(SequentialEvent((first, second)), 2), neighbours="unbounded")
    persons = [(a, b, sign) for a in range(2) for b in range(2) for sign in (1, -1)]
    moves = []
    for two in itertools.combinations_with_replacement(persons, 2):
        cells = np.zeros((2, 2), dtype=int)
        for a, b, sign in two:
            cells[0, a] += sign
            cells[1, b] += sign
        moves.append([*((first, n) for n in cells[0]), *((second, n) for n in cells[1])])
    for epsilon in EPSILONS:
        assert worst(moves, epsilon) == pytest.approx(guarantee.delta(epsilon).upper, abs=1e-8)


@pytest.mark.parametrize("noise", [DiscreteGaussian("1/3"), DiscreteGaussian(5), DiscreteLaplace(1)])
def test_a_step_from_the_smaller_to_the_larger_move_costs_more(noise):
    for a, b in itertools.product(range(5), repeat=2):
        for epsilon in (-4, *EPSILONS) if a >= b else ():
            apart = delta(*pair([(noise, a + 1), (noise, b - 1)]), epsilon)
            assert delta(*pair([(noise, a), (noise, b)]), epsilon) <= apart + 1e-8


@pytest.mark.parametrize(
    "laws", [(DiscreteGaussian(2), DiscreteGaussian(1)), (DiscreteLaplace(1), DiscreteLaplace("1/2"))]
)
def test_members_of_a_group_may_change_between_different_values_of_a_secret(laws):
    """One pair of values moves two answers of the first query; two others move one of them, and one of the second."""
    first, second = laws
    secret = WorstEvent((replace(first, multiplicity=2), SequentialEvent((first, second))), "public")
    guarantee = compose(for_group_of_secret(secret, 2), neighbours="bounded")
    changes = [np.array(change) for change in ((1, -1, 0), (1, 0, 1), (0, 1, 1))]
    moves = [
        [(law, int(n)) for law, n in zip((first, first, second), x + sign * y, strict=True)]
        for x, y in itertools.combinations_with_replacement(changes, 2)
        for sign in (1, -1)
    ]
    assert for_group_of_secret(secret, 1) == secret
    for epsilon in EPSILONS:
        assert worst(moves, epsilon) <= guarantee.delta(epsilon).upper + 1e-8
    # The bound is no idle one.
    assert guarantee.delta(EPSILONS[-1]).upper < 1


def test_parts_with_the_same_noise():
    part = DiscreteGaussian(2)
    guarantee = compose(for_group(ParallelEvent((part, part)), 2), neighbours="unbounded")
    # Two persons, each in one of two parts.
    moves = [[(part, a), (part, b)] for a, b in [(2, 0), (1, 1), (1, 0)]]
    for epsilon in EPSILONS:
        assert worst(moves, epsilon) == pytest.approx(guarantee.delta(epsilon).upper, abs=1e-8)
    twice = for_group(ParallelEvent((SequentialEvent((part, DiscreteLaplace(3))),), 2), 3)
    assert twice == ParallelEvent((SequentialEvent((DiscreteGaussian(2, 3), DiscreteLaplace(3, 3))),), 2)


def test_answers_of_all_persons_to_a_question():
    event = RandomizedResponse(1, 3)
    guarantee = compose(for_group(event, 2), neighbours="bounded")
    odds = np.array([[np.e if a == b else 1.0 for b in range(3)] for a in range(3)])
    laws = odds / odds.sum(axis=1, keepdims=True)
    options = list(itertools.product(range(3), repeat=2))
    for epsilon in EPSILONS:
        largest = max(
            delta(np.outer(laws[a], laws[b]).ravel(), np.outer(laws[c], laws[d]).ravel(), epsilon)
            for (a, b), (c, d) in itertools.product(options, repeat=2)
        )
        assert largest == pytest.approx(guarantee.delta(epsilon).upper, rel=1e-9, abs=1e-12)


def chains(epsilon, size, n=300):
    """Random mechanisms of pure epsilon, and some that use it to the last bit: first and last law of each chain."""
    random = np.random.default_rng(5)
    for _ in range(n):
        laws = [random.dirichlet(np.ones(4))]
        for _ in range(size):
            # Odds within epsilon / 2 of each other, before and after the law is normalised.
            change = random.choice([-1, 1, random.uniform(-1, 1)], 4) * epsilon / 2
            law = laws[-1] * np.exp(change)
            laws.append(law / law.sum())
        assert all((np.abs(np.log(b / a)) <= epsilon + 1e-9).all() for a, b in itertools.pairwise(laws))
        yield laws[0], laws[-1]


@pytest.mark.parametrize("size", [2, 3])
def test_pure_epsilon_from_person_to_person(size):
    guarantee = compose(for_group(ApproximateDP(1), size), neighbours="unbounded")
    textbook = compose(ApproximateDP(size), neighbours="unbounded")
    for epsilon in (0, Fraction(1, 2), 1, Fraction(3, 2), 2, Fraction(5, 2)):
        bound = guarantee.delta(epsilon).upper
        assert max(delta(p, q, epsilon) for p, q in chains(1, size)) <= bound + 1e-12
        # A mechanism that attains it: rounded counts with two-sided geometric noise.
        assert delta(*pair([(DiscreteLaplace(1), size)]), epsilon) == pytest.approx(bound, abs=1e-8)
        assert epsilon >= size or bound < textbook.delta(epsilon).lower
    assert guarantee.delta(size).upper < 1e-12


def test_stated_guarantees():
    epsilon, largest = group_privacy(1, "1e-6", 4)
    assert for_group(ApproximateDP(1, "1e-6", 3), 4) == ApproximateDP(epsilon, Fraction(largest), 3)
    assert for_group(ZCDP("1/8"), 5) == ZCDP("25/8")
    # Normal noise has exactly this rho for a group.
    assert for_group(Gaussian(4), 5).mu_squared == 2 * for_group(ZCDP("1/8"), 5).rho
    assert for_group(ApproximateDP(0), 3) == ApproximateDP(0)
    failing = for_group(ApproximateDP(0, "1/10"), 3)
    assert failing.epsilon == 0
    assert 0 <= failing.delta - Fraction(3, 10) < Fraction(1, 10**15)


def test_noise_within_other_events():
    laplace = Laplace(2, "1/3", 4)
    moved = Laplace(2, 1, 4)
    assert for_group(laplace, 3) == moved
    assert for_group(WorstEvent((laplace, Gaussian(1)), "public"), 3) == WorstEvent(
        (moved, Gaussian(1, 3)), "public"
    )
    assert for_group(AdaptiveEvent((laplace, laplace)), 3) == AdaptiveEvent((moved, moved))
    kept = (InvariantEvent("total"), NonPrivateEvent("an evaluation"))
    assert for_group(SequentialEvent((laplace, *kept)), 3) == SequentialEvent((moved, *kept))
    assert for_group(IntegerSubspaceGaussian(3, 2), 3).squared_distance == 18
    assert for_group(IntegerSubspaceLaplace("1/2", "l1", 2), 3).distance == 6


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (PoissonSampled(Gaussian(1), "1/10"), "PoissonSampled"),
        (SequentialEvent((Gaussian(1), PoissonSampled(Gaussian(1), "1/10"))), "PoissonSampled"),
        (ParallelEvent((DiscreteGaussian(1), DiscreteGaussian(2))), "ParallelEvent"),
        (ParallelEvent((RandomizedResponse(1),)), "ParallelEvent"),
        (ParallelEvent((WorstEvent((Laplace(1), Laplace(2))),)), "ParallelEvent"),
        (SequentialEvent((ZCDP(1), InvariantEvent("total"))), "beside invariants"),
        (ApproximateDP(1, "1/10"), "delta reaches 1"),
    ],
)
def test_what_has_no_proof_is_refused_by_name(event, named):
    assert for_group(event, 1) == event
    with pytest.raises(BudgetError, match=named) as caught:
        for_group(event, 4)
    assert caught.value.code == "no-group"


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "2", 10**6 + 1])
def test_a_size_is_a_whole_number(size):
    with pytest.raises(BudgetError, match="size must be an integer"):
        for_group(Gaussian(1), size)
