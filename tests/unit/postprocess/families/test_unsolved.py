"""A family that cannot be certified is kept whole, so that the same problem can be solved again."""

import json

import numpy as np
import pytest

from tallyveil.errors import ConstraintError, SolverError
from tallyveil.estimation.problem import (
    EstimationPass,
    FamilyProblem,
    MeasuredQuery,
    RoundingStage,
    problem_from_mapping,
)
from tallyveil.postprocess.families import chunk_files
from tallyveil.postprocess.families.chunk_files import UNSOLVED, estimate_or_keep


@pytest.fixture
def problem(small_family):
    return small_family


def failing(error):
    def fails(_):
        raise error

    return fails


def test_a_solved_family_leaves_nothing_behind(problem, tmp_path):
    assert estimate_or_keep(problem, tmp_path / UNSOLVED).counts.sum() == 7
    assert not list(tmp_path.iterdir())


def test_an_unsolved_family_is_kept_and_can_be_read_back(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(chunk_files, "estimate_family", failing(SolverError("no certificate")))
    with pytest.raises(SolverError, match="no certificate") as caught:
        estimate_or_keep(problem, tmp_path / UNSOLVED)
    assert caught.value.code == "family-unsolved"
    (path,) = (tmp_path / UNSOLVED).rglob("*.json")
    assert str(path) in str(caught.value)
    monkeypatch.undo()
    again = problem_from_mapping(json.loads(path.read_text()))
    assert np.array_equal(estimate_or_keep(again, None).counts, estimate_or_keep(problem, None).counts)


def test_without_a_folder_the_error_goes_on_as_it_is(problem, monkeypatch):
    monkeypatch.setattr(chunk_files, "estimate_family", failing(SolverError("no certificate")))
    with pytest.raises(SolverError) as caught:
        estimate_or_keep(problem, None)
    assert caught.value.code != "family-unsolved"


def test_a_family_without_a_solution_is_not_kept(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(chunk_files, "estimate_family", failing(ConstraintError("contradiction")))
    with pytest.raises(ConstraintError):
        estimate_or_keep(problem, tmp_path / UNSOLVED)
    assert not (tmp_path / UNSOLVED).exists()


@pytest.fixture
def small_family():
    labels = np.array([0, 1], dtype=np.int32)
    return FamilyProblem(
        geocode="../P 1",
        geolevel="Town/../x",
        children=("P1", "P2"),
        support=np.array([0, 1]),
        parent_counts=np.array([4, 3]),
        measured=(MeasuredQuery("detailed", labels, np.array([[3, 1], [2, 2]]), 1.0),),
        constraints=(),
        passes=(EstimationPass(("detailed",)),),
        rounding=(RoundingStage((("detailed", labels),)),),
    )
