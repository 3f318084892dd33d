"""Noisy measurements of a family to non-negative whole counts."""

from typing import TYPE_CHECKING, Any

from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimateStatus,
    EstimationPass,
    FamilyProblem,
    FamilySolution,
    LinearConstraint,
    MeasuredQuery,
    RoundingMethod,
    RoundingOutcome,
    RoundingStage,
    StageOutcome,
)

if TYPE_CHECKING:
    from tallyveil.estimation.family import estimate_family
    from tallyveil.estimation.rounding import is_laminar

# Solvers bring a compiler and sparse matrices along. Describing a problem, as a plan does, should start at once.
_HEAVY = {"estimate_family": "family", "is_laminar": "rounding"}

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


def __getattr__(name: str) -> Any:
    if name not in _HEAVY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HEAVY[name]}"), name)
