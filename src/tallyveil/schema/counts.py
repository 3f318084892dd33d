"""Sparse counts in compressed rows, for public and confidential histograms, and bounds on counts.

Offsets are int64. Cells and counts are int32 if all their values fit, and int64 otherwise, because a country
has tens of millions of entries. Everything that is returned entry by entry (`rows`, `entries`) is int64, and
so is every sum.

Lower and upper bounds on eight answers of eight million blocks would take a gigabyte as int64. Arrays of
bounds are therefore compact, too: in int32, the largest int32 means "no upper bound". Code that computes with
bounds first widens the rows that it needs (`widen_limits`). The widened arrays use 2**62 for "no upper
bound", as everywhere else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import IntegerRows, Integers, NarrowArray

LARGEST_INT32: Final = 2**31 - 1
"""Largest count or cell that is held in four bytes; above it a whole array takes eight."""
LARGEST_INT64: Final = 2**63 - 1
"""Largest number that a row and a cell may make together when they are sorted as one."""
ENTRIES_AT_ONCE: Final = 1 << 21
"""Number of entries that a computation on a whole geolevel takes at a time."""
ENTRIES_PENDING: Final = 1 << 25
"""Number of unmerged entries above which `TripletSum` merges what it holds."""


def narrow(values: NDArray[Any]) -> NarrowArray:
    """The same integers, read-only, as int32 if all of them fit, otherwise as int64."""
    # The smallest int32 is left out, so that every narrow value can be negated without overflow.
    fits = values.size == 0 or (int(values.max()) <= LARGEST_INT32 and int(values.min()) >= -LARGEST_INT32)
    array: NarrowArray = values.astype(np.int32, copy=False) if fits else values.astype(np.int64, copy=False)
    array.setflags(write=False)
    return array


def row_ranges(offsets: Integers, entries: int = ENTRIES_AT_ONCE) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows, each with at most about `entries` entries and rows, and at least one row.

    Args:
        offsets: The entries of row r are `offsets[r]:offsets[r + 1]`; shape (n_rows + 1,).
        entries: Largest number of entries, and of rows, in a range. A row with more entries is a range by itself.
    Yields:
        Start and stop of each range; together they cover 0 to n_rows without a gap.
    """
    n_rows = len(offsets) - 1
    start = 0
    while start < n_rows:
        # The last row whose end is within the limit; a row above the limit by itself is taken alone.
        stop = int(np.searchsorted(offsets, offsets[start] + entries, side="right")) - 1
        # Also at most `entries` rows: empty rows have no entries, and arrays by row would grow without a limit.
        stop = min(max(stop, start + 1), start + entries, n_rows)
        yield start, stop
        start = stop


