"""`tallyveil status` says the same to readers and to programs."""

import json

import pytest
from typer.testing import CliRunner

from tallyveil.cli.main import app
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.status import Progress


def said(*words):
    result = CliRunner().invoke(app, ["status", *map(str, words)], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_a_folder_without_a_run(out):
    assert "no run has begun to write here, so nothing is spent" in said(out)
    record = json.loads(said(out, "--json"))
    assert (record["state"], record["complete"], record["held"]) == ("absent", False, False)
    assert record["ledger"] == {"found": "absent", "unit": None, "declared": None, "spent": None}
    assert (record["stage"], record["finished"], record["releases"]) == (None, [], [])


def test_a_run_in_progress_and_the_same_run_after_a_kill(out):
    with RunFolder(out) as folder:
        folder.write("run.json", b"{}")
        (out / "ledger.jsonl").write_text("")
        progress = Progress()
        progress.stage_started("read \x1b[31mrecords", 1)
        progress.stage_finished("read \x1b[31mrecords", 2.0)
        progress.begin(folder)
        progress.stage_started("estimate County", 3143)
        text = said(out)
        assert "holds the folder and works" in text
        assert "estimate County: 0 of 3,143 (0 %), for" in text
        assert "ended read \\u001b[31mrecords (2.0 s)" in text
        assert "spent nothing yet" in text
        stage = json.loads(said(out, "--json"))["stage"]
        assert (stage["done"], stage["total"], stage["rate_per_second"], stage["seconds_left"]) == (
            0,
            3143,
            None,
            None,
        )
    text = said(out)
    assert "interrupted: no process works here. The command that began the run goes on with it" in text
    assert "stopped in estimate County: 0 of 3,143 (0 %), after" in text


def test_a_rate_is_shown_as_people_read_it(out):
    from datetime import UTC, datetime, timedelta

    begun = (datetime.now(UTC) - timedelta(seconds=100)).isoformat()
    under_way = {"stage": "measure Block", "begun": begun, "total": 10_000_000, "done": 2_500_000}
    told = {"format": 1, "process": 7, "written": begun, "finished": [], "under_way": under_way}
    with RunFolder(out) as folder:
        folder.write("run.json", b"{}")
        folder.write("progress.json", json.dumps(told).encode())
        text = said(out)
        assert "in progress: process 7 holds the folder and works" in text
        assert "measure Block: 2,500,000 of 10,000,000 (25 %), for 2 min, 2" in text
        assert " a second; about 5 min left in this stage at this rate, later stages not counted" in text
        under_way |= {"total": 100, "done": 25}
        folder.write("progress.json", json.dumps(told).encode())
        assert "25 of 100 (25 %), for 2 min, 0.25 a second; about 5 min left" in said(out)


def test_another_user_is_told_that_it_cannot_be_known(out, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.status.is_locked", lambda path: None)
    assert "it cannot be told whether a process holds the folder" in said(out)
