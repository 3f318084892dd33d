"""Families refuse what does not fit together."""

import dataclasses

import numpy as np
import pytest

from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)


def query(labels, values, variance=1.0):
    return MeasuredQuery("sex", np.array(labels), np.array(values), variance)


def test_arrays_are_read_only_and_do_not_follow_the_callers(make_family):
    values = np.zeros((3, 1), dtype=np.int64)
    measured = MeasuredQuery("total", np.zeros(4, np.int32), values, 1.0)
    values[0, 0] = 7
    assert measured.values[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        make_family().parent_counts[0] = 1


@pytest.mark.parametrize(
    ("labels", "values", "variance", "message"),
    [
        ([0, 2], [[1, 2]], 1.0, r"labels must lie in -1\.\.1, got 0\.\.2"),
        ([-2, 0], [[1, 2]], 1.0, "labels must lie in"),
        ([0, 1], [1, 2], 1.0, "of 2 dimensions"),
        ([0, 1], [[np.nan, 2.0]], 1.0, "finite numbers alone"),
        ([0, 1], [[1, 2]], 0.0, "positive number, or infinite, got 0.0"),
        ([0, 1], [[1, 2]], float("nan"), "positive number, or infinite, got nan"),
        ([0, 1], [[1, 2]], [1.0, 2.0], r"variances of shape \(2,\), want one for each of 1 children"),
        ([2**40, 1], [[1, 2]], 1.0, "does not fit int32"),
    ],
)
def test_measured_query_refuses(labels, values, variance, message):
    with pytest.raises(SchemaError, match=message):
        query(labels, values, variance)


def test_one_variance_stands_for_all_children():
    values = np.zeros((3, 1), np.int64)
    np.testing.assert_array_equal(query([0, 0], values, 4.0).variances, [4.0, 4.0, 4.0])
    each = query([0, 0], values, [4.0, np.inf, 0.5])
    np.testing.assert_array_equal(each.weights, [0.25, 0.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        each.variances[0] = 1.0


def test_family_refuses_wrong_shapes(make_family):
    with pytest.raises(SchemaError, match="want one for each of 4 support cells"):
        make_family(measured=(query([0, 0], [[1]] * 3),), passes=(EstimationPass(("sex",)),))
    with pytest.raises(SchemaError, match="want one for each of 3 children"):
        make_family(measured=(query([0] * 4, [[1]] * 2),), passes=(EstimationPass(("sex",)),))
    with pytest.raises(SchemaError, match="a root is its own only child, got 3"):
        dataclasses.replace(make_family(), parent_counts=None)
    with pytest.raises(SchemaError, match="parent_counts and support differ"):
        dataclasses.replace(make_family(), parent_counts=np.array([1]))
    with pytest.raises(SchemaError, match="negative"):
        dataclasses.replace(make_family(), parent_counts=np.array([1, -1, 0, 0]))
    with pytest.raises(SchemaError, match="one label a support cell"):
        make_family(rounding=(RoundingStage((("total", np.zeros(2, np.int32)),)),))
    with pytest.raises(SchemaError, match="at least one child"):
        make_family(children=())


def test_passes_use_exactly_the_measured_queries(make_family):
    with pytest.raises(SchemaError, match=r"in no pass: \['detailed'\]"):
        make_family(passes=(EstimationPass(("total",)),))
    with pytest.raises(SchemaError, match=r"not measured: \['age'\]"):
        make_family(passes=(EstimationPass(("total", "detailed", "age")),))
    with pytest.raises(SchemaError, match="slack must be zero or positive"):
        EstimationPass(("total",), slack=-0.1)
    with pytest.raises(SchemaError, match="at least one estimation pass and one rounding stage"):
        make_family(rounding=())


def test_allowed_cells_follow_zero_upper_bounds_and_the_parent(make_family):
    upper = np.full((3, 2), UNBOUNDED)
    upper[1, 0] = 0
    rows = LinearConstraint("quarters", np.array([0, 1, 1, -1]), np.zeros((3, 2), int), upper)
    allowed = make_family(constraints=(rows,)).allowed()
    expected = np.array([[1, 1, 0, 1], [0, 1, 0, 1], [1, 1, 0, 1]], dtype=bool)
    np.testing.assert_array_equal(allowed, expected)


def test_crossed_bounds_name_constraint_and_child(make_family):
    lower = np.array([[0], [7919], [0]])
    rows = LinearConstraint("facilities", np.zeros(4, np.int32), lower, np.full((3, 1), 7907))
    with pytest.raises(ConstraintError, match="constraint 'facilities' bounds 'child-b'") as caught:
        make_family(constraints=(rows,))
    assert "79" not in str(caught.value)
