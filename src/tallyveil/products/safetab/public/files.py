"""The published file formats: the columns in order, and their allowed values. All errors are reported.

Every table is a text file (`.txt`: UTF-8, `|` between columns, a header line, no quoting) or a Parquet file
with the same name, whose columns are text too. Validation has three phases. The first checks the columns and
formats of each file by itself (in this module). The second derives domains from the data (codes, iterations,
states). The third checks that values are in these domains (`iterations`, `regions`, and behind the wall the
person records).

Code lists may also come in short form, which is converted: `ITERATION_CODE|1000:1999, 5010` becomes one row
for each code.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from stat import S_ISREG
from typing import Final, TypeVar

import polars as pl

from tallyveil.errors import ConfigError, SchemaError, StoreError, TallyveilError
from tallyveil.printable import header_of
from tallyveil.storage.addresses import is_object
from tallyveil.storage.read import UNREADABLE, held, is_input, open_input, read_text, scan_parquet, scan_text
from tallyveil.storage.write import refuse_unfinished_folder, write_text

Made = TypeVar("Made")

SHOWN = 8
"""Number of values that a message shows. A wrong column has millions; twice as many would fill the screen, half
would show no pattern."""

LONGEST = 60
"""Number of characters of a value that are shown."""


def raise_all(problems: Sequence[TallyveilError], what: str) -> None:
    """Raise one error with all problems, with the type of the first one; do nothing if there are none."""
    if not problems:
        return
    if len(problems) == 1:
        raise problems[0]
    lines = [f"{len(problems)} problems with {what}:", *(f"- {problem}" for problem in problems)]
    # The type and code of the first problem, so that programs can tell what to correct first.
    raise type(problems[0])("\n".join(lines), code=problems[0].code)


def made_or_noted(make: Callable[[], Made], problems: list[TallyveilError]) -> Made | None:
    """What a function makes; or None, with its error added to the problems."""
    try:
        return make()
    except TallyveilError as error:
        problems.append(error)
        return None


def some(values: Sequence[str]) -> str:
    """The first few values of a public file, quoted."""
    shown = ", ".join(repr(value[:LONGEST]) for value in values[:SHOWN])
    return shown + (", ..." if len(values) > SHOWN else "")


FOUR_DIGITS: Final = r"^[1-9][0-9]{3}$"
"""A race, ethnicity or iteration code; the first digit is not 0."""

FLAG: Final = r"^(True|False)$"
"""A truth value as Python writes it, which is what the published files have."""

FLAG_OR_NULL: Final = r"^(True|False|Null)$"


class Word(IntEnum):
    """Words that a column of numbers may also contain, and the numbers that they denote."""

    NONE = 0
    NULL = 1
    """Null denotes 0."""
    FLAG = 2
    """False denotes 0, and True denotes 1."""


@dataclass(frozen=True, slots=True)
class NumberRule:
    """A column's pattern for the compiled reader of records: digits in a range, or a word.

    Attributes:
        least_digits, most_digits: Number of digits; 0 if only words are allowed.
        least, most: Range of the number.
        word: Words that are allowed in addition.
    """

    least_digits: int
    most_digits: int
    least: int
    most: int
    word: Word = Word.NONE


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """The allowed values of a column.

    Attributes:
        name: Name of the column.
        pattern: Regular expression that every value must match.
        wanted: The same rule in words.
        number: The same rule for the compiled reader. Columns of records have one.
    """

    name: str
    pattern: str
    wanted: str
    number: NumberRule | None = None


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One published file format.

    Attributes:
        stem: File name without its ending.
        rules: Rules of the columns, in order.
        extra: Whether further columns are allowed and ignored (only in the geography).
        confidential: Whether the first line must not be shown. If the header is missing, that line is a record.
    """

    stem: str
    rules: tuple[ColumnRule, ...]
    extra: bool = False
    confidential: bool = False

    @property
    def columns(self) -> list[str]:
        """Column names in order."""
        return [rule.name for rule in self.rules]


def _digits(name: str, n: int) -> ColumnRule:
    return ColumnRule(name, rf"^[0-9]{{{n}}}$", f"{n} digits", NumberRule(n, n, 0, 10**n - 1))


def digit_of(name: str, most: int) -> ColumnRule:
    """A rule for one digit from 1 to `most`."""
    return ColumnRule(name, rf"^[1-{most}]$", f"1 to {most}", NumberRule(1, 1, 1, most))


