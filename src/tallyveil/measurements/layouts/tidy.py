"""The layout "tidy": one row for each noisy answer, in files of the same form as the published tables.

    measurements/geolevel=<geolevel>/query=<query>/part-*.parquet   geocode, one column an attribute, value, variance

The column of an attribute holds the level, or the group of levels, that the answer counts. It is null where the query
sums the attribute out. The columns of all files have the same names and types, so that all files can be read as one
table. Readers add the columns `geolevel` and `query` from the names of the folders. Nothing else lies in
`measurements/`, because Arrow and pandas read every file of a folder.

Exact counts and bounds have the same form, with a sign in the place of the variance:

    constraints/geolevel=<geolevel>/constraint=<name>/*.parquet   geocode, one column an attribute, value, sign

A bound that says nothing, 0 below or none above, has no row.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import SchemaError
from tallyveil.schema.answer_columns import label_columns
from tallyveil.schema.names import check_table_name
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.paths import hive_folder, inside
from tallyveil.storage.write import write_parquet, write_parquet_chunks

TIDY: Final = "measurements"
"""The folder of all files."""
CONSTRAINTS: Final = "constraints"
"""The folder of exact counts and bounds, which an estimate needs beside the noisy answers."""
DESCRIPTION: Final = "description.json"
"""The description by which the files can be imported again (`described`)."""

# About 4 million rows; with a geocode and some labels each, these take a few hundred MB while they are written.
ROWS_AT_ONCE: Final = 1 << 22
"""Rows of a file."""


def require_names(geolevels: Iterable[str], queries: Iterable[str]) -> None:
    """Refuse names of geolevels and queries that readers would not read back from names of folders.

    Raises:
        SchemaError: there is such a name.
    """
    try:
        for geolevel in geolevels:
            check_table_name(geolevel, "geolevel")
        for query in queries:
            check_table_name(query, "query")
    # The name may be fine everywhere else, so the message adds what this layout needs it for.
    except SchemaError as error:
        raise SchemaError(
            f'these measurements do not fit the layout "tidy", whose folders have the names of geolevels and queries: '
            f"{error} What was measured keeps its names. From Python, `tallyveil.open(FOLDER).measurements(GEOLEVEL, "
            "QUERY)` gives the same rows.",
            code="layout-unsuited",
        ) from None


def tidy_rows(group: QueryGroup, frame: pl.DataFrame) -> pl.DataFrame:
    """A row for each noisy answer.

    Args:
        group: The query.
        frame: A part of its measurements: for each geounit `geocode`, the list `values` and `variance`; where not all
            answers were kept, also the list `answers` with their numbers.
    Returns:
        `geocode`, a column of text for each attribute of the schema, `value` (a count, int64) and `variance` (squared
        counts).
    """
    # From the values themselves, because parts on the support have lists of different lengths.
    lengths = frame["values"].list.len().to_numpy()
    geounits: Integers = np.repeat(np.arange(frame.height, dtype=np.int64), lengths)
    answers: Integers = np.tile(np.arange(group.size, dtype=np.int64), frame.height)
    # Without this column, every answer was kept, in the order of the query.
    if "answers" in frame.columns:
        answers = frame["answers"].explode(empty_as_null=False).cast(pl.Int64).to_numpy()
    return pl.DataFrame(
        [
            frame["geocode"].gather(geounits),
            *label_columns(group, answers),
            frame["values"].explode(empty_as_null=False).cast(pl.Int64).alias("value"),
            frame["variance"].gather(geounits),
        ]
    )


def write_constraint(
    root: Path, geolevel: str, name: str, frames: Iterable[pl.DataFrame], metadata: Mapping[str, str]
) -> None:
    """Write the rows of one constraint; raises StoreError.

    Args:
        root: The folder.
        geolevel: Geolevel of its geounits.
        name: How a description calls its rows.
        frames: Rows of `constraint_rows`.
        metadata: Tags of the file.
    """
    folder = inside(root, CONSTRAINTS, hive_folder("geolevel", geolevel), hive_folder("constraint", name))
    write_parquet_chunks(folder / "part-00000.parquet", frames, {**metadata, "geolevel": geolevel})


def constraint_rows(
    group: QueryGroup, codes: pl.Series, answers: Integers, values: Integers, sign: str
) -> pl.DataFrame:
    """A row for each number of a constraint.

    Args:
        group: The query.
        codes: For each row, the geocode of its geounit.
        answers: For each row, the number of its answer.
        values: For each row, the number.
        sign: What it says of the count.
    """
    return pl.DataFrame(
        [
            codes.alias("geocode"),
            *label_columns(group, answers),
            pl.Series("value", values, dtype=pl.Int64),
            pl.repeat(sign, len(answers), dtype=pl.String, eager=True).alias("sign"),
        ]
    )


def write_tidy(
    root: Path, geolevel: str, group: QueryGroup, frame: pl.DataFrame, first: int, metadata: Mapping[str, str]
) -> int:
    """Write the noisy answers of a query in some geounits.

    Args:
        root: The folder.
        geolevel: Geolevel of the geounits.
        group: The query.
        frame: A part of its measurements (`tidy_rows`).
        first: Number of the first file that is written.
        metadata: Tags of every file.
    Returns:
        Number of the next file.
    Raises:
        StoreError: a file cannot be written.
    """
    folder = inside(root, TIDY, hive_folder("geolevel", geolevel), hive_folder("query", group.name))
    tags = {**metadata, "geolevel": geolevel, "query": group.name}
    # Whole geounits, so that no file ends inside the answers of one.
    at_once = max(1, ROWS_AT_ONCE // group.size)
    number = first
    # At least one file, so that a query without geounits is seen to have none.
    for start in range(0, max(frame.height, 1), at_once):
        rows = tidy_rows(group, frame[start : start + at_once])
        write_parquet(folder / f"part-{number:05d}.parquet", rows, tags)
        number += 1
    return number
