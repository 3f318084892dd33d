"""A run folder is seen from outside: what it says is right, nothing is changed, and no content of it is trusted."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from tallyveil.errors import StoreError
from tallyveil.runs.folder import FolderState, RunFolder
from tallyveil.runs.once import run_once
from tallyveil.runs.status import PROGRESS, Progress, StageUnderWay, run_status
from tallyveil.storage.system import is_locked

from .conftest import KEY, Killed, Toy, contents


def seen(out):
    """The status of a folder, after a look that has changed nothing."""
    before = contents(out), sorted(out.rglob("*"))
    status = run_status(out)
    assert (contents(out), sorted(out.rglob("*"))) == before
    return status


def interrupted(out, progress=None):
    def killed(run):
        raise Killed

    with pytest.raises(Killed):
        run_once(out, Toy(during=killed), test_key=KEY, progress=progress)


def test_a_folder_that_is_not_there_yet(tmp_path):
    status = run_status(tmp_path / "out")
    assert status.state is FolderState.ABSENT
    assert (status.held, status.is_complete, status.ledger.state) == (False, False, "absent")
    assert not (tmp_path / "out").exists()


def test_a_run_in_progress(tmp_path):
    progress, looks = Progress(), []

    def during(run):
        progress.stage_finished("read records", 1.5)
        progress.stage_started("estimate County", 10)
        looks.append(seen(run.path))

    run_once(tmp_path / "out", Toy(during=during), test_key=KEY, progress=progress)
    (status,) = looks
    assert status.state is FolderState.STARTED
    assert (status.held, status.process, status.is_complete) == (True, os.getpid(), False)
    assert (status.under_way.stage, status.under_way.done, status.under_way.total) == (
        "estimate County",
        0,
        10,
    )
    assert [(one.stage, one.seconds) for one in status.finished] == [("read records", 1.5)]
    assert status.ledger.unit == "rho"
    assert status.ledger.spent == Fraction(1)
    assert status.ledger.declared == Fraction(6)


def test_an_interrupted_run_says_where_it_stopped(tmp_path, make):
    out, progress = tmp_path / "out", Progress()
    progress.stage_started("tabulate", 4)
    interrupted(out, progress)
    status = seen(out)
    assert (status.state, status.held, status.is_complete) == (FolderState.STARTED, False, False)
    assert status.under_way.stage == "tabulate"
    assert status.ledger.spent == Fraction(1)
    make(out)
    finished = seen(out)
    assert finished.path == out
    assert (finished.state, finished.held, finished.is_complete) == (FolderState.FINISHED, False, True)
    assert finished.under_way is None


@pytest.mark.usefixtures("windows")
def test_the_lock_is_seen_as_windows_shows_it(tmp_path):
    lock = tmp_path / "out" / "private" / "lock"
    assert is_locked(lock) is False
    with RunFolder(tmp_path / "out"):
        assert is_locked(lock) is True
    assert is_locked(lock) is False


def test_a_rate_is_given_once_it_says_something():
    assert StageUnderWay("a", 0, 100, 60.0).rate is None
    assert StageUnderWay("a", 1, 1, 60.0).rate is None  # one piece has no rate
    assert StageUnderWay("a", 30, 100, 60.0).rate == 0.5
    assert StageUnderWay("a", 30, 100, 60.0).seconds_left == 140.0
    assert StageUnderWay("a", 30, 100, 2.0).seconds_left is None  # too early
    assert StageUnderWay("a", 1, 100, 60.0).seconds_left is None  # too little
    assert StageUnderWay("a", 101, 100, 60.0).seconds_left is None  # a damaged file
    assert StageUnderWay("a", 5, 100, 0.0).rate is None


def test_time_goes_on_only_while_a_process_works(tmp_path):
    out, progress = tmp_path / "out", Progress()
    progress.stage_started("tabulate", 4)
    later = datetime.now(UTC) + timedelta(hours=1)

    def during(run):
        assert run_status(out, lambda: later).under_way.seconds > 3500
        assert run_status(out, lambda: later - timedelta(days=1)).under_way.seconds == 0.0  # a clock set back
        raise Killed

    with pytest.raises(Killed):
        run_once(out, Toy(during=during), test_key=KEY, progress=progress)
    assert run_status(out, lambda: later).under_way.seconds < 60


HOSTILE = {
    "no JSON": b"{",
    "another shape": b"[]",
    "another format": b'{"format": 2, "process": 1, "written": "", "finished": []}',
    "no time": b'{"format": 1, "process": 1, "written": "then", "finished": [], "under_way": {"stage": "a", '
    b'"begun": "2026", "total": 3, "done": 1}}',
    "huge": b'{"format": 1, "process": 1, "written": "", "finished": [], "under_way": {"stage": "a", "begun": "", '
    b'"total": 1' + b"0" * 400 + b', "done": 1}}',
    "deep": b"[" * 100_000,
    "not finite": b'{"format": 1, "process": 1, "written": "", "finished": [{"stage": "a", "seconds": NaN}, {"stage": '
    b'"b", "seconds": 1e999}, {"stage": "c", "seconds": -1}]}',
    "a long name": json.dumps(
        {"format": 1, "process": 1, "written": "", "finished": [{"stage": "\x1b]" * 10**6, "seconds": 1}]}
    ).encode(),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_the_files_hold_is_not_trusted(tmp_path, data):
    out = tmp_path / "out"
    interrupted(out)
    (out / "private" / PROGRESS).write_bytes(data)
    status = seen(out)
    assert status.state is FolderState.STARTED
    assert status.under_way is None or status.under_way.seconds_left is None
    assert all(one.stage[:2] == "\x1b]" for one in status.finished)


def test_pipes_links_and_folders_in_the_place_of_files_do_not_hold_it_up(tmp_path):
    out = tmp_path / "out"
    interrupted(out)
    (out / "private" / PROGRESS).unlink()
    os.mkfifo(out / "private" / PROGRESS)
    os.mkfifo(out / "private" / "lock")
    (out / "ledger.jsonl").unlink()
    os.mkfifo(out / "ledger.jsonl")
    status = run_status(out)
    assert (status.finished, status.under_way, status.ledger.state) == ((), None, "damaged")
    (out / "private" / "lock").unlink()
    (out / "private" / "lock").symlink_to("/dev/zero")
    assert run_status(out).held is None


def test_damage_is_told(tmp_path, make):
    out = tmp_path / "out"
    make(out)
    (out / "manifest.json").write_text("{}")
    (out / "ledger.jsonl").write_text("nothing\n")
    status = seen(out)
    assert not status.is_complete
    assert "manifest.json" in status.damage
    assert status.ledger.state == "damaged"


def test_a_file_is_no_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        run_status(tmp_path / "file")


@pytest.mark.parametrize("finished", [False, True])
def test_a_programme_shows_each_release(tmp_path, make, finished):
    out = tmp_path / "out"
    make(out / "persons")
    interrupted(out / "units")
    if finished:
        names = [{"name": name} for name in ("persons", "units", "../persons", "units")]
        (out / "programme.json").write_text(json.dumps({"releases": names}))
    else:
        (out / "private").mkdir(mode=0o700)
        kept = {
            "begun": {"persons": "d", "units": "d"},
            "waiting": {"houses": {"plan": "d"}, "../persons": {}},
        }
        (out / "private" / "programme.json").write_text(json.dumps(kept))
    status = seen(out)
    assert status.state is FolderState.PROGRAMME
    assert [name for name, _ in status.releases] == ["persons", "units"] + ([] if finished else ["houses"])
    assert [release.is_complete for _, release in status.releases][:2] == [True, False]
    assert not status.is_complete
    make(out / "units")
    assert seen(out).is_complete is finished


def test_nobody_is_kept_from_the_lock(tmp_path):
    """Another process asks for the lock as fast as it can, and a run is never refused because of it."""
    out = tmp_path / "out"
    interrupted(out)
    assert is_locked(out / "private" / "lock") is False
    program = (
        "import sys, pathlib\nfrom tallyveil.storage.system import is_locked\n"
        "path = pathlib.Path(sys.argv[1])\nprint('asking', flush=True)\nwhile True: is_locked(path)"
    )
    asking = subprocess.Popen(
        [sys.executable, "-c", program, str(out / "private" / "lock")], stdout=subprocess.PIPE
    )
    try:
        asking.stdout.readline()
        for _ in range(50):
            with RunFolder(out):
                assert is_locked(out / "private" / "lock") is True
    finally:
        asking.kill()
        asking.communicate()


def test_a_folder_may_vanish_while_it_is_looked_at(tmp_path, make, monkeypatch):
    """Every file is gone right before it is read: the answer is that nothing is known of it."""
    out = tmp_path / "out"
    interrupted(out)
    original = os.open

    def gone(path, *arguments, **named):
        shutil.rmtree(out, ignore_errors=True)
        return original(path, *arguments, **named)

    monkeypatch.setattr(os, "open", gone)
    status = run_status(out)
    assert (status.state, status.held, status.is_complete) == (FolderState.ABSENT, False, False)
