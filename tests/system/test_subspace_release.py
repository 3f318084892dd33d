"""A release whose upper counts come from the integer-subspace mechanism, and stay as they were drawn."""

import json
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tallyveil.cli.main import main
from tallyveil.errors import ConfigError, ConstraintError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

EXAMPLE = Path(__file__).parents[2] / "examples" / "rhode_island" / "integer_subspace.toml"
TOTALS = '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'


def drawn_counts(out, geolevel, query):
    return pl.read_parquet(out / "measurements" / geolevel / f"integer-subspace.{query}.parquet")


def published(out, geolevel, query):
    return pl.read_parquet(out / "tables" / f"geolevel={geolevel}" / f"query={query}" / "*.parquet")


@pytest.fixture
def with_subspace(edit):
    edit("[[bounds]]", TOTALS)
    return edit('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_gaussian"\nrho = "9/4"')


def test_counts_are_drawn_published_and_fixed(with_subspace, tmp_path):
    out = tmp_path / "out"
    manifest = run_release(load_plan(with_subspace), out, test_key=insecure_key("a")).manifest
    counts = drawn_counts(out, "Town", "total")
    table = published(out, "Town", "total").sort("geocode")
    assert table["count"].to_list() == counts.sort("geocode")["count"].to_list()
    truth = pl.read_parquet(with_subspace.parent / "people.parquet")
    by = truth.group_by(pl.col("geocode").str.slice(0, 3)).agg(pl.col("count").sum()).sort("geocode")
    assert by["count"].to_list() != table["count"].to_list()
    region = pl.col("geocode").str.slice(0, 1)
    sums = [f.group_by(region).agg(pl.col("count").sum()).sort("geocode") for f in (counts, truth)]
    assert sums[0]["count"].to_list() == sums[1]["count"].to_list()
    names = manifest.checks
    assert "integer-subspace total holds at Region, Town" in names
    assert manifest.privacy["spent"] == "9/4"
    assert "9/4" in manifest.privacy["statement"]
    spend = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()][-1]
    assert spend["cost"] == "9/4"
    events = spend["event"]["events"]
    assert events[1]["kind"] == "integer_subspace_gaussian"
    privacy = manifest.body["drawn"][0]["privacy"]
    assert privacy["about_one_record"] is True
    assert privacy["nearest_tables"] == {"size_at_least": 2, "size_found": 2}
    assert "The guarantee covers the change of one record" in privacy["statement"]
    assert events[1]["invariants"] == ["total at Region is published exactly"]
    assert any("integer-subspace.total" in file.path for file in manifest.files)


