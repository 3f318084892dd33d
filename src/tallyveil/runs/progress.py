"""How far a run has come, for people who ask from elsewhere: `private/progress.json`, replaced while the run goes on.

The process that holds the folder's lock writes the file when a stage begins, and at most once a second while the stage
advances. The file goes with the private folder at the end. It is in no digest, and nothing in a run reads it. Like
everything that an observer is told, it holds nothing confidential.
"""

import json
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.observer import Observer, SilentObserver

PROGRESS: Final = "progress.json"
PROGRESS_FORMAT: Final = 1
_BETWEEN: Final = 1.0
"""Least seconds between two writes while a stage advances."""


class Progress:
    """Hands everything on to an observer, and writes it into the private folder once that is held."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer or SilentObserver()
        self._folder: RunFolder | None = None
        self._finished: list[dict[str, object]] = []
        self._stage: dict[str, object] | None = None
        self._done = 0
        self._written = 0.0

    @classmethod
    def of(cls, observer: Observer | None) -> "Progress":
        """The observer itself if it writes progress already; otherwise one that hands everything on to it."""
        return observer if isinstance(observer, Progress) else cls(observer)

    def begin(self, folder: RunFolder) -> None:
        """Write into this folder as long as its lock is held. Where the run is interrupted, the file stays."""
        self._folder = folder
        self._write()

    def stage_started(self, stage: str, total: int) -> None:
        """Write that a stage begins, and hand it on."""
        self._stage = {"stage": stage, "begun": _now(), "total": int(total)}
        self._done = 0
        self._write()
        self._observer.stage_started(stage, total)

    def advanced(self, amount: int) -> None:
        """Write how far the stage has come, unless that was written just now, and hand it on."""
        self._done += int(amount)
        if time.monotonic() - self._written >= _BETWEEN:
            self._write()
        self._observer.advanced(amount)

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Keep that the stage has ended for the next write, and hand it on."""
        self._finished.append({"stage": stage, "seconds": round(seconds, 3)})
        self._stage = None
        self._observer.stage_finished(stage, seconds)

    def warned(self, message: str) -> None:
        """Hand on a warning."""
        self._observer.warned(message)

    def _write(self) -> None:
        if self._folder is None or not self._folder.is_held:
            return
        content = {
            "format": PROGRESS_FORMAT,
            "process": os.getpid(),
            "written": _now(),
            "finished": self._finished,
            "under_way": None if self._stage is None else {**self._stage, "done": self._done},
        }
        # Nothing depends on this file. Where the disk is full or fails, the run stops at a file that matters.
        with suppress(StoreError):
            self._folder.write(PROGRESS, json.dumps(content).encode(), lasting=False)
        self._written = time.monotonic()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
