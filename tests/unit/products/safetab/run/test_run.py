"""A whole run: one spend, the same tables after a kill, nothing confidential in the open."""

import json
import logging
from fractions import Fraction
from pathlib import Path

import pytest
from tests import toy_country as toy
from tests.samples import few

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.noise import insecure_key
from tallyveil.products.safetab.run import run as running
from tallyveil.products.safetab.run.run import run_safetab

KEY = insecure_key("safetab run")


@pytest.fixture
def inputs(tmp_path):
    return toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", toy.person_rows(800))


def tables(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob("t[12]/*.csv"))}


def test_a_run_spends_once_and_keeps_no_key(inputs: tuple[Path, Path], tmp_path):
    out = tmp_path / "out"
    outcome = run_safetab(*inputs, out)
    declaration, entries = read_ledger(out / "ledger.jsonl")
    assert declaration.total == Fraction("9.808")
    assert [entry.cost for entry in entries] == [declaration.total]
    assert not (out / "private").exists()
    assert outcome.manifest.protected is True
    assert not outcome.already_finished
    assert run_safetab(*inputs, out).already_finished
    assert set(outcome.manifest.digests) >= {
        "t1/us.csv",
        "t2/pr.csv",
        "t1-us.parquet",
        "plan.json",
    }
    assert "ledger.jsonl" not in outcome.manifest.digests


def test_keys_make_the_noise(inputs: tuple[Path, Path], whole, tmp_path):
    again = run_safetab(*inputs, tmp_path / "a", test_key=KEY)
    assert again.manifest.protected is False
    run_safetab(*inputs, tmp_path / "b")
    assert tables(tmp_path / "a") == whole
    assert tables(tmp_path / "b") != whole


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tables of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    inputs = toy.write_params(folder / "p"), toy.write_data(folder / "d", toy.person_rows(800))
    run_safetab(*inputs, folder / "out", test_key=KEY)
    return tables(folder / "out")


@pytest.mark.parametrize("after", few(1, ["write_tables", "check_outputs", "require_passed"]))
def test_a_killed_run_goes_on_to_the_same_tables_with_one_spend(
    inputs: tuple[Path, Path], whole, tmp_path, monkeypatch, after
):
    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(running, after, kill)
        with pytest.raises(Killed):
            run_safetab(*inputs, tmp_path / "killed", test_key=KEY)
    run_safetab(*inputs, tmp_path / "killed", test_key=KEY)
    assert whole == tables(tmp_path / "killed")
    _, entries = read_ledger(tmp_path / "killed" / "ledger.jsonl")
    assert [entry.kind for entry in entries] == ["declassify", "spend"]


def test_a_killed_run_refuses_other_people(inputs, tmp_path, monkeypatch):
    params, data = inputs
    with monkeypatch.context() as patch:
        patch.setattr(running, "write_tables", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_safetab(params, data, tmp_path / "out", test_key=KEY)
    toy.write_data(data, toy.person_rows(801))
    with pytest.raises(StoreError) as raised:
        run_safetab(params, data, tmp_path / "out", test_key=KEY)
    assert raised.value.code == "resume-changed"


def test_bad_input_spends_nothing(inputs, tmp_path):
    params, data = inputs
    path = data / "person-records.txt"
    path.write_text(path.read_text().replace("|True|", "|Maybe|", 1))
    with pytest.raises(TallyveilError):
        run_safetab(params, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_plan_or_a_foreign_folder(inputs, tmp_path):
    params, data = inputs
    run_safetab(params, data, tmp_path / "out", test_key=KEY)
    with pytest.raises(StoreError) as raised:
        run_safetab(toy.write_params(tmp_path / "q", max_race_codes=4), data, tmp_path / "out")
    assert raised.value.code == "folder-taken"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("hello")
    with pytest.raises(StoreError) as raised:
        run_safetab(params, data, tmp_path / "mine")
    assert raised.value.code == "folder-taken"


def test_no_true_count_stands_in_the_open(tmp_path, caplog):
    """One group has a count nothing else can have; with noise off it would show at once."""
    persons = [row for row in toy.person_rows(3000) if row[3] != "11"][:1200]
    odd = ("40", "1", "True", "11", "001", "000100", "1000", "01", "3000", *["Null"] * 7, "9950")
    params = toy.write_params(tmp_path / "p")
    data = toy.write_data(tmp_path / "d", persons + [odd] * 1777)
    caplog.set_level(logging.DEBUG)
    run_safetab(params, data, tmp_path / "out", test_key=KEY)
    out = tmp_path / "out"
    text = caplog.text + "".join((out / name).read_text() for name in ("plan.json", "ledger.jsonl"))
    manifest = json.loads((out / "manifest.json").read_text())
    manifest.pop("files")
    assert "1777" not in text + json.dumps(manifest["body"]["sizes"])
    assert "2977" not in text + json.dumps(manifest["body"]["sizes"])
