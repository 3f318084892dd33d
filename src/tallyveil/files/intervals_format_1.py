"""Tables of intervals of format 1: one folder for each geolevel, a label for each answer, and the count as `published`.

Releases that were finished by an earlier version have them. Reports and districts read them; nothing writes them.
"""

from pathlib import Path

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import scan_parquet


def scan_format_1(folder: Path, geolevel: str, query: str) -> pl.LazyFrame | None:
    """A table of a geolevel, lazily: `geocode`, `answer` (its label), `count` and the numbers of its interval.

    Args:
        folder: The folder of the intervals.
        geolevel: The geolevel.
        query: Name of the query.
    Returns:
        None if there is no such table.
    """
    parts = sorted(inside(folder, file_name(geolevel), file_name(query)).glob("part-*.parquet"))
    return scan_parquet(*parts).rename({"published": "count"}) if parts else None


def refuse_format_1(folder: Path) -> None:
    """Refuse intervals of format 1, where their rows are wanted as they stand.

    Args:
        folder: The folder of the intervals.
    Raises:
        StoreError: they have format 1.
    """
    if any(not path.parent.name.startswith("query=") for path in folder.rglob("*.parquet")):
        raise StoreError(
            f"the intervals in {folder} were written by an earlier version of Tallyveil, with one label for each "
            f"answer. Make them again: `tallyveil intervals {folder.parent} --leave-tables` writes today's form and "
            "spends nothing. Answers for districts need no new ones.",
            code="tables-format",
        )
