"""A count that stands out in the records must not stand out anywhere a run writes in the open."""

import json
import logging
import sys

import polars as pl
import pytest

from tallyveil.cli.main import main

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
