"""Errors of SafeTab's tables compared with the true counts, by size of the group, over one run or several."""

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from tallyveil.products.safetab.public.tables import ANY, DETAIL_NAMES

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
