"""Passes in turn: what one hands to the next where the sum of two children is exact."""

import dataclasses

import numpy as np
import pytest

from tallyveil.estimation import least_squares
from tallyveil.estimation.least_squares import solve_passes
from tallyveil.estimation.problem import (
    EstimateStatus,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.family.solver import solve_pass

N_CELLS = 60


def parts_of_states(n_states, slack):
    """States in two parts, the second with few people; only the total of a State is exact.

    Totals are measured first and best, as in production.
    """
    rng = np.random.default_rng([3, n_states])
    sizes = np.exp(rng.normal(9.0, 1.0, (n_states, 1))) * np.array([1.0, 0.01])
    truth = rng.poisson(
        sizes.reshape(-1, 1) * rng.dirichlet(rng.dirichlet(np.full(N_CELLS, 0.3)) * 200 + 1e-9)
    )
    total, detailed = np.zeros(N_CELLS, np.int32), np.arange(N_CELLS, dtype=np.int32)
    third = (detailed // 20).astype(np.int32)
    queries = []
    for name, labels, variance in (("total", total, 1), ("third", third, 100), ("detailed", detailed, 20)):
        answers = np.stack([np.bincount(labels, weights=own) for own in truth])
        noise = rng.normal(0, variance**0.5, answers.shape)
        queries.append(
            MeasuredQuery(name, labels, np.rint(answers + noise).astype(np.int64), float(variance))
        )
    groups = np.arange(2 * n_states) // 2
    exact = truth.sum(axis=1).reshape(n_states, 2).sum(axis=1, keepdims=True)
    return FamilyProblem(
        geocode="us",
        geolevel="US",
        children=tuple(f"part {c}" for c in range(2 * n_states)),
        support=np.arange(N_CELLS),
        parent_counts=truth.sum(axis=0),
        measured=tuple(queries),
        constraints=(LinearConstraint("people", total, exact, exact, groups),),
        passes=(EstimationPass(("total",), slack), EstimationPass(("third", "detailed"))),
        rounding=(RoundingStage((("detailed", detailed),)),),
    )


def carried_totals(problem, monkeypatch):
    """Which children have bounds on the total that pass 1 hands to pass 2."""
    seen = []
    monkeypatch.setattr(least_squares, "solve_pass", lambda one: seen.append(one) or solve_pass(one))
    solve_passes(problem, problem.allowed())
    of_children = seen[-1].lower[-problem.n_children :]
    np.testing.assert_array_equal(np.isfinite(of_children), np.isfinite(seen[-1].upper[-of_children.size :]))
    return np.isfinite(of_children).tolist()


def test_the_second_part_of_an_exact_sum_needs_no_carried_bounds(monkeypatch):
    assert carried_totals(parts_of_states(3, 0.1), monkeypatch) == [True, False] * 3


def split(people, n_groups):
    """An exact sum for each of some groups of equally many children, people in all."""
    own = np.full((n_groups, 1), people // n_groups)
    own[0] += people % n_groups
    return {"lower": own, "upper": own, "groups": np.arange(6) // (6 // n_groups)}


def test_sums_of_three_of_other_cells_or_in_a_range_repeat_nothing(monkeypatch):
    problem = parts_of_states(3, 0.1)
    (people,) = problem.constraints
    half = np.arange(N_CELLS) < 30
    for changes in (
        {"upper": people.upper + 1},
        split(problem.parent_counts.sum(), 2),
        {"labels": np.where(half, 0, -1)} | split(problem.parent_counts[half].sum(), 3),
    ):
        changed = dataclasses.replace(problem, constraints=(dataclasses.replace(people, **changes),))
        assert carried_totals(changed, monkeypatch) == [True] * 6


@pytest.mark.parametrize("slack", [0.0, 0.1])
def test_leaving_out_what_repeats_changes_no_answer(slack, monkeypatch):
    problem = parts_of_states(4, slack)
    ours = solve_passes(problem, problem.allowed())
    monkeypatch.setattr(least_squares, "_without_repeats", lambda carried, _: carried)
    theirs = solve_passes(problem, problem.allowed())
    np.testing.assert_allclose(ours.estimate, theirs.estimate, atol=1e-6)


@pytest.mark.parametrize("n_states", [10, 30])
def test_many_states_in_two_parts_are_certified_in_the_first_round(n_states):
    problem = parts_of_states(n_states, 0.1)
    answer = solve_passes(problem, problem.allowed())
    assert answer.status is EstimateStatus.CERTIFIED
    assert answer.residual_persons <= 1e-7
