"""The last look before a release is finished: the written files are read back and held to every promise.

One process reads files geolevel by geolevel, finest last; never more than two geolevels of counts are held. Its
threads do the checks of a geolevel side by side. Other processes can check parts, each of which reads some rows of a
histogram, or one other file. Together they hold the files to what `check_release` holds them to:

- Counts: the stretches of a geolevel cover all its geounits and all rows of its file, and each holds whole families.
- Tables and microdata: there is a part for each file that there must be, and no other file (`require_no_other_files`).
- Sums of geounits in constraints, and areas, may be scattered: one part for each reads a whole geolevel.

The process that made the counts says where the rows of a geounit are. A part does not believe it: it refuses rows of
other geounits (`read_span`), and geounits with another number of records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.files.histograms import (
    HISTOGRAM,
    MICRODATA,
    HistogramSpan,
    area_counts,
    histogram_name,
    n_record_pieces,
    read_histogram,
    read_records,
    read_span,
    record_file,
    record_files,
    record_name,
    record_pieces,
    record_ranges,
    span_of,
)
from tallyveil.files.tables import (
    has_zeros,
    table_folder,
    table_name,
    table_part,
    table_parts,
    table_rows,
)
from tallyveil.geography.areas import area_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.schema.answer_columns import answer_expression
from tallyveil.schema.counts import (
    ENTRIES_AT_ONCE,
    PublicCounts,
    row_ranges,
    sum_families,
    sum_triplets,
    widen_limits,
)
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.words.language import phrase


def record_files_agree(root: Path, finest: PublicCounts, schema: Schema, spine: Spine) -> bool:
    """Whether the files of microdata hold the records of these counts; raises StoreError."""
    # The files that there must be, so that neither a missing nor a further one passes.
    there, n_wanted = record_files(root), n_record_pieces(finest)
    # Their number first: counts that are too large, which another check refuses, would need names without end.
    if len(there) != n_wanted or there != {record_file(root, number) for number in range(n_wanted)}:
        return False
    return all(
        records_agree(read_records(record_file(root, number), schema, spine), expected)
        for number, expected in enumerate(record_pieces(finest))
    )


def records_agree(batches: Iterable[tuple[Integers, Integers]], expected: tuple[Integers, Integers]) -> bool:
    """Whether a file holds these records.

    Args:
        batches: Geounits and cells of its records, in order.
        expected: Geounits and cells wanted.
    """
    geounits, cells = expected
    begin = 0
    for geounits_there, cells_there in batches:
        here = slice(begin, begin + len(cells_there))
        if not np.array_equal(geounits[here], geounits_there) or not np.array_equal(cells[here], cells_there):
            return False
        begin = here.stop
    # Records that are left out at the end would otherwise not be noticed.
    return begin == len(cells)


NOT_NEGATIVE: Final = phrase("no count is negative")
POSSIBLE: Final = phrase("no structural zero is filled")
RECORDS: Final = phrase("microdata hold exactly the records of the finest counts")
LEVEL_SUMS: Final = phrase("every {above} is the sum of its {below} geounits in every cell")
AREA_SUMS: Final = phrase("tables of {areas} are sums of the published {finest} counts")
TABLE_AGREES: Final = phrase("table {query} agrees with the counts")
CONSTRAINT_HOLDS: Final = phrase("{name} holds at {geolevels}")


class Bounded(NamedTuple):
    """An invariant, or bounds, that the published counts must keep.

    Attributes:
        name: For messages and the names of checks.
        query: The bounded query.
        lower: Bounds by geolevel from the root down, shape (rows, query.size); int64, or narrow (`narrow_limits`).
        upper: Likewise.
        groups: The row that each geounit of the last of these geolevels is summed into; None where each has its own.
        stated: The geolevel of the geography whose geounits these sums are; None where there are no groups.
    """

    name: str
    query: QueryGroup
    lower: Sequence[NDArray[Any]]
    upper: Sequence[NDArray[Any]]
    groups: Integers | None = None
    stated: str | None = None

    @property
    def last_level(self) -> int:
        """Number of the finest geolevel of the constraint."""
        return len(self.lower) - 1

    def holds_by_geounit(self, level: int) -> bool:
        """Whether each geounit of a geolevel has bounds of its own."""
        return level < self.last_level or (level == self.last_level and self.groups is None)

    def name_of_check(self, spine: Spine) -> str:
        """What is checked, in words."""
        # The last geolevel holds by sums alone where there are groups; the ones above it hold by geounit.
        n_whole = len(self.lower) - (self.groups is not None)
        places = [", ".join(spine.geolevels[:n_whole])] if n_whole else []
        if self.groups is not None:
            places.append(f"every sum of {spine.geolevels[n_whole]} geounits that makes one {self.stated}")
        return CONSTRAINT_HOLDS.format(name=self.name, geolevels=" and ".join(places))


class Agreeing(NamedTuple):
    """Counts of another release that the published counts must keep, at every geolevel.

    Attributes:
        name: For messages and the names of checks.
        query: The query whose answers agree.
        counts: Counts of every geolevel, root first; each answer by one of its cells.
    """

    name: str
    query: QueryGroup
    counts: Sequence[PublicCounts]

    @property
    def name_of_check(self) -> str:
        """What is checked, in words."""
        return f"{self.name} holds in every answer at {', '.join(counts.geolevel for counts in self.counts)}"


@dataclass(frozen=True, slots=True, eq=False)
class Promises:
    """Everything that the files of a release are held to.

    Attributes:
        schema: The universe.
        spine: The hierarchy.
        tables: The published queries.
        bounded: Every invariant and bound.
        microdata: Whether the release has microdata.
        areas: What tables are published of beside the spine's geolevels, on the spine; one with the name of a
            geolevel stands in its place.
        agreed: Counts of other releases that are kept.
        whole: The published queries whose tables hold all counts of zero, because intervals stand beside them.
    """

    schema: Schema
    spine: Spine
    tables: Sequence[QueryGroup]
    bounded: Sequence[Bounded]
    microdata: bool = True
    areas: Sequence[EntityFamily] = ()
    agreed: Sequence[Agreeing] = ()
    whole: frozenset[str] = frozenset()

    def has_zeros(self, group: QueryGroup) -> bool:
        """Whether the tables of a query have a row for every geounit and answer."""
        return group.name in self.whole or has_zeros(group)

    def has_tables(self, level: int) -> bool:
        """Whether tables of this geolevel are published, and not of areas that have its name."""
        return self.spine.geolevels[level] not in {area.name for area in self.areas}

    def names(self) -> list[str]:
        """The names of all checks, in the order of the manifest."""
        names = [NOT_NEGATIVE, POSSIBLE]
        names += [self.name_of_sums(level) for level in range(1, self.spine.n_levels)]
        names += [bounded.name_of_check(self.spine) for bounded in self.bounded]
        names += [agreement.name_of_check for agreement in self.agreed]
        names += [RECORDS] if self.microdata else []
        names += [name_of_table(group) for group in self.tables]
        names += [self.name_of_area(area) for area in self.areas if self.tables]
        return names

    def name_of_sums(self, level: int) -> str:
        """The check that a geolevel adds up to the one above it."""
        above, below = self.spine.geolevels[level - 1 : level + 1]
        return LEVEL_SUMS.format(above=above, below=below)

    def name_of_area(self, area: EntityFamily) -> str:
        """The check of the tables of some areas."""
        return AREA_SUMS.format(areas=area.name, finest=self.spine.geolevels[-1])


def name_of_table(group: QueryGroup) -> str:
    """The check of the tables of a query."""
    return TABLE_AGREES.format(query=group.name)


def require(name: str, passed: bool) -> None:
    """Raise SolverError if a check has not passed."""
    if not passed:
        raise SolverError(
            f"final check failed: {name}. The release must not be published; keep the folder and report this.",
            code="check-failed",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Counts of consecutive geounits of a geolevel.

    Attributes:
        level: Number of the geolevel.
        first: The first geounit.
        counts: Counts of it and those that follow; row r is geounit `first + r`.
    """

    level: int
    first: int
    counts: PublicCounts


