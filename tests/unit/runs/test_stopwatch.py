"""Stages are timed, told to the observer in order, and recorded once each."""

import time

import pytest

from tallyveil.runs.observer import SilentObserver, Stopwatch


class Watching(SilentObserver):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def stage_started(self, stage: str, total: int) -> None:
        self.told.append((stage, total))

    def stage_finished(self, stage: str, seconds: float) -> None:
        self.told.append((stage, seconds))


def test_stages_are_told_and_recorded_in_order(monkeypatch):
    clock = iter([10.0, 10.25, 20.0, 21.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    observer = Watching()
    watch = Stopwatch(observer)
    with watch.stage("read", 3):
        assert observer.told == [("read", 3)]
        assert watch.seconds == []
    with watch.stage("measure"):
        pass
    assert observer.told == [("read", 3), ("read", 0.25), ("measure", 1), ("measure", 1.5)]
    assert watch.seconds == [("read", 0.25), ("measure", 1.5)]


def test_a_stage_that_fails_is_not_recorded_as_finished():
    observer = Watching()
    watch = Stopwatch(observer)
    with pytest.raises(KeyError), watch.stage("estimate"):
        raise KeyError
    assert watch.seconds == []
    assert observer.told == [("estimate", 1)]


def test_the_silent_observer_passes_over_everything():
    silent = SilentObserver()
    silent.stage_started("read", 1)
    silent.advanced(1)
    silent.warned("small machine")
    silent.stage_finished("read", 0.1)
