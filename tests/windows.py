"""Files as Windows has them, on another system: for tests of what is done differently there.

What Windows lacks is taken away from `os`. Folders cannot be opened. What this process has open, or has mapped into its
memory, can be neither removed nor replaced, and an open folder cannot be removed with what is in it. This is no
Windows: the locks are those of this system, and libraries do what they do here.
"""

import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import filelock
import psutil
import pytest

from tallyveil.storage import system

LACKING = (
    "O_NOFOLLOW", "O_DIRECTORY", "fchmod", "getuid", "geteuid", "pread", "pwrite", "pathconf", "sysconf",
    "sysconf_names", "sched_getaffinity",
)  # fmt: skip
PEAK = 300 << 20


def behave_like_windows(patch: pytest.MonkeyPatch) -> None:
    """Take away what Windows lacks, and refuse what it refuses."""
    assert filelock.lock_descriptor  # it has found the locks of this system already
    patch.setattr(system, "WINDOWS", True)
    for module in ("fcntl", "resource"):
        patch.setitem(sys.modules, module, None)
    patch.setattr(
        psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: SimpleNamespace(peak_wset=PEAK))
    )
    patch.setattr(shutil, "_use_fd_functions", False)
    patch.setattr(os, "open", _opening(os.open))
    patch.setattr(os, "fsync", _flushing)
    for name, places in (("unlink", 1), ("remove", 1), ("rmdir", 1), ("rename", 2), ("replace", 2)):
        patch.setattr(os, name, _moving(getattr(os, name), places, keeps=name == "rename"))
    for name in LACKING:
        patch.delattr(os, name)


def _opening(original: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            raise NotImplementedError("dir_fd unavailable on this platform")
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return original(path, flags, mode)

    return opened


def _flushing(descriptor: int) -> None:
    """Windows flushes only what is open for writing."""
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")


def _moving(original: Callable[..., None], places: int, *, keeps: bool) -> Callable[..., None]:
    def moved(*given: Any, **folders: int | None) -> None:
        if any(folder is not None for folder in folders.values()):
            raise NotImplementedError("dir_fd unavailable on this platform")
        if keeps and os.path.lexists(given[1]):
            raise FileExistsError(errno.EEXIST, "File exists", str(given[1]))
        for path in given[:places]:
            if os.path.lexists(path) and _is_open(Path(path)):
                raise PermissionError(errno.EACCES, "The file is used by another process", str(path))
        original(*given)

    return moved


def _is_open(path: Path) -> bool:
    found = path.lstat()
    used = set(_used())
    if not stat.S_ISDIR(found.st_mode):
        return (found.st_dev, found.st_ino) in used
    below = (inside.lstat() for inside in path.rglob("*"))
    return any((one.st_dev, one.st_ino) in used for one in below)


def _used() -> Iterator[tuple[int, int]]:
    """Device and inode of every file that this process has open or mapped."""
    for link in [*Path("/proc/self/fd").iterdir(), *Path("/proc/self/map_files").iterdir()]:
        try:
            found = link.stat()
        except OSError:  # closed since
            continue
        yield found.st_dev, found.st_ino
