"""Passes that keep earlier answers and leave cells undetermined: certified from the interior-point method's point."""

from dataclasses import replace

import numpy as np
import pytest
from tests.from_python import from_python
from tests.oracles.block_program import Point, residual_persons
from tests.oracles.reduction import reduce_pass

from tallyveil.estimation import least_squares as ladder
from tallyveil.estimation.least_squares import constraint_bounds, pass_arrays
from tallyveil.estimation.problem import (
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.compiled import all_compiled, compiled
from tallyveil.kernels.family.descent import equal_parts
from tallyveil.kernels.family.solver import PARTS, solve_program

equal_parts = from_python(equal_parts)

QUERIES = ("total", "rows", "columns", "blocks")
TOTAL_FIRST = (EstimationPass(("total",)), EstimationPass(("rows",)), EstimationPass(("columns", "blocks")))


def made_up(seed, n_children=4, shape=(10, 12)):
    """A table of which both margins and coarse blocks are measured, and no cell."""
    rng = np.random.default_rng([81, seed])
    n_cells = shape[0] * shape[1]
    row, column = np.divmod(np.arange(n_cells), shape[1])
    truth = rng.poisson(rng.exponential(4.0, n_cells), (n_children, n_cells))
    truth[0] += 1
    labels = (0 * row, row, column, 3 * (row // 3) + column // 5)
    measured = []
    for name, own in zip(QUERIES, labels, strict=True):
        answers = np.zeros((n_children, int(own.max()) + 1), np.int64)
        np.add.at(answers.T, own, truth.T)
        noise = np.rint(rng.normal(0, 6.0, answers.shape)).astype(np.int64)
        measured.append(MeasuredQuery(name, own.astype(np.int32), answers + noise, np.full(n_children, 36.0)))
    problem = FamilyProblem(
        geocode="p",
        geolevel="tract",
        children=tuple(f"c{c}" for c in range(n_children)),
        support=np.arange(n_cells),
        parent_counts=truth.sum(axis=0),
        measured=tuple(measured),
        constraints=(),
        passes=TOTAL_FIRST,
        rounding=(RoundingStage((("total", np.zeros(n_cells, np.int32)),)),),
    )
    return problem, truth


def bound(truth, groups):
    """Bounds on some cells' sums that truly hold: close ones, ones below alone, ones above alone, exact ones."""
    labels = (np.arange(truth.shape[1]) % 6).astype(np.int32) - 1
    sums = np.zeros((groups.max() + 1, 5), np.int64)
    for c, group in enumerate(groups):
        sums[group] += [truth[c, labels == k].sum() for k in range(5)]
    lower = np.maximum(sums - np.array([3, 1, 10**6, 0, 2]), 0)
    upper = sums + np.array([3, 10**6, 2, 0, 1])
    return LinearConstraint("bound", labels, lower, upper, groups)


def variant(kind, seed):
    problem, truth = made_up(seed)
    if kind == "slack":
        return replace(problem, passes=tuple(replace(one, slack=1.0) for one in TOTAL_FIRST))
    if kind == "bounds":
        return replace(problem, constraints=(bound(truth, np.arange(4)),))
    if kind == "groups":
        return replace(problem, constraints=(bound(truth, np.array([0, 1, 0, 2])),))
    if kind == "one pass":
        groups = np.array([0, 0, 1, 1])
        return replace(
            problem, constraints=(bound(truth, groups),), passes=(EstimationPass(QUERIES, slack=0.0),)
        )
    return problem


def last_pass(problem):
    """The children's cells, the pass and the bounds that the last pass has, after the compiled ones before it."""
    allowed, bounds = problem.allowed(), constraint_bounds(problem)
    for current in problem.passes[:-1]:
        estimate = ladder._solve(problem, allowed, current, bounds).estimate
        carried = ladder._carried(problem, current, estimate)
        allowed = ladder._narrow(allowed, carried)
        bounds = (*bounds, *(ladder._without_repeats(one, bounds) for one in carried))
    return problem, allowed, problem.passes[-1], bounds


@pytest.mark.parametrize("kind", ["equal", "slack", "bounds", "groups", "one pass"])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_found_in_the_first_round(kind, seed):
    arguments = last_pass(variant(kind, seed))
    program, _, _ = all_compiled(PARTS).reduce_arrays(pass_arrays(*arguments))
    assert program.ridge.any()
    state = equal_parts(program)
    found, rounds, sweeps, steps = compiled(solve_program)(program, state, all_compiled(PARTS))
    # without sweeps: the interior-point method found the start
    assert (rounds, sweeps) == (1, 0)
    assert steps <= 50
    # the conditions of optimality, measured in numpy, and by other code
    twin, _ = reduce_pass(*arguments)
    point = Point(state.x[twin.child, twin.cell], state.cell_price, state.row_price)
    assert max(found, residual_persons(twin, point)) <= 1e-7
