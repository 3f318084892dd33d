"""The manifest: what a release is made of, so that anybody can verify and repeat it, and nobody learns more."""

import platform
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import tallyveil
from tallyveil.errors import StoreError
from tallyveil.release.finished import MANIFEST, listed_files, refuse_unfinished, require_ledger, require_run
from tallyveil.release.geography import GEOGRAPHY
from tallyveil.release.manifest_shapes import SHAPES
from tallyveil.storage.json_files import damaged, digest_of, misfit, read_json_object
from tallyveil.storage.paths import inside

MANIFEST_FORMAT = 2
"""Format 1 said `private` where this one says `protected`, and held no digest of the ledger."""
PUBLISHED = ("bounds", "invariants", "measurements", "histogram", "microdata", "tables")
RESTORE = "Restore the folder as the run left it; if the run was interrupted, give its command again."
TEST_KEY_WARNING = "Made with an insecure test key: this release protects nobody and must not be published."
LIBRARIES = ("numpy", "scipy", "numba", "polars", "piqp", "highspy", "cryptography", "python-flint")


class ReleaseKind(StrEnum):
    """Which command a release comes from; the manifest's `kind`, which that of `tallyveil run` leaves out."""

    TOPDOWN = "topdown"
    MEASUREMENTS = "topdown-measurements"
    SAFETAB = "safetab"
    HOUSEHOLDS = "safetab-households"
    SUBSPACE = "integer-subspace"

    @property
    def command(self) -> str:
        """The command that makes such a release."""
        return "tallyveil " + _COMMANDS[self]


_COMMANDS = {
    ReleaseKind.TOPDOWN: "run",
    ReleaseKind.MEASUREMENTS: "measure",
    ReleaseKind.SAFETAB: "safetab run",
    ReleaseKind.HOUSEHOLDS: "safetab households",
    ReleaseKind.SUBSPACE: "subspace release",
}


def kind_of(manifest: Mapping[str, Any]) -> ReleaseKind:
    """Which command a manifest that `read_manifest` returned comes from."""
    return ReleaseKind(manifest.get("kind", ReleaseKind.TOPDOWN))


def read_manifest(root: Path, *kinds: ReleaseKind) -> dict[str, Any]:
    """The manifest of a finished release; every command that opens a release reads it here.

    Args:
        root: Folder of the release.
        kinds: The kinds that the caller can work with; none: all of them.
    Raises:
        StoreError: the run in the folder is not finished or its key may still be there; its ledger has lost lines;
            a file in it is of another run; else as `written_manifest`.
    """
    refuse_unfinished(root)
    manifest = written_manifest(root, *kinds)
    require_ledger(root, manifest["ledger"])
    for listed in listed_files(manifest):
        path = inside(root, *listed.split("/"))
        if path.is_file():
            require_run(path, manifest["run"])
    return manifest


def written_manifest(root: Path, *kinds: ReleaseKind) -> dict[str, Any]:
    """The manifest in a folder, whether or not the key of the run is gone; takes what `read_manifest` does.

    Raises:
        StoreError: the folder holds no finished release or one of another kind, or the manifest is damaged: it is no
            JSON object, lacks what its kind holds, or its plan is not the one it gives the digest of.
    """
    wanted = kinds or tuple(ReleaseKind)
    path = root / MANIFEST
    if not path.is_file():
        raise StoreError(
            f"{root} holds no finished release. Name the folder that {_listed(wanted)} wrote to.",
            code="no-release",
        )
    manifest = read_json_object(path, RESTORE)
    named = manifest.get("kind", ReleaseKind.TOPDOWN)
    if manifest.get("format") == 1:
        raise StoreError(
            f"{root} was made by an earlier version of Tallyveil (manifest format 1; this version reads format "
            f"{MANIFEST_FORMAT}). Open it with the version that its manifest names.",
            code="release-format",
        )
    if manifest.get("format") != MANIFEST_FORMAT or named not in list(ReleaseKind):
        raise StoreError(
            f"{path} is no manifest that this version of Tallyveil knows: wanted format {MANIFEST_FORMAT} and a kind "
            f"among {', '.join(ReleaseKind)}. {RESTORE}",
            code="release-unreadable",
        )
    kind = ReleaseKind(named)
    if kind is ReleaseKind.MEASUREMENTS and kind not in wanted:
        raise StoreError(
            f"{root} holds measurements alone: it has no counts and no tables. Make a release of them with "
            "`tallyveil estimate`, which spends nothing, and name the folder of that release.",
            code="measured-only",
        )
    if kind not in wanted:
        raise StoreError(
            f"{root} holds a release of `{kind.command}`; this command works on the folder that {_listed(wanted)} "
            "wrote to. Name such a folder.",
            code="no-release",
        )
    place = misfit(manifest, SHAPES[kind])
    if place is None and "plan" in manifest and digest_of(manifest["plan"]).hex() != manifest["plan_digest"]:
        place = "plan"
    if place is not None:
        raise damaged(path, place, RESTORE)
    return manifest


