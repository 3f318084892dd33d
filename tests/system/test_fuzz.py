"""A few readers get some changed files. Each reader takes the valid file that fuzzing begins with (`make soak`)."""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz" / "fuzz.py"


@pytest.mark.soak
@pytest.mark.usefixtures("compiled_kernels")
def test_every_target_takes_its_valid_file(tmp_path):
    """`--minutes 0` ends after the valid file."""
    said = _fuzzed("--minutes", "0", "--keep", str(tmp_path))
    assert said.returncode == 0, said.stdout + said.stderr
    names = _fuzzed("--list").stdout.split("\n")[1:-1]  # the first line says that files are drawn at random
    assert len(names) > 50
    assert all(f"\n{name}: 1 files" in said.stdout for name in names), said.stdout


@pytest.mark.nightly
@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("names", [("ledger", "key-file", "cluster-channel", "checkpoint", "spine-file")])
def test_some_changed_files(tmp_path, names):
    said = _fuzzed(*names, "--minutes", "0.01", "--keep", str(tmp_path))
    assert said.returncode == 0, said.stdout + said.stderr
    assert not list(tmp_path.iterdir())


def _fuzzed(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(FUZZ), *flags], capture_output=True, text=True, check=False)
