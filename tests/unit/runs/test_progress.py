"""How far a run has come is written while its folder is held, and is gone with the private folder."""

import json
import os
from datetime import UTC, datetime

import pytest

from tallyveil.runs.folder import RunFolder
from tallyveil.runs.once import run_once, run_product
from tallyveil.runs.status import PROGRESS, Progress

from .conftest import KEY, Killed, Toy, contents


class Recorder:
    def __init__(self):
        self.events = []

    def stage_started(self, stage, total):
        self.events.append(("started", stage, total))

    def advanced(self, amount):
        self.events.append(("advanced", amount))

    def stage_finished(self, stage, seconds):
        self.events.append(("finished", stage, seconds))

    def warned(self, message):
        self.events.append(("warned", message))


def written(folder):
    return json.loads((folder.private / PROGRESS).read_text())


def test_everything_is_handed_on_and_nothing_is_written_before_the_folder_is_held(tmp_path):
    told = Recorder()
    progress = Progress(told)
    progress.stage_started("read", 3)
    progress.advanced(2)
    progress.stage_finished("read", 0.5)
    progress.warned("few cores")
    assert told.events == [
        ("started", "read", 3),
        ("advanced", 2),
        ("finished", "read", 0.5),
        ("warned", "few cores"),
    ]
    assert Progress.of(progress) is progress
    folder = RunFolder(tmp_path / "out")
    progress.begin(folder)
    assert not folder.path.exists()


def test_a_stage_is_written_when_it_begins_and_once_a_second_while_it_advances(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with RunFolder(tmp_path / "out") as folder:
        progress = Progress()
        progress.stage_started("read", 1)
        progress.stage_finished("read", 0.25)
        progress.begin(folder)
        assert written(folder)["under_way"] is None
        assert written(folder)["finished"] == [{"stage": "read", "seconds": 0.25}]
        progress.stage_started("estimate County", 8)
        for _ in range(3):
            progress.advanced(1)
        assert written(folder)["under_way"]["done"] == 0
        now[0] += 1.0
        progress.advanced(1)
        assert written(folder)["under_way"] | {"begun": ""} == {
            "stage": "estimate County",
            "begun": "",
            "total": 8,
            "done": 4,
        }
        before = (folder.private / PROGRESS).read_bytes()
    now[0] += 5.0
    progress.advanced(1)  # the folder was given up, and somebody else may have it
    assert (folder.private / PROGRESS).read_bytes() == before


def test_the_file_says_when_who_and_how_far(tmp_path, monkeypatch):
    """Nobody waits for the disk: only a crash of the machine can lose it."""
    clock = [50.0]
    waits = []
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("os.fsync", waits.append)
    with RunFolder(tmp_path / "out") as folder:
        waits.clear()
        progress = Progress()
        progress.begin(folder)
        progress.stage_started("read", 3)
        progress.advanced(2)
        progress.stage_finished("read", 1.23456)
        progress.stage_started("measure", 9)
        for amount, seconds in ((2, 0.5), (3, 0.25), (1, 0.25)):  # a second after the last write
            clock[0] += seconds
            progress.advanced(amount)
        found = written(folder)
    assert waits == []
    for text in (found.pop("written"), found["under_way"].pop("begun")):
        assert abs((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()) < 60
        assert len(text) == len("2026-05-01T12:00:00.000+00:00")
    assert found == {
        "format": 1,
        "process": os.getpid(),
        "finished": [{"stage": "read", "seconds": 1.235}],
        "under_way": {"stage": "measure", "total": 9, "done": 6},
    }


def test_what_is_told_while_inputs_are_read_is_written_once_the_folder_is_held(tmp_path):
    """Both by the same observer, which the work keeps."""
    told, seen = Recorder(), []

    class Keeping(Toy):
        def read(self, out, observer):
            self.observer = observer
            return super().read(out, observer)

        def release(self, run):
            self.observer.stage_started("measure", 3)
            seen.append(json.loads((run.path / "private" / PROGRESS).read_text()))
            return super().release(run)

    run_product(Keeping(), tmp_path / "out", test_key=KEY, observer=told)
    assert [one["stage"] for one in seen[0]["finished"]] == ["read"]
    assert seen[0]["under_way"]["stage"] == "measure"
    assert told.events == [("started", "read", 1), ("finished", "read", 0.0), ("started", "measure", 3)]


def test_a_disk_that_fails_does_not_stop_a_run(tmp_path, monkeypatch):
    with RunFolder(tmp_path / "out") as folder:
        progress = Progress()
        progress.begin(folder)
        with monkeypatch.context() as patch:
            patch.setattr(
                "tallyveil.runs.folder.open_new", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "full"))
            )
            progress.stage_started("tables", 1)
        assert written(folder)["under_way"] is None


def test_it_is_private_stays_after_a_kill_and_is_in_no_release(tmp_path, make):
    out = tmp_path / "out"

    def killed(run):
        assert (run.path / "private" / PROGRESS).stat().st_mode & 0o777 == 0o600
        raise Killed

    with pytest.raises(Killed):
        run_once(out, Toy(during=killed), test_key=KEY)
    assert (out / "private" / PROGRESS).is_file()
    make(out)
    assert not (out / "private").exists()
    with_observer = tmp_path / "observed"
    run_product(Toy(), with_observer, test_key=KEY, observer=Recorder())
    assert contents(out).keys() == contents(with_observer).keys()
    assert not [name for name in contents(out) if PROGRESS in name]
