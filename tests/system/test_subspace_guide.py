"""The examples of docs/subspace.md run as they stand."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tallyveil_studies.integer_subspace.examples import DELINQUENT_CHILDREN

GUIDE = (Path(__file__).parents[2] / "docs" / "subspace.md").read_text()
LEVELS = ("low", "medium", "high", "very high")
COUNTIES = ("Alpha", "Beta", "Gamma", "Delta")


@pytest.mark.nightly
def test_python_examples_run_one_after_the_other(capsys):
    examples = "".join(re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL))
    assert "4000, 3000" in examples
    fewer = examples.replace("4000, 3000", "400, 3000").replace("allowed_delta=0.02", "allowed_delta=0.2")
    fixed = fewer.replace("new_run_key()", "insecure_key('guide')").replace("new_run_key", "insecure_key")
    code = fixed + "\nprint(noise.size, not noise.sum(), 0 < delta < 0.2)"
    exec(compile(code, "subspace.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "epsilon 0.192 for each unit of l1 distance, between tables that agree on the invariants (total of the state); "
        "nothing is promised about what the invariants reveal.",
        "102 True True",
    ]


def test_the_table_file_releases_a_table(tmp_path, command):
    (tmp_path / "table.toml").write_text(
        re.search(r"```toml\n(\[release\].*?)```", GUIDE, re.DOTALL).group(1)
    )
    rows = [
        {"county": county, "education": level, "children": count}
        for county, counts in zip(COUNTIES, DELINQUENT_CHILDREN, strict=True)
        for level, count in zip(LEVELS, counts, strict=True)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "children.csv")
    pl.DataFrame({"education": LEVELS}).write_csv(tmp_path / "levels.csv")
    table, out = tmp_path / "table.toml", tmp_path / "out"
    shown = command("subspace", "diagnose", table, "--out", tmp_path / "plots", "--json")
    assert json.loads(shown)["noise"]["dimension"] == 11
    command("subspace", "release", table, "--out", out, "--draws", 10, "--insecure-test-key", "guide")
    counts = pl.read_csv(out / "table.csv")
    low = counts.filter(pl.col("county").is_in(["Alpha", "Beta"]) & (pl.col("education") == "low"))
    assert low["count"].sum() == 35
    assert (out / "draws.parquet").exists()
