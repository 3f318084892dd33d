"""Sparse true counts of one geolevel. Confidential: never printed, never handed through the wall."""

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.geography.spine import Spine
from tallyveil.universe.counts import Int64Array, compress_rows
from tallyveil.universe.query_group import QueryGroup

REDACTED: Final = "<redacted>"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConfidentialHistogram:
    """True counts of one geolevel in compressed rows.

    Attributes:
        geolevel: Name of the geolevel.
        offsets: Cells of geounit g are `cells[offsets[g]:offsets[g + 1]]`; shape (n_geounits + 1,).
        cells: Cell numbers of the schema, ascending within a geounit; shape (n_entries,).
        counts: Persons, at least 1; shape (n_entries,).
    """

    geolevel: str
    offsets: Int64Array
    cells: Int64Array
    counts: Int64Array

    def __repr__(self) -> str:
        return f"ConfidentialHistogram(geolevel={self.geolevel!r}, counts={REDACTED})"

    @property
    def n_geounits(self) -> int:
        """Number of geounits, also the empty ones."""
        return len(self.offsets) - 1

    def rows(self, start: int, stop: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Triplets (row counted from `start`, cell, count) of geounits start..stop."""
        begin, end = int(self.offsets[start]), int(self.offsets[stop])
        rows = np.repeat(np.arange(stop - start), np.diff(self.offsets[start : stop + 1]))
        return rows, self.cells[begin:end], self.counts[begin:end]

    def answers(self, query: QueryGroup, start: int, stop: int) -> Int64Array:
        """True answers of a query for geounits start..stop, shape (stop - start, query.size)."""
        rows, cells, counts = self.rows(start, stop)
        return query.apply(rows, cells, counts, stop - start)

    def digest(self) -> bytes:
        """SHA-256 of the counts; one record more, less or other gives another digest."""
        digest = hashlib.sha256(self.geolevel.encode("utf-8"))
        for array in (self.offsets, self.cells, self.counts):
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return digest.digest()


def histogram_from_triplets(
    geolevel: str, n_geounits: int, rows: Int64Array, cells: Int64Array, counts: Int64Array
) -> ConfidentialHistogram:
    """Sort and sum (geounit, cell, count) triplets; zero counts are dropped."""
    return ConfidentialHistogram(geolevel, *compress_rows(n_geounits, rows, cells, counts))


def aggregate(histogram: ConfidentialHistogram, spine: Spine) -> ConfidentialHistogram:
    """Counts of the next coarser geolevel: the sum over the children of each geounit."""
    level = spine.level_index(histogram.geolevel)
    rows = np.repeat(np.arange(histogram.n_geounits), np.diff(histogram.offsets))
    parents = spine.parents(level)
    above = level - 1
    return histogram_from_triplets(
        spine.geolevels[above],
        spine.n_geounits(above),
        parents[rows],
        histogram.cells,
        histogram.counts,
    )


def aggregate_all(finest: ConfidentialHistogram, spine: Spine) -> tuple[ConfidentialHistogram, ...]:
    """Counts of every geolevel, root first."""
    levels = [finest]
    for _ in range(spine.finest):
        levels.append(aggregate(levels[-1], spine))
    return tuple(reversed(levels))
