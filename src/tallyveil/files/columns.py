"""Columns of repeated words, and rows named by a geocode and an answer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.geography.spine import Spine
from tallyveil.schema.answer_columns import code_expression
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.read import collect, scan_parquet


def enum_column(name: str, words: Sequence[str], codes: np.ndarray) -> pl.Series:
    """The word of each code, stored once a column: Parquet keeps a dictionary and the codes."""
    return pl.Series(name, words, dtype=pl.Enum(list(words))).gather(codes)


def read_located(
    path: Path,
    query: QueryGroup,
    spine: Spine,
    level: int,
    columns: Sequence[str],
    what: str,
    *,
    open_ended: Sequence[str] = (),
) -> tuple[Integers, Integers, pl.DataFrame]:
    """A file of a release with a row of whole numbers for some answers of some geounits.

    Args:
        path: Of the file; its columns `geocode` and `answer` say what a row is about.
        query: Whose answers these are.
        spine: The hierarchy.
        level: Number of the geolevel of the geocodes.
        columns: The other columns wanted.
        what: What the file holds, for messages.
        open_ended: Those of the columns that may lack numbers.
    Returns:
        Geounit and answer of every row, and the columns wanted.
    Raises:
        StoreError: the file cannot be read, names a geocode or an answer that the release does not have, has two rows
            for one answer of a geounit, or lacks a whole number.
    """
    wanted = scan_parquet(path).select("geocode", code_expression("answer", query.labels()), *columns)
    frame = collect(wanted, path, what)
    rows = spine.locate(level, frame["geocode"])
    numbers = frame.select(columns)
    if (wrong := _wrong(rows, frame["answer"], query.size, numbers, open_ended)) is not None:
        raise StoreError(
            f"{path} {wrong}. It was changed after it was written; restore it from a copy of the release.",
            code="release-damaged",
        )
    return rows, frame["answer"].to_numpy(), numbers


def _wrong(
    rows: Integers, answers: pl.Series, size: int, numbers: pl.DataFrame, open_ended: Sequence[str]
) -> str | None:
    """What is wrong with located rows, for `size` answers of each geounit; None where nothing is."""
    if answers.null_count() or bool((rows < 0).any()):
        return "holds a geocode or an answer that this release does not"
    places = np.sort(rows * size + answers.to_numpy())
    if bool((places[1:] == places[:-1]).any()):
        return "has two rows for one answer of a geounit"
    whole = all(kind.is_integer() for kind in numbers.dtypes)
    lacking = not whole or sum(numbers.drop(open_ended).null_count().row(0)) > 0
    return "lacks a whole number" if lacking else None
