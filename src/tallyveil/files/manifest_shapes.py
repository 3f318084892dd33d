"""What the JSON files of each kind of release hold, as far as a command reads it."""

from collections.abc import Mapping
from typing import Final

from tallyveil.files.kinds import ReleaseKind
from tallyveil.storage.json_files import TEXT_OR_NONE, ByKind, Each, JsonObject, Perhaps

NUMBER: Final = (int, float)
BOUNDS: Final = {"lower": NUMBER, "upper": NUMBER}
_FILES: Final = [{"path": str, "bytes": int, "sha256": str}]
_CHANGED: Final = {"budget": str, "epsilon": BOUNDS}
COMMON: Final = {
    "format": int,
    "kind": str,
    "run": str,
    "protected": bool,
    "warnings": [str],
    "plan_digest": str,
    "event": {"kind": str},
    "spent": {"unit": str, "declared": str, "spent": str},
    "checks": [str],
    "files": _FILES,
    "tallyveil": [str],
    "versions": Each(str),
    "ledger": {"lines": int, "sha256": str},
    "declassified": [dict],
    "performance": [{"stage": str, "seconds": NUMBER, "peak_memory_mib": int}],
}

_SOLVER: Final = {
    "families": int,
    "estimate": Each(int),
    "rounding": Each(int),
    "rounding_widened": int,
    "largest_residual": NUMBER,
    "values": Perhaps(str),
    "passes": Perhaps([{"cells": str, "families": int, "estimate": Each(int), "largest_residual": NUMBER}]),
}
_NUMBER_OR_NONE: Final = (int, float, type(None))
_LIMIT: Final = {"cutoff": int, "at_most": (int, type(None))}
_GROUPS: Final = {"geolevel": str, "families": [str], "children": str, "limit": _LIMIT}
_STEPS: Final = ByKind(
    {
        "branch": {
            "geolevel": str,
            "name": str,
            "family": str,
            "entities": (list, type(None)),
            "parts": TEXT_OR_NONE,
        },
        "cut_by_entities": {"geolevel": str, "name": str, "families": [str], "keep": bool},
        "group_by_membership": _GROUPS,
        "group_by_distance": _GROUPS,
    }
)
_LEVELS: Final = [
    {
        "geolevel": str,
        "geounits": int,
        "children_mean": Perhaps(NUMBER),
        "children_most": Perhaps(int),
    }
]
_DEVIATION: Final = {"mean": _NUMBER_OR_NONE, "greatest": _NUMBER_OR_NONE}
_SPINE: Final = {
    "steps": [_STEPS],
    "original": _LEVELS,
    "made": _LEVELS,
    "replaced": [str],
    "distances": Each(
        {
            "entities": int,
            "mean": NUMBER,
            "most": int,
            "original_mean": Perhaps(NUMBER),
            "original_most": Perhaps(int),
        }
    ),
    "deviations": Perhaps(
        [
            {
                "name": str,
                "areas": int,
                "aimed": bool,
                "given": _DEVIATION,
                "steps": _DEVIATION,
                "made": _DEVIATION,
            }
        ]
    ),
    "warnings": Perhaps([str]),
    "preset": Perhaps(str),
    "regroup": Perhaps(
        {
            "geolevel": str,
            "limit": _LIMIT,
            "aim": dict,
            "measure": str,
            "most_loss": Perhaps(str),
            "reference": Perhaps(str),
            "may_worsen": Perhaps([str]),
        }
    ),
    "bypassing": Perhaps({"rule": str, "geolevels": [{"not_measured": int}]}),
}
_DRAWN: Final = {
    "query": str,
    "geolevel": str,
    "budget": str,
    "path": str,
    "law": {
        "kind": str,
        "variance": Perhaps(str),
        "norm": Perhaps(str),
        "epsilon": Perhaps(str),
    },
    "privacy": {"statement": str, "invariants": [str]},
    "noise": {"cells": int, "dimension": int, "sampler": str, "reason": str, "spread": (dict, type(None))},
}
_IMPORTED: Final = {
    "layout": str,
    "product": str,
    "source_sha256": str,
    "beside_sha256": Each(str),
    "rho_of_variances": str,
    "statement": str,
}
"""Of measurements that others published, and of releases that are estimated from them."""
TOPDOWN_BODY: Final = {
    "name": str,
    "plan": dict,
    "inputs": Each(str),
    "spine": Perhaps(_SPINE),
    "drawn": Perhaps([_DRAWN]),
    "agreement": Perhaps(
        [
            {
                "name": str,
                "query": str,
                "theirs": str,
                "release": Perhaps(str),
                "run": str,
                "plan_digest": str,
            }
        ]
    ),
    "residents": Perhaps(
        [
            {
                "name": str,
                "people": Each([str]),
                "adults": Perhaps(Each([str])),
                "households": Perhaps(str),
                "geolevel": Perhaps(str),
                "run": str,
                "plan_digest": str,
            }
        ]
    ),
    "imported": Perhaps(_IMPORTED),
    "sizes": {
        "records": int,
        "geolevels": Each({"geounits": int, "empty_geounits": int, "nonzero_cells": int}),
    },
    "solver": Each(_SOLVER),
}
MEASUREMENTS_BODY: Final = {
    name: TOPDOWN_BODY[name]
    for name in ("name", "plan", "inputs", "spine", "drawn", "agreement", "residents", "imported")
}
ESTIMATED_FROM: Final = {"run": str, "ledger": {"lines": int, "sha256": str}, "statement": str}
"""Of a body's `estimated_from`, which only a release estimated from the measurements of another run has."""

