"""How far a run has come: what it writes down for people who ask, and what is seen from outside.

The process that holds the folder's lock writes `private/progress.json` when a stage begins, and at most once
a second while the stage advances. The file goes with the private folder at the end. It is in no digest, and
nothing in a run reads it. Like everything that an observer is told, it holds nothing confidential.

Who asks writes nothing, and keeps nobody waiting. The folder may change while it is looked at: files appear,
are replaced, and are gone. Each file is therefore read by itself, and a file that is missing, cut off or no
plain file counts as absent. Whether a process holds the folder is asked of the operating system, so that a
process that was killed is never taken for one that works.
"""

import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER, spent
from tallyveil.declared import ContentInPart, Declared, Format1, Many, Number, Text, Whole, mapping_of
from tallyveil.errors import StoreError
from tallyveil.files.finished import PRIVATE, PROGRAMME
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import written_manifest
from tallyveil.files.marks import Marks, joined, ledger_marks, marks_of
from tallyveil.runs.folder import LOCK_FILE, FolderState, RunFolder, folder_state
from tallyveil.runs.observer import Observer, SilentObserver
from tallyveil.storage.json_files import parsed
from tallyveil.storage.paths import inside
from tallyveil.storage.system import is_locked, open_to_read

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
        finished: Stages that have ended, in order, also those of earlier processes.
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
        earlier = parsed(folder.read(PROGRESS) or b"", ProgressFile)
        if earlier is not None:
            self._finished = [*earlier.finished, *self._finished]
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


_MOST_BYTES: Final = 1 << 22
"""Bytes read of a file. The progress of a run has some thousand, and what is longer is no JSON that a run wrote."""
# Twice as many looks would keep a caller waiting no noticeably longer; with one, a folder in change is misjudged.
_LOOKS: Final = 5
"""How often a folder is looked at that changes from one state to another meanwhile."""
# Half of either would show times that are off by many times at the start of a stage; twice hides good ones longer.
_LEAST_SECONDS: Final = 5.0
_LEAST_SHARE: Final = 0.02
"""Before so many seconds and such a share of a stage, its rate says too little about what is left."""

Clock = Callable[[], datetime]


class ReleasesBegun(ContentInPart):
    """The names of the releases in what an unfinished programme keeps."""

    begun: dict[str, str | None]
    waiting: dict[str, dict[str, Any]]


class NamedFolder(ContentInPart):
    """A release of a finished programme, which is in the folder of this name."""

    name: str


class ReleasesNamed(ContentInPart):
    """The names of the releases in `programme.json`."""

    releases: list[NamedFolder]


@dataclass(frozen=True, slots=True)
class StageUnderWay:
    """The stage that a run is in, or was in when it was interrupted.

    Attributes:
        stage: Its name.
        done: How much of it was finished when this was last written, at most a second ago while it advances.
        total: All of it, in the same units, such as families, noisy answers or rows to publish. Never a true count.
        seconds: Since it began; to the last word of the run if no process holds the folder.
    """

    stage: str
    done: int
    total: int
    seconds: float

    @property
    def rate(self) -> float | None:
        """Units a second; None before any was finished, and for a stage of one piece."""
        # `done` is never a count of people, so a rate of it tells nothing of them.
        return self.done / self.seconds if self.done > 0 and self.total > 1 and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until this stage ends if it goes on at its mean rate; None where that says too little."""
        early = self.seconds < _LEAST_SECONDS or self.done < _LEAST_SHARE * self.total
        if self.rate is None or early or self.done > self.total:
            return None
        return (self.total - self.done) / self.rate


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """What the ledger shows.

    Attributes:
        state: Whether it is there and whole.
        unit: "rho" or "epsilon"; None where it cannot be read.
        declared, spent: Exact; None where it cannot be read.
        marks: What it says of the protection of people; None where it cannot be read.
    """

    state: Literal["absent", "whole", "damaged"]
    unit: str | None = None
    declared: Fraction | None = None
    spent: Fraction | None = None
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run folder, seen from outside.

    Attributes:
        path: The folder.
        state: What it holds.
        held: Whether a process holds it; None where this cannot be told, because the private folder is another user's.
        process: Number of the process that holds it or held it last; None where it is not known.
        finished: Stages that have ended, in order.
        under_way: The stage that the run is in, or was interrupted in; None where none is known.
        ledger: What it shows.
        damage: What is wrong with the manifest of a finished release; None where nothing is.
        marks: What must be said of the release, by its manifest, or by its ledger where there is none; for a programme,
            by those of its releases. None where nothing tells.
        is_complete: Whether the release, or every release of the programme, is finished and its private folder gone.
        releases: For the folder of a programme, its releases by name.
    """

    path: Path
    state: FolderState
    held: bool | None
    process: int | None
    finished: tuple[FinishedStage, ...]
    under_way: StageUnderWay | None
    ledger: LedgerStatus
    damage: str | None
    marks: Marks | None
    is_complete: bool
    releases: "tuple[tuple[str, RunStatus], ...]" = ()


