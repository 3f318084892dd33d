"""Sparse true counts of one geolevel. Confidential: never printed, never passed through the wall."""

import hashlib
from dataclasses import dataclass
from typing import Final

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import ENTRIES_AT_ONCE, sum_families, triplets_of
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
