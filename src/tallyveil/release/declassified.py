"""The mark that a finished release carries once its true counts have been looked at."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallyveil.accounting.events import UNPROTECTED, NonPrivateEvent
from tallyveil.accounting.ledger_lines import LedgerEntry
from tallyveil.release.finished import MANIFEST
from tallyveil.release.manifest import read_manifest
from tallyveil.storage.write import write_json

DECLASSIFIED: Final = (
    "True counts were compared with this release. What came of that, such as the folder evaluation/, is NOT PRIVATE "
    "and must not be published; the guarantee covers the release without it."
)


def mark_declassified(root: Path, entries: Sequence[LedgerEntry]) -> None:
    """Write into a finished release's manifest which looks at the true counts its ledger records.

    The release itself stays as private as it was, so `private` stays as it is: a warning is added, and the lines of
    the ledger are named under `declassified`. Marking again changes nothing but for new lines.

    Args:
        root: Folder of the release.
        entries: Of its ledger.
    """
    looks = [
        {"line": entry.sequence, "description": entry.description, "reason": entry.event.reason}
        for entry in entries
        if isinstance(entry.event, NonPrivateEvent) and entry.event not in UNPROTECTED
    ]
    manifest = read_manifest(root)
    manifest["warnings"] = list(dict.fromkeys([*manifest["warnings"], DECLASSIFIED]))
    manifest["declassified"] = looks
    write_json(root / MANIFEST, manifest)
