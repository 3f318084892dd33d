"""Errors of a release, compared with declassified true counts: metrics, artefacts, and the files that hold them.

Errors are given by geolevel, query and size of the geounit. Only cells with a nonzero count on either side
are processed. All other answers are exact, and are counted as exact without being stored. So the memory
needed grows with the number of nonzero counts, not with the number of geounits times cells.

Published counts are not negative, so noise in empty cells can only add records. Artefacts of it are counted:

- geounits that are truly empty, and geounits that are published as empty (`empty`);
- geounits that are truly empty and published with records (`filled`), and the opposite (`emptied`), with
  their records;
- nonempty geounits whose records are all of one group (`only`), for each attribute and recode that the
  release's queries name: summed over all groups and, if there are at most `MOST_GROUPS`, for each group. For
  example, if the schema has a group of children, this counts the geounits with only children.

Each file of an evaluation is marked as not private, also when it is copied elsewhere.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import PublicCounts, sum_triplets, sums_between
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema, Unit
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_json, write_parquet
from tallyveil.words.language import phrase


class SizeClass(Enum):
    """The true number of records in a geounit. The value is the label in the metrics."""

    EMPTY = "0"
    ONES = "1-9"
    TENS = "10-99"
    HUNDREDS = "100-999"
    THOUSANDS = "1,000-9,999"
    LARGEST = "10,000+"


ALL_SIZES = "all"
"""Label of the row for all geounits, whatever their size."""

# The smallest total, in records, of each class but the first, which holds what is below 1.
_SMALLEST = np.array([1, 10, 100, 1_000, 10_000], dtype=np.int64)


def size_classes(totals: Integers) -> Integers:
    """Number of the size class of each total, in the order of `SizeClass`; an array of the same shape."""
    return np.searchsorted(_SMALLEST, totals, side="right").astype(np.int64, copy=False)


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


MOST_GROUPS = 12
"""Largest number of groups of an attribute or recode for which the groups are listed individually."""

ARTEFACT_COLUMNS = {
    "geolevel": pl.String,
    "artefact": pl.String,
    "factor": pl.String,
    "group": pl.String,
    "true_geounits": pl.Int64,
    "published_geounits": pl.Int64,
    "records": pl.Int64,
    "share": pl.Float64,
}


Row = tuple[str | int | float | None, ...]


@dataclass(slots=True)
class _Emptiness:
    """Numbers of empty geounits of one geolevel, summed over chunks."""

    truly: int = 0
    published: int = 0
    filled: int = 0
    filled_with: int = 0
    emptied: int = 0
    emptied_of: int = 0

    def add(self, true: Integers, published: Integers) -> None:
        """Add the totals of some geounits."""
        filled, emptied = (true == 0) & (published > 0), (true > 0) & (published == 0)
        self.truly += int((true == 0).sum())
        self.published += int((published == 0).sum())
        self.filled += int(filled.sum())
        self.filled_with += int(published[filled].sum())
        self.emptied += int(emptied.sum())
        self.emptied_of += int(true[emptied].sum())

    def rows(self, geolevel: str, true: int, published: int) -> list[Row]:
        """The numbers as rows of the table; `true` and `published` are the records of all geounits."""
        # None where there are no records, because a share of nothing is no number.
        filled = self.filled_with / published if published else None
        emptied = self.emptied_of / true if true else None
        return [
            (geolevel, "empty", None, None, self.truly, self.published, None, None),
            (geolevel, "filled", None, None, self.filled, self.filled, self.filled_with, filled),
            (geolevel, "emptied", None, None, self.emptied, self.emptied, self.emptied_of, emptied),
        ]


def find_artefacts(
    schema: Schema,
    queries: Sequence[str],
    estimate: PublicCounts,
    truth: PublicCounts,
    *,
    entries_per_chunk: int = ENTRIES_PER_CHUNK,
) -> pl.DataFrame:
    """Count the known artefacts of one geolevel, or of one family of entities.

    Args:
        schema: The universe of both sides.
        queries: Query specifications. The attributes and recodes that they name are examined.
        estimate: Estimated counts.
        truth: True counts of the same geounits.
        entries_per_chunk: Number of counts examined together. It limits memory and does not change the result.
    Returns:
        One row for each artefact. In the rows `filled` and `emptied` both numbers of geounits are equal. There
        `records` is the number of records (published records for `filled`, true records for `emptied`), and `share` is
        their share of all records. In other rows both are null. The row of `only` without a group is the sum over all
        groups; if groups overlap, a geounit can count in several of them.
    Privacy: none. Every output with these numbers must say that they come from the true counts.
    """
    groups = queried_factors(schema, queries)
    emptiness = _Emptiness()
    only = [np.zeros((2, group.size), dtype=np.int64) for group in groups]
    for start, stop in shared_chunks(estimate, truth, entries_per_chunk):
        sides = truth.slice(start, stop), estimate.slice(start, stop)
        emptiness.add(*(sums_between(offsets, counts) for offsets, _, counts in sides))
        for side, (offsets, cells, _) in enumerate(sides):
            for group, numbers in zip(groups, only, strict=True):
                numbers[side] += _single_groups(group, offsets, cells)
    rows = emptiness.rows(estimate.geolevel, truth.total, estimate.total)
    for group, numbers in zip(groups, only, strict=True):
        rows += _only_rows(estimate.geolevel, group, numbers)
    return pl.DataFrame(rows, schema=ARTEFACT_COLUMNS, orient="row")


def queried_factors(schema: Schema, queries: Sequence[str]) -> tuple[QueryGroup, ...]:
    """The attributes and recodes that the queries name, each as a separate query, in the schema's order."""
    named = {name for query in queries for name in schema.query(query).factor_names}
    groups = (schema.query(name) for name in schema.factor_names if name in named)
    # A factor of one group is in every geounit alone, and says nothing.
    return tuple(group for group in groups if group.size > 1)


