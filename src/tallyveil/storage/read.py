"""Reads input tables, Parquet or CSV, by column, and the Parquet files of a release.

An input is a file of this machine or an object in an object store (`addresses`). Most inputs are files, and
what objects need is imported where there is one. Errors say what to correct. The files of a release may be
damaged, and every fault becomes one kind of error.
"""

import csv
import difflib
import errno
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import polars as pl

from tallyveil.declared import Text
from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.printable import header_of, present_columns
from tallyveil.storage.addresses import address_of, is_object, replaced
from tallyveil.storage.json_files import damaged, parsed
from tallyveil.storage.write import file_digest, refuse_unfinished_folder


def is_input(path: Path, what: str) -> bool:
    """Whether there is such a file, or such an object.

    Args:
        path: A path or an address.
        what: As in `scan_table`.
    Raises:
        StoreError: the object store does not say.
    """
    if not is_object(path):
        return path.is_file()
    from tallyveil.storage.object_store import is_there

    return is_there(path, what)


def open_input(path: Path, what: str) -> AbstractContextManager[BinaryIO]:
    """Open a file or an object for reading; arguments as for `is_input`.

    Raises:
        OSError: the file cannot be opened.
        StoreError: the object cannot be read.
    """
    if not is_object(path):
        return path.open("rb")
    from tallyveil.storage.object_store import open_object

    return open_object(path, what)


def input_size(path: Path, what: str) -> int:
    """Number of bytes of a file or an object; arguments and errors as for `open_input`."""
    if not is_object(path):
        return path.stat().st_size
    from tallyveil.storage.object_store import identity

    return identity(path, what).size


def input_stamp(path: Path, what: str) -> tuple[object, ...]:
    """What tells a file or an object from one that has taken its place, asked without reading it.

    Args:
        path, what: As for `is_input`.
    Raises:
        OSError: there is no such file.
        StoreError: the object is not there, or cannot be read.
    """
    if not is_object(path):
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    from tallyveil.storage.object_store import identity

    stated = identity(path, what)
    return stated.size, stated.tag


def input_digest(path: Path, what: str) -> str:
    """SHA-256 of a file or an object, in hexadecimal; arguments and errors as for `open_input`."""
    if not is_object(path):
        return file_digest(path)
    with open_input(path, what) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


@contextmanager
def unchanged_digest(path: Path, what: str) -> Iterator[str]:
    """Around code that reads a file or an object: an error if the content is not the same before and after it.

    Args:
        path, what: As for `is_input`.
    Yields:
        SHA-256 of the content, in hexadecimal. Empty if there is no such file; the code that reads it raises the error.
    Raises:
        StoreError: the content was replaced meanwhile (`input-changed`), or cannot be read.
    """
    digest = input_digest(path, what) if is_input(path, what) else ""
    yield digest
    if input_digest(path, what) != digest:
        raise replaced(path, what)


def inputs_below(folder: Path) -> list[Path]:
    """All that lies below a folder, at any depth, by path; of an object store, the objects; raises StoreError."""
    if not is_object(folder):
        return sorted(folder.rglob("*")) if folder.is_dir() else []
    from tallyveil.storage.object_store import object_names

    return sorted(folder / name for name in object_names(folder))


def held(path: Path, what: str) -> AbstractContextManager[object]:
    """Hold an object to be the same before and after a block that reads it; arguments as for `is_input`.

    Raises:
        StoreError: it was replaced meanwhile (`input-changed`), or cannot be read.
    """
    if not is_object(path):
        return nullcontext()
    from tallyveil.storage.object_store import unchanged

    return unchanged(path, what)


def object_bytes(path: Path) -> bytes:
    """All bytes of an object that is text. It raises the errors of `open_input`, or that it is too large to hold."""
    from tallyveil.storage.object_store import whole_text

    return whole_text(path)


def object_settings() -> dict[str, Any]:
    """How polars opens objects."""
    from tallyveil.storage.object_store import polars_settings

    return polars_settings()


