"""Releases whose counts were estimated from the measurements of another folder: how they are told apart."""

from pathlib import Path

from tallyveil.errors import StoreError
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest import Manifest
from tallyveil.storage.json_files import JsonObject


def require_own_kind(
    root: Path,
    manifest: Manifest,
    kind: ReleaseKind,
    estimated_from: JsonObject | None = None,
) -> None:
    """Refuse a finished release of the same plan that another command made.

    Args:
        root: Its folder.
        manifest: Its manifest.
        kind: What the present command makes.
        estimated_from: The measurements that the release is to be estimated from; None for one that draws its own.
    Raises:
        StoreError: the folder holds something else.
    """
    if manifest.kind is not kind or manifest.estimated_from != estimated_from:
        raise StoreError(
            f"{root} holds finished work on the same plan by another command, or on other measurements. A release "
            "with measurements of its own, a release estimated from the measurements of another folder, and "
            "measurements alone are three different things. Choose another folder.",
            code="folder-taken",
        )


def copied_lines(manifest: Manifest) -> int:
    """How many lines at the beginning of a release's ledger are those of the run it was estimated from; else 0."""
    stated = manifest.estimated_from
    return 0 if stated is None else int(stated["ledger"]["lines"])
