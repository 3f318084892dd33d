"""Declassified true counts of population groups, in the layout of the tables of a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.products.safetab.public.ages import DETAILS, SEXES
from tallyveil.products.safetab.public.plan import LevelSet
from tallyveil.products.safetab.public.regions import Regions
from tallyveil.products.safetab.public.tables import ANY, DETAIL_NAMES, T1_COLUMNS, T2_COLUMNS

KEYS = list(T1_COLUMNS[:3])
"""Columns that name a group: region, type of region, iteration."""

CELL_KEYS = list(T2_COLUMNS[:6])
"""The same with age and sex: columns that name a cell of T2."""

TRUE = "TRUE"
"""Column of the true counts."""


@dataclass(frozen=True, slots=True, eq=False)
class TrueGroups:
    """Nonempty groups of one level set. No privacy protects these counts.

    Attributes:
        regions, iterations: Positions; int64, shape (groups,).
        totals: Number of people in each group; int64.
        cells: Sex by 23 age groups, zeros for total-only groups; int32, shape (groups, 46).
    """

    regions: NDArray[np.int64]
    iterations: NDArray[np.int64]
    totals: NDArray[np.int64]
    cells: NDArray[np.int32]


def joined_groups(parts: Sequence[TrueGroups]) -> TrueGroups:
    """Several parts of a level set joined into one. There must be at least one part."""
    names = ("regions", "iterations", "totals", "cells")
    return TrueGroups(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def true_totals(level_set: LevelSet, regions: Regions, groups: TrueGroups) -> pl.DataFrame:
    """T1 as it would be without noise: nonempty groups with their true count."""
    return pl.DataFrame(
        {
            "REGION_ID": regions.names(level_set.geography).gather(groups.regions),
            "REGION_TYPE": pl.repeat(level_set.geography, len(groups.totals), eager=True),
            "ITERATION_CODE": pl.Series(level_set.view.codes, dtype=pl.String).gather(groups.iterations),
            TRUE: groups.totals,
        }
    )


def true_tables(totals: pl.DataFrame, groups: TrueGroups, chosen: pl.DataFrame) -> pl.DataFrame:
    """T2 as it would be without noise, for the groups and details of a published T1.

    Args:
        totals: The result of `true_totals`.
        groups: The same groups.
        chosen: Published T1, with DETAIL.
    """
    numbered = totals.select(KEYS).with_row_index("place")
    frames = []
    for number, detail in enumerate(DETAILS, start=1):
        keys = chosen.filter(pl.col("DETAIL") == DETAIL_NAMES[number]).select(KEYS)
        # Inner: an empty group has a published row and no true one; `with_truth` fills in 0.
        keys = keys.join(numbered, on=KEYS, how="inner")
        cells = detail.collapse(groups.cells[keys["place"].to_numpy()].astype(np.int64))
        half = detail.n_cells // 2
        # T2 has the two sexes of a group before its cells, as production writes it.
        sexes = np.stack([cells[:, :half].sum(axis=1), cells[:, half:].sum(axis=1)], axis=1)
        spans = [(ANY, ANY)] * 2 + [(str(a), str(b)) for a, b in detail.spans] * 2
        sex = [*SEXES, *(s for s in SEXES for _ in range(half))]
        layout = pl.DataFrame(
            {"AGESTART": [a for a, _ in spans], "AGEEND": [b for _, b in spans], "SEX": sex}
        )
        # "left_right" keeps group by group and cell by cell: `values` below is in this order.
        rows = keys.select(KEYS).join(layout, how="cross", maintain_order="left_right")
        values = np.concatenate([sexes, cells], axis=1).reshape(-1)
        frames.append(rows.with_columns(pl.Series(TRUE, values)))
    return pl.concat(frames)


def with_truth(published: pl.DataFrame, truth: Iterable[pl.DataFrame], keys: list[str]) -> pl.DataFrame:
    """Published rows with a column TRUE. Empty groups have the value 0."""
    joined = published.join(pl.concat(truth), on=keys, how="left", maintain_order="left")
    return joined.with_columns(pl.col(TRUE).fill_null(0))
