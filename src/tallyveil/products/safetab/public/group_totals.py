"""Totals of groups in the layout of T1, as a public file: what a file of them must be."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import SchemaError
from tallyveil.products.safetab.public.files import ColumnRule, FileFormat, some

KEYS: Final = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE"]
"""Columns that name a group in all tables."""


def totals_format(pattern: str, words: str) -> FileFormat:
    """The layout of T1 with a rule for its counts: a pattern, and the pattern in words."""
    return FileFormat(
        "pop-group-totals",
        (
            ColumnRule("REGION_ID", r"^[0-9]{1,11}$", "1 to 11 digits"),
            ColumnRule(
                "REGION_TYPE",
                r"^(USA|AIANNH|(PR-)?(STATE|COUNTY|TRACT|PLACE))$",
                "a geography such as COUNTY",
            ),
            ColumnRule("ITERATION_CODE", r"^[0-9]{4}$", "4 digits"),
            ColumnRule("COUNT", pattern, words),
        ),
    )


GROUP_TOTALS: Final = totals_format(r"^-?[0-9]{1,18}$", "a whole number")
"""Layout of the T1 of a run, whose counts have noise and may be negative."""


def require_groups_once(path: Path, totals: pl.DataFrame, iterations: Collection[str]) -> None:
    """Refuse totals that list a group twice, or an iteration that is not known.

    Args:
        path: File of the totals, for messages.
        totals: With the columns of `KEYS`.
        iterations: Codes of the iterations that it may have.
    Raises:
        SchemaError: a group is repeated, or an iteration is unknown.
    """
    repeated = totals.filter(totals.select(KEYS).is_duplicated())
    if repeated.height:
        first = ", ".join(repeated.select(KEYS).row(0))
        raise SchemaError(
            f"{path}: {repeated.height} rows repeat a group, such as {first}. Keep one row for each group.",
            code="safetab-repeated",
        )
    unknown = totals.filter(~pl.col("ITERATION_CODE").is_in([*iterations]))["ITERATION_CODE"]
    if len(unknown):
        raise SchemaError(
            f"{path}: {len(unknown)} row(s) have an ITERATION_CODE that the lists of the parameter folder do not have: "
            f"{some(unknown.unique(maintain_order=True).to_list())}. Remove the rows, or name the folder that has "
            "these iterations.",
            code="safetab-unknown-code",
        )
