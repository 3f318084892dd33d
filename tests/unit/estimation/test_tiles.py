"""The tile problem's solver against other solvers, its proofs, and its counts on hostile shapes."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.tiles import least_deviation_reference, least_squares_reference
from tests.samples import few, ten
from tests.unit.estimation.tile_samples import problem_of, random_tiles

from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.estimation.problem import MeasuredQuery, TileProblem, TileStatus
from tallyveil.estimation.tiles import chunk_of_one, estimate_tiles
from tallyveil.kernels.tiles.chunk import solve_chunk
from tallyveil.kernels.tiles.family import TileChunk


def require_sums(problem, counts):
    """Every count is whole and not negative, and every sum is right."""
    assert counts.dtype == np.int64
    assert (counts >= 0).all()
    groups = np.zeros_like(problem.fixed)
    np.add.at(groups.T, problem.group, counts.T)
    assert np.array_equal(groups, problem.fixed)
    if problem.parent_counts is not None:
        assert np.array_equal(counts.sum(axis=0), problem.parent_counts)


@pytest.mark.parametrize("seed", few(4, range(24)))
def test_estimates_are_those_of_a_quadratic_program(seed):
    problem, _ = random_tiles(seed, root=seed % 6 == 5, uneven=seed % 3 == 1)
    solution = estimate_tiles(problem, backward_error_persons=1e-7)
    require_sums(problem, solution.counts)
    assert solution.status.certified
    assert solution.residual_persons <= 1e-7
    np.testing.assert_allclose(solution.estimate, least_squares_reference(problem), atol=1e-3)


def test_parents_without_people_have_children_without_people():
    rng = np.random.default_rng(3)
    for n_groups in (0, 2):
        truth, group = np.zeros((3, 0), np.int64), np.zeros(0, np.int32)
        problem = problem_of(rng, truth, group, n_groups, own=False)
        solution = estimate_tiles(problem)
        assert solution.counts.shape == (3, 0)
        assert solution.status is TileStatus.SETTLED


def test_the_own_query_need_not_be_measured():
    for seed in range(12):
        problem, _ = random_tiles(seed, own=False, uneven=seed % 2 == 1)
        solution = estimate_tiles(problem)
        require_sums(problem, solution.counts)
        assert solution.status.certified


def test_the_backward_error_is_that_of_the_measurements():
    """A loose estimate is as near the exact one as optima of measurements that differ by the residual must be."""
    largest = 0.0
    for seed in range(30):
        problem, _ = random_tiles(seed)
        loose = estimate_tiles(problem, backward_error_persons=20.0)
        exact = estimate_tiles(problem, backward_error_persons=1e-8)
        own = next(query for query in problem.measured if query.name == "own")
        moved = (own.weights[:, None] * (loose.estimate - exact.estimate) ** 2).sum()
        labels = sum((one.weights[:, None] * np.ones_like(one.values)).sum() for one in problem.measured)
        assert moved <= loose.residual_persons**2 * labels / 4 + 1e-9
        largest = max(largest, loose.residual_persons)
    assert largest > 0.01


@pytest.mark.parametrize("seed", ten(range(12)))
def test_roundings_deviate_least(seed):
    problem, _ = random_tiles(seed, root=seed % 4 == 3)
    solution = estimate_tiles(problem)
    for group in range(problem.n_groups):
        inside = np.flatnonzero(problem.group == group)
        if inside.size == 0:
            continue
        estimate, counts = solution.estimate[:, inside].T, solution.counts[:, inside].T
        chain = [labels[inside] for labels in problem.chain]
        columns = np.zeros(0, np.int64) if problem.parent_counts is None else problem.parent_counts[inside]
        least = least_deviation_reference(
            estimate, (columns, problem.fixed[:, group]), tuple(chain), problem.whole_weights
        )
        found = 0.0
        for labels, weight in zip(chain, problem.whole_weights, strict=True):
            gap = np.zeros((labels.max() + 1, counts.shape[1]))
            np.add.at(gap, labels, counts - estimate)
            found += weight * np.abs(gap).sum()
        assert found == pytest.approx(least, abs=1e-3)


@st.composite
def hostile_problems(draw):
    """Empty columns and groups, one child, one column, nobody at all, a thousand million persons, tiny variances."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    root = draw(st.booleans())
    n_children = 1 if root else draw(st.integers(1, 6))
    n_columns, n_groups = draw(st.integers(0, 12)), draw(st.integers(1, 5))
    scale = draw(st.sampled_from([0.0, 0.3, 3.0, 1e4, 1e9]))
    truth = rng.poisson(rng.exponential(scale, (n_children, n_columns)))
    truth[rng.random(n_children) < draw(st.sampled_from([0.0, 0.5]))] = 0
    truth[:, rng.random(n_columns) < draw(st.sampled_from([0.0, 0.5]))] = 0
    problem = problem_of(
        rng, truth, rng.integers(0, n_groups, n_columns), n_groups, root=root, own=draw(st.booleans())
    )
    factor = draw(st.sampled_from([1e-8, 1.0, 1e8]))
    measured = tuple(dataclasses.replace(one, variances=one.variances * factor) for one in problem.measured)
    return dataclasses.replace(problem, measured=measured[draw(st.integers(0, 1)) :])


