"""A finished release that was damaged is refused before anything is written into its folder."""

import sys

import pytest

from tallyveil.cli.main import main
from tallyveil.config.load import load_plan
from tallyveil.errors import StoreError
from tallyveil.execution.topdown.evaluate import evaluate_release
from tallyveil.execution.topdown.run import run_release
from tallyveil.noise.key import insecure_key


@pytest.mark.parametrize("command", ["evaluate", "intervals"])
@pytest.mark.parametrize("name", ["plan.json", "ledger.jsonl"])
def test_nothing_is_added_to_a_damaged_release(small_release, tmp_path, monkeypatch, command, name):
    out = tmp_path / "out"
    small_release.write_text(small_release.read_text() + 'measurements = "full"\n')
    run_release(load_plan(small_release), out, test_key=insecure_key("damaged"))
    path = out / name
    path.write_bytes(b"[" + path.read_bytes())
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    flags = ["--truth", str(small_release.parent / "people.parquet"), "--i-understand-this-is-not-private"]
    arguments = ["tallyveil", command, str(out), *(flags if command == "evaluate" else ())]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", ["report", "evaluate", "intervals"])
def test_a_ledger_whose_spend_was_cut_off_is_refused(small_release, tmp_path, monkeypatch, capsys, command):
    out = tmp_path / "out"
    small_release.write_text(small_release.read_text() + 'measurements = "full"\n')
    run_release(load_plan(small_release), out, test_key=insecure_key("damaged"))
    ledger = out / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    flags = ["--truth", str(small_release.parent / "people.parquet"), "--i-understand-this-is-not-private"]
    monkeypatch.setattr(
        sys, "argv", ["tallyveil", command, str(out), *(flags if command == "evaluate" else ())]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert "ledger-damaged" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_nothing_is_declassified_for_a_release_that_lacks_a_histogram(small_release, tmp_path):
    out = tmp_path / "out"
    run_release(load_plan(small_release), out, test_key=insecure_key("damaged"))
    (out / "histogram" / "Block.parquet").unlink()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(StoreError):
        evaluate_release(out, small_release.parent / "people.parquet")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
