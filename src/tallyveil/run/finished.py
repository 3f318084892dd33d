"""Opening a finished release: the one way in for every command that reads one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tallyveil.errors import StoreError
from tallyveil.run.folder import LEDGER, MANIFEST, PRIVATE
from tallyveil.run.stages import require_run
from tallyveil.storage.write import store_error

RELEASE: Final = "release"
"""Kind of a release of the main job, whose manifest does not name one."""
MADE_BY: Final = {
    RELEASE: "tallyveil run",
    "safetab": "tallyveil safetab run",
    "safetab-households": "tallyveil safetab households",
    "integer-subspace": "tallyveil subspace release",
}


def finished_manifest(root: Path, *kinds: str) -> dict[str, Any]:
    """The manifest of a finished release.

    Args:
        root: Its folder.
        kinds: What it may be, keys of `MADE_BY`; any of them without it.
    Raises:
        StoreError: the folder holds no such release, or the release is not finished, or its manifest is damaged, or a
            file stands there that another run wrote.
    """
    refuse_unfinished(root)
    wanted = kinds or tuple(MADE_BY)
    makers = " or ".join(f"`{MADE_BY[kind]}`" for kind in wanted)
    manifest = read_manifest(root / MANIFEST) if (root / MANIFEST).exists() else {}
    if not manifest or kind_of(manifest) not in wanted:
        raise StoreError(
            f"{root} holds no finished release made by {makers}. Name the folder that it wrote to.",
            code="no-release",
        )
    for path in listed_files(manifest):
        if (root / path).is_file():
            require_run(root / path, manifest["run"])
    return manifest


def refuse_unfinished(root: Path) -> None:
    """Refuse a folder whose run is not finished, or whose key may still be there.

    Raises:
        StoreError: it is; says what to run.
    """
    try:
        private = (root / PRIVATE).exists() or (root / PRIVATE).is_symlink()
        begun = (root / LEDGER).exists() and not (root / MANIFEST).exists()
    except OSError as error:
        raise store_error(root / MANIFEST, error) from error
    if private or begun:
        why = "its private folder is still there, which may hold the key" if private else "it has no manifest"
        raise StoreError(
            f"the run in {root} is not finished: {why}. Run the command that began it once more, with the same inputs: "
            "it finishes the release and removes the key, and spends nothing more.",
            code="release-unfinished",
        )


def kind_of(manifest: Mapping[str, Any]) -> Any:
    """What made a release."""
    return manifest.get("kind", RELEASE)


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest as it is written.

    Raises:
        StoreError: it cannot be read, or is none.
    """
    try:
        return parse_manifest(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} cannot be read as the manifest of a release: {type(error).__name__}. Restore it from a copy.",
            code="release-unreadable",
        ) from None


def parse_manifest(data: bytes) -> dict[str, Any]:
    """A manifest from its bytes.

    Raises:
        ValueError: they are no JSON object, or lack what every manifest has.
    """
    content = json.loads(data)
    if not isinstance(content, dict) or not all(
        isinstance(content.get(name), str) for name in ("run", "plan_digest")
    ):
        raise ValueError("no manifest")
    listed_files(content)
    return content


def listed_files(manifest: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of the files that a manifest lists, by path.

    Raises:
        ValueError: the list is none.
    """
    files = manifest.get("files")
    try:
        pairs = files.items() if isinstance(files, dict) else [(f["path"], f["sha256"]) for f in files or ()]
    except (KeyError, TypeError):
        raise ValueError("no list of files") from None
    found = dict(pairs)
    if not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise ValueError("no list of files")
    return found