@settings(max_examples=150)
@given(hostile_problems())
def test_sums_hold_whatever_the_problem(problem):
    solution = estimate_tiles(problem)
    require_sums(problem, solution.counts)
    assert (solution.estimate >= 0).all()


def test_many_small_tables_are_settled_by_projections():
    """Without labels each table is one projection; among these are tables whose active entries are not connected."""
    for seed, mean in enumerate((0.05, 0.3, 3.0, 300.0)):
        rng = np.random.default_rng([5, seed])
        truth = rng.poisson(rng.exponential(mean, (1, 500)) * rng.gamma(0.5, 2.0, (35, 1)))
        group, columns = np.repeat(np.arange(100), 5), np.arange(500)
        fixed = np.zeros((35, 100), np.int64)
        np.add.at(fixed.T, group, truth.T)
        own = MeasuredQuery("own", columns, np.rint(truth + rng.normal(0.0, 10.0, truth.shape)), 100.0)
        names = tuple(str(c) for c in range(35))
        problem = TileProblem(
            "p", "tract", names, columns, truth.sum(axis=0), group, fixed, (own,), (columns,), np.ones(1)
        )
        solution = estimate_tiles(problem)
        require_sums(problem, solution.counts)
        assert solution.status is TileStatus.CERTIFIED
        assert solution.sum_gap_persons <= 1e-8
        assert solution.effort.wide_flows == 0


