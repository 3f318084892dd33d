"""Timings of a run: lines in a file outside of the release, and everything is handed on."""

import json
from datetime import UTC, datetime

import pytest

from tallyveil.errors import StoreError
from tallyveil.runs.observer import SilentObserver, Stopwatch
from tallyveil.runs.timings import Timings


def test_lines_say_when_what_and_how_long(tmp_path):
    timings = Timings(tmp_path / "timings.jsonl")
    with Stopwatch(timings).stage("é", 12_345):
        timings.advanced(1)
    timings.warned("small machine")
    begun, ended = map(json.loads, (tmp_path / "timings.jsonl").read_bytes().splitlines())
    assert "12345" not in str(begun)  # how large a stage is may be confidential
    moment = ended.pop("time")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()) < 60
    assert (begun["event"], ended["event"], ended["stage"]) == ("stage started", "stage finished", "é")
    assert 0 <= ended["seconds"] < 60
    assert ended["peak_memory_mib"] > 10


def test_the_file_is_continued_and_others_are_told(tmp_path):
    told = []

    class Told(SilentObserver):
        def stage_started(self, stage: str, total: int) -> None:
            told.append((stage, total))

        def advanced(self, amount: int) -> None:
            told.append(amount)

        def stage_finished(self, stage: str, seconds: float) -> None:
            told.append(stage)

        def warned(self, message: str) -> None:
            told.append(message)

    file = tmp_path / "timings.jsonl"
    file.write_text('{"time": "", "event": "earlier"}\n')
    timings = Timings(file, Told())
    with Stopwatch(timings).stage("read", 3):
        timings.advanced(2)
    timings.warned("small machine")
    assert told == [("read", 3), 2, "read", "small machine"]
    events = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert events == ["earlier", "stage started", "stage finished"]


def test_a_file_that_cannot_be_written_to_is_refused_before_any_work(tmp_path):
    with pytest.raises(StoreError, match="gone"):
        Timings(tmp_path / "gone" / "timings.jsonl")


def test_a_refused_command_leaves_no_file(tmp_path):
    """Only the first line makes the file; and none lies in the folder of a release that is not begun yet."""
    Timings(tmp_path / "timings.jsonl", release=tmp_path / "out")
    with pytest.raises(StoreError, match="folder of a release"):
        Timings(tmp_path / "out" / "timings.jsonl", release=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_another_file_is_not_written_to(tmp_path):
    other = tmp_path / "ledger.jsonl"
    other.write_text('{"sequence": 0}\n')
    for place in (other, tmp_path):
        with pytest.raises(StoreError, match="no file of timings"):
            Timings(place)
    assert other.read_text() == '{"sequence": 0}\n'


def test_a_file_in_the_folder_of_a_release_is_refused(tmp_path):
    (tmp_path / "ledger.jsonl").touch()
    (tmp_path / "tables").mkdir()
    for place in (tmp_path, tmp_path / "tables"):
        with pytest.raises(StoreError, match="folder of a release"):
            Timings(place / "timings.jsonl")
        assert not (place / "timings.jsonl").exists()
