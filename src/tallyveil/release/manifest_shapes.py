"""What the JSON files of each kind of release hold, as far as a command reads it."""

from collections.abc import Mapping
from typing import Any, Final

from tallyveil.storage.json_files import Each

NUMBER: Final = (int, float)
_BOUNDS: Final = {"lower": NUMBER, "upper": NUMBER}
_STAGES: Final = [{"stage": str, "seconds": NUMBER, "peak_memory_mib": int}]
_FILES: Final = [{"path": str, "bytes": int, "sha256": str}]
_CHECKS: Final = [{"check": str, "passed": bool}]
_COMMON: Final = {
    "format": int,
    "run": str,
    "protected": bool,
    "warnings": [str],
    "plan_digest": str,
    "event": {"kind": str},
    "ledger": {"lines": int, "sha256": str},
}

_TOPDOWN: Final = _COMMON | {
    "name": str,
    "plan": dict,
    "privacy": {
        "budget_unit": str,
        "declared": str,
        "spent": str,
        "delta": str,
        "epsilon": NUMBER,
        "exact": {
            "delta": str,
            "epsilon": _BOUNDS,
            "engines": [str],
            "geolevels": [{"geolevel": str, "spent": str, "classical_epsilon": NUMBER, "epsilon": _BOUNDS}],
        },
        "post_processing": str,
        "invariants": [str],
        "statement": str,
    },
    "inputs": Each(str),
    "sizes": {
        "records": int,
        "geolevels": Each({"geounits": int, "empty_geounits": int, "nonzero_cells": int}),
    },
    "solver": Each(
        {
            "families": int,
            "estimate": Each(int),
            "rounding": Each(int),
            "rounding_widened": int,
            "largest_residual": NUMBER,
        }
    ),
    "checks": _CHECKS,
    "files": _FILES,
    "versions": Each(str),
    "performance": _STAGES,
}
_MEASUREMENTS: Final = {key: shape for key, shape in _TOPDOWN.items() if key not in ("sizes", "solver")}
_SAFETAB: Final = _COMMON | {
    "version": str,
    "budget_unit": str,
    "budgets": Each(str),
    "sizes": Each({"groups": Each(int)}),
    "checks_passed": int,
    "files": Each(str),
    "performance": _STAGES,
}
_CHANGED: Final = {"budget": str, "epsilon": _BOUNDS}
_HOUSEHOLDS: Final = _SAFETAB | {
    "privacy": Each({"budget": str, "delta": str, "epsilon": _BOUNDS, "changed": _CHANGED})
}
_SUBSPACE: Final = _COMMON | {
    "name": str,
    "plan": dict,
    "privacy": {"statement": str},
    "noise": {
        "structure": str,
        "cells": int,
        "dimension": int,
        "basis": str,
        "notes": [str],
        "sampler": str,
        "reason": str,
    },
    "checks": _CHECKS,
    "files": _FILES,
    "versions": Each(str),
    "performance": _STAGES,
}
_SET: Final = {"geography": str, "level": int, "budget": str}

SAFETAB_PLAN: Final = {"mechanism": str, "iterations": [list], "runs": Each({"sets": [_SET]})}
"""Of `plan.json`, beside the manifest of a SafeTab run."""

HOUSEHOLDS_PLAN: Final = {"mechanism": str, "runs": Each({"sets": [_SET | {"table": str}]})}
"""The same of a SafeTab-H run."""

_PERHAPS: Final = (int, float, type(None))
SAFETAB_PRIVACY: Final = [
    {
        "run": str,
        "budget": str,
        "delta": str,
        "epsilon": _BOUNDS,
        "pure": _PERHAPS,
        "renyi": _PERHAPS,
        "zcdp": _PERHAPS,
        "zcdp_textbook": _PERHAPS,
        "changed": _CHANGED,
    }
]
"""Of `privacy.json`."""

SAFETAB_EXPECTED: Final = {
    "details": [{"geography": str, "level": int}],
    "sizes": [
        {
            "geography": str,
            "level": int,
            "size": int,
            "published": NUMBER,
            "count_rmse": NUMBER,
            "estimate_rmse": NUMBER,
        }
    ],
}
"""Of `expected.json`."""

HOUSEHOLDS_EXPECTED: Final = [{"geography": str, "level": int}]
"""The same of a SafeTab-H run."""

INTERVALS: Final = {
    "run": str,
    "level": NUMBER,
    "covers": str,
    "bounds_left_out": [str],
    "compared": [
        {
            "area": str,
            "query": str,
            "is_entity": bool,
            "answers": int,
            "exact": int,
            "undetermined": int,
            "below": int,
            "above": int,
            "standard_error": _PERHAPS,
        }
    ],
}
"""Of `intervals/manifest.json`."""

SHAPES: Final[Mapping[str, Any]] = {
    "topdown": _TOPDOWN,
    "topdown-measurements": _MEASUREMENTS,
    "safetab": _SAFETAB,
    "safetab-households": _HOUSEHOLDS,
    "integer-subspace": _SUBSPACE,
}
"""The shape of each kind's manifest; further keys are allowed."""
