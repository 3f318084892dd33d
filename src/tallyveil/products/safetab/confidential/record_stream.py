"""Reads a file of records in pieces: from text or Parquet to parsed numbers, and to the rules that values break."""

import io
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.confidential.histogram import REDACTED
from tallyveil.errors import StoreError
from tallyveil.kernels.records.text_records import parse_rows
from tallyveil.products.safetab.public.files import FileFormat, Word, collect_file, scan_file, unreadable
from tallyveil.storage.inputs import held, input_size, open_input

PIECE: Final = 1 << 23
"""Number of bytes of text parsed at once: about 100,000 records."""

ROWS: Final = 1 << 17
"""Number of Parquet rows parsed at once. They are read as slices, because a batched reader reads far ahead."""

AHEAD: Final = 2
"""Number of pieces that are parsed on other threads while earlier ones are processed."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ParsedRecords:
    """Some consecutive records of a file. Confidential.

    Attributes:
        values: Every column as a number, 0 if the value breaks its rule; int32, shape (records, columns).
        broken: Whether each column has a value that its rule does not allow; shape (columns,).
    """

    values: NDArray[np.int32]
    broken: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"ParsedRecords(records={REDACTED})"


def most_records(path: Path, form: FileFormat) -> int:
    """An upper bound on the number of records in the file, if no record breaks a rule.

    Args:
        path, form: As in `parsed_records`, whose errors it may raise.
    """
    scan = scan_file(path, form)
    if path.suffix == ".parquet":
        return int(collect_file(scan.select(pl.len()), path).item())
    words = {Word.NONE: 9, Word.NULL: len("Null"), Word.FLAG: len("True")}
    shortest = 0
    for column in range(len(form.rules)):
        digits, _, _, _, word = _rule(form, column)
        shortest += min(digits or 9, words[Word(word)]) + 1
    return input_size(path, path.stem) // shortest + 1


def parsed_records(path: Path, form: FileFormat) -> Iterator[ParsedRecords]:
    """The records of a file in order, in parts. The memory needed does not grow with their number.

    Args:
        path: Text or Parquet file.
        form: Its format. Each of its columns must have a `NumberRule`.
    Raises:
        ConfigError: the header is not that of the format.
        SchemaError: the file is empty.
        StoreError: the file cannot be read, or lines have different numbers of columns.
    Privacy: errors name only the file and the kind of failure.
    """
    scan = scan_file(path, form)  # checks the header
    rules = np.array([_rule(form, number) for number in range(len(form.rules))], np.int64)
    pieces = _parquet_pieces(path, scan) if path.suffix == ".parquet" else _text_pieces(path)
    waiting: deque[Future[ParsedRecords | None]] = deque()
    with ThreadPoolExecutor(AHEAD) as pool:
        for piece in chain(pieces, [None] * AHEAD):
            if piece is not None:
                waiting.append(pool.submit(_parsed, piece, rules))
            if waiting and (piece is None or len(waiting) > AHEAD):
                found = waiting.popleft().result()
                if found is None:
                    raise _ragged(path)
                yield found


def _parsed(piece: bytes, rules: NDArray[np.int64]) -> ParsedRecords | None:
    """The records of some lines, or None if a line has another number of columns."""
    data = np.frombuffer(piece, np.uint8)
    values = np.empty((len(data) // len(rules) + 1, len(rules)), np.int32)
    broken = np.zeros(len(rules), bool)
    n = parse_rows(data, rules, values, broken)
    return None if n < 0 else ParsedRecords(values[:n], broken)


def _rule(form: FileFormat, column: int) -> tuple[int, int, int, int, int]:
    rule = form.rules[column].number
    if rule is None:
        raise TypeError(
            f"{form.stem} is not a format of records, because its column {form.columns[column]} has no rule for "
            "numbers"
        )
    return rule.least_digits, rule.most_digits, rule.least, rule.most, int(rule.word)


def _text_pieces(path: Path) -> Iterator[bytes]:
    """Complete lines after the header, about `PIECE` bytes at a time."""
    try:
        with held(path, path.stem), open_input(path, path.stem) as opened:
            opened.readline()
            rest = b""
            while piece := opened.read(PIECE):
                end = piece.rfind(b"\n") + 1
                if not end:  # no line of the formats is this long
                    if len(rest) + len(piece) > PIECE:
                        raise _ragged(path)
                    rest += piece
                    continue
                yield rest + piece[:end]
                rest = piece[end:]
            if rest:
                yield rest + b"\n"
    except OSError as error:
        raise unreadable(path, error) from None


def _parquet_pieces(path: Path, scan: pl.LazyFrame) -> Iterator[bytes]:
    """The rows of a Parquet file, as the text that a text file would have.

    Raises:
        StoreError: a value contains the end of a line, which could turn one row into several records.
    """
    n = collect_file(scan.select(pl.len()), path).item()
    with held(path, path.stem):
        for first in range(0, n, ROWS):
            text = io.BytesIO()
            frame = collect_file(scan.slice(first, ROWS), path)
            frame.write_csv(text, separator="|", quote_style="never", include_header=False)
            piece = text.getvalue()
            if piece.count(b"\n") != frame.height or b"\r" in piece:
                raise _ragged(path)
            yield piece


def _ragged(path: Path) -> StoreError:
    return unreadable(path, ValueError("another number of columns"))
