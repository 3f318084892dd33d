"""Invariants: exact statistics that a release declares and publishes unchanged."""

from collections.abc import Iterator

import numpy as np

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.errors import ConstraintError
from tallyveil.universe.counts import ENTRIES_AT_ONCE, row_ranges
from tallyveil.universe.limits import widen_limits
from tallyveil.universe.query_group import QueryGroup


def invariant_values(histogram: ConfidentialHistogram, query: QueryGroup) -> Integers:
    """True answers of an invariant query, shape (n_geounits, query.size).

    Privacy: these values leave the wall without noise. The ledger names them, and the guarantee holds only between
    populations that have the same values.
    """
    values = np.zeros((histogram.n_geounits, query.size), dtype=np.int64)
    for start, stop in _pieces(histogram, query):
        values[start:stop] = histogram.answers(query, start, stop)
    return values


def check_bounds(
    histogram: ConfidentialHistogram, query: QueryGroup, lower: NarrowArray, upper: NarrowArray, name: str
) -> None:
    """Refuse public bounds that the records violate.

    Args:
        histogram: True counts of the bounds' geolevel. Confidential.
        query: The bounded query.
        lower, upper: Bounds, shape (n_geounits, query.size); int64, or compact (`narrow_limits`).
        name: Name of the bounds, for the message.
    Raises:
        ConstraintError: some answer lies outside. The message names the bounds, but not the place or the amount.
    Privacy: reveals one bit, pass or fail, about a table whose owner asserts that it holds.
    """
    broken = False
    for start, stop in _pieces(histogram, query):  # all pieces, so that time reveals nothing
        answers = histogram.answers(query, start, stop)
        low, high = widen_limits(lower[start:stop]), widen_limits(upper[start:stop])
        broken |= bool((answers < low).any() or (answers > high).any())
    if broken:
        raise ConstraintError(
            f"the records break the bounds '{name}' on query '{query.name}' at some {histogram.geolevel}. "
            "Correct the bounds table or the records (a join of the two files shows where) before the release.",
            code="bounds-broken",
        )


def _pieces(histogram: ConfidentialHistogram, query: QueryGroup) -> Iterator[tuple[int, int]]:
    """Ranges of geounits whose answers fit into memory together."""
    return row_ranges(histogram.offsets, ENTRIES_AT_ONCE // query.size + 1)
