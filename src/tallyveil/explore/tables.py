"""The tables of a site: for every answer the published count and, where there are intervals, what stands beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.explore.classes import ClassLimits
from tallyveil.explore.files import (
    CHUNK,
    DATA,
    classes_path,
    number_columns,
    table_path,
    write_data,
    write_json_data,
)
from tallyveil.explore.opened import OpenedRelease
from tallyveil.explore.rows import COUNT, Block, TableRows
from tallyveil.report.titles import schema_titles
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject

LETTERS: Final = {COUNT: "p", "estimate": "e", "standard_error": "s", "lower": "l", "upper": "u"}
"""First letter of a column of the site, before the number of the answer."""
_WHOLE: Final = (COUNT, "lower", "upper")


@dataclass(frozen=True, slots=True, eq=False)
class WrittenTables:
    """What was written.

    Attributes:
        entries: What `site.json` says of every table.
        share_of: Number of the table whose count shares are of; None without one.
    """

    entries: list[JsonObject]
    share_of: int | None


def write_tables(site: Path, release: OpenedRelease) -> WrittenTables:
    """Write every table of a release for every kind of area, and the class limits.

    Raises:
        StoreError: a file of the release was changed, or a file of the site cannot be written.
    """
    # The total is the query that names no factor; shares of other tables are of it.
    share_of = next((number for number, group in enumerate(release.queries) if not group.factor_names), None)
    kinds: list[list[int]] = [[] for _ in release.queries]
    for kind in range(len(release.areas.kinds)):
        totals: Integers | None = None
        # The total first, because class limits of shares need it.
        order = sorted(range(len(release.queries)), key=lambda number: number != share_of)
        for table in order:
            rows = release.rows(kind, release.queries[table])
            if rows is None:
                continue
            counts = _write(site, (kind, table), rows, totals, release.tags)
            if table == share_of:
                totals = counts
            kinds[table].append(kind)
    entries = [_entry(release, number, group, kinds[number]) for number, group in enumerate(release.queries)]
    return WrittenTables(entries, share_of)


def write_other_tables(site: Path, release: OpenedRelease, kinds: Mapping[int, int], root: str) -> None:
    """Write the tables of a release that another one is compared with, below the folder `root` of the site.

    Args:
        site: Folder of the site.
        release: The release.
        kinds: For the numbers of kinds in the site, those in this release.
        root: The folder below `site`.
    Raises:
        StoreError: as `write_tables`.
    """
    for kind, tables_of_kind in kinds.items():
        for table, group in enumerate(release.queries):
            rows = release.rows(tables_of_kind, group)
            if rows is not None:
                for block in rows.blocks():
                    _write_chunks(site, (kind, table), block, root, release.tags)


def _write(
    site: Path, place: tuple[int, int], rows: TableRows, totals: Integers | None, tags: Mapping[str, str]
) -> Integers:
    """Write one table for one kind, `place`; returns its first answer for every area."""
    limits = ClassLimits(rows.group.size, totals)
    first: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for block in rows.blocks():
        _write_chunks(site, place, block, DATA, tags)
        limits.add(block)
        first.append(block.columns[COUNT][:, 0])
    write_json_data(site, classes_path(*place), limits.to_mapping())
    return np.concatenate(first)


def _write_chunks(
    # Chunks begin at multiples of `CHUNK`, because blocks do.
    site: Path,
    place: tuple[int, int],
    block: Block,
    root: str,
    tags: Mapping[str, str],
) -> None:
    for start in range(0, block.n, CHUNK):
        frame = _frame(block, start, min(start + CHUNK, block.n))
        write_data(site, table_path(*place, (block.start + start) // CHUNK, root), frame, tags)


def _frame(block: Block, start: int, stop: int) -> pl.DataFrame:
    """The areas of one chunk: for every answer its count and, if there are intervals, the numbers beside it."""
    size = block.columns[COUNT].shape[1]
    parts = [
        number_columns(
            [f"{LETTERS[name]}{answer}" for answer in range(size)],
            values[start:stop],
            whole=name in _WHOLE,
        )
        for name, values in block.columns.items()
    ]
    # All numbers of an answer stand together, so that a page reads neighbouring columns.
    order = [f"{LETTERS[name]}{answer}" for answer in range(size) for name in block.columns]
    return pl.DataFrame([column for part in parts for column in part]).select(order)


def _entry(release: OpenedRelease, number: int, group: QueryGroup, kinds: Sequence[int]) -> JsonObject:
    """What `site.json` says of a table."""
    titles = schema_titles(release.schema)
    asked = [factor for factor in group.factors if factor.name is not None]
    places = np.unravel_index(np.arange(group.size), [factor.size for factor in asked]) if asked else ()
    labels = [[factor.labels[i] for i in numbers] for factor, numbers in zip(asked, places, strict=True)]
    return {
        "number": number,
        "name": group.name,
        "title": titles.query(group.name),
        "answers": [" × ".join(parts) for parts in zip(*labels, strict=True)] if asked else ["total"],
        "factors": [
            {"name": factor.name, "title": titles.factor(str(factor.name)), "levels": list(factor.labels)}
            for factor in asked
        ],
        "attributes": [list(parts) for parts in zip(*labels, strict=True)] if asked else None,
        "kinds": list(kinds),
        "intervals": release.has_intervals(group.name),
    }
