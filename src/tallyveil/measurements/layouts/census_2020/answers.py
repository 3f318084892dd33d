"""Copies the noisy answers of the files into a folder of measurements, and reads their exact counts and bounds.

Noisy answers are copied a few thousand rows at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.geography.spine import Spine
from tallyveil.measurements.layouts.census_2020.source import (
    ANSWERS,
    AT_LEAST,
    AT_MOST,
    CONSTRAINTS,
    EQUAL,
    STRUCTURAL_ZEROS,
    TOTAL,
    TOTALS_FILE,
    SourceFiles,
    changed_file,
    lower_name,
    upper_name,
)
from tallyveil.measurements.layouts.census_2020.spine import (
    SourceSettings,
    SourceSpine,
    expected_variances,
    is_close,
)
from tallyveil.measurements.store import VALUES_PER_PART, write_part
from tallyveil.schema.counts import LARGEST_COUNT, NO_LIMIT, narrow
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import collect, require_counts, require_text, scan_table, whole_number

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


_NOT_LOOSER: Final = ("County", "Tract", "Block_Group")
"""Geolevels whose bounds are sums of those of their blocks. At State and US they are narrower in production's files."""


def require_known_constraints(files: SourceFiles, schema: Schema, bounded: QueryGroup | None) -> None:
    """Refuse constraints that are none of the product, and structural zeros that the files contradict.

    Args:
        files: The files.
        schema: The universe; its structural zeros are rows of the files.
        bounded: The query that has bounds, if the product has any.
    Raises:
        SchemaError: a constraint is unknown or missing, or is not what the schema says.
        StoreError: a file cannot be read.
    """
    # The files state structural zeros as constraints, which must be those of the schema.
    zeros = [STRUCTURAL_ZEROS[zero.name][0] for zero in schema.structural_zeros]
    known = {TOTAL, *zeros}
    if bounded is not None:
        known |= {lower_name(bounded.name), upper_name(bounded.name)}
    for geolevel in files.geolevels:
        if unknown := sorted(str(name) for name in _names(files, geolevel) - known):
            raise _bad(
                f"{geolevel} in {files.root} has the constraint {unknown[0]!a:.80}, which the redistricting data do "
                f"not have; they have {', '.join(sorted(known))}. Take the files of one product as they were "
                "published."
            )
        for name in zeros:
            frame = files.scan(geolevel, CONSTRAINTS, ["query_name", "value", "sign"])
            rows = frame.filter(pl.col("query_name") == name).select("value", "sign").unique()
            stated = files.collect(rows, geolevel, CONSTRAINTS)
            # A geolevel may leave the constraint out. What it states must be one thing: equal to 0.
            if stated.height and stated.rows() != [([0], EQUAL)]:
                raise _bad(
                    f"the constraint '{name}' at {geolevel} in {files.root} says something else than that a count is "
                    "0. Download the files again."
                )


def read_bounds(files: SourceFiles, spine: SourceSpine, query: QueryGroup) -> tuple[Integers, Integers]:
    """Lower and upper bounds on a query's answers in every block; an upper bound of 2**32 or more is none.

    Bounds at coarser geolevels are sums of these. Those of the files are not used, only compared: a lower bound above
    the sum shows that blocks are missing.

    Returns:
        Two arrays of shape (n_blocks, query.size), in the order of the spine.
    Raises:
        SchemaError: a geounit has no bounds or has them twice, or they are no bounds.
        ConstraintError: a lower bound is above an upper one, or bounds at coarser geolevels do not fit.
        StoreError: a file cannot be read.
    """
    finest = spine.spine.finest
    lower = _values(files, spine, finest, lower_name(query.name), AT_LEAST, query.size)
    upper = _values(files, spine, finest, upper_name(query.name), AT_MOST, query.size)
    if bool((lower > LARGEST_COUNT).any()):
        raise _bad(
            f"{files.root} gives a block a lower bound on '{query.name}' above {LARGEST_COUNT:,}, more than any count. "
            "Download the files again."
        )
    # Found here, by block; the estimator would only say that a family has no solution.
    if bool((lower > upper).any()):
        row = int(np.argmax((lower > upper).any(axis=1)))
        raise ConstraintError(
            f"{files.root} gives the block {spine.spine.geocodes[-1][row]!a:.60} a lower bound on '{query.name}' above "
            "its upper bound. Download the files again.",
            code="bounds-crossed",
        )
    for name in _NOT_LOOSER:
        if name in files.geolevels and lower_name(query.name) in _names(files, name):
            level = files.geolevels.index(name)
            # A geounit of the files whose blocks are missing has more than its blocks add up to.
            stated = _values(files, spine, level, lower_name(query.name), AT_LEAST, query.size)
            _require_whole(files, spine, level, stated > _sums(lower, spine.spine, level), "bounds")
    # A bound that no count can reach is none.
    upper[upper >= LARGEST_COUNT] = NO_LIMIT
    return lower, upper


