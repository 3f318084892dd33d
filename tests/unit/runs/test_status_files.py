"""What the status of a run says of each file, to the letter: the files are written by hand here."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tallyveil.runs import status as module
from tallyveil.runs.folder import FolderState, RunFolder
from tallyveil.runs.status import PROGRESS, FinishedStage, Progress, StageUnderWay, run_status

BEGUN = datetime(2026, 5, 1, 12, tzinfo=UTC)
WRITTEN = BEGUN + timedelta(seconds=90.25)
STAGE = {"stage": "measure", "begun": BEGUN.isoformat(), "total": 10, "done": 4}
LARGEST = 2**53 - 1


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out" / "private").mkdir(mode=0o700, parents=True)
    return tmp_path / "out"


def tell(out, stage=STAGE, **changes):
    """Write what a run says of its progress."""
    told = {"format": 1, "process": 7, "written": WRITTEN.isoformat(), "finished": [], "under_way": stage}
    (out / "private" / PROGRESS).write_text(json.dumps(told | changes))


def test_what_an_interrupted_run_said_last(out):
    tell(out, finished=[{"stage": "read", "seconds": 0.5}])
    status = run_status(out)
    assert (status.path, status.process, status.held) == (out, 7, False)
    assert status.under_way == StageUnderWay("measure", 4, 10, 90.25)
    assert status.finished == (FinishedStage("read", 0.5),)
    assert (status.releases, status.damage, status.is_complete) == ((), None, False)
    (out / "private" / PROGRESS).unlink()
    status = run_status(out)
    assert (status.process, status.under_way, status.finished) == (None, None, ())


def test_the_clock_runs_while_a_process_holds_the_folder(out):
    with RunFolder(out):
        tell(out)
        status = run_status(out, lambda: BEGUN + timedelta(seconds=0.5))
    assert status.under_way == StageUnderWay("measure", 4, 10, 0.5)


@pytest.mark.parametrize(
    "changes", [{"format": 2}, {"format": None}, {"process": "7"}, {"written": 5}, {"finished": 1}]
)
def test_progress_of_another_shape_is_none(out, changes):
    tell(out, **changes)
    status = run_status(out)
    assert (status.process, status.under_way, status.finished) == (None, None, ())


@pytest.mark.parametrize(
    ("changes", "is_known"),
    [
        ({"done": 0}, True),
        ({"done": -1}, False),
        ({"done": LARGEST}, True),
        ({"done": LARGEST + 1}, False),
        ({"total": LARGEST}, True),
        ({"total": LARGEST + 1}, False),
        ({"done": LARGEST + 1, "total": LARGEST + 1}, False),
        ({"stage": 5}, False),
        ({"total": "10"}, False),
    ],
)
def test_numbers_that_no_run_writes_are_not_shown(out, changes, is_known):
    stage = STAGE | changes
    tell(out, stage)
    wanted = StageUnderWay(stage["stage"], stage["done"], stage["total"], 90.25)
    assert run_status(out).under_way == (wanted if is_known else None)


@pytest.mark.parametrize(
    ("begun", "written"),
    [
        ("then", WRITTEN.isoformat()),
        (BEGUN.isoformat(), "later"),
        (BEGUN.isoformat(), WRITTEN.replace(tzinfo=None).isoformat()),
        (BEGUN.replace(tzinfo=None).isoformat(), WRITTEN.isoformat()),
        (WRITTEN.isoformat(), BEGUN.isoformat()),
    ],
)
def test_times_that_do_not_fit_are_no_time(out, begun, written):
    tell(out, STAGE | {"begun": begun}, written=written)
    assert run_status(out).under_way == StageUnderWay("measure", 4, 10, 0.0)


def test_the_last_time_of_each_stage_is_kept_in_order(out):
    stages = [("read", 9.0), ("measure", 1.0), ("largest", LARGEST), ("none", 0), ("read", 0.25)]
    tell(out, finished=[{"stage": stage, "seconds": seconds} for stage, seconds in stages])
    wanted = [("read", 0.25), ("measure", 1.0), ("largest", LARGEST), ("none", 0)]
    assert run_status(out).finished == tuple(FinishedStage(*stage) for stage in wanted)


def test_stages_of_an_earlier_process_are_told_as_well(out):
    (out / "private" / "run.json").touch(mode=0o600)
    tell(out, finished=[{"stage": "read", "seconds": 9.0}, {"stage": "measure", "seconds": 1.0}])
    (out / "private" / PROGRESS).chmod(0o600)
    with RunFolder(out) as folder:
        progress = Progress()
        progress.stage_started("read", 1)
        progress.stage_finished("read", 0.25)
        progress.begin(folder)
        status = run_status(out)
    assert status.finished == (FinishedStage("read", 0.25), FinishedStage("measure", 1.0))


@pytest.mark.parametrize(("data", "found"), [(b"", "absent"), (b'{"half', "absent"), (b"{}\n", "damaged")])
def test_a_ledger_that_is_only_being_begun_is_not_there(out, data, found):
    (out / "ledger.jsonl").write_bytes(data)
    assert run_status(out).ledger == module.LedgerStatus(found)


def test_a_programme_is_known_by_its_private_file_while_that_is_there(tmp_path):
    for name in ("first", "second", "third"):
        (tmp_path / name / "private").mkdir(mode=0o700, parents=True)
        tell(tmp_path / name)
    stated = {"releases": [{"name": name} for name in ("../first", "third", "first", "third")]}
    (tmp_path / "programme.json").write_text(json.dumps(stated))
    assert [name for name, _ in run_status(tmp_path).releases] == ["third", "first"]
    kept = {
        "begun": {"../third": "d", "second": None},
        "waiting": {"../first": {}, "first": {}, "second": {}},
    }
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private" / "programme.json").write_text(json.dumps(kept))
    (tmp_path / "second" / "private" / PROGRESS).unlink()
    with RunFolder(tmp_path / "second"):
        tell(tmp_path / "second")
        later = run_status(tmp_path, lambda: BEGUN + timedelta(seconds=5))
    assert [name for name, _ in later.releases] == ["second", "first"]
    assert [one.path for _, one in later.releases] == [tmp_path / "second", tmp_path / "first"]
    assert [one.under_way.seconds for _, one in later.releases] == [5.0, 90.25]
    for damaged in (
        {"begun": {"second": 5}, "waiting": {}},
        {"begun": {}, "waiting": {"second": 5}},
        {"begun": {}},
    ):
        (tmp_path / "private" / "programme.json").write_text(json.dumps(damaged))
        assert [name for name, _ in run_status(tmp_path).releases] == ["third", "first"]
    for damaged in ({"releases": [{"name": 5}]}, {"releases": "first"}, []):
        (tmp_path / "programme.json").write_text(json.dumps(damaged))
        assert run_status(tmp_path).releases == ()


@pytest.mark.parametrize(
    ("states", "looks"),
    [("aa", 2), ("abb", 3), ("ababb", 5), ("abababab", 6)],
)
def test_a_folder_that_changes_is_looked_at_again_but_not_for_ever(out, monkeypatch, states, looks):
    """The answer is the last look, which agrees with the one before it where the folder came to rest."""
    first = run_status(out)
    kinds = {"a": FolderState.STARTED, "b": FolderState.SEALED}
    seen = []

    def look(path, now):
        seen.append(states[len(seen)])
        return replace(first, path=path, state=kinds[seen[-1]], process=len(seen))

    monkeypatch.setattr(module, "_look", look)
    found = run_status(out)
    assert (found.path, found.state, found.process) == (out, kinds[states[looks - 1]], looks)
    assert len(seen) == looks


def test_a_folder_that_a_process_took_meanwhile_is_looked_at_again(out, monkeypatch):
    first, seen = run_status(out), []

    def look(path, now):
        seen.append(path)
        return replace(first, held=len(seen) > 1)

    monkeypatch.setattr(module, "_look", look)
    assert run_status(out).held
    assert len(seen) == 3