class TripletSum:
    """Adds up (row, cell, count) triplets that arrive in pieces. The result has every (row, cell) pair once.

    Pieces may arrive in any order. If they arrive in increasing order of rows, as from a sorted file, no piece is
    sorted again; the first row of a piece may continue the last row of the piece before.
    """

    def __init__(self, n_rows: int, n_cells: int) -> None:
        self._n_rows = n_rows
        self._n_cells = n_cells
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NarrowArray]] = []
        self._last = (-1, -1)
        self._ordered = True
        self._pending = 0
        self._limit = ENTRIES_PENDING

    def add(self, rows: NDArray[Any], cells: NDArray[Any], counts: NDArray[Any]) -> None:
        """Add triplets: rows in [0, n_rows), cells in [0, n_cells), integer counts. Pairs may be repeated."""
        if self._ordered and self._parts and len(rows) and int(rows.min()) == self._last[0]:
            begun = self._without_last_row(len(rows))
            rows, cells, counts = (
                np.concatenate(pair) for pair in zip(begun, (rows, cells, counts), strict=True)
            )
        rows, cells, sums = sum_triplets(rows, cells, counts, self._n_cells)
        if len(rows) == 0:
            return
        # The order must be strict, because a pair that two pieces share needs to be added up.
        self._ordered &= (int(rows[0]), int(cells[0])) > self._last
        self._last = max(self._last, (int(rows[-1]), int(cells[-1])))
        self._parts.append((narrow(rows), narrow(cells), narrow(sums)))
        self._pending += len(rows)
        # In order, pieces never need a merge and are only joined at the end; otherwise repeated pairs would pile up.
        if not self._ordered and self._pending > self._limit:
            self._merge()
            # What is left after a merge does not shrink again, so that the limit moves up with it: merging stays
            # linear.
            self._limit = self._pending + ENTRIES_PENDING

    def finish(self) -> tuple[Integers, NarrowArray, NarrowArray]:
        """Read-only `offsets` (n_rows + 1,), `cells` and `counts` (n_entries,); cells increase within a row."""
        self._merge()
        lengths = np.zeros(self._n_rows + 1, dtype=np.int64)
        for rows, _, _ in self._parts:
            # add.at, because a row can occur many times; fancy indexing would count it once.
            np.add.at(lengths, rows.astype(np.int64) + 1, 1)
        offsets = np.cumsum(lengths)
        offsets.setflags(write=False)
        cells = narrow(_joined([part[1] for part in self._parts]))
        counts = narrow(_joined([part[2] for part in self._parts]))
        self._parts = []
        return offsets, cells, counts

    def _without_last_row(self, most: int) -> tuple[NDArray[Any], ...]:
        """Take the entries of the last row out of the last piece and return them, unless there are more than `most`."""
        last = self._parts[-1]
        begin = int(np.searchsorted(last[0], self._last[0]))
        # A long row is left for the merge at the end: sorting it again with every piece would cost more.
        if len(last[0]) - begin > most:
            begin = len(last[0])
        else:
            self._last = (self._last[0], -1)
        self._pending -= len(last[0]) - begin
        self._parts[-1] = (last[0][:begin], last[1][:begin], last[2][:begin])
        return tuple(column[begin:] for column in last)

    def _merge(self) -> None:
        if self._ordered:
            return
        rows, cells, counts = (_joined([part[index] for part in self._parts]) for index in range(3))
        # Let go of the pieces before the sum is made, so that both are not in memory at once.
        self._parts = []
        rows, cells, counts = sum_triplets(rows, cells, counts, self._n_cells)
        self._parts = [(narrow(rows), narrow(cells), narrow(counts))]
        self._pending = len(rows)
        self._ordered = True


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def distinct(numbers: NDArray[Any]) -> Integers:
    """Each number once, ascending; int64, shape (n,). `numpy.unique` takes many times longer where few are repeated."""
    ordered = np.sort(numbers).astype(np.int64, copy=False)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def places_in(listed: NDArray[Any], values: NDArray[Any]) -> tuple[Integers, NDArray[np.bool_]]:
    """The place of each value in an ascending list, and whether the list has it; other places mean nothing."""
    place = np.minimum(np.searchsorted(listed, values), max(len(listed) - 1, 0))
    if not len(listed):
        return place, np.zeros(len(values), dtype=np.bool_)
    return place, listed[place] == values


def entries_of_rows(offsets: Integers, rows: Integers) -> Integers:
    """The numbers of the entries of some rows, one row after another: those of row r begin at `offsets[r]`; int64."""
    lengths = offsets[rows + 1] - offsets[rows]
    # The start of each entry's row, plus its place in the row.
    begins = np.cumsum(lengths) - lengths
    entries: Integers = np.arange(int(lengths.sum())) + np.repeat(offsets[rows] - begins, lengths)
    return entries


def sums_between(offsets: Integers, values: NDArray[Any]) -> Integers:
    """Sums of consecutive rows of integers: sum i is of the rows `offsets[i]:offsets[i + 1]`; int64."""
    # Running sums in int64, from which each sum is one difference: rows of any length cost the same, and all is exact.
    below = np.zeros((len(values) + 1, *values.shape[1:]), dtype=np.int64)
    np.cumsum(values, axis=0, out=below[1:])
    sums: Integers = below[offsets[1:]] - below[offsets[:-1]]
    return sums


def sum_triplets(
    rows: NDArray[Any], cells: NDArray[Any], counts: NDArray[Any], n_cells: int | None = None
) -> tuple[Integers, Integers, Integers]:
    """Sorted (row, cell, count) triplets in int64, with the counts of equal pairs added up. Zero sums are dropped.

    Args:
        rows, cells: Non-negative integers.
        counts: Integers of either sign.
        n_cells: A number above every cell, if it is known.
    """
    if len(rows) == 0:
        return tuple(np.empty(0, dtype=np.int64) for _ in range(3))  # type: ignore[return-value]
    width = n_cells if n_cells is not None else int(cells.max()) + 1
    # Row and cell in one number sort fastest. Where that could overflow, both are sorted as two keys.
    if (int(rows.max()) + 1) * width > LARGEST_INT64:
        order = np.lexsort((cells, rows))
        rows, cells, counts = rows[order].astype(np.int64), cells[order].astype(np.int64), counts[order]
        changes = (rows[1:] != rows[:-1]) | (cells[1:] != cells[:-1])
        starts, sums = _runs(changes, counts)
        return rows[starts], cells[starts], sums
    # Triplets of a sorted file are in order already, and a test costs less than a sort.
    places = rows.astype(np.int64) * width + cells
    if bool((places[1:] < places[:-1]).any()):
        order = np.argsort(places)
        places, counts = places[order], counts[order]
    starts, sums = _runs(places[1:] != places[:-1], counts)
    return (*np.divmod(places[starts], width), sums)