@pytest.mark.nightly
def test_a_wide_parent_needs_no_square_matrix():
    """2,440 children and a group of 330 columns: the equations of a table are solved by conjugate gradients."""
    rng = np.random.default_rng(7)
    truth = rng.poisson(rng.exponential(0.05, (2440, 330)))
    problem = problem_of(rng, truth, np.zeros(330, int), 1)
    solution = estimate_tiles(problem)
    require_sums(problem, solution.counts)
    assert solution.status.certified


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_billions_are_right_to_their_rounding_errors(seed):
    """No price makes them right to 1e-9: one rounding error of a price moves a sum by far more."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(rng.gamma(0.3, 1e8, (8, 120)))
    columns = np.arange(120)
    measured = []
    for name, labels, variance in (
        ("sevens", columns % 7, 1.0),
        ("fives", columns % 5, 1.0),
        ("own", columns, 4.0),
    ):
        sums = np.zeros((labels.max() + 1, 8))
        np.add.at(sums, labels, truth.T.astype(float))
        noise = np.rint(rng.normal(0.0, variance**0.5, sums.shape))
        measured.append(MeasuredQuery(name, labels.astype(np.int32), (sums + noise).T, variance))
    problem = TileProblem(
        "parent",
        "county",
        tuple("abcdefgh"),
        columns,
        truth.sum(axis=0),
        np.zeros(120, np.int32),
        truth.sum(axis=1)[:, None],
        tuple(measured),
        (columns.astype(np.int32),),
        np.ones(1),
    )
    solution = estimate_tiles(problem)
    require_sums(problem, solution.counts)
    assert solution.status is TileStatus.CERTIFIED
    assert 1e-9 < solution.sum_gap_persons <= 120 * 2.0**-52 * 2 * truth.sum()


def test_a_family_does_not_depend_on_its_chunk():
    problems = [random_tiles(seed, uneven=seed % 2 == 0)[0] for seed in range(20, 26)]
    ones = [solve_chunk(chunk_of_one(one), 0.1) for one in problems]
    chunk = chunk_of_many(problems)
    for array in chunk:
        array.setflags(write=False)
    together = solve_chunk(chunk._replace(offsets=chunk.offsets.astype(np.int32)), 0.1)
    for field in ("ended", "gaps", "effort", "columns", "counts"):
        expected = np.concatenate([getattr(one, field) for one in ones])
        assert np.array_equal(getattr(together, field), expected), field
    assert np.array_equal(np.diff(together.offsets), np.concatenate([np.diff(one.offsets) for one in ones]))


def chunk_of_many(problems):
    """Families of the same queries and chain lengths as one chunk."""
    ones = [chunk_of_one(problem) for problem in problems]
    sizes = np.stack([np.diff(one.value_begin, axis=1)[:, 0] for one in ones], axis=1)
    begin = np.zeros((sizes.shape[0], len(ones) + 1), np.int64)
    ends = np.cumsum(sizes.reshape(-1)).reshape(sizes.shape)
    begin[:, 0], begin[:, 1:] = ends[:, 0] - sizes[:, 0], ends
    values = np.concatenate(
        [one.values[one.value_begin[q, 0] : one.value_begin[q, 1]] for q in range(len(begin)) for one in ones]
    )
    together = {
        field: np.concatenate([getattr(one, field) for one in ones], axis=-1)
        for field in ("counts", "group", "fixed", "labels", "widths", "weights", "chain")
    }
    total = {
        field: np.concatenate([[0], np.cumsum([getattr(one, field)[1] for one in ones])])
        for field in ("offsets", "child_begin", "fixed_begin")
    }
    return TileChunk(**together, **total, value_begin=begin, values=values, chain_weight=ones[0].chain_weight)


def test_a_family_whose_sums_contradict_is_named():
    problem, _ = random_tiles(3)
    fixed = problem.fixed.copy()
    fixed[0, problem.group[0]] += 1
    with pytest.raises(ConstraintError, match="geounit 'p'"):
        dataclasses.replace(problem, fixed=fixed)
    chunk = chunk_of_one(problem)._replace(fixed=fixed.reshape(-1))
    assert solve_chunk(chunk, 0.1).ended[0] == -2


def test_shapes_that_do_not_fit_are_refused():
    problem, _ = random_tiles(3)
    crossing = np.arange(problem.n_columns) % 2
    for wrong in (
        {"group": problem.group[:-1]},
        {"fixed": problem.fixed[:-1]},
        {"children": ()},
        {"chain_weights": np.array([1.0])},
        {"chain_weights": np.array([1.0, 0.0])},
        {"chain": (crossing, np.arange(problem.n_columns))},
        {"measured": (*problem.measured, problem.measured[0])},
        {"columns": problem.columns.astype(float)},
        {"parent_counts": None},
    ):
        with pytest.raises(SchemaError):
            dataclasses.replace(problem, **wrong)


def test_nothing_to_estimate_is_settled():
    labels = np.array([0, 1])
    problem = TileProblem(
        "p", "tract", ("a", "b"), labels, np.array([3, 4]), labels, np.array([[1, 4], [2, 0]]),
        (MeasuredQuery("own", labels, np.zeros((2, 2)), 1.0),), (), np.zeros(0),
    )  # fmt: skip
    solution = estimate_tiles(problem)
    assert solution.status is TileStatus.SETTLED
    assert solution.counts.tolist() == [[1, 4], [2, 0]]
    assert all(status.remedy for status in TileStatus)
