"""Published sparse counts of every geolevel, and microdata: the estimates, in words."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.geography.spine import Spine
from tallyveil.release.columns import enum_column
from tallyveil.storage.write import write_parquet
from tallyveil.universe.counts import PublicCounts, compress_rows
from tallyveil.universe.schema import Schema

HISTOGRAM = "histogram"
MICRODATA = "microdata"
PERSONS_PER_PART = 1 << 22


def histogram_path(root: Path, geolevel: str) -> Path:
    """File of the sparse counts of one geolevel."""
    return root / HISTOGRAM / f"{geolevel}.parquet"


def write_histogram(
    root: Path, counts: PublicCounts, schema: Schema, spine: Spine, metadata: Mapping[str, str]
) -> None:
    """Write the non-zero counts of a geolevel: `geocode`, one column an attribute, `count`.

    The same columns as a table of records with counts, so that a release can be read as an input.
    """
    level = spine.level_index(counts.geolevel)
    frame = _described(counts.geounits, counts.cells, schema, spine, level)
    frame = frame.with_columns(pl.Series("count", counts.counts))
    write_parquet(histogram_path(root, counts.geolevel), frame, {**metadata, "geolevel": counts.geolevel})


def read_histogram(root: Path, geolevel: str, schema: Schema, spine: Spine) -> PublicCounts:
    """Read back what `write_histogram` wrote."""
    frame = pl.read_parquet(histogram_path(root, geolevel))
    level = spine.level_index(geolevel)
    rows = spine.locate(level, frame["geocode"].to_numpy())
    cells = cells_of(frame, schema)
    counts = frame["count"].to_numpy().astype(np.int64)
    return PublicCounts(geolevel, *compress_rows(spine.n_geounits(level), rows, cells, counts))


def cells_of(frame: pl.DataFrame, schema: Schema) -> np.ndarray:
    """Cell numbers of rows that hold one level name an attribute."""
    codes = np.zeros((frame.height, len(schema.attributes)), dtype=np.int64)
    for position, attribute in enumerate(schema.attributes):
        codes[:, position] = (
            frame[attribute.name]
            .cast(pl.String)
            .replace_strict(list(attribute.levels), list(range(attribute.size)), return_dtype=pl.Int64)
            .to_numpy()
        )
    return schema.encode(codes)


def write_microdata(
    root: Path, counts: PublicCounts, schema: Schema, spine: Spine, metadata: Mapping[str, str]
) -> Iterator[int]:
    """Write one row a person: `geocode` of the finest geolevel and one column an attribute.

    Yields:
        Persons written after each part.
    """
    level = spine.level_index(counts.geolevel)
    ends = np.cumsum(counts.counts)
    total = int(ends[-1]) if len(ends) else 0
    geounits = counts.geounits
    for part, begin in enumerate(range(0, max(total, 1), PERSONS_PER_PART)):
        persons = np.arange(begin, min(begin + PERSONS_PER_PART, total))
        entry = np.searchsorted(ends, persons, side="right")
        frame = _described(geounits[entry], counts.cells[entry], schema, spine, level)
        write_parquet(root / MICRODATA / f"part-{part:05d}.parquet", frame, metadata)
        yield len(persons)


def _described(
    geounits: np.ndarray, cells: np.ndarray, schema: Schema, spine: Spine, level: int
) -> pl.DataFrame:
    codes = schema.decode(cells)
    geocodes = pl.Series("geocode", spine.geocodes[level], dtype=pl.String)
    columns = [geocodes.gather(geounits)]
    for position, attribute in enumerate(schema.attributes):
        columns.append(enum_column(attribute.name, attribute.levels, codes[:, position]))
    return pl.DataFrame(columns)