def _runs(changes: NDArray[np.bool_], counts: NDArray[Any]) -> tuple[Integers, Integers]:
    """Start and sum of every run of equal pairs whose sum is not zero."""
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
    # reduceat in int64: counts may be int32, whose sum would wrap around silently.
    sums = np.add.reduceat(counts, starts, dtype=np.int64)
    nonzero = sums != 0
    return starts[nonzero], sums[nonzero]


def compress_rows(
    n_rows: int, rows: NDArray[Any], cells: NDArray[Any], counts: NDArray[Any]
) -> tuple[Integers, NarrowArray, NarrowArray]:
    """Sum (row, cell, count) triplets into compressed rows. Zero sums are dropped.

    Returns:
        Read-only `offsets` (n_rows + 1,), `cells` and `counts` (n_entries,). The entries of row r are
        `offsets[r]:offsets[r + 1]`, with cells ascending.
    """
    total = TripletSum(n_rows, int(cells.max()) + 1 if len(cells) else 1)
    total.add(rows, cells, counts)
    return total.finish()


def sum_families(
    offsets: Integers, cells: NarrowArray, counts: NarrowArray, child_offsets: Integers, n_cells: int
) -> tuple[Integers, NarrowArray, NarrowArray]:
    """Compressed rows of the parents: for each parent, the sum over its children. It works on some families at a time.

    Args:
        offsets, cells, counts: Compressed rows of the children.
        child_offsets: The children of parent p are rows `child_offsets[p]:child_offsets[p + 1]`.
        n_cells: Number of cells of the schema.
    """
    total = TripletSum(len(child_offsets) - 1, n_cells)
    # Ranges of parents by the entries of all their children, because these are what is held at a time.
    for start, stop in row_ranges(offsets[child_offsets]):
        begin, end = offsets[child_offsets[start]], offsets[child_offsets[stop]]
        lengths = np.diff(offsets[child_offsets[start : stop + 1]])
        total.add(np.repeat(np.arange(start, stop), lengths), cells[begin:end], counts[begin:end])
    return total.finish()


