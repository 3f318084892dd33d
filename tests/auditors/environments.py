"""An environment of its own for each auditor, with fixed versions, below `.venv-auditors`."""

import subprocess
import sys
import venv
from typing import Final

from tests.commands import PROJECT, NotCheckedError, alone

FOLDER: Final = PROJECT / ".venv-auditors"

WANTED: Final = {
    "own": ("numpy==2.4.6", "scipy==1.17.1"),
    "jax-privacy": ("jax-privacy==2.0.0",),
    "privacy-estimates": ("privacy-estimates==0.1.0.post1",),
}
"""Packages of each environment. None of them has the audited package."""


def python_of(name: str) -> str:
    """The interpreter of an environment, which is made where it is missing.

    Raises:
        NotCheckedError: pip cannot install its packages, or another process makes environments.
    """
    folder = FOLDER / name
    done, wanted = folder / ".installed", "\n".join(WANTED[name])
    interpreter = folder / "bin" / "python"
    if not done.is_file() or done.read_text() != wanted:
        with alone(FOLDER, f"the environment of {name}"):
            venv.create(folder, clear=True, with_pip=True)
            install = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            command = [*install, "--only-binary=:all:", *WANTED[name]]
            if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
                raise NotCheckedError(
                    f"pip could not install {', '.join(WANTED[name])} into {folder}; its reason is above. The "
                    f"first audit on a machine needs the package index."
                )
            done.write_text(wanted)
    return str(interpreter)
