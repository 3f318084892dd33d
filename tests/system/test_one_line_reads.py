"""The lines of docs/outputs.md that read all tables of a release read all its intervals, too, with the same sums."""

import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from tests.samples import nightly

import tallyveil

GUIDE = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text().partition("\n## Tables\n")[2]
SUMS = 'SELECT geolevel, query, sum("count"), sum(lower), sum(upper), count(*) FROM found GROUP BY ALL ORDER BY ALL'


@pytest.fixture
def folder(edit, monkeypatch):
    """A finished release with intervals, in the current folder as `release`."""
    path = edit("[outputs]", '[outputs]\nintervals = "0.95"')
    monkeypatch.chdir(path.parent)
    tallyveil.run(path, "release", insecure_test_key="readers")
    return path.parent / "release"


def shown(language: str) -> list[str]:
    """The lines of the page that read all tables, in one language."""
    blocks = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return [
        line
        for line in "\n".join(blocks).splitlines()
        if "release/tables" in line and "geolevel=" not in line
    ]


def sums(found: Any) -> list[tuple[Any, ...]]:
    """Sums by geolevel and query, whatever library the table is of."""
    assert found is not None  # DuckDB finds it by its name
    return duckdb.sql(SUMS).fetchall()


@pytest.mark.parametrize("kind", ["tables", nightly("intervals")])
def test_every_line_reads_the_same(folder, kind):
    lines = [line.replace("release/tables", f"release/{kind}") for line in shown("python")]
    names: dict[str, Any] = {}
    found = []
    for line in lines[:3]:
        exec(f"import polars as pl, pandas, pyarrow.dataset\n{line}", names)
        found.append(sums(names["tables"]))
    (query,) = shown("sql")
    found.append(sums(duckdb.sql(query.replace("release/tables", f"release/{kind}"))))
    assert len(found) == 4
    assert found[1:] == found[:1] * 3
    files = sorted((folder / kind).rglob("*.parquet"))
    assert sum(row[-1] for row in found[0]) == sum(pl.read_parquet(path).height for path in files) > 100
    assert sum(row[2] for row in found[0]) == sum(int(pl.read_parquet(path)["count"].sum()) for path in files)
