"""Noisy measurements of a family to non-negative whole counts."""

from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.estimation.rounding import is_laminar
from tallyveil.estimation.solution import (
    EstimateStatus,
    FamilySolution,
    RoundingMethod,
    RoundingOutcome,
    StageOutcome,
)

__all__ = [
    "UNBOUNDED",
    "EstimateStatus",
    "EstimationPass",
    "FamilyProblem",
    "FamilySolution",
    "LinearConstraint",
    "MeasuredQuery",
    "RoundingMethod",
    "RoundingOutcome",
    "RoundingStage",
    "StageOutcome",
    "estimate_family",
    "is_laminar",
]
