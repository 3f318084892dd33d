"""Sparse counts in compressed rows: the layout shared by public and confidential histograms."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


def sum_triplets(
    rows: Int64Array, cells: Int64Array, counts: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sorted (row, cell, count) triplets with equal places added up; sums of zero are dropped."""
    order = np.lexsort((cells, rows))
    rows, cells, counts = rows[order], cells[order], counts[order]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (cells[1:] != cells[:-1])
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(counts, starts) if len(starts) else counts
    kept = sums != 0
    return rows[starts][kept], cells[starts][kept], sums[kept]


def compress_rows(
    n_rows: int, rows: Int64Array, cells: Int64Array, counts: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sum (row, cell, count) triplets into compressed rows; zero sums are dropped.

    Returns:
        Read-only `offsets` (n_rows + 1,), `cells` and `counts` (n_entries,): the entries of row r are
        `offsets[r]:offsets[r + 1]`, cells ascending.
    """
    rows, cells, sums = sum_triplets(rows, cells, counts)
    offsets = np.searchsorted(rows, np.arange(n_rows + 1)).astype(np.int64)
    arrays = offsets, cells.astype(np.int64, copy=False), sums.astype(np.int64, copy=False)
    for array in arrays:
        array.setflags(write=False)
    return arrays


@dataclass(frozen=True, slots=True, eq=False)
class PublicCounts:
    """Counts of one geolevel that may be seen: estimates, or declassified truth.

    Attributes:
        geolevel: Name of the geolevel.
        offsets: Entries of geounit g are `offsets[g]:offsets[g + 1]`; shape (n_geounits + 1,).
        cells: Cell numbers of the schema, ascending within a geounit; shape (n_entries,).
        counts: Persons; shape (n_entries,).
    """

    geolevel: str
    offsets: Int64Array
    cells: Int64Array
    counts: Int64Array

    @property
    def n_geounits(self) -> int:
        """Number of geounits, also the empty ones."""
        return len(self.offsets) - 1

    @property
    def geounits(self) -> Int64Array:
        """Row of every entry, shape (n_entries,)."""
        return np.repeat(np.arange(self.n_geounits), np.diff(self.offsets))

    def entries(self, geounit: int) -> tuple[Int64Array, Int64Array]:
        """Cells and counts of one geounit."""
        begin, end = int(self.offsets[geounit]), int(self.offsets[geounit + 1])
        return self.cells[begin:end], self.counts[begin:end]

    def slice(self, start: int, stop: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Offsets from 0, cells and counts of geounits start..stop; writable copies, as kernels want them."""
        offsets = np.array(self.offsets[start : stop + 1], dtype=np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        cells = np.array(self.cells[begin:end], dtype=np.int64)
        return offsets - begin, cells, np.array(self.counts[begin:end], dtype=np.int64)

    def rows(self, start: int, stop: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Triplets (row counted from `start`, cell, count) of geounits start..stop."""
        begin, end = int(self.offsets[start]), int(self.offsets[stop])
        rows = np.repeat(np.arange(stop - start), np.diff(self.offsets[start : stop + 1]))
        return rows, self.cells[begin:end], self.counts[begin:end]