def race_summary(name: str) -> ColumnRule:
    """The rule for CENRACE and HHRACE: two digits from 01 to 63."""
    pattern = r"^(0[1-9]|[1-5][0-9]|6[0-3])$"
    return ColumnRule(name, pattern, "2 digits from 01 to 63", NumberRule(2, 2, 1, 63))


BLOCK: Final = (
    _digits("TABBLKST", 2),
    _digits("TABBLKCOU", 3),
    _digits("TABTRACTCE", 6),
    _digits("TABBLK", 4),
)
"""Columns that identify a block."""

_CODE_OR_NULL = r"^([1-9][0-9]{3}|Null)$"
_CODE = "4 digits, the first 1 to 9"
_CODE_NUMBER = NumberRule(4, 4, 1000, 9999)
"""The same rule as FOUR_DIGITS for the compiled reader: exactly four digits, so the range alone keeps out a
leading 0."""

RECORD_CODES: Final = (
    ColumnRule("QRACE1", FOUR_DIGITS, _CODE, _CODE_NUMBER),
    *(
        ColumnRule(f"QRACE{i}", _CODE_OR_NULL, f"{_CODE}, or Null", replace(_CODE_NUMBER, word=Word.NULL))
        for i in range(2, 9)
    ),
    ColumnRule("QSPAN", FOUR_DIGITS, _CODE, _CODE_NUMBER),
)
"""Columns with a record's race and ethnicity codes."""

PERSONS: Final = FileFormat(
    "person-records",
    (
        ColumnRule(
            "QAGE",
            r"^(0{0,2}[0-9]|0?[1-9][0-9]|10[0-9]|11[0-5])$",
            "a whole number from 0 to 115 of at most 3 digits",
            NumberRule(1, 3, 0, 115),
        ),
        ColumnRule("QSEX", r"^[12]$", "1 or 2", NumberRule(1, 1, 1, 2)),
        ColumnRule("HOUSEHOLDER", FLAG, "True or False", NumberRule(0, 0, 0, 0, Word.FLAG)),
        *BLOCK,
        race_summary("CENRACE"),
        *RECORD_CODES,
    ),
    confidential=True,
)
GEOGRAPHY: Final = FileFormat(
    "GRF-C",
    (
        *BLOCK,
        ColumnRule("PLACEFP", r"^[0-9]{5}$", "5 digits (99999: none)"),
        ColumnRule("AIANNHCE", r"^[0-9]{4}$", "4 digits (9999: none)"),
    ),
    extra=True,
)
CODES: Final = FileFormat(
    "race-and-ethnicity-codes",
    (ColumnRule("RACE_ETH_CODE", FOUR_DIGITS, _CODE), ColumnRule("RACE_ETH_NAME", r"", "a name")),
)
_ITERATION = ColumnRule("ITERATION_CODE", r"^[0-9]{4}$", "4 digits")
_ITERATION_START = (
    _ITERATION,
    ColumnRule("ITERATION_NAME", r"\S", "a name"),
    ColumnRule("LEVEL", r"^[012]$", "0, 1 or 2"),
)
_ITERATION_END = (
    ColumnRule("DETAILED_ONLY", FLAG_OR_NULL, "True, False or Null"),
    ColumnRule("COARSE_ONLY", FLAG_OR_NULL, "True, False or Null"),
)
RACE_ITERATIONS: Final = FileFormat(
    "race-characteristic-iterations",
    (*_ITERATION_START, ColumnRule("ALONE", FLAG, "True or False"), *_ITERATION_END),
)
ETHNICITY_ITERATIONS: Final = FileFormat(
    "ethnicity-characteristic-iterations", (*_ITERATION_START, *_ITERATION_END)
)
CODE_TO_ITERATION: Final = FileFormat(
    "race-and-ethnicity-code-to-iteration", (_ITERATION, ColumnRule("RACE_ETH_CODE", FOUR_DIGITS, _CODE))
)


def find_file(folder: Path, form: FileFormat) -> Path:
    """The file of a format in a folder, as text or Parquet.

    Raises:
        StoreError: neither file or both files exist, or a command is writing the folder.
    """
    # A folder that a command is writing may hold half a table.
    if not is_object(folder):
        refuse_unfinished_folder(folder)
    ends = (".txt", ".parquet")
    paths = [path for end in ends if is_input(path := folder / (form.stem + end), form.stem)]
    if len(paths) == 1:
        return paths[0]
    said = (
        f"{folder} holds both {form.stem}.txt and .parquet" if paths else f"{folder} holds no {form.stem}.txt"
    )
    wanted = "Keep one of them." if paths else "Add it, or a .parquet file of that name."
    raise StoreError(f"{said}. {wanted}", code="input-missing")


