"""Reads SafeTab's person records: from text to compact arrays, with errors that show no record."""

import hashlib
import io
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.confidential.histogram import REDACTED
from tallyveil.errors import GeographyError, SchemaError, StoreError, TallyveilError
from tallyveil.kernels.records import (
    COUNTIES,
    CodedPeople,
    CodedRows,
    KnownBlocks,
    check_lists,
    code_rows,
    order_by_region,
    order_lists,
    parse_rows,
)
from tallyveil.products.safetab.public.ages import cells_by_age
from tallyveil.products.safetab.public.config import SafetabConfig
from tallyveil.products.safetab.public.files import (
    BLOCK,
    PERSONS,
    RECORD_CODES,
    FileFormat,
    Word,
    collect_file,
    find_file,
    raise_all,
    scan_file,
    unreadable,
)
from tallyveil.products.safetab.public.iterations import IterationFiles
from tallyveil.products.safetab.public.regions import Regions
from tallyveil.storage.read import held, input_size, open_input

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
    # A field is at least as long as the shortest of its digits or its word; 9 stands for "no limit here" and
    # is never the minimum where digits are allowed.
    words = {Word.NONE: 9, Word.NULL: len("Null"), Word.FLAG: len("True")}
    shortest = 0
    for column in range(len(form.rules)):
        digits, _, _, _, word = _rule(form, column)
        shortest += min(digits or 9, words[Word(word)]) + 1
    # The true number would need a pass of its own. Room that is never written costs address space alone.
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
    # Read once here, so that a format without number rules fails before any record is touched.
    rules = np.array([_rule(form, number) for number in range(len(form.rules))], np.int64)
    pieces = _parquet_pieces(path, scan) if path.suffix == ".parquet" else _text_pieces(path)
    waiting: deque[Future[ParsedRecords | None]] = deque()
    with ThreadPoolExecutor(AHEAD) as pool:
        # The trailing Nones flush the queue. Pieces come out in the order of the file, whichever thread ends
        # first, so that the arrays are the same every time.
        for piece in chain(pieces, [None] * AHEAD):
            if piece is not None:
                waiting.append(pool.submit(_parsed, piece, rules))
            # At most AHEAD + 1 pieces are in flight, so memory does not grow with the file.
            if waiting and (piece is None or len(waiting) > AHEAD):
                records = waiting.popleft().result()
                if records is None:
                    raise _ragged(path)
                yield records


def _parsed(piece: bytes, rules: NDArray[np.int64]) -> ParsedRecords | None:
    """The records of some lines, or None if a line has another number of columns."""
    data = np.frombuffer(piece, np.uint8)
    # A record has at least one byte for each column and its separator, so this is always enough room.
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
            # The header, which `scan_file` has checked.
            opened.readline()
            rest = b""
            while piece := opened.read(PIECE):
                # Cut at the last line feed; the begun line is put before the next piece.
                end = piece.rfind(b"\n") + 1
                if not end:  # no line of the formats is this long
                    if len(rest) + len(piece) > PIECE:
                        raise _ragged(path)
                    rest += piece
                    continue
                yield rest + piece[:end]
                rest = piece[end:]
            if rest:
                # A last line without a line feed is a record, too.
                yield rest + b"\n"
    except OSError as error:
        # `from None`: the chained error could quote a path of the system or a piece of the data.
        raise unreadable(path, error) from None


def _parquet_pieces(path: Path, scan: pl.LazyFrame) -> Iterator[bytes]:
    """The rows of a Parquet file, as the text that a text file would have.

    Raises:
        StoreError: a value contains the end of a line, which could turn one row into several records.
    """
    n = collect_file(scan.select(pl.len()), path).item()
    with held(path, path.stem):
        for first in range(0, n, ROWS):
            # Parquet goes through the same parser as text, so that both have exactly the same rules.
            text = io.BytesIO()
            frame = collect_file(scan.slice(first, ROWS), path)
            frame.write_csv(text, separator="|", quote_style="never", include_header=False)
            piece = text.getvalue()
            # A line feed inside a value would make two records of one row, which would break the stability.
            if piece.count(b"\n") != frame.height or b"\r" in piece:
                raise _ragged(path)
            yield piece


def _ragged(path: Path) -> StoreError:
    return unreadable(path, ValueError("another number of columns"))


logger = logging.getLogger(__name__)

