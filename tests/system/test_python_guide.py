"""The examples of docs/python.md run as they stand, one after the other."""

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()


@pytest.mark.nightly
def test_guide(small_release, monkeypatch):
    monkeypatch.chdir(small_release.parent)
    examples = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 7
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "python.md", "exec"), names)
    assert names["release"].protected
    assert names["again"].name == names["plan"].name
