"""The examples of docs/derived-counts.md run as they stand, one after the other."""

import re
from pathlib import Path
from typing import Any

import pytest

import tallyveil

GUIDE = (Path(__file__).parents[2] / "docs" / "derived-counts.md").read_text()


@pytest.mark.nightly
def test_guide(small_release, monkeypatch):
    monkeypatch.chdir(small_release.parent)
    tallyveil.run("release.toml", "release", insecure_test_key="guide")
    examples = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 3
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "derived-counts.md", "exec"), names)
    counts, share = names["counts"], names["share"]
    assert counts.to_frame()["lacking"].null_count() == len(counts.names)
    assert 0 <= share.lower < share.upper <= 1
    classes = tallyveil.reliability(names["release"].table("Town", "age"))
    assert classes.columns[-2:] == ["coefficient_of_variation", "reliability"]
