"""A few of the random releases that the soak makes; `make soak-releases` makes them for hours."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "releases.py"


@pytest.mark.long
@pytest.mark.usefixtures("compiled_kernels")
def test_two_random_releases(tmp_path):
    """One that is killed and one whose folder is damaged, each held to an undisturbed run."""
    command = [sys.executable, str(SOAK), "--seed", "1", "--replay", "2", "--replay", "16"]
    said = subprocess.run([*command, "--keep", str(tmp_path)], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "2 trials, 0 with faults" in said.stdout
