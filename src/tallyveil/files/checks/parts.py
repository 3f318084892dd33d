"""The last look in parts that other processes check: each reads some rows of a histogram, or one other file.

The parts together hold the files to what `check_release` holds them to:

- Counts: the stretches of a geolevel cover all its geounits and all rows of its file, and each holds whole families.
- Tables and microdata: there is a part for each file that there must be, and no other file (`require_no_other_files`).
- Sums of geounits in constraints, and areas, may be scattered: one part for each reads a whole geolevel.

The process that made the counts says where the rows of a geounit are. A part does not believe it: it refuses rows of
other geounits (`read_span`), and geounits with another number of records.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import numpy as np

from tallyveil.files.checks.promises import (
    NOT_NEGATIVE,
    POSSIBLE,
    RECORDS,
    Promises,
    name_of_table,
    require,
)
from tallyveil.files.checks.records import records_agree
from tallyveil.files.checks.stretches import (
    Stretch,
    check_counts,
    check_grouped,
    check_sums,
    codes_of,
    table_part_agrees,
)
from tallyveil.files.checks.whole import check_areas, read_part
from tallyveil.files.histograms import (
    HISTOGRAM,
    MICRODATA,
    Span,
    histogram_name,
    read_histogram,
    read_records,
    read_span,
    record_file,
    record_files,
    record_name,
    record_ranges,
    span_of,
)
from tallyveil.files.tables import (
    has_zeros,
    table_folder,
    table_name,
    table_part,
    table_parts,
)
from tallyveil.schema.counts import PublicCounts, row_ranges
from tallyveil.storage.json_files import JsonObject

ENTRIES_IN_A_PART: Final = 1 << 22
"""Entries of a histogram in a part, unless one family has more."""


@dataclass(frozen=True, slots=True)
class CountsPart:
    """Counts by themselves, and as summands of those above them.

    Attributes:
        span: The geounits.
        above: Their parents, which have no other children; None at the root.
    """

    kind: ClassVar[str] = "counts"
    span: Span
    above: Span | None

    def reads(self, promises: Promises) -> list[str]:
        """Files, and folders of files, that are read, relative to the release folder."""
        spans = [self.span] if self.above is None else [self.above, self.span]
        return [histogram_of(promises, one.level) for one in spans]

    def check(self, root: Path, promises: Promises) -> list[str]:
        """Check a release folder; returns the names of the checks that this part has passed. See `Part`."""
        one, level = _stretch(root, promises, self.span), self.span.level
        check_counts(promises, one)
        names = [NOT_NEGATIVE, POSSIBLE]
        if self.above is not None:
            check_sums(promises, _stretch(root, promises, self.above), one)
            names.append(promises.name_of_sums(level))
        whole = (bounded for bounded in promises.bounded if bounded.holds_by_geounit(level))
        names += [bounded.name_of_check(promises.spine) for bounded in whole]
        return names + [agreement.name_of_check for agreement in promises.agreed]


@dataclass(frozen=True, slots=True)
class GroupedPart:
    """A constraint on sums of geounits of its last geolevel.

    Attributes:
        number: Of the constraint.
    """

    kind: ClassVar[str] = "grouped"
    number: int

    def reads(self, promises: Promises) -> list[str]:
        """Files, and folders of files, that are read, relative to the release folder."""
        return [histogram_of(promises, promises.bounded[self.number].last_level)]

    def check(self, root: Path, promises: Promises) -> list[str]:
        """Check a release folder; returns the names of the checks that this part has passed. See `Part`."""
        bounded, spine = promises.bounded[self.number], promises.spine
        geolevel = spine.geolevels[bounded.last_level]
        check_grouped(promises, bounded, read_histogram(root, geolevel, promises.schema, spine))
        return [bounded.name_of_check(spine)]


@dataclass(frozen=True, slots=True)
class TablePart:
    """A file of a table of a geolevel.

    Attributes:
        span: The geounits of the file.
        query: Number of the query.
        file: Number of the file.
    """

    kind: ClassVar[str] = "table"
    span: Span
    query: int
    file: int

    def reads(self, promises: Promises) -> list[str]:
        """Files, and folders of files, that are read, relative to the release folder."""
        geolevel, group = promises.spine.geolevels[self.span.level], promises.tables[self.query]
        table = f"{table_name(geolevel, group.name)}/{table_part(self.file)}"
        return [histogram_of(promises, self.span.level), table]

    def check(self, root: Path, promises: Promises) -> list[str]:
        """Check a release folder; returns the names of the checks that this part has passed. See `Part`."""
        geolevel, group = promises.spine.geolevels[self.span.level], promises.tables[self.query]
        name, folder = name_of_table(group), table_folder(root, geolevel, group.name)
        one = _stretch(root, promises, self.span)
        frame = read_part(folder / table_part(self.file), group)
        rows, codes = (0, one.counts.n_geounits), codes_of(promises.spine, one)
        agrees = table_part_agrees(frame, one.counts, group, codes, rows, zeros=has_zeros(group))
        require(name, agrees)
        return [name]


@dataclass(frozen=True, slots=True)
class AreaPart:
    """All tables of some areas.

    Attributes:
        number: Of the areas.
    """

    kind: ClassVar[str] = "area"
    number: int

    def reads(self, promises: Promises) -> list[str]:
        """Files, and folders of files, that are read, relative to the release folder."""
        area = promises.areas[self.number].name
        tables = [table_name(area, group.name) for group in promises.tables]
        return [histogram_of(promises, promises.spine.finest), *tables]

    def check(self, root: Path, promises: Promises) -> list[str]:
        """Check a release folder; returns the names of the checks that this part has passed. See `Part`."""
        spine = promises.spine
        finest = read_histogram(root, spine.geolevels[-1], promises.schema, spine)
        check_areas(root, promises, finest, [self.number])
        return [promises.name_of_area(promises.areas[self.number])]


@dataclass(frozen=True, slots=True)
class RecordsPart:
    """A file of microdata.

    Attributes:
        span: Every geounit that has records in the file.
        file: Number of the file.
        earlier: How many records of the geounits are in earlier files.
        here: How many are in this one.
        in_all: How many there are.
    """

    kind: ClassVar[str] = "records"
    span: Span
    file: int
    earlier: int
    here: int
    in_all: int

    def reads(self, promises: Promises) -> list[str]:
        """Files, and folders of files, that are read, relative to the release folder."""
        return [histogram_of(promises, self.span.level), f"{MICRODATA}/{record_name(self.file)}"]

    def check(self, root: Path, promises: Promises) -> list[str]:
        """Check a release folder; returns the names of the checks that this part has passed. See `Part`."""
        one, spine = _stretch(root, promises, self.span), promises.spine
        require(NOT_NEGATIVE, bool((one.counts.counts >= 0).all()))
        require(RECORDS, one.counts.total == self.in_all)
        own = slice(self.earlier, self.earlier + self.here)
        times = one.counts.counts
        expected = (
            np.repeat(one.first + one.counts.geounits, times)[own],
            np.repeat(one.counts.cells, times)[own].astype(np.int64),
        )
        batches = read_records(record_file(root, self.file), promises.schema, spine)
        require(RECORDS, records_agree(batches, expected))
        return [RECORDS]


Part: TypeAlias = CountsPart | GroupedPart | TablePart | AreaPart | RecordsPart
"""A part of the last look. Its method `check` raises SolverError where a check fails, so that the release must not be
published, and StoreError where a file is missing or damaged."""

KINDS: Final[Mapping[str, type[Part]]] = {
    one.kind: one for one in (CountsPart, GroupedPart, TablePart, AreaPart, RecordsPart)
}


def described(part: Part) -> JsonObject:
    """A part as JSON."""
    return {"kind": part.kind, **asdict(part)}


def part_of(found: JsonObject) -> Part:
    """The part that `described` describes."""
    fields: JsonObject = {
        name: Span(*one) if isinstance(one, list) else one for name, one in found.items() if name != "kind"
    }
    return KINDS[found["kind"]](**fields)


def parts_of(promises: Promises, counts: Sequence[PublicCounts]) -> list[Part]:
    """All parts of the last look, in the order in which to begin them.

    Args:
        promises: What the files must keep.
        counts: Counts of every geolevel, root first, as they were written.
    """
    parts: list[Part] = [AreaPart(number) for number in range(len(promises.areas)) if promises.tables]
    parts += [GroupedPart(number) for number, one in enumerate(promises.bounded) if one.groups is not None]
    if promises.microdata:
        parts += _parts_of_records(promises, counts[-1])
    for level in reversed(range(len(counts))):
        parts += _parts_of_counts(promises, counts, level)
        if promises.has_tables(level):
            parts += _parts_of_tables(promises, counts[level], level)
    return parts


def require_no_other_files(root: Path, promises: Promises, parts: Sequence[Part]) -> None:
    """Refuse files of tables and microdata that no part reads.

    Raises:
        SolverError: there is such a file; the release must not be published.
        StoreError: there are no microdata.
    """
    read = {root / path for part in parts for path in part.reads(promises)}
    for level in filter(promises.has_tables, range(promises.spine.n_levels)):
        for group in promises.tables:
            folder = table_folder(root, promises.spine.geolevels[level], group.name)
            require(name_of_table(group), read.issuperset(folder.glob("part-*.parquet")))
    if promises.microdata:
        require(RECORDS, read >= record_files(root))


def histogram_of(promises: Promises, level: int) -> str:
    """Path of the counts of a geolevel in a release folder."""
    return f"{HISTOGRAM}/{histogram_name(promises.spine.geolevels[level])}"


def _parts_of_counts(promises: Promises, counts: Sequence[PublicCounts], level: int) -> Iterator[CountsPart]:
    own = counts[level]
    if level == 0:
        for start, stop in row_ranges(own.offsets, ENTRIES_IN_A_PART):
            yield CountsPart(span_of(own, level, start, stop), None)
        return
    families = promises.spine.child_offsets[level - 1]
    for start, stop in row_ranges(own.offsets[families], ENTRIES_IN_A_PART):
        children = span_of(own, level, int(families[start]), int(families[stop]))
        yield CountsPart(children, span_of(counts[level - 1], level - 1, start, stop))


def _parts_of_tables(promises: Promises, counts: PublicCounts, level: int) -> Iterator[TablePart]:
    for query, group in enumerate(promises.tables):
        for number, (start, stop) in enumerate(table_parts(counts, group)):
            yield TablePart(span_of(counts, level, start, stop), query, number)


def _parts_of_records(promises: Promises, finest: PublicCounts) -> Iterator[RecordsPart]:
    before = np.concatenate([[0], np.cumsum(finest.counts, dtype=np.int64)])[finest.offsets]
    for number, (begin, end) in enumerate(record_ranges(finest.total)):
        # Geounits with nobody before the first record belong to no file or to an earlier one.
        start = max(int(np.searchsorted(before, begin, side="right")) - 1, 0)
        start = min(start, finest.n_geounits - 1)
        stop = max(int(np.searchsorted(before, end, side="left")), start + 1)
        span = span_of(finest, promises.spine.finest, start, stop)
        earlier, in_all = begin - int(before[start]), int(before[stop] - before[start])
        yield RecordsPart(span, number, earlier, end - begin, in_all)


def _stretch(root: Path, promises: Promises, span: Span) -> Stretch:
    return Stretch(span.level, span.start, read_span(root, span, promises.schema, promises.spine))
