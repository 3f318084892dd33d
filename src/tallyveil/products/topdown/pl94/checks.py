"""Reads the written tables back and holds them to the counts of the releases."""

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.products.topdown.pl94.layouts import TableLayout, area_totals, column_matrix
from tallyveil.schema.counts import PublicCounts, row_ranges
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import collect, scan_parquet

CHECKS: Final = (
    "no number is negative or missing",
    "every subtotal is the sum of its parts",
    "every area has the release's counts",
    "every column adds up to the release's counts",
    "all geolevels add up to the same counts",
)


def check_table(
    path: Path, layout: TableLayout, counts: PublicCounts, codes: pl.Series, schema: Schema
) -> None:
    """Verify one written table.

    Args:
        path: Its Parquet file.
        layout: What it holds.
        counts: The release's counts of the same areas.
        codes: Codes of the areas, in order.
        schema: The universe of the counts.
    Raises:
        SolverError: a check failed; the tables must not be published.
        StoreError: the file cannot be read.
    """
    check_numbers(path, layout)
    names = layout.identifiers
    frame = scan_parquet(path)
    matrix = column_matrix(layout, schema)
    # Numbers in the wrong column or row change the weighted sum of a row.
    weights = np.arange(1, len(names) + 1, dtype=np.int64) ** 2
    weighted = pl.sum_horizontal(
        pl.col(name) * int(weight) for name, weight in zip(names, weights, strict=True)
    )
    rows = collect(frame.select("geocode", names[0], weighted.alias("weighted")), path, "table")
    agree = (
        rows["geocode"].equals(codes)
        and np.array_equal(rows[names[0]], area_totals(counts, matrix[0]))
        and np.array_equal(rows["weighted"], area_totals(counts, weights @ matrix))
    )
    require(path, CHECKS[2], agree)
    # Column sums find what a weighted sum of a row cannot: two errors of one row that cancel.
    sums = collect(frame.select(pl.col(names).sum()), path, "table").row(0)
    require(path, CHECKS[3], list(sums) == (matrix @ cell_totals(counts, schema)).tolist())


def check_numbers(path: Path, layout: TableLayout) -> None:
    """Verify that no number of a written table is negative or missing, and that subtotals are sums.

    Raises:
        SolverError: a check failed; the tables must not be published.
        StoreError: the file cannot be read.
    """
    names = layout.identifiers
    columns = pl.col(names)
    wrong = [
        (pl.sum_horizontal(pl.col([names[part] for part in column.parts])) != pl.col(column.identifier)).sum()
        for column in layout.columns
        if column.parts
    ]
    # One pass over the file for both checks: a table of blocks has millions of rows.
    flawed = pl.sum_horizontal((columns < 0).sum() + columns.null_count())
    frame = scan_parquet(path)
    numbers = collect(
        frame.select(pl.sum_horizontal(pl.lit(0), *wrong).alias("wrong"), flawed.alias("flawed")),
        path,
        "table",
    )
    require(path, CHECKS[0], numbers["flawed"][0] == 0)
    require(path, CHECKS[1], numbers["wrong"][0] == 0)


def check_sums(root: Path, geolevel: str, totals: Integers, expected: Integers) -> None:
    """Verify that a geolevel has as many records of every cell as the finest geolevel.

    Args:
        root: Folder of the release.
        geolevel: The geolevel.
        totals: Its records by cell.
        expected: Those of the finest geolevel.
    Raises:
        SolverError: it has not.
    """
    require(root / geolevel, CHECKS[4], np.array_equal(totals, expected))


def cell_totals(counts: PublicCounts, schema: Schema) -> Integers:
    """Records of all areas together, by cell."""
    totals = np.zeros(schema.size, dtype=np.int64)
    for start, stop in row_ranges(counts.offsets):
        _, cells, records = counts.rows(start, stop)
        # add.at and no bincount: the sum must be of int64, and bincount adds weights as floats.
        np.add.at(totals, cells, records)
    return totals


def require(path: Path, name: str, passed: bool) -> None:
    """Go on only if a check of a file or a folder has passed; raises SolverError otherwise."""
    if not passed:
        raise SolverError(
            f"a check of {path} failed: {name}. The tables must not be published; keep the folder and report this.",
            code="check-failed",
        )
