"""The examples of docs/ask.md run as they stand, one after the other, on the release of the tutorial."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "ask.md").read_text()
REGRESSION = (DOCS / "regression.md").read_text()
TUTORIAL = (DOCS / "start" / "tutorial.md").read_text()


@pytest.mark.nightly
def test_guide(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^(?:tallyveil|cd) .*$", TUTORIAL, re.MULTILINE)[:5]:
        words = line.split()
        if words[0] == "cd":
            monkeypatch.chdir(words[1])
        else:
            command(*words[1:])
    examples = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 10
    assert max(len(example.splitlines()) for example in examples) < 15
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "ask.md", "exec"), names)
    assert names["share"].table["of"].min() > 0
    assert names["variance"] > 0
    assert names["median"].table["published"].null_count() == 0
    assert names["uneven"].table["published"].item() > 0
    assert names["people"].table["geocode"].to_list() == ["A", "B"]
    assert set(names["women"].table["statement"]) <= {"above", "not above", "open"}
    assert names["change"].table["standard_error"].min() >= 0
    slopes = names["fit"].table
    assert slopes["naive"][1] < slopes["estimate"][1]
    (example,) = re.findall(r"```python\n(.*?)```", REGRESSION, re.DOTALL)
    exec(compile(example, "regression.md", "exec"), names)
    assert names["fit"].table["term"].to_list() == ["intercept", "people"]
    (line,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    question = re.search(r'"(.*)"', line)
    assert question is not None
    said = command("ask", "release", question[1], "--out", "answer.csv")
    assert "usable" in said
    answer = pl.read_csv("answer.csv", schema_overrides={"geocode": pl.String})
    assert answer.columns[:3] == ["geocode", "sex", "count"]
    record = json.loads(command("ask", "release", question[1], "--json", "--limit", 2))
    assert [row["count"] for row in record["rows"]] == answer["count"].to_list()
    assert sum(row["usable"] for row in record["rows"]) >= answer["usable"].sum()
    command("ask", "release", question[1], "--out", "answer.parquet", "--quiet")
    assert pl.read_parquet("answer.parquet")["estimate"].to_list() == answer["estimate"].to_list()
    assert "or .xlsx" in command("ask", "release", "total", "--out", "answer.ods", code=2)
    assert "lies in the release" in command("ask", "release", "total", "--out", "release/a.csv", code=2)
    assert "Known: sex" in command("ask", "release", "seks", code=2)