UNREADABLE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What polars raises for a file that it cannot read. The texts of these errors may quote the file."""

LONGEST_HEADER: Final = 1 << 20
"""Largest number of bytes read as the header line of a text file."""

BYTE_ORDER_MARK: Final = "\ufeff"
"""What Excel begins UTF-8 files with."""

TEXT_SUFFIXES: Final = (".csv", ".txt")
"""Endings of text files with a header line. Their columns have commas between them, or `|` as in files of the Census
Bureau."""

ROWS_AT_ONCE = 1 << 20
"""Number of rows that are in memory at a time if a file is read in batches."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a text file is written.

    Attributes:
        delimiter: What stands between its columns; None for what its header line says: `|`, or a comma.
        encoding: Name of its encoding, as Python has it.
        decimal: The decimal sign of its numbers.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."


PLAIN: Final = TextForm()
"""How most text files are written."""


def scan_table(
    path: Path, columns: Sequence[str], what: str, *, confidential: bool = False, form: TextForm = PLAIN
) -> pl.LazyFrame:
    """Open a Parquet or text file lazily, with only the named columns.

    Args:
        path: A `.parquet` file, or a `.csv` or `.txt` file with a header, and with commas or `|` between its columns.
            Columns of such files are read as text, so that codes keep their leading zeros.
        columns: Wanted columns.
        what: The role of the file in the run ("records", "geography"), for messages.
        confidential: Whether no content of the file may be shown. This includes its header: if a file has no header
            line, the values of its first record are in that place.
        form: How it is written, if it is a text file.
    Raises:
        StoreError: the file is missing, unreadable, or neither Parquet nor CSV; or a command is writing its folder.
        ConfigError: a column is missing or occurs twice.
        SchemaError: the name of a wanted column stands for several columns (`is_pattern`).
    """
    if patterns := [name for name in columns if is_pattern(name)]:
        raise SchemaError(
            f"the column(s) {', '.join(map(repr, patterns))} of the {what} file {path} cannot be read: a name that is "
            "'*', or begins with '^' and ends with '$', stands for several columns. Rename the column.",
            code="bad-name",
        )
    frame = _opened(path, what, form)
    present = frame.collect_schema().names()
    missing = [name for name in columns if name not in present]
    if missing and (encoding := _other_encoding(path, what, form)):
        raise encoding
    if missing:
        header = () if confidential else header_of(present, columns)
        message = _missing_message(path, what, missing, present, header)
        raise ConfigError(message, code="column-missing")
    if twice := [
        name for name, times in Counter(_header(path, what, form)).items() if times > 1 and name in columns
    ]:
        raise ConfigError(
            f"the {what} file {path} has the column(s) {', '.join(twice)} more than once, so it is not clear which "
            "of them is meant. Keep one, and remove or rename the others.",
            code="column-twice",
        )
    return frame.select(list(dict.fromkeys(columns)))


