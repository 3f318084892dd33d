"""An environment of its own for each auditor, with fixed versions, below `.venv-auditors`."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = PROJECT / ".venv-auditors"

WANTED: Final = {
    "own": ("numpy==2.4.6", "scipy==1.17.1"),
    "jax-privacy": ("jax-privacy==2.0.0",),
    "privacy-estimates": ("privacy-estimates==0.1.0.post1",),
}
"""Packages of each environment. None of them has the audited package."""


def python_of(name: str) -> str:
    """The interpreter of an environment, which is made where it is missing."""
    folder = FOLDER / name
    done, wanted = folder / ".installed", "\n".join(WANTED[name])
    interpreter = folder / "bin" / "python"
    if not done.is_file() or done.read_text() != wanted:
        venv.create(folder, clear=True, with_pip=True)
        install = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--only-binary=:all:", *WANTED[name]], check=True, stdout=sys.stderr)
        done.write_text(wanted)
    return str(interpreter)