def _listed(kinds: Sequence[ReleaseKind]) -> str:
    names = [f"`{kind.command}`" for kind in kinds]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def protection(*, protected: bool) -> dict[str, Any]:
    """What every manifest says of its protection.

    Args:
        protected: False when the run used a test key.
    """
    return {"protected": protected, "warnings": [] if protected else [TEST_KEY_WARNING]}


def make_manifest(
    *,
    root: Path,
    files: Mapping[str, str],
    plan: Mapping[str, Any],
    plan_digest: str,
    privacy: Mapping[str, Any],
    event: Mapping[str, Any],
    run_id: str,
    protected: bool,
    inputs: Mapping[str, Any],
    checks: Sequence[Mapping[str, Any]],
    stages: Sequence[Mapping[str, Any]],
    kind: ReleaseKind = ReleaseKind.TOPDOWN,
    sizes: Mapping[str, Any] | None = None,
    solver: Mapping[str, Any] | None = None,
    spine: Mapping[str, Any] | None = None,
    drawn: Sequence[Mapping[str, Any]] = (),
    estimated_from: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything worth knowing about a finished release, as plain data.

    Args:
        root: Release folder.
        files: SHA-256 of the files that the run has written, by path.
        plan, plan_digest, event: What was planned and spent.
        privacy: The guarantee, in numbers and words.
        run_id: Public name of the run.
        protected: False when the run used a test key.
        inputs: Hash of the public spine, and a keyed hash of the records. Without the key, which is gone when the run
            ends, the latter confirms nothing.
        checks: What was verified on the written files.
        stages: Seconds and memory by stage.
        kind: `TOPDOWN`, or `MEASUREMENTS` where the run stopped after them.
        sizes: Sizes of what is published; None where nothing was estimated.
        solver: By geolevel, how families were solved; None likewise.
        spine: How the spine was made, and how far areas are from it; None where there are no entities and no steps.
        drawn: Counts that keep the invariants by their noise: law, guarantee, sampler.
        estimated_from: The run whose measurements the counts were estimated from, where this one drew none itself.
    Privacy: nothing here is computed from true counts, but for the keyed commitment; seconds and memory are
        those of a run whose noise does not depend on the data in time.
    """
    return {
        "format": MANIFEST_FORMAT,
        **({} if kind is ReleaseKind.TOPDOWN else {"kind": kind.value}),
        "name": plan["name"],
        "run": run_id,
        **protection(protected=protected),
        "plan": dict(plan),
        "plan_digest": plan_digest,
        "privacy": dict(privacy),
        "event": dict(event),
        "inputs": dict(inputs),
        **({} if estimated_from is None else {"estimated_from": dict(estimated_from)}),
        **({} if spine is None else {"spine": dict(spine)}),
        **({"drawn": [dict(item) for item in drawn]} if drawn else {}),
        **({} if sizes is None else {"sizes": dict(sizes)}),
        **({} if solver is None else {"solver": dict(solver)}),
        "checks": [dict(check) for check in checks],
        "files": _files(root, files),
        "versions": {
            "tallyveil": tallyveil.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in LIBRARIES},
        },
        "performance": [dict(stage) for stage in stages],
    }


def _files(root: Path, digests: Mapping[str, str]) -> list[dict[str, Any]]:
    """The geography, then the files of the published folders, in order of their paths."""
    published = [path for path in digests if path.split("/")[0] in PUBLISHED]
    return [
        {"path": path, "bytes": (root / path).stat().st_size, "sha256": digests[path]}
        for path in [GEOGRAPHY, *sorted(published, key=PurePosixPath)]
    ]
