"""A family written as JSON comes back as it was."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tallyveil.errors import SolverError
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
    problem_from_mapping,
    problem_to_mapping,
)
from tallyveil.postprocess.families import chunk_files

CELLS, BOTH = np.arange(2, dtype=np.int32), np.zeros(2, dtype=np.int32)


def family(root):
    children = ("a",) if root else ("a", "b")
    n = len(children)
    return FamilyProblem(
        geocode="p",
        geolevel="Town",
        children=children,
        support=np.array([3, 8]),
        parent_counts=None if root else np.array([5, 2]),
        measured=(
            MeasuredQuery("total", BOTH, np.array([[4], [2]][:n]), 1.5),
            MeasuredQuery("detailed", CELLS, np.array([[2, 1], [3, -1]][:n]), np.array([2.0, np.inf][:n])),
        ),
        constraints=(
            LinearConstraint("some", BOTH, np.array([[1], [0]][:n]), np.array([[9], [UNBOUNDED]][:n])),
        ),
        passes=(EstimationPass(("total",), 0.1), EstimationPass(("detailed",))),
        rounding=(RoundingStage((("total", BOTH),)), RoundingStage((("detailed", CELLS),), "nearest")),
    )


@pytest.mark.parametrize("root", [False, True])
def test_a_family_comes_back(root):
    mapping = json.loads(json.dumps(problem_to_mapping(family(root))))
    again = problem_from_mapping(mapping)
    assert problem_to_mapping(again) == mapping
    assert np.array_equal(estimate_family(again).counts, estimate_family(family(root)).counts)


def test_an_unsolved_family_is_kept(tmp_path, monkeypatch):
    def fail(problem):
        raise SolverError("not certified")

    monkeypatch.setattr(chunk_files, "estimate_family", fail)
    with pytest.raises(SolverError, match="not certified") as raised:
        chunk_files.estimate_or_keep(family(False), tmp_path)
    assert raised.value.code == "family-unsolved"
    kept = problem_from_mapping(json.loads((tmp_path / "Town" / "p.json").read_text()))
    assert kept.children == ("a", "b")
    with pytest.raises(SolverError) as raised:
        chunk_files.estimate_or_keep(family(False), None)
    assert str(raised.value) == "not certified"


def test_a_hostile_geocode_keeps_its_family_in_the_folder(tmp_path, monkeypatch):
    def fail(problem):
        raise SolverError("not certified")

    monkeypatch.setattr(chunk_files, "estimate_family", fail)
    hostile = replace(family(False), geocode="../../../p")
    with pytest.raises(SolverError):
        chunk_files.estimate_or_keep(hostile, tmp_path / "kept")
    assert [path for path in tmp_path.rglob("*.json") if not path.is_relative_to(tmp_path / "kept")] == []
    assert len(list((tmp_path / "kept").rglob("*.json"))) == 1