def read_totals(files: SourceFiles, spine: SourceSpine, level: int) -> Integers:
    """Exact totals of the geounits of a geolevel, from the constraints of the files; shape (n_geounits, 1).

    Raises:
        SchemaError: a geounit has no total or has it twice, or totals are too large.
        StoreError: a file cannot be read.
    """
    totals = _values(files, spine, level, TOTAL, EQUAL, 1)
    # Numbers first, so that the sum in int64 cannot overflow.
    if bool((totals > LARGEST_COUNT).any()) or int(totals.sum()) > LARGEST_COUNT:
        raise _bad(
            f"the totals of {files.geolevels[level]} in {files.root} have a number above {LARGEST_COUNT:,}, or add up "
            "to more than that. No population is so large. Download the files again."
        )
    return totals


def require_root_total(files: SourceFiles, totals: Integers) -> None:
    """Refuse totals whose sum is not the total of the root, where the files state that.

    Raises:
        ConstraintError: the sum is another number: some are missing or wrong.
        StoreError: a file cannot be read.
    """
    geolevel = files.geolevels[0]
    frame = files.scan(geolevel, CONSTRAINTS, ["query_name", "value"]).filter(pl.col("query_name") == TOTAL)
    rows = files.collect(frame, geolevel, CONSTRAINTS)["value"].explode(empty_as_null=False)
    stated = int(rows.sum() or 0)
    # The published files may leave the total of the root out.
    if len(rows) and stated != int(totals.sum()):
        raise ConstraintError(
            f"the totals add up to {int(totals.sum()):,}, and the total of {geolevel} in {files.root} is "
            f"{stated:,}. Some geounits are missing in the files or in the table of totals, or a total is wrong. "
            f"Take all geounits below {geolevel}, or remove the files of {geolevel} and import one part by itself.",
            code="layout-totals",
        )


def read_totals_file(path: Path, codes: pl.Series, geolevel: str) -> Integers:
    """Exact totals from a table with the columns `geocode` and `count`.

    Args:
        path: Parquet or CSV file.
        codes: Geocodes of the geounits that have a total, in the order wanted.
        geolevel: Their geolevel, for messages.
    Raises:
        ConstraintError: a geounit has no total or has it twice, or a total is no count.
        StoreError, ConfigError: the file or a column is missing or unreadable.
    """
    frame = scan_table(path, ["geocode", "count"], "totals")
    require_text(frame, "geocode", path, "totals")
    require_counts(frame, "count", path, "totals")
    table = collect(frame.with_columns(whole_number("count")), path, "totals")
    counts = table["count"]
    if counts.null_count() or not bool(counts.is_between(0, LARGEST_COUNT).all()):
        raise _bad_totals(
            f"{path} has a count that is no whole number from 0 to {LARGEST_COUNT:,}. Correct it."
        )
    # A left join keeps the wanted order; a geocode that is twice in the table makes the result longer.
    joined = pl.DataFrame([codes.alias("geocode")]).join(
        table.filter(pl.col("geocode").is_in(codes.implode())),
        on="geocode",
        how="left",
        maintain_order="left",
    )
    if joined.height != len(codes) or joined["count"].null_count():
        lacking = joined.filter(pl.col("count").is_null())["geocode"]
        which = (
            f"no total of {geolevel} {lacking[0]!a:.60}" if len(lacking) else f"two totals of one {geolevel}"
        )
        raise _bad_totals(
            f"{path} has {which}. Give every {geolevel} of the files one row, with its geocode and its exact count."
        )
    totals: Integers = joined["count"].to_numpy().reshape(-1, 1).astype(np.int64)
    if int(totals.sum()) > LARGEST_COUNT:
        raise _bad_totals(f"the counts of {path} add up to more than {LARGEST_COUNT:,}. Correct them.")
    return totals


