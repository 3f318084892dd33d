"""What a long command shows while it works: bars, JSON lines, or nothing."""

import json
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tallyveil.cli.terminal import Screen, headed, say
from tallyveil.printable import shown
from tallyveil.run.observer import Observer, SilentObserver


class BarObserver:
    """One bar a stage, on standard error."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<24}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Screen(stderr=True),
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def stage_started(self, stage: str, total: int) -> None:
        """Open the stage's bar."""
        self._task = self._progress.add_task(shown(stage), total=max(total, 1))

    def advanced(self, amount: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Fill the bar."""
        if self._task is not None:
            total = self._progress.tasks[self._task].total
            self._progress.update(self._task, completed=total)

    def warned(self, message: str) -> None:
        """Print the warning above the bars."""
        self._progress.console.print(headed("warning", f": {message}", "yellow"), soft_wrap=True)


class JsonObserver:
    """One JSON object a line on standard error for every stage."""

    def stage_started(self, stage: str, total: int) -> None:
        """Say that a stage begins; its size may be confidential, so it is not shown."""
        self._line({"event": "stage started", "stage": stage})

    def advanced(self, amount: int) -> None:
        """Pass over: programs ask for stages."""

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Say that a stage has ended."""
        self._line({"event": "stage finished", "stage": stage, "seconds": round(seconds, 3)})

    def warned(self, message: str) -> None:
        """Say the warning."""
        self._line({"event": "warning", "message": message})

    def _line(self, item: dict[str, object]) -> None:
        say(json.dumps(item), err=True)


def observer_for(quiet: bool, as_json: bool) -> AbstractContextManager[Observer]:
    """The observer that the flags ask for; errors reach standard error whatever they are."""
    if as_json:
        return nullcontext(JsonObserver())
    return nullcontext(SilentObserver()) if quiet else BarObserver()
