"""One of the random releases that the soak makes; `make soak-releases` makes them for hours."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "releases.py"


@pytest.mark.nightly
@pytest.mark.usefixtures("compiled_kernels")
def test_a_random_release(tmp_path):
    """Its folder is damaged, and it is held to an undisturbed run. Others are killed in `test_kills.py`."""
    command = [sys.executable, str(SOAK), "--seed", "1", "--replay", "16"]
    said = subprocess.run([*command, "--keep", str(tmp_path)], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "1 trials, 0 with faults" in said.stdout
