"""The examples of docs/ask.md run as they stand, one after the other, on the release of the tutorial."""

import re
from pathlib import Path
from typing import Any

import polars as pl

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "ask.md").read_text()
TUTORIAL = (DOCS / "start" / "tutorial.md").read_text()


def test_guide(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^(?:tallyveil|cd) .*$", TUTORIAL, re.MULTILINE)[:5]:
        words = line.split()
        if words[0] == "cd":
            monkeypatch.chdir(words[1])
        else:
            command(*words[1:])
    examples = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 5
    assert max(len(example.splitlines()) for example in examples) < 15
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "ask.md", "exec"), names)
    assert names["share"].table["of"].min() > 0
    assert names["variance"] > 0
    (line,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    question = re.search(r'"(.*)"', line)
    assert question is not None
    said = command("ask", "release", question[1], "--out", "answer.csv")
    assert "usable" in said
    answer = pl.read_csv("answer.csv", schema_overrides={"geocode": pl.String})
    assert answer.columns[:3] == ["geocode", "sex", "count"]