def sum_members(
    offsets: Integers,
    cells: NarrowArray,
    counts: NarrowArray,
    area_offsets: Integers,
    members: Integers,
    n_cells: int,
) -> tuple[Integers, NarrowArray, NarrowArray]:
    """Compressed rows of areas: for each area, the sum over its members. It works on some areas at a time.

    Args:
        offsets, cells, counts: Compressed rows of the possible members.
        area_offsets: The members of area a are `members[area_offsets[a]:area_offsets[a + 1]]`.
        members: Rows of the members. A row may be in several areas.
        n_cells: Number of cells of the schema.
    """
    total = TripletSum(len(area_offsets) - 1, n_cells)
    # An eighth, because ranges are measured in members here, and a member has several entries.
    for start, stop in row_ranges(area_offsets, ENTRIES_AT_ONCE // 8):
        rows = members[area_offsets[start] : area_offsets[stop]]
        owner = np.repeat(np.arange(start, stop), np.diff(area_offsets[start : stop + 1]))
        entries = entries_of_rows(offsets, rows)
        total.add(np.repeat(owner, offsets[rows + 1] - offsets[rows]), cells[entries], counts[entries])
    return total.finish()


@dataclass(frozen=True, slots=True, eq=False)
class PublicCounts:
    """Counts of one geolevel that are public: estimates, or declassified true counts.

    Attributes:
        geolevel: Name of the geolevel.
        offsets: The entries of geounit g are `offsets[g]:offsets[g + 1]`; int64, shape (n_geounits + 1,).
        cells: Cell numbers of the schema, ascending within a geounit; int32 or int64, shape (n_entries,).
        counts: Numbers of records; int32 or int64, shape (n_entries,).
    """

    geolevel: str
    offsets: Integers
    cells: NarrowArray
    counts: NarrowArray

    @property
    def n_geounits(self) -> int:
        """Number of geounits, including empty ones."""
        return len(self.offsets) - 1

    @property
    def geounits(self) -> Integers:
        """Geounit of every entry, shape (n_entries,)."""
        return np.repeat(np.arange(self.n_geounits), np.diff(self.offsets))

    @property
    def total(self) -> int:
        """Number of records in all geounits."""
        return int(self.counts.sum(dtype=np.int64))

    def entries(self, geounit: int) -> tuple[Integers, Integers]:
        """Cells and counts of one geounit, int64."""
        begin, end = int(self.offsets[geounit]), int(self.offsets[geounit + 1])
        return self.cells[begin:end].astype(np.int64), self.counts[begin:end].astype(np.int64)

    def slice(self, start: int, stop: int) -> tuple[Integers, Integers, Integers]:
        """Geounits start to stop - 1 by themselves: offsets from 0, cells and counts; writable copies for kernels."""
        return rows_between(self.offsets, self.cells, self.counts, start, stop)

    def rows(self, start: int, stop: int) -> tuple[Integers, Integers, Integers]:
        """Triplets (row counted from `start`, cell, count) of geounits start to stop - 1, int64."""
        return triplets_of(self.offsets, self.cells, self.counts, start, stop)

    def dense(self, start: int, stop: int, n_cells: int) -> IntegerRows:
        """Counts of geounits start to stop - 1 in every cell, int64; shape (geounits, cells)."""
        dense = np.zeros((stop - start, n_cells), np.int64)
        rows, cells, counts = self.rows(start, stop)
        dense[rows, cells] = counts
        return dense


def rows_between(
    offsets: Integers, cells: NarrowArray, counts: NarrowArray, start: int, stop: int
) -> tuple[Integers, Integers, Integers]:
    """Compressed rows start to stop - 1 by themselves: offsets from 0, cells and counts, as writable int64 copies."""
    row_offsets = np.array(offsets[start : stop + 1], dtype=np.int64)
    begin, end = int(row_offsets[0]), int(row_offsets[-1])
    return row_offsets - begin, np.array(cells[begin:end], np.int64), np.array(counts[begin:end], np.int64)


def triplets_of(
    offsets: Integers, cells: NarrowArray, counts: NarrowArray, start: int, stop: int
) -> tuple[Integers, Integers, Integers]:
    """Triplets (row counted from `start`, cell, count) of compressed rows start to stop - 1, int64."""
    # Copies in int64, so that kernels have one signature whatever the stored width.
    begin, end = int(offsets[start]), int(offsets[stop])
    rows = np.repeat(np.arange(stop - start), np.diff(offsets[start : stop + 1]))
    return rows, cells[begin:end].astype(np.int64), counts[begin:end].astype(np.int64)


LARGEST_COUNT: Final = 2**32
"""Largest value of a count, and of the sum of all counts of a release: three times the population of any country.

With this limit every later number can be represented exactly. Integers: sums over the geounits and cells of a release
are below 2**63, and so are estimates in the rounding's units of 2**-20. Floats: they represent all of these units
exactly up to 2**33. The range above 2**32 is left for noise (`tallyveil.budget.noise_size` refuses noise that would
need more).

It is not proved that least squares certifies every family with such counts; docs/release-file.md ("Sizes") gives
measurements.
"""

LARGEST_LEVEL: Final = 1 - 2.0**-52
"""Largest coverage of one interval. From the next float on, normal quantiles of floats are infinite."""

NO_LIMIT: Final = 2**62
"""In int64, an upper bound at or above this value means "none". It equals the estimator's UNBOUNDED."""


def narrow_limits(values: NDArray[Any]) -> NarrowArray:
    """The same bounds, read-only: int32 if every finite bound is below 2**31 - 1, which then means "none".

    Args:
        values: Lower or upper bounds, int64 (`NO_LIMIT` or more means none) or already compact.
    """
    if values.dtype == np.int32:
        array: NarrowArray = values.view()
    else:
        none = values >= NO_LIMIT
        finite = np.where(none, 0, values)
        if finite.size and (int(finite.max()) >= LARGEST_INT32 or int(finite.min()) < -LARGEST_INT32):
            array = values.astype(np.int64)
        else:
            array = np.where(none, LARGEST_INT32, values).astype(np.int32)
    array.setflags(write=False)
    return array


def widen_limits(values: NDArray[Any]) -> Integers:
    """The same bounds as int64, with `NO_LIMIT` for "none"."""
    if values.dtype != np.int32:
        return values.astype(np.int64, copy=False)
    return np.where(values == LARGEST_INT32, NO_LIMIT, values.astype(np.int64))
