"""Declassified true counts in the layout of a run's tables, and errors of the tables compared with them.

Errors are given by size of the group, over one run or several.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Int32s, Integers
from tallyveil.products.safetab.public.ages import DETAILS, SEXES
from tallyveil.products.safetab.public.group_plan import MappedLevel
from tallyveil.products.safetab.public.plan import LevelSet
from tallyveil.products.safetab.public.regions import Regions
from tallyveil.products.safetab.public.tables import ANY, DETAIL_NAMES, T1_COLUMNS, T2_COLUMNS

T1_KEYS = list(T1_COLUMNS[:3])
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
    numbered = totals.select(T1_KEYS).with_row_index("place")
    frames = []
    for number, detail in enumerate(DETAILS, start=1):
        keys = chosen.filter(pl.col("DETAIL") == DETAIL_NAMES[number]).select(T1_KEYS)
        # Inner: an empty group has a published row and no true one; `with_truth` fills in 0.
        keys = keys.join(numbered, on=T1_KEYS, how="inner")
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
        rows = keys.select(T1_KEYS).join(layout, how="cross", maintain_order="left_right")
        values = np.concatenate([sexes, cells], axis=1).reshape(-1)
        frames.append(rows.with_columns(pl.Series(TRUE, values)))
    return pl.concat(frames)


def with_truth(published: pl.DataFrame, truth: Iterable[pl.DataFrame], keys: list[str]) -> pl.DataFrame:
    """Published rows with a column TRUE. Empty groups have the value 0."""
    joined = published.join(pl.concat(truth), on=keys, how="left", maintain_order="left")
    return joined.with_columns(pl.col(TRUE).fill_null(0))


NUMBERS = ("COUNT", "MARGIN", "ESTIMATE", "ESTIMATE_MARGIN")
TOTAL = "TOTAL"
"""Column of the true total of the group that a cell belongs to."""
_POSITION: Final = "cells/position"
"""Column of the position of a group. No grouping has such a name, because no name holds a slash."""


@dataclass(frozen=True, slots=True, eq=False)
class TrueLevel:
    """The true counts of all groups of a level. No privacy protects them.

    Attributes:
        level: The level.
        totals: Records in each group, counted row by row; int64.
        slots: For each group, its place among `finest`; -1 for an empty or a total-only one; int32.
        finest: Tables of the finest cells; int64.
    """

    level: MappedLevel
    totals: Integers
    slots: Int32s
    finest: Integers

    def table(self) -> pl.DataFrame:
        """The true totals, with the labels of the groups."""
        labels = self.level.listed.labels(np.arange(len(self.totals)))
        return pl.DataFrame({**labels, TRUE: self.totals})

    def beside_totals(self, totals: pl.DataFrame) -> pl.DataFrame:
        """Published totals with the true ones, without the labels of the groups."""
        places = self._places(totals)
        return totals.select("DETAIL", *NUMBERS).with_columns(pl.Series(TRUE, self.totals[places]))

    def beside_cells(self, cells: pl.DataFrame) -> pl.DataFrame:
        """Published cells with the true ones and the true totals, without labels, one detail after the other."""
        return pl.concat([self._cells(cells, number) for number in range(1, self.level.ladder.total_only)])

    def _cells(self, cells: pl.DataFrame, number: int) -> pl.DataFrame:
        of_detail = cells.filter(pl.col("DETAIL") == self.level.ladder.names[number])
        table = self.level.ladder.tables[number - 1]
        names = {label: n for n, label in enumerate(self.level.cell_labels(number))}
        cell = of_detail["CELL"].replace_strict(names, return_dtype=pl.Int64).to_numpy()
        places = self._places(of_detail)
        slots = self.slots[places]
        # Slot -1 is an empty group, whose cells are all 0.
        true = np.zeros(len(of_detail), np.int64)
        true[slots >= 0] = table.collapse(self.finest)[slots[slots >= 0], cell[slots >= 0]]
        columns = [pl.Series(TRUE, true), pl.Series(TOTAL, self.totals[places])]
        return of_detail.select("DETAIL", *NUMBERS).with_columns(columns)

    def _places(self, frame: pl.DataFrame) -> Integers:
        """Positions of the groups of published rows."""
        keys: Sequence[str] = [grouping.name for grouping in self.level.listed.groupings]
        if not keys:
            # A level without groupings has one group.
            return np.zeros(frame.height, np.int64)
        labels = pl.DataFrame(self.level.listed.labels(np.arange(len(self.totals))))
        numbered = labels.with_row_index(_POSITION)
        # By labels, because the tables promise no order. The left table's order is kept for the rows.
        placed = frame.select(keys).join(numbered, on=keys, how="left", maintain_order="left")
        return placed[_POSITION].cast(pl.Int64).to_numpy()


LEVEL: Final = "LEVEL"
SIZES: Final = ("0", *(f"{10**n:,}-{10 ** (n + 1) - 1:,}" for n in range(9)))
"""Size classes, by the number of digits of a group's true size."""

