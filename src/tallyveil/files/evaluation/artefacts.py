"""Counts known artefacts of published counts: what non-negativity does to small geounits.

Published counts are not negative, so noise in empty cells can only add records. Geounits that are truly empty may be
published with records. Geounits whose records are all of one group (only children, only one race) may appear or
disappear. This module counts

- geounits that are truly empty, and geounits that are published as empty (`empty`);
- geounits that are truly empty and published with records (`filled`), and the opposite (`emptied`), with their records;
- nonempty geounits whose records are all of one group (`only`), for each attribute and recode that the release's
queries
  name: summed over all groups and, if there are at most `MOST_GROUPS`, for each group. For example, if the schema has a
  group of children, this counts the geounits with only children.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.files.evaluation.metrics import ENTRIES_PER_CHUNK, shared_chunks
from tallyveil.schema.counts import PublicCounts, sums_between
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

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
        labels = next(factor.labels for factor in group.factors if factor.name is not None)
        for label, before, after in zip(labels, true, published, strict=True):
            yield geolevel, "only", group.name, label, before, after, None, None
