"""Manifests of format 2, in which every product had a form of its own, read as manifests of today.

Format 2 had no digest of the whole and no kind for the releases of `tallyveil run`. SafeTab manifests gave the number
of checks without their names, files without their sizes, and the guarantee in a file beside them.
"""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Final

from tallyveil.exact import fraction_of
from tallyveil.files import manifest_shapes as shapes
from tallyveil.files.kinds import ReleaseKind
from tallyveil.storage.json_files import Each, JsonObject, misfit, read_json
from tallyveil.storage.paths import inside

_COMMON: Final = {
    name: shapes.COMMON[name]
    for name in ("run", "protected", "warnings", "plan_digest", "event", "ledger", "performance")
}
_LISTED: Final = {
    "checks": [{"check": str, "passed": bool}],
    "files": shapes.COMMON["files"],
    "versions": Each(str),
}
_SAFETAB: Final = {
    "version": str,
    "budget_unit": str,
    "budgets": Each(str),
    "checks_passed": int,
    "files": Each(str),
}
SHAPES: Final[Mapping[ReleaseKind, JsonObject]] = {
    ReleaseKind.TOPDOWN: _COMMON | _LISTED | shapes.TOPDOWN_BODY | {"privacy": shapes.TOPDOWN_PRIVACY},
    ReleaseKind.SAFETAB: _COMMON | _SAFETAB | shapes.SAFETAB_BODY,
    ReleaseKind.HOUSEHOLDS: _COMMON | _SAFETAB | shapes.SAFETAB_BODY | {"privacy": shapes.HOUSEHOLDS_PRIVACY},
    ReleaseKind.SUBSPACE: _COMMON | _LISTED | shapes.SUBSPACE_BODY | {"privacy": shapes.SUBSPACE_PRIVACY},
}
_SAFETABS: Final = (ReleaseKind.SAFETAB, ReleaseKind.HOUSEHOLDS)
_MOST_CHECKS: Final = 10_000
"""A run of SafeTab made a few hundred. The names of many more would only fill the memory."""
_BODY: Final[Mapping[ReleaseKind, tuple[str, ...]]] = {
    ReleaseKind.TOPDOWN: (*shapes.TOPDOWN_BODY, "intervals"),
    ReleaseKind.SAFETAB: tuple(shapes.SAFETAB_BODY),
    ReleaseKind.HOUSEHOLDS: tuple(shapes.SAFETAB_BODY),
    ReleaseKind.SUBSPACE: (*shapes.SUBSPACE_BODY, "inputs"),
}


def upgraded(root: Path, old: JsonObject, kind: ReleaseKind, mend: str) -> JsonObject | str:
    """The content of today's format that says the same, or the place where the manifest is damaged.

    Args:
        root: Release folder.
        old: Content of its `manifest.json`.
        kind: The kind that it names.
        mend: What to do about a damaged file, for messages.
    Raises:
        StoreError: the guarantee of a SafeTab release, which is in a file of its own, cannot be read.
    """
    if kind not in SHAPES:
        return "kind"
    place = misfit(old, SHAPES[kind])
    if place is not None:
        return place
    spent = _spent(old, kind)
    if spent is None:
        return "privacy"
    checks = _checks(old, kind)
    if isinstance(checks, str):
        return checks
    versions = {} if kind in _SAFETABS else dict(old["versions"])
    made_with = old["version"] if kind in _SAFETABS else versions.pop("tallyveil", None)
    if made_with is None:
        return "versions"
    return {
        **{name: old[name] for name in _COMMON},
        "kind": kind.value,
        "spent": spent,
        "privacy": _privacy_by_run(root, mend) if kind is ReleaseKind.SAFETAB else old["privacy"],
        "body": {name: old[name] for name in _BODY[kind] if name in old},
        "checks": checks,
        "files": _files(root, old),
        "tallyveil": [made_with],
        "versions": versions,
        "declassified": old.get("declassified", []),
    }


def _spent(old: JsonObject, kind: ReleaseKind) -> JsonObject | None:
    """The budget as the manifest gives it; None where a number is none."""
    if kind in _SAFETABS:  # every person is in one of the runs, so the costliest is what is spent
        found = [fraction_of(text) for text in old["budgets"].values()]
        budgets = [budget for budget in found if budget is not None]
        most = str(max(budgets, default=Fraction(0)))
        stated = {"unit": old["budget_unit"], "declared": most, "spent": most}
        return stated if len(budgets) == len(found) else None
    source = old["privacy"] if "spent" in old["privacy"] else old["plan"]
    return {name: source.get(key) for name, key in _BUDGET.items()}


_BUDGET: Final = {"unit": "budget_unit", "declared": "declared", "spent": "spent"}


def _privacy_by_run(root: Path, mend: str) -> JsonObject:
    """The guarantees of a SafeTab release, which format 2 kept in a file beside the manifest."""
    path = inside(root, "privacy.json")
    runs = read_json(path, mend) if path.is_file() else []
    named = isinstance(runs, list) and all(isinstance(one, dict) and "run" in one for one in runs)
    return {str(one["run"]): one for one in runs} if named else {}


def _checks(old: JsonObject, kind: ReleaseKind) -> list[str] | str:
    """Names of the checks; the place where they are not those of a finished run."""
    if kind not in _SAFETABS:
        return (
            [one["check"] for one in old["checks"]]
            if all(one["passed"] for one in old["checks"])
            else "checks"
        )
    if not 0 <= old["checks_passed"] <= _MOST_CHECKS:
        return "checks_passed"
    return [f"check {number + 1}, which format 2 does not name" for number in range(old["checks_passed"])]


def _files(root: Path, old: JsonObject) -> list[JsonObject]:
    if isinstance(old["files"], list):
        return old["files"]
    places = {path: inside(root, *path.split("/")) for path in old["files"]}
    sizes = {path: place.stat().st_size if place.is_file() else 0 for path, place in places.items()}
    return [{"path": path, "bytes": sizes[path], "sha256": digest} for path, digest in old["files"].items()]
