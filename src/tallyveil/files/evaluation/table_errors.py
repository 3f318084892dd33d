"""Errors of one released table, by the true size of its cells."""

import polars as pl

from tallyveil.arrays import Integers
from tallyveil.files.evaluation.size_class import ALL_SIZES, SizeClass, size_classes

COUNTS = ("count", "noisy")
"""Columns of counts that a released table may have: what is published, and what it was post-processed from."""


def table_errors(released: pl.DataFrame, truth: Integers) -> pl.DataFrame:
    """Errors of the published counts, and of the unbiased ones where there are others.

    Args:
        released: The table, in the order of its cells, with a column `count`, and perhaps `noisy` and `margin`.
        truth: int64 [n_cells].
    Returns:
        For each column of counts and each class of true sizes, and for all cells together: cells, mean absolute error,
        root mean square, bias, and the share of cells whose error is within the margin (null where there is none: the
        margin is that of the unbiased counts).
    Privacy: none.
    """
    labels = [size_class.value for size_class in SizeClass]
    classes = [labels[i] for i in size_classes(truth).tolist()]
    present = [name for name in COUNTS if name in released.columns]
    margin = released["margin"] if "margin" in released.columns else pl.Series([None] * released.height)
    rows = []
    for name in present:
        error = released[name] - pl.Series(truth)
        unbiased = name == present[-1]
        within = (error.abs() <= margin) if unbiased else pl.Series([None] * len(error), dtype=pl.Boolean)
        frame = pl.DataFrame({"size_class": classes, "error": error, "within": within})
        rows.append(_summary(frame.with_columns(size_class=pl.lit(ALL_SIZES)), name))
        rows.append(_summary(frame, name))
    order = [ALL_SIZES, *labels]
    return pl.concat(rows).sort(
        pl.col("counts").replace_strict({n: i for i, n in enumerate(COUNTS)}, return_dtype=pl.Int64),
        pl.col("size_class").replace_strict({n: i for i, n in enumerate(order)}, return_dtype=pl.Int64),
    )


def _summary(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    error = pl.col("error")
    return frame.group_by("size_class").agg(
        pl.lit(name).alias("counts"),
        pl.len().cast(pl.Int64).alias("cells"),
        error.abs().mean().alias("mean_absolute_error"),
        (error.cast(pl.Float64) ** 2).mean().sqrt().alias("root_mean_square_error"),
        error.mean().alias("bias"),
        pl.col("within").cast(pl.Boolean).mean().alias("within_margin"),
    )