def _single_groups(group: QueryGroup, offsets: Integers, cells: Integers) -> NDArray[np.int64]:
    """For each group, the number of nonempty geounits whose records are all of it. All entries must be above zero."""
    # Empty geounits are left out: reduceat would give them the next geounit's cell.
    starts = offsets[:-1][np.diff(offsets) > 0]
    numbers = np.zeros(group.size, dtype=np.int64)
    if not len(starts):
        return numbers
    for layer in group.layers:
        answers = layer.answers_of(cells)
        least, most = np.minimum.reduceat(answers, starts), np.maximum.reduceat(answers, starts)
        # All records are of one group where the least and the largest answer agree; -1 is no group.
        numbers += np.bincount(least[(least == most) & (least >= 0)], minlength=group.size)
    return numbers


def _only_rows(geolevel: str, group: QueryGroup, numbers: NDArray[np.int64]) -> Iterator[Row]:
    true, published = numbers.tolist()
    yield geolevel, "only", group.name, None, sum(true), sum(published), None, None
    if group.size <= MOST_GROUPS:
        labels = group.named_factors[0].labels
        for label, before, after in zip(labels, true, published, strict=True):
            yield geolevel, "only", group.name, label, before, after, None, None


COUNTS = ("count", "noisy")
"""Columns of counts that a released table may have: what is published, and what it was post-processed from."""


def table_errors(released: pl.DataFrame, truth: Integers) -> pl.DataFrame:
    """Errors of the published counts, and of the unbiased ones where there are others.

    Args:
        released: The table, in the order of its cells, with a column `count`, and perhaps `noisy` and `margin`.
        truth: int64 [n_cells].
    Returns:
        For each column of counts and each class of true sizes, and for all cells together: cells, mean absolute error,
        root mean square, bias, and the share of cells whose error is within the margin (null where there is none: the
        margin is that of the unbiased counts).
    Privacy: none.
    """
    labels = [size_class.value for size_class in SizeClass]
    classes = [labels[i] for i in size_classes(truth).tolist()]
    present = [name for name in COUNTS if name in released.columns]
    margin = released["margin"] if "margin" in released.columns else pl.Series([None] * released.height)
    rows = []
    for name in present:
        error = released[name] - pl.Series(truth)
        unbiased = name == present[-1]
        within = (error.abs() <= margin) if unbiased else pl.Series([None] * len(error), dtype=pl.Boolean)
        frame = pl.DataFrame({"size_class": classes, "error": error, "within": within})
        rows.append(_summary(frame.with_columns(size_class=pl.lit(ALL_SIZES)), name))
        rows.append(_summary(frame, name))
    order = [ALL_SIZES, *labels]
    return pl.concat(rows).sort(
        pl.col("counts").replace_strict({n: i for i, n in enumerate(COUNTS)}, return_dtype=pl.Int64),
        pl.col("size_class").replace_strict({n: i for i, n in enumerate(order)}, return_dtype=pl.Int64),
    )


