"""Every benchmark can be imported: nothing that it uses has moved."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_benchmarks_find_what_they_import():
    # In a process of its own: some set variables of the environment.
    modules = [path.stem for path in sorted(FOLDER.glob("*.py"))]
    assert len(modules) > 10
    lines = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import {', '.join(modules)}"
    found = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
