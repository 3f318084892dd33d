"""Errors of estimated counts compared with true ones, by geolevel, query and size of the geounit.

Only cells with a nonzero count on either side are processed. All other answers are exact, and are counted as exact
without being stored. So the memory needed grows with the number of nonzero counts, not with the number of geounits
times cells.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.files.evaluation.size_class import ALL_SIZES, SizeClass, size_classes
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import PublicCounts, sum_triplets
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class ErrorTally:
    """Errors (estimate minus truth) of some answers, by the number of times each absolute error occurs.

    Attributes:
        n_geounits: Number of geounits whose answers are tallied.
        n_answers: Number of answers, including exact ones.
        sizes: Absolute errors above zero that occur, increasing; shape (k,).
        times: Number of times each occurs; shape (k,).
        signed_sum: Sum of the errors.
        true_sum: Sum of the true answers.
    """

    n_geounits: int
    n_answers: int
    sizes: Integers
    times: Integers
    signed_sum: int
    true_sum: int

    @property
    def absolute_sum(self) -> int:
        """Sum of the absolute errors."""
        return int(self.sizes @ self.times)

    @property
    def mean_absolute_error(self) -> float:
        """Mean over all answers, in records."""
        return self.absolute_sum / self.n_answers

    @property
    def mean_squared_error(self) -> float:
        """Mean of the squared errors over all answers, in records squared; rounded once."""
        # Python's integers: squares of errors times their number can exceed 64 bits in a country.
        pairs = zip(self.sizes.tolist(), self.times.tolist(), strict=True)
        return float(Fraction(sum(size * size * times for size, times in pairs), self.n_answers))

    @property
    def bias(self) -> float:
        """Mean signed error over all answers, in records. It is positive if estimates are too high."""
        return self.signed_sum / self.n_answers

    @property
    def relative_l1(self) -> float | None:
        """Sum of absolute errors divided by the sum of true answers; None if the latter is zero."""
        return self.absolute_sum / self.true_sum if self.true_sum else None

    def quantile(self, percent: int) -> int:
        """Smallest error that at least `percent` percent of the answers do not exceed, in records."""
        # Rounded up in integers, so that the rank is exact at the boundary.
        rank = -(-self.n_answers * percent // 100)
        # Answers without an error are not in the list; they are the smallest.
        n_exact = self.n_answers - int(self.times.sum())
        if rank <= n_exact:
            return 0
        reached = n_exact + np.cumsum(self.times)
        return int(self.sizes[np.searchsorted(reached, rank)])


def tally_errors(errors: Integers, *, n_geounits: int, n_answers: int, true_sum: int) -> ErrorTally:
    """Make a tally from errors. The list of errors need not contain the exact answers.

    Args:
        errors: The nonzero errors, in any order. Zeros may be included.
        n_geounits, n_answers, true_sum: As in `ErrorTally`.
    """
    sizes, times = np.unique(np.abs(errors[errors != 0]), return_counts=True)
    return ErrorTally(
        n_geounits, n_answers, sizes, times.astype(np.int64, copy=False), int(errors.sum()), true_sum
    )


def merge_tallies(tallies: Sequence[ErrorTally]) -> ErrorTally:
    """Merge tallies of separate answers into one. There must be at least one."""
    sizes = np.concatenate([tally.sizes for tally in tallies])
    times = np.concatenate([tally.times for tally in tallies])
    # Sizes that occur in several tallies become one entry.
    distinct, place = np.unique(sizes, return_inverse=True)
    summed = np.zeros(len(distinct), dtype=np.int64)
    # add.at, because one size may come from several tallies.
    np.add.at(summed, place, times)
    return ErrorTally(
        n_geounits=sum(tally.n_geounits for tally in tallies),
        n_answers=sum(tally.n_answers for tally in tallies),
        sizes=distinct,
        times=summed,
        signed_sum=sum(tally.signed_sum for tally in tallies),
        true_sum=sum(tally.true_sum for tally in tallies),
    )


# Counts that are examined together: about 100 MB. Half needs half the memory and more calls; the result is the same.
ENTRIES_PER_CHUNK = 1 << 22
COLUMNS = {
    "geolevel": pl.String,
    "query": pl.String,
    "size_class": pl.String,
    "n_geounits": pl.Int64,
    "n_answers": pl.Int64,
    "mean_absolute_error": pl.Float64,
    "mean_squared_error": pl.Float64,
    "median_absolute_error": pl.Int64,
    "p95_absolute_error": pl.Int64,
    "bias": pl.Float64,
    "relative_l1": pl.Float64,
}


def error_metrics(
    spine: Spine,
    schema: Schema,
    queries: Sequence[str],
    estimates: Sequence[PublicCounts],
    truths: Sequence[PublicCounts],
    *,
    entries_per_chunk: int = ENTRIES_PER_CHUNK,
) -> pl.DataFrame:
    """Compare estimates with declassified true counts.

    Args:
        spine: The hierarchy.
        schema: The universe of both sides.
        queries: Query specifications.
        estimates: Estimated counts of some geolevels.
        truths: True counts of the same geolevels, in the same order.
        entries_per_chunk: Number of counts examined together. It limits memory and does not change the result.
    Returns:
        One row for each geolevel, query and size class ("all", then the classes that contain geounits, by true total).
        Errors are in records, their mean square in records squared. A quantile is the smallest error that at least this
        share of the answers does not exceed, so it is an integer. `relative_l1` is null if all true answers are zero.
    Raises:
        GeographyError: the two sides do not cover the same geounits.
        SchemaError: a query does not fit the schema.
    Privacy: none. Every output with these numbers must say that they come from the true counts.
    """
    # A query that is named twice would be two equal rows.
    groups = [schema.query(name) for name in dict.fromkeys(queries)]
    # Before any work: rows of other geounits would be compared as if they were the same.
    _check_geounits(spine, estimates, truths)
    rows = []
    for estimate, truth in zip(estimates, truths, strict=True):
        tallies = _tallies(estimate, truth, groups, entries_per_chunk)
        for group in groups:
            for label, tally in _labelled(tallies, group):
                rows.append((estimate.geolevel, group.name, label, *_measures(tally)))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _check_geounits(spine: Spine, estimates: Sequence[PublicCounts], truths: Sequence[PublicCounts]) -> None:
    got = [counts.geolevel for counts in estimates]
    true = [counts.geolevel for counts in truths]
    if got != true:
        raise GeographyError(
            f"estimates are of the geolevels {', '.join(got)}, truth of {', '.join(true)}. Pass both with the same "
            "geolevels in the same order."
        )
    for side, levels in (("estimates", estimates), ("truth", truths)):
        for counts in levels:
            wanted = spine.n_geounits(spine.level_index(counts.geolevel))
            if counts.n_geounits != wanted:
                raise GeographyError(
                    f"{side} at {counts.geolevel} cover {counts.n_geounits} geounits, the spine has {wanted}. "
                    "Read both with the spine of the release."
                )


def _measures(tally: ErrorTally) -> tuple[int | float | None, ...]:
    """The numbers of one row, in the order of `COLUMNS`."""
    return (
        tally.n_geounits,
        tally.n_answers,
        tally.mean_absolute_error,
        tally.mean_squared_error,
        tally.quantile(50),
        tally.quantile(95),
        tally.bias,
        tally.relative_l1,
    )


Tallies = dict[tuple[str, int], list[ErrorTally]]


def _labelled(tallies: Tallies, group: QueryGroup) -> Iterator[tuple[str, ErrorTally]]:
    """Tallies of a query: first over all geounits, then by size class."""
    by_class = [
        (size.value, merge_tallies(tallies[group.name, number]))
        for number, size in enumerate(SizeClass)
        if (group.name, number) in tallies
    ]
    if by_class:
        yield ALL_SIZES, merge_tallies([tally for _, tally in by_class])
    yield from by_class


def _tallies(
    estimate: PublicCounts, truth: PublicCounts, groups: Sequence[QueryGroup], entries_per_chunk: int
) -> Tallies:
    """Tallies of one geolevel by query name and number of the size class, one for each chunk of geounits."""
    tallies: Tallies = defaultdict(list)
    for start, stop in shared_chunks(estimate, truth, entries_per_chunk):
        true_rows, true_cells, true_counts = truth.rows(start, stop)
        totals = np.zeros(stop - start, dtype=np.int64)
        np.add.at(totals, true_rows, true_counts)
        classes = size_classes(totals)
        rows, cells, errors = _cell_errors(estimate.rows(start, stop), (true_rows, true_cells, true_counts))
        for group in groups:
            owners, query_errors = _query_errors(group, rows, cells, errors)
            counted, _ = group.counted_in(true_cells)
            counted_rows, counted_persons = true_rows[counted], true_counts[counted]
            for number in np.unique(classes):
                n_geounits = int((classes == number).sum())
                tallies[group.name, int(number)].append(
                    tally_errors(
                        query_errors[classes[owners] == number],
                        n_geounits=n_geounits,
                        n_answers=n_geounits * group.size,
                        true_sum=int(counted_persons[classes[counted_rows] == number].sum()),
                    )
                )
    return tallies


def shared_chunks(estimate: PublicCounts, truth: PublicCounts, entries: int) -> Iterator[tuple[int, int]]:
    """Ranges of geounits with about `entries` counts on both sides together, and at most `entries` geounits."""
    reached = estimate.offsets + truth.offsets
    start = 0
    while start < estimate.n_geounits:
        stop = int(np.searchsorted(reached, reached[start] + entries, side="right")) - 1
        stop = min(max(stop, start + 1), start + entries, estimate.n_geounits)
        yield start, stop
        start = stop


Triplets = tuple[Integers, Integers, Integers]


def _cell_errors(estimate: Triplets, truth: Triplets) -> Triplets:
    """Rows, cells and errors of the cells that differ."""
    rows, cells = (np.concatenate(pair) for pair in zip(estimate[:2], truth[:2], strict=True))
    return sum_triplets(rows, cells, np.concatenate((estimate[2], -truth[2])))


def _query_errors(
    group: QueryGroup, rows: Integers, cells: Integers, errors: Integers
) -> tuple[Integers, Integers]:
    """Row and error of each answer that differs."""
    places, answers = group.counted_in(cells)
    owners, _, summed = sum_triplets(rows[places], answers, errors[places])
    return owners, summed
