"""The rounding by one flow against linear and integer programs of the same families."""

import numpy as np
import pytest
from tests.samples import few

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
from tallyveil.estimation.rounding import (
    Fixing,
    FlowFailure,
    aimed,
    round_by_programs,
    round_counts,
    snap,
    solve_flow,
    stage_program,
)
from tallyveil.kernels.rounding.flow import UNPROVED, round_by_flow
from tallyveil.kernels.rounding.network_simplex import ONE


def release_like(seed):
    """A family as a redistricting release makes them: four attributes' worth of nested queries, facility bounds."""
    rng = np.random.default_rng([61, seed])
    n_children, n_cells = int(rng.integers(2, 16)), int(rng.integers(3, 40))
    kind = np.sort(rng.choice(4, n_cells, p=[0.7, 0.1, 0.1, 0.1]))
    origin = kind * 2 + rng.integers(0, 2, n_cells)
    race = origin * 5 + rng.integers(0, 5, n_cells)
    chain = [np.unique(one, return_inverse=True)[1] for one in (np.zeros(n_cells, int), kind, origin, race)]
    chain.append(np.arange(n_cells))
    named = tuple(zip(("total", "kind", "origin", "race", "detailed"), chain, strict=True))
    target = "nearest" if seed % 3 == 0 else "fraction"
    stages = (
        (RoundingStage(named[:1], target), RoundingStage(named[1:], target))
        if seed % 2
        else (RoundingStage(named, target),)
    )
    estimate = np.round(rng.exponential(0.8, (n_children, n_cells)) * ONE) / ONE
    estimate[rng.random(estimate.shape) < 0.6] = 0.0
    kinds = int(chain[1].max()) + 1
    has = rng.random((n_children, kinds)) < 0.6
    has[0] = True
    estimate *= has[:, chain[1]]
    estimate[0] += np.ceil(estimate.sum(axis=0)) - estimate.sum(axis=0)
    sums = np.stack([estimate[:, chain[1] == k].sum(axis=1) for k in range(kinds)], axis=1)
    lower = np.where(rng.random(sums.shape) < 0.5, np.floor(sums), 0).astype(int)
    bounds = LinearConstraint("facilities", chain[1], lower, np.where(has, UNBOUNDED, 0))
    return family(estimate.sum(axis=0).astype(int), n_children, stages, (bounds,)), estimate


def family(parent_counts, n_children, stages, constraints=()):
    n_cells = stages[0].labels[0][1].size
    measured = (MeasuredQuery("detailed", np.arange(n_cells), np.zeros((n_children, n_cells), int), 1.0),)
    return FamilyProblem(
        "p", "tract", tuple(f"c{c}" for c in range(n_children)), np.arange(n_cells), parent_counts,
        measured, constraints, (EstimationPass(("detailed",)),), stages,
    )  # fmt: skip


def answers(labels, counts):
    return np.stack([counts[:, labels == k].sum(axis=1) for k in range(labels.max() + 1)], axis=1)


def held_optimum(problem, snapped, stage, fixings):
    """The stage's least deviation in units, by a program that holds the answers of earlier stages."""
    program, columns, start = stage_program(problem, snapped, stage, fixings, widened=False)
    values = start.copy()
    if columns.size:
        values[columns] = solve_integer(program, "here").values[: columns.size]
    shape = (problem.n_children, problem.n_cells)
    up, part = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    up[snapped.child, snapped.cell], part[snapped.child, snapped.cell] = values, snapped.part
    return sum(
        int(np.abs(answers(labels, up) * ONE - aimed(answers(labels, part), stage.target)).sum())
        for _, labels in stage.labels
    )


@pytest.mark.parametrize("seeds", few(1, [range(40), range(40, 200)]), ids=str)
def test_every_stage_is_as_good_as_the_programs(seeds):
    """The same deviation, to the last unit of 2^-20, given the flow's own earlier answers."""
    for seed in seeds:
        problem, estimate = release_like(seed)
        snapped = snap(estimate, problem.allowed())
        rounded = round_counts(problem, problem.allowed(), estimate)
        assert not rounded.outcome.widened
        fixings = []
        for stage, outcome in zip(problem.rounding, rounded.outcome.stages, strict=True):
            assert outcome.method in {RoundingMethod.NETWORK_FLOW, RoundingMethod.FIXED}
            assert round(outcome.deviation * ONE) == held_optimum(problem, snapped, stage, fixings)
            fixings += [Fixing(labels, answers(labels, rounded.counts)) for _, labels in stage.labels]
        programs = round_by_programs(problem, problem.allowed(), snapped, widened=False)
        # Lexicographic: the programs hold the first of several best answers, the flow looks among all of them.
        ours, theirs = ([one.deviation for one in x.outcome.stages] for x in (rounded, programs))
        assert ours[0] == theirs[0]
        assert ours <= theirs


