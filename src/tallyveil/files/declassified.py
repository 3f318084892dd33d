"""The mark in the manifest of a finished release whose true counts somebody has looked at."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tallyveil.accounting.events import UNPROTECTED, NonPrivateEvent
from tallyveil.accounting.ledger.lines import LedgerEntry
from tallyveil.errors import StoreError
from tallyveil.files.data_package import DATA_PACKAGE, marked_package, require_markable_package
from tallyveil.files.finished import ledger_record
from tallyveil.files.intervals import INTERVALS, README
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_manifest, write_manifest
from tallyveil.files.marks import marked_text, marks_of
from tallyveil.storage.json_files import JsonObject, read_text_file
from tallyveil.storage.write import write_text


def require_markable(root: Path, manifest: Manifest) -> None:
    """Refuse a release whose files cannot take the mark, before its ledger says that somebody looked.

    Args:
        root: Folder of the release.
        manifest: Its manifest.
    Raises:
        StoreError: a file that takes the mark is missing, was changed or cannot be read.
    """
    require_markable_package(root, manifest)
    readme = root / INTERVALS / README
    if readme.is_file():
        _text_of(readme)


def looks_of(entries: Sequence[LedgerEntry]) -> tuple[JsonObject, ...]:
    """What a manifest says of the looks at the true counts that a ledger records."""
    return tuple(
        {"line": entry.sequence, "description": entry.description, "reason": entry.event.reason}
        for entry in entries
        if isinstance(entry.event, NonPrivateEvent) and entry.event not in UNPROTECTED
    )


def mark_declassified(root: Path, entries: Sequence[LedgerEntry]) -> None:
    """Write into a finished release's manifest which looks at the true counts its ledger records.

    The release itself stays as private as it was, so `protected` is not changed. A warning is added, and the lines of
    the ledger are listed under `declassified`. The manifest takes the digest of the longer ledger, so that the new
    lines cannot be cut off unseen. A second call changes the manifest only if the ledger has new lines.

    Args:
        root: Folder of the release.
        entries: Of its ledger.
    """
    looks = looks_of(entries)
    manifest = read_manifest(root)
    warnings = marks_of(replace(manifest, declassified=looks)).warnings
    files = tuple(
        marked_package(root, manifest.body["plan"], warnings) if file.path == DATA_PACKAGE else file
        for file in manifest.files
    )
    now = replace(manifest, warnings=warnings, declassified=looks, ledger=ledger_record(root), files=files)
    write_manifest(root, now)
    readme = root / INTERVALS / README
    if readme.is_file():  # no manifest holds its digest
        write_text(readme, marked_text(marks_of(now).lines(), _text_of(readme)))


def _text_of(path: Path) -> str:
    try:
        return read_text_file(path)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read as text: {type(error).__name__}. Make the intervals again with `tallyveil "
            "intervals`, which writes it with its mark.",
            code="release-damaged",
        ) from None
