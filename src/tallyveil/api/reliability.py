"""Classes of reliability for tables with estimates and standard errors."""

from collections.abc import Sequence
from typing import Annotated

import polars as pl

from tallyveil.api.arguments import Number, Wanted, checked
from tallyveil.errors import ConfigError
from tallyveil.printable import present_columns

Thresholds = Annotated[Sequence[Number], Wanted("rising thresholds as numbers, such as (0.165, 0.333)")]
THRESHOLDS = (0.165, 0.333)
"""Greatest coefficients of variation of the first two classes, as Statistics Canada has them."""
CLASSES = ("acceptable", "marginal", "unacceptable")
WANTED = ("estimate", "standard_error")
ADDED = ("coefficient_of_variation", "reliability")


@checked
def reliability(
    frame: pl.DataFrame, *, thresholds: Thresholds = THRESHOLDS, classes: Sequence[str] = CLASSES
) -> pl.DataFrame:
    """A table of counts with the coefficient of variation of each estimate and its class of reliability.

    The coefficient of variation is the standard error divided by the estimate. The classes speak of the privacy noise
    only. They are for counts, and not for differences, which may be near 0.

    Args:
        frame: A table with the columns `estimate` and `standard_error`, such as those of `Release.table`,
            `Release.interval`, `District.to_frame` and `Quantities.to_frame`.
        thresholds: Greatest coefficient of variation of each class but the last. The default is the guideline of
            Statistics Canada for estimates from its surveys.
        classes: Names of the classes, the most reliable first: one more than thresholds.
    Returns:
        The table with two more columns, `coefficient_of_variation` and `reliability`. An estimate of zero or less has
        no coefficient and is in the last class, unless it is known exactly, with coefficient 0. Rows without an
        estimate have null in both columns.
    Raises:
        ConfigError: a column is missing or already there, or thresholds and classes do not fit each other.
    Source: Statistics Canada, Canadian Community Health Survey, user guide of the public use microdata file, section on
        guidelines for release: up to 16.5 % acceptable, up to 33.3 % marginal, above that unacceptable.
    """
    limits, names = list(thresholds), list(classes)
    _refuse_misfit(frame, limits, names)
    estimate, error = pl.col("estimate"), pl.col("standard_error")
    coefficient = pl.when(error == 0).then(0.0).when(estimate > 0).then(error / estimate)
    known = estimate.is_not_null() & error.is_not_null()
    reached = pl.lit(names[-1])
    for limit, name in zip(reversed(limits), reversed(names[:-1]), strict=True):
        reached = pl.when(pl.col(ADDED[0]) <= limit).then(pl.lit(name)).otherwise(reached)
    # In two steps, since the class is chosen by the coefficient as it stands in the table.
    beside = frame.with_columns(pl.when(known).then(coefficient).alias(ADDED[0]))
    return beside.with_columns(pl.when(known).then(reached).alias(ADDED[1]))


def _refuse_misfit(frame: pl.DataFrame, limits: Sequence[float], names: Sequence[str]) -> None:
    missing = [name for name in WANTED if name not in frame.columns]
    there = [name for name in ADDED if name in frame.columns]
    if missing or there:
        what = f"no column {missing[0]}" if missing else f"a column {there[0]} already"
        raise ConfigError(
            f"the table has {what}. {present_columns(frame.columns, WANTED)} Give a table with estimates and standard "
            "errors, such as release.table(...) after release.add_intervals().",
            code="bad-argument",
        )
    rising = list(limits) == sorted(set(limits)) and min(limits, default=0) > 0
    if not rising or len(names) != len(limits) + 1:
        raise ConfigError(
            f"{len(limits)} thresholds and {len(names)} classes are given, wanted rising thresholds above 0 and one "
            "class more than thresholds, such as thresholds=(0.165, 0.333) with three classes.",
            code="bad-argument",
        )
