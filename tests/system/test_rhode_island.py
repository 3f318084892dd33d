"""The committed example on real counts."""

import subprocess
import sys
from pathlib import Path

import polars as pl

from tallyveil.config.load import load_plan
from tallyveil.execution.evaluate import evaluate_release
from tallyveil.execution.run import run_release
from tallyveil.noise.key import insecure_key

EXAMPLE = Path(__file__).parents[2] / "examples" / "rhode_island" / "release.toml"


def test_the_example_runs_and_its_errors_are_those_expected(shared_data, tmp_path):
    outcome = run_release(load_plan(EXAMPLE), tmp_path / "out", test_key=insecure_key("rhode island"))
    assert outcome.manifest["sizes"]["records"] == 1_052_567
    assert outcome.manifest["sizes"]["geolevels"]["Block"]["geounits"] == 25_181
    for solver in outcome.manifest["solver"].values():
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


def test_the_flags_do_what_they_say(small_release, tmp_path):
    def tallyveil(*arguments: str) -> subprocess.CompletedProcess[str]:
        script = "from tallyveil.cli.main import main; main()"
        return subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
        )

    out = str(tmp_path / "out")
    quiet = tallyveil("run", str(small_release), "--out", out, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    again = tallyveil("run", str(small_release), "--out", out, "--json")
    assert again.returncode == 0
    assert pl.read_json(again.stdout.encode())["already_finished"].to_list() == [True]
    truth = str(small_release.parent / "people.parquet")
    refused = tallyveil("evaluate", out, "--truth", truth)
    assert refused.returncode == 2
    assert "--i-understand-this-is-not-private" in refused.stderr
    assert not (tmp_path / "out" / "evaluation").exists()
    evaluated = tallyveil("evaluate", out, "--truth", truth, "--i-understand-this-is-not-private")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "NOT PRIVATE" in evaluated.stdout
    assert "declassify" in (tmp_path / "out" / "ledger.jsonl").read_text()
    assert "NOT PRIVATE" in (tmp_path / "out" / "evaluation" / "report.html").read_text()
