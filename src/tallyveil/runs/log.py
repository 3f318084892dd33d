"""log.jsonl of a run folder: when what happened, one JSON object a line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tallyveil.storage.outputs import remove
from tallyveil.storage.write import store_error

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
