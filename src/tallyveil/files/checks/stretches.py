"""Checks of the counts of some consecutive geounits of a geolevel: a whole geolevel, or what fits into memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.files.checks.promises import (
    NOT_NEGATIVE,
    POSSIBLE,
    Agreeing,
    Bounded,
    Promises,
    require,
)
from tallyveil.files.tables import table_rows
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import (
    ENTRIES_AT_ONCE,
    PublicCounts,
    row_ranges,
    sum_families,
    sum_triplets,
)
from tallyveil.schema.limits import widen_limits
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Counts of consecutive geounits of a geolevel.

    Attributes:
        level: Number of the geolevel.
        first: The first geounit.
        counts: Counts of it and those that follow; row r is geounit `first + r`.
    """

    level: int
    first: int
    counts: PublicCounts


def check_counts(promises: Promises, one: Stretch) -> None:
    """Hold counts to the promises that concern each geounit by itself; raises SolverError."""
    counts = one.counts
    require(NOT_NEGATIVE, bool((counts.counts >= 0).all()))
    require(POSSIBLE, _are_possible(counts, promises.schema))
    for bounded in promises.bounded:
        if bounded.holds_by_geounit(one.level):
            require(bounded.name_of_check(promises.spine), _within(one, bounded))
    for agreement in promises.agreed:
        require(agreement.name_of_check, _agrees(one, agreement))


def check_sums(promises: Promises, above: Stretch, below: Stretch) -> None:
    """Hold geounits to the sums of all their children; raises SolverError.

    Args:
        promises: What the release keeps.
        above: Some geounits.
        below: All their children, and nothing else.
    """
    last = above.first + above.counts.n_geounits
    offsets = promises.spine.child_offsets[above.level][above.first : last + 1] - below.first
    counts = below.counts
    summed = sum_families(counts.offsets, counts.cells, counts.counts, offsets, promises.schema.size)
    require(promises.name_of_sums(below.level), _equal(above.counts, PublicCounts("", *summed)))


def check_grouped(promises: Promises, bounded: Bounded, counts: PublicCounts) -> None:
    """Hold sums of geounits of a whole geolevel, the last one of a constraint with groups, to its bounds.

    Raises:
        SolverError: they are not within them.
    """
    groups, lower, upper = bounded.groups, bounded.lower[-1], bounded.upper[-1]
    sums = np.zeros((len(lower), bounded.query.size), dtype=np.int64)
    for start, stop in _ranges(counts, bounded.query):
        answers = bounded.query.apply(*counts.rows(start, stop), stop - start)
        if groups is not None:
            np.add.at(sums, groups[start:stop], answers)
    require(bounded.name_of_check(promises.spine), _between(sums, lower, upper))


def table_part_agrees(
    frame: pl.DataFrame,
    counts: PublicCounts,
    group: QueryGroup,
    codes: pl.Series,
    rows: tuple[int, int],
    *,
    zeros: bool,
) -> bool:
    """Whether a part of a table is that of some rows of counts, in order.

    Args:
        frame: The part, with the columns geocode, answer and count.
        counts: The counts.
        group: The query.
        codes: The geocode of every row of the counts.
        rows: The first row, and the first one that does not belong to the part.
        zeros: Whether the table holds counts of zero.
    """
    start, stop = rows
    found, answers, persons = table_rows(counts, group, start, stop, zeros=zeros)
    if frame.height != len(found) or sum(frame.null_count().row(0)):
        return False
    return (
        np.array_equal(frame["count"].to_numpy(), persons)
        and np.array_equal(frame["answer"].to_numpy(), answers)
        and bool((frame["geocode"] == codes.gather(start + found)).all())
    )


def codes_of(spine: Spine, one: Stretch) -> pl.Series:
    """The geocode of every row of a stretch."""
    return spine.geocodes[one.level].text[one.first : one.first + one.counts.n_geounits]


def _are_possible(counts: PublicCounts, schema: Schema) -> bool:
    pieces = range(0, len(counts.cells), ENTRIES_AT_ONCE)
    return all(bool(schema.possible(counts.cells[at : at + ENTRIES_AT_ONCE]).all()) for at in pieces)


def _equal(one: PublicCounts, other: PublicCounts) -> bool:
    return (
        np.array_equal(one.offsets, other.offsets)
        and np.array_equal(one.cells, other.cells)
        and np.array_equal(one.counts, other.counts)
    )


def _ranges(counts: PublicCounts, query: QueryGroup) -> list[tuple[int, int]]:
    """Ranges of rows whose answers are in memory together."""
    return list(row_ranges(counts.offsets, ENTRIES_AT_ONCE // query.size + 1))


def _within(one: Stretch, bounded: Bounded) -> bool:
    """Whether each geounit keeps a constraint."""
    query, counts = bounded.query, one.counts
    for start, stop in _ranges(counts, query):
        answers = query.apply(*counts.rows(start, stop), stop - start)
        own = slice(one.first + start, one.first + stop)
        if not _between(answers, bounded.lower[one.level][own], bounded.upper[one.level][own]):
            return False
    return True


def _agrees(one: Stretch, agreement: Agreeing) -> bool:
    """Whether the answers of counts are those of another release."""
    theirs = agreement.counts[one.level]
    for start, stop in row_ranges(one.counts.offsets):
        ours = _answered(one.counts, agreement.query, start, stop)
        kept = _answered(theirs, agreement.query, one.first + start, one.first + stop)
        if not all(np.array_equal(a, b) for a, b in zip(ours, kept, strict=True)):
            return False
    return True


def _answered(
    counts: PublicCounts, query: QueryGroup, start: int, stop: int
) -> tuple[Integers, Integers, Integers]:
    """Triplets of row, answer and count of some rows, without the cells that a query leaves out."""
    rows, cells, persons = counts.rows(start, stop)
    answers = query.answers_of(cells)
    inside = answers >= 0
    return sum_triplets(rows[inside], answers[inside], persons[inside])


def _between(answers: Integers, lower: NDArray[Any], upper: NDArray[Any]) -> bool:
    return bool(((answers >= widen_limits(lower)) & (answers <= widen_limits(upper))).all())
