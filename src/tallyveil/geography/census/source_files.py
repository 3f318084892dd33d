"""Reads one public file as text, and checks the blocks and codes that several kinds of files share.

Errors say the file, the first line that does not fit, what was found and what was wanted.
"""

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from tallyveil.errors import GeographyError
from tallyveil.geography.census.codes import BLOCK, CLASSES, OUTSIDE, STATES, Code, class_of
from tallyveil.geography.tables import geocode_column, is_block_name
from tallyveil.printable import present_columns, short_name, shown
from tallyveil.storage.read import (
    LONGEST_HEADER,
    UNREADABLE,
    collect,
    column_names,
    place_of_other_bytes,
    read_lines,
    require_levels,
    require_text,
    scan_table,
)

SEPARATOR: Final = "|"
# What a spreadsheet writes instead, with the words for a message.
OTHER_SEPARATORS: Final = {",": "commas", "\t": "tabs", ";": "semicolons"}
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Byte-order marks of UTF-16, which would otherwise be reported as strange bytes.
WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, eq=False)
class SourceTable:
    """A table of a public file, all columns as text. An empty field is null.

    Attributes:
        path: The file.
        rows: The columns that were asked for and are there, one row for each line below the header.
        notes: What was unusual about the file but leaves its meaning clear.
        counts_lines: Whether places are numbered as lines of a text file. Otherwise they are rows, from 1.
        row_numbers: Numbers of the rows in the file, from 0, if only some of them are in `rows`.
    """

    path: Path
    rows: pl.DataFrame
    notes: tuple[str, ...] = ()
    counts_lines: bool = True
    row_numbers: pl.Series | None = None

    def filtered(self, mask: pl.Series) -> "SourceTable":
        """The rows of a mask. Errors still name their lines in the file."""
        row_numbers = mask.arg_true() if self.row_numbers is None else self.row_numbers.filter(mask)
        return SourceTable(self.path, self.rows.filter(mask), self.notes, self.counts_lines, row_numbers)

    def at(self, row: int) -> str:
        """The file and the line of a row (the rows are numbered from 0)."""
        row = row if self.row_numbers is None else int(self.row_numbers[row])
        # Text files have a header in line 1, and lines are counted from 1; rows of Parquet have neither.
        return f"{self.path}, line {row + 2}" if self.counts_lines else f"{self.path}, row {row + 1}"

    def error(self, row: int, got: str, wanted: str, mend: str, *, code: str) -> GeographyError:
        """An error at a row.

        Args:
            row: The row, from 0.
            got: What was found. Values of the file in it are made safe to print here.
            wanted: What was expected.
            mend: A sentence that says what to do.
            code: Code of the error.
        """
        return GeographyError(f"{self.at(row)}: got {shown(got)}; wanted {wanted}. {mend}", code=code)


