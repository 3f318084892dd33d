"""The tile problem's solver against another solver, and its counts on hostile shapes."""

import numpy as np
import pytest
from tests.unit.estimation.tile_samples import problem_of, random_tiles

from tallyveil.estimation.tile_reference import least_squares_reference
from tallyveil.estimation.tiles import TileStatus, estimate_tiles


def require_sums(problem, counts):
    """Every count is whole and not negative, and every sum is right."""
    assert counts.dtype == np.int64
    assert (counts >= 0).all()
    groups = np.zeros_like(problem.fixed)
    np.add.at(groups.T, problem.group, counts.T)
    assert np.array_equal(groups, problem.fixed)
    if problem.parent_counts is not None:
        assert np.array_equal(counts.sum(axis=0), problem.parent_counts)


@pytest.mark.parametrize("seed", range(24))
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
    for seed in range(8):
        problem, _ = random_tiles(seed, own=False)
        solution = estimate_tiles(problem)
        require_sums(problem, solution.counts)
