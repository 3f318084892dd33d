"""Controlled rounding against brute force and an integer program written another way."""

import itertools

import numpy as np
import pytest
from scipy.optimize import Bounds, milp
from scipy.optimize import LinearConstraint as Rows
from tests.samples import few, ten

from tallyveil.errors import SolverError
from tallyveil.estimation import rounding
from tallyveil.estimation.highs import solve_integer
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingMethod,
    RoundingStage,
)
from tallyveil.estimation.rounding import round_counts, snap
from tallyveil.kernels.rounding.flow import laminar_forest

SNAP = 2.0**-20


def family(parent_counts, n_children, stages, constraints=()):
    n_cells = stages[0].labels[0][1].size
    measured = (MeasuredQuery("detailed", np.arange(n_cells), np.zeros((n_children, n_cells), int), 1.0),)
    return FamilyProblem(
        "p", "tract", tuple("abcdefgh"[:n_children]), np.arange(n_cells), parent_counts,
        measured, constraints, (EstimationPass(("detailed",)),), stages,
    )  # fmt: skip


def random_case(seed, n_children, n_cells, nested):
    """An estimate with whole cell sums that meets its constraints, some cells forbidden in some children."""
    rng = np.random.default_rng([31, seed])
    estimate = np.round(rng.exponential(1.2, (n_children, n_cells)) / SNAP) * SNAP
    estimate[rng.random(estimate.shape) < 0.25] = 0.0
    estimate[0] += np.ceil(estimate.sum(axis=0)) - estimate.sum(axis=0)
    coarse = np.sort(rng.integers(0, 2, n_cells))
    middle = np.unique(coarse * 3 + np.sort(rng.integers(0, 3, n_cells)), return_inverse=True)[1]
    if not nested:
        middle = rng.integers(-1, 3, n_cells)
    detailed = np.arange(n_cells)
    total = np.zeros(n_cells, int)
    chain = (("coarse", coarse), ("middle", middle), ("detailed", detailed))
    stages = (
        (RoundingStage((("total", total),)), RoundingStage(chain)) if seed % 3 else (RoundingStage(chain),)
    )
    sums = np.stack([estimate[:, coarse == k].sum(axis=1) for k in range(2)], axis=1)
    lower = np.floor(sums).astype(int)
    upper = np.where(rng.random(sums.shape) < 0.5, np.ceil(sums).astype(int), UNBOUNDED)
    upper[(sums == 0) & (rng.random(sums.shape) < 0.5)] = 0
    rows = (
        LinearConstraint("facilities", coarse, lower, np.where(upper == 0, np.where(sums > 0, 1, 0), upper)),
    )
    problem = family(estimate.sum(axis=0).astype(int), n_children, stages, rows if seed % 2 else ())
    return problem, estimate * problem.allowed()


def deviation(problem, stage, counts, estimate):
    """The stage's objective, in plain numpy."""
    total = 0.0
    for _, labels in stage.labels:
        for k in range(labels.max() + 1):
            total += np.abs((counts - estimate)[:, labels == k].sum(axis=1)).sum()
    return total


def meets(problem, counts):
    sums_hold = problem.parent_counts is None or (counts.sum(axis=0) == problem.parent_counts).all()
    for rows in problem.constraints:
        for k in range(rows.lower.shape[1]):
            answer = counts[:, rows.labels == k].sum(axis=1)
            sums_hold = sums_hold and ((answer >= rows.lower[:, k]) & (answer <= rows.upper[:, k])).all()
    return sums_hold and not counts[~problem.allowed()].any()


def same_answers(stage, counts, other):
    return all(
        (counts[:, labels == k].sum(axis=1) == other[:, labels == k].sum(axis=1)).all()
        for _, labels in stage.labels
        for k in range(labels.max() + 1)
    )


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("seeds", few(1, [range(8), range(8, 25)]), ids=str)
def test_optimum_by_brute_force(nested, seeds):
    """Every stage reaches the least deviation among all roundings that keep the stages before it."""
    for seed in seeds:
        problem, estimate = random_case(seed, 3, 4, nested)
        rounded = round_counts(problem, problem.allowed(), estimate)
        floor = np.floor(estimate)
        candidates = [
            counts
            for bits in itertools.product((0, 1), repeat=estimate.size)
            if meets(problem, counts := floor + np.reshape(bits, floor.shape))
        ]
        for stage, outcome in zip(problem.rounding, rounded.outcome.stages, strict=True):
            best = min(deviation(problem, stage, counts, estimate) for counts in candidates)
            assert outcome.deviation == pytest.approx(best, abs=1e-9)
            assert deviation(problem, stage, rounded.counts, estimate) == pytest.approx(best, abs=1e-9)
            candidates = [counts for counts in candidates if same_answers(stage, counts, rounded.counts)]
        assert not rounded.outcome.widened


