"""Copies the noisy answers of the files into a folder of measurements, and reads their exact counts and bounds.

Noisy answers are copied a few thousand rows at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.geography.spine import Spine
from tallyveil.measurements.layouts.described.form import (
    AT_LEAST,
    CONSTRAINTS,
    EQUAL,
    ConstraintRows,
)
from tallyveil.measurements.layouts.described.settings import (
    SourceSettings,
    expected_variances,
    is_close,
)
from tallyveil.measurements.layouts.described.source import (
    GEOCODE,
    NAME,
    SIGN,
    VALUE,
    VARIANCE,
    SourceFiles,
    bad_row,
    changed_file,
)
from tallyveil.measurements.layouts.described.spine import SourceSpine
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
    geolevel = spine.spine.geolevels[level]
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

    for path, batch in files.lists(geolevel):
        # In the order of the file, so that the first bad row that is named is the first in it.
        for (name,), rows in batch.group_by(NAME, maintain_order=True):
            if name not in named:
                raise changed_file(path)
            query = queries[named[str(name)]]
            yield _take(query, path, spine, level, rows)
            # A part is written as soon as it is full: memory never holds a query of a whole geolevel.
            if query.waiting >= VALUES_PER_PART:
                write(query)
    for query in queries.values():
        if files.form.answers.zeros == "left out":
            _fill_zeros(query, spine, level)
        _require_all(query, files, spine, level)
        # A query that no geounit answers has one part without rows, so that readers find it.
        if query.waiting or not query.parts:
            write(query)


def _take(query: _Query, path: Path, spine: SourceSpine, level: int, frame: pl.DataFrame) -> int:
    """Check the rows of one query, and keep them until a part is full; returns the number of values."""
    # The spine was made from the same files: an unknown geocode means that they changed meanwhile.
    geounits = spine.locate(level, frame[GEOCODE])
    if bool((geounits < 0).any()):
        raise changed_file(path)
    values = _values_of(query.group, path, frame)
    _require_variances(query, path, geounits, frame)
    _, place, times = np.unique(geounits, return_inverse=True, return_counts=True)
    # Seen in an earlier batch, or twice in this one.
    twice = query.seen[geounits] | (times[place] > 1)
    if bool(twice.any()):
        code = frame[GEOCODE][int(np.argmax(twice))]
        raise bad_row(path, code, f"has noisy answers of '{query.group.name}' twice")
    query.seen[geounits] = True
    query.rows.append(geounits)
    query.values.append(narrow(values))
    query.waiting += values.size
    return values.size


def _values_of(group: QueryGroup, path: Path, frame: pl.DataFrame) -> Integers:
    """The noisy answers of every row; shape (n_rows, group.size)."""
    sizes = frame[VALUE].list.len()
    # Null compares to null in polars, which is neither true nor false: it must be filled.
    wrong = sizes.is_null() | (sizes != group.size).fill_null(True)
    if bool(wrong.any()):
        row = int(wrong.arg_max() or 0)
        what = f"has {sizes[row] or 0} answers of '{group.name}'; wanted {group.size}"
        raise bad_row(path, frame[GEOCODE][row], what)
    flat = frame[VALUE].explode(empty_as_null=False)
    # Checked before the cast to numpy, which would turn nulls into NaN and all numbers into floats.
    for wrong, what in (
        (flat.is_null(), f"has something else than a whole number of 64 bits as an answer of '{group.name}'"),
        (
            ~flat.is_between(-LARGEST_VALUE, LARGEST_VALUE),
            f"has an answer of '{group.name}' outside -{LARGEST_VALUE:,} to {LARGEST_VALUE:,}",
        ),
    ):
        if bool(wrong.any()):
            raise bad_row(path, frame[GEOCODE][int(wrong.arg_max() or 0) // group.size], what)
    values: Integers = flat.to_numpy().reshape(-1, group.size)
    return values


def _require_variances(query: _Query, path: Path, geounits: Integers, frame: pl.DataFrame) -> None:
    """Refuse variances that are not those of the geounits' places in the tree."""
    variances = frame[VARIANCE].to_numpy()
    # Either of two numbers may be called the variance (`expected_variances`).
    fits = np.any([is_close(variances, wanted[geounits]) for wanted in query.variances], axis=0)
    if not bool(fits.all()):
        row = int(np.argmin(fits))
        wanted = query.variances[0][geounits[row]]
        raise bad_row(
            path,
            frame[GEOCODE][row],
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


def _fill_zeros(query: _Query, spine: SourceSpine, level: int) -> None:
    """Geounits that have answers of other queries, and of this one zeros alone, which the files leave out."""
    rows = np.flatnonzero(spine.measured[level] & ~query.seen)
    query.seen[rows] = True
    query.rows.append(rows)
    query.values.append(np.zeros((len(rows), query.group.size), dtype=np.int32))
    query.waiting += len(rows) * query.group.size


def _require_all(query: _Query, files: SourceFiles, spine: SourceSpine, level: int) -> None:
    lacking = spine.measured[level] & ~query.seen
    if bool(lacking.any()):
        geolevel = spine.spine.geolevels[level]
        code = spine.spine.geocodes[level][int(np.argmax(lacking))]
        raise SchemaError(
            f"{int(lacking.sum()):,} geounit(s) of {geolevel} in {files.root}, such as {code!a:.60}, have noisy "
            f"answers of other queries and none of '{query.group.name}'. Download the files of {geolevel} again.",
            code="layout-rows",
        )


def require_known_constraints(files: SourceFiles, spine: SourceSpine) -> None:
    """Refuse constraints that the description does not know, and structural zeros that the files contradict.

    Args:
        files: The files.
        spine: Their spine.
    Raises:
        SchemaError: a constraint is unknown, or is not what the schema says.
        StoreError: a file cannot be read.
    """
    form = files.form
    zeros = [item for item in form.constraints if item.zero is not None]
    for geolevel in spine.spine.geolevels:
        frame = files.scan(geolevel, CONSTRAINTS, [NAME, SIGN]).unique()
        known = pl.any_horizontal([pl.lit(False), *(files.states(item) for item in form.constraints)])
        unknown = files.collect(frame.filter(~known), geolevel, CONSTRAINTS).sort(NAME, SIGN)
        if unknown.height and not form.ignores_others:
            name, sign = unknown.row(0)
            named = sorted({str(item.name or item.query) for item in form.constraints})
            raise _bad(
                f"{geolevel} in {files.root} has the constraint {str(name)!a:.80} with the sign {str(sign)!a:.10}, "
                f"which the description '{form.name}' does not have; it has {', '.join(named) or 'none'}. Take the "
                "files of one product as they were published, or say under [[constraints]] what these rows mean."
            )
        for item in zeros:
            rows = files.scan(geolevel, CONSTRAINTS, [NAME, VALUE, SIGN]).filter(files.states(item))
            stated = files.collect(rows.select(VALUE, SIGN).unique(), geolevel, CONSTRAINTS)
            # A geolevel may leave the constraint out. What it states must be one thing: equal to 0.
            if stated.height and stated.rows() not in ([([0], EQUAL)], [(0, EQUAL)]):
                raise _bad(
                    f"the constraint '{item.name or item.zero}' at {geolevel} in {files.root} says something else than "
                    "that a count is 0. Download the files again."
                )


def read_bounds(
    files: SourceFiles, spine: SourceSpine, level: int, query: QueryGroup, rows: Sequence[ConstraintRows]
) -> tuple[Integers, Integers]:
    """Lower and upper bounds on a query's answers in every geounit; an upper bound of 2**32 or more is none.

    Bounds at coarser geolevels are sums of these. Those of the files are not used, only compared: a lower bound above
    the sum shows that geounits are missing.

    Args:
        files: The files.
        spine: Their spine.
        level: Number of the geolevel.
        query: The bounded query.
        rows: What the files state of the lower and of the upper bounds, or of one of them.
    Returns:
        Two arrays of shape (n_geounits, query.size), in the order of the spine.
    Raises:
        SchemaError: a geounit has no bounds or has them twice, or they are no bounds.
        ConstraintError: a lower bound is above an upper one, or bounds at coarser geolevels do not fit.
        StoreError: a file cannot be read.
    """
    lower = np.zeros((spine.spine.n_geounits(level), query.size), dtype=np.int64)
    upper = np.full_like(lower, NO_LIMIT)
    for item in rows:
        if item.sign == AT_LEAST:
            lower = _values(files, spine, level, item, query, 0)
        else:
            upper = _values(files, spine, level, item, query, 0 if item.missing == "zero" else NO_LIMIT)
    # What stands for geounits that the files lack may have anything.
    upper[spine.lacking[level]] = NO_LIMIT
    geolevel = spine.spine.geolevels[level]
    if bool((lower > LARGEST_COUNT).any()):
        raise _bad(
            f"{files.root} gives a geounit of {geolevel} a lower bound on '{query.name}' above {LARGEST_COUNT:,}, more "
            "than any count. Download the files again."
        )
    # Found here, by geounit; the estimator would only say that a family has no solution.
    if bool((lower > upper).any()):
        row = int(np.argmax((lower > upper).any(axis=1)))
        raise ConstraintError(
            f"{files.root} gives {geolevel} {spine.spine.geocodes[level][row]!a:.60} a lower bound on '{query.name}' "
            "above its upper bound. Download the files again.",
            code="bounds-crossed",
        )
    for item in rows:
        for name in item.sums:
            above = spine.spine.geolevels.index(name) if name in spine.spine.geolevels else level
            if above < level and _has_rows(files, name, item) and not files.form.part:
                # A geounit of the files whose finest geounits are missing has more than these add up to.
                stated = _values(files, spine, above, item, query, 0)
                wrong = stated > _sums(lower, spine.spine, above, level)
                _require_whole(files, spine, above, geolevel, wrong)
    # A bound that no count can reach is none.
    upper[upper >= LARGEST_COUNT] = NO_LIMIT
    return lower, upper


def has_exact(files: SourceFiles, geolevel: str, constraint: ConstraintRows) -> bool:
    """Whether the files have the exact counts of a geolevel; raises StoreError."""
    return _has_rows(files, geolevel, constraint)


def read_exact(
    files: SourceFiles, spine: SourceSpine, level: int, query: QueryGroup, constraint: ConstraintRows
) -> Integers:
    """Exact counts of the geounits of a geolevel, from the constraints of the files; shape (n_geounits, query.size).

    Raises:
        SchemaError: a geounit has no count or has it twice, or counts are too large.
        StoreError: a file cannot be read.
    """
    counts = _values(files, spine, level, constraint, query, 0)
    # Numbers first, so that the sum in int64 cannot overflow.
    if bool((counts > LARGEST_COUNT).any()) or int(counts.sum()) > LARGEST_COUNT:
        raise _bad(
            f"the exact counts of {spine.spine.geolevels[level]} in {files.root} have a number above "
            f"{LARGEST_COUNT:,}, or add up to more than that. No population is so large. Download the files again."
        )
    return counts


def require_root_total(
    files: SourceFiles, spine: SourceSpine, query: QueryGroup, constraint: ConstraintRows, counts: Integers
) -> None:
    """Refuse exact counts whose sum is not that of the root, where the files state that.

    Raises:
        ConstraintError: the sum is another number: some are missing or wrong.
        StoreError: a file cannot be read.
    """
    geolevel = spine.spine.geolevels[0]
    # The published files may leave the total of the root out, and a part of a tree has another sum.
    if files.form.part or not _has_rows(files, geolevel, constraint):
        return
    stated = _values(files, spine, 0, constraint, query, 0).sum(axis=0)
    sums = counts.sum(axis=0)
    if bool((stated != sums).any()):
        answer = int(np.argmax(stated != sums))
        raise ConstraintError(
            f"the exact counts of '{query.name}' add up to {int(sums[answer]):,}, and that of {geolevel} in "
            f"{files.root} is {int(stated[answer]):,}. Some geounits are missing in the files or in the table of "
            f"totals, or a count is wrong. Take all geounits below {geolevel}, or remove the files of {geolevel} and "
            "import one part by itself.",
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


def lacking_totals(files: SourceFiles, query: str, geolevel: str) -> ConstraintError:
    """The error for exact counts that the files leave out."""
    what = (
        f"{files.root} does not hold the exact '{query}' of {geolevel}, which by the description "
        f"'{files.form.name}' are published"
    )
    if query != "total":
        return _bad_totals(
            f"{what}. Add their rows to the table of constraints, or leave the entry out of [[constraints]]."
        )
    return _bad_totals(
        f"{what}. Give --totals FILE, a table with the columns geocode and count and a row for each {geolevel}. Totals "
        "of States are public: take those of the published redistricting data, or state_totals.csv in a folder of "
        "`tallyveil measurements export`."
    )


def _has_rows(files: SourceFiles, geolevel: str, constraint: ConstraintRows) -> bool:
    frame = files.scan(geolevel, CONSTRAINTS, [NAME, SIGN]).filter(files.states(constraint)).limit(1)
    return files.collect(frame, geolevel, CONSTRAINTS).height > 0


def _values(
    files: SourceFiles,
    spine: SourceSpine,
    level: int,
    constraint: ConstraintRows,
    query: QueryGroup,
    missing: int,
) -> NDArray[np.int64]:
    """The numbers of one constraint for all geounits of a geolevel."""
    geolevel = spine.spine.geolevels[level]
    name = constraint.name or query.name
    values = np.full((spine.spine.n_geounits(level), query.size), missing, dtype=np.int64)
    # How often each number is there: none and twice are both errors.
    times = np.zeros(values.shape, dtype=np.int32)
    for path, batch in files.rows(geolevel, constraint, query):
        if bool((batch[SIGN] != constraint.sign).fill_null(True).any()):
            raise _bad(
                f"{path}: a row of '{name}' has the sign {batch[SIGN][0]!r} or another one; wanted "
                f"{constraint.sign!r}. Download the file again."
            )
        rows = spine.locate(level, batch[GEOCODE])
        for wrong, what in (
            (rows < 0, f"is of no geounit that has noisy answers or other constraints at {geolevel}"),
            ((batch[VALUE] < 0).to_numpy(), f"has a negative number as '{name}'"),
        ):
            if bool(wrong.any()):
                raise bad_row(path, batch[GEOCODE][int(np.argmax(wrong))], what)
        place = rows, batch["answer"].to_numpy()
        values[place] = batch[VALUE].to_numpy()
        np.add.at(times, place, 1)
    wrong = times > 1
    if constraint.missing == "refused":
        # Nothing is known of what stands for geounits that the files lack.
        wrong |= (times == 0) & ~spine.lacking[level][:, None]
    if bool(wrong.any()):
        of_geounit = wrong.any(axis=1)
        code = spine.spine.geocodes[level][int(np.argmax(of_geounit))]
        raise _bad(
            f"{int(of_geounit.sum()):,} geounit(s) of {geolevel} in {files.root}, such as {code!a:.60}, have the "
            f"constraint '{name}' not once. Download the constraints of {geolevel} again; or, if a row is left out on "
            "purpose, the description says under `missing` what that means."
        )
    return values


def _sums(values: Integers, spine: Spine, above: int, level: int) -> Integers:
    """Sums of the geounits of a geolevel in every geounit of a coarser one."""
    offsets = np.arange(spine.n_geounits(above) + 1, dtype=np.int64)
    for lower in spine.child_offsets[above:level]:
        offsets = lower[offsets]
    summed: Integers = np.add.reduceat(values, offsets[:-1], axis=0)
    return summed


def _require_whole(
    files: SourceFiles, spine: SourceSpine, level: int, finest: str, wrong: NDArray[np.bool_]
) -> None:
    if bool(wrong.any()):
        geounit = int(np.argmax(wrong.any(axis=1)))
        raise ConstraintError(
            f"the bounds of {spine.spine.geolevels[level]} {spine.spine.geocodes[level][geounit]!a:.60} in "
            f"{files.root} are above the sums of those of its geounits of {finest}. Geounits of {finest} are missing. "
            "Add their files; counts estimated without them would be wrong.",
            code="layout-totals",
        )


def _bad(what: str) -> SchemaError:
    return SchemaError(what, code="layout-rows")


def _bad_totals(what: str) -> ConstraintError:
    return ConstraintError(what, code="layout-totals")
