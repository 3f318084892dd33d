"""What outer passes hand on: groups of cells with fixed counts, names of stages, and the files of a pass.

Before a pass begins, the counts of some groups of cells are fixed in every geounit. The counts of a pass
stand in files of the run folder that are removed when the published counts are written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import StoreError
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges, sums_between
from tallyveil.schema.nested_queries import common_groups
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import read_published
from tallyveil.storage.write import write_parquet_chunks

WHOLE_CELLS: Final = "whole cells"
"""Stage that puts the counts of all passes together."""


def pass_stage(number: int, geolevel: str) -> str:
    """Name of the stage of a pass at a geolevel; passes are counted from 1."""
    return f"pass {number} of {geolevel}"


def support_stage(geolevel: str) -> str:
    """Name of the stage that writes the noisy answers on the support of the published counts."""
    return f"measurements on the support of {geolevel}"


PASSES: Final = "passes"
_COLUMNS: Final = ("geounit", "cell", "count")


def pass_place(number: int, geolevel: str) -> str:
    """The file of a pass at a geolevel, relative to the run folder."""
    return f"{PASSES}/{number}/{file_name(geolevel)}.parquet"


def write_pass(root: Path, number: int, counts: PublicCounts, metadata: Mapping[str, str]) -> None:
    """Write the counts above zero of a geolevel, by number of the geounit and of the cell; raises StoreError."""

    def frames() -> Iterator[pl.DataFrame]:
        for start, stop in row_ranges(counts.offsets):
            rows, cells, persons = counts.rows(start, stop)
            yield pl.DataFrame(dict(zip(_COLUMNS, (start + rows, cells, persons), strict=True)))

    tags = {**metadata, "geolevel": counts.geolevel}
    write_parquet_chunks(_path(root, number, counts.geolevel), frames(), tags)


def read_pass(root: Path, number: int, geolevel: str, n_geounits: int, n_cells: int) -> PublicCounts:
    """Read back what `write_pass` wrote; the stage has compared the file with its checkpoint.

    Raises:
        StoreError: the file cannot be read, or names a geounit or a cell that there is not.
    """
    path = _path(root, number, geolevel)
    frame = read_published(path, _COLUMNS)
    rows, cells, persons = (frame[name].to_numpy() for name in _COLUMNS)
    for numbers, size in ((rows, n_geounits), (cells, n_cells)):
        # Checked before they index arrays: the file may have been changed since its checkpoint was compared.
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= size):
            raise StoreError(
                f"{path} was changed while the run was in progress. Run the same command again: it makes the counts "
                "once more, with the same numbers.",
                code="run-damaged",
            )
    total = TripletSum(n_geounits, n_cells)
    total.add(rows, cells, persons)
    return PublicCounts(geolevel, *total.finish())


def _path(root: Path, number: int, geolevel: str) -> Path:
    return inside(root, *pass_place(number, geolevel).split("/"))


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