def read_source(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> SourceTable:
    """Read a file: text with "|" between fields, or, if its name ends so, `.csv` (commas) or `.parquet`.

    A byte-order mark and Windows line ends do not change what a file says. They are accepted and noted.

    Args:
        path: The file.
        required: Columns that must be there. The first must be text. If it has a usual name of the column of blocks,
            the other usual names stand for it (`geocode_column`).
        optional: Columns that are read if they are there.

    Raises:
        GeographyError: the file is missing, empty, not UTF-8, or has another separator; its header is missing or lacks
            a column; or a line has too few or too many fields.
        ConfigError, StoreError: as `scan_table` raises them, for Parquet and CSV.
        SchemaError: a column of a Parquet file contains lists, structures, bytes or durations.
    """
    if not path.is_file():
        raise _misread(path, "no file", "a file of the Census Bureau", "Correct the path.")
    if path.suffix in (".parquet", ".csv"):
        return _read_table(path, required, optional)
    header, notes = _header(path)
    header = _with_block(path, header, required[0])
    _check_header(path, header, required)
    lines = _text_lines(path)[1:]
    # Before the lines are split: a line with too few fields would be filled with nulls without an error.
    _check_fields(path, lines, len(header))
    fields = lines.str.split_exact(SEPARATOR, len(header) - 1).struct.unnest()
    fields.columns = header
    columns = [name for name in (*required, *optional) if name in header]
    # An empty field says nothing, so that it is null for every reader below.
    return SourceTable(path, fields.select(pl.col(columns).replace("", None)), notes)


def _header(path: Path) -> tuple[list[str], tuple[str, ...]]:
    """Names of the columns in the first line, and notes."""
    with path.open("rb") as stream:
        # At most so many bytes: a file without line ends must not be read as one line.
        line = stream.readline(LONGEST_HEADER)
    if not line.strip():
        raise _misread(
            path, "an empty first line", "a header with the names of the columns", "Put the header in front."
        )
    if line.startswith(WIDE_MARKS):
        raise _misread(path, "a file in UTF-16", "UTF-8", "Save the file as UTF-8.")
    marked, windows = line.startswith(BYTE_ORDER_MARK), line.endswith(b"\r\n")
    text = line.decode("utf-8-sig", errors="replace").rstrip("\r\n")
    if SEPARATOR not in text:
        separator = next((words for sign, words in OTHER_SEPARATORS.items() if sign in text), "no separator")
        raise _misread(
            path,
            f"{separator} in the first line",
            f"fields with '{SEPARATOR}' between them",
            f"Replace the separators by '{SEPARATOR}'. If the file has commas, its name may end in .csv instead.",
        )
    notes = (
        *(["The file begins with a byte-order mark, which was skipped."] if marked else []),
        *(["The file has Windows line ends, which were read as line ends."] if windows else []),
    )
    return text.split(SEPARATOR), notes


def _with_block(path: Path, header: list[str], block: str) -> list[str]:
    """The header, with the wanted name in the place of another usual name of the column of blocks."""
    if block in header or not any(map(is_block_name, header)):
        return header
    key = geocode_column(header, path, "geography", block)
    return [block if name == key else name for name in header]


def _check_header(path: Path, header: Sequence[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in header]
    twice = sorted({name for name in header if header.count(name) > 1})
    if missing:
        raise _misread(
            path,
            f"a first line without {', '.join(missing)}",
            f"a header with {', '.join(required)}",
            f"{present_columns(header, required)} Use the file as the Census Bureau publishes it: put the header "
            "in front, or rename the columns.",
        )
    if twice:
        raise _misread(
            path, f"the column {short_name(twice[0])} twice", "each column once", "Remove one of them."
        )


def _text_lines(path: Path) -> pl.Series:
    try:
        return read_lines(path)
    except UNREADABLE:
        raise _misread(
            path,
            place_of_other_bytes(path, "geography") or "the control character U+001F",
            "a text file in UTF-8",
            "Save the file as UTF-8 text; a spreadsheet calls it 'CSV UTF-8'.",
        ) from None


def _check_fields(path: Path, lines: pl.Series, n_fields: int) -> None:
    if len(lines) == 0:
        raise _without_rows(path)
    field_counts = lines.str.count_matches(SEPARATOR, literal=True) + 1
    wrong = (field_counts != n_fields).arg_true()
    if len(wrong):
        row = wrong[0]
        raise SourceTable(path, pl.DataFrame()).error(
            row,
            f"{field_counts[row]} field(s) in '{_short(lines[row])}'",
            f"{n_fields}, as in the header",
            "Correct the line, or download the file again.",
            code="census-file",
        )


def _read_table(path: Path, required: Sequence[str], optional: Sequence[str]) -> SourceTable:
    present = list(column_names(path, "geography"))
    named = dict(zip(_with_block(path, present, required[0]), present, strict=True))
    wanted = [named.get(name, name) for name in (*required, *(name for name in optional if name in named))]
    scan = scan_table(path, wanted, "geography")
    require_text(scan, wanted[0], path, "geography")
    require_levels(scan, wanted, path, "geography")
    rows = collect(scan, path, "geography").rename({wanted[0]: required[0]})
    rows = rows.select(pl.all().cast(pl.String).replace("", None))
    if rows.height == 0:
        raise _without_rows(path)
    return SourceTable(path, rows, counts_lines=False)


def read_spreadsheet(path: Path, columns: Mapping[str, str]) -> SourceTable:
    """Read a list that a spreadsheet program saved as CSV: titles above the header, and notes below the rows.

    The header is the first line that has all columns. Its fields are separated by commas, tabs or semicolons, which
    spreadsheet programs write by the language of the machine. Rows with nothing but a first field are notes, and are
    passed over.

    Args:
        path: The file.
        columns: Columns that must be there, by the letters of their names: "fipsstatecode" stands for "FIPS State
            Code", too. Each with its name in the table.

    Raises:
        GeographyError: the file is missing, empty or not UTF-8, has no header or no rows, or a row has too few or too
            many fields.
    """
    if not path.is_file():
        raise _misread(path, "no file", "a list saved as CSV", "Correct the path.")
    if not path.stat().st_size:
        raise _misread(path, "an empty file", "a list saved as CSV", "Save the published list again.")
    records = _records(path, columns)
    letters = ([_letters(name) for name in fields] for _, fields in records)
    heading = next(
        ((place, names) for place, names in enumerate(letters) if set(columns) <= set(names)), None
    )
    if heading is None:
        raise _misread(
            path,
            f"no line with {', '.join(columns)}",
            "a header with these columns, whose names may have spaces and capital letters",
            "Save the published list as CSV, with its header.",
        )
    start, header = heading
    rows = [(line, fields) for line, fields in records[start + 1 :] if any(fields[1:])]
    if not rows:
        raise _without_rows(path)
    # Places of rows are counted from 0, below a header in line 1.
    lines = pl.Series([line - 2 for line, _ in rows])
    wrong = next((row for row, (_, fields) in enumerate(rows) if len(fields) != len(header)), None)
    if wrong is not None:
        raise SourceTable(path, pl.DataFrame(), row_numbers=lines).error(
            wrong,
            f"{len(rows[wrong][1])} field(s)",
            f"{len(header)}, as in the header",
            "Correct the line, or save the list again.",
            code="census-file",
        )
    texts = {name: [fields[header.index(key)] for _, fields in rows] for key, name in columns.items()}
    table = pl.DataFrame(texts, schema=dict.fromkeys(texts, pl.String))
    return SourceTable(path, table.with_columns(pl.all().replace("", None)), row_numbers=lines)


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text)).lower()