BLOCK_COLUMNS: Final = tuple(rule.name for rule in BLOCK)
"""Columns of a block: state, county, tract, block."""

RACE_COLUMNS: Final = tuple(rule.name for rule in RECORD_CODES[:-1])
"""QRACE1 to QRACE8; the last code column is that of ethnicity."""

ETHNICITY_COLUMN: Final = RECORD_CODES[-1].name
"""QSPAN, which every record has."""

AGES_23: Final = 23
"""Number of age groups of the finest table, and so the distance of a male cell from the female one of the same
age. Any other number would not match the tables of the paper."""

Columns = Mapping[str, NDArray[np.int32]]
CellsOf = Callable[[Columns], Mapping[str, NDArray[np.int8]]]
"""A function from the numbers in a record's columns to the cells that are tabulated, by name."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConfidentialPersons:
    """The people of one run, sorted by block: 7 bytes each, and more for people with several codes. Confidential.

    Attributes:
        run: "US" or "PR".
        start: Start of each block's people; int64, shape (blocks + 1,).
        races: For a person with one race code, its position; for one with several, ~p if they start at p in `lists`;
            int32.
        lists: Positions of the codes of people with several codes, with -1 after each person's codes; int16.
        ethnicity: Position of the ethnicity code; int16.
        cells: The tabulated cell, one of 46 for sex by age; int8.
    """

    run: str
    start: NDArray[np.int64]
    races: NDArray[np.int32]
    lists: NDArray[np.int16]
    ethnicity: NDArray[np.int16]
    cells: NDArray[np.int8]

    def __repr__(self) -> str:
        return f"ConfidentialPersons(run={self.run!r}, records={REDACTED})"

    def coded(self) -> CodedPeople:
        """Blocks and codes of the people, as the counting kernels take them."""
        return CodedPeople(self.start, self.races, self.lists, self.ethnicity)

    def digest(self) -> bytes:
        """SHA-256 of the records, in their order within each block."""
        digest = hashlib.sha256(self.run.encode())
        for array in (self.start, self.races, self.lists, self.ethnicity, self.cells):
            # Lengths keep arrays apart whose bytes could otherwise be divided in another way.
            digest.update(len(array).to_bytes(8, "little"))
            # Little endian on every machine: the digest is part of what binds the key.
            digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
        return digest.digest()


def read_persons(
    folder: Path, config: SafetabConfig, files: IterationFiles, regions: Mapping[str, Regions]
) -> dict[str, ConfidentialPersons]:
    """Read and check the person records of all runs in one streaming pass: format, lists of codes, and domains.

    People in states that belong to no run are checked for their format, and are otherwise ignored.

    Args:
        folder: Folder with person-records as `.txt` or `.parquet`.
        config: States, and the number of race codes to read.
        files: Known codes.
        regions: Blocks of each run.
    Raises:
        ConfigError, StoreError: the header is wrong, or the file is missing or unreadable.
        SchemaError, GeographyError: the records break rules.
    Privacy: messages name only the file, columns and rules; never a value, a row or a number of records.
    """
    by_run = read_coded_records(folder, PERSONS, _sex_by_age, config, files, regions)
    logger.info("person records read and valid")
    return {run: persons for run, by_table in by_run.items() for persons in by_table.values()}


def _sex_by_age(columns: Columns) -> Mapping[str, NDArray[np.int8]]:
    # QSEX is 1 or 2; males first, 23 age groups each.
    cells = cells_by_age()[columns["QAGE"]] + AGES_23 * (columns["QSEX"] - 1)
    return {"persons": cells.astype(np.int8)}


def read_coded_records(
    folder: Path,
    form: FileFormat,
    cells_of: CellsOf,
    config: SafetabConfig,
    files: IterationFiles,
    regions: Mapping[str, Regions],
) -> dict[str, dict[str, ConfidentialPersons]]:
    """Read and check records with blocks, race codes and an ethnicity code. It raises the errors of `read_persons`.

    Args:
        folder: Folder with the file.
        form: Its format.
        cells_of: Computes the cells that are tabulated.
        config, files, regions: As in `read_persons`.
    Returns:
        For each run and each name from `cells_of`, the records with those cells. All other arrays are shared.
    """
    path = find_file(folder, form)
    # Only whether a rule is broken is kept, never where or how often: the messages are public.
    faults = _Faults(np.zeros(len(form.columns), bool), np.zeros(config.max_race_codes + 1, bool))
    races = np.array([form.columns.index(name) for name in RACE_COLUMNS])
    # Codes have four digits, so a table of 10,000 entries replaces a search; 20 kB stay in the cache. Fewer
    # than 2**15 codes can exist, so int16 holds every position.
    position = np.full(10_000, -1, np.int16)
    position[[int(code) for code in files.codes]] = np.arange(len(files.codes), dtype=np.int16)
    # Each run gets room for all records: how many are of a state is confidential until they are read.
    room = most_records(path, form)
    coders = [_RunCoder(run, config, regions[run], position, form, cells_of, room) for run in config.runs]
    n_rows = 0
    for part in parsed_records(path, form):
        n_rows += len(part.values)
        faults.broken |= part.broken
        # All eight columns are looked at, also those that are not read: a code that is silently dropped would
        # change the person's iterations.
        gap, later = check_lists(part.values[:, races], config.max_race_codes)
        faults.gap |= gap
        faults.later |= later
        if not faults.broken.any():  # otherwise there may be more records than room
            for coder in coders:
                # Both coders see every part; a record of another run's state is passed over by the kernel.
                coder.add(part, faults.unknown)
    # A header without records is more likely a mistake than an empty country.
    if not n_rows:
        raise SchemaError(f"{path} has no rows. Give a file with at least one.", code="safetab-empty")
    faults.lost = any(coder.lost for coder in coders)
    # After the whole file, so that the time to the error does not say where the fault is.
    faults.require_none(path, form, config)
    return {coder.run: coder.finished() for coder in coders}


@dataclass(slots=True)
class _Faults:
    """For each rule, whether records break it.

    Attributes:
        broken: Whether each column has a value of the wrong format.
        unknown: Whether each race column, and last the ethnicity column, has a code that is not in the file of codes.
        gap: Whether there is a race code after a Null.
        later: Whether there is a code beyond those that are read.
        lost: Whether there is a block that is not in the geography.
    """

    broken: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    gap: bool = False
    later: bool = False
    lost: bool = False

    def require_none(self, path: Path, form: FileFormat, config: SafetabConfig) -> None:
        """Raise one error for the first of three kinds of rules that is broken: formats, lists of codes, domains."""
        # In three steps, because a wrong format makes the later findings meaningless.
        raise_all(self._formats(path, form), f"the {form.stem}")
        raise_all(self._lists(path, config), f"the {form.stem}")
        raise_all(self._domains(path), f"the {form.stem}")

    def _formats(self, path: Path, form: FileFormat) -> list[TallyveilError]:
        return [
            SchemaError(
                f"{path}: column {rule.name} has values that are not {rule.wanted}. Correct them (filter the column "
                "for values that do not match the rule to find them).",
                code="safetab-person-values",
            )
            # By column and rule alone. A value, a row or a number of rows would be of a record.
            for rule, broken in zip(form.rules, self.broken, strict=True)
            if broken
        ]

    def _lists(self, path: Path, config: SafetabConfig) -> list[TallyveilError]:
        problems: list[TallyveilError] = []
        if self.gap:
            problems.append(
                SchemaError(
                    f"{path}: some records have a race code after a Null in QRACE2 to QRACE8. Move the codes of such "
                    "a record forward, so that all Nulls come last.",
                    code="safetab-null-order",
                )
            )
        if self.later:
            problems.append(
                SchemaError(
                    f"{path}: some records have codes in {', '.join(RACE_COLUMNS[config.max_race_codes :])}, which "
                    f"are not read because max_race_codes = {config.max_race_codes}. Raise max_race_codes (it sets "
                    "the stability, and so the noise), or remove the codes.",
                    code="safetab-extra-codes",
                )
            )
        return problems

    def _domains(self, path: Path) -> list[TallyveilError]:
        problems: list[TallyveilError] = []
        names = [*RACE_COLUMNS[: len(self.unknown) - 1], ETHNICITY_COLUMN]
        if unknown := [name for name, bad in zip(names, self.unknown, strict=True) if bad]:
            problems.append(
                SchemaError(
                    f"{path}: column(s) {', '.join(unknown)} have codes that are not in the race and ethnicity codes "
                    "file. Add them there, or correct the records; an anti-join of the two files finds them.",
                    code="safetab-person-code",
                )
            )
        if self.lost:
            problems.append(
                GeographyError(
                    f"{path}: records lie in blocks that are not in the geography file GRF-C. Add every block there, "
                    f"or correct the records; an anti-join on {', '.join(BLOCK_COLUMNS)} finds them.",
                    code="safetab-person-block",
                )
            )
        return problems


class _RunCoder:
    """Collects the records of one run in compact arrays, and sorts them by block."""

    def __init__(
        self,
        run: str,
        config: SafetabConfig,
        regions: Regions,
        position: NDArray[np.int16],
        form: FileFormat,
        cells_of: CellsOf,
        room: int,
    ) -> None:
        self.run = run
        self.lost = False
        self._regions = regions
        self._position = position
        self._form = form
        names = [*BLOCK_COLUMNS, *RACE_COLUMNS[: config.max_race_codes], ETHNICITY_COLUMN]
        self._columns = np.array([form.columns.index(name) for name in names])
        # State codes have two digits.
        states = np.zeros(100, bool)
        states[[int(state) for state in config.states_of(run)]] = True
        # A block number is state, county, tract and block: 15 digits, of which the last 10 are within the
        # county. The search for a block then stays within its county.
        bounds = np.arange(100 * COUNTIES + 1, dtype=np.int64) * 10**10
        self._known = KnownBlocks(states, np.searchsorted(regions.blocks, bounds), regions.blocks)
        self._cells_of = cells_of
        # Room for all records is allocated at once. Pages that are never written take no memory, and nothing is copied.
        self._n = 0
        # int32 for a block's position: a country has some 8 million, far below 2**31.
        self._places, self._races = np.empty(room, np.int32), np.empty(room, np.int32)
        self._ethnicity = np.empty(room, np.int16)
        # Asked with no records, to learn which names of cells there will be.
        none = cells_of({name: np.empty(0, np.int32) for name in form.columns})
        self._cells = {name: np.empty(room, np.int8) for name in none}
        self._n_lists = 0
        self._lists: list[NDArray[np.int16]] = []

    def add(self, part: ParsedRecords, unknown: NDArray[np.bool_]) -> None:
        """Add those records of a part of the file that belong to the run."""
        parsed = part.values[:, self._columns]
        # Four columns of the block and one of ethnicity; the other k are race codes.
        n, k = len(parsed), parsed.shape[1] - 5
        rows, lists = np.empty(n, np.int32), np.empty(n * (k + 1), np.int16)
        # The kernel writes straight into the long arrays; the tail beyond n_rows is overwritten by the next
        # part.
        here = slice(self._n, self._n + n)
        places, races, ethnicity = self._places[here], self._races[here], self._ethnicity[here]
        out = CodedRows(rows, places, races, ethnicity, lists)
        n_rows, added = code_rows(parsed, self._known, self._position, self._n_lists, out, unknown)
        # A block that is not in GRF-C. The run is refused later, so the -1 never reaches the sorting.
        self.lost |= bool((places[:n_rows] < 0).any())
        # A copy: most of the room of `lists` is unused, and a view would keep all of it.
        self._lists.append(lists[:added].copy())
        records = part.values[rows[:n_rows]]
        columns = {name: records[:, place] for place, name in enumerate(self._form.columns)}
        for name, cells in self._cells_of(columns).items():
            self._cells[name][self._n : self._n + n_rows] = cells
        self._n += n_rows
        self._n_lists += added

    def finished(self) -> dict[str, ConfidentialPersons]:
        """The records sorted by block, for each name of cells. The coder cannot be used afterwards."""
        n, n_blocks = self._n, len(self._regions.blocks)
        start, order = np.zeros(n_blocks + 1, np.int64), np.empty(n, np.int32)
        # A counting sort, O(records + blocks), and stable: the digest depends on the order within a block.
        order_by_region(self._places[:n], n_blocks, start, order)
        # Each array is dropped as soon as its sorted form exists, so that the peak is 17 bytes a person.
        del self._places
        lists = np.concatenate([np.empty(0, np.int16), *self._lists])
        self._lists.clear()
        races, further = np.empty(n, np.int32), np.empty_like(lists)
        # Lists are put into the order of the people, so that a block's codes lie near each other.
        order_lists(order, self._races[:n], lists, races, further)
        del self._races
        ethnicity = self._ethnicity[order]
        del self._ethnicity
        return {
            name: ConfidentialPersons(self.run, start, races, further, ethnicity, cells[order])
            for name, cells in self._cells.items()
        }
