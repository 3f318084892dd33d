"""Whether a folder holds a finished release, and whether its files are of one run."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.accounting.ledger.lines import LEDGER, first_lines
from tallyveil.declared import Declared, Text, Whole
from tallyveil.errors import StoreError
from tallyveil.measurements.names import FOLDER as MEASUREMENTS
from tallyveil.storage.read import UNREADABLE, parquet_metadata
from tallyveil.storage.system import regular_bytes
from tallyveil.storage.write import store_error

MANIFEST: Final = "manifest.json"
PLAN: Final = "plan.json"
LOG: Final = "log.jsonl"
"""What earlier versions wrote beside a release: stages with times, and machines of a cluster."""
_LEAST_LINES = 2  # what the ledger declares, and the spend
PROGRAMME: Final = "programme.json"
"""What a folder says whose releases a programme has made. In the private folder: what an unfinished one must keep."""
PRIVATE: Final = "private"
"""Folder of the key and the checkpoints, there only while a run is unfinished."""


def refuse_unfinished(root: Path) -> None:
    """Refuse a folder whose run is not finished, or whose key may still be there.

    Raises:
        StoreError: it is; says what to run.
    """
    try:
        # exists() follows links, so a dangling link to a private folder would pass as none.
        private = (root / PRIVATE).exists() or (root / PRIVATE).is_symlink()
        begun = (root / LEDGER).exists() and not (root / MANIFEST).exists()
    except OSError as error:
        raise store_error(root / MANIFEST, error) from error
    if private or begun:
        why = "its private folder is still there, which may hold the key" if private else "it has no manifest"
        raise StoreError(
            f"the run in {root} is not finished: {why}. Run the command that began it once more, with the same "
            "inputs. It finishes the release and removes the key, or says again why it ended, and spends nothing more.",
            code="release-unfinished",
        )


@dataclass(frozen=True, slots=True)
class LedgerRecord(Declared):
    """A ledger as a manifest names it: the number of its lines, and their SHA-256."""

    lines: Whole
    sha256: Text


def ledger_record(root: Path) -> LedgerRecord:
    """The ledger of a folder as it is now."""
    data = ledger_bytes(root)
    return record_of(data, data.count(b"\n"))


def record_of(data: bytes, lines: int) -> LedgerRecord:
    """The first lines of a ledger, all that there are if there are fewer."""
    # Lines are counted again: a ledger that was cut short has fewer, and must not equal the record.
    begin = first_lines(data, lines)
    return LedgerRecord(begin.count(b"\n"), hashlib.sha256(begin).hexdigest())


def require_ledger(root: Path, stated: LedgerRecord) -> None:
    """Refuse a ledger that has lost or changed a line since the run ended; later acts may have added some.

    Raises:
        StoreError: the ledger does not begin with the lines that the run wrote.
    """
    if stated.lines < _LEAST_LINES or record_of(ledger_bytes(root), stated.lines) != stated:
        raise StoreError(
            f"the ledger {root / LEDGER} does not begin with the lines that the run wrote, so it no longer shows what "
            "was spent. Restore it from a copy of this release.",
            code="ledger-damaged",
        )


def ledger_bytes(root: Path) -> bytes:
    """Content of the ledger of a folder; raises StoreError."""
    try:
        return regular_bytes(root / LEDGER)
    except OSError as error:
        raise StoreError(
            f"the ledger {root / LEDGER} cannot be read: {type(error).__name__}. Restore it from a copy of this "
            "release.",
            code="ledger-damaged",
        ) from None


def runs_of(name: str, run: str, spender: str) -> tuple[str, ...]:
    """The runs that may have written a file of a release.

    Noisy answers of an estimate are copies of the files of the run that drew them.

    Args:
        name: The file, as a path in the release folder.
        run: Public name of the run of the release.
        spender: That of the run whose spend its ledger shows.
    """
    return (run, spender) if name.startswith(f"{MEASUREMENTS}/") else (run,)


def require_run(path: Path, *runs: str, protected: bool) -> None:
    """Refuse a Parquet file of another run; other files carry no name of a run.

    Args:
        path: The file.
        runs: Public names of the runs that may have written it (`runs_of`).
        protected: Whether these runs are said to protect people. A file that was made with a test key contradicts it.
    Raises:
        StoreError: the file is of another run, says that it protects nobody, or is damaged.
    """
    # Other formats have no metadata that could name a run.
    if path.suffix != ".parquet":
        return
    try:
        tags = parquet_metadata(path)
    except UNREADABLE:
        # No tags name no run, so a damaged file is refused below with the words for both.
        tags = {}
    unprotected = tags.get("tallyveil.protected", "true") != "true"
    wrong = None if tags.get("tallyveil.run") in runs else "is damaged, or was written by another run than"
    if wrong is None and protected and unprotected:
        wrong = (
            "was made with an insecure test key, although the manifest says that people are protected by run"
        )
    if wrong is not None:
        raise StoreError(
            f"{path} {wrong} {runs[0]}. Restore it from a copy of this release. To make the release again elsewhere "
            "would be a new spend.",
            code="release-damaged",
        )


def require_fits(fits: bool, what: str) -> None:
    """Refuse a release whose statement does not fit what follows from its files; raises StoreError."""
    if not fits:
        raise StoreError(what, code="release-damaged")
