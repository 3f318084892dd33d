"""The manifest: what a release is made of, so that anybody can verify and repeat it, and nobody learns more."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import tallyveil
from tallyveil.release.geography import GEOGRAPHY

MANIFEST_FORMAT = 1
PUBLISHED = ("bounds", "measurements", "histogram", "microdata", "tables")
LIBRARIES = ("numpy", "scipy", "numba", "polars", "piqp", "highspy", "cryptography", "python-flint")


def make_manifest(
    *,
    root: Path,
    files: Mapping[str, str],
    plan: Mapping[str, Any],
    plan_digest: str,
    privacy: Mapping[str, Any],
    event: Mapping[str, Any],
    run_id: str,
    private: bool,
    input_commitment: str,
    geography_digest: str,
    sizes: Mapping[str, Any],
    solver: Mapping[str, Any],
    checks: Sequence[Mapping[str, Any]],
    stages: Sequence[Mapping[str, Any]],
    spine: Mapping[str, Any] | None = None,
    drawn: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Everything worth knowing about a finished release, as plain data.

    Args:
        root: Release folder.
        files: SHA-256 of the files that the run has written, by path.
        plan, plan_digest, event: What was planned and spent.
        privacy: The guarantee, in numbers and words.
        run_id: Public name of the run.
        private: False when the run used a test key.
        input_commitment: Keyed hash of the records; without the key, gone when the run ends, it confirms nothing.
        geography_digest: Hash of the public spine.
        sizes: Sizes of what is published.
        solver: By geolevel, how families were solved.
        checks: What was verified on the written files.
        stages: Seconds and memory by stage.
        spine: How the spine was made, and how far areas are from it; None where there are no entities and no steps.
        drawn: Counts that keep the invariants by their noise: law, guarantee, sampler.
    Privacy: nothing here is computed from true counts, but for the keyed commitment; seconds and memory are
        those of a run whose noise does not depend on the data in time.
    """
    return {
        "format": MANIFEST_FORMAT,
        "name": plan["name"],
        "run": run_id,
        "private": private,
        "warnings": []
        if private
        else ["Made with an insecure test key: this release protects nobody and must not be published."],
        "plan": dict(plan),
        "plan_digest": plan_digest,
        "privacy": dict(privacy),
        "event": dict(event),
        "inputs": {"records_keyed_hash": input_commitment, "geography_sha256": geography_digest},
        **({} if spine is None else {"spine": dict(spine)}),
        **({"drawn": [dict(item) for item in drawn]} if drawn else {}),
        "sizes": dict(sizes),
        "solver": dict(solver),
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
