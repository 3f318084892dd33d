"""How far a run has come, for people who ask from elsewhere: `private/progress.json`, replaced while the run goes on.

The process that holds the folder's lock writes the file when a stage begins, and at most once a second while the stage
advances. The file goes with the private folder at the end. It is in no digest, and nothing in a run reads it. Like
everything that an observer is told, it holds nothing confidential.
"""

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import Field

from tallyveil.declared import Declared, Format1, Many, Number, Text, Whole, mapping_of
from tallyveil.errors import StoreError
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.observer import Observer, SilentObserver

PROGRESS: Final = "progress.json"
_BETWEEN: Final = 1.0
"""Least seconds between two writes while a stage advances."""

# At twice this value a float would skip whole numbers; half of it would still be above everything that a run writes.
MOST: Final = 1 << 53
"""Above all numbers that a run writes: seconds, families, noisy answers, rows. Floats count exactly up to here."""


@dataclass(frozen=True, slots=True)
class FinishedStage(Declared):
    """A stage that has ended, and how many seconds it took."""

    stage: Text
    seconds: Annotated[Number, Field(ge=0, lt=MOST)]


@dataclass(frozen=True, slots=True)
class BegunStage(Declared):
    """The stage under way: when it began, all of it, and how much of that was finished."""

    stage: Text
    begun: Text
    total: Annotated[Whole, Field(lt=MOST)]
    done: Annotated[Whole, Field(ge=0, lt=MOST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressFile(Declared):
    """The content of the file.

    Attributes:
        format: Of the file.
        process: Number of the process that wrote it.
        written: When.
        finished: Stages that have ended in this process, in order.
        under_way: The stage that the process is in.
    """

    format: Format1 = 1
    process: Whole
    written: Text
    finished: Many[FinishedStage]
    under_way: BegunStage | None


class Progress:
    """Hands everything on to an observer, and writes it into the private folder once that is held."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer or SilentObserver()
        self._folder: RunFolder | None = None
        self._finished: list[FinishedStage] = []
        self._stage: BegunStage | None = None
        self._written = 0.0

    @classmethod
    def of(cls, observer: Observer | None) -> "Progress":
        """The observer itself if it writes progress already; otherwise one that hands everything on to it."""
        # A `Progress` in a `Progress` would write the file twice.
        return observer if isinstance(observer, Progress) else cls(observer)

    def begin(self, folder: RunFolder) -> None:
        """Write into this folder as long as its lock is held. Where the run is interrupted, the file stays."""
        self._folder = folder
        self._write()

    def stage_started(self, stage: str, total: int) -> None:
        """Write that a stage begins, and hand it on."""
        self._stage = BegunStage(stage, _now(), int(total), 0)
        # At once, whatever the time of the last write: a new stage is what people wait for.
        self._write()
        self._observer.stage_started(stage, total)

    def advanced(self, amount: int) -> None:
        """Write how far the stage has come, unless that was written just now, and hand it on."""
        if self._stage is not None:
            self._stage = replace(self._stage, done=self._stage.done + int(amount))
        # A monotonic clock: one that is set back would stop the writes.
        if time.monotonic() - self._written >= _BETWEEN:
            self._write()
        self._observer.advanced(amount)

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Keep that the stage has ended for the next write, and hand it on."""
        self._finished.append(FinishedStage(stage, round(seconds, 3)))
        self._stage = None
        self._observer.stage_finished(stage, seconds)

    def warned(self, message: str) -> None:
        """Hand on a warning."""
        self._observer.warned(message)

    def _write(self) -> None:
        # After the lock is given up, the private folder may belong to another process.
        if self._folder is None or not self._folder.is_held:
            return
        content = ProgressFile(
            process=os.getpid(), written=_now(), finished=tuple(self._finished), under_way=self._stage
        )
        # Nothing depends on this file. Where the disk is full or fails, the run stops at a file that matters.
        with suppress(StoreError):
            self._folder.write(PROGRESS, json.dumps(mapping_of(content)).encode(), lasting=False)
        self._written = time.monotonic()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
