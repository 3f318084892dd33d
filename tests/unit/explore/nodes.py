"""Processes of node that answer the tests' questions about the page's JavaScript, one for each script."""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

node_needed = pytest.mark.skipif(
    shutil.which("node") is None,
    reason="node is not installed; it runs the page's JavaScript without a browser",
)


@cache
def _process(script: Path, folder: Path) -> subprocess.Popen[str]:
    """It ends with the test run, which closes its input."""
    return subprocess.Popen(
        ["node", str(script), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def answer_of(script: Path, folder: Path, task: str, content: dict[str, Any]) -> Any:
    """The answer of a task of a script that `answer-lines.mjs` reads the questions for."""
    process = _process(script, folder)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"task": task, **content}) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, f"node ended with {process.wait()}"
    said = json.loads(line)
    assert "error" not in said, said["error"]
    return said["answer"]