def check_counts(promises: Promises, stretch: Stretch) -> None:
    """Hold counts to the promises that concern each geounit by itself; raises SolverError."""
    counts = stretch.counts
    # Counts first, because structural zeros and sums mean something only for whole numbers of 0 or more.
    require(NOT_NEGATIVE, bool((counts.counts >= 0).all()))
    require(POSSIBLE, _are_possible(counts, promises.schema))
    for bounded in promises.bounded:
        if bounded.holds_by_geounit(stretch.level):
            require(bounded.name_of_check(promises.spine), _within(stretch, bounded))
    for agreement in promises.agreed:
        require(agreement.name_of_check, _agrees(stretch, agreement))


def check_sums(promises: Promises, above: Stretch, below: Stretch) -> None:
    """Hold geounits to the sums of all their children; raises SolverError.

    Args:
        promises: What the release keeps.
        above: Some geounits.
        below: All their children, and nothing else.
    """
    last = above.first + above.counts.n_geounits
    # Offsets of the children within the stretch: they begin at 0, because the stretch has all children and no other.
    offsets = promises.spine.child_offsets[above.level][above.first : last + 1] - below.first
    counts = below.counts
    summed = sum_families(counts.offsets, counts.cells, counts.counts, offsets, promises.schema.size)
    # The whole sparse form is compared, so that a cell too many is noticed as well as a wrong count.
    require(promises.name_of_sums(below.level), _equal(above.counts, PublicCounts("", *summed)))


