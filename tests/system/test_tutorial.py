"""The commands of docs/start/tutorial.md run as they stand, and its numbers are those that they print."""

import re
from pathlib import Path
from typing import Any

import polars as pl

import tallyveil

GUIDE = (Path(__file__).parents[2] / "docs" / "start" / "tutorial.md").read_text()


def test_tutorial(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^(?:tallyveil|cd) .*$", GUIDE, re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["init", "town", "init", "plan", "run", "evaluate"]
    said = {}
    for line in lines:
        words = line.split()
        if words[0] == "cd":
            monkeypatch.chdir(words[1])
        else:
            said[words[1]] = command(*words[1:])
    assert "epsilon <= 6.548 at delta = 1e-10" in said["plan"]
    assert "at most 69.2 % of their guesses are right" in said["plan"]
    assert re.search(r"total +±9 +±9 +±9 ", said["plan"])
    assert "bias" in said["evaluate"]
    assert len(pl.read_csv("areas.csv")) == 120
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "tutorial.md", "exec"), names)
    assert names["release"].table("Town", "work").columns[-4:] == [
        "estimate", "standard_error", "lower", "upper"
    ]  # fmt: skip
    assert isinstance(names["release"], tallyveil.Release)
