"""The committed example on real counts."""

import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.evaluate import evaluate_release
from tallyveil.products.topdown.run.run import run_release

EXAMPLES = Path(__file__).parents[2] / "examples" / "rhode_island"
EXAMPLE = EXAMPLES / "release.toml"


@pytest.mark.nightly
def test_the_example_runs_and_its_errors_are_those_expected(shared_data, tmp_path):
    outcome = run_release(load_plan(EXAMPLE), tmp_path / "out", test_key=insecure_key("rhode island"))
    assert outcome.manifest.body["sizes"]["records"] == 1_052_567
    assert outcome.manifest.body["sizes"]["geolevels"]["Block"]["geounits"] == 25_181
    for solver in outcome.manifest.body["solver"].values():
        assert solver["rounding_widened"] == 0
        assert solver["largest_residual"] <= 1e-7
    frame = evaluate_release(outcome.path, shared_data / "ri_2010_counts.parquet").errors
    means = {
        (row["geolevel"], row["query"]): row["mean_absolute_error"]
        for row in frame.filter(size_class="all").iter_rows(named=True)
    }
    assert means["State", "total"] == 0
    # Mean |noise| of the totals' measurements is 1.4, 1.9 and 1.1 persons; estimation cannot do much better or worse.
    assert means["County", "total"] < 4
    assert 1 < means["Tract", "total"] < 2.5
    assert 0.7 < means["Block_Group", "total"] < 1.6
    # A block's total has noise of standard deviation 52; what keeps it near the truth is the sum of its cells.
    assert 3 < means["Block", "total"] < 6


@pytest.mark.nightly
def test_public_housing_units_keep_empty_blocks_empty(shared_data, tmp_path):
    """Without bounds more than 5,000 of 7,537 empty blocks are published with people, 2.4 % of all."""
    housing_units = runpy.run_path(str(EXAMPLES / "housing_units.py"))
    housing_units["main"](shared_data, tmp_path / "bounds")
    text = (EXAMPLES / "bounded.toml").read_text()
    text = text.replace("../../../shared/data", shared_data.as_posix())
    (tmp_path / "bounded.toml").write_text(
        text.replace("../../releases/rhode-island-bounds", (tmp_path / "bounds").as_posix())
    )
    plan = replace(load_plan(tmp_path / "bounded.toml"), measurements="none", microdata=False)
    outcome = run_release(plan, tmp_path / "out", test_key=insecure_key("rhode island"))
    found = evaluate_release(outcome.path, shared_data / "ri_2010_counts.parquet").artefacts
    blocks = {
        (row["artefact"], row["group"]): row for row in found.filter(geolevel="Block").iter_rows(named=True)
    }
    assert blocks["empty", None]["true_geounits"] == 7_537
    assert 1_000 < blocks["filled", None]["published_geounits"] <= 1_884  # a fourth has a vacant unit
    assert blocks["filled", None]["share"] < 0.01
    assert blocks["only", "under_18"]["published_geounits"] < 600
    housing = pl.read_parquet(tmp_path / "bounds" / "housing.parquet")
    published = pl.read_parquet(outcome.path / "histogram" / "Block.parquet")["geocode"].unique().implode()
    none = housing.filter(housing_units=0)
    assert none.height == 5_653
    assert not none["geocode"].is_in(published).any()


@pytest.mark.nightly
def test_the_flags_do_what_they_say(small_release, tmp_path, command):
    """The first run has an interpreter of its own: a library that prints would be heard."""
    out = tmp_path / "out"
    script = "from tallyveil.cli.main import main; main()"
    words = ["run", str(small_release), "--out", str(out), "--quiet"]
    quiet = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
    )
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    again = command("run", small_release, "--out", out, "--json")
    assert pl.read_json(again.encode())["already_finished"].to_list() == [True]
    truth = small_release.parent / "people.parquet"
    refused = command("evaluate", out, "--truth", truth, code=2)
    assert "--i-understand-this-is-not-private" in refused
    assert not (out / "evaluation").exists()
    evaluated = command("evaluate", out, "--truth", truth, "--i-understand-this-is-not-private")
    assert "NOT PRIVATE" in evaluated
    assert "empty, but published with people" in evaluated
    assert "Bias of total at Block" in evaluated
    assert "declassify" in (out / "ledger.jsonl").read_text()
    assert "NOT PRIVATE" in (out / "evaluation" / "report.html").read_text()
