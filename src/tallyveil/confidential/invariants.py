"""Invariants: exact statistics that a release publishes unchanged, by declaration."""

from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.errors import ConstraintError
from tallyveil.universe.counts import Int64Array
from tallyveil.universe.query_group import QueryGroup


def invariant_values(histogram: ConfidentialHistogram, query: QueryGroup) -> Int64Array:
    """True answers of an invariant query, shape (n_geounits, query.size).

    Privacy: these leave the wall without noise. The ledger names them, and the guarantee holds only between
    populations that agree on them.
    """
    return histogram.answers(query, 0, histogram.n_geounits)


def check_bounds(
    histogram: ConfidentialHistogram, query: QueryGroup, lower: Int64Array, upper: Int64Array, name: str
) -> None:
    """Refuse public bounds that the records themselves break.

    Args:
        histogram: True counts of the bounds' geolevel. Confidential.
        query: The bounded query.
        lower, upper: Bounds, shape (n_geounits, query.size).
        name: Name of the bounds, for the message.
    Raises:
        ConstraintError: some answer lies outside; says which bounds, not where nor by how much.
    Privacy: one bit, pass or fail, of a table whose owner asserts that it holds.
    """
    answers = histogram.answers(query, 0, histogram.n_geounits)
    if bool((answers < lower).any() or (answers > upper).any()):
        raise ConstraintError(
            f"the records break the bounds '{name}' on query '{query.name}' at some {histogram.geolevel}. "
            "Correct the bounds table or the records (a join of the two files shows where) before the release.",
            code="bounds-broken",
        )
