"""Runs the page's numerics under node."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallyveil.explore

NUMERICS = Path(tallyveil.explore.__file__).parent / "app" / "numerics"
SCRIPT = Path(__file__).with_name("answers.mjs")

node_needed = pytest.mark.skipif(
    shutil.which("node") is None,
    reason="node is not installed; it runs the page's JavaScript without a browser",
)


def ask_node(task: str, **content: Any) -> Any:
    """The answer of a task of `answers.mjs`."""
    done = subprocess.run(
        ["node", str(SCRIPT), str(NUMERICS)],
        input=json.dumps({"task": task, **content}, allow_nan=False),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def floats(found: Any) -> np.ndarray:
    """Numbers from node, where those that are not finite are texts."""
    return np.array(found, dtype=object).astype(np.float64)
