"""Published sparse counts of every geolevel, and microdata: the estimates, in words."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.errors import StoreError
from tallyveil.geography.spine import Spine
from tallyveil.release.columns import enum_column
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import collect_batches, scan_parquet
from tallyveil.storage.write import write_parquet, write_parquet_chunks
from tallyveil.universe.answer_columns import code_expression
from tallyveil.universe.counts import PublicCounts, TripletSum, row_ranges
from tallyveil.universe.schema import Schema

HISTOGRAM = "histogram"
MICRODATA = "microdata"
PERSONS_PER_PART = 1 << 22


def histogram_path(root: Path, geolevel: str) -> Path:
    """File of the sparse counts of one geolevel."""
    return inside(root, HISTOGRAM, f"{file_name(geolevel)}.parquet")


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
    files = [histogram_path(root, geolevel)]
    return PublicCounts(geolevel, *_read_counts(files, geolevel, schema, spine, pl.col("count")))


def read_microdata(root: Path, schema: Schema, spine: Spine) -> PublicCounts:
    """Counts of the finest geolevel, added up from the microdata; raises as `read_histogram` does."""
    geolevel = spine.geolevels[spine.finest]
    files = sorted((root / MICRODATA).glob("part-*.parquet"))
    if not files:
        raise StoreError(
            f"{root / MICRODATA} holds no microdata. Restore the folder from a copy. Making the release again "
            "would be a new spend.",
            code="release-unreadable",
        )
    return PublicCounts(geolevel, *_read_counts(files, geolevel, schema, spine, pl.lit(1, dtype=pl.Int64)))


def _read_counts(
    files: Sequence[Path], geolevel: str, schema: Schema, spine: Spine, count: pl.Expr
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    level = spine.level_index(geolevel)
    codes = [code_expression(attribute.name, attribute.levels) for attribute in schema.attributes]
    path = files[0]
    frame = scan_parquet(*files).select(pl.col("geocode"), *codes, count.alias("__count"))
    total = TripletSum(spine.n_geounits(level), schema.size)
    for batch in collect_batches(frame, path, "published"):
        rows = spine.locate(level, batch["geocode"])
        whole = batch["__count"].dtype.is_integer()
        if sum(batch.null_count().row(0)) or bool((rows < 0).any()) or not whole:
            raise StoreError(
                f"{path} holds a geocode, a level or a count that the geography and the schema of this release do "
                "not allow. It was changed or damaged after it was written; restore it from a copy of the release.",
                code="release-damaged",
            )
        cells = schema.encode(batch.select(schema.attribute_names).to_numpy())
        total.add(rows, cells, batch["__count"].to_numpy())
    return total.finish()


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
    parts = range(n_record_pieces(counts)) if parts is None else parts
    for part, (geounits, cells) in zip(parts, record_pieces(counts, parts), strict=True):
        frame = _described(geounits, cells, schema, spine, level)
        write_parquet(inside(root, MICRODATA, f"part-{part:05d}.parquet"), frame, metadata)
        yield len(cells)


def n_record_pieces(counts: PublicCounts) -> int:
    """Number of pieces of `PERSONS_PER_PART` records; one empty piece for no records."""
    return max(-(-counts.total // PERSONS_PER_PART), 1)


def record_pieces(
    counts: PublicCounts, pieces: Sequence[int] | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Geounit and cell of every record, ascending, in pieces of `PERSONS_PER_PART`; of some pieces, or of all."""
    ends = np.cumsum(counts.counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    for piece in range(n_record_pieces(counts)) if pieces is None else pieces:
        begin = piece * PERSONS_PER_PART
        persons = np.arange(begin, min(begin + PERSONS_PER_PART, total))
        entry = np.searchsorted(ends, persons, side="right")
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