def test_both_targets_by_hand():
    """Cells of 0.4 and 0.4, nothing to add up to: their sum 0.8 is rounded to 1, or each cell to 0."""
    total, cells = np.zeros(2, int), np.arange(2)
    estimate = np.array([[0.4, 0.4]])
    for target, expected in (("fraction", 1.0), ("nearest", 1.0)):
        stages = (RoundingStage((("total", total),), target), RoundingStage((("cells", cells),), target))
        rounded = round_counts(family(None, 1, stages), np.ones((1, 2), bool), estimate)
        assert rounded.counts.sum() == expected
    fraction, nearest = (
        round_counts(
            family(None, 1, (RoundingStage((("total", total), ("cells", cells)), target),)),
            np.ones((1, 2), bool),
            np.array([[0.45, 0.3]]),
        )
        for target in ("fraction", "nearest")
    )
    # one up: 0.25 + 0.55 + 0.3 = 1.1 against 0.75 + 0.45 + 0.3 = 1.5; nearest: total 1, cells 0 and 0: a tie at 1
    assert fraction.counts.tolist() == [[1, 0]]
    assert fraction.outcome.stages[0].deviation == pytest.approx(1.1, abs=1e-5)
    assert nearest.outcome.stages[0].deviation == 1.0


@pytest.mark.parametrize("target", ["fraction", "nearest"])
def test_targets_agree_between_flow_and_programs_when_widened_or_crossed(target):
    """The programs know the targets too: crossed queries, brute force over all roundings."""
    rng = np.random.default_rng(62)
    for _ in range(20):
        estimate = np.round(rng.exponential(1, (2, 4)) * ONE) / ONE
        estimate[0] += np.ceil(estimate.sum(axis=0)) - estimate.sum(axis=0)
        queries = (("a", np.array([0, 0, 1, 1])), ("b", np.array([0, 1, 1, 0])), ("c", np.arange(4)))
        stage = RoundingStage(queries, target)
        problem = family(estimate.sum(axis=0).astype(int), 2, (stage,))
        rounded = round_counts(problem, problem.allowed(), estimate)
        assert rounded.outcome.method is not RoundingMethod.NETWORK_FLOW
        units = np.rint(estimate * ONE).astype(np.int64)
        best = min(
            sum(
                np.abs(answers(labels, up) * ONE - aimed(answers(labels, units % ONE), target)).sum()
                for _, labels in queries
            )
            for code in range(2**8)
            if ((up := (code >> np.arange(8).reshape(2, 4)) & 1) + units // ONE).sum(axis=0).tolist()
            == problem.parent_counts.tolist()
        )
        assert round(rounded.outcome.stages[0].deviation * ONE) == best


def test_what_is_no_flow_is_left_to_the_programs():
    estimate = np.full((1, 3), 0.5)
    pairs = tuple((f"{i}", np.roll(np.array([0, 0, -1]), i)) for i in range(3))
    problem = family(None, 1, (RoundingStage(pairs),))
    assert solve_flow(problem, snap(estimate, problem.allowed())) is FlowFailure.NOT_APPLICABLE
    total = np.zeros(3, int)
    asked = LinearConstraint("people", total, np.array([[9]]), np.array([[9]]))
    problem = family(None, 1, (RoundingStage((("total", total),)),), (asked,))
    assert solve_flow(problem, snap(estimate, problem.allowed())) is FlowFailure.INFEASIBLE
    rounded = round_counts(problem, problem.allowed(), estimate)
    assert rounded.outcome.widened
    assert rounded.counts.sum() == 9


def test_the_same_family_is_always_rounded_the_same_way():
    for seed in range(20):
        problem, estimate = release_like(seed)
        first = round_counts(problem, problem.allowed(), estimate)
        again = round_counts(problem, problem.allowed(), estimate * (1 + 1e-13))
        np.testing.assert_array_equal(first.counts, again.counts)


@pytest.mark.parametrize(("broken", "said"), [("up", "the check of its sums"), ("status", "its proof")])
def test_a_wrong_flow_is_caught(monkeypatch, broken, said):
    problem, estimate = release_like(3)

    def wrong(*arrays):
        status, up = round_by_flow(*arrays)
        return (UNPROVED, up) if broken == "status" else (status, 1 - up)

    monkeypatch.setattr(rounding, "round_by_flow", wrong)
    with pytest.raises(SolverError, match=said):
        round_counts(problem, problem.allowed(), estimate)
