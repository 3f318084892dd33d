"""Copies the noisy answers of the files into a folder of measurements, a few thousand rows at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import SchemaError
from tallyveil.measurements.layouts.census_2020.names import ANSWERS
from tallyveil.measurements.layouts.census_2020.settings import SourceSettings, expected_variances, is_close
from tallyveil.measurements.layouts.census_2020.source import SourceFiles, changed_file
from tallyveil.measurements.layouts.census_2020.spine import SourceSpine
from tallyveil.measurements.store import VALUES_PER_PART, write_part
from tallyveil.schema.counts import narrow
from tallyveil.schema.limits import LARGEST_COUNT
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

LARGEST_VALUE: Final = 2 * LARGEST_COUNT
"""Largest size of a noisy answer: up to this number, all that is computed from it is exact."""


@dataclass(slots=True, eq=False)
class _Query:
    """The answers of one query at one geolevel that are read and not yet written."""

    group: QueryGroup
    variances: list[NDArray[np.float64]]
    seen: NDArray[np.bool_]
    rows: list[Integers] = field(default_factory=list)
    values: list[NarrowArray] = field(default_factory=list)
    waiting: int = 0
    parts: int = 0


def copy_answers(
    files: SourceFiles,
    spine: SourceSpine,
    settings: SourceSettings,
    schema: Schema,
    level: int,
    root: Path,
    metadata: Mapping[str, str],
) -> Iterator[int]:
    """Copy the noisy answers of one geolevel, whatever the order of the rows in the files.

    Args:
        files: The files.
        spine: Their spine.
        settings: What they were made with.
        schema: The universe.
        level: Number of the geolevel.
        root: Folder of the measurements.
        metadata: Tags of the files that are written.
    Yields:
        Number of values of each batch.
    Raises:
        SchemaError: a row does not hold the answers of a query, or a geounit has them twice or not at all.
        StoreError: a file cannot be read or written.
    """
    geolevel = files.geolevels[level]
    named = settings.queries[geolevel]
    # One buffer a query, as rows of all queries are mixed in the files.
    queries = {
        query: _Query(
            schema.query(query),
            expected_variances(settings.allocation, geolevel, query),
            np.zeros(spine.spine.n_geounits(level), dtype=np.bool_),
        )
        for query in settings.allocation.strategy.queries(geolevel)
    }

    def write(query: _Query) -> None:
        _write(query, root, spine, level, metadata)

    for path, batch in files.batches(geolevel, ANSWERS):
        # In the order of the file, so that the first bad row that is named is the first in it.
        for (name,), rows in batch.group_by("query_name", maintain_order=True):
            if name not in named:
                raise changed_file(path)
            query = queries[named[str(name)]]
            yield _take(query, path, spine, level, rows)
            # A part is written as soon as it is full: memory never holds a query of a whole geolevel.
            if query.waiting >= VALUES_PER_PART:
                write(query)
    for query in queries.values():
        _require_all(query, files, spine, level)
        # A query that no geounit answers has one part without rows, so that readers find it.
        if query.waiting or not query.parts:
            write(query)


def _take(query: _Query, path: Path, spine: SourceSpine, level: int, frame: pl.DataFrame) -> int:
    """Check the rows of one query, and keep them until a part is full; returns the number of values."""
    # The spine was made from the same files: an unknown geocode means that they changed meanwhile.
    geounits = spine.locate(level, frame["geocode"])
    if bool((geounits < 0).any()):
        raise changed_file(path)
    values = _values_of(query.group, path, frame)
    _require_variances(query, path, geounits, frame)
    _, place, times = np.unique(geounits, return_inverse=True, return_counts=True)
    # Seen in an earlier batch, or twice in this one.
    twice = query.seen[geounits] | (times[place] > 1)
    if bool(twice.any()):
        code = frame["geocode"][int(np.argmax(twice))]
        raise _bad_row(path, code, f"has noisy answers of '{query.group.name}' twice")
    query.seen[geounits] = True
    query.rows.append(geounits)
    query.values.append(narrow(values))
    query.waiting += values.size
    return values.size


def _values_of(group: QueryGroup, path: Path, frame: pl.DataFrame) -> Integers:
    """The noisy answers of every row; shape (n_rows, group.size)."""
    sizes = frame["value"].list.len()
    # Null compares to null in polars, which is neither true nor false: it must be filled.
    wrong = sizes.is_null() | (sizes != group.size).fill_null(True)
    if bool(wrong.any()):
        row = int(wrong.arg_max() or 0)
        what = f"has {sizes[row] or 0} answers of '{group.name}'; wanted {group.size}"
        raise _bad_row(path, frame["geocode"][row], what)
    flat = frame["value"].explode(empty_as_null=False)
    # Checked before the cast to numpy, which would turn nulls into NaN and all numbers into floats.
    outside = flat.is_null() | ~flat.is_between(-LARGEST_VALUE, LARGEST_VALUE).fill_null(False)
    if bool(outside.any()):
        row = int(outside.arg_max() or 0) // group.size
        what = (
            f"lacks an answer of '{group.name}', or has one outside -{LARGEST_VALUE:,} to {LARGEST_VALUE:,}"
        )
        raise _bad_row(path, frame["geocode"][row], what)
    values: Integers = flat.to_numpy().reshape(-1, group.size)
    return values


def _require_variances(query: _Query, path: Path, geounits: Integers, frame: pl.DataFrame) -> None:
    """Refuse variances that are not those of the geounits' places in the tree."""
    variances = frame["variance"].to_numpy()
    # Either of two numbers may be called the variance (`expected_variances`).
    fits = np.any([is_close(variances, wanted[geounits]) for wanted in query.variances], axis=0)
    if not bool(fits.all()):
        row = int(np.argmin(fits))
        wanted = query.variances[0][geounits[row]]
        raise _bad_row(
            path,
            frame["geocode"][row],
            f"gives '{query.group.name}' the variance {variances[row]!r}; wanted {wanted:.6g}, that of its place in "
            "the tree",
        )


def _write(query: _Query, root: Path, spine: SourceSpine, level: int, metadata: Mapping[str, str]) -> None:
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *query.rows])
    values = np.concatenate([np.zeros((0, query.group.size), dtype=np.int32), *query.values])
    # Parts are written in the order of the spine, each in itself.
    order = np.argsort(rows)
    codes = spine.spine.geocodes[level].text.gather(rows[order])
    geolevel = spine.spine.geolevels[level]
    variances = query.variances[0][rows[order]]
    write_part(root, geolevel, query.group.name, query.parts, (codes, values[order], variances), metadata)
    # Emptied before the next batch, so that a part's memory is given back.
    query.rows.clear()
    query.values.clear()
    query.waiting, query.parts = 0, query.parts + 1


def _require_all(query: _Query, files: SourceFiles, spine: SourceSpine, level: int) -> None:
    lacking = spine.measured[level] & ~query.seen
    if bool(lacking.any()):
        geolevel = files.geolevels[level]
        code = spine.spine.geocodes[level][int(np.argmax(lacking))]
        raise SchemaError(
            f"{int(lacking.sum()):,} geounit(s) of {geolevel} in {files.root}, such as {code!a:.60}, have noisy "
            f"answers of other queries and none of '{query.group.name}'. Download the files of {geolevel} again.",
            code="layout-rows",
        )


def _bad_row(path: Path, geocode: str, what: str) -> SchemaError:
    return SchemaError(
        f"{path}: the row of geounit {geocode!a:.60} {what}. Download the file again.", code="layout-rows"
    )
