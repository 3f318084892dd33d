"""The published files of a level of population groups, and checks of what was written.

totals/<level>.parquet     one row for each group: its labels, COUNT, the quality columns, DETAIL
cells/<level>.parquet      one row for each cell of a group with a table: its labels, DETAIL, CELL, COUNT, the quality
                           columns
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.products.safetab.public.group_numbers import (
    QUALITY_COLUMNS,
    CollectedGroups,
    NumberedGroups,
    numbers_of,
)
from tallyveil.products.safetab.public.group_plan import GroupPlan, MappedLevel
from tallyveil.products.safetab.public.outputs import OutputCheck
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.published import read_published
from tallyveil.storage.write import write_parquet

_SUM: Final = "cells/sum"
_ROWS: Final = "cells/rows"
"""Columns of a check. No grouping has such a name, because no name holds a slash."""


def group_table_paths(level: MappedLevel) -> list[str]:
    """Files of a level within the output folder."""
    return [f"{folder}/{file_name(level.name)}.parquet" for folder in ("totals", "cells")]


def group_tables(level: MappedLevel, collected: CollectedGroups) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Totals and cells of all groups of a level."""
    parts = list(collected.by_detail())
    totals = pl.concat([_totals(level, groups) for groups in parts])
    # Groups were collected by detail; readers expect them in the order of the plan.
    order = np.argsort(np.concatenate([_places(level, groups) for groups in parts]))
    cells = [_cells(level, groups) for groups in parts if 0 < groups.detail < level.ladder.total_only]
    return totals[order], pl.concat(cells) if cells else _no_cells(level)


def write_group_tables(
    out: Path, level: MappedLevel, tables: tuple[pl.DataFrame, pl.DataFrame], tags: Mapping[str, str]
) -> None:
    """Write both tables of a level.

    Raises:
        StoreError: a file cannot be written.
    """
    for path, frame in zip(group_table_paths(level), tables, strict=True):
        write_parquet(inside(out, *path.split("/")), frame, {**tags, "table": path.split("/")[0]})


def read_group_tables(out: Path, level: MappedLevel) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The published totals and cells of a level.

    Raises:
        StoreError: a table is missing or cannot be read.
    """
    totals, cells = (read_published(inside(out, *path.split("/"))) for path in group_table_paths(level))
    return totals, cells


def check_group_tables(out: Path, plan: GroupPlan) -> tuple[OutputCheck, ...]:
    """Read the published tables, and compare them with the plan.

    Raises:
        StoreError: a table is missing or cannot be read.
    """
    return tuple(check for level in plan.levels for check in _checks(out, level))


def _totals(level: MappedLevel, groups: NumberedGroups) -> pl.DataFrame:
    size, n = len(groups.rows), groups.cells.shape[1]
    return pl.DataFrame(
        {
            **level.listed.labels(_places(level, groups)),
            **numbers_of(level, groups, [np.arange(n)], allow_negative=True),
            # new_from_index repeats one value without building a list.
            "DETAIL": pl.Series([level.ladder.names[groups.detail]], dtype=pl.String).new_from_index(0, size),
        }
    )


def _cells(level: MappedLevel, groups: NumberedGroups) -> pl.DataFrame:
    size, labels = len(groups.rows), level.cell_labels(groups.detail)
    n = len(labels)
    return pl.DataFrame(
        {
            **level.listed.labels(np.repeat(_places(level, groups), n)),
            "DETAIL": pl.Series([level.ladder.names[groups.detail]], dtype=pl.String).new_from_index(
                0, size * n
            ),
            "CELL": pl.Series(labels, dtype=pl.String).gather(np.tile(np.arange(n), size)),
            **numbers_of(level, groups, list(np.arange(n)[:, None]), allow_negative=True),
        }
    )


def _places(level: MappedLevel, groups: NumberedGroups) -> Integers:
    """Positions of groups in the list of the level, counted row by row."""
    return groups.rows * level.width + groups.columns


def _no_cells(level: MappedLevel) -> pl.DataFrame:
    texts = (*(grouping.name for grouping in level.listed.groupings), "DETAIL", "CELL")
    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(texts, pl.String)
    kinds |= {"COUNT": pl.Int64, **dict.fromkeys(QUALITY_COLUMNS, pl.Float64), "METHOD": pl.String}
    return pl.DataFrame(schema=kinds)


def _checks(out: Path, level: MappedLevel) -> Iterator[OutputCheck]:
    totals, cells = read_group_tables(out, level)
    keys = [grouping.name for grouping in level.listed.groupings]
    wanted = pl.DataFrame(level.listed.labels(np.arange(level.groups)))
    # Sorted on both sides, since the order is not promised. A level without groupings has one group and no
    # label.
    once = (
        totals.height == level.groups and totals.select(keys).sort(keys).equals(wanted.sort(keys))
        if keys
        else (totals.height == 1)
    )
    yield OutputCheck(f"{level.name}: every group once", once, "" if once else f"{totals.height} rows")
    sizes = {name: level.ladder.n_cells(n) for n, name in enumerate(level.ladder.names)}
    tabulated = totals.filter(pl.col("DETAIL").is_in(list(level.ladder.names[1:-1])))
    sums = cells.group_by([*keys, "DETAIL"]).agg(pl.col("COUNT").sum().alias(_SUM), pl.len().alias(_ROWS))
    # Full: a table without a total and a total without a table are both faults.
    joined = tabulated.join(sums, on=[*keys, "DETAIL"], how="full", coalesce=True)
    n_cells = pl.col("DETAIL").replace_strict(sizes, return_dtype=pl.Int64)
    off = joined.filter(
        # A null means that one side is missing, and so counts as a fault.
        ((pl.col("COUNT") != pl.col(_SUM)) | (pl.col(_ROWS) != n_cells)).fill_null(value=True)
    )
    problem = "" if off.is_empty() else f"{off.height} group(s)"
    yield OutputCheck(f"{level.name}: totals are the sums of their cells", off.is_empty(), problem)
