"""The public bounds of a release, written so that variances and new estimates need only the release folder.

Layout: `bounds/00.parquet` holds the first bounds of the plan, and so on. Its columns are `geocode`, `answer`, `lower`
and `upper` (null: unbounded). An answer without a row has lower bound 0. Its upper bound is 0 or absent, as
`missing_upper` in `plan.json` states.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.files.columns import enum_column, read_located
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.stated import StatedGeounits, stated_geounits
from tallyveil.postprocess.constraints.geolevels import (
    GEOUNITS_AT_ONCE,
    ConstraintTable,
    constraint_table,
    filled,
)
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_parquet_chunks

BOUNDS = "bounds"


def bounds_path(root: Path, number: int) -> Path:
    """File of the plan's bounds with this number, counted from 0."""
    return inside(root, BOUNDS, f"{number:02d}.parquet")


def write_bounds(
    root: Path,
    number: int,
    bounds: Mapping[str, Any],
    table: ConstraintTable,
    stated: StatedGeounits,
    metadata: Mapping[str, str],
) -> None:
    """Write those bounds that differ from the bounds of an answer without a row.

    Args:
        root: Release folder.
        number: Place of the bounds in the plan.
        bounds: The entry of `plan.json`.
        table: The compiled bounds.
        stated: The geounits that the bounds are stated for.
        metadata: Tags of the file.
    Raises:
        StoreError: the file cannot be written.
    Privacy: bounds are public by declaration; nothing here is computed from records.
    """
    level, missing = len(table.lower) - 1, _missing_upper(bounds)
    labels = table.query.labels()

    def frames() -> Iterator[pl.DataFrame]:
        for start in range(0, stated.n_geounits, GEOUNITS_AT_ONCE):
            lower, upper = table.bounds_of(level, start, start + GEOUNITS_AT_ONCE)
            rows, answers = np.nonzero((lower != 0) | (upper != missing))
            high = pl.Series("upper", upper[rows, answers])
            yield pl.DataFrame(
                {
                    "geocode": stated.areas.geocodes[stated.place].text.gather(start + rows),
                    "answer": enum_column("answer", labels, answers),
                    "lower": lower[rows, answers],
                    "upper": high.set(high >= UNBOUNDED, None),
                }
            )

    tags = {**metadata, "bounds": bounds["name"], "query": bounds["query"], "geolevel": bounds["geolevel"]}
    write_parquet_chunks(bounds_path(root, number), frames(), tags)


def read_bounds(
    root: Path, number: int, bounds: Mapping[str, Any], schema: Schema, hierarchies: Hierarchies
) -> ConstraintTable:
    """Published bounds as they were compiled, at every geolevel.

    Args:
        root: Release folder.
        number: Place of the bounds in the plan.
        bounds: The entry of `plan.json`.
        schema: The universe.
        hierarchies: The spine that is measured, and the areas beside it.
    Raises:
        StoreError: the file is missing, unreadable, or of another geography.
    """
    query, stated = schema.query(bounds["query"]), stated_bounds(hierarchies, bounds)
    rows, answers, low, high = _read(bounds_path(root, number), query, stated)
    lower = filled(stated.n_geounits, query, rows, answers, low, 0)
    upper = filled(stated.n_geounits, query, rows, answers, high, _missing_upper(bounds))
    return constraint_table(bounds["name"], query, (lower, upper), stated, hierarchies.spine)


def stated_bounds(hierarchies: Hierarchies, bounds: Mapping[str, Any]) -> StatedGeounits:
    """Where the geounits of bounds are on the spine; `bounds` is their entry of `plan.json`."""
    what = f"'{bounds['name']}', bounds on '{bounds['query']}',"
    return stated_geounits(hierarchies, bounds["geolevel"], what)


def _missing_upper(bounds: Mapping[str, Any]) -> int:
    """Upper bound of an answer without a row."""
    return UNBOUNDED if bounds["missing_upper"] is None else int(bounds["missing_upper"])


def _read(
    path: Path, query: QueryGroup, stated: StatedGeounits
) -> tuple[Integers, Integers, Integers, Integers]:
    """Geounit, answer, lower and upper bound of every row."""
    if not path.is_file():
        raise StoreError(
            f"{path} does not exist. Either the release was made by a version that did not publish its bounds, or "
            "the release is incomplete. Restore the file, or leave out the public bounds with --without-bounds: "
            "intervals stay valid, but are wider.",
            code="bounds-missing",
        )
    columns = ["lower", "upper"]
    rows, answers, frame = read_located(
        path, query, stated.areas, stated.place, columns, "bounds", open_ended=["upper"]
    )
    return rows, answers, frame["lower"].to_numpy(), frame["upper"].fill_null(UNBOUNDED).to_numpy()
