"""The commands and the example of docs/intervals.md run, on a release as they assume one."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tallyveil.cli.main import main

GUIDE = Path(__file__).parents[2] / "docs" / "intervals.md"


@pytest.fixture
def release(small_release, tmp_path, monkeypatch, capsys):
    """A finished release in `release/`, with entities and a district beside its release file."""
    small_release.write_text(small_release.read_text().replace("Town", "Tract"))
    monkeypatch.chdir(small_release.parent)
    codes = pl.read_parquet("geography.parquet")["geocode"]
    entities = {"place": codes.str.slice(0, 4), "district": [f"d{i % 4}" for i in range(len(codes))]}
    pl.DataFrame({"geocode": codes, **entities}).write_parquet("entities.parquet")
    pl.DataFrame({"geocode": codes[:7]}).write_csv("district.csv")
    pl.DataFrame({"geocode": codes[5:30]}).write_csv("other.csv")
    plan = pl.DataFrame({"BLOCKID": codes, "DISTRICT": [f"{1 + i % 2:02}" for i in range(len(codes))]})
    plan.write_csv("BlockAssign_ST44_RI_CD.txt", separator="|")

    def call(line: str) -> str:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        return said.out

    call("tallyveil run release.toml --out release --insecure-test-key guide --quiet")
    return call


@pytest.mark.nightly
def test_guide(release, capsys):
    text = GUIDE.read_text()
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL).group(1).splitlines()
    said = [release(line) for line in commands]
    assert len(said) == 6
    assert "90 % intervals" in said[1]
    assert "District of 7 finest geounits" in said[2]
    assert "less one of 25" in said[3]
    assert "01" in said[4]
    assert "st.dev. of estimates" in said[5]
    atoms, example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(atoms, str(GUIDE), "exec"), {})
    assert f"It prints `{capsys.readouterr().out.strip()}`" in text
    exec(compile(example, str(GUIDE), "exec"), names)
    one, other, difference = names["variances"][:, 0]
    assert difference == pytest.approx(one + other - 2 * names["shared"])
    written = pl.read_parquet("release/intervals/geolevel=Tract/query=total/*.parquet")
    assert written["estimate"].to_list() == pytest.approx(names["tracts"].estimates[:, 0], abs=1e-5)
    assert names["difference"].low[0, 0] < names["difference"].high[0, 0]