def test_the_command_reports_it(with_subspace, tmp_path, monkeypatch, capsys):
    def tallyveil(*arguments):
        monkeypatch.setattr(sys, "argv", ["tallyveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    assert "on the lattice of the invariants" in tallyveil("plan", with_subspace, "--details")
    tallyveil("run", with_subspace, "--out", tmp_path / "out", "-q")
    report = unescape(re.sub(r"<[^>]+>|\s+", " ", (tmp_path / "out" / "report.html").read_text()))
    report = " ".join(report.split())
    assert "Counts drawn under the invariants" in report
    assert "all people at Town Drawn 8 counts, of which the invariants leave 6 free" in report
    assert "Law of the noise generalised Gaussian, variance 4, on" in report
    assert "total of Region P; total of Region Q" in report
    assert "from 10,000 other draws of the same law" in report
    assert (
        "Gaussian noise on the lattice of the invariants has no single law of its privacy loss" in report
    )  # no exact epsilon is claimed for the whole


def test_a_killed_run_draws_the_same_counts_again(with_subspace, tmp_path, monkeypatch):
    import tallyveil.postprocess.estimation as running

    whole = run_release(load_plan(with_subspace), tmp_path / "whole", test_key=insecure_key("b")).path
    from tallyveil.postprocess.families.level import estimate_level as estimate

    monkeypatch.setattr(running, "estimate_level", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_release(load_plan(with_subspace), tmp_path / "cut", test_key=insecure_key("b"))
    monkeypatch.setattr(running, "estimate_level", estimate)
    resumed = run_release(load_plan(with_subspace), tmp_path / "cut", test_key=insecure_key("b")).path
    for geolevel in ("Region", "Town", "Block"):
        same = [published(root, geolevel, "total") for root in (whole, resumed)]
        assert same[0].equals(same[1])


def test_laplace_noise_by_age_under_an_exact_total(edit, tmp_path):
    """The query's answers add up to the invariant's, which is of another query."""
    edit("[[bounds]]", '[[subspace]]\nquery = "age"\ngeolevel = "Town"\nepsilon = "1"\n\n[[bounds]]')
    edit('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_laplace"\nepsilon = "20"')
    path = edit('[strategy]\nrho = "2"', '[strategy]\nepsilon = "19"')
    manifest = run_release(load_plan(path), tmp_path / "out", test_key=insecure_key("c")).manifest
    counts = drawn_counts(tmp_path / "out", "Town", "age")
    truth = pl.read_parquet(path.parent / "people.parquet")
    region = pl.col("geocode").str.slice(0, 1)
    sums = [f.group_by(region).agg(pl.col("count").sum()).sort("geocode") for f in (counts, truth)]
    assert sums[0]["count"].to_list() == sums[1]["count"].to_list()
    assert manifest.privacy["spent"] == "20"
    exact = manifest.privacy["exact"]["epsilon"]
    assert exact["upper"] <= 20
    table = published(tmp_path / "out", "Town", "age").with_columns(answer=pl.format("age={}", "age"))
    pairs = [f.select("geocode", "answer", "count").sort("geocode", "answer") for f in (counts, table)]
    assert pairs[0]["count"].to_list() == pairs[1]["count"].to_list()


def test_negative_counts_are_told(with_subspace, edit, tmp_path):
    edit('geolevel = "Town"\nrho = "1/4"', 'geolevel = "Block"\nrho = "1/9000"')
    with pytest.raises(ConstraintError) as caught:
        run_release(load_plan(with_subspace), tmp_path / "out", test_key=insecure_key("d"))
    assert caught.value.code == "subspace-negative"
    assert "published and paid for" in str(caught.value)
    assert drawn_counts(tmp_path / "out", "Block", "total")["count"].min() < 0


@pytest.mark.parametrize(
    ("old", "new", "error", "code"),
    [
        ('geolevel = "Town"', 'geolevel = "Region"', ConstraintError, "subspace-nothing-left"),
        ('rho = "1/4"', 'epsilon = "1/4"', ConfigError, "wrong-unit"),
        ('rho = "1/4"', 'rho = "0"', ConfigError, "wrong-unit"),
        ('geolevel = "Town"', 'geolevel = "Twon"', ConfigError, "unknown-geolevel"),
        ("[[bounds]]", TOTALS, ConfigError, "query-twice"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_the_spend(
    with_subspace, edit, tmp_path, old, new, error, code
):
    edit(old, new)
    with pytest.raises(error) as caught:
        run_release(load_plan(with_subspace), tmp_path / "out")
    assert caught.value.code == code
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_rhode_island(shared_data, tmp_path):
    """Five county totals under the exact total of the State; every check of the release passes."""
    outcome = run_release(load_plan(EXAMPLE), tmp_path / "out", test_key=insecure_key("rhode island"))
    counts = drawn_counts(tmp_path / "out", "County", "total")
    assert counts.height == 5
    assert counts["count"].sum() == 1_052_567
    truth = pl.read_parquet(shared_data / "ri_2010_counts.parquet")
    county = truth.group_by(pl.col("geocode").str.slice(0, 5)).agg(pl.col("count").sum()).sort("geocode")
    error = counts.sort("geocode")["count"].to_numpy() - county["count"].to_numpy()
    assert 0 < np.abs(error).max() < 12  # six standard deviations of 1.7
    assert any("integer-subspace total holds" in check for check in outcome.manifest.checks)
