"""A file of chained lines that is only ever appended to, by one writer at a time: of a ledger, and of a book.

A line is on disk before the call that wrote it returns. `accounting/ledger/lines.py` says what the chain shows.
"""

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.ledger.lines import NO_LINE, chained_line, line_hash
from tallyveil.errors import StoreError
from tallyveil.storage.system import flush, is_same_file, lock, open_for_lock, regular_bytes
from tallyveil.storage.write import store_error

_LOGGER = logging.getLogger(__name__)

# Seconds between two attempts at a lock that another process has: long beside the write of a line, short for a person.
_PAUSE: Final = 0.02


class ChainedFile:
    """A file of chained lines, locked and open for writing.

    Attributes:
        path: The file.
        head: SHA-256 of the last line, or `NO_LINE`.
        lines: The finished lines that the file had when it was opened, with their ends.
    """

    def __init__(self, path: Path, name: str, *, patience: float = 0.0) -> None:
        """Open the file, and make it if it is not there.

        A crash may leave a last line without its end. That line is dropped with a warning: the call that was writing
        it never returned, so nothing was done on its account.

        Args:
            path: The file.
            name: What it is, for messages: a ledger or a book.
            patience: Seconds to wait for another writer.
        Raises:
            StoreError: the file cannot be opened, or another writer has it open.
        """
        self.path, self._name = path, name
        self._file = _open_locked(path, name, patience)
        try:
            self.lines = self._finished_lines()
        except OSError as error:
            self.close()
            raise store_error(path, error) from error
        self.head = line_hash(self.lines.split(b"\n")[-2]) if self.lines else NO_LINE

    def append(self, mapping: Mapping[str, Any]) -> None:
        """Write one more line; on return it is on disk.

        Raises:
            StoreError: it could not be written; the file is as it was before.
        """
        line = chained_line(mapping, self.head)
        end = self._file.seek(0, os.SEEK_END)
        try:
            data = line + b"\n"
            # A disk that runs full takes a part of what it is given, and says so only the next time.
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
            if not end:
                # The name of a new file is in its folder, which a crash could lose.
                flush(self.path.parent)
        except OSError as error:
            # Half a line in the middle of the file would make it unreadable for ever.
            self._file.truncate(end)
            raise StoreError(
                f"could not write to the {self._name} {self.path}: {error}. Nothing was spent; "
                "make room or mend the disk and run again."
            ) from error
        self.head = line_hash(line)

    def close(self) -> None:
        """Close the file and let another writer in. Lines are on disk already."""
        self._file.close()

    def _finished_lines(self) -> bytes:
        data: bytes = self._file.read()
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):
            _LOGGER.warning(
                "%s: dropped an unfinished last line of %d bytes, left by a crash; nothing was measured on "
                "its account",
                self.path,
                len(data) - len(complete),
            )
            # Before anything is appended: the next line would continue the unfinished one.
            self._file.truncate(len(complete))
        return complete


def finished_lines(path: Path, name: str, wanted: str) -> bytes:
    """The finished lines of a file of chained lines, which is not opened for writing.

    Args:
        path: The file.
        name: What it is, for messages.
        wanted: Which path to give, for messages.
    Raises:
        StoreError: the file cannot be read, or holds no finished line.
    """
    try:
        data = regular_bytes(path)
    except OSError as error:
        raise StoreError(f"could not read the {name} {path}: {error}. Give the path of {wanted}.") from error
    complete = data[: data.rfind(b"\n") + 1]
    if not complete:
        raise StoreError(f"the {name} {path} holds no finished line. Give the path of {wanted}.")
    return complete


def _open_locked(path: Path, name: str, patience: float) -> Any:
    try:
        # Without a buffer: bytes that were handed over are with the system when it is told to flush.
        file = os.fdopen(open_for_lock(path, mode=0o644), "r+b", buffering=0)
    except OSError as error:
        raise StoreError(
            f"could not open the {name} {path}: {error}. Create its folder, or name a folder that can be written."
        ) from error
    end = time.monotonic() + patience
    try:
        while not (has_lock := lock(file.fileno(), path)) and time.monotonic() < end:
            time.sleep(_PAUSE)
        if has_lock and is_same_file(path, file.fileno()):
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    if has_lock:
        # While this process waited, another file was put in its place. A line in the old one would be lost.
        return _open_locked(path, name, patience)
    raise StoreError(
        f"the {name} {path} is open in another run. Wait for it to finish: two runs that spend at once could together "
        "exceed the budget."
    )
