"""The counts of a pass, in files of the run folder that are removed when the published counts are written."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import read_published
from tallyveil.storage.write import write_parquet_chunks

PASSES: Final = "passes"
_COLUMNS: Final = ("geounit", "cell", "count")


def pass_place(number: int, geolevel: str) -> str:
    """The file of a pass at a geolevel, relative to the run folder."""
    return f"{PASSES}/{number}/{file_name(geolevel)}.parquet"


def write_pass(root: Path, number: int, counts: PublicCounts, metadata: Mapping[str, str]) -> None:
    """Write the counts above zero of a geolevel, by number of the geounit and of the cell; raises StoreError."""

    def frames() -> Iterator[pl.DataFrame]:
        for start, stop in row_ranges(counts.offsets):
            rows, cells, persons = counts.rows(start, stop)
            yield pl.DataFrame(dict(zip(_COLUMNS, (start + rows, cells, persons), strict=True)))

    tags = {**metadata, "geolevel": counts.geolevel}
    write_parquet_chunks(_path(root, number, counts.geolevel), frames(), tags)


def read_pass(root: Path, number: int, geolevel: str, n_geounits: int, n_cells: int) -> PublicCounts:
    """Read back what `write_pass` wrote; the stage has compared the file with its checkpoint.

    Raises:
        StoreError: the file cannot be read, or names a geounit or a cell that there is not.
    """
    path = _path(root, number, geolevel)
    frame = read_published(path, _COLUMNS)
    rows, cells, persons = (frame[name].to_numpy() for name in _COLUMNS)
    for numbers, size in ((rows, n_geounits), (cells, n_cells)):
        # Checked before they index arrays: the file may have been changed since its checkpoint was compared.
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= size):
            raise StoreError(
                f"{path} was changed while the run was in progress. Run the same command again: it makes the counts "
                "once more, with the same numbers.",
                code="run-damaged",
            )
    total = TripletSum(n_geounits, n_cells)
    total.add(rows, cells, persons)
    return PublicCounts(geolevel, *total.finish())


def _path(root: Path, number: int, geolevel: str) -> Path:
    return inside(root, *pass_place(number, geolevel).split("/"))
