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
from tallyveil.geography.spine import Spine
from tallyveil.intervals.model import Zeros
from tallyveil.postprocess.constraints import GEOUNITS_AT_ONCE, ConstraintTable, filled, summed_upward
from tallyveil.release.columns import enum_column, read_located
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_parquet_chunks
from tallyveil.universe.query_group import QueryGroup
from tallyveil.universe.schema import Schema

BOUNDS = "bounds"


def bounds_path(root: Path, number: int) -> Path:
    """File of the plan's bounds with this number, counted from 0."""
    return inside(root, BOUNDS, f"{number:02d}.parquet")


def write_bounds(
    root: Path,
    number: int,
    bounds: Mapping[str, Any],
    table: ConstraintTable,
    spine: Spine,
    metadata: Mapping[str, str],
) -> None:
    """Write those bounds that differ from the bounds of an answer without a row.

    Args:
        root: Release folder.
        number: Place of the bounds in the plan.
        bounds: The entry of `plan.json`.
        table: The compiled bounds.
        spine: The hierarchy.
        metadata: Tags of the file.
    Raises:
        StoreError: the file cannot be written.
    Privacy: bounds are public by declaration; nothing here is computed from records.
    """
    level, missing = spine.level_index(bounds["geolevel"]), _missing_upper(bounds)
    labels = table.query.labels()

    def frames() -> Iterator[pl.DataFrame]:
        for start in range(0, spine.n_geounits(level), GEOUNITS_AT_ONCE):
            lower, upper = table.bounds_of(level, start, start + GEOUNITS_AT_ONCE)
            rows, answers = np.nonzero((lower != 0) | (upper != missing))
            high = pl.Series("upper", upper[rows, answers])
            yield pl.DataFrame(
                {
                    "geocode": spine.geocodes[level].text.gather(start + rows),
                    "answer": enum_column("answer", labels, answers),
                    "lower": lower[rows, answers],
                    "upper": high.set(high >= UNBOUNDED, None),
                }
            )

    tags = {**metadata, "bounds": bounds["name"], "query": bounds["query"], "geolevel": bounds["geolevel"]}
    write_parquet_chunks(bounds_path(root, number), frames(), tags)


def read_zeros(root: Path, number: int, bounds: Mapping[str, Any], schema: Schema, spine: Spine) -> Zeros:
    """The answers that published bounds keep at zero.

    Args:
        root: Release folder.
        number: Place of the bounds in the plan.
        bounds: The entry of `plan.json`.
        schema: The universe.
        spine: The hierarchy.
    Raises:
        StoreError: the file is missing, unreadable, or of another geography.
    """
    query, level = schema.query(bounds["query"]), spine.level_index(bounds["geolevel"])
    rows, answers, _, upper = _read(bounds_path(root, number), query, spine, level)
    zero = np.full((spine.n_geounits(level), query.size), bounds["missing_upper"] == 0)
    zero[rows, answers] = upper == 0
    return Zeros(query, bounds["geolevel"], zero)


def read_bounds(
    root: Path, number: int, bounds: Mapping[str, Any], schema: Schema, spine: Spine
) -> ConstraintTable:
    """Read published bounds at every geolevel. Arguments and errors are those of `read_zeros`."""
    query, level = schema.query(bounds["query"]), spine.level_index(bounds["geolevel"])
    rows, answers, low, high = _read(bounds_path(root, number), query, spine, level)
    n_geounits, missing = spine.n_geounits(level), _missing_upper(bounds)
    lower = summed_upward(filled(n_geounits, query, rows, answers, low, 0), level, spine)
    upper = summed_upward(filled(n_geounits, query, rows, answers, high, missing), level, spine)
    return ConstraintTable(bounds["name"], query, lower, upper)


def _missing_upper(bounds: Mapping[str, Any]) -> int:
    """Upper bound of an answer without a row."""
    return UNBOUNDED if bounds["missing_upper"] is None else int(bounds["missing_upper"])


def _read(
    path: Path, query: QueryGroup, spine: Spine, level: int
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
    rows, answers, frame = read_located(path, query, spine, level, columns, "bounds", open_ended=["upper"])
    return rows, answers, frame["lower"].to_numpy(), frame["upper"].fill_null(UNBOUNDED).to_numpy()
