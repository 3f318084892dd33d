"""The layout "tidy": one row for each noisy answer, with a column for each attribute.

    <geolevel>/<query>/part-*.parquet   geolevel, geocode, query, one column for each attribute, value, variance

The column of an attribute holds the level, or the group of levels, that the answer counts; null where all levels are
counted together. All files have the same columns, so that they can be read as one table.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import SchemaError
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_parquet
from tallyveil.universe.query_group import QueryGroup
from tallyveil.universe.schema import Schema

BEFORE: Final = ("geolevel", "geocode", "query")
AFTER: Final = ("value", "variance")
ROWS_AT_ONCE: Final = 1 << 22
"""Rows of a file."""


def require_columns(schema: Schema) -> None:
    """Refuse attributes with the names of other columns; raises SchemaError."""
    if taken := [name for name in schema.attribute_names if name in (*BEFORE, *AFTER)]:
        raise SchemaError(
            f"the schema '{schema.name}' has an attribute '{taken[0]}', and the layout \"tidy\" has a column of this "
            "name. Rename the attribute in the release file, before anything is measured.",
            code="layout-unsuited",
        )


def words_of(groups: Sequence[QueryGroup]) -> dict[str, pl.Enum]:
    """For each attribute, the type that holds all levels and groups of levels that queries count."""
    words: dict[str, dict[str, None]] = {}
    for group in groups:
        for factor in group.factors:
            own = words.setdefault(factor.attribute, {})
            own.update(dict.fromkeys(factor.labels if factor.name is not None else ()))
    return {attribute: pl.Enum(list(labels)) for attribute, labels in words.items()}


def write_tidy(
    root: Path,
    geolevel: str,
    group: QueryGroup,
    words: Mapping[str, pl.Enum],
    frame: pl.DataFrame,
    first: int,
    metadata: Mapping[str, str],
) -> int:
    """Write the noisy answers of a query in some geounits.

    Args:
        root: The folder.
        geolevel: Geolevel of the geounits.
        group: The query.
        words: Type of the column of each attribute (`words_of`).
        frame: For each geounit `geocode`, `values` and `variance`.
        first: Number of the first file that is written.
        metadata: Tags of every file.
    Returns:
        Number of the next file.
    Raises:
        StoreError: a file cannot be written.
    """
    folder = inside(root, file_name(geolevel), file_name(group.name))
    at_once = max(1, ROWS_AT_ONCE // group.size)
    labels = _labels(group, words)
    number = first
    for start in range(0, max(frame.height, 1), at_once):
        rows = frame[start : start + at_once]
        answers: Integers = np.tile(np.arange(group.size, dtype=np.int64), rows.height)
        geounits: Integers = np.repeat(np.arange(rows.height, dtype=np.int64), group.size)
        tidy = pl.DataFrame(
            [
                pl.Series("geolevel", [geolevel], dtype=pl.String).new_from_index(0, len(answers)),
                rows["geocode"].gather(geounits),
                pl.Series("query", [group.name], dtype=pl.String).new_from_index(0, len(answers)),
                *(column.gather(answers) for column in labels),
                rows["values"].explode(empty_as_null=False).cast(pl.Int64).alias("value"),
                rows["variance"].gather(geounits),
            ]
        )
        write_parquet(folder / f"part-{number:05d}.parquet", tidy, metadata)
        number += 1
    return number


def _labels(group: QueryGroup, words: Mapping[str, pl.Enum]) -> list[pl.Series]:
    """For each attribute, what each answer counts."""
    places = np.unravel_index(np.arange(group.size), group.shape)
    return [
        pl.Series(
            factor.attribute,
            [None if factor.name is None else factor.labels[int(one)] for one in place],
            dtype=words[factor.attribute],
        )
        for factor, place in zip(group.factors, places, strict=True)
    ]
