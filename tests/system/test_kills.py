"""Random kills of every product; `make soak` makes 1,000 of them."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "kills.py"


@pytest.mark.long
@pytest.mark.usefixtures("compiled_kernels")
def test_two_random_kills():
    """Races and damage among them: the same releases, each for one spend, and nothing private left."""
    command = [sys.executable, str(SOAK), "--number", "2", "--seed", "2", "--lanes", "3"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "no fault" in said.stdout
