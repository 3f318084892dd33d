"""Reads the public table that says how many categories are in use at each geolevel."""

import math
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tallyveil.errors import SchemaError
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import read_table, require_levels, scan_table

COLUMNS = ("geolevel", "query", "live")
WHAT = "live sizes"


def read_live_sizes(path: Path, schema: Schema, geolevels: Sequence[str]) -> dict[tuple[str, str], float]:
    """The number of live categories by geolevel and attribute or recode.

    Args:
        path: Public table with the columns of `COLUMNS`, one row for each geolevel and each attribute or recode.
        schema: The universe.
        geolevels: Geolevels of the spine.
    Raises:
        StoreError, ConfigError: the file or a column is missing or unreadable.
        SchemaError: a row names something unknown or what an earlier row names, or its number is out of range.
    """
    require_levels(scan_table(path, COLUMNS, WHAT), COLUMNS, path, WHAT)
    table = read_table(path, COLUMNS, WHAT).cast(pl.String)
    known = {item.name: item.size for item in schema.attributes} | {
        item.name: item.size for item in schema.recodes
    }
    found: dict[tuple[str, str], float] = {}
    for number, (geolevel, query, text) in enumerate(table.iter_rows(), start=1):
        where = f"row {number} of the table of live sizes {path}"
        for name, names, what in ((geolevel, geolevels, "geolevel"), (query, known, "attribute or recode")):
            if name not in names:
                raise _wrong(
                    f"{where} names the {what} {name!r:.80}; there are {', '.join(names)}. Correct it."
                )
        if (geolevel, query) in found:
            raise _wrong(f"{where} gives '{query}' at {geolevel} again. Give each once.")
        size = _number(text)
        if not 1 <= size <= known[query]:
            raise _wrong(
                f"{where} gives '{query}' at {geolevel} {text!r:.80} live categories; wanted a number from 1 to "
                f"{known[query]}, which is how many there are. Give the mean number of categories that are in use, "
                "over the geounits with any records."
            )
        found[geolevel, query] = size
    return found


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _wrong(message: str) -> SchemaError:
    return SchemaError(message, code="bad-live-sizes")
