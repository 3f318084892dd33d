"""Reads the Parquet files of a release. They may be damaged, and every fault becomes one kind of error."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from tallyveil.declared import Text
from tallyveil.errors import StoreError
from tallyveil.storage.json_files import damaged, parsed
from tallyveil.storage.read import UNREADABLE, parquet_metadata, read_parquet, scan_parquet

_RESTORE = (
    "Restore the file from a copy of the release. To make the release again elsewhere would be a new spend."
)


def read_published(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A Parquet file of a release, or some of its columns.

    Raises:
        StoreError: the file is missing or damaged, or lacks a column.
    """
    with _readable(path):
        return read_parquet(path, columns)


def published_columns(path: Path) -> tuple[str, ...]:
    """Names of the columns. It raises the errors of `read_published`."""
    return tuple(published_schema(path))


def published_schema(path: Path) -> dict[str, pl.DataType]:
    """The type of each column, in order. It raises the errors of `read_published`."""
    with _readable(path):
        return dict(scan_parquet(path).collect_schema())


def published_tags(path: Path) -> dict[str, str]:
    """The file's metadata, such as the name of its run. It raises the errors of `read_published`."""
    with _readable(path):
        return parquet_metadata(path)


def published_height(path: Path) -> int:
    """Number of rows. It raises the errors of `read_published`."""
    with _readable(path):
        return int(scan_parquet(path).select(pl.len()).collect().item())


def names_of_tag(path: Path, text: str) -> tuple[str, ...]:
    """The list of names that a metadata entry of a file contains as JSON.

    Raises:
        StoreError: the entry contains something else.
    """
    names = parsed(text, tuple[Text, ...])
    if names is None:
        raise damaged(path, "the list of names among its tags", _RESTORE)
    return names


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise StoreError(
            f"{path} cannot be read: {type(error).__name__}. {_RESTORE}", code="release-unreadable"
        ) from None
