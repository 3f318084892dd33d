"""What an observer is told by the releases of a programme: each stage with the name of its release."""

from tallyveil.runs.observer import Observer


class Prefixed:
    """Hands everything on to an observer, with the same words before each stage and each warning.

    Attributes:
        heard: Warnings that were handed on already, and are not handed on again.
    """

    def __init__(self, observer: Observer, words: str, heard: set[str]) -> None:
        self._observer, self._words, self.heard = observer, words, heard

    def stage_started(self, stage: str, total: int) -> None:
        """Hand on that a stage begins."""
        self._observer.stage_started(self._words + stage, total)

    def advanced(self, amount: int) -> None:
        """Hand on how far the stage has come."""
        self._observer.advanced(amount)

    def stage_finished(self, stage: str, seconds: float) -> None:
        """Hand on that the stage has ended."""
        self._observer.stage_finished(self._words + stage, seconds)

    def warned(self, message: str) -> None:
        """Hand on a warning, once."""
        if message not in self.heard:
            self.heard.add(message)
            self._observer.warned(self._words + message)