def is_pattern(name: str) -> bool:
    """Whether polars takes the name of a column for a pattern, and reads other columns in its place."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def _header(path: Path, what: str, form: TextForm) -> list[str]:
    """Column names in the first line of a text file. Empty for Parquet, whose column names are unique."""
    if path.suffix not in TEXT_SUFFIXES:
        return []
    with open_input(path, what) as stream:
        line = _first_line(stream, form.encoding)
    try:
        return next(csv.reader([line], delimiter=form.delimiter or _separator(line), strict=False), [])
    except csv.Error:
        raise StoreError(
            f"the {what} file {path} cannot be read as csv: a name of its header line is longer than "
            f"{csv.field_size_limit():,} characters, or a carriage return stands within the line. Lines must end with "
            "a line feed, or with a carriage return and a line feed.",
            code="input-unreadable",
        ) from None


def _first_line(stream: BinaryIO, encoding: str = PLAIN.encoding) -> str:
    text = stream.readline(LONGEST_HEADER).decode(encoding, errors="replace")
    return text.removeprefix(BYTE_ORDER_MARK).rstrip("\r\n")


def _separator(header: str) -> str:
    """What stands between the columns of a text file: `|` if its header has some and no comma."""
    return "|" if "|" in header and "," not in header else ","


def text_columns(path: Path, key: str, what: str) -> list[str]:
    """Names of the text columns of a table that has the column `key`. It raises the errors of `scan_table`.

    Without that column, its first line may be a row, whose values would be taken for names.
    """
    scan_table(path, [key], what)
    return [name for name, kind in _opened(path, what).collect_schema().items() if kind == pl.String]


def column_names(path: Path, what: str, form: TextForm = PLAIN) -> tuple[str, ...]:
    """Names of the columns of a table. It raises StoreError as `scan_table` does."""
    return tuple(_opened(path, what, form).collect_schema().names())


def _opened(path: Path, what: str, form: TextForm = PLAIN) -> pl.LazyFrame:
    """A table, lazily, after a check that its folder is complete and that its columns can be read."""
    if not is_object(path):
        refuse_unfinished_folder(path.parent)
    if not is_input(path, what):
        fault = "is no file" if path.exists() else "does not exist"
        raise StoreError(
            f"the {what} file {path} {fault}. Name a Parquet or CSV file. Paths in a TOML file are relative to that "
            "file, and paths on the command line to the folder that the command is started in.",
            code="input-missing",
        )
    try:
        frame = _scan(path, form)
        frame.collect_schema()
    except UnicodeDecodeError:
        raise _not_in(form.encoding, path, what) from None
    except UNREADABLE as error:
        if encoding := _other_encoding(path, what, form):
            raise encoding from None
        texts = {".csv": "a CSV file with a header line", ".txt": "a text file with a header line"}
        wanted = texts.get(path.suffix, "a Parquet file")
        raise StoreError(
            f"the {what} file {path} cannot be read as {path.suffix.lstrip('.')}: {type(error).__name__}. "
            f"The ending of its name says what it should be: {wanted}.",
            code="input-unreadable",
        ) from None
    return frame


def read_table(path: Path, columns: Sequence[str], what: str) -> pl.DataFrame:
    """Read the named columns of a public table. It raises the errors of `scan_table` and `collect`."""
    return collect(scan_table(path, columns, what), path, what)


def collect(frame: pl.LazyFrame, path: Path, what: str) -> pl.DataFrame:
    """Run a query on a file. An error never quotes a value of the file.

    Raises:
        StoreError: the file is damaged, or a column has the wrong type.
    """
    with held(path, what):
        _refuse_pipe(path, what)
        return collect_below(frame, path, what)


def collect_below(frame: pl.LazyFrame, folder: Path, what: str) -> pl.DataFrame:
    """Run a query on the files of a folder, which whoever asks holds to be the same; raises the errors of `collect`."""
    try:
        return frame.collect(engine="streaming")
    except UNREADABLE as error:
        raise _unreadable(folder, what, error) from None


def collect_batches(frame: pl.LazyFrame, path: Path, what: str) -> Iterator[pl.DataFrame]:
    """Run a query on a file in batches, in the file's order. It raises the errors of `collect`.

    Args:
        frame: A query that works row by row.
        path: The file, Parquet or CSV.
        what: As in `scan_table`.
    Yields:
        Frames with a limited number of rows, about a million. None is empty.
    """
    _refuse_pipe(path, what)
    try:
        with held(path, what):
            batches = _text_batches(frame) if path.suffix in TEXT_SUFFIXES else _slices(frame)
            yield from (batch for batch in batches if batch.height)
    except UNREADABLE as error:
        raise _unreadable(path, what, error) from None


def stream_parquet(frame: pl.LazyFrame, path: Path, what: str, rows: int) -> Iterator[pl.DataFrame]:
    """Run a query on a Parquet file in batches, in the file's order, and read each row group once.

    Use it for rows with long lists, of which a million do not fit into memory. Polars reads some hundred MiB ahead.

    Args:
        frame: A query that works row by row.
        path: The file.
        what: As in `scan_table`.
        rows: Largest number of rows of a batch.
    Raises:
        StoreError: the file is damaged.
    """
    try:
        for batch in frame.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming"):
            for start in range(0, batch.height, rows):
                yield batch[start : start + rows]
    except UNREADABLE as error:
        raise _unreadable(path, what, error) from None


def _slices(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Parquet can be read from any row, so nothing is read before it is used."""
    n_rows = int(frame.select(pl.len()).collect().item())
    for start in range(0, n_rows, ROWS_AT_ONCE):
        yield frame.slice(start, ROWS_AT_ONCE).collect(engine="streaming")


