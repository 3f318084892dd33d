"""Groups of cells whose counts are fixed in every geounit before a pass begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges, sums_between
from tallyveil.schema.nested_queries import common_groups
from tallyveil.schema.query_group import QueryGroup


class PassGroupCounts(NamedTuple):
    """Fixed counts of one geolevel in compressed rows, without the zeros.

    Attributes:
        offsets: The entries of geounit g are `offsets[g]:offsets[g + 1]`.
        groups: Numbers of groups, ascending within a geounit.
        counts: Numbers of records.
    """

    offsets: Integers
    groups: NarrowArray
    counts: NarrowArray


@dataclass(frozen=True, slots=True, eq=False)
class FixedGroups:
    """The groups of a pass, and their fixed counts at every geolevel.

    Attributes:
        queries: Queries whose answers are the groups. Each cell of the pass counts in one answer of one of them.
        levels: Counts of every geolevel, root first; or of the geolevels that are asked for, by number.
    """

    queries: tuple[QueryGroup, ...]
    levels: Sequence[PassGroupCounts] | Mapping[int, PassGroupCounts]

    @property
    def size(self) -> int:
        """A number above the number of every group."""
        return sum(query.size for query in self.queries)

    def groups_of(self, cells: Integers) -> Integers:
        """The number of the group of each cell; -1 for a cell in none."""
        return groups_of(self.queries, cells)


def groups_of(queries: Sequence[QueryGroup], cells: Integers) -> Integers:
    """The number of the group of each cell, where groups are numbered query by query; -1 for a cell in none."""
    groups = np.full(len(cells), -1, dtype=np.int64)
    begin = 0
    for query in queries:
        answers = query.answers_of(cells)
        # Each cell is in one answer of one query, so no group is overwritten.
        groups[answers >= 0] = begin + answers[answers >= 0]
        begin += query.size
    return groups


def groups_of_earlier_pass(
    cells: QueryGroup, earlier: QueryGroup, counts: Sequence[PublicCounts]
) -> FixedGroups:
    """The groups of a pass after the first: what the cells of the two passes have in common.

    Args:
        cells: Cells of the pass.
        earlier: Cells of the pass before it.
        counts: Counts of the pass before it, of every geolevel; each answer by its representative cell.
    """
    queries = (common_groups(cells, earlier),)
    return FixedGroups(queries, tuple(in_groups(queries, level_counts) for level_counts in counts))


def groups_at(cells: QueryGroup, earlier: QueryGroup, level: int, counts: PublicCounts) -> FixedGroups:
    """As `groups_of_earlier_pass`, of one geolevel: its number, and the earlier pass's counts there."""
    queries = (common_groups(cells, earlier),)
    # Only one geolevel is summed, because a chunk needs no other.
    return FixedGroups(queries, {level: in_groups(queries, counts)})


def in_groups(queries: Sequence[QueryGroup], counts: PublicCounts) -> PassGroupCounts:
    """Counts of one geolevel, added up to groups. Records that are in no group are left out."""
    total = TripletSum(counts.n_geounits, sum(query.size for query in queries))
    for start, stop in row_ranges(counts.offsets):
        rows, cells, persons = counts.rows(start, stop)
        groups = groups_of(queries, cells)
        inside = groups >= 0
        total.add(start + rows[inside], groups[inside], persons[inside])
    return PassGroupCounts(*total.finish())


def sums_of_groups(counts: PassGroupCounts, weights: NDArray[Any]) -> Integers:
    """Sum over the records of each geounit of a whole number for each group, or of 1 in each wanted group."""
    return sums_between(counts.offsets, weights[counts.groups] * counts.counts.astype(np.int64))
