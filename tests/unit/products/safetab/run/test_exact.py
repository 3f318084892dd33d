"""Tables without noise: the true counts, only if asked for in so many words, and marked everywhere."""

import contextlib
import json

import polars as pl
import pytest
from tests import toy_country as toy

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.cli.main import main
from tallyveil.errors import BudgetError, StoreError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_manifest
from tallyveil.products.safetab.run.exact import tabulate_exactly


@pytest.mark.parametrize("mechanism", ["zcdp", "puredp"])
def test_tables_without_noise_are_the_true_ones_and_say_so(tmp_path, mechanism):
    persons = toy.person_rows(800)
    params = toy.write_params(tmp_path / "p", privacy_defn=mechanism)
    data, out = toy.write_data(tmp_path / "d", persons), tmp_path / "out"
    manifest = tabulate_exactly(params, data, out)
    truth = toy.slow_tabulation(persons)
    t1 = pl.concat(pl.read_parquet(out / f"t1-{run}.parquet") for run in ("us", "pr"))
    found = {row[:3]: row[3] for row in t1.select(*t1.columns[:3], "COUNT").rows()}
    nationwide = ("USA", "STATE", "PR-STATE")
    assert found == {g: truth.t1[g] for g in truth.groups if g[1] in nationwide or truth.t1[g] > 0}
    assert (t1["ESTIMATE"] == t1["COUNT"]).all()
    assert (
        t1.select(pl.max_horizontal("VARIANCE", "MARGIN", "ESTIMATE_VARIANCE", "ESTIMATE_MARGIN"))
        .max()
        .item()
        == 0
    )
    assert set(t1["METHOD"]) == {"exact"}
    assert manifest["protected"] is False
    assert "NOT PRIVATE" in manifest["warnings"][0]
    tags = pl.read_parquet_metadata(out / "t1-us.parquet")
    assert "NOT PRIVATE" in str(tags)
    _, entries = read_ledger(out / "ledger.jsonl")
    assert [entry.kind for entry in entries] == ["declassify", "declassify"]
    assert not (out / "private").exists()
    with pytest.raises(StoreError):
        read_manifest(out, ReleaseKind.SAFETAB)
    with pytest.raises(StoreError, match="not empty"):
        tabulate_exactly(params, data, out)


def test_no_guarantee_adds_up_with_tables_without_noise(tmp_path, monkeypatch, capsys):
    data, out = toy.write_data(tmp_path / "d", toy.person_rows(50)), tmp_path / "out"
    tabulate_exactly(toy.write_params(tmp_path / "p", run_pr=False), data, out)
    monkeypatch.setattr("sys.argv", ["tallyveil", "account", "total", str(out)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == BudgetError.exit_code
    said = " ".join(capsys.readouterr().err.split())
    assert "epsilon is infinite" in said
    assert "tables without noise" in said


@pytest.mark.parametrize("flags", [["--no-noise"], ["--i-understand-this-is-not-private"]])
@pytest.mark.parametrize("command", ["run", "households"])
def test_one_flag_alone_does_nothing(tmp_path, monkeypatch, capsys, flags, command):
    params = toy.write_params(tmp_path / "p")
    data, out = toy.write_data(tmp_path / "d", toy.person_rows(50)), tmp_path / "out"
    monkeypatch.setattr(
        "sys.argv", ["tallyveil", "safetab", command, str(params), str(data), "--out", str(out), *flags]
    )
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code
    assert "--no-noise and --i-understand-this-is-not-private" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_both_flags_print_the_warning(tmp_path, monkeypatch, capsys):
    params = toy.write_params(tmp_path / "p")
    data, out = toy.write_data(tmp_path / "d", toy.person_rows(50)), tmp_path / "out"
    flags = ["--no-noise", "--i-understand-this-is-not-private", "--json"]
    monkeypatch.setattr(
        "sys.argv", ["tallyveil", "safetab", "run", str(params), str(data), "--out", str(out), *flags]
    )
    with contextlib.suppress(SystemExit):
        main()
    said = capsys.readouterr()
    assert "NOT PRIVATE" in said.err
    assert json.loads(said.out)["protected"] is False
