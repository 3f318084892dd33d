"""What the commands that check the project have in common: values of flags, and how a command ends."""

import argparse
import ctypes
import hashlib
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

PROJECT: Final = Path(__file__).parents[1]
PR_SET_PDEATHSIG: Final = 1
"""Of the header sys/prctl.h: the signal that a process gets when its parent ends."""
LOCK: Final = ".lock"
"""File that a process locks which works in a folder."""


class NotCheckedError(Exception):
    """Something could not be checked; the message says what, why, and what to do."""


def whole(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least `least`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"got {text!r}, wanted a whole number of at least {least}")
        return number

    return read


def length(least: float = math.ulp(0.0)) -> Callable[[str], float]:
    """Reads a length of time: finite, and at least `least` (by default, above 0)."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number < math.inf:
            wanted = "above 0" if 0 < least < 1e-300 else f"of at least {least:g}"
            raise argparse.ArgumentTypeError(f"got {text!r}, wanted a finite number {wanted}")
        return number

    return read


def folder(text: str) -> Path:
    """Reads the path of a folder that is there or can be made; makes nothing."""
    path = Path(text)
    nearest = next(one for one in (path, *path.parents) if os.path.lexists(one))
    if not nearest.is_dir():
        raise argparse.ArgumentTypeError(f"{nearest} is not a folder; name a folder, or one that can be made")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"nothing may be written to {nearest}; name another folder")
    return path


@contextmanager
def alone(folder: Path, wanted: str) -> Iterator[None]:
    """Hold a folder, which is made if it is missing. Processes that inherit all files of this one hold it, too.

    Args:
        folder: The folder.
        wanted: What is to be done in it, for the message.

    Raises:
        NotCheckedError: Another process holds it.
    """
    import fcntl  # here, because Windows has none, and tests on Windows import this module

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotCheckedError(
                f"{wanted}: another process works in {folder}. Wait until it has ended; what a killed command has "
                f"started may go on for some minutes."
            ) from None
        os.set_inheritable(lock.fileno(), True)
        yield


def digest_of(folders: Iterable[Path], *, without: Path | None = None) -> str:
    """SHA-256 of the Python and TOML files of some folders.

    Args:
        folders: The folders.
        without: A folder whose own files are left out.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".toml"} and path.parent != without:
                digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def refuse_another_package(wanted: Path = PROJECT / "src") -> None:
    """Refuse to check the sources in a folder where the package is imported from elsewhere.

    Raises:
        NotCheckedError: It is.
    """
    found, wanted = find_spec("tallyveil"), wanted.resolve()
    if found is None or found.origin is None or wanted not in Path(found.origin).resolve().parents:
        raise NotCheckedError(
            f"{sys.executable} imports tallyveil from {found.origin if found else 'nowhere'}, wanted {wanted}. Install "
            f"the clone with `pip install -e .`, or set PYTHONPATH to {wanted}."
        )


def end_with_parent() -> None:
    """Let the system kill this process, a forked one, when its parent ends, be it killed (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def exit_code(main: Callable[[], int]) -> int:
    """Run a command: its exit code, 2 if it could not check something, 130 if it was stopped.

    The signal SIGTERM stops it as Ctrl-C does, so that its temporary folders are removed.
    """
    signal.signal(signal.SIGTERM, _stop)
    try:
        return main()
    except NotCheckedError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130


def _stop(signal_number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
