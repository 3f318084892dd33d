"""One process at a time writes a folder of outputs, and a folder that is not complete can be told from one that is.

A process that writes a folder locks the file `UNFINISHED` in it. The file is empty as long as what is in the folder is
whole. It names the command from the moment when the command begins to change files. It is removed at the end. So it
stays, with the name of the command, where a command was killed. The same command finishes the work.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tallyveil.errors import StoreError
from tallyveil.storage.addresses import refuse_object
from tallyveil.storage.system import (
    absent_folders,
    flush,
    remove_empty,
    remove_locked,
    take_lock,
)
from tallyveil.storage.write import store_error

UNFINISHED: Final = ".tallyveil-unfinished"
"""The file that a process locks while it writes a folder. It is not empty while files of the folder change."""
# Bytes that are read of a mark, more than the longest that a command writes; a foreign file may have any size.
_LONGEST: Final = 200
_TEXT: Final = "`tallyveil {}` is writing this folder, or was interrupted. Run the same command again.\n"
_NAMED: Final = re.compile(re.escape(_TEXT).replace(re.escape("{}"), "([a-z0-9 -]{1,60})"))


class Claim:
    """A folder that one process writes; use as a context manager.

    If the work fails before anything was changed, the folder is left as it was found.

    Raises:
        StoreError: another process writes the folder, or the folder cannot be written to.
    """

    def __init__(self, folder: Path, command: str) -> None:
        self.folder = folder
        self._text = _TEXT.format(command).encode()
        self._made: tuple[Path, ...] = ()  # folders that were not there: the folder first, then its parents
        self._found = b""
        self._begun = False
        self._lock = -1

    @property
    def goes_on(self) -> bool:
        """Whether the same command was interrupted in this folder before."""
        return bool(self._found) and self._text.startswith(self._found)

    def begin(self) -> None:
        """Mark the folder as unfinished, until the work succeeds. Raises StoreError."""
        try:
            # What an interrupted command left is the beginning of the text. It must not be gone at any moment: a folder
            # with files and an empty mark would be refused.
            os.lseek(self._lock, 0, os.SEEK_SET)
            os.write(self._lock, self._text)
            os.fsync(self._lock)
            flush(self.folder)
        except OSError as error:
            raise store_error(self._path, error) from error
        self._begun = True

    def __enter__(self) -> Self:
        refuse_object(self.folder)
        try:
            # Before the folder is made, so that a failure can remove just what was made here.
            self._made = absent_folders(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True)
            held = take_lock(self._path)
            if held is None:
                raise StoreError(
                    f"another process is writing in {self.folder}; wait for it, or choose another folder.",
                    code="folder-locked",
                )
            self._lock = held
            self._found = os.read(self._lock, _LONGEST)
        except OSError as error:
            self._let_go()
            raise store_error(self._path, error) from error
        # Another command was interrupted here: only that one may go on.
        if self._found and not self.goes_on:
            self._let_go()
            refuse_unfinished_folder(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Without a change begun here, the folder is as it was found: whole unless a mark lay there.
            is_whole = kind is None if self._begun else not self._found
            if is_whole or (not self._found and self._holds_nothing()):
                # Forget the descriptor first: `remove_locked` closes it in any case, and it must not be closed twice.
                descriptor, self._lock = self._lock, -1
                remove_locked(self._path, descriptor)
            # Folders that hold anything stay; only empty ones that were made here go.
            if kind is not None:
                remove_empty(self._made)
        except OSError as failed:
            raise store_error(self._path, failed) from failed
        finally:
            self._let_go()

    @property
    def _path(self) -> Path:
        return self.folder / UNFINISHED

    def _holds_nothing(self) -> bool:
        return {entry.name for entry in self.folder.iterdir()} <= {UNFINISHED}

    def _let_go(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def is_unfinished(folder: Path) -> bool:
    """Whether a command is changing the files of a folder, or was interrupted while it did."""
    try:
        # The mark is made by the lock already. It says something only once it has text.
        return (folder / UNFINISHED).stat().st_size > 0
    except (
        OSError,
        ValueError,
    ):  # There is no mark; or nothing in the folder can be read, which its reader reports.
        return False


def refuse_unfinished_folder(folder: Path) -> None:
    """Refuse to read from a folder whose files are not complete.

    Args:
        folder: A folder of inputs.
    Raises:
        StoreError: a command is writing the folder, or was interrupted there.
    """
    if not is_unfinished(folder):
        return
    stated = b""
    with suppress(OSError):  # another user's mark says the same without the name
        stated = (folder / UNFINISHED).read_bytes()[:_LONGEST]
    named = _NAMED.fullmatch(stated.decode("utf-8", errors="replace"))
    command = "the command that writes it" if named is None else f"`tallyveil {named[1]}`"
    raise StoreError(
        f"the files in {folder} are not complete: {command} is at work there, or was interrupted. Wait for it. If it "
        "is not running, run it again with the same options; it then finishes the folder.",
        code="folder-unfinished",
    )
