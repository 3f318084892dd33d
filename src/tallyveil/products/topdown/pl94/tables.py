"""Makes the columns of a table from published counts, and writes them: one row for each area."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.products.topdown.pl94.layouts import TableLayout
from tallyveil.schema.counts import PublicCounts, row_ranges
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import scan_parquet
from tallyveil.storage.write import write_file, write_parquet_chunks

ANSWERS_AT_ONCE = 1 << 22
"""Number of answers that are in memory at a time."""


def table_frames(
    counts: PublicCounts, codes: pl.Series, layout: TableLayout, schema: Schema
) -> Iterator[pl.DataFrame]:
    """The rows of a table, in pieces: geolevel, geocode, and one column of whole numbers for each of its columns.

    Args:
        counts: Counts of all areas of a kind.
        codes: The code of each area.
        layout: The table.
        schema: The universe of the counts.
    """
    group = schema.query("*".join(layout.attributes))
    answers_of = _answers_of(layout, schema)
    step = max(ANSWERS_AT_ONCE // group.size, 1)
    for start in range(0, max(counts.n_geounits, 1), step):
        stop = min(start + step, counts.n_geounits)
        answers = group.apply(*counts.rows(start, stop), stop - start)
        yield pl.DataFrame(
            [
                pl.Series("geolevel", [counts.geolevel], dtype=pl.String).new_from_index(0, stop - start),
                codes.slice(start, stop - start).alias("geocode"),
                *(
                    pl.Series(column.identifier, answers[:, answers_of[position]].sum(axis=1))
                    for position, column in enumerate(layout.columns)
                ),
            ]
        )


def _answers_of(layout: TableLayout, schema: Schema) -> list[Integers]:
    """For each column of a table, the answers of its query that it is the sum of."""
    group = schema.query("*".join(layout.attributes))
    found = []
    for column in layout.columns:
        words = list(zip(*column.counts, strict=True))
        labels = dict(zip(layout.attributes, words, strict=True))
        found.append(group.answers_from_labels(labels, len(column.counts)))
    return found


def write_rows(path: Path, frames: Iterator[pl.DataFrame], tags: Mapping[str, str], *, csv: bool) -> None:
    """Write a Parquet file from frames in order and, if asked for, the same rows as a CSV file beside it.

    The CSV file has a header line, commas between fields, and quotation marks where a text needs them.
    """
    write_parquet_chunks(path, frames, tags)
    if csv:
        write_file(path.with_suffix(".csv"), lambda temporary: scan_parquet(path).sink_csv(temporary))


def column_matrix(layout: TableLayout, schema: Schema) -> Integers:
    """Which cells of the schema each column of a table counts: 1 or 0, shape (n_columns, n_cells).

    It is read off the levels of every cell, and so does not use the query that the table is made with.
    """
    axes = [schema.attribute_names.index(name) for name in layout.attributes]
    words = [schema.attributes[axis].levels for axis in axes]
    codes = schema.decode(np.arange(schema.size, dtype=np.int64))[:, axes]
    columns_of: dict[tuple[str, ...], list[int]] = {}
    for position, column in enumerate(layout.columns):
        for levels in column.counts:
            columns_of.setdefault(levels, []).append(position)
    matrix = np.zeros((len(layout.columns), schema.size), dtype=np.int64)
    for cell, code in enumerate(codes):
        levels = tuple(names[place] for names, place in zip(words, code, strict=True))
        matrix[columns_of.get(levels, []), cell] = 1
    return matrix


def area_totals(counts: PublicCounts, counted: Integers) -> Integers:
    """Records of each area, weighted by cell.

    Args:
        counts: Counts of all areas of a kind.
        counted: How often a record of each cell is counted: 1 for each counts the records; shape (n_cells,).
    """
    totals = np.zeros(counts.n_geounits, dtype=np.int64)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        np.add.at(totals, start + rows, counted[cells] * records)
    return totals