def _text_batches(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Text is read once from its start. Polars reads some hundred MiB ahead."""
    yield from frame.collect_batches(chunk_size=ROWS_AT_ONCE, maintain_order=True, engine="streaming")


def scan_parquet(*paths: Path) -> pl.LazyFrame:
    """Open Parquet files with the same columns lazily, one after the other, from exactly these paths.

    Without this, polars would interpret `[1]`, `*` and `?` in a path as patterns, `~` as the home folder and `s3:` as a
    service.
    """
    if any(map(is_object, paths)):
        return pl.scan_parquet([address_of(path) for path in paths], glob=False, **object_settings())
    return pl.scan_parquet([path.absolute() for path in paths], glob=False)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Read a Parquet file, or some of its columns, from exactly this path."""
    return pl.read_parquet(path.absolute(), columns=None if columns is None else list(columns), glob=False)


def parquet_columns(path: Path) -> list[str]:
    """Names of the columns of a Parquet file, from exactly this path."""
    return scan_parquet(path).collect_schema().names()


def parquet_metadata(path: Path) -> dict[str, str]:
    """The key-value metadata of a Parquet file or object, from exactly this path."""
    with open_input(
        path, "Parquet"
    ) as stream:  # given a path, polars would interpret some characters as a pattern
        return pl.read_parquet_metadata(stream)


def table_metadata(path: Path, what: str) -> dict[str, str]:
    """The key-value metadata of a Parquet file or object; arguments as for `scan_table`.

    Raises:
        StoreError: it is missing or unreadable.
    """
    try:
        with open_input(path, what) as stream:
            return pl.read_parquet_metadata(stream)
    except UNREADABLE as error:
        raise _unreadable(path, what, error) from None


def scan_text(
    path: Path, separator: str | None = ",", quote: str | None = '"', *, encoding: str = PLAIN.encoding
) -> pl.LazyFrame:
    """Open a text file with a header line lazily, from exactly this path. All columns are text.

    Args:
        path: The file.
        separator: What stands between the columns; None for what the header line says (`_separator`).
        quote: What stands around texts. Where the header says `|`, nothing does.
        encoding: Another encoding than UTF-8. The whole file is then held in memory.
    Raises:
        UnicodeDecodeError: the file is not written in this encoding.
    """
    # Some versions of polars keep a copy of a text object in a folder of their own, so it is never given its address.
    place = io.BytesIO(object_bytes(path)) if is_object(path) else path.absolute()
    if encoding != PLAIN.encoding:
        content = place.getvalue() if isinstance(place, io.BytesIO) else place.read_bytes()
        # Polars reads UTF-8 alone.
        place = io.BytesIO(content.decode(encoding).removeprefix(BYTE_ORDER_MARK).encode())
    if separator is None:
        with place.open("rb") if isinstance(place, Path) else io.BytesIO(place.getbuffer()) as stream:
            separator = _separator(_first_line(stream))
        quote = quote if separator == "," else None
    return pl.scan_csv(place, separator=separator, quote_char=quote, infer_schema=False, glob=False)


def read_text(path: Path, separator: str = ",", quote: str | None = '"') -> pl.DataFrame:
    """Read a text file with a header line, from exactly this path. All columns are text."""
    return scan_text(path, separator, quote).collect()


def read_lines(path: Path) -> pl.Series:
    """The lines of a UTF-8 text file, from exactly this path, without their line ends (also those of Windows).

    Raises:
        PolarsError, PanicException, OSError: the file is empty or not UTF-8, or it has the character U+001F.
    """
    # With a separator that no line holds, each line is one column.
    lines = pl.read_csv(
        path.absolute(),
        has_header=False,
        new_columns=["line"],
        separator="\x1f",
        quote_char=None,
        infer_schema=False,
        glob=False,
    )
    return lines["line"].fill_null("")


def require_text(frame: pl.LazyFrame, column: str, path: Path, what: str) -> None:
    """Refuse a geocode column that is not text, because numbers have already lost their leading zeros.

    Raises:
        ConfigError: the column contains anything other than text.
    """
    dtype = frame.collect_schema()[column]
    if dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise ConfigError(
            f"column '{column}' of the {what} file {path} holds {dtype.base_type()}, wanted text: geocodes that are "
            "written as numbers lose their leading zeros. Store the column as strings.",
            code="geocode-not-text",
        )


def require_counts(frame: pl.LazyFrame, column: str, path: Path, what: str) -> None:
    """Refuse a column of counts that contains neither numbers nor text.

    A date, for example, would become a number of days.

    Raises:
        SchemaError: the column contains anything else.
    """
    dtype = frame.collect_schema()[column]
    if not _may_hold_numbers(dtype):
        raise SchemaError(
            f"column '{column}' of the {what} file {path} holds {dtype.base_type()}, wanted whole numbers. Store the "
            "counts as integers.",
            code="bad-counts",
        )


def require_numbers(frame: pl.LazyFrame, columns: Sequence[str], path: Path, what: str) -> None:
    """Refuse columns of ages and the like that contain neither numbers nor text.

    A date would become a number of days, and a truth value 0 or 1.

    Raises:
        SchemaError: a column contains anything else.
    """
    schema = frame.collect_schema()
    if strange := [
        f"'{name}' ({schema[name].base_type()})" for name in columns if not _may_hold_numbers(schema[name])
    ]:
        raise SchemaError(
            f"column(s) {', '.join(strange)} of the {what} file {path} hold no numbers, but [records] numbers names "
            "their attributes. Store each value as an integer, or leave the attribute out of numbers.",
            code="unknown-level",
        )


def _may_hold_numbers(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.String


def whole_number(column: str, decimal: str = PLAIN.decimal) -> pl.Expr:
    """A column of numbers or of text as integers; null where a value is none.

    A cast alone would cut fractions off decimal numbers. A strict cast would quote the value in its error.
    """
    values = pl.col(column)
    if decimal != PLAIN.decimal:
        values = values.cast(pl.String).str.replace(decimal, PLAIN.decimal, literal=True)
        # The integer part, which a cast of a text with a decimal sign would not give.
        whole = values.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
    else:
        whole = values.cast(pl.Int64, strict=False)
    exact = whole.cast(pl.Float64) == values.cast(pl.Float64, strict=False)
    return pl.when(exact).then(whole)


def require_levels(frame: pl.LazyFrame, columns: Sequence[str], path: Path, what: str) -> None:
    """Refuse columns of levels or codes whose values are not simple texts or numbers.

    Raises:
        SchemaError: a column contains lists, structures, bytes or durations.
    """
    schema = frame.collect_schema()
    # None of these can be cast to text.
    others = (pl.Binary, pl.Object, pl.Duration)
    if strange := [name for name in columns if schema[name].is_nested() or schema[name] in others]:
        raise SchemaError(
            f"column(s) {', '.join(strange)} of the {what} file {path} hold lists, structures, bytes or "
            "durations; wanted text. Store each value as text.",
            code="unknown-level",
        )


def _refuse_pipe(path: Path, what: str) -> None:
    """Refuse what is neither a file nor a folder before it is opened: a pipe would be waited for without end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise _unreadable(path, what, OSError())


def _unreadable(path: Path, what: str, error: BaseException) -> StoreError:
    if encoding := _other_encoding(path, what):
        return encoding
    lines = "" if path.suffix == ".parquet" else ", and that every line has the columns of its header"
    return StoreError(
        f"reading the {what} file {path} failed with {type(error).__name__}. Check that the file is there and complete"
        f"{lines}.",
        code="input-unreadable",
    )


def utf16_words(head: bytes) -> str | None:
    """That a text is UTF-16, in words, by its first bytes; None if it is not."""
    # A byte order mark, or a zero byte beside each of the first two letters of the header line.
    odd, even = head[:4:2], head[1:4:2]
    beside = any(
        zeros == b"\0\0" and letters.isascii() and letters.decode("ascii").isprintable()
        for zeros, letters in ((odd, even), (even, odd))
    )
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or beside:
        return "the encoding UTF-16, which spreadsheets call 'Unicode text'"
    return None


def not_utf8(path: Path, what: str, place: str) -> StoreError:
    """The error for a text file that is not UTF-8, with what it has instead."""
    return StoreError(
        f"the {what} file {path} has {place}. Save the file as UTF-8; a spreadsheet calls it 'CSV UTF-8'. Records may "
        "have another encoding, which [records] encoding states.",
        code="input-encoding",
    )


def _not_in(encoding: str, path: Path, what: str) -> StoreError:
    return StoreError(
        f"the {what} file {path} has bytes that are no text in the encoding {encoding}, which it is declared to have. "
        "Declare its encoding, or save the file as UTF-8.",
        code="input-encoding",
    )


def _other_encoding(path: Path, what: str, form: TextForm = PLAIN) -> StoreError | None:
    """The error for a text file that should be UTF-8 and is not; None if it is."""
    if form.encoding != PLAIN.encoding:
        return None
    place = place_of_other_bytes(path, what) if path.suffix in TEXT_SUFFIXES else None
    if place is None:
        return None
    return not_utf8(path, what, place)


def place_of_other_bytes(path: Path, what: str) -> str | None:
    """Where a text file has bytes that are not UTF-8, such as those of Latin-1, in words; None if it has none.

    The words say the place and never what is there.

    Args:
        path: The file, which a reader could not read.
        what: As in `scan_table`.
    """
    number = 0
    try:
        with open_input(path, what) as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1 and (words := utf16_words(line)):
                    return words
                line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"bytes that are no UTF-8 text: the first is byte {error.start + 1} of line {number}"
    except OSError:
        return None
    return None


def _scan(path: Path, form: TextForm) -> pl.LazyFrame:
    if path.suffix == ".parquet":
        return scan_parquet(path)
    if path.suffix in TEXT_SUFFIXES:
        return scan_text(path, form.delimiter, encoding=form.encoding)
    raise StoreError(
        f"{path} ends in '{path.suffix}', wanted .parquet, .csv or .txt. Convert the file, or rename it.",
        code="input-unreadable",
    )


def _missing_message(
    path: Path, what: str, missing: Sequence[str], present: Sequence[str], header: Sequence[str]
) -> str:
    """The missing columns, and the present ones, whose names are in `header` if they may be shown."""
    lines = [f"the {what} file {path} lacks the wanted column(s):"]
    for name in missing:
        close = difflib.get_close_matches(name, header, n=1)
        lines.append(f"  '{name}'" + (f" (did you mean '{close[0]}'?)" if close else ""))
    advice = "Name the right columns, or add them to the file."
    if not header:
        advice = (
            "A CSV file needs a header line of these names, with commas between them and a line feed at its end. Name "
            "the right columns, or add the line."
        )
    lines.append(f"{present_columns(present, header)} {advice}")
    return "\n".join(lines)


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


def published_first(path: Path, column: str) -> pl.Series:
    """A column of the first row of a Parquet file of a release; empty if it has none.

    Raises:
        StoreError: as `read_published`.
    """
    with _readable(path):
        return scan_parquet(path).select(column).head(1).collect()[column]


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
        # Before it is opened: a pipe that nobody writes to would be waited for without end.
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is no file", str(path))
        yield
    except UNREADABLE as error:
        raise StoreError(
            f"{path} cannot be read: {type(error).__name__}. {_RESTORE}", code="release-unreadable"
        ) from None
