"""The log of a run: a diary on which nothing depends, whatever stands in its place."""

import json
from datetime import UTC, datetime

import pytest

from tallyveil.errors import StoreError
from tallyveil.runs.log import LOG, RunLog


@pytest.mark.parametrize("planted", ["nothing", "folder", "link", "dangling link", "file"])
def test_whatever_stands_in_its_place_a_line_is_written(tmp_path, planted):
    place, elsewhere = tmp_path / LOG, tmp_path / "elsewhere"
    if planted == "folder":
        (place / "inner").mkdir(parents=True)
    elif planted == "link":
        elsewhere.write_text("mine")
        place.symlink_to(elsewhere)
    elif planted == "dangling link":
        place.symlink_to(elsewhere)
    elif planted == "file":
        place.write_text("{}\n")
    RunLog(tmp_path).write("started", run="a")
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    assert lines[-1]["event"] == "started"
    assert len(lines) == (2 if planted == "file" else 1)
    assert not place.is_symlink()
    assert not elsewhere.exists() or elsewhere.read_text() == "mine"


def test_lines_say_when_what_and_more(tmp_path):
    RunLog(tmp_path).write("stage finished", stage="é", seconds=1.5)
    (line,) = [json.loads(line) for line in (tmp_path / LOG).read_bytes().splitlines()]
    time = line.pop("time")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()) < 60
    assert len(time) == len("2026-05-01T12:00:00.000+00:00")
    assert line == {"event": "stage finished", "stage": "é", "seconds": 1.5}


def test_a_disk_that_refuses_is_an_error_of_its_own(tmp_path):
    log = RunLog(tmp_path / "gone")
    with pytest.raises(StoreError, match=str(tmp_path / "gone")):
        log.write("started")
