"""Published tables: the answers of the workload for every geounit, in long form.

A file has the columns `geocode`, one for each attribute of the schema, and `count`. Its folders,
`geolevel=<geolevel or family>/query=<query>`, give readers the columns `geolevel` and `query`. The columns of all files
have the same names and types, so that all tables of a release can be read as one.

A query of few answers has a row for every geounit and answer, zeros included. One of many would be mostly zeros
(the 2,016 cells of 8 million blocks are 16 billion), so only its counts above zero are written. Every file says in its
metadata which of the two it is (`tallyveil.zeros`: "included" or "left out") and what a missing row means
(`tallyveil.rows`). Intervals of the same counts, once they are made, stand beside them (`intervals`). A table
with intervals has every row: estimates that are chosen by their published counts are too high, and so are their sums.
`whole_tables` reads all rows of every table.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.geography.spine import Spine
from tallyveil.schema.answer_columns import label_columns
from tallyveil.schema.counts import PublicCounts, row_ranges, sum_triplets
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.paths import hive_folder, inside
from tallyveil.storage.write import write_parquet

TABLES = "tables"
ROWS_PER_PART = 1 << 21
"""Rows of a file, 2 million: a file is held in memory while it is written. Another number would give other files."""
ANSWERS_WITH_ZEROS = 16
"""Most answers a query may have for its tables to hold the zeros, too."""
INCLUDED: Final = "included"
LEFT_OUT: Final = "left out"
ROWS: Final = {
    INCLUDED: "There is a row for every answer of every area.",
    LEFT_OUT: "An answer of an area that has no row has a published count of 0.",
}
"""What a file says of its rows, by whether it holds the zeros."""


def table_name(area: str, query: str, kind: str = TABLES) -> str:
    """Folder of the parts of one table, relative to the release folder.

    Args:
        area: A geolevel, or a family of entities.
        query: Name of the query.
        kind: The folder of all tables.
    """
    return f"{kind}/{hive_folder('geolevel', area)}/{hive_folder('query', query)}"


def table_folder(root: Path, area: str, query: str, kind: str = TABLES) -> Path:
    """The folder of `table_name` in a release folder."""
    return inside(root, *table_name(area, query, kind).split("/"))


def table_part(number: int) -> str:
    """Name of a file of a table."""
    return f"part-{number:05d}.parquet"


def has_zeros(group: QueryGroup) -> bool:
    """Whether the tables of a query have a row for every geounit and answer, also without intervals."""
    return group.size <= ANSWERS_WITH_ZEROS


def table_tags(area: str, query: str, *, zeros: bool) -> dict[str, str]:
    """What the files of a table say of themselves beside the tags of the release.

    Args:
        area: A geolevel, or a family of entities.
        query: Name of the query.
        zeros: Whether they have a row for every geounit and answer.
    """
    held = INCLUDED if zeros else LEFT_OUT
    return {"geolevel": area, "query": query, "zeros": held, "rows": ROWS[held]}


def table_size(counts: PublicCounts, group: QueryGroup) -> int:
    """Rows of a table; where zeros are left out, the most that there can be."""
    return counts.n_geounits * group.size if has_zeros(group) else len(counts.cells) * group.sensitivity


def table_rows(
    counts: PublicCounts, group: QueryGroup, start: int, stop: int, *, zeros: bool
) -> tuple[Integers, Integers, Integers]:
    """What a table holds for geounits start..stop, with zeros or without: row (counted from `start`), answer and count,
    in order."""
    if zeros:
        answers = group.apply(*counts.rows(start, stop), stop - start)
        size, n_rows = group.size, stop - start
        return np.repeat(np.arange(n_rows), size), np.tile(np.arange(size), n_rows), answers.ravel()
    rows, cells, persons = counts.rows(start, stop)
    places, answer = group.counted_in(cells)
    return sum_triplets(rows[places], answer, persons[places], group.size)


def write_table(
    root: Path,
    counts: PublicCounts,
    group: QueryGroup,
    spine: Spine,
    metadata: Mapping[str, str],
    parts: Sequence[int] | None = None,
) -> Iterator[int]:
    """Write `geocode`, a column for each attribute, and `count`, in order of geounit and answer.

    Args:
        root: Release folder.
        counts: The counts.
        group: The query.
        spine: Has a geolevel of the counts' name.
        metadata: Metadata of the files.
        parts: Which of `n_table_parts` parts to write; None for all.
    Yields:
        Rows (where zeros are left out, counts above zero) dealt with after each part; `table_size` in all.
    """
    codes = spine.geocodes[spine.level_index(counts.geolevel)].text
    folder = table_folder(root, counts.geolevel, group.name)
    tags = {**metadata, **table_tags(counts.geolevel, group.name, zeros=has_zeros(group))}
    # Parts depend on the counts alone, so workers that write some of them agree on names and rows.
    every = list(table_parts(counts, group))
    for part in range(len(every)) if parts is None else parts:
        start, stop = every[part]
        # No name holds the frame of a part while the next one is made: parts of a country are large.
        write_parquet(folder / table_part(part), _frame(counts, group, codes, start, stop), tags)
        done = counts.offsets[stop] - counts.offsets[start]
        yield (stop - start) * group.size if has_zeros(group) else int(done) * group.sensitivity


def n_table_parts(counts: PublicCounts, group: QueryGroup) -> int:
    """Number of files of a table."""
    return len(list(table_parts(counts, group)))


def _frame(counts: PublicCounts, group: QueryGroup, codes: pl.Series, start: int, stop: int) -> pl.DataFrame:
    """The rows of a table for geounits start..stop."""
    rows, answers, persons = table_rows(counts, group, start, stop, zeros=has_zeros(group))
    return pl.DataFrame(
        [
            codes.gather(start + rows).alias("geocode"),
            *label_columns(group, answers),
            pl.Series("count", persons),
        ]
    )


def table_parts(counts: PublicCounts, group: QueryGroup) -> Iterator[tuple[int, int]]:
    """Ranges of geounits, one for each file of a table."""
    if not has_zeros(group):
        yield from row_ranges(counts.offsets, ROWS_PER_PART)
        return
    # Whole geounits only. With at most 16 answers the quotient is never 0; max() guards other constants.
    geounits = max(1, ROWS_PER_PART // group.size)
    for start in range(0, counts.n_geounits, geounits):
        yield start, min(start + geounits, counts.n_geounits)
