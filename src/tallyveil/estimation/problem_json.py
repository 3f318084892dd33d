"""A family as plain JSON data, so that one that could not be solved can be studied elsewhere.

It holds the estimator's inputs: noisy answers, published counts and public bounds. It holds no true count.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tallyveil.estimation.problem import (
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)


def problem_to_mapping(problem: FamilyProblem) -> dict[str, Any]:
    """Plain data of a family; `problem_from_mapping` takes it back."""
    return {
        "geocode": problem.geocode,
        "geolevel": problem.geolevel,
        "children": list(problem.children),
        "support": problem.support.tolist(),
        "parent_counts": None if problem.parent_counts is None else problem.parent_counts.tolist(),
        "measured": [
            {
                "name": query.name,
                "labels": query.labels.tolist(),
                "values": query.values.tolist(),
                # JSON has no infinity, so null stands for a child that is not measured.
                "variances": [
                    None if np.isinf(variance) else float(variance) for variance in query.variances
                ],
                # Written only where it is not the default, so that files from before layers stay the same.
                **({"layer": query.layer} if query.layer else {}),
            }
            for query in problem.measured
        ],
        "constraints": [
            {
                "name": constraint.name,
                "labels": constraint.labels.tolist(),
                "lower": constraint.lower.tolist(),
                "upper": constraint.upper.tolist(),
                **({} if constraint.groups is None else {"groups": constraint.groups.tolist()}),
            }
            for constraint in problem.constraints
        ],
        "passes": [
            {"queries": list(estimation_pass.queries), "slack": estimation_pass.slack}
            for estimation_pass in problem.passes
        ],
        "rounding": [
            {"target": stage.target, "labels": {name: labels.tolist() for name, labels in stage.labels}}
            for stage in problem.rounding
        ],
    }


def problem_from_mapping(mapping: Mapping[str, Any]) -> FamilyProblem:
    """The family of `problem_to_mapping`.

    Raises:
        SchemaError, ConstraintError: the parts do not fit each other.
        KeyError: an entry is missing.
    """
    n_children = len(mapping["children"])
    parent = mapping["parent_counts"]
    return FamilyProblem(
        geocode=mapping["geocode"],
        geolevel=mapping["geolevel"],
        children=tuple(mapping["children"]),
        support=np.array(mapping["support"], dtype=np.int64),
        parent_counts=None if parent is None else np.array(parent, dtype=np.int64),
        measured=tuple(
            MeasuredQuery(
                query["name"],
                _labels(query["labels"]),
                # An empty list has lost its number of columns; the number of rows restores the shape.
                np.array(query["values"], dtype=np.float64).reshape(n_children, -1),
                np.array([np.inf if variance is None else variance for variance in query["variances"]]),
                query.get("layer", 0),
            )
            for query in mapping["measured"]
        ),
        constraints=tuple(
            LinearConstraint(
                constraint["name"],
                _labels(constraint["labels"]),
                _rows(constraint["lower"], len(constraint["lower"])),
                _rows(constraint["upper"], len(constraint["upper"])),
                np.array(constraint["groups"], dtype=np.int64) if "groups" in constraint else None,
            )
            for constraint in mapping["constraints"]
        ),
        passes=tuple(
            EstimationPass(tuple(estimation_pass["queries"]), estimation_pass["slack"])
            for estimation_pass in mapping["passes"]
        ),
        rounding=tuple(
            RoundingStage(
                tuple((name, _labels(labels)) for name, labels in stage["labels"].items()), stage["target"]
            )
            for stage in mapping["rounding"]
        ),
    )


def _labels(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def _rows(values: list[list[int]], n_children: int) -> np.ndarray:
    return np.array(values, dtype=np.int64).reshape(n_children, -1)
