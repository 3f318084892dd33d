"""Invariants: exact statistics that a release declares and publishes unchanged."""

from collections.abc import Iterator

import numpy as np

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.errors import ConstraintError
from tallyveil.schema.counts import ENTRIES_AT_ONCE, row_ranges, widen_limits
from tallyveil.schema.query_group import QueryGroup


def invariant_values(
    histogram: ConfidentialHistogram, query: QueryGroup, groups: Integers | None = None
) -> Integers:
    """True answers of an invariant query, shape (n_geounits, query.size); or their sums over groups of geounits.

    Args:
        histogram: True counts of the geolevel that has the geounits. Confidential.
        query: The invariant query.
        groups: Group of each geounit, where only sums over groups are invariant; None where each geounit is.
    Privacy: these values leave the wall without noise. The ledger names them, and the guarantee holds only between
    populations that have the same values.
    """
    if groups is not None:
        return _group_sums(histogram, query, groups)
    values = np.zeros((histogram.n_geounits, query.size), dtype=np.int64)
    for start, stop in _pieces(histogram, query):
        values[start:stop] = histogram.answers(query, start, stop)
    return values


def _group_sums(histogram: ConfidentialHistogram, query: QueryGroup, groups: Integers) -> Integers:
    """True answers summed over groups of geounits."""
    sums = np.zeros((int(groups.max()) + 1, query.size), dtype=np.int64)
    for start, stop in _pieces(histogram, query):
        # add.at and not a fancy-indexed `+=`, which would count only one geounit of a group that occurs twice.
        np.add.at(sums, groups[start:stop], histogram.answers(query, start, stop))
    return sums


def check_bounds(
    histogram: ConfidentialHistogram,
    query: QueryGroup,
    lower: NarrowArray,
    upper: NarrowArray,
    name: str,
    groups: Integers | None = None,
) -> None:
    """Refuse public bounds that the records violate.

    Args:
        histogram: True counts of the bounds' geolevel. Confidential.
        query: The bounded query.
        lower, upper: Bounds, shape (n_geounits, query.size); int64, or compact (`narrow_limits`).
        name: Name of the bounds, for the message.
        groups: Row of bounds of each geounit, where they are on sums over groups of geounits.
    Raises:
        ConstraintError: some answer lies outside. The message names the bounds, but not the place or the amount.
    Privacy: reveals one bit, pass or fail, about a table whose owner asserts that it holds.
    """
    broken = False
    if groups is None:
        for start, stop in _pieces(histogram, query):  # all pieces, so that time reveals nothing
            answers = histogram.answers(query, start, stop)
            low, high = widen_limits(lower[start:stop]), widen_limits(upper[start:stop])
            broken |= bool((answers < low).any() or (answers > high).any())
    else:
        sums = _group_sums(histogram, query, groups)
        # Exact in int64: all counts of a release together are at most 2**32 (`LARGEST_COUNT`).
        broken = bool((sums < widen_limits(lower)).any() or (sums > widen_limits(upper)).any())
    if broken:
        raise ConstraintError(
            f"the records break the bounds '{name}' on query '{query.name}' at some {histogram.geolevel}. "
            "Correct the bounds table or the records (a join of the two files shows where) before the release.",
            code="bounds-broken",
        )


def _pieces(histogram: ConfidentialHistogram, query: QueryGroup) -> Iterator[tuple[int, int]]:
    """Ranges of geounits whose answers fit into memory together."""
    # About ENTRIES_AT_ONCE dense answers at a time, whatever the width of the query; at least one geounit.
    return row_ranges(histogram.offsets, ENTRIES_AT_ONCE // query.size + 1)
