"""log.jsonl of a run folder: when what happened, one JSON object a line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOG = "log.jsonl"


class RunLog:
    """Appends events to the log of a run; events hold no count and no record value."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG

    def write(self, event: str, **details: Any) -> None:
        """Append one event with the present time."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