def _records(path: Path, columns: Collection[str]) -> list[tuple[int, list[str]]]:
    """The records of a CSV file, each with the number of its last line, from 1.

    The header that has all columns says which sign stands between fields; a comma where no line is the header.
    """
    lines = _text_lines(path).to_list()
    header = next((line for line in lines if all(name in _letters(line) for name in columns)), "")
    reader = csv.reader(lines, delimiter=max(OTHER_SEPARATORS, key=header.count), strict=True)
    try:
        return [(reader.line_num, fields) for fields in reader]
    except csv.Error:
        raise _misread(
            path,
            f"a field without an end in line {reader.line_num}",
            "a quotation mark at the end of each field that begins with one",
            "Add it, or save the list again.",
        ) from None


def _misread(path: Path, got: str, wanted: str, mend: str) -> GeographyError:
    return GeographyError(f"{path}: got {shown(got)}; wanted {wanted}. {mend}", code="census-file")


def _without_rows(path: Path) -> GeographyError:
    return _misread(path, "a header and no rows", "at least one row", "Download the file again.")


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:120] + "..."


ALL_STATES: Final = f"{', '.join(STATES)} (the fifty States, the District of Columbia and Puerto Rico)"


def check_blocks(table: SourceTable, column: str, state: str | None = None) -> None:
    """Refuse blocks that are no blocks, repeated, of an unknown State, or of another State.

    Args:
        table: The file.
        column: Its column of blocks.
        state: The State that all blocks must be in; None if any will do.

    Raises:
        GeographyError: as above.
    """
    blocks = table.rows[column]
    # The form first: the digits that are cut out below mean something only in a block of 15 digits.
    check_form(table, column, BLOCK, "a block of 15 digits", may_be_empty=False)
    states = blocks.str.slice(0, 2)
    if len(lost := (~states.is_in(list(STATES))).arg_true()):
        row = lost[0]
        raise table.error(
            row,
            f"block '{blocks[row]}' of State '{states[row]}'",
            f"one of the States {ALL_STATES}",
            "Remove the row, or correct the block.",
            code="census-code",
        )
    if state is not None and len(lost := (states != state).arg_true()):
        row = lost[0]
        raise table.error(
            row,
            f"block '{blocks[row]}', which is in State {_named(states[row])}",
            f"blocks of State {_named(state)}, which the name of the file says",
            "Use the file of the right State, or give the file its own name.",
            code="census-block",
        )
    check_once(table, column)


def check_once(table: SourceTable, column: str) -> None:
    """Refuse a value that two rows of a column have.

    Raises:
        GeographyError: as above.
    """
    values = table.rows[column]
    again = (~values.is_first_distinct()).arg_true()
    if len(again):
        row = again[0]
        first = (values == values[row]).arg_true()[0]
        raise table.error(
            row,
            f"block '{values[row]}' a second time; it is first at {table.at(first)}",
            "every block once",
            "Remove one of the rows.",
            code="census-block",
        )


