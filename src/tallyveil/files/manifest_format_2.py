"""Manifests of format 2, in which every product had a form of its own, read as manifests of today.

Format 2 had no digest of the whole and no kind for the releases of `tallyveil run`. SafeTab manifests gave the number
of checks without their names, files without their sizes, and the guarantee in a file beside them.
"""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from tallyveil.declared import ContentInPart, MisfitError, validated
from tallyveil.files.finished import LedgerRecord
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest import (
    Budget,
    HouseholdsPrivacy,
    ListedFile,
    SafetabBody,
    StageTime,
    StatedEvent,
    SubspaceBody,
    SubspacePrivacy,
    TopdownBody,
    TopdownPrivacy,
)
from tallyveil.storage.json_files import JsonObject, read_json
from tallyveil.storage.paths import inside

_MOST_CHECKS: Final = 10_000
"""A run of SafeTab made a few hundred. The names of many more would only fill the memory."""


class EarlierManifest(ContentInPart):
    """What the manifests of all products said in format 2."""

    run: str
    protected: bool
    warnings: list[str]
    plan_digest: str
    event: StatedEvent
    ledger: LedgerRecord
    performance: list[StageTime]


def _true(passed: bool) -> bool:
    if not passed:
        raise ValueError("wanted true, because a run sealed its manifest only after every check had passed")
    return passed


class PassedCheck(ContentInPart):
    """A check on the written files, which passed."""

    check: str
    passed: Annotated[bool, AfterValidator(_true)]


class EarlierListed(EarlierManifest):
    """What products beside SafeTab said."""

    checks: list[PassedCheck]
    files: list[ListedFile]
    versions: dict[str, str]


class EarlierTopdown(EarlierListed, TopdownBody, extra="ignore"):
    """A release of counts."""

    privacy: TopdownPrivacy


class EarlierSubspace(EarlierListed, SubspaceBody, extra="ignore"):
    """The release of a table."""

    privacy: SubspacePrivacy


class EarlierSafetab(EarlierManifest, SafetabBody, extra="ignore"):
    """A release of SafeTab, by run; its guarantee is in `privacy.json`."""

    version: str
    budget_unit: str
    budgets: dict[str, Budget]
    checks_passed: Annotated[int, Field(ge=0, le=_MOST_CHECKS)]
    files: dict[str, str]


class EarlierHouseholds(EarlierSafetab):
    """A release of SafeTab-H, by run."""

    privacy: dict[str, HouseholdsPrivacy]


EARLIER: Final[Mapping[ReleaseKind, type[EarlierManifest]]] = {
    ReleaseKind.TOPDOWN: EarlierTopdown,
    ReleaseKind.SAFETAB: EarlierSafetab,
    ReleaseKind.HOUSEHOLDS: EarlierHouseholds,
    ReleaseKind.SUBSPACE: EarlierSubspace,
}


def upgraded(root: Path, old: JsonObject, kind: ReleaseKind, mend: str) -> JsonObject:
    """The content of today's format that says the same.

    Args:
        root: Release folder.
        old: Content of its `manifest.json`.
        kind: The kind that it names.
        mend: What to do about a damaged file, for messages.
    Raises:
        MisfitError: the content is not what a run wrote.
        StoreError: the guarantee of a SafeTab release, which is in a file of its own, cannot be read.
    """
    # Later kinds of release never had this format.
    if kind not in EARLIER:
        raise MisfitError("kind")
    earlier = validated(EARLIER[kind], old)
    # Validated first, so that the keys that are taken below are there.
    common = {name: old[name] for name in EarlierManifest.model_fields} | {"kind": kind.value}
    common["declassified"] = old.get("declassified", [])
    if isinstance(earlier, EarlierSafetab):
        # Every person is in one of the runs, so the costliest is what is spent.
        most = str(max(earlier.budgets.values(), default=Fraction(0)))
        return {
            **common,
            "spent": {"unit": earlier.budget_unit, "declared": most, "spent": most},
            "privacy": _privacy_by_run(root, mend) if kind is ReleaseKind.SAFETAB else old["privacy"],
            "body": {"sizes": old["sizes"]},
            "checks": [f"check {n + 1}, which format 2 does not name" for n in range(earlier.checks_passed)],
            "files": _sized(root, earlier.files),
            "tallyveil": [earlier.version],
            "versions": {},
        }
    if "tallyveil" not in old["versions"]:
        raise MisfitError("versions")
    # Today's names of the keys are those of format 2, so that the body is picked out by them.
    body = TopdownBody if kind is ReleaseKind.TOPDOWN else SubspaceBody
    # A release of counts kept what was spent beside the guarantee, the others in the plan.
    budget = old["privacy"] if "spent" in old["privacy"] else old["plan"]
    stated = {"unit": "budget_unit", "declared": "declared", "spent": "spent"}
    return {
        **common,
        "spent": {name: budget.get(key) for name, key in stated.items()},
        "privacy": old["privacy"],
        "body": {name: old[name] for name in body.model_fields if name in old},
        "checks": [item["check"] for item in old["checks"]],
        "files": old["files"],
        "tallyveil": [old["versions"]["tallyveil"]],
        "versions": {name: text for name, text in old["versions"].items() if name != "tallyveil"},
    }


def _privacy_by_run(root: Path, mend: str) -> JsonObject:
    """The guarantees of a SafeTab release, which format 2 kept in a file beside the manifest."""
    path = inside(root, "privacy.json")
    runs = read_json(path, mend) if path.is_file() else []
    # Anything else is left to the check of the guarantees, which names the place.
    named = isinstance(runs, list) and all(isinstance(run, dict) and "run" in run for run in runs)
    return {str(run["run"]): run for run in runs} if named else {}


def _sized(root: Path, digests: Mapping[str, str]) -> list[JsonObject]:
    """Files with the sizes that they have now, 0 where a file is gone."""
    # Paths come from a file and could lead out of the folder; `inside` refuses such.
    places = {path: inside(root, *path.split("/")) for path in digests}
    sizes = {path: place.stat().st_size if place.is_file() else 0 for path, place in places.items()}
    return [{"path": path, "bytes": sizes[path], "sha256": digest} for path, digest in digests.items()]
