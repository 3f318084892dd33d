"""The microdata of the Demographic and Housing Characteristics in their published layouts: a row for each record.

A file stands there twice: as Parquet, and as text with a header line and "|" between the fields. Rows are sorted by
block. All columns are text, except the running number of persons and the age.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.files.columns import enum_column
from tallyveil.files.histograms import record_pieces
from tallyveil.products.dhc.tables.geography_columns import (
    GEOGRAPHY_COLUMNS,
    geography_columns,
    require_block_codes,
)
from tallyveil.products.dhc.tables.persons_columns import persons_columns
from tallyveil.products.dhc.tables.units_columns import units_columns
from tallyveil.products.topdown.pl94.checks import require
from tallyveil.schema.counts import PublicCounts, TripletSum, distinct
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import inside
from tallyveil.storage.read import collect_batches, scan_parquet
from tallyveil.storage.write import write_file, write_parquet_chunks

MICRODATA: Final = "microdata"
RUNNING_NUMBER: Final = "EPNUM"
CHECK: Final = "microdata hold exactly the records of the release"
_BUILD: Final = "1.1.0"
_TYPE_CODES: Final = {"persons": "MPD", "units": "MUD"}
_COLUMNS: Final[Mapping[str, Callable[[Integers], list[pl.Series]]]] = {
    "persons": persons_columns,
    "units": units_columns,
}


def write_records(
    out: Path, records: str, counts: PublicCounts, codes: pl.Series, schema: Schema, tags: Mapping[str, str]
) -> list[str]:
    """Write the records of all blocks as Parquet and as text, and read them back.

    Args:
        out: Folder of the publication.
        records: "persons" or "units".
        counts: Counts of the finest geolevel, in the order of the block codes.
        codes: Block codes, ascending.
        schema: The universe.
        tags: What the Parquet file says of itself.
    Returns:
        Paths of the files in the folder.
    Raises:
        GeographyError: a geounit has no block code of 15 digits.
        SolverError: the written records are not those of the counts.
        StoreError: a file cannot be written or read.
    """
    require_block_codes(codes, counts.geolevel)
    path = inside(out, MICRODATA, f"{records}.parquet")
    write_parquet_chunks(path, _frames(records, counts, codes, schema), tags)
    _check(path, records, counts, codes, schema)
    text = path.with_suffix(".txt")
    write_file(
        text, lambda temporary: scan_parquet(path).sink_csv(temporary, separator="|", quote_style="never")
    )
    return [f"{MICRODATA}/{path.name}", f"{MICRODATA}/{text.name}"]


def _frames(records: str, counts: PublicCounts, codes: pl.Series, schema: Schema) -> Iterator[pl.DataFrame]:
    """The rows in pieces."""
    written = 0
    for geounits, cells in record_pieces(counts):
        nowhere = np.zeros(len(cells), dtype=np.int64)
        columns = [
            enum_column("SCHEMA_TYPE_CODE", [_TYPE_CODES[records]], nowhere),
            enum_column("SCHEMA_BUILD_ID", [_BUILD], nowhere),
            *geography_columns(codes.gather(geounits)),
        ]
        if records == "persons":
            columns.append(pl.Series(RUNNING_NUMBER, np.arange(written + 1, written + len(cells) + 1)))
        yield pl.DataFrame([*columns, *_COLUMNS[records](schema.decode(cells))])
        written += len(cells)


def _check(path: Path, records: str, counts: PublicCounts, codes: pl.Series, schema: Schema) -> None:
    """Verify that the written rows give back the counts: each row names one cell and one block."""
    cells = distinct(counts.cells)
    known = pl.DataFrame([*_COLUMNS[records](schema.decode(cells)), pl.Series("__cell", cells)])
    names = known.columns[:-1]
    place = pl.DataFrame({"__block": codes, "__row": np.arange(len(codes))})
    rows = scan_parquet(path).select(
        pl.concat_str([name for name in GEOGRAPHY_COLUMNS if name != "TABBLKGRPCE"]).alias("__block"), *names
    )
    total = TripletSum(counts.n_geounits, schema.size)
    for batch in collect_batches(rows, path, "published"):
        found = batch.join(known, on=names, how="left").join(place, on="__block", how="left")
        require(path, CHECK, found.height == batch.height and not sum(found.null_count().row(0)))
        total.add(found["__row"].to_numpy(), found["__cell"].to_numpy(), np.ones(len(found), dtype=np.int64))
    for made, wanted in zip(total.finish(), (counts.offsets, counts.cells, counts.counts), strict=True):
        require(path, CHECK, np.array_equal(made, wanted))