def integer_program(problem, stage, estimate, earlier, counts, lower, upper):
    """scipy's branch and bound on: least sum of d with d >= +-(Q x - Q estimate), over whole counts."""
    n_children, n_cells = estimate.shape
    n = estimate.size
    answers = [
        ((c, labels == k), estimate[c, labels == k].sum())
        for _, labels in stage.labels for k in range(labels.max() + 1) for c in range(n_children)
    ]  # fmt: skip

    def row(c, mask):
        full = np.zeros((n_children, n_cells))
        full[c, mask] = 1
        return full.reshape(-1)

    system, low, high = [], [], []

    def add(left, right, a, b):
        system.append(np.concatenate([left, right]))
        low.append(a)
        high.append(b)

    m = len(answers)
    for j, ((c, mask), target) in enumerate(answers):
        add(row(c, mask), np.eye(m)[j], target, np.inf)
        add(-row(c, mask), np.eye(m)[j], -target, np.inf)
    if problem.parent_counts is not None:
        for i in range(n_cells):
            add(row(slice(None), i), np.zeros(m), problem.parent_counts[i], problem.parent_counts[i])
    for rows in problem.constraints:
        for c, k in np.ndindex(rows.lower.shape):
            add(
                row(c, rows.labels == k),
                np.zeros(m),
                rows.lower[c, k],
                np.inf if rows.upper[c, k] == UNBOUNDED else rows.upper[c, k],
            )
    for one in earlier:
        for _, labels in one.labels:
            for k in range(labels.max() + 1):
                for c in range(n_children):
                    kept = counts[c, labels == k].sum()
                    add(row(c, labels == k), np.zeros(m), kept, kept)
    result = milp(
        np.concatenate([np.zeros(n), np.ones(m)]),
        constraints=Rows(np.array(system), low, high),
        integrality=np.concatenate([np.ones(n), np.zeros(m)]),
        bounds=Bounds(
            np.concatenate([lower.reshape(-1), np.zeros(m)]),
            np.concatenate([upper.reshape(-1), np.full(m, np.inf)]),
        ),
        options={"mip_rel_gap": 0.0, "presolve": False},
    )
    assert result.status == 0
    return result.fun


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("seeds", few(1, [range(100, 110), range(110, 130)]), ids=str)
def test_optimum_by_another_integer_program(nested, seeds):
    methods = set()
    for seed in seeds:
        problem, estimate = random_case(seed, 6, 9, nested)
        rounded = round_counts(problem, problem.allowed(), estimate)
        floor = np.floor(estimate)
        upper = floor + problem.allowed()
        for i, (stage, outcome) in enumerate(zip(problem.rounding, rounded.outcome.stages, strict=True)):
            best = integer_program(
                problem, stage, estimate, problem.rounding[:i], rounded.counts, floor, upper
            )
            assert outcome.deviation == pytest.approx(best, abs=1e-5)
            methods.add(outcome.method)
    if nested:
        assert methods == {RoundingMethod.NETWORK_FLOW}
    else:
        assert RoundingMethod.LINEAR_PROGRAM in methods


def test_crossed_queries_fall_back_to_branch_and_bound():
    """An odd cycle of three pairs: the linear program stops at one half."""
    pairs = [np.array([0, 0, -1]), np.array([-1, 0, 0]), np.array([0, -1, 0])]
    assert not laminar_forest(np.stack(pairs).astype(np.int32))[0]
    estimate = np.full((1, 3), 0.5)
    stage = RoundingStage(tuple((f"pair {i}", labels) for i, labels in enumerate(pairs)))
    rounded = round_counts(family(None, 1, (stage,)), np.ones((1, 3), bool), estimate)
    assert rounded.outcome.method is RoundingMethod.INTEGER_PROGRAM
    assert rounded.outcome.stages[0].deviation == pytest.approx(1.0)