def check_grouped(promises: Promises, bounded: Bounded, counts: PublicCounts) -> None:
    """Hold sums of geounits of a whole geolevel, the last one of a constraint with groups, to its bounds.

    Raises:
        SolverError: they are not within them.
    """
    groups, lower, upper = bounded.groups, bounded.lower[-1], bounded.upper[-1]
    sums = np.zeros((len(lower), bounded.query.size), dtype=np.int64)
    # Sums are added range by range, because the parts of one stated geounit may lie far apart.
    for start, stop in _ranges(counts, bounded.query):
        answers = bounded.query.apply(*counts.rows(start, stop), stop - start)
        if groups is not None:
            np.add.at(sums, groups[start:stop], answers)
    require(bounded.name_of_check(promises.spine), _between(sums, lower, upper))


def table_part_agrees(
    frame: pl.DataFrame,
    counts: PublicCounts,
    group: QueryGroup,
    codes: pl.Series,
    rows: tuple[int, int],
    *,
    zeros: bool,
) -> bool:
    """Whether a part of a table is that of some rows of counts, in order.

    Args:
        frame: The part, with the columns geocode, answer and count.
        counts: The counts.
        group: The query.
        codes: The geocode of every row of the counts.
        rows: The first row, and the first one that does not belong to the part.
        zeros: Whether the table holds counts of zero.
    """
    start, stop = rows
    geounits, answers, persons = table_rows(counts, group, start, stop, zeros=zeros)
    # A null would be equal to nothing and different from nothing in what follows.
    if frame.height != len(geounits) or sum(frame.null_count().row(0)):
        return False
    # Row for row and in order: a table with the right rows in another order is another file.
    return (
        np.array_equal(frame["count"].to_numpy(), persons)
        and np.array_equal(frame["answer"].to_numpy(), answers)
        and bool((frame["geocode"] == codes.gather(start + geounits)).all())
    )


def codes_of(spine: Spine, stretch: Stretch) -> pl.Series:
    """The geocode of every row of a stretch."""
    return spine.geocodes[stretch.level].text[stretch.first : stretch.first + stretch.counts.n_geounits]


def _are_possible(counts: PublicCounts, schema: Schema) -> bool:
    # In pieces, because a mask and the level codes of a whole geolevel would take several times its counts.
    pieces = range(0, len(counts.cells), ENTRIES_AT_ONCE)
    return all(bool(schema.possible(counts.cells[at : at + ENTRIES_AT_ONCE]).all()) for at in pieces)


def _equal(left: PublicCounts, right: PublicCounts) -> bool:
    return (
        np.array_equal(left.offsets, right.offsets)
        and np.array_equal(left.cells, right.cells)
        and np.array_equal(left.counts, right.counts)
    )


