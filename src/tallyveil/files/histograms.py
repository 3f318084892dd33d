"""Published sparse counts of every geolevel, microdata, and counts of areas off the spine.

The counts of an area are sums of the published finest counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.geography.areas import Hierarchies, area_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.schema.answer_columns import code_expression
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges, sum_members
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import collect, collect_batches, scan_parquet
from tallyveil.storage.write import write_parquet, write_parquet_chunks


def enum_column(name: str, words: Sequence[str], codes: np.ndarray) -> pl.Series:
    """The word of each code, stored once a column: Parquet keeps a dictionary and the codes."""
    return pl.Series(name, words, dtype=pl.Enum(list(words))).gather(codes)


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


HISTOGRAM = "histogram"
MICRODATA = "microdata"
PERSONS_PER_PART = 1 << 22
"""Records of a file of microdata, 4 million, which are in memory at a time. Another number gives other files."""


class HistogramSpan(NamedTuple):
    """Where the counts of consecutive geounits are in the file of their geolevel.

    Attributes:
        level: Number of the geolevel.
        start, stop: The geounits, `stop` excluded.
        begin, end: The rows of the file, `end` excluded.
        n_rows: Rows of the whole file.
    """

    level: int
    start: int
    stop: int
    begin: int
    end: int
    n_rows: int


def span_of(counts: PublicCounts, level: int, start: int, stop: int) -> HistogramSpan:
    """Where `write_histogram` writes the counts of geounits start..stop of a geolevel."""
    offsets = counts.offsets
    return HistogramSpan(level, start, stop, int(offsets[start]), int(offsets[stop]), len(counts.cells))


def histogram_name(geolevel: str) -> str:
    """Name of the file of the sparse counts of one geolevel."""
    return f"{file_name(geolevel)}.parquet"


def histogram_path(root: Path, geolevel: str) -> Path:
    """File of the sparse counts of one geolevel."""
    return inside(root, HISTOGRAM, histogram_name(geolevel))


def write_histogram(
    root: Path, counts: PublicCounts, schema: Schema, spine: Spine, metadata: Mapping[str, str]
) -> None:
    """Write the non-zero counts of a geolevel: `geocode`, one column an attribute, `count`.

    The same columns as a table of records with counts, so that a release can be read as an input. A stretch of
    geounits is put into words at a time.
    """
    level = spine.level_index(counts.geolevel)

    def frames() -> Iterator[pl.DataFrame]:
        for start, stop in row_ranges(counts.offsets):
            rows, cells, persons = counts.rows(start, stop)
            frame = _described(start + rows, cells, schema, spine, level)
            yield frame.with_columns(pl.Series("count", persons))

    tags = {**metadata, "geolevel": counts.geolevel}
    write_parquet_chunks(histogram_path(root, counts.geolevel), frames(), tags)


def read_histogram(root: Path, geolevel: str, schema: Schema, spine: Spine) -> PublicCounts:
    """Read back what `write_histogram` wrote, a batch at a time.

    Raises:
        StoreError: the file cannot be read, or does not fit the schema or the spine.
    """
    level, path = spine.level_index(geolevel), histogram_path(root, geolevel)
    total = TripletSum(spine.n_geounits(level), schema.size)
    for rows, cells, persons in _read(path, level, schema, spine, pl.col("count")):
        total.add(rows, cells, persons)
    return PublicCounts(geolevel, *total.finish())


def read_span(root: Path, span: HistogramSpan, schema: Schema, spine: Spine) -> PublicCounts:
    """Counts of some geounits, the first one in row 0; raises as `read_histogram` does.

    A file with another number of rows, or with other geounits in these rows, is refused, too.
    """
    path = histogram_path(root, spine.geolevels[span.level])
    # The number of rows first: a longer file could hold the right rows in this stretch and others elsewhere.
    if int(collect(scan_parquet(path).select(pl.len()), path, "published").item()) != span.n_rows:
        raise _other_rows(path)
    total = TripletSum(span.stop - span.start, schema.size)
    entries = _read(path, span.level, schema, spine, pl.col("count"), (span.begin, span.end))
    for rows, cells, persons in entries:
        # Geounits of another stretch would be counted twice, here and there.
        if int(rows.min()) < span.start or int(rows.max()) >= span.stop:
            raise _other_rows(path)
        total.add(rows - span.start, cells, persons)
    return PublicCounts(spine.geolevels[span.level], *total.finish())


def _other_rows(path: Path) -> StoreError:
    return StoreError(
        f"{path} has other rows than the run wrote. It was changed or damaged after it was written; restore it from a "
        "copy of the release.",
        code="release-damaged",
    )


def record_name(part: int) -> str:
    """Name of a file of microdata."""
    return f"part-{part:05d}.parquet"


def record_file(root: Path, part: int) -> Path:
    """A file of microdata."""
    return inside(root, MICRODATA, record_name(part))


def record_files(root: Path) -> set[Path]:
    """All files of microdata; raises StoreError if there are none."""
    files = set((root / MICRODATA).glob("part-*.parquet"))
    if not files:
        raise StoreError(
            f"{root / MICRODATA} holds no microdata. Restore the folder from a copy. Making the release again "
            "would be a new spend.",
            code="release-unreadable",
        )
    return files


def read_records(path: Path, schema: Schema, spine: Spine) -> Iterator[tuple[Integers, Integers]]:
    """Geounits and cells of the records of a file of microdata, in batches; raises as `read_histogram` does."""
    for geounits, cells, _ in _read(path, spine.finest, schema, spine, pl.lit(1, dtype=pl.Int64)):
        yield geounits, cells


def _read(
    path: Path,
    level: int,
    schema: Schema,
    spine: Spine,
    count: pl.Expr,
    rows: tuple[int, int] | None = None,
) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Geounits, cells and counts of the rows of a file, or of some rows, in batches."""
    codes = [code_expression(attribute.name, attribute.levels) for attribute in schema.attributes]
    # Two underscores: no attribute may have a name that begins so (`schema.names`).
    frame = scan_parquet(path).select(pl.col("geocode"), *codes, count.alias("__count"))
    if rows is not None:
        frame = frame.slice(rows[0], rows[1] - rows[0])
    for batch in collect_batches(frame, path, "published"):
        geounits = spine.locate(level, batch["geocode"])
        # A count as a decimal number may be no whole one; nothing is rounded here.
        whole = batch["__count"].dtype.is_integer()
        if sum(batch.null_count().row(0)) or bool((geounits < 0).any()) or not whole:
            raise StoreError(
                f"{path} holds a geocode, a level or a count that the geography and the schema of this release do "
                "not allow. It was changed or damaged after it was written; restore it from a copy of the release.",
                code="release-damaged",
            )
        cells = schema.encode(batch.select(schema.attribute_names).to_numpy())
        yield geounits, cells, batch["__count"].to_numpy()


