"""A count that stands out in the records, and the key of a run, must not be found anywhere a run writes in the open."""

import json
import logging
import sys

import polars as pl
import pytest
from tests.found_secrets import files_with, keys_as_found, pattern

from tallyveil.cli.main import main
from tallyveil.noise.key import insecure_key
from tallyveil.runs import once

CANARY = 7_654_321


@pytest.fixture
def canary_release(small_release):
    """One cell holds a count that nothing else can produce; the total is no invariant."""
    path = small_release.parent / "people.parquet"
    frame = pl.read_parquet(path)
    counts = frame["count"].to_list()
    counts[2] = CANARY
    frame.with_columns(pl.Series("count", counts)).write_parquet(path)
    text = small_release.read_text()
    start, stop = text.index("[[invariants]]"), text.index("[[bounds]]")
    small_release.write_text(text[:start] + text[stop:])
    return small_release


@pytest.mark.parametrize("flags", [[], ["--json"], ["--quiet"]])
def test_a_true_count_reaches_no_message_log_or_manifest(
    canary_release, tmp_path, monkeypatch, capsys, caplog, flags
):
    out = tmp_path / "out"
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(sys, "argv", ["tallyveil", "run", str(canary_release), "--out", str(out), *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said = capsys.readouterr()
    open_text = said.out + said.err + caplog.text
    for path in ("manifest.json", "plan.json", "ledger.jsonl", "log.jsonl", "report.html"):
        open_text += (out / path).read_text()
    assert str(CANARY) not in open_text
    assert f"{CANARY:,}" not in open_text
    assert (
        json.loads((out / "manifest.json").read_text())["body"]["sizes"]["records"] > CANARY // 2
    )  # it was there


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_the_key_of_a_run_is_in_no_message_and_no_file_of_the_release(
    canary_release, tmp_path, monkeypatch, capsys, caplog, flags
):
    key, out = insecure_key("the key of this run"), tmp_path / "out"
    made = []
    monkeypatch.setattr(once, "new_run_key", lambda: made.append(key) or key)
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(sys, "argv", ["tallyveil", "run", str(canary_release), "--out", str(out), *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert made  # the run did use this key
    said = capsys.readouterr()
    needles = keys_as_found(key)
    assert not pattern(needles).search((said.out + said.err + caplog.text).encode())
    assert not files_with(needles, out)


def test_an_unforeseen_error_does_not_show_its_message(canary_release, tmp_path, monkeypatch, capsys):
    import tallyveil.execution.topdown.preparation as running

    def fail(*_: object) -> None:
        raise ValueError(f"the count was {CANARY}")

    monkeypatch.setattr(running, "compile_constraints", fail)
    monkeypatch.setattr(
        sys, "argv", ["tallyveil", "run", str(canary_release), "--out", str(tmp_path / "out")]
    )
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(ValueError, match="the count was") as caught:
        main()
    sys.excepthook(type(caught.value), caught.value, caught.value.__traceback__)
    said = capsys.readouterr()
    assert "internal error: ValueError" in said.err
    assert str(CANARY) not in said.out + said.err
