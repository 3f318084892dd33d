"""The last look in one process: files are read geolevel by geolevel, finest last.

Never more than two geolevels of counts are held.
"""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from tallyveil.files.areas import area_counts
from tallyveil.files.checks.promises import RECORDS, Promises, name_of_table, require
from tallyveil.files.checks.records import record_files_agree
from tallyveil.files.checks.stretches import (
    Stretch,
    check_counts,
    check_grouped,
    check_sums,
    table_part_agrees,
)
from tallyveil.files.histograms import read_histogram
from tallyveil.files.tables import has_zeros, table_folder, table_part, table_rows
from tallyveil.geography.areas import area_spine
from tallyveil.geography.spine import Spine
from tallyveil.schema.answer_columns import answer_expression
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.read import collect, scan_parquet


def check_release(root: Path, promises: Promises) -> list[str]:
    """Read the published files back and verify them.

    Args:
        root: Release folder.
        promises: What they must keep.
    Returns:
        The names of the checks; all have passed.
    Raises:
        SolverError: a check failed; the release must not be published.
        StoreError: a file is missing or damaged.
    """
    schema, spine = promises.schema, promises.spine
    above: Stretch | None = None
    for level, geolevel in enumerate(spine.geolevels):
        one = Stretch(level, 0, read_histogram(root, geolevel, schema, spine))
        check_counts(promises, one)
        if above is not None:
            check_sums(promises, above, one)
        for bounded in promises.bounded:
            if bounded.groups is not None and level == bounded.last_level:
                check_grouped(promises, bounded, one.counts)
        if promises.has_tables(level):
            check_tables(root, one.counts, promises.tables, spine)
        above = one
    if above is not None:
        check_areas(root, promises, above.counts, range(len(promises.areas)))
        if promises.microdata:
            require(RECORDS, record_files_agree(root, above.counts, schema, spine))
    return promises.names()


def check_areas(root: Path, promises: Promises, finest: PublicCounts, areas: Iterable[int]) -> None:
    """Hold all tables of some areas to the sums of their finest geounits.

    Args:
        root: Release folder.
        promises: What the files must keep.
        finest: Counts of the finest geolevel.
        areas: Numbers of the areas.
    Raises:
        SolverError, StoreError: as `check_release`.
    """
    for area in (promises.areas[number] for number in areas):
        summed, own = area_counts(finest, area, promises.schema.size), area_spine(area)
        for group in promises.tables:
            agrees = _table_agrees(root, summed, group, own, zeros=has_zeros(group))
            require(promises.name_of_area(area), agrees)


def check_tables(
    root: Path, counts: PublicCounts, groups: Iterable[QueryGroup], spine: Spine, *, whole: bool = False
) -> None:
    """Read back the tables of one geolevel and verify that they hold the published counts, row for row.

    Args:
        root: Folder that holds `tables/`.
        counts: The counts.
        groups: The queries.
        spine: Has a geolevel of the counts' name.
        whole: Whether all of them hold counts of zero, as tables with intervals do.
    Raises:
        SolverError: they do not; they must not be published.
        StoreError: a file is missing or damaged.
    """
    for group in groups:
        agrees = _table_agrees(root, counts, group, spine, zeros=whole or has_zeros(group))
        require(name_of_table(group), agrees)


def check_table_part(
    root: Path, counts: PublicCounts, group: QueryGroup, codes: pl.Series, part: int, rows: tuple[int, int]
) -> None:
    """As `check_tables`, for one file of a table with intervals, which holds the rows of some geounits.

    Args:
        root: Folder that holds `tables/`.
        counts: The counts.
        group: The query.
        codes: The geocode of every geounit.
        part: Number of the file.
        rows: The first geounit, and one past the last.
    """
    path = table_folder(root, counts.geolevel, group.name) / table_part(part)
    frame = read_part(path, group)
    require(name_of_table(group), table_part_agrees(frame, counts, group, codes, rows, zeros=True))


def read_part(path: Path, group: QueryGroup) -> pl.DataFrame:
    """Geocode, number of the answer, and count of every row of a part of a table; raises StoreError."""
    return collect(scan_parquet(path).select("geocode", answer_expression(group), "count"), path, "table")


def _table_agrees(root: Path, counts: PublicCounts, group: QueryGroup, spine: Spine, *, zeros: bool) -> bool:
    """Whether the parts of a table, one after the other, hold what the counts say, row for row."""
    begin, level = 0, spine.level_index(counts.geolevel)
    codes = spine.geocodes[level].text
    for part in sorted(table_folder(root, counts.geolevel, group.name).glob("part-*.parquet")):
        frame = read_part(part, group)
        if frame.height == 0:
            continue
        last = int(spine.locate(level, frame["geocode"][-1:])[0])
        rows = (begin, last + 1)
        if last < begin or not table_part_agrees(frame, counts, group, codes, rows, zeros=zeros):
            return False
        begin = last + 1
    # Whoever stands after the last row has, where zeros are left out, nobody; else must not be left out.
    return begin == counts.n_geounits or (
        not zeros and len(table_rows(counts, group, begin, counts.n_geounits, zeros=False)[0]) == 0
    )
