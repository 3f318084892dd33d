"""Finds how a text file is written: what stands between its columns, its encoding, and its decimal sign.

Offices have files from spreadsheets of many countries. What is found is shown to people and stated in the release
file; nothing is guessed when records are read.
"""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.storage.read import (
    BYTE_ORDER_MARK,
    LONGEST_HEADER,
    PLAIN,
    TEXT_SUFFIXES,
    TextForm,
    column_names,
    is_input,
    not_utf8,
    open_input,
    utf16_words,
)

DELIMITERS: Final = (",", ";", "\t", "|")
DECIMALS: Final = (".", ",")
LINES_OF_TYPES: Final = 1000
"""Lines after the header line by which types and the decimal sign are told. More would hardly tell more."""
_SECOND_LATIN: Final = re.compile(rb"[\x80-\x9f]")
"""Bytes that are letters and signs in Windows-1252, and nothing that anybody writes in Latin-1."""
_NUMBER: Final = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True, slots=True)
class TableShape:
    """What may be known of a confidential table before a release: its columns and how it is written, no value.

    Attributes:
        form: How it is written.
        columns: Names of its columns.
        numbers: Columns that hold numbers.
        byte_order_mark: Whether it begins with one, as Excel writes it.
    """

    form: TextForm
    columns: tuple[str, ...]
    numbers: tuple[str, ...]
    byte_order_mark: bool = False


def shape_of(path: Path, what: str, form: TextForm | None = None) -> TableShape:
    """The columns of a table, and how it is written.

    Args:
        path: A Parquet or text file.
        what: The role of the file, for messages.
        form: What somebody says of it; None to find it.
    Raises:
        StoreError: it is missing or unreadable, or its first line is no header line.
    Privacy: names of columns, whether they hold numbers, and the form are told of a file, and no value. A first line
        with a number in it, an empty name or a name twice is taken for a record and not shown.
    """
    if path.suffix not in TEXT_SUFFIXES:
        columns = column_names(path, what)
        return TableShape(PLAIN, columns, ())
    if not is_input(path, what):
        # It raises the error for a file that is not there.
        column_names(path, what)
    head, encoding = _head(path, what)
    if form is not None:
        encoding = form.encoding
    try:
        text = head.decode(encoding, errors="strict" if form is None else "replace")
    except UnicodeDecodeError:
        # The head may end within a character.
        text = head.decode(encoding, errors="replace")
    marked = text.startswith(BYTE_ORDER_MARK)
    lines = text.removeprefix(BYTE_ORDER_MARK).splitlines()[: LINES_OF_TYPES + 1]
    header = lines[0] if lines else ""
    delimiter = (form.delimiter if form is not None else None) or max(DELIMITERS, key=header.count)
    rows = list(csv.reader(lines, delimiter=delimiter, strict=False))
    columns = tuple(name.strip() for name in rows[0]) if rows else ()
    _refuse_no_header(path, what, columns)
    values = [[row[place].strip() for row in rows[1:] if place < len(row)] for place in range(len(columns))]
    numbers = tuple(name for name, column in zip(columns, values, strict=True) if _are_numbers(column))
    comma = delimiter != "," and any(_DECIMAL_COMMA.fullmatch(value) for column in values for value in column)
    decimal = form.decimal if form is not None else DECIMALS[comma]
    return TableShape(TextForm(delimiter, encoding, decimal), columns, numbers, marked)


def _head(path: Path, what: str) -> tuple[bytes, str]:
    """The first bytes of a file, and its encoding, which all of its bytes tell."""
    head, other, second = b"", False, False
    # Pieces end at line ends, so that no character is cut.
    with open_input(path, what) as stream:
        while lines := stream.readlines(LONGEST_HEADER):
            piece = b"".join(lines)
            head = head or piece
            if words := utf16_words(head):
                raise not_utf8(path, what, words)
            if not other:
                try:
                    piece.decode("utf-8")
                except UnicodeDecodeError:
                    other = True
            second |= _SECOND_LATIN.search(piece) is not None
    return head, "utf-8" if not other else "windows-1252" if second else "iso-8859-1"


def _are_numbers(values: list[str]) -> bool:
    known = [value for value in values if value]
    return bool(known) and all(_NUMBER.fullmatch(value) for value in known)


def _begins_with_digit(name: str) -> bool:
    return name.lstrip("+-.,")[:1].isdigit()


def _refuse_no_header(path: Path, what: str, columns: tuple[str, ...]) -> None:
    if (
        columns
        and all(columns)
        and len(set(columns)) == len(columns)
        and not any(map(_begins_with_digit, columns))
    ):
        return
    raise StoreError(
        f"the first line of the {what} file {path} is not the names of its columns: a name is empty, occurs twice or "
        "begins with a digit. It is not shown, because it may be a record. Put a line of names above the records.",
        code="input-unreadable",
    )
