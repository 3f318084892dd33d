"""Progress of a run: it tells an observer how far it has come, and the command line shows it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable


@runtime_checkable
class Observer(Protocol):
    """Is told how far a run has come. Never told a count of people, nor anything else that is confidential."""

    def stage_started(self, stage: str, total: int) -> None:
        """A stage begins; `total` is its size in the units of `advanced`."""
        ...

    def advanced(self, amount: int) -> None:
        """The stage under way has finished `amount` more."""
        ...

    def stage_finished(self, stage: str, seconds: float) -> None:
        """The stage has ended after that many seconds."""
        ...

    def warned(self, message: str) -> None:
        """Something that the user should know, and that does not stop the run."""
        ...


class SilentObserver:
    """Shows nothing."""

    def stage_started(self, stage: str, total: int) -> None:
        """Pass over."""

    def advanced(self, amount: int) -> None:
        """Pass over."""

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Pass over."""

    def warned(self, message: str) -> None:
        """Pass over."""


class Stopwatch:
    """Times the stages of one run and tells an observer about them."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.seconds: list[tuple[str, float]] = []
        """The stages that have ended, each with its seconds."""

    def advanced(self, amount: int) -> None:
        """Tell the observer that the stage under way has finished `amount` more."""
        self._observer.advanced(amount)

    @contextmanager
    def stage(self, name: str, total: int = 1) -> Iterator[None]:
        """Time what happens inside; `total` is what the observer will see advance."""
        self._observer.stage_started(name, total)
        # A performance counter, which no change of the wall clock disturbs.
        start = time.perf_counter()
        yield
        # Not in a `finally`: a stage that fails has no time, and is not told as finished.
        seconds = time.perf_counter() - start
        self.seconds.append((name, round(seconds, 3)))
        self._observer.stage_finished(name, seconds)
