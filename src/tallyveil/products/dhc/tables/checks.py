"""Holds the written tables to the counts of the releases."""

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.products.dhc.tables.definitions import DhcTable
from tallyveil.products.dhc.tables.microdata import CHECK
from tallyveil.products.topdown.pl94.checks import CHECKS as NUMBER_CHECKS
from tallyveil.products.topdown.pl94.checks import check_numbers, require
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import collect, scan_parquet

_TOTALS: Final = "the total of every area is the number of its records"
CHECKS: Final = (*NUMBER_CHECKS[:2], _TOTALS, NUMBER_CHECKS[-1], CHECK)


def check_dhc_table(
    path: Path, table: DhcTable, counts: PublicCounts, codes: pl.Series, schema: Schema
) -> None:
    """Verify one written table.

    Args:
        path: Its Parquet file.
        table: What it holds.
        counts: Counts of the same areas.
        codes: Codes of the areas, in order.
        schema: The universe of the counts.
    Raises:
        SolverError: a check failed; the tables must not be published.
        StoreError: the file cannot be read.
    """
    check_numbers(path, table.layout)
    first = table.layout.identifiers[0]
    rows = collect(scan_parquet(path).select("geocode", first), path, "table")
    agree = rows["geocode"].equals(codes)
    if not table.tallies:
        agree = agree and np.array_equal(rows[first], records_counted(counts, table, schema))
    require(path, _TOTALS, agree)


def records_counted(counts: PublicCounts, table: DhcTable, schema: Schema) -> Integers:
    """Number of records of each area that a table counts, without its query."""
    totals = np.zeros(counts.n_geounits, dtype=np.int64)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        codes = schema.decode(cells)
        inside = np.ones(len(cells), dtype=np.bool_)
        for name, levels in table.counted.items():
            inside &= np.isin(codes[:, schema.attribute_names.index(name)], list(levels))
        np.add.at(totals, start + rows[inside], records[inside])
    return totals


def require_same_records(path: Path, counts: PublicCounts, expected: PublicCounts, schema: Schema) -> None:
    """Verify that two geolevels have the same records of every cell; raises SolverError."""
    ours, theirs = (_all_areas(one, schema) for one in (counts, expected))
    same = all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
    require(path, NUMBER_CHECKS[-1], same)


def _all_areas(counts: PublicCounts, schema: Schema) -> tuple[Integers, Integers]:
    """The cells that have records in any area, and how many."""
    total = TripletSum(1, schema.size)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        total.add(0 * rows, cells, records)
    _, found, sums = total.finish()
    return found.astype(np.int64), sums.astype(np.int64)
