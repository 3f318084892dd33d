"""Runs the page's numerics under node."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from tests.unit.explore.nodes import answer_of

import tallyveil.explore

NUMERICS = Path(tallyveil.explore.__file__).parent / "app" / "numerics"
HERE = Path(__file__).parent


def run_node(script: str, content: dict[str, Any]) -> Any:
    """What a script of this folder writes when it reads some content."""
    done = subprocess.run(
        ["node", str(HERE / script), str(NUMERICS)],
        input=json.dumps(content, allow_nan=False),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask_node(task: str, **content: Any) -> Any:
    """The answer of a task of `answers.mjs`."""
    return answer_of(HERE / "answers.mjs", NUMERICS, task, content)


def floats(found: Any) -> np.ndarray:
    """Numbers from node, where those that are not finite are texts."""
    return np.array(found, dtype=object).astype(np.float64)
