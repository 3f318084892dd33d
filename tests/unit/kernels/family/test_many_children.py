"""Families with more children than cells and many rows: a quick walk, which the conditions of optimality check."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.from_python import from_python
from tests.oracles.block_program import Point as ReferencePoint
from tests.oracles.block_program import residual_persons
from tests.oracles.reduction import reduce_pass

from tallyveil.estimation.least_squares import constraint_bounds, pass_arrays
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.compiled import all_compiled, compiled
from tallyveil.kernels.family.descent import equal_parts
from tallyveil.kernels.family.face import DENSE_ROWS
from tallyveil.kernels.family.polish import CERTIFIED_PERSONS
from tallyveil.kernels.family.program import DENSE_CELLS
from tallyveil.kernels.family.solver import FULL_SWAPS, PARTS, QUICK_SWAPS, SINGLE_SWAPS, solve_program

equal_parts = from_python(equal_parts)

WAYS = ("exact", "close", "upper", "lower", "loose", "forbidden")


def many_children(seed, n_children, n_cells, ways, alike=True):
    """A family whose true counts meet all bounds. Each of the ways is a bound on sums of cells of every child."""
    rng = np.random.default_rng([61, seed])
    truth = rng.poisson(rng.choice([0.2, 2.0, 20.0], (n_children, 1)), (n_children, n_cells))
    truth[rng.integers(n_children, size=n_cells), np.arange(n_cells)] += 1
    labels = [np.zeros(n_cells, np.int32), rng.integers(0, 4, n_cells).astype(np.int32)]
    labels.append(np.arange(n_cells, dtype=np.int32))
    measured = []
    for q, own in enumerate(labels):
        answers = sums_of(truth, own)
        variance = float(rng.choice([1.0, 9.0, 80.0])) * np.ones(n_children)
        if not alike:
            variance[rng.random(n_children) < 0.1] *= 0.1
        noise = np.rint(rng.normal(0.0, np.sqrt(variance)[:, None], answers.shape)).astype(np.int64)
        measured.append(MeasuredQuery(f"query {q}", own, answers + noise, variance))
    bounds = []
    for number, way in enumerate(ways):
        own = labels[0] if number == 0 else rng.integers(-1, 3, n_cells).astype(np.int32)
        sums = sums_of(truth, own)
        lower, upper = np.zeros_like(sums), np.full_like(sums, UNBOUNDED)
        if way in ("exact", "close", "lower"):
            lower = sums if way == "exact" else np.maximum(sums - 1, 0)
        if way in ("exact", "close", "upper"):
            upper = sums if way == "exact" else sums + 1
        if way == "loose":
            lower, upper = np.maximum(sums - 50, 0), sums + 50
        if way == "forbidden":
            upper = np.where((sums == 0) & (rng.random(sums.shape) < 0.8), 0, UNBOUNDED)
        bounds.append(LinearConstraint(f"{way} {number}", own, lower, upper))
    return FamilyProblem(
        geocode="p",
        geolevel="tract",
        children=tuple(f"c{c}" for c in range(n_children)),
        support=np.arange(n_cells),
        parent_counts=truth.sum(axis=0),
        measured=tuple(measured),
        constraints=tuple(bounds),
        passes=(EstimationPass(tuple(one.name for one in measured)),),
        rounding=(RoundingStage((("total", np.zeros(n_cells, np.int32)),)),),
    )


def sums_of(truth, labels):
    return np.stack([truth[:, labels == k].sum(axis=1) for k in range(labels.max() + 1)], axis=1)


def solved(problem):
    """The program with its twin, the point, and what `solve_program` returns."""
    arguments = problem, problem.allowed(), problem.passes[0], constraint_bounds(problem)
    program, _, _ = all_compiled(PARTS).reduce_arrays(pass_arrays(*arguments))
    point = equal_parts(program)
    answer = compiled(solve_program)(program, point, all_compiled(PARTS))
    return program, reduce_pass(*arguments)[0], point, answer


def check(problem):
    """Check the residual in numpy; returns whether the quick walk was tried, the rounds, and the steps made."""
    program, twin, point, (found, rounds, _, steps) = solved(problem)
    assert found <= CERTIFIED_PERSONS
    reference = ReferencePoint(point.x[twin.child, twin.cell], point.cell_price, point.row_price)
    assert residual_persons(twin, reference) == pytest.approx(found, abs=1e-9)
    n_children, n_cells = program.allowed.shape
    return n_children > n_cells and program.row_group.size > DENSE_ROWS, rounds, steps


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("alike", [True, False])
def test_a_quick_walk_ends_at_the_optimum(way, alike):
    quick, rounds, steps = check(many_children(1, 300, 12, ("close", way), alike))
    assert quick
    assert rounds == 1
    assert steps <= FULL_SWAPS + QUICK_SWAPS


@settings(max_examples=12)
@example(99_999, 121, 12, ["exact", "exact"], True)  # takes two rounds
@example(2_946, 90, 22, ["exact", "close"], False)  # takes three
@given(
    st.integers(0, 10**6),
    st.integers(90, 140),
    st.integers(2, 30),
    st.lists(st.sampled_from(WAYS), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_family_of_many_children_is_certified(seed, n_children, n_cells, ways, alike):
    """The quick walk may fail, and seldom the usual one after it: then later rounds with longer walks must end it."""
    _, rounds, steps = check(many_children(seed, n_children, n_cells, tuple(ways), alike))
    usual_walks = sum(FULL_SWAPS + (SINGLE_SWAPS << attempt) for attempt in range(rounds))
    assert steps <= FULL_SWAPS + QUICK_SWAPS + usual_walks


@pytest.mark.parametrize("few", [False, True])
def test_the_descent_does_not_depend_on_what_is_held(few):
    """Without H, slopes are found for all children or, where few may have a cell, for these alone."""
    problem = many_children(3, 120, 12, ("close", "exact"))
    program, _, _ = all_compiled(PARTS).reduce_arrays(
        pass_arrays(problem, problem.allowed(), problem.passes[0], constraint_bounds(problem))
    )
    assert program.sums.size <= DENSE_CELLS
    if few:
        allowed = np.arange(120)[:, None] % 12 == np.arange(program.sums.size)
        program = program._replace(allowed=allowed | (np.arange(120) < 2)[:, None])
    without = program._replace(hessian=np.zeros((0, 0, 0)))
    held, sums = equal_parts(program), equal_parts(without)
    made = all_compiled(PARTS).descend(program, held, 0.1 * program.row_stiffness, 6, 0.0)
    assert all_compiled(PARTS).descend(without, sums, 0.1 * program.row_stiffness, 6, 0.0) == made
    np.testing.assert_allclose(sums.x, held.x, atol=1e-9)
    np.testing.assert_allclose(sums.x.sum(axis=0), program.sums, rtol=1e-12)