def _ranges(counts: PublicCounts, query: QueryGroup) -> list[tuple[int, int]]:
    """Ranges of rows whose answers are in memory together."""
    # A row of answers is dense, so that fewer rows fit where a query has many answers.
    return list(row_ranges(counts.offsets, ENTRIES_AT_ONCE // query.size + 1))


def _within(stretch: Stretch, bounded: Bounded) -> bool:
    """Whether each geounit keeps a constraint."""
    query, counts = bounded.query, stretch.counts
    for start, stop in _ranges(counts, query):
        answers = query.apply(*counts.rows(start, stop), stop - start)
        here = slice(stretch.first + start, stretch.first + stop)
        if not _between(answers, bounded.lower[stretch.level][here], bounded.upper[stretch.level][here]):
            return False
    return True


def _agrees(stretch: Stretch, agreement: Agreeing) -> bool:
    """Whether the answers of counts are those of another release."""
    theirs = agreement.counts[stretch.level]
    for start, stop in row_ranges(stretch.counts.offsets):
        ours = _answered(stretch.counts, agreement.query, start, stop)
        kept_answers = _answered(theirs, agreement.query, stretch.first + start, stretch.first + stop)
        # Sparse triplets are compared, so that answers of 0 need not be made.
        if not all(np.array_equal(a, b) for a, b in zip(ours, kept_answers, strict=True)):
            return False
    return True


def _answered(
    counts: PublicCounts, query: QueryGroup, start: int, stop: int
) -> tuple[Integers, Integers, Integers]:
    """Triplets of row, answer and count of some rows, without the cells that a query leaves out."""
    rows, cells, persons = counts.rows(start, stop)
    answers = query.answers_of(cells)
    inside = answers >= 0
    return sum_triplets(rows[inside], answers[inside], persons[inside])


def _between(answers: Integers, lower: NDArray[Any], upper: NDArray[Any]) -> bool:
    # Widened first: the narrow form has a value that stands for no upper bound.
    return bool(((answers >= widen_limits(lower)) & (answers <= widen_limits(upper))).all())


def check_release(root: Path, promises: Promises, workers: int = 1) -> list[str]:
    """Read the published files back and verify them.

    Args:
        root: Release folder.
        promises: What they must keep.
        workers: Number of threads.
    Returns:
        The names of the checks; all have passed.
    Raises:
        SolverError: a check failed; the release must not be published.
        StoreError: a file is missing or damaged.
    """
    schema, spine = promises.schema, promises.spine
    # Two geolevels are held at a time, root first; the finest one is then at hand for tables of areas and microdata.
    above: Stretch | None = None
    with ThreadPoolExecutor(workers) as pool:
        for level, geolevel in enumerate(spine.geolevels):
            stretch = Stretch(level, 0, read_histogram(root, geolevel, schema, spine))
            checks = list(_checks_of_level(root, promises, above, stretch))
            if level == spine.finest:
                checks += _checks_of_finest(root, promises, stretch.counts)
            running = [pool.submit(check) for check in checks]
            try:
                # Results are read in this order, so that of several checks that fail the same one is always reported.
                for check in running:
                    check.result()
            except BaseException:
                # An error, or an interrupt, waits only for the checks that have begun.
                pool.shutdown(cancel_futures=True)
                raise
            above = stretch
    return promises.names()


Check = Callable[[], None]
"""Compares files with one promise or several, and raises an error as `check_release` does."""


def _checks_of_level(
    root: Path, promises: Promises, above: Stretch | None, stretch: Stretch
) -> Iterator[Check]:
    """The checks of a geolevel. They do not depend on each other, so threads can do them in any order.

    Args:
        root: Release folder.
        promises: What it must keep.
        above: The geolevel above; None at the root, which has nothing to add up to.
        stretch: The geolevel.
    """
    counts, spine = stretch.counts, promises.spine
    yield partial(check_counts, promises, stretch)
    if above is not None:
        yield partial(check_sums, promises, above, stretch)
    for bounded in promises.bounded:
        if bounded.groups is not None and stretch.level == bounded.last_level:
            yield partial(check_grouped, promises, bounded, counts)
    if promises.has_tables(stretch.level):
        for group in promises.tables:
            yield partial(check_tables, root, counts, [group], spine, whole=promises.has_zeros(group))


def _checks_of_finest(root: Path, promises: Promises, finest: PublicCounts) -> Iterator[Check]:
    """The checks of what is made from the finest counts: areas and microdata."""
    for number in range(len(promises.areas)):
        yield partial(check_areas, root, promises, finest, number)
    if promises.microdata:
        yield partial(_check_records, root, promises, finest)


def _check_records(root: Path, promises: Promises, finest: PublicCounts) -> None:
    require(RECORDS, record_files_agree(root, finest, promises.schema, promises.spine))


def check_areas(root: Path, promises: Promises, finest: PublicCounts, number: int) -> None:
    """Hold all tables of some areas to the sums of their finest geounits.

    Args:
        root: Release folder.
        promises: What the files must keep.
        finest: Counts of the finest geolevel.
        number: Number of the areas among those of the promises.
    Raises:
        SolverError, StoreError: as `check_release`.
    """
    area = promises.areas[number]
    summed, spine_of_area = area_counts(finest, area, promises.schema.size), area_spine(area)
    for group in promises.tables:
        agrees = _table_agrees(root, summed, group, spine_of_area, zeros=promises.has_zeros(group))
        require(promises.name_of_area(area), agrees)


def check_tables(
    root: Path, counts: PublicCounts, groups: Iterable[QueryGroup], spine: Spine, *, whole: bool = False
) -> None:
    """Read back the tables of one geolevel and verify that they hold the published counts, row for row.

    Args:
        root: Folder that holds `tables/`.
        counts: The counts.
        groups: The queries.
        spine: Has a geolevel of the counts' name.
        whole: Whether all of them hold counts of zero, as tables with intervals do.
    Raises:
        SolverError: they do not; they must not be published.
        StoreError: a file is missing or damaged.
    """
    for group in groups:
        agrees = _table_agrees(root, counts, group, spine, zeros=whole or has_zeros(group))
        require(name_of_table(group), agrees)


def check_table_part(
    root: Path, counts: PublicCounts, group: QueryGroup, codes: pl.Series, part: int, rows: tuple[int, int]
) -> None:
    """As `check_tables`, for one file of a table with intervals, which holds the rows of some geounits.

    Args:
        root: Folder that holds `tables/`.
        counts: The counts.
        group: The query.
        codes: The geocode of every geounit.
        part: Number of the file.
        rows: The first geounit, and one past the last.
    """
    path = table_folder(root, counts.geolevel, group.name) / table_part(part)
    frame = read_part(path, group)
    require(name_of_table(group), table_part_agrees(frame, counts, group, codes, rows, zeros=True))


def read_part(path: Path, group: QueryGroup) -> pl.DataFrame:
    """Geocode, number of the answer, and count of every row of a part of a table; raises StoreError."""
    return collect(scan_parquet(path).select("geocode", answer_expression(group), "count"), path, "table")


def _table_agrees(root: Path, counts: PublicCounts, group: QueryGroup, spine: Spine, *, zeros: bool) -> bool:
    """Whether the parts of a table, one after the other, hold what the counts say, row for row."""
    begin, level = 0, spine.level_index(counts.geolevel)
    codes = spine.geocodes[level].text
    for part in sorted(table_folder(root, counts.geolevel, group.name).glob("part-*.parquet")):
        frame = read_part(part, group)
        if frame.height == 0:
            # A table in which all counts are zero has an empty part.
            continue
        # Each part ends with some geounit, and the next one must begin right behind it.
        geocodes = frame["geocode"]
        last = codes.index_of(geocodes[-1]) if geocodes.dtype == codes.dtype else None
        if last is None or last < begin:
            return False
        if not table_part_agrees(frame, counts, group, codes, (begin, last + 1), zeros=zeros):
            return False
        begin = last + 1
    # Whoever stands after the last row has, where zeros are left out, nobody; else must not be left out.
    return begin == counts.n_geounits or (
        not zeros and len(table_rows(counts, group, begin, counts.n_geounits, zeros=False)[0]) == 0
    )


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
    span: HistogramSpan
    above: HistogramSpan | None

    def reads(self, promises: Promises) -> list[str]:
        """Files, and folders of files, that are read, relative to the release folder."""
        # A part reads two geolevels at most, which bounds its memory as in one process.
        spans = [self.span] if self.above is None else [self.above, self.span]
        return [histogram_of(promises, span.level) for span in spans]

    def check(self, root: Path, promises: Promises) -> list[str]:
        """Check a release folder; returns the names of the checks that this part has passed. See `Part`."""
        stretch, level = _stretch(root, promises, self.span), self.span.level
        check_counts(promises, stretch)
        names = [NOT_NEGATIVE, POSSIBLE]
        if self.above is not None:
            check_sums(promises, _stretch(root, promises, self.above), stretch)
            names.append(promises.name_of_sums(level))
        whole = (bounded for bounded in promises.bounded if bounded.holds_by_geounit(level))
        # Only constraints that hold for each geounit: sums of geounits are checked by parts of their own.
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
    span: HistogramSpan
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
        stretch = _stretch(root, promises, self.span)
        frame = read_part(folder / table_part(self.file), group)
        rows, codes = (0, stretch.counts.n_geounits), codes_of(promises.spine, stretch)
        agrees = table_part_agrees(frame, stretch.counts, group, codes, rows, zeros=has_zeros(group))
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
        check_areas(root, promises, finest, self.number)
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
    span: HistogramSpan
    file: int
    earlier: int
    here: int
    in_all: int

    def reads(self, promises: Promises) -> list[str]:
        """Files, and folders of files, that are read, relative to the release folder."""
        return [histogram_of(promises, self.span.level), f"{MICRODATA}/{record_name(self.file)}"]

    def check(self, root: Path, promises: Promises) -> list[str]:
        """Check a release folder; returns the names of the checks that this part has passed. See `Part`."""
        stretch, spine = _stretch(root, promises, self.span), promises.spine
        require(NOT_NEGATIVE, bool((stretch.counts.counts >= 0).all()))
        # The number of records of these geounits comes from another process, and is not believed.
        require(RECORDS, stretch.counts.total == self.in_all)
        # The geounits' records in order, of which the file holds a stretch.
        here = slice(self.earlier, self.earlier + self.here)
        times = stretch.counts.counts
        expected = (
            np.repeat(stretch.first + stretch.counts.geounits, times)[here],
            np.repeat(stretch.counts.cells, times)[here].astype(np.int64),
        )
        batches = read_records(record_file(root, self.file), promises.schema, spine)
        require(RECORDS, records_agree(batches, expected))
        return [RECORDS]


Part: TypeAlias = CountsPart | GroupedPart | TablePart | AreaPart | RecordsPart
"""A part of the last look. Its method `check` raises SolverError where a check fails, so that the release must not be
published, and StoreError where a file is missing or damaged."""

KINDS: Final[Mapping[str, type[Part]]] = {
    kind.kind: kind for kind in (CountsPart, GroupedPart, TablePart, AreaPart, RecordsPart)
}


def described(part: Part) -> JsonObject:
    """A part as JSON."""
    return {"kind": part.kind, **asdict(part)}


def part_of(description: JsonObject) -> Part:
    """The part that `described` describes."""
    # JSON has no tuples, so that a span comes back as a list.
    fields: JsonObject = {
        name: HistogramSpan(*value) if isinstance(value, list) else value
        for name, value in description.items()
        if name != "kind"
    }
    return KINDS[description["kind"]](**fields)


def parts_of(promises: Promises, counts: Sequence[PublicCounts]) -> list[Part]:
    """All parts of the last look, in the order in which to begin them.

    Args:
        promises: What the files must keep.
        counts: Counts of every geolevel, root first, as they were written.
    """
    # The longest parts first: areas read the whole finest geolevel, and no other part should wait for them at the end.
    parts: list[Part] = [AreaPart(number) for number in range(len(promises.areas)) if promises.tables]
    parts += [
        GroupedPart(number) for number, bounded in enumerate(promises.bounded) if bounded.groups is not None
    ]
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
    # What the parts read is compared with what lies there: a file that none of them reads was promised by nobody.
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
    of_level = counts[level]
    if level == 0:
        for start, stop in row_ranges(of_level.offsets, ENTRIES_IN_A_PART):
            yield CountsPart(span_of(of_level, level, start, stop), None)
        return
    families = promises.spine.child_offsets[level - 1]
    # Whole families, by the entries of their children, so that sums are checked within a part.
    for start, stop in row_ranges(of_level.offsets[families], ENTRIES_IN_A_PART):
        children = span_of(of_level, level, int(families[start]), int(families[stop]))
        yield CountsPart(children, span_of(counts[level - 1], level - 1, start, stop))


def _parts_of_tables(promises: Promises, counts: PublicCounts, level: int) -> Iterator[TablePart]:
    for query, group in enumerate(promises.tables):
        for number, (start, stop) in enumerate(table_parts(counts, group)):
            yield TablePart(span_of(counts, level, start, stop), query, number)


def _parts_of_records(promises: Promises, finest: PublicCounts) -> Iterator[RecordsPart]:
    # For each geounit, how many records come before it in the microdata of the whole country.
    before = np.concatenate([[0], np.cumsum(finest.counts, dtype=np.int64)])[finest.offsets]
    for number, (begin, end) in enumerate(record_ranges(finest.total)):
        # Geounits with nobody before the first record belong to no file or to an earlier one.
        start = max(int(np.searchsorted(before, begin, side="right")) - 1, 0)
        start = min(start, finest.n_geounits - 1)
        # At least one geounit, also where the file is empty.
        stop = max(int(np.searchsorted(before, end, side="left")), start + 1)
        span = span_of(finest, promises.spine.finest, start, stop)
        earlier, in_all = begin - int(before[start]), int(before[stop] - before[start])
        yield RecordsPart(span, number, earlier, end - begin, in_all)


def _stretch(root: Path, promises: Promises, span: HistogramSpan) -> Stretch:
    return Stretch(span.level, span.start, read_span(root, span, promises.schema, promises.spine))