def write_microdata(
    root: Path,
    counts: PublicCounts,
    schema: Schema,
    spine: Spine,
    metadata: Mapping[str, str],
    parts: Sequence[int] | None = None,
) -> Iterator[int]:
    """Write one row a person: `geocode` of the finest geolevel and one column an attribute.

    Args:
        root: Release folder.
        counts: Counts of the finest geolevel.
        schema: The universe.
        spine: The hierarchy.
        metadata: Metadata of the files.
        parts: Which of `n_record_pieces` parts to write; None for all.
    Yields:
        Persons written after each part.
    """
    level = spine.level_index(counts.geolevel)
    # All parts in order, so that a file depends on its number alone and not on who writes it.
    parts = range(n_record_pieces(counts)) if parts is None else parts
    for part, (geounits, cells) in zip(parts, record_pieces(counts, parts), strict=True):
        frame = _described(geounits, cells, schema, spine, level)
        write_parquet(record_file(root, part), frame, metadata)
        yield len(cells)


def n_record_pieces(counts: PublicCounts) -> int:
    """Number of pieces of `PERSONS_PER_PART` records; one empty piece for no records."""
    # Not counted one by one: damaged counts may have pieces without end.
    return len(_first_records(counts.total))


def record_ranges(n_records: int) -> Iterator[tuple[int, int]]:
    """The first record of each piece, and the first one after it."""
    for begin in _first_records(n_records):
        yield begin, min(begin + PERSONS_PER_PART, n_records)


def _first_records(n_records: int) -> range:
    """The first record of each piece."""
    return range(0, max(n_records, 1), PERSONS_PER_PART)


def record_pieces(
    counts: PublicCounts, pieces: Sequence[int] | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Geounit and cell of every record, ascending, in pieces of `PERSONS_PER_PART`; of some pieces, or of all."""
    ends = np.cumsum(counts.counts, dtype=np.int64)
    ranges = list(record_ranges(int(ends[-1]) if len(ends) else 0))
    for begin, end in ranges if pieces is None else (ranges[piece] for piece in pieces):
        # For each record, the entry that it is in: the first whose running sum lies above its number.
        entry = np.searchsorted(ends, np.arange(begin, end), side="right")
        # Likewise the geounit of an entry; geounits without entries are passed over by "right".
        geounits = np.searchsorted(counts.offsets, entry, side="right") - 1
        yield geounits, counts.cells[entry].astype(np.int64)


def _described(
    geounits: np.ndarray, cells: np.ndarray, schema: Schema, spine: Spine, level: int
) -> pl.DataFrame:
    codes = schema.decode(cells)
    columns = [spine.geocodes[level].text.alias("geocode").gather(geounits)]
    for position, attribute in enumerate(schema.attributes):
        columns.append(enum_column(attribute.name, attribute.levels, codes[:, position]))
    return pl.DataFrame(columns)


Tabulated = tuple[Spine, PublicCounts]
"""Counts, and a spine that has a geolevel of their name."""


def area_counts(finest: PublicCounts, family: EntityFamily, n_cells: int) -> PublicCounts:
    """Counts of a family's entities, under the family's name: for each the sum over its finest geounits.

    Args:
        finest: Counts of the finest geolevel of the family's spine.
        family: The entities; they may overlap.
        n_cells: Number of cells of the schema.
    """
    summed = sum_members(finest.offsets, finest.cells, finest.counts, family.offsets, family.members, n_cells)
    return PublicCounts(family.name, *summed)


def tabulated(
    hierarchies: Hierarchies, counts: Sequence[PublicCounts], entities: Sequence[str], n_cells: int
) -> tuple[Tabulated, ...]:
    """What tables are published of: geolevels as people know them, then families of entities.

    A geolevel of the spine that has the name of an original one, but other geounits, is left to the histograms:
    its table is that of the original geounits.

    Args:
        hierarchies: The spine and the areas beside it.
        counts: Counts of every geolevel of the spine, root first.
        entities: Names of the families.
        n_cells: Number of cells of the schema.
    """
    areas = (*hierarchies.replaced, *(hierarchies.family(name) for name in entities))
    return (
        *((hierarchies.spine, counts[level]) for level in hierarchies.known_levels),
        *((area_spine(area), area_counts(counts[-1], area, n_cells)) for area in areas),
    )