def run_status(path: Path, now: Clock = lambda: datetime.now(UTC)) -> RunStatus:
    """Look at the folder of a run or of a programme.

    Args:
        path: The folder; it need not exist.
        now: The clock.
    Raises:
        StoreError: the path is a file, or cannot be read.
    """
    # Two looks that agree in state and lock: the files in between belong to one state of the folder.
    status = _look(path, now)
    for _ in range(_LOOKS):
        again = _look(path, now)
        if (again.state, again.held) == (status.state, status.held):
            return again
        status = again
    return status


def _look(path: Path, now: Clock) -> RunStatus:
    state = folder_state(path)
    # Asked of the operating system, which gives back the lock of a killed process.
    held = is_locked(path / PRIVATE / LOCK_FILE)
    progress = parsed(_content(path / PRIVATE / PROGRESS), ProgressFile)
    manifest, damage = _manifest(path) if state is FolderState.FINISHED else (None, None)
    ledger = _ledger(path)
    releases = _releases(path, now) if state is FolderState.PROGRAMME else ()
    whole = state is FolderState.FINISHED and damage is None
    # A programme without any release is not complete.
    is_complete = whole or (bool(releases) and all(status.is_complete for _, status in releases))
    return RunStatus(
        path=path,
        state=state,
        held=held,
        process=None if progress is None else progress.process,
        finished=_finished(progress),
        # Without a process, time stops at the last word of the run: what was interrupted does not go on ageing.
        under_way=None if progress is None else _under_way(progress, now if held else None),
        ledger=ledger,
        damage=damage,
        marks=_joint(releases) if releases else ledger.marks if manifest is None else marks_of(manifest),
        is_complete=is_complete and not (path / PRIVATE).exists(),
        releases=releases,
    )


def _under_way(progress: ProgressFile, now: Clock | None) -> StageUnderWay | None:
    """The stage that a run is in, by the clock; or that it was in when it last wrote, without a clock."""
    stage = progress.under_way
    if stage is None:
        return None
    begun, until = _time(stage.begun), _time(progress.written) if now is None else now()
    # A clock that was set back gives less than nothing.
    seconds = 0.0 if begun is None or until is None else max(0.0, (until - begun).total_seconds())
    return StageUnderWay(stage.stage, stage.done, stage.total, seconds)


def _finished(progress: ProgressFile | None) -> tuple[FinishedStage, ...]:
    """Stages that have ended, each once."""
    stages = () if progress is None else progress.finished
    # By name, and the last one wins: a stage that was repeated after a kill has the time of its last pass.
    return tuple({stage.stage: stage for stage in stages}.values())


def _ledger(path: Path) -> LedgerStatus:
    try:
        if not stat.S_ISREG((path / LEDGER).lstat().st_mode):
            return LedgerStatus("damaged")
        # A first line without its end is what `runs.once` takes for a ledger that was only begun.
        if b"\n" not in (path / LEDGER).read_bytes():
            return LedgerStatus("absent")  # only being begun
        declaration, entries = read_ledger(path / LEDGER)
    except FileNotFoundError:
        return LedgerStatus("absent")
    except (OSError, StoreError):
        return LedgerStatus("damaged")
    marks = ledger_marks(entry.event for entry in entries)
    return LedgerStatus("whole", declaration.budget_unit, declaration.total, spent(entries), marks)


def _manifest(path: Path) -> tuple[Manifest | None, str | None]:
    """A manifest, and what is wrong with it, in words: one of the two."""
    try:
        return written_manifest(path), None
    except StoreError as error:
        return None, str(error)


def _joint(releases: tuple[tuple[str, RunStatus], ...]) -> Marks | None:
    """The marks of a programme; None where nothing tells those of any release."""
    marks = {name: status.marks for name, status in releases if status.marks is not None}
    return joined(marks) if marks else None


def _releases(path: Path, now: Clock) -> tuple[tuple[str, RunStatus], ...]:
    """The releases of a programme, by what its folder says of them while it is unfinished, or once it is finished."""
    names: Sequence[str] = ()
    unfinished = parsed(_content(path / PRIVATE / PROGRAMME), ReleasesBegun)
    finished = parsed(_content(path / PROGRAMME), ReleasesNamed)
    if unfinished is not None:
        names = [*unfinished.begun, *unfinished.waiting]
    elif finished is not None:
        names = [release.name for release in finished.releases]
    releases = []
    # A damaged file may name a release twice.
    for name in dict.fromkeys(names):
        try:
            releases.append((name, _look(inside(path, name), now)))
        except StoreError:  # a damaged file of the programme names what is no folder of a release
            continue
    return tuple(releases)


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time


def _content(path: Path) -> bytes:
    """The bytes of a plain file; none where it is no plain file, or cannot be read."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # a pipe would never end
            return b""
        with os.fdopen(open_to_read(path), "rb") as stream:
            return stream.read(_MOST_BYTES)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return b""
