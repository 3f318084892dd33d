"""A count that stands out in the records, and the key of a run, must not be found anywhere a run writes in the open."""

import io
import json
import logging
import sys
from contextlib import redirect_stderr, redirect_stdout

import polars as pl
import pytest
from tests.found_secrets import files_with, keys_as_found, pattern

from tallyveil.cli.main import main
from tallyveil.noise.key import insecure_key
from tallyveil.runs import once

CANARY = 765_432
KEY = insecure_key("the key of this run")


def write_canary_release(folder, write_inputs):
    """One cell holds a count that nothing else can produce; the total is no invariant."""
    release = write_inputs(folder)
    path = folder / "people.parquet"
    frame = pl.read_parquet(path)
    counts = frame["count"].to_list()
    counts[2] = CANARY
    frame.with_columns(pl.Series("count", counts)).write_parquet(path)
    text = release.read_text()
    start, stop = text.index("[[invariants]]"), text.index("[[bounds]]")
    release.write_text(text[:start] + text[stop:])
    return release


@pytest.fixture
def canary_release(tmp_path, make_small_inputs):
    return write_canary_release(tmp_path / "inputs", make_small_inputs)


@pytest.fixture(
    scope="module",
    params=[(), ("--json",), pytest.param(("--quiet",), marks=pytest.mark.nightly)],
    ids=" ".join,
)
def ran(request, tmp_path_factory, make_small_inputs):
    """Folder of a run whose key is KEY, and all that its command said and logged."""
    folder = tmp_path_factory.mktemp("canary")
    release, out = write_canary_release(folder / "inputs", make_small_inputs), folder / "out"
    said, made = io.StringIO(), []
    logged = logging.StreamHandler(said)
    root = logging.getLogger()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.setattr(once, "new_run_key", lambda: made.append(KEY) or KEY)
        patch.setattr(sys, "argv", ["tallyveil", "run", str(release), "--out", str(out), *request.param])
        patch.setattr(root, "level", logging.DEBUG)
        root.addHandler(logged)
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            root.removeHandler(logged)
    assert not ended.value.code
    assert made  # the run did use this key
    assert said.getvalue() or request.param == ("--quiet",)
    return out, said.getvalue()


def test_a_true_count_reaches_no_message_log_or_manifest(ran):
    out, open_text = ran
    for path in ("manifest.json", "plan.json", "ledger.jsonl", "report.html"):
        open_text += (out / path).read_text()
    assert str(CANARY) not in open_text
    assert f"{CANARY:,}" not in open_text
    assert (
        json.loads((out / "manifest.json").read_text())["body"]["sizes"]["records"] > CANARY // 2
    )  # it was there


def test_the_key_of_a_run_is_in_no_message_and_no_file_of_the_release(ran):
    out, said = ran
    needles = keys_as_found(KEY)
    assert not pattern(needles).search(said.encode())
    assert not files_with(needles, out)


def test_an_unforeseen_error_does_not_show_its_message(canary_release, tmp_path, monkeypatch, capsys):
    import tallyveil.products.topdown.run.preparation as running

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
