"""The mark in the manifest of a finished release whose true counts somebody has looked at."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tallyveil.accounting.events import UNPROTECTED, NonPrivateEvent
from tallyveil.accounting.ledger.lines import LedgerEntry
from tallyveil.release.finished import ledger_record
from tallyveil.release.manifest_files import read_manifest, write_manifest

DECLASSIFIED: Final = (
    "True counts were compared with this release. The results, such as the folder evaluation/, are NOT PRIVATE "
    "and must not be published; the guarantee covers the release without them."
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
    looks = tuple(
        {"line": entry.sequence, "description": entry.description, "reason": entry.event.reason}
        for entry in entries
        if isinstance(entry.event, NonPrivateEvent) and entry.event not in UNPROTECTED
    )
    manifest = read_manifest(root)
    warnings = tuple(dict.fromkeys([*manifest.warnings, DECLASSIFIED]))
    now = replace(manifest, warnings=warnings, declassified=looks, ledger=ledger_record(root))
    write_manifest(root, now)
