"""Sparse true counts of one geolevel, and exact answers from them. Confidential: never printed.

They never pass through the wall. Invariants are exact statistics that a release declares and publishes
unchanged. Other queries get noise in the lattice of the invariants before they leave.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import ConstraintError
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import ENTRIES_AT_ONCE, row_ranges, sum_families, triplets_of, widen_limits
from tallyveil.schema.query_group import QueryGroup

REDACTED: Final = "<redacted>"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConfidentialHistogram:
    """True counts of one geolevel in compressed rows.

    Attributes:
        geolevel: Name of the geolevel.
        offsets: The cells of geounit g are `cells[offsets[g]:offsets[g + 1]]`; shape (n_geounits + 1,).
        cells: Cell numbers of the schema, ascending within a geounit; int32 or int64, shape (n_entries,).
        counts: Numbers of records, at least 1; int32 or int64, shape (n_entries,).
    """

    geolevel: str
    offsets: Integers
    cells: NarrowArray
    counts: NarrowArray

    def __repr__(self) -> str:
        return f"ConfidentialHistogram(geolevel={self.geolevel!r}, counts={REDACTED})"

    @property
    def n_geounits(self) -> int:
        """Number of geounits, including empty ones."""
        return len(self.offsets) - 1

    @property
    def total(self) -> int:
        """Number of records in all geounits. Confidential."""
        return int(self.counts.sum(dtype="int64"))

    def rows(self, start: int, stop: int) -> tuple[Integers, Integers, Integers]:
        """Triplets (row counted from `start`, cell, count) of geounits start to stop - 1, int64."""
        return triplets_of(self.offsets, self.cells, self.counts, start, stop)

    def answers(self, query: QueryGroup, start: int, stop: int) -> Integers:
        """True answers of a query for geounits start to stop - 1, shape (stop - start, query.size)."""
        rows, cells, counts = self.rows(start, stop)
        return query.apply(rows, cells, counts, stop - start)

    def digest(self) -> bytes:
        """SHA-256 of the counts. Any change of a record's cell or geounit changes it; the integer type does not."""
        digest = hashlib.sha256(self.geolevel.encode("utf-8"))
        for array in (self.offsets, self.cells, self.counts):
            # The length goes first, so that no two different triples of arrays give the same bytes.
            digest.update(len(array).to_bytes(8, "little"))
            # Widened piece by piece: the digest is the same for int32 and int64, and no whole int64 copy is ever
            # held.
            for start in range(0, len(array), ENTRIES_AT_ONCE):
                digest.update(array[start : start + ENTRIES_AT_ONCE].astype("<i8").tobytes())
        return digest.digest()


def aggregate(histogram: ConfidentialHistogram, spine: Spine, n_cells: int) -> ConfidentialHistogram:
    """Counts of the next coarser geolevel: the sum over the children of each geounit.

    Args:
        histogram: Counts of a geolevel below the root.
        spine: The hierarchy.
        n_cells: Number of cells of the schema.
    """
    above = spine.level_index(histogram.geolevel) - 1
    children = histogram.offsets, histogram.cells, histogram.counts
    return ConfidentialHistogram(
        spine.geolevels[above], *sum_families(*children, spine.child_offsets[above], n_cells)
    )


def aggregate_all(finest: ConfidentialHistogram, spine: Spine) -> tuple[ConfidentialHistogram, ...]:
    """Counts of every geolevel, root first."""
    # No cell number above the largest occurs, so this narrower bound stands for the size of the schema in the sums.
    n_cells = int(finest.cells.max(initial=0)) + 1
    levels = [finest]
    # Each geolevel is summed from the one below it, not from the finest: its entries are fewer.
    for _ in range(spine.finest):
        levels.append(aggregate(levels[-1], spine, n_cells))
    return tuple(reversed(levels))


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


def noisy_answers(histogram: ConfidentialHistogram, query: QueryGroup, noise: Integers) -> Integers:
    """Answers of a query at every geounit, with integer-subspace noise added.

    Args:
        histogram: True counts of the geolevel. Confidential.
        query: A partition query.
        noise: int64 [n_geounits, query.size], in the lattice of the invariants; zero in impossible cells.
    Returns:
        int64 [n_geounits, query.size], possibly negative.
    Privacy: that of the mechanism's event, between populations with the same invariants.
    """
    values = invariant_values(histogram, query)
    # The sum keeps the invariants, because the noise is zero on every one of them.
    np.add(values, noise, out=values)
    values.setflags(write=False)
    return values