def test_rounding_widens_only_when_it_must():
    """Two cells of estimate 1 must sum to 5: no neighbour does, so any whole number may serve."""
    total, detailed = np.zeros(2, int), np.arange(2)
    rows = (LinearConstraint("people", total, np.array([[5]]), np.array([[5]])),)
    stages = (RoundingStage((("total", total),)), RoundingStage((("detailed", detailed),)))
    rounded = round_counts(family(None, 1, stages, rows), np.ones((1, 2), bool), np.ones((1, 2)))
    assert rounded.outcome.widened
    assert rounded.counts.sum() == 5
    assert [stage.deviation for stage in rounded.outcome.stages] == [3.0, 3.0]


@pytest.mark.parametrize("seed", ten(range(12)))
def test_widened_optimum_by_another_integer_program(seed):
    rng = np.random.default_rng([8, seed])
    estimate = np.round(rng.exponential(1.5, (2, 5)) / SNAP) * SNAP
    labels = np.array([0, 0, 0, 1, 1])
    floor = np.stack([np.floor(estimate)[:, labels == k].sum(axis=1) for k in range(2)], axis=1).astype(int)
    exact = floor + np.array([[5, -1], [-1, 5]])
    exact = np.maximum(exact, 0)
    rows = (LinearConstraint("moved", labels, exact, exact),)
    stages = (RoundingStage((("pair", np.array([0, 0, 1, 1, 1])), ("detailed", np.arange(5)))),)
    counts = np.zeros(estimate.shape)
    problem = FamilyProblem(
        "p", "tract", ("a", "b"), np.arange(5), _split(exact, labels).sum(axis=0),
        (MeasuredQuery("detailed", np.arange(5), np.zeros((2, 5), int), 1.0),), rows,
        (EstimationPass(("detailed",)),), stages,
    )  # fmt: skip
    rounded = round_counts(problem, problem.allowed(), estimate)
    assert rounded.outcome.widened
    upper = np.where(problem.allowed(), 100.0, 0.0)
    best = integer_program(
        problem, stages[0], np.where(problem.allowed(), estimate, 0.0), (), counts, counts, upper
    )
    assert rounded.outcome.stages[0].deviation == pytest.approx(best, abs=1e-5)


def _split(exact, labels):
    """Whole counts with these sums by label."""
    counts = np.zeros((exact.shape[0], labels.size), int)
    for k in range(exact.shape[1]):
        counts[:, np.flatnonzero(labels == k)[0]] = exact[:, k]
    return counts


def test_no_whole_numbers_at_all():
    total = np.zeros(2, int)
    rows = (LinearConstraint("people", total, np.array([[5], [5]]), np.array([[5], [5]])),)
    problem = family(np.array([3, 3]), 2, (RoundingStage((("total", total),)),), rows)
    assert round_counts(problem, problem.allowed(), np.full((2, 2), 1.5)) is None


def test_snapping_forgets_the_last_bits():
    estimate = np.array([[2.0 + 3e-8, 3.0 - SNAP, 0.5, -1e-12, SNAP]])
    snapped = snap(estimate, np.ones((1, 5), bool))
    np.testing.assert_array_equal(snapped.floor, [2, 3, 0, 0, 0])
    np.testing.assert_array_equal(snapped.part, [0, 0, 2**19, 0, 0])
    problem, estimate = random_case(4, 4, 8, nested=True)
    first = round_counts(problem, problem.allowed(), estimate)
    second = round_counts(problem, problem.allowed(), estimate * (1 + 1e-13))
    np.testing.assert_array_equal(first.counts, second.counts)


def test_a_wrong_answer_of_the_solver_is_caught(monkeypatch):
    problem, estimate = random_case(6, 3, 5, nested=True)

    def wrong(program, where):
        answer = solve_integer(program, where)
        return type(answer)(answer.values * 0, answer.method)

    monkeypatch.setattr(rounding, "solve_integer", wrong)
    snapped = snap(estimate, problem.allowed())
    with pytest.raises(SolverError, match=r"geounit 'p'.*sums to the parent"):
        rounding.round_by_programs(problem, problem.allowed(), snapped, widened=False)


@pytest.mark.parametrize("seed", ten(range(40)))
def test_laminar_agrees_with_sets(seed):
    rng = np.random.default_rng(seed)
    labels = [rng.integers(-1, 3, 5).astype(np.int32) for _ in range(2 + seed % 2)]
    sets = [[set(np.flatnonzero(one == k)) for k in range(3)] for one in labels]
    expected = all(
        not (a & b) or a <= b or b <= a for p, q in itertools.combinations(sets, 2) for a in p for b in q
    )
    assert bool(laminar_forest(np.stack(labels))[0]) == expected
