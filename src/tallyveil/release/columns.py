"""Columns of repeated words."""

from collections.abc import Sequence

import numpy as np
import polars as pl


def enum_column(name: str, words: Sequence[str], codes: np.ndarray) -> pl.Series:
    """The word of each code, stored once a column: Parquet keeps a dictionary and the codes."""
    return pl.Series(name, words, dtype=pl.Enum(list(words))).gather(codes)


def code_expression(name: str, words: Sequence[str]) -> pl.Expr:
    """The code of each word of a column; null where a word is none of them."""
    return pl.col(name).cast(pl.String).cast(pl.Enum(list(words)), strict=False).to_physical().cast(pl.Int64)