def scan_file(path: Path, form: FileFormat) -> pl.LazyFrame:
    """Open a file lazily with all columns as text, after a check of its header.

    Raises:
        ConfigError: columns are missing, unexpected, out of order, or not text.
        StoreError: the file cannot be read.
        SchemaError: the file is empty.
    """
    try:
        frame = scan_parquet(path) if path.suffix == ".parquet" else scan_text(path, "|", None)
        # Reads the header alone.
        schema = frame.collect_schema()
    except UNREADABLE as error:
        if isinstance(error, pl.exceptions.NoDataError):
            raise _empty(path) from None
        raise unreadable(path, error) from None
    _check_header(path, form, schema.names())
    # A Parquet column of integers has lost the leading zeros of its codes, which cannot be put back.
    numbers = [name for name in form.columns if schema[name] not in (pl.String, pl.Categorical, pl.Enum)]
    if numbers:
        raise ConfigError(
            f"{path}: column(s) {some(numbers)} hold no text. Codes that are written as numbers lose their leading "
            "zeros. Store the columns as strings.",
            code="geocode-not-text",
        )
    # Categorical columns become text; further columns of the geography are dropped here.
    columns = frame.select(pl.col(name).cast(pl.String) for name in form.columns)
    if path.suffix == ".parquet":
        return columns
    # A blank line, such as at the end of the published files, is not a row.
    # Nulls of the text reader are empty fields; the rules then refuse them by name.
    return columns.select(pl.all().fill_null("")).filter(pl.any_horizontal(pl.all() != ""))


def read_file(folder: Path, form: FileFormat) -> tuple[Path, pl.DataFrame]:
    """Read a public file, with a check of its columns and formats (phase 1).

    Raises:
        ConfigError, SchemaError, StoreError: the file breaks rules; one error reports all columns.
    """
    path = find_file(folder, form)
    return path, read_rows(path, form)


def read_rows(path: Path, form: FileFormat) -> pl.DataFrame:
    """Read one public file. It raises the errors of `read_file`."""
    if path.suffix != ".parquet":
        check_utf8(path)
    frame = collect_file(scan_file(path, form), path)
    if frame.is_empty():
        raise _empty(path)
    raise_all([*_broken_rules(path, form, frame)], str(path))
    return frame


def collect_file(frame: pl.LazyFrame, path: Path) -> pl.DataFrame:
    """Run a query on a file. An error never quotes a value of the file.

    Raises:
        StoreError: the file is damaged, or lines have different numbers of columns.
    """
    try:
        with held(path, path.stem):
            # Streaming, because GRF-C of a country has some 8 million rows.
            return frame.collect(engine="streaming")
    except UNREADABLE as error:
        raise unreadable(path, error) from None


def check_utf8(path: Path) -> None:
    """Refuse a text file that is not UTF-8. The message says where.

    Raises:
        StoreError: a byte is not UTF-8, or the file cannot be read.
    """
    place = 0
    try:
        # Reading a pipe would wait without end.
        if not is_object(path) and not S_ISREG(path.stat().st_mode):
            raise OSError("a device or a pipe may have no end")
        with open_input(path, path.stem) as lines:
            # Line by line, so that the message can name the place and memory does not grow.
            for number, line in enumerate(lines, start=1):
                line.decode("utf-8")
                place = number
    except UnicodeDecodeError as error:
        raise StoreError(
            f"{path}: byte {error.start + 1} of line {place + 1} is not UTF-8. Save the file as UTF-8.",
            code="safetab-encoding",
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: BaseException) -> StoreError:
    """The error for a file that cannot be read. It names only the kind of failure."""
    return StoreError(
        f"{path} cannot be read: {type(error).__name__}. Wanted a text file with '|' between columns and the same "
        "number of columns on every line, or a Parquet file.",
        code="input-unreadable",
    )


