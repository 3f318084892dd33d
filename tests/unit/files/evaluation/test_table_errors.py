"""Errors of one table by true size, worked by hand."""

import numpy as np
import polars as pl

from tallyveil.files.evaluation import table_errors


def test_a_case_by_hand():
    released = pl.DataFrame(
        {"a": ["x", "y", "z"], "count": [0, 14, 8], "noisy": [-2, 15, 9], "margin": [2, 4, 4]}
    )
    errors = table_errors(released, np.array([0, 10, 12]))
    rows = {(row["counts"], row["size_class"]): row for row in errors.iter_rows(named=True)}
    assert [row["size_class"] for row in errors.filter(counts="count").iter_rows(named=True)] == [
        "all",
        "0",
        "10-99",
    ]
    assert rows["count", "all"]["bias"] == 0
    assert rows["count", "10-99"]["mean_absolute_error"] == 4
    assert rows["count", "all"]["within_margin"] is None
    assert rows["noisy", "0"]["within_margin"] == 1
    assert rows["noisy", "10-99"]["within_margin"] == 0.5
    assert rows["noisy", "10-99"]["root_mean_square_error"] == np.sqrt((25 + 9) / 2)


def test_a_table_without_margins():
    errors = table_errors(pl.DataFrame({"count": [1, 2]}), np.array([1, 4]))
    assert errors["within_margin"].null_count() == errors.height
    assert errors.filter(size_class="all")["bias"].to_list() == [-1]
