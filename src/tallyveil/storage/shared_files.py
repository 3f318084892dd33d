"""Files that another machine has written, and that a shared file system may still hide from this one."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from tallyveil.errors import StoreError
from tallyveil.storage.write import file_digest

Made = TypeVar("Made")

PATIENCE_SECONDS: Final = 30.0
"""How long a worker process waits for a file that a file system may still hide from it."""
_PAUSE: Final = 0.2
"""Seconds between two looks. Half of it asks the file system twice as often; twice of it delays a worker as much."""


def await_file(path: Path, digest: str) -> None:
    """Wait until a file is what the run's own process wrote.

    Args:
        path: The file.
        digest: Its SHA-256, in hexadecimal.
    Raises:
        StoreError: it is another file, or none, also after `PATIENCE_SECONDS`.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    # The digest and not only the name: a file system may show an earlier state of a file.
    while not (path.is_file() and file_digest(path) == digest):
        if time.monotonic() > end:
            raise StoreError(
                f"{path} is missing on this machine, or is not what the run wrote. The release folder must be in a "
                "file system that all machines of the cluster share, at the same path.",
                code="run-damaged",
            )
        time.sleep(_PAUSE)


def made_with_patience(make: Callable[[], Made]) -> Made:
    """What a function makes from files that the run has written, and that may appear later on this machine.

    Raises:
        StoreError: a file is missing or damaged, also after `PATIENCE_SECONDS`.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return make()
        except StoreError:
            if time.monotonic() > end:
                raise
        time.sleep(_PAUSE)