def _check_header(path: Path, form: FileFormat, present: Sequence[str]) -> None:
    wanted = form.columns
    missing = [name for name in wanted if name not in present]
    unexpected = [] if form.extra else [name for name in present if name not in wanted]
    present_columns = [name for name in present if name in wanted]
    if missing or unexpected or present_columns != wanted:
        said = [f"missing {some(missing)}"] if missing else []
        if unexpected:
            # A missing header makes the first record the header; its texts must not be shown.
            shown = () if form.confidential else header_of(present, wanted)
            said.append(
                f"unexpected {some(unexpected) if shown else 'others, not shown (they may be a record)'}"
            )
        said = said or [f"out of order: {some(present_columns)}"]
        raise ConfigError(
            f"{path}: columns {'; '.join(said)}. Wanted, in this order: {', '.join(wanted)}. The first line of a "
            "text file names them, with '|' between the names and a line feed at the end. Correct the header or the "
            "file.",
            code="safetab-columns",
        )


def _broken_rules(path: Path, form: FileFormat, frame: pl.DataFrame) -> list[TallyveilError]:
    errors: list[TallyveilError] = []
    for rule in form.rules:
        bad = frame.filter(~pl.col(rule.name).str.contains(rule.pattern).fill_null(value=False))
        if bad.height:
            # Public files only; records are checked elsewhere, where no value is shown.
            values = bad[rule.name].fill_null("").unique(maintain_order=True).to_list()
            errors.append(
                SchemaError(
                    f"{path}: column {rule.name} has {bad.height} row(s) whose values are not {rule.wanted}: "
                    f"{some(values)}. Correct them.",
                    code="safetab-values",
                )
            )
    return errors


def _empty(path: Path) -> SchemaError:
    return SchemaError(f"{path} has no rows. Give a file with at least one.", code="safetab-empty")


_TERM = r"[0-9]{4}(?::[0-9]{4})?"
_LINE = re.compile(rf" *([0-9]{{1,4}}) *\| *({_TERM}(?: *, *{_TERM})*) *", re.ASCII)
_HEADER = "ITERATION_CODE|RACE_ETH_CODE"


def convert_short_form(short_form: Path, codes: Path, output: Path) -> int:
    """Write the long form of a short-form file.

    Ranges may contain codes that do not exist. Codes that are not in the codes file are omitted.

    Args:
        short_form: Each line has an iteration code, `|`, and codes or ranges `first:last` separated by commas.
        codes: The race and ethnicity codes file.
        output: The long-form file to write, complete or absent.
    Returns:
        Number of rows written.
    Raises:
        SchemaError: a line breaks the grammar, a range decreases, or the codes file lacks its column.
        StoreError: a file cannot be read or written.
    """
    # Ranges are written generously (1000:1999), so codes that do not exist are expected and passed over.
    known = _known_codes(codes)
    rows = [
        f"{iteration}|{code:04d}"
        for iteration, spans in _parse(short_form)
        # Overlapping ranges name a code twice; it gets one row.
        for code in dict.fromkeys(c for first, last in spans for c in range(first, last + 1))
        if code in known
    ]
    write_text(output, "\n".join([_HEADER, *rows, ""]))
    return len(rows)


def _known_codes(path: Path) -> set[int]:
    check_utf8(path)
    try:
        frame = read_text(path, "|", None)
    except UNREADABLE as error:
        raise unreadable(path, error) from None
    name = CODES.columns[0]
    if name not in frame.columns:
        raise SchemaError(
            f"{path} does not have the column {name}. Give the file of race and ethnicity codes.",
            code="safetab-short-form",
        )
    return {int(code) for code in frame[name].to_list() if code is not None and code.isdecimal()}


def _parse(path: Path) -> list[tuple[str, list[tuple[int, int]]]]:
    check_utf8(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise unreadable(path, error) from None
    parsed = []
    # The first line is a header, whatever its words.
    for number, line in enumerate(lines[1:], start=2):
        match = _LINE.fullmatch(line)
        spans = [_span(term) for term in match[2].split(",")] if match else []
        if match is None or any(first > last for first, last in spans):
            raise SchemaError(
                f"{path}, line {number}: {line[:60]!r} is not in the short form. Wanted an iteration code, then '|', "
                "then codes of 4 digits or rising ranges such as 1000:1999, separated by commas.",
                code="safetab-short-form",
            )
        parsed.append((match[1], spans))
    return parsed


def _span(term: str) -> tuple[int, int]:
    first, _, last = term.strip().partition(":")
    return int(first), int(last or first)
