"""A sample of the bad inputs that a machine makes up; `make soak` runs 1,000 of them."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

SOAK = Path(__file__).parents[1] / "soak" / "bad_inputs.py"


def test_no_case_changes_the_values_that_others_draw(monkeypatch):
    """A list that every case shared came to hold itself, and no such list can be written as JSON."""
    monkeypatch.syspath_prepend(str(SOAK.parent))
    mutations = importlib.import_module("mutations")
    before = repr(mutations.VALUES)

    @settings(max_examples=200, database=None)
    @given(mutations.scalars)
    def change(value):
        assert not any(value is one for one in mutations.VALUES if isinstance(one, list | dict))
        if isinstance(value, list):
            value.append(value)

    change()
    assert repr(mutations.VALUES) == before


@pytest.mark.nightly
@pytest.mark.usefixtures("compiled_kernels")
def test_one_of_them():
    """The limit of a command is wider here than the 10 seconds of an idle machine."""
    done = subprocess.run(
        [sys.executable, str(SOAK), "--number", "1", "--seed", "20", "--seconds", "60"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
