"""Random kills of every product; `make soak` makes 1,000 of them."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "kills.py"


@pytest.mark.nightly
@pytest.mark.usefixtures("compiled_kernels")
def test_two_random_kills():
    """The same releases, each for one spend, and nothing private left; the soak kills every product."""
    _require_no_fault("--number", "2", "--seed", "2", "--product", "topdown", "--product", "safetab")


@pytest.mark.soak
@pytest.mark.usefixtures("compiled_kernels")
def test_fifty_kills_of_the_dhc():
    """The same of a programme of four releases, and of the tables and microdata that are published from it."""
    _require_no_fault("--number", "50", "--product", "programme of the DHC", "--product", "publish dhc")


@pytest.mark.soak
@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("product", ["agreeing programme of the DHC", "programme of the DHC with sizes"])
def test_twenty_kills_of_files_that_agree(product):
    """The same of programmes whose files of persons and of units agree, and whose household sizes add up."""
    _require_no_fault("--number", "20", "--product", product)


def _require_no_fault(*flags: str) -> None:
    command = [sys.executable, str(SOAK), *flags]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "no fault" in said.stdout
