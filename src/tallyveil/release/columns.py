"""Columns of repeated words and of labels, and rows named by a geocode and an answer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.geography.spine import Spine
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.universe.query_group import Factor, QueryGroup


def enum_column(name: str, words: Sequence[str], codes: np.ndarray) -> pl.Series:
    """The word of each code, stored once a column: Parquet keeps a dictionary and the codes."""
    return pl.Series(name, words, dtype=pl.Enum(list(words))).gather(codes)


def label_columns(group: QueryGroup, answers: Integers) -> list[pl.Series]:
    """What each answer counts: a column for each attribute of the schema, with the label of the answer's group.

    It is null if the query sums the attribute out. The columns are text, not dictionaries: files with other labels,
    also of other releases, then have the same types.
    """
    places = np.unravel_index(answers, group.shape)
    return [_labels(factor, place) for factor, place in zip(group.factors, places, strict=True)]


def _labels(factor: Factor, groups: Integers) -> pl.Series:
    if factor.name is None:
        return pl.Series(factor.attribute, [None], dtype=pl.String).new_from_index(0, len(groups))
    return pl.Series(factor.attribute, factor.labels, dtype=pl.String).gather(groups)


def answer_expression(group: QueryGroup) -> pl.Expr:
    """The answer that the columns of `label_columns` name; null where they name none."""
    answer = pl.lit(0, dtype=pl.Int64)
    for factor in group.factors:
        summed_out = pl.when(pl.col(factor.attribute).is_null()).then(pl.lit(0, dtype=pl.Int64))
        code = summed_out if factor.name is None else code_expression(factor.attribute, factor.labels)
        answer = answer * factor.size + code
    return answer.alias("answer")


def code_expression(name: str, words: Sequence[str]) -> pl.Expr:
    """The code of each word of a column; null where a word is none of them."""
    return pl.col(name).cast(pl.String).cast(pl.Enum(list(words)), strict=False).to_physical().cast(pl.Int64)


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
