"""Whole families: shortcuts, statuses, failures."""

import numpy as np
import pytest

from tallyveil.errors import ConstraintError, SolverError
from tallyveil.estimation import least_squares
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.least_squares import solve_interior
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimateStatus,
    EstimationPass,
    LinearConstraint,
    MeasuredQuery,
    RoundingMethod,
    RoundingStage,
)
from tallyveil.kernels.family.solver import solve_pass


def total_bounds(lower, upper, name="people", n_cells=4):
    return LinearConstraint(
        name, np.zeros(n_cells, np.int32), np.array(lower)[:, None], np.array(upper)[:, None]
    )


ROOT = {"parent_counts": None}


def test_counts_sum_to_the_parent(make_family):
    for seed in range(20):
        problem = make_family(seed=seed)
        solution = estimate_family(problem)
        np.testing.assert_array_equal(solution.counts.sum(axis=0), problem.parent_counts)
        assert solution.counts.min() >= 0
        assert solution.status is EstimateStatus.CERTIFIED
        assert solution.residual_persons <= 1e-7
        assert np.abs(solution.counts - solution.estimate).max() < 1
        assert not solution.counts.flags.writeable
        assert [stage.queries for stage in solution.rounding.stages] == [("total",), ("detailed",)]


def test_known_answer(make_family):
    """Two children, one cell, parent 10: noisy answers 8 and 4 give 7 and 3 by symmetry."""
    measured = (MeasuredQuery("detailed", np.zeros(1, np.int32), np.array([[8], [4]]), 2.0),)
    stage = RoundingStage((("detailed", np.zeros(1, np.int32)),))
    solution = estimate_family(
        make_family((10,), 2, measured=measured, passes=(EstimationPass(("detailed",)),), rounding=(stage,))
    )
    np.testing.assert_array_equal(solution.counts, [[7], [3]])
    assert solution.objective == pytest.approx((1 + 1) / 2)


def test_an_only_child_is_its_parent(make_family):
    problem = make_family(n_children=1)
    solution = estimate_family(problem)
    np.testing.assert_array_equal(solution.counts[0], problem.parent_counts)
    assert solution.status is EstimateStatus.COPIED
    assert solution.rounding.method is RoundingMethod.FIXED
    with pytest.raises(ConstraintError, match=r"break 'people'"):
        estimate_family(make_family(n_children=1, constraints=(total_bounds([0], [2]),)))


def test_an_empty_parent_has_empty_children(make_family):
    solution = estimate_family(make_family((0, 0)))
    assert solution.status is EstimateStatus.EMPTY
    assert not solution.counts.any()
    with pytest.raises(ConstraintError, match=r"geounit 'parent-p'.*'people'"):
        estimate_family(make_family((0, 0), constraints=(total_bounds([0, 1, 0], [9] * 3, n_cells=2),)))


def test_a_root_has_no_sums_but_keeps_its_total(make_family):
    rows = total_bounds([50], [50])
    solution = estimate_family(make_family(n_children=1, constraints=(rows,), **ROOT))
    assert solution.status is EstimateStatus.CERTIFIED
    assert solution.counts.sum() == 50


def test_unmeasured_cells_follow_the_parents_proportions(make_family):
    measured = (MeasuredQuery("total", np.zeros(3, np.int32), np.array([[60], [30]]), 1.0),)
    stage = RoundingStage((("total", np.zeros(3, np.int32)),))
    problem = make_family(
        (60, 20, 10), 2, measured=measured, passes=(EstimationPass(("total",)),), rounding=(stage,)
    )
    np.testing.assert_allclose(
        estimate_family(problem).estimate, [[40, 40 / 3, 20 / 3], [20, 20 / 3, 10 / 3]]
    )


def test_undetermined_cells_get_a_ridge_and_a_unique_answer(make_family):
    """Two margins of a two by two table: the ridge chooses the table nearest the parent's proportions."""
    row, column = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    measured = (
        MeasuredQuery("row", row, np.array([[50, 50], [50, 50]]), 1.0),
        MeasuredQuery("column", column, np.array([[50, 50], [50, 50]]), 1.0),
    )
    stage = RoundingStage((("row", row),))
    passes = (EstimationPass(("row", "column")),)
    problem = make_family((50, 50, 50, 50), 2, measured=measured, passes=passes, rounding=(stage,))
    np.testing.assert_allclose(estimate_family(problem).estimate, np.full((2, 4), 25.0), atol=1e-9)


