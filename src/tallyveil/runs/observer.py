"""Progress of a run: the run tells an observer how far it has come, and the command line shows it."""

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
