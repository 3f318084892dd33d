"""A plan as plain data: its cost, its expected errors, the resources of a run, and advice."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from tallyveil.budget.allocation import Allocation
from tallyveil.budget.guarantees import query_parameters
from tallyveil.budget.strategy import expected_errors
from tallyveil.plans.advice import fixed_shares, impossible_levels, spine_advice
from tallyveil.plans.estimating import values_in_words
from tallyveil.plans.guarantee import guarantee_of
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.resources import Resources

CONFIDENCE: Final = Fraction(95, 100)
"""Confidence of the margins of error that a plan states."""


def plan_record(
    loaded: ReleasePlan,
    resources: Resources | None = None,
    allocation: Allocation | None = None,
    warnings: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Cost and expected errors of a plan as plain data, as `tallyveil plan --json` prints them.

    Beside the expected error of every query stand the privacy parameters of its noise alone, before composition.

    Args:
        loaded: The plan.
        resources: Predicted resources of a run; None to leave them out.
        allocation: Share of the budget of each geounit, if the geography was read; None for the plan's own shares.
        warnings: What public inputs allow and seldom mean; None if only the schema is known.
    Raises:
        BudgetError, SolverError: no exact epsilon can be given.
    """
    record: dict[str, Any] = {
        "name": loaded.name,
        "schema": {"name": loaded.schema.name, "cells": loaded.schema.size},
        "privacy": guarantee_of(loaded.terms, allocation),
        "confidence": str(CONFIDENCE),
        "expected": _expected(loaded),
        "values": {level: item.values for level, item in loaded.estimation},
        "values_in_words": values_in_words(loaded.estimation, drawn=bool(loaded.subspace)),
        **advice_record(loaded),
        "warnings": list(impossible_levels(loaded.schema) if warnings is None else warnings),
    }
    if resources is not None:
        record["resources"] = _needed(loaded, resources)
    return record


def _expected(loaded: ReleasePlan) -> list[dict[str, Any]]:
    """The noise of every query at every geolevel, and the privacy parameters of this noise alone."""
    alone = query_parameters(loaded.strategy)
    return [
        {
            "geolevel": item.geolevel,
            "query": item.query,
            "answers": loaded.query(item.query).size,
            "share": str(item.share),
            "parameter": str(item.parameter),
            "variance": item.variance,
            "standard_deviation": item.standard_deviation,
            "margin": item.margin,
            **alone[item.geolevel, item.query].to_mapping(),
        }
        for item in expected_errors(loaded.strategy, CONFIDENCE)
    ]


def _needed(loaded: ReleasePlan, resources: Resources) -> dict[str, Any]:
    """Predicted memory and disk in bytes, and seconds."""
    return {
        "records": resources.sizes.people,
        "geounits": dict(zip(loaded.geolevels, resources.sizes.geounits, strict=True)),
        "memory_bytes": resources.memory,
        "disk_bytes": resources.disk,
        "seconds": round(resources.total_seconds, 1),
        "stages": {stage: round(seconds, 1) for stage, seconds in resources.seconds},
    }


def advice_record(loaded: ReleasePlan) -> dict[str, Any]:
    """The advice as plain data, under the keys that it has in `--json`."""
    return {"fixed_by_invariants": fixed_shares(loaded), "spine_advice": spine_advice(loaded)}