@pytest.mark.parametrize(("slack", "moved"), [(0.0, 0.0), (0.25, 0.25)])
def test_later_passes_stay_within_the_slack(make_family, slack, moved):
    """The total pass gives 6 and 4; the detailed measurements pull hard to 10 and 0."""
    labels = np.zeros(2, np.int32)
    measured = (
        MeasuredQuery("total", labels, np.array([[6], [4]]), 1.0),
        MeasuredQuery("detailed", np.array([0, 1]), np.array([[5, 5], [0, 0]]), 1.0),
    )
    passes = (EstimationPass(("total",), slack), EstimationPass(("detailed",)))
    stage = RoundingStage((("total", labels),))
    problem = make_family((5, 5), 2, measured=measured, passes=passes, rounding=(stage,))
    estimate = estimate_family(problem).estimate
    np.testing.assert_allclose(estimate.sum(axis=1), [6 + moved, 4 - moved], atol=1e-7)


def test_an_uncertified_answer_carries_its_status_or_fails(make_family, monkeypatch):
    compiled = estimate_family(make_family())

    def no_face(arrays, near):
        estimate, _ = solve_interior(arrays, near)
        return estimate, 1e-5

    def no_rounds(arrays):
        return solve_pass(arrays)._replace(residual=np.inf)

    monkeypatch.setattr(least_squares, "solve_pass", no_rounds)
    by_interior_point = estimate_family(make_family())
    assert by_interior_point.status is EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT
    np.testing.assert_allclose(by_interior_point.estimate, compiled.estimate, atol=1e-9)
    monkeypatch.setattr(least_squares, "solve_interior", no_face)
    solution = estimate_family(make_family())
    assert solution.status is EstimateStatus.INTERIOR_POINT
    assert not solution.status.certified
    assert solution.residual_persons == pytest.approx(1e-5)
    assert "not certified" in solution.status.remedy
    with pytest.raises(SolverError, match=r"geolevel 'tract', geounit 'parent-p'.*1e-05.*at most 1e-06"):
        estimate_family(make_family(), limit_persons=1e-6)


def test_more_sweeps_are_a_status_of_their_own(make_family, monkeypatch):
    monkeypatch.setattr(least_squares, "solve_pass", lambda arrays: solve_pass(arrays)._replace(rounds=2))
    solution = estimate_family(make_family())
    assert solution.status is EstimateStatus.CERTIFIED_BY_MORE_SWEEPS
    assert solution.status.certified


def test_contradictory_constraints_are_named_without_a_count(make_family):
    rows = total_bounds([7919, 0, 6997], [UNBOUNDED] * 3, "facilities")
    spare = total_bounds([0, 1, 0], [UNBOUNDED] * 3, "spare")
    with pytest.raises(ConstraintError) as caught:
        estimate_family(make_family((600, 400, 0, 300), constraints=(rows, spare)))
    message = str(caught.value)
    for expected in (
        "geounit 'parent-p'",
        "geolevel 'tract'",
        "'facilities'",
        "'child-a'",
        "'child-c'",
        "parent's",
    ):
        assert expected in message
    assert not any(character.isdigit() for character in message)


def test_a_cell_that_no_child_may_have_is_a_conflict(make_family):
    rows = LinearConstraint("none", np.array([0, -1, -1, -1]), np.zeros((3, 1), int), np.zeros((3, 1), int))
    with pytest.raises(ConstraintError, match="'none' of children 'child-a', 'child-b', 'child-c'"):
        estimate_family(make_family(constraints=(rows,)))


def test_no_whole_numbers_though_real_ones_exist(make_family):
    """Three pairs of three cells, each pair sums to 1 in the only child of a root: 1/2 each."""
    pairs = [([0, 0, -1], "ab"), ([-1, 0, 0], "bc"), ([0, -1, 0], "ac")]
    one = np.ones((1, 1), int)
    rows = tuple(LinearConstraint(name, np.array(labels), one, one) for labels, name in pairs)
    measured = (MeasuredQuery("detailed", np.arange(3), np.array([[1, 1, 1]]), 1.0),)
    stage = RoundingStage((("detailed", np.arange(3)),))
    problem = make_family(
        n_children=1,
        **ROOT | {"support": np.arange(3), "measured": measured, "rounding": (stage,)},
        passes=(EstimationPass(("detailed",)),),
        constraints=rows,
    )
    with pytest.raises(ConstraintError, match="no whole numbers do: 'ab', 'bc', 'ac'"):
        estimate_family(problem)


def test_every_status_says_what_to_do():
    for status in (*EstimateStatus, *RoundingMethod):
        assert len(status.remedy) > 20