def lacking_totals(files: SourceFiles, geolevel: str) -> ConstraintError:
    """The error for totals that the files leave out."""
    return _bad_totals(
        f"{files.root} does not hold the exact totals of {geolevel}, which are invariants of the redistricting data; "
        f"the published files leave them out. Give --totals FILE, a table with the columns geocode and count and a row "
        f"for each {geolevel}. Totals of States are public: take those of the published redistricting data, or "
        f"{TOTALS_FILE} in a folder of `tallyveil measurements export`."
    )


def _names(files: SourceFiles, geolevel: str) -> set[str | None]:
    """The names of the constraints of a geolevel."""
    frame = files.scan(geolevel, CONSTRAINTS, ["query_name"]).unique()
    return set(files.collect(frame, geolevel, CONSTRAINTS)["query_name"])


def _values(
    files: SourceFiles, spine: SourceSpine, level: int, name: str, sign: str, size: int
) -> NDArray[np.int64]:
    """The numbers of one constraint for all geounits of a geolevel."""
    geolevel = files.geolevels[level]
    values = np.zeros((spine.spine.n_geounits(level), size), dtype=np.int64)
    # How often each geounit has the constraint: none and twice are both errors.
    times = np.zeros(len(values), dtype=np.int64)
    for path, batch in files.batches(geolevel, CONSTRAINTS, name):
        lengths = batch["value"].list.len()
        flat = batch["value"].explode(empty_as_null=False)
        # Before reshaping, which would shift numbers to other geounits.
        if bool((lengths != size).fill_null(True).any()) or flat.null_count():
            raise _bad(
                f"{path}: a row of '{name}' does not have {size} whole numbers. Download the file again."
            )
        if bool((batch["sign"] != sign).fill_null(True).any()):
            raise _bad(
                f"{path}: a row of '{name}' has the sign {batch['sign'][0]!r} or another one; wanted {sign!r}. "
                "Download the file again."
            )
        rows = spine.locate(level, batch["geocode"])
        if bool((flat < 0).any()) or bool((rows < 0).any()):
            raise _bad(
                f"{path}: a row of '{name}' has a negative number or an unknown geounit. Download it again."
            )
        values[rows] = flat.to_numpy().reshape(-1, size)
        np.add.at(times, rows, 1)
    if bool((times != 1).any()):
        code = spine.spine.geocodes[level][int(np.argmax(times != 1))]
        raise _bad(
            f"{int((times != 1).sum()):,} geounit(s) of {geolevel} in {files.root}, such as {code!a:.60}, have the "
            f"constraint '{name}' not once. Every geounit has it. Download the table {CONSTRAINTS} of {geolevel} again."
        )
    return values


def _sums(values: Integers, spine: Spine, level: int) -> Integers:
    """Sums of the blocks of every geounit of a geolevel."""
    summed: Integers = np.add.reduceat(values, spine.finest_offsets(level)[:-1], axis=0)
    return summed


def _require_whole(
    files: SourceFiles, spine: SourceSpine, level: int, wrong: NDArray[np.bool_], what: str
) -> None:
    if bool(wrong.any()):
        geounit = int(np.argmax(wrong.any(axis=1)))
        raise ConstraintError(
            f"the {what} of {files.geolevels[level]} {spine.spine.geocodes[level][geounit]!a:.60} in {files.root} are "
            "above the sums of those of its blocks. Blocks are missing. Add their files; counts estimated without them "
            "would be wrong.",
            code="layout-totals",
        )


def _bad(what: str) -> SchemaError:
    return SchemaError(what, code="layout-rows")


def _bad_totals(what: str) -> ConstraintError:
    return ConstraintError(what, code="layout-totals")
