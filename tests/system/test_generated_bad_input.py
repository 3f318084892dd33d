"""A sample of the bad inputs that a machine makes up; `make soak` runs 1,000 of them."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "bad_inputs.py"


@pytest.mark.long
@pytest.mark.usefixtures("compiled_kernels")
def test_three_of_them():
    """The limit of a command is wider here than the 10 seconds of an idle machine."""
    done = subprocess.run(
        [sys.executable, str(SOAK), "--number", "3", "--seed", "20", "--seconds", "60"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