TOPDOWN_PRIVACY: Final = {
    "budget_unit": str,
    "declared": str,
    "spent": str,
    "delta": str,
    "epsilon": NUMBER,
    "exact": {
        "delta": str,
        "epsilon": BOUNDS,
        "engines": [str],
        "geolevels": [{"geolevel": str, "spent": str, "classical_epsilon": NUMBER, "epsilon": BOUNDS}],
    },
    "post_processing": str,
    "invariants": [str],
    "statement": str,
}
SAFETAB_BODY: Final = {"sizes": Each({"groups": Each(int)})}
GROUPS_BODY: Final = {"name": str, "sizes": Each({"groups": int, "noisy_counts": int, "cells_rows": int})}
HOUSEHOLDS_PRIVACY: Final = Each({"budget": str, "delta": str, "epsilon": BOUNDS, "changed": _CHANGED})
SUBSPACE_BODY: Final = {
    "name": str,
    "plan": dict,
    "noise": {
        "structure": str,
        "cells": int,
        "dimension": int,
        "basis": str,
        "notes": [str],
        "sampler": str,
        "reason": str,
    },
}
SUBSPACE_PRIVACY: Final = {"statement": str}
_SET: Final = {"geography": str, "level": int, "budget": str}

TABLE_PLAN: Final = {
    "schema": {
        "name": str,
        "attributes": [{"name": str, "levels": [str]}],
        "recodes": Perhaps([{"name": str, "attribute": str, "groups": Each([str])}]),
        "structural_zeros": Perhaps([{"name": str, "cells": Each([str])}]),
        "unit": Perhaps(str),
        "units": Perhaps(str),
    },
    "constraints": Perhaps([str]),
    "table": {"count": TEXT_OR_NONE, "columns": Each(str)},
    "law": str,
    "neighbours": str,
    "budget_unit": str,
    "declared": str,
}
"""Of `plan.json`, beside the manifest of a released table."""

SAFETAB_PLAN: Final = {"mechanism": str, "iterations": [list], "runs": Each({"sets": [_SET]})}
"""Of `plan.json`, beside the manifest of a SafeTab run."""

HOUSEHOLDS_PLAN: Final = {"mechanism": str, "runs": Each({"sets": [_SET | {"table": str}]})}
"""The same of a SafeTab-H run."""

_ACCOUNTANTS: Final = dict.fromkeys(("pure", "renyi", "zcdp", "zcdp_textbook"), _NUMBER_OR_NONE)
SAFETAB_PRIVACY: Final = Each(
    {"run": str, "budget": str, "delta": str, "epsilon": BOUNDS, "changed": _CHANGED} | _ACCOUNTANTS
)
"""By run."""

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

GROUPS_PLAN: Final = {
    "mechanism": str,
    "schema": dict,
    "levels": [
        {
            "name": str,
            "by": [str],
            "budget": str,
            "stability": int,
            "groups": int,
            "total_only_groups": int,
            "details": [str],
            "thresholds": [int],
        }
    ],
}
"""Of `plan.json`, beside the manifest of a run on population groups."""

GROUPS_EXPECTED: Final = {
    "details": [{"level": str, "detail": str}],
    "sizes": [{"level": str, "size": int, "count_rmse": NUMBER, "estimate_rmse": NUMBER}],
}
"""The `expected.json` beside it."""

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
            "standard_error": _NUMBER_OR_NONE,
        }
    ],
    "files": [{"path": str, "sha256": str}],
}
"""Of `intervals/_manifest.json`."""

SHAPES: Final[Mapping[ReleaseKind, JsonObject]] = {
    ReleaseKind.TOPDOWN: COMMON | {"privacy": TOPDOWN_PRIVACY, "body": TOPDOWN_BODY},
    ReleaseKind.MEASUREMENTS: COMMON | {"privacy": TOPDOWN_PRIVACY, "body": MEASUREMENTS_BODY},
    ReleaseKind.SAFETAB: COMMON | {"privacy": SAFETAB_PRIVACY, "body": SAFETAB_BODY},
    ReleaseKind.HOUSEHOLDS: COMMON | {"privacy": HOUSEHOLDS_PRIVACY, "body": SAFETAB_BODY},
    ReleaseKind.GROUPS: COMMON | {"privacy": SAFETAB_PRIVACY, "body": GROUPS_BODY},
    ReleaseKind.SUBSPACE: COMMON | {"privacy": SUBSPACE_PRIVACY, "body": SUBSPACE_BODY},
}
"""The shape of each kind's manifest; further keys are allowed."""

_TOGETHER: Final = {
    "units": [str],
    "releases": [str],
    "neighbours": str,
    "rho": str,
    "delta": str,
    "epsilon": NUMBER,
    "added_delta": Perhaps(NUMBER),
    "exact_epsilon": Perhaps(BOUNDS),
    "engines": Perhaps([str]),
    "not_exact": Perhaps(str),
    "not_covered": [str],
    "statement": str,
}
PROGRAMME_SHAPE: Final = {
    "format": int,
    "tallyveil": str,
    "name": str,
    "plan_digest": str,
    "protected": bool,
    "warnings": [str],
    "releases": [
        {
            "name": str,
            "title": str,
            "run": str,
            "counts": str,
            "reads": [str],
            "plan_digest": str,
            "manifest_sha256": str,
            "protected": bool,
            "warnings": [str],
            "declassified": [dict],
            "privacy": {"statement": str, "exact": {"delta": str, "epsilon": BOUNDS}},
        }
    ],
    "guarantee": {"by_unit": [_TOGETHER], "together": {"statement": str}},
    "between": [
        {
            "check": str,
            "agrees": bool,
            "statement": str,
            "kinds": Perhaps(
                [{"kind": str, "meaning": str, "can_agree": bool, "geounits": int, "records": int}]
            ),
        }
    ],
    "digest": str,
}
"""The shape of `programme.json`."""
