"""The attributes of a first release file: from a codebook, from a sample that is not confidential, or from flags."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.schema.ranges import ranges_of
from tallyveil.storage.read import collect, column_names, require_levels, scan_table

MOST_LEVELS = 5000
"""Largest number of levels of an attribute that are taken from a file."""


@dataclass(frozen=True, slots=True)
class FirstAttribute:
    """An attribute as the file will have it.

    Attributes:
        name: Its name, and its column in the records.
        levels: Names of its levels.
        is_number: Whether the column holds whole numbers and the levels are ranges.
    """

    name: str
    levels: tuple[str, ...]
    is_number: bool = False


def read_codebook(path: Path, numbers: Iterable[str] = ()) -> tuple[FirstAttribute, ...]:
    """The attributes of a codebook: a table with a row for each level, and the columns `attribute` and `level`.

    Args:
        path: The codebook, Parquet or CSV.
        numbers: Attributes whose columns hold whole numbers. Their levels are ranges.
    Raises:
        ConfigError: a column is missing, a value is null, an attribute has more than `MOST_LEVELS` levels, or `numbers`
            names no attribute of the codebook.
        StoreError: the file cannot be read.
        SchemaError: a level of `numbers` is no range, or a column holds lists, structures or bytes.
    """
    columns = ["attribute", "level"]
    frame = scan_table(path, columns, "codebook")
    require_levels(frame, columns, path, "codebook")
    rows = collect(frame, path, "codebook").cast(pl.String)
    if rows.is_empty() or rows.null_count().sum_horizontal().item():
        raise ConfigError(
            f"the codebook {path} has no rows, or a row without an attribute or a level. Give every level a row of "
            "its own, with both.",
            code="bad-codebook",
        )
    levels: dict[str, list[str]] = {}
    for name, level in rows.iter_rows():
        levels.setdefault(name, []).append(level)
    _refuse_unknown(numbers, levels, f"the codebook {path}")
    return tuple(_attribute(name, tuple(listed), name in set(numbers)) for name, listed in levels.items())


def read_levels(
    path: Path, attributes: Sequence[str], what: str, *, confidential: bool = False
) -> tuple[FirstAttribute, ...]:
    """Attributes whose levels are the values that a table has, in ascending order.

    Args:
        path: A sample that is not confidential and has every level; or the records, if their owner allows it.
        attributes: Columns.
        what: The role of the file, for messages.
        confidential: Whether the header of the file must not be shown, because it may be a record.
    Raises:
        ConfigError: a column is missing, has nulls, or has more than `MOST_LEVELS` values.
        StoreError: the file cannot be read.
    Privacy: which values occur becomes public. For records this is a decision of their owner.
    """
    attributes_read = []
    for name in attributes:
        frame = scan_table(path, [name], what, confidential=confidential)
        require_levels(frame, [name], path, what)
        levels = collect(frame, path, what)[name].cast(pl.String).unique().sort()
        if levels.null_count():
            raise ConfigError(
                f"column {name!r} of the {what} file {path} has rows without a value. Give every row one, or leave the "
                "attribute out with --attributes.",
                code="bad-codebook",
            )
        attributes_read.append(_attribute(name, tuple(levels), is_number=False))
    return tuple(attributes_read)


def columns_besides(path: Path, others: Iterable[str | None], what: str) -> tuple[str, ...]:
    """Columns of a sample that are neither the geocode nor the count."""
    return tuple(name for name in column_names(path, what) if name not in set(others))


def ranges_of_bands(text: str) -> str:
    """The ranges of a shorthand: "0:5:85" is "0-4,5-9,...,80-84,85+".

    Raises:
        ConfigError: it is no such shorthand.
    """
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ConfigError(_bands_wanted(text), code="bad-flag")
    start, width, last = map(int, parts)
    if width < 1 or last <= start or (last - start) % width or (last - start) // width > MOST_LEVELS:
        raise ConfigError(_bands_wanted(text), code="bad-flag")
    closed = (f"{low}-{low + width - 1}" if width > 1 else str(low) for low in range(start, last, width))
    return ",".join([*closed, f"{last}+"])


def numbered(ranges: Mapping[str, str]) -> tuple[FirstAttribute, ...]:
    """Attributes with the ranges that flags give.

    Args:
        ranges: Ranges of each attribute, separated by commas.
    Raises:
        SchemaError: a text is no range, or two ranges share a number.
    """
    return tuple(
        _attribute(name, tuple(part.strip() for part in text.split(",")), is_number=True)
        for name, text in ranges.items()
    )


def _attribute(name: str, levels: tuple[str, ...], is_number: bool) -> FirstAttribute:
    if len(levels) > MOST_LEVELS:
        raise ConfigError(
            f"attribute {name!r} has more than {MOST_LEVELS:,} levels, the most that init writes. If its column holds "
            "numbers, give their ranges with --ranges or --bands. Otherwise leave it out with --attributes.",
            code="bad-codebook",
        )
    if is_number:
        ranges_of(levels, name)
    return FirstAttribute(name, levels, is_number)


def _refuse_unknown(numbers: Iterable[str], levels: Mapping[str, object], where: str) -> None:
    if unknown := [name for name in numbers if name not in levels]:
        raise ConfigError(
            f"--numbers names {', '.join(unknown)}, which {where} does not have. It has {', '.join(levels)}.",
            code="bad-flag",
        )


def _bands_wanted(text: str) -> str:
    return (
        f"--bands has {text!r}, wanted START:WIDTH:LAST, such as 0:5:85 for 0-4, 5-9, ..., 80-84, 85+. LAST less START "
        f"is a multiple of WIDTH, and there are at most {MOST_LEVELS:,} bands."
    )
