"""Seconds, memory and machines of a run, in a file outside of the release: they are no output of the mechanism."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.errors import StoreError
from tallyveil.runs.observer import Observer, SilentObserver
from tallyveil.storage.system import peak_memory_mib
from tallyveil.storage.write import store_error


class Timings:
    """An observer that appends one JSON object a line to a file, and hands everything on to another observer.

    A line has the `time`, and an `event` with its details: a stage has begun, or it has ended, with its `seconds` and
    the largest memory of this process until then; or a chunk of a cluster was begun, finished or repeated, with the
    machine and the process that did it. No line has a count or the value of a record.

    Args:
        file: The file, which is made or continued. It must not lie in the folder of the release.
        observer: Is told the same; None for nobody.
        release: The folder that the release will have, where it is known and may not be there yet.
    Raises:
        StoreError: the file cannot be written to, is no file of timings, or lies in the folder of a release.
    """

    def __init__(
        self, file: str | Path, observer: Observer | None = None, release: str | Path | None = None
    ) -> None:
        self._file, self._observer = Path(file), observer or SilentObserver()
        # Anything else that is there, such as a ledger or the records, would be damaged by lines of timings.
        if self._file.exists() and not _is_ours(self._file):
            raise StoreError(
                f"{self._file} is no file of timings. Name a new file, or one that earlier runs wrote.",
                code="write-failed",
            )
        inside = release is not None and self._file.resolve().is_relative_to(Path(release).resolve())
        if inside or any((folder / LEDGER).exists() for folder in self._file.absolute().parents):
            raise StoreError(
                f"{self._file} lies in the folder of a release, which holds nothing of the machine that made it. Name "
                "a file outside of it.",
                code="write-failed",
            )
        # Tried at once: a file that cannot be written to must not end a run that has spent. Only the first line makes
        # the file, so that a command that is refused leaves none.
        is_new = not self._file.exists()
        self._append("")
        if is_new:
            self._file.unlink()

    def note(self, event: str, **details: Any) -> None:
        """Append one event with the present time; raises StoreError."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
        self._append(json.dumps(line) + "\n")

    def stage_started(self, stage: str, total: int) -> None:
        """Note that a stage begins, and hand it on. Its size may be confidential, so it is left out."""
        self.note("stage started", stage=stage)
        self._observer.stage_started(stage, total)

    def advanced(self, amount: int) -> None:
        """Hand it on."""
        self._observer.advanced(amount)

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Note that the stage has ended, and hand it on."""
        peak = peak_memory_mib()
        self.note("stage finished", stage=stage, seconds=round(seconds, 3), peak_memory_mib=peak)
        self._observer.stage_finished(stage, seconds)

    def warned(self, message: str) -> None:
        """Hand it on."""
        self._observer.warned(message)

    def _append(self, text: str) -> None:
        try:
            # Opened for each line, and appended in one write: lines of several threads do not mix, and a kill loses at
            # most one.
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise store_error(self._file, error) from error


_BEGINNING = b'{"time": "'


def _is_ours(path: Path) -> bool:
    """Whether a plain file is empty, or begins as lines of timings do."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_BEGINNING)) in (b"", _BEGINNING)
