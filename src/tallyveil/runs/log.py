"""log.jsonl of a run folder: when what happened, one JSON object a line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tallyveil.storage.outputs import remove
from tallyveil.storage.system import regular_bytes
from tallyveil.storage.write import store_error, write_text

LOG = "log.jsonl"


class RunLog:
    """Appends events to the log of a run; events hold no count and no record value.

    Whatever else stands in the log's place, such as a folder or a link, is removed: nothing depends on the log.

    Raises:
        StoreError: the disk is full, or the folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
        # Opening a link for appending would write into whatever it points to.
        if self._path.is_symlink() or not self._path.is_file():
            remove(self._path)

    def write(self, event: str, **details: Any) -> None:
        """Append one event with the present time."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
        try:
            # Opened for each line, and appended in one write: lines of several threads do not mix, and a kill loses
            # at most one.
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError as error:
            raise store_error(self._path, error) from error


def log_lines(folder: Path) -> list[Any]:
    """The lines of the log of a run as plain data; None for one that is no JSON, and no line where there is no log."""
    path = folder / LOG
    if not path.is_file():
        return []
    lines: list[Any] = []
    # Only a line feed ends a line. What follows the last one is a line as well, which no finished run leaves.
    for line in regular_bytes(path).removesuffix(b"\n").split(b"\n"):
        try:
            lines.append(json.loads(line))
        except (ValueError, RecursionError):
            lines.append(None)
    return lines


PUBLISHED: Final = ("event", "run", "protected", "stage")
"""What a log that is published holds: no time, no memory, no machine and no process."""


def clean_log(folder: Path) -> None:
    """Leave in the log which stages ended, in order, and nothing else; raises StoreError."""
    lines = [line for line in log_lines(folder) if isinstance(line, dict) and "host" not in line]
    kept_keys = [{key: line[key] for key in PUBLISHED if key in line} for line in lines]
    if (folder / LOG).is_file():
        write_text(folder / LOG, "".join(json.dumps(line) + "\n" for line in kept_keys))
