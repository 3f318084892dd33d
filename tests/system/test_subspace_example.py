"""The example of one table: released, reported, evaluated and added up, by the commands of its README."""

import json
import re
import shutil
import sys
from html import unescape
from pathlib import Path

import polars as pl
import pytest
from tests.pages import require_readable

from tallyveil.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "subspace"


@pytest.fixture
def tallyveil(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tallyveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        return said.out

    return run


def words(page):
    text = re.sub(r"<style.*?</style>|<[^>]+>", " ", page.read_text(), flags=re.DOTALL)
    return " ".join(unescape(text).split())


def test_the_readme_runs(tallyveil, tmp_path):
    out = tmp_path / "out"
    readme = (EXAMPLE / "README.md").read_text()
    assert "tallyveil subspace release examples/subspace/table.toml --out DIR" in readme
    shown = json.loads(tallyveil("subspace", "diagnose", EXAMPLE / "table.toml", "--json"))
    assert [line["radius"] for line in shown["tails"]] == [86, 141]
    tallyveil("subspace", "release", EXAMPLE / "table.toml", "--out", out, "-q")
    counts, sums = pl.read_csv(out / "table.csv"), pl.read_csv(out / "sums.csv")
    assert (counts["margin"] > 0).all()
    assert set(sums["margin"]) == {0}
    assert sums.filter(pl.col("sum") == "county: Gamma")["count"].item() == 25
    assert sums.filter(pl.col("sum") == "total")["count"].item() == 135
    page = words(out / "report.html")
    assert "epsilon <= 1 between tables at l1 distance 4 or less" in page
    assert "Each margin was measured on 1,000 draws of noise with a public key" in page
    assert "Alpha Very High" in page
    assert "These sums are published exactly, without noise: children of a county: Alpha" in page
    require_readable(out / "report.html")
    (out / "report.html").unlink()
    tallyveil("report", out, "-q")
    assert words(out / "report.html") == page
    total = json.loads(tallyveil("account", "total", out, "--json"))
    assert total["epsilon"]["upper"] <= 1
    data = ("--truth", EXAMPLE / "children.csv", "--i-understand-this-is-not-private")
    errors = json.loads(tallyveil("evaluate", out, *data, "--json"))
    assert errors["protected"] is False
    assert errors["errors"][0]["cells"] == 16
    assert errors["errors"][0]["bias"] == 0  # the total is exact
    assert "NOT PRIVATE" in words(out / "evaluation" / "report.html")
    require_readable(out / "evaluation" / "report.html")
    assert "NOT PRIVATE" in words(out / "report.html")
    assert "declassify" in (out / "ledger.jsonl").read_text()


@pytest.mark.nightly
def test_the_total_of_chains_has_upper_bounds(tallyveil, tmp_path):
    text = (EXAMPLE / "table.toml").read_text()
    chain = 'distance = "4"\nsampler = "chain"\n\n[chain]\npairs = 200\nallowed_delta = "0.4"\n#'
    (tmp_path / "table.toml").write_text(text.replace('distance = "4"', chain))
    shutil.copy(EXAMPLE / "children.csv", tmp_path)
    for name in ("a", "b"):
        tallyveil("subspace", "release", tmp_path / "table.toml", "--out", tmp_path / name, "-q")
    total = json.loads(tallyveil("account", "total", tmp_path / "a", tmp_path / "b", "--json"))
    assert total["rho"] == "1"  # twice 1 / 2
    assert total["pure_epsilon"] == {"upper": 2.0}
    assert 0 < total["added_delta"]["upper"] <= 1
    assert 0 < total["pure_delta"]["upper"] <= total["added_delta"]["upper"]
