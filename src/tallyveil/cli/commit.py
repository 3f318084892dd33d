"""The commit of the source that runs, for `tallyveil --version`."""

import subprocess
from importlib import resources
from pathlib import Path

SECONDS = 10.0
"""Time that git may take."""


def commit() -> str | None:
    """The commit that the package was built from, or that of the checkout it lies in.

    A build writes its commit into the package. In a checkout git is asked; `+changes` then says that files were changed
    since the commit.

    Returns:
        The first 12 digits; None where neither the package nor git says it.
    """
    package = resources.files("tallyveil")
    built = package / "commit.txt"
    if built.is_file():
        return built.read_text(encoding="utf-8").strip()
    checkout = Path(str(package)).resolve().parents[1]
    if not (checkout / ".git").exists():  # a folder above may be a checkout of something else
        return None
    asked = [
        "git",
        "-C",
        str(checkout),
        "describe",
        "--always",
        "--exclude=*",
        "--abbrev=12",
        "--dirty=+changes",
    ]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):  # there is no git, or it hangs
        return None
    return said.stdout.strip() or None
