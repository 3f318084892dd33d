"""The worked example of docs/optimal-shares.md gives what the page says."""

import re
import tomllib
from pathlib import Path

import polars as pl
import pytest

from tallyveil.plans.from_toml.aims import AimsFile

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "optimal-shares.md").read_text()


@pytest.mark.nightly
def test_the_example_gives_what_the_page_shows(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (release,) = re.findall(r"```toml\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)
    Path("release.toml").write_text(release)
    aims = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    Path("aims.toml").write_text(aims)
    blocks = [
        f"{state:02d}{county:03d}{block:010d}" for state in (1, 2) for county in (1, 2) for block in range(9)
    ]
    pl.DataFrame({"block": blocks}).write_parquet("blocks.parquet")
    line = re.search(r"```\ntallyveil (plan release.toml --optimise .*?)\n```", PAGE)[1]
    said = " ".join(command(*line.split()).split())
    shown = re.search(r"```\n(gap .*?)```", PAGE, re.DOTALL)[1].strip().splitlines()
    assert len(shown) == 8
    assert [one for one in shown if " ".join(one.split()) not in said] == []
    strategy = release[: release.index("[strategy]")] + release[release.index("[[invariants]]") :]
    Path("better.toml").write_text(strategy + "\n" + Path("shares.toml").read_text())
    assert "Plan of release my-release" in command("plan", "better.toml")


def test_every_key_is_on_the_page():
    keys = {name: field.alias or name for name, field in AimsFile.model_fields.items()}
    table = PAGE.split("| key | meaning |")[1].split("\n\n")[0]
    assert [key for key in keys.values() if f"`{key}`" not in table and f"[{key}" not in table] == []
    target = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1]
    file = AimsFile.model_validate({"model": "topdown", "minimise": "rho", **tomllib.loads(target)})
    assert float(file.target[0].deviation()) < 10 / 1.95


@pytest.mark.nightly
def test_the_live_categories_of_published_counts(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (release,) = re.findall(r"```toml\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)
    Path("release.toml").write_text(release)
    blocks = [f"01{county:03d}{block:010d}" for county in (1, 2) for block in range(9)]
    pl.DataFrame({"block": blocks}).write_parquet("blocks.parquet")
    rows = [
        (block, sex, age, int(place % 3 > 0))
        for place, block in enumerate(blocks)
        for sex in ("female", "male")
        for age in ("0-17", "18-64", "65+")[: 1 + place % 3]
    ]
    pl.DataFrame(rows, ["geocode", "sex", "age", "count"], orient="row").write_parquet("published.parquet")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    found = {(row[0], row[1]): row[2] for row in pl.read_csv("live.csv").iter_rows()}
    assert found == {
        **{("State", name): size for name, size in (("sex", 2), ("age", 3))},
        **{("County", name): size for name, size in (("sex", 2), ("age", 3))},
        **{("Block", name): size for name, size in (("sex", 2), ("age", 2.5))},
    }
    aims = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    Path("aims.toml").write_text('live = "live.csv"\n' + aims)
    assert "Better shares" in command("plan", "release.toml", "--optimise", "aims.toml")