def _summary(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    error = pl.col("error")
    return frame.group_by("size_class").agg(
        pl.lit(name).alias("counts"),
        pl.len().cast(pl.Int64).alias("cells"),
        error.abs().mean().alias("mean_absolute_error"),
        (error.cast(pl.Float64) ** 2).mean().sqrt().alias("root_mean_square_error"),
        error.mean().alias("bias"),
        pl.col("within").cast(pl.Boolean).mean().alias("within_margin"),
    )


FOLDER = "evaluation"
JSON_FILE = "errors.json"
TABLE_FILE = "errors.parquet"
ARTEFACTS_FILE = "artefacts.parquet"
WARNING = phrase(
    "NOT PRIVATE: computed from the true counts. No privacy guarantee covers these numbers; "
    "they must not be published with the release."
)

PARAMETERS: Final = "privacy-of-the-measurements"
"""Name of the table of privacy parameters, which follow from the plan and not from the counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A comparison of a release with its true counts.

    Attributes:
        errors: The table of `error_metrics`.
        artefacts: The table of `find_artefacts`.
        unit: The unit of both counts.
        finest: The finest geolevel.
        parameters: Privacy parameters of the noise that the errors come from, a row for each geolevel and one for all
            together (`budget/guarantees.py`). They follow from the plan, not from the counts.
    """

    errors: pl.DataFrame
    artefacts: pl.DataFrame
    unit: Unit
    finest: str
    parameters: tuple[Mapping[str, Any], ...] = ()

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, marked as not private."""
        return {
            "protected": False,
            "warning": WARNING,
            "unit": self.unit.one,
            "privacy_of_the_measurements": [dict(row) for row in self.parameters],
            "errors": self.errors.to_dicts(),
            "artefacts": self.artefacts.to_dicts(),
        }


def write_evaluation(run_dir: Path, evaluation: Evaluation, metadata: Mapping[str, str]) -> Path:
    """Write errors and artefacts into the `evaluation/` folder of a release.

    Args:
        run_dir: Release folder.
        evaluation: The comparison.
        metadata: Where it comes from, in words (such as the run and the role of the records); written to the files.
    Returns:
        The JSON file, for readers. The same tables as Parquet files, for programs, are next to it.
    Raises:
        StoreError: the folder cannot be written to.
    Privacy: none. Every file has "protected": false and a warning.
    """
    folder = run_dir / FOLDER
    # In the metadata of every file, because a file may be passed on without its folder.
    tags = {**metadata, "protected": "false", "warning": WARNING}
    write_parquet(folder / TABLE_FILE, evaluation.errors, tags)
    write_parquet(folder / ARTEFACTS_FILE, evaluation.artefacts, tags)
    write_json(folder / JSON_FILE, {**evaluation.to_mapping(), "metadata": dict(metadata)})
    return folder / JSON_FILE


def write_errors(out: Path, tables: Mapping[str, pl.DataFrame], metadata: Mapping[str, Any]) -> Path:
    """Write tables of errors and of true counts into `evaluation/`. Returns the JSON file with the errors.

    Args:
        out: Folder of the release.
        tables: Tables by name. Those whose names begin with "errors", and the privacy parameters, are also written to
            the JSON file.
        metadata: Where the tables come from, in words.
    Raises:
        StoreError: the folder cannot be written to.
    Privacy: none. Every file says so.
    """
    folder = out / FOLDER
    tags = {name: str(value) for name, value in metadata.items()} | {"protected": "false", "warning": WARNING}
    for name, frame in tables.items():
        write_parquet(inside(folder, f"{file_name(name)}.parquet"), frame, tags)
    # True counts stay out of the file that people open; the errors alone go into it.
    errors = {
        name: frame.to_dicts()
        for name, frame in tables.items()
        if name.startswith("errors") or name == PARAMETERS
    }
    content = {"protected": False, "warning": WARNING, "metadata": dict(metadata), **errors}
    write_json(folder / JSON_FILE, content)
    return folder / JSON_FILE