_KEYS: Final = ["REGION_TYPE", LEVEL, "TOTAL_ONLY", "SIZE"]
_VALUES: Final = (("COUNT", "MARGIN"), ("ESTIMATE", "ESTIMATE_MARGIN"))


def size_of(total: pl.Expr) -> pl.Expr:
    """Name of the size class of a true total."""
    # The class is the number of digits, so that classes need no thresholds of their own.
    digits = pl.when(total > 0).then(total.cast(pl.String).str.len_chars()).otherwise(0)
    return digits.cast(pl.Int64).replace_strict(dict(enumerate(SIZES)), return_dtype=pl.String)


def total_errors(rows: pl.DataFrame, groups: pl.DataFrame, runs: int) -> pl.DataFrame:
    """Errors of T1 by geography, level and size.

    Args:
        rows: Published rows of all runs, with TRUE, LEVEL and DETAIL.
        groups: REGION_TYPE, LEVEL, TOTAL_ONLY, SIZE and `groups`, the number of groups, whether published or not.
        runs: Number of runs that the rows come from.
    Returns:
        One row for each class: the number of groups; the number published in a run on average; the share of each
            detail;
        and, for COUNT and for ESTIMATE, the mean error, the root mean square error, the mean and 95th percentile of the
        absolute error, and the share of errors within the margin. Totals that are published because they passed the
        suppression bound are a selection, and so are their errors.
    """
    # Divided by the number of runs: a mean number of published groups.
    errors = _of_totals(rows, DETAIL_NAMES, _KEYS, (pl.len() / runs).alias("published"))
    # Full: a class may have groups of which none was published.
    return groups.join(errors, on=_KEYS, how="full", coalesce=True).sort(_order())