def check_form(table: SourceTable, column: str, form: str, wanted: str, *, may_be_empty: bool) -> None:
    """Refuse codes of another width or of other characters.

    Raises:
        GeographyError: as above.
    """
    values = table.rows[column]
    # The whole text must fit, and a null counts as the caller says.
    fits = values.str.contains(f"^(?:{form})$").fill_null(may_be_empty)
    if len(wrong := (~fits).arg_true()):
        row = wrong[0]
        got = "nothing" if values[row] is None else f"'{values[row]}'"
        raise table.error(
            row,
            f"{got} in column {column}",
            wanted,
            "Read codes as text, because numbers lose their leading zeros, or download the file again.",
            code="census-code",
        )


def check_code(table: SourceTable, column: str, code: Code, *, may_be_empty: bool = True) -> None:
    """Refuse a column whose codes do not have the form of a code.

    Raises:
        GeographyError: as above.
    """
    check_form(table, column, code.form, f"a code of {code.wanted}", may_be_empty=may_be_empty)
    if code.column == "AIANNHCE":
        _check_tribal_class(table, column)


def _check_tribal_class(table: SourceTable, column: str) -> None:
    values = table.rows[column]
    lost = [
        code for code in values.drop_nulls().unique().to_list() if code != OUTSIDE and class_of(code) is None
    ]
    if lost:
        row = values.is_in(lost).fill_null(False).arg_true()[0]
        raise table.error(
            row,
            f"'{values[row]}' in column {column}, which no class of areas has",
            f"a code from {CLASSES[0].first} to {CLASSES[-1].last} in one of the classes, or {OUTSIDE}",
            "Download the file again, or correct the code.",
            code="census-code",
        )


class Part(NamedTuple):
    """Digits of a block that another column repeats.

    Attributes:
        start: Place of the first digit, from 0.
        length: Number of digits.
        what: What they are.
    """

    start: int
    length: int
    what: str


def check_part(table: SourceTable, block: str, column: str, part: Part) -> None:
    """Refuse a column that contradicts the digits of the block.

    Args:
        table: The file.
        block: Its column of blocks.
        column: A column that repeats digits of the block.
        part: Which digits.

    Raises:
        GeographyError: as above.
    """
    blocks, parts = table.rows[block], table.rows[column]
    wanted = blocks.str.slice(part.start, part.length)
    # A null in either column is a contradiction too: the Bureau leaves neither empty.
    if len(wrong := (~(wanted == parts)).fill_null(True).arg_true()):
        row = wrong[0]
        raise table.error(
            row,
            f"block '{blocks[row]}' with {column} '{parts[row] or ''}'",
            f"the {part.what} of the block, '{wanted[row]}'",
            "Correct the block or the column; the Bureau's files say the same in both.",
            code="census-block",
        )


def check_same_blocks(first: SourceTable, other: SourceTable, column: str) -> None:
    """Refuse two files of a State if one has a block that the other lacks.

    Raises:
        GeographyError: as above.
    """
    blocks, others = first.rows[column], other.rows[column]
    # The same column in the same order is the usual case, and comparing it costs less than two searches.
    if blocks.equals(others):
        return
    for here, there in ((other, first), (first, other)):
        lost = (~here.rows[column].is_in(there.rows[column].implode())).arg_true()
        if len(lost):
            row = lost[0]
            raise here.error(
                row,
                f"block '{here.rows[column][row]}', which {there.path} does not have "
                f"({len(lost)} blocks differ in this way)",
                "the same blocks in all files of a State",
                "Use files of one year, and download an incomplete file again.",
                code="census-block",
            )


def check_known(table: SourceTable, column: str, known: pl.Series) -> None:
    """Refuse a block that the imported geography does not have.

    Raises:
        GeographyError: as above.
    """
    lost = (~table.rows[column].is_in(known.implode())).arg_true()
    if len(lost):
        row = lost[0]
        raise table.error(
            row,
            f"block '{table.rows[column][row]}', for which there is no geography ({len(lost)} rows have such blocks)",
            "blocks of the block assignment files and the geographic reference files",
            "Use files of one year, and add the files of the block's State.",
            code="census-block",
        )


def _named(state: str) -> str:
    return f"{state} ({STATES[state].name})"
