"""The examples of docs/readers.md run, and every tool gives the same answer."""

import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import tallyveil

GUIDE = (Path(__file__).parents[2] / "docs" / "readers.md").read_text(encoding="utf-8")
COLUMNS = ["geocode", "name", "home", "count", "standard_error"]


@pytest.mark.nightly
def test_every_tool_gives_the_same_answer(edit, small_release, tmp_path, monkeypatch):
    edit("[geography]\n", '[geography]\nnames = "names.csv"\n')
    names = pl.DataFrame({"geolevel": ["Town"], "geocode": ["P01"], "name": ["Sand"]})
    names.write_csv(small_release.parent / "names.csv")
    release = tallyveil.run(small_release, tmp_path / "release", insecure_test_key="readers")
    release.add_intervals(["home"])
    expected = release.table("Town", "home").join(names, on="geocode", how="left").select(COLUMNS).rows()
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 3
    answers = []
    for example in examples:
        found: dict[str, Any] = {}
        exec(compile(example, "readers.md", "exec"), found)
        answers.append(pl.DataFrame(found["towns"]))
    (query,) = re.findall(r"```sql\n(.*?)```", GUIDE, re.DOTALL)
    answers.append(duckdb.sql(query).pl())
    for answer in answers:
        assert answer.columns == COLUMNS
        assert sorted(answer.rows()) == sorted(expected)