def level_total_errors(
    rows: pl.DataFrame, levels: Sequence[str], details: Sequence[str], runs: int
) -> pl.DataFrame:
    """Errors of the totals of population groups by level and size. Every group is published.

    Args:
        rows: Published rows of all runs, with TRUE, LEVEL and DETAIL.
        levels: Names of the levels, in the order of the result.
        details: Names of the details; the last one is that of total-only groups.
        runs: Number of runs that the rows come from.
    Returns:
        As `total_errors`, with the number of groups and without the number of published ones.
    """
    # Every group is published in every run, so the division leaves no rest.
    count = (pl.len() // runs).cast(pl.Int64).alias("groups")
    return _of_totals(rows, details, _KEYS[1:], count).sort(_level_order(levels, "TOTAL_ONLY"))


def level_cell_errors(rows: pl.DataFrame, levels: Sequence[str]) -> pl.DataFrame:
    """Errors of the cells of population groups by level, detail and size of the group.

    Args:
        rows: Published rows of all runs, with TRUE, LEVEL, DETAIL and TOTAL (the total of the group).
        levels: As in `level_total_errors`.
    """
    named = rows.with_columns(size_of(pl.col("TOTAL")).alias("SIZE"))
    errors = named.group_by([LEVEL, "DETAIL", "SIZE"]).agg(pl.len().alias("rows"), *_measures())
    return errors.sort(_level_order(levels, "DETAIL"))


def cell_errors(rows: pl.DataFrame) -> pl.DataFrame:
    """Errors of T2 by geography, level, size of the group, and whether a row is a cell or a sex.

    Args:
        rows: Published rows of all runs, with TRUE, LEVEL and TOTAL (the total of the group).
    """
    named = rows.with_columns(
        size_of(pl.col("TOTAL")).alias("SIZE"),
        pl.when(pl.col("AGESTART") == ANY).then(pl.lit("sex")).otherwise(pl.lit("cell")).alias("ROW"),
    )
    keys = ["REGION_TYPE", LEVEL, "SIZE", "ROW"]
    errors = named.group_by(keys).agg(pl.len().alias("rows"), *_measures())
    return errors.sort(["REGION_TYPE", LEVEL, "ROW", pl.col("SIZE").replace_strict(_places())])


def household_errors(rows: pl.DataFrame) -> pl.DataFrame:
    """Errors of T3 and T4 by table, geography, level, size of the group, and whether a number is a cell or a sum.

    Args:
        rows: Published rows of all runs, with TRUE, LEVEL, TOTAL (households of the group) and PARTS (the number of
            measured cells that a number sums).
    """
    named = rows.with_columns(
        size_of(pl.col("TOTAL")).alias("SIZE"),
        pl.when(pl.col("PARTS") > 1).then(pl.lit("sum")).otherwise(pl.lit("cell")).alias("ROW"),
    )
    keys = ["TABLE", "REGION_TYPE", LEVEL, "SIZE", "ROW"]
    errors = named.group_by(keys).agg(pl.len().alias("rows"), *_measures(_VALUES[:1]))
    return errors.sort(["TABLE", "REGION_TYPE", LEVEL, "ROW", pl.col("SIZE").replace_strict(_places())])


def _of_totals(rows: pl.DataFrame, details: Sequence[str], keys: list[str], count: pl.Expr) -> pl.DataFrame:
    """Errors of totals by some keys, with a count of the rows and the share of each detail."""
    only = pl.col("DETAIL") == details[-1]
    named = rows.with_columns(only.alias("TOTAL_ONLY"), size_of(pl.col("TRUE")).alias("SIZE"))
    shares = [(pl.col("DETAIL") == name).mean().alias(f"share: {name}") for name in details[:-1]]
    return named.group_by(keys).agg(count, *shares, *_measures())


def _level_order(levels: Sequence[str], key: str) -> list[Any]:
    """Levels in the given order, then a key, then sizes."""
    places = {name: place for place, name in enumerate(levels)}
    size = pl.col("SIZE").replace_strict(_places())
    return [pl.col(LEVEL).replace_strict(places, return_dtype=pl.Int64), key, size]


def _measures(values: tuple[tuple[str, str], ...] = _VALUES) -> list[pl.Expr]:
    measures = []
    for value, margin in values:
        # Float64 first: COUNT is an integer and ESTIMATE is not.
        error = pl.col(value).cast(pl.Float64) - pl.col("TRUE")
        measures += [
            error.mean().alias(f"{value}: mean error"),
            (error**2).mean().sqrt().alias(f"{value}: root mean square"),
            error.abs().mean().alias(f"{value}: mean absolute"),
            # "higher": an error that occurred, and so at least 95 % are at or below it.
            error.abs().quantile(0.95, "higher").alias(f"{value}: 95th percentile"),
            (error.abs() <= pl.col(margin)).mean().alias(f"{value}: within margin"),
        ]
    return measures


def _order() -> list[Any]:
    return ["REGION_TYPE", LEVEL, "TOTAL_ONLY", pl.col("SIZE").replace_strict(_places())]


def _places() -> dict[str, int]:
    return {name: place for place, name in enumerate(SIZES)}
