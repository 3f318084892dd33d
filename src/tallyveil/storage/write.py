"""Writes files and folders that are complete, or can be told to be incomplete.

A file is written to a temporary name, flushed and renamed, so that it is complete or absent.

One process at a time writes a folder of outputs. It locks the file `UNFINISHED` in the folder. The file is
empty as long as what is in the folder is whole. It names the command from the moment when the command begins
to change files. It is removed at the end. So it stays, with the name of the command, where a command was
killed. The same command finishes the work.

Files that another machine has written may still be hidden by a shared file system; `await_file` waits.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import polars as pl
from polars.io.plugins import register_io_source

from tallyveil.errors import StoreError
from tallyveil.storage.addresses import refuse_object
from tallyveil.storage.system import absent_folders, flush, remove_empty, remove_locked, take_lock

FORMAT_VERSION = 1
"""Value of `FORMAT_TAG`. A change of what files mean needs the next number."""
FORMAT_TAG = "tallyveil.format"
"""Metadata key that every Parquet file written here has."""
TEMPORARY_SUFFIX = ".partial"
ROWS_PER_GROUP = 1 << 20
"""Rows in a row group of files written in chunks. A reader must hold at least one row group in memory."""


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file next to `path`, flush it to disk, and rename it to `path`.

    `write` receives an absolute path, because polars interprets `~` at the start of a relative path as the home folder.
    What is at the temporary name is removed first. So a link that somebody put there is not written through.

    Raises:
        StoreError: the disk is full, the folder cannot be written to, or writing fails. The temporary file is removed.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        write(temporary)
        flush(temporary)
        # The bytes are on the disk before the name is: after a crash the name never leads to half a file.
        temporary.replace(path)
        # The entry of the folder, too, or the rename could be lost with the power.
        flush(path.parent)
    except (OSError, pl.exceptions.PolarsError) as error:
        with suppress(OSError):  # the folder itself may not exist
            temporary.unlink()
        raise store_error(path, error) from error


def copy_file(source: Path, path: Path) -> None:
    """Copy the bytes of a file, as `write_file` writes them; raises StoreError."""
    write_file(path, partial(shutil.copyfile, source))


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, complete or absent. It raises the errors of `write_file`."""
    write_file(path, lambda temporary: _write_bytes(temporary, text.encode("utf-8")))


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON with keys in the given order, complete or absent. It raises the errors of `write_file`."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """The text that `write_json` writes."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_parquet(
    path: Path, frame: pl.DataFrame, metadata: Mapping[str, str], standard: Mapping[str, str] | None = None
) -> None:
    """Write a Parquet file, with the format version and `metadata` in its key-value metadata.

    Args:
        path: The file.
        frame: Its rows.
        metadata: Entries of our own, by name; each name gets the prefix `tallyveil.`.
        standard: Further entries under the names that a standard gives them, such as `geo` of GeoParquet.
    Raises:
        StoreError: see `write_file`.
    """
    tags = {**parquet_tags(metadata), **(standard or {})}

    def write(temporary: Path) -> None:
        frame.write_parquet(temporary, compression="zstd", statistics=True, metadata=tags)

    write_file(path, write)


def write_parquet_chunks(
    path: Path,
    chunks: Iterable[pl.DataFrame],
    metadata: Mapping[str, str],
    standard: Mapping[str, str] | None = None,
) -> None:
    """Write one Parquet file from many frames in order, with only a few frames in memory at a time.

    Args:
        path: The file.
        chunks: At least one frame, all with the same columns. Frames are made on another thread while earlier ones are
            written.
        metadata, standard: As in `write_parquet`.
    Raises:
        StoreError: see `write_file`. Errors raised while a frame is made are passed on unchanged.
    """
    iterator = iter(chunks)
    first = next(iterator)
    raised: list[BaseException] = []

    def rest(*_: object) -> Iterator[pl.DataFrame]:
        try:
            yield first
            yield from iterator
        except BaseException as error:  # kept and raised again below, because polars would turn it into text
            raised.append(error)
            raise

    def write(temporary: Path) -> None:
        frame = register_io_source(rest, schema=first.schema)
        frame.sink_parquet(
            temporary,
            compression="zstd",
            statistics=True,
            row_group_size=ROWS_PER_GROUP,
            metadata={**parquet_tags(metadata), **(standard or {})},
        )

    try:
        write_file(path, write)
    except StoreError:
        if raised:
            raise raised[0] from None
        raise


def parquet_tags(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a Parquet file: the format version, and our own entries under our name."""
    return {FORMAT_TAG: str(FORMAT_VERSION), **{f"tallyveil.{k}": v for k, v in metadata.items()}}


def entries_of_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Our own entries in the metadata of a Parquet file, as `parquet_tags` takes them: without prefix and format."""
    return {
        name.removeprefix("tallyveil."): value
        for name, value in tags.items()
        if name.startswith("tallyveil.") and name != FORMAT_TAG
    }


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: it cannot be read, or is no file, such as a pipe that nobody writes to.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file", str(path))
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def store_error(path: Path, error: BaseException) -> StoreError:
    """The StoreError for a failed write, which says what to do."""
    number = getattr(error, "errno", None)
    text = str(error)
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in text or "os error 28" in text:
        return StoreError(
            f"the disk holding {path.parent} is full. Free some space, then run the same command again. Finished "
            "work is kept, and nothing is spent twice.",
            code="disk-full",
        )
    if number in (errno.EACCES, errno.EROFS, errno.EPERM):
        return StoreError(
            f"{path.parent} cannot be written to ({os.strerror(number)}). Make it writable and give the same command "
            "again, or choose another folder. For a run that has spent, another folder is a new spend.",
            code="not-writable",
        )
    return StoreError(f"writing {path} failed: {type(error).__name__}: {text}", code="write-failed")


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


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
