"""The data files of a site: where they lie, how they are cut into chunks, and how they are written.

Names of files are made of numbers alone, because every text of a release may be hostile.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Numbers
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import parquet_tags, store_error

CHUNK: Final = 1024
"""Areas in a file: a page reads only the files of the areas that it shows."""
DATA: Final = "data"
OTHER: Final = "data/other"
SITE_FILE: Final = "data/site.json"
NAMES_FILE: Final = "data/names.parquet"
_WIDEST: Final = 1 << 31
"""From this number on, whole numbers do not fit into 32 bits; JavaScript reads wider ones as another type."""


def chunk_ranges(n: int) -> Iterator[tuple[int, int, int]]:
    """Number, first row and row after the last of each chunk of `n` areas."""
    for number, start in enumerate(range(0, n, CHUNK)):
        yield number, start, min(start + CHUNK, n)


def list_path(kind: int, chunk: int) -> str:
    """The file of the codes, names and places of a chunk of areas."""
    return f"{DATA}/areas/{kind}/list-{chunk}.parquet"


def members_path(kind: int, chunk: int) -> str:
    """The file of the finest geounits of a chunk of entities."""
    return f"{DATA}/areas/{kind}/members-{chunk}.parquet"


def table_path(kind: int, table: int, chunk: int, root: str = DATA) -> str:
    """The file of a table's answers of a chunk of areas; `root` is `OTHER` for the release compared with."""
    return f"{root}/areas/{kind}/table-{table}-{chunk}.parquet"


def classes_path(kind: int, table: int) -> str:
    """The file of the class limits of a table for all areas of a kind."""
    return f"{DATA}/areas/{kind}/classes-{table}.json"


def number_columns(names: Sequence[str], values: Numbers, *, whole: bool) -> pl.DataFrame:
    """The columns of a matrix, as JavaScript reads them: plain numbers, with null in place of NaN.

    Args:
        names: Names of the columns.
        values: Shape (rows, columns).
        whole: Whether the values are whole. They are written with 32 bits, or as floats where one is larger.
    """
    frame = pl.from_numpy(values, schema=list(names), orient="row")
    if values.dtype.kind == "f":
        frame = frame.fill_nan(None)
    if not whole:
        return frame
    with np.errstate(invalid="ignore"):  # comparisons with NaN
        wide = bool((np.abs(values) >= _WIDEST).any())
    return frame.cast(pl.Float64 if wide else pl.Int32)


def write_data(site: Path, name: str, frame: pl.DataFrame, tags: Mapping[str, str]) -> None:
    """Write a Parquet file that the page can read: one row group, compressed with Snappy.

    The file is not flushed: the site is not in its place before all files are written.

    Args:
        site: Folder of the site.
        name: The file, as a path in the site.
        frame: Its rows.
        tags: Metadata, such as the run that the release is of.
    Raises:
        StoreError: it cannot be written.
    """
    path = (site / name).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(
            path,
            compression="snappy",
            statistics=False,
            row_group_size=max(1, frame.height),
            metadata=parquet_tags(tags),
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise store_error(path, error) from error


def write_json_data(site: Path, name: str, content: JsonObject) -> None:
    """Write a JSON file, without spaces.

    Raises:
        StoreError: it cannot be written.
    """
    path = site / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise store_error(path, error) from error
