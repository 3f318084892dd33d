"""Writes files that are either complete or absent: write to a temporary name, flush, rename."""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from tallyveil.errors import StoreError
from tallyveil.storage.system import flush

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


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, complete or absent. It raises the errors of `write_file`."""
    write_file(path, lambda temporary: _write_bytes(temporary, text.encode("utf-8")))


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON with keys in the given order, complete or absent. It raises the errors of `write_file`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


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
