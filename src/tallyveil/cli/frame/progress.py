"""What a long command shows while it works: progress bars, JSON lines, or nothing."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.terminal import say_json
from tallyveil.printable import shown
from tallyveil.runs.observer import Observer, SilentObserver
from tallyveil.runs.timings import Timings


class BarObserver:
    """Shows one progress bar for each stage, on standard error."""

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
        """Add a bar for the stage."""
        # A bar of total 0 would stay at 0 % when it ends, so an empty stage counts as one step.
        self._task = self._progress.add_task(shown(stage), total=max(total, 1))

    def advanced(self, amount: int) -> None:
        """Advance the bar."""
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Fill the bar."""
        if self._task is not None:
            # Totals are upper estimates for some stages; a finished one must still end at 100 %.
            total = self._progress.tasks[self._task].total
            self._progress.update(self._task, completed=total)

    def warned(self, message: str) -> None:
        """Print the warning above the bars."""
        self._progress.console.print(headed("warning", f": {message}", "yellow"), soft_wrap=True)


class JsonObserver:
    """Writes one JSON object on a line when a stage begins or ends, on standard error."""

    def stage_started(self, stage: str, total: int) -> None:
        """Write that a stage begins. The size of the stage may be confidential, so it is left out."""
        self._line({"event": "stage started", "stage": stage})

    def advanced(self, amount: int) -> None:
        """Write nothing: the JSON lines report whole stages."""

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Write that a stage has ended, and its seconds."""
        self._line({"event": "stage finished", "stage": stage, "seconds": round(seconds, 3)})

    def warned(self, message: str) -> None:
        """Write the warning."""
        self._line({"event": "warning", "message": message})

    def _line(self, item: dict[str, object]) -> None:
        say_json(item, err=True)


@contextmanager
def observer_for(
    quiet: bool, as_json: bool, timings: Path | None = None, out: Path | None = None
) -> Iterator[Observer]:
    """The observer that the flags select. Errors are printed on standard error with any of them.

    Raises:
        StoreError: the file of timings cannot be written to, or lies in the folder `out` of the release.
    """
    if as_json or quiet:
        shown: AbstractContextManager[Observer] = nullcontext(JsonObserver() if as_json else SilentObserver())
    else:
        shown = BarObserver()
    with shown as observer:
        yield observer if timings is None else Timings(timings, observer, out)
