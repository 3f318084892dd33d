"""The folder of a driver's token, logs and sockets, which a later driver removes if nobody is left who does.

The driver locks a file in its folder, and the relay holds the same lock. If both are killed, nobody has the lock, and
the next driver of the same user on this machine removes the folder.
"""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.storage.system import (
    WINDOWS,
    has_other_owner,
    is_open_to_others,
    lock,
    open_for_lock,
)

PREFIX: Final = "tv-"
HELD: Final = "held"
"""The locked file. It gets this name when it is locked, so that a folder that is being made is never taken for one
that was left behind."""

_UNLOCKED: Final = "new"


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder of this process.

    Attributes:
        path: The folder, of mode 0700.
        descriptor: Of the locked file; the lock lasts as long as a process has it open.
    """

    path: Path
    descriptor: int

    @classmethod
    def new(cls) -> "OwnFolder":
        """Make a folder, and remove those that killed drivers left behind. Raises OSError."""
        # Each new driver cleans up after those that were killed; nobody else does.
        remove_abandoned(_parent())
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_parent()))
        making = path / _UNLOCKED
        descriptor = open_for_lock(making, mode=0o600)
        # Locked under another name, and renamed then: `held` never exists unlocked while its owner lives.
        lock(descriptor, making)
        making.rename(path / HELD)
        return cls(path, descriptor)

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors that a child process keeps, so that it holds the lock, too."""
        return () if WINDOWS else (self.descriptor,)

    def give_up(self) -> None:
        """Give back the lock, and leave the folder to the child process, which removes it."""
        with suppress(OSError):
            os.close(self.descriptor)

    def remove(self) -> None:
        """Remove the folder."""
        self.give_up()
        shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Remove folders of this user whose driver and relay are gone; others are left as they are.

    Args:
        parent: The folder in which they are.
    """
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            # Only folders of this user and of mode 0700: in a shared /tmp, others may make folders with our prefix.
            if _is_ours(path) and _is_abandoned(path / HELD):
                shutil.rmtree(path, ignore_errors=True)


# lstat: a link that somebody planted is not followed.
def _is_ours(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and not has_other_owner(status) and not is_open_to_others(status)


def _is_abandoned(held: Path) -> bool:
    """Whether nobody has the lock of a folder that has one. Raises OSError."""
    if not stat.S_ISREG(held.lstat().st_mode):
        return False
    descriptor = open_for_lock(held)
    try:
        # The lock can be had exactly if no living process holds it; closing the file gives it back.
        return lock(descriptor, held)
    finally:
        os.close(descriptor)


def _parent() -> Path:
    """Where Ray's sockets are: systems allow about 100 bytes for their paths, and Ray itself needs 60."""
    return Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
