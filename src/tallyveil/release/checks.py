"""The last look before a release is finished: the written files are read back and held to every promise.

Files are read geolevel by geolevel, finest last, and never more than two geolevels of counts are held.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.geography.areas import area_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.release.areas import area_counts
from tallyveil.release.histograms import read_histogram, read_microdata
from tallyveil.release.tables import has_zeros, table_folder, table_rows
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.universe.answer_columns import answer_expression
from tallyveil.universe.counts import ENTRIES_AT_ONCE, PublicCounts, row_ranges, sum_families, sum_triplets
from tallyveil.universe.limits import widen_limits
from tallyveil.universe.query_group import QueryGroup
from tallyveil.universe.schema import Schema


class Bounded(NamedTuple):
    """An invariant, or bounds, that the published counts must keep.

    Attributes:
        name: For messages and the names of checks.
        query: The bounded query.
        lower: Bounds by geolevel from the root down, shape (rows, query.size); int64, or narrow (`narrow_limits`).
        upper: Likewise.
        groups: The row that each geounit of the last of these geolevels is summed into; None where each has its own.
        stated: The geolevel of the geography whose geounits these sums are; None where there are no groups.
    """

    name: str
    query: QueryGroup
    lower: Sequence[NDArray[Any]]
    upper: Sequence[NDArray[Any]]
    groups: Integers | None = None
    stated: str | None = None

    def name_of_check(self, spine: Spine) -> str:
        """What is checked, in words."""
        n_whole = len(self.lower) - (self.groups is not None)
        places = [", ".join(spine.geolevels[:n_whole])] if n_whole else []
        if self.groups is not None:
            places.append(f"every sum of {spine.geolevels[n_whole]} geounits that makes one {self.stated}")
        return f"{self.name} holds at {' and '.join(places)}"


class Agreeing(NamedTuple):
    """Counts of another release that the published counts must keep, at every geolevel.

    Attributes:
        name: For messages and the names of checks.
        query: The query whose answers agree.
        counts: Counts of every geolevel, root first; each answer by one of its cells.
    """

    name: str
    query: QueryGroup
    counts: Sequence[PublicCounts]

    @property
    def name_of_check(self) -> str:
        """What is checked, in words."""
        return f"{self.name} holds in every answer at {', '.join(one.geolevel for one in self.counts)}"


def check_release(
    root: Path,
    schema: Schema,
    spine: Spine,
    tables: Iterable[str],
    constraints: Iterable[Bounded],
    *,
    microdata: bool = True,
    areas: Sequence[EntityFamily] = (),
    agreed: Sequence[Agreeing] = (),
) -> list[str]:
    """Read the published files back and verify them.

    Args:
        root: Release folder.
        schema: The universe.
        spine: The hierarchy.
        tables: Names of the published queries.
        constraints: Every invariant and bound.
        microdata: Whether the release has microdata.
        areas: What tables are published of beside the spine's geolevels, on the spine; one with the name of a
            geolevel stands in its place.
        agreed: Counts of other releases that are kept.
    Returns:
        The names of the checks; all have passed.
    Raises:
        SolverError: a check failed; the release must not be published.
        StoreError: a file is missing or damaged.
    """
    groups = [schema.query(name) for name in tables]
    bounded = list(constraints)
    above: PublicCounts | None = None
    for level, geolevel in enumerate(spine.geolevels):
        counts = read_histogram(root, geolevel, schema, spine)
        _require(_NOT_NEGATIVE, bool((counts.counts >= 0).all()))
        _require(_POSSIBLE, _are_possible(counts, schema))
        if above is not None:
            _require(_sum_name(spine, level), _adds_up(above, counts, spine, level, schema.size))
        for one in bounded:
            if level < len(one.lower):
                _require(one.name_of_check(spine), _within(counts, one, level))
        for agreement in agreed:
            _require(agreement.name_of_check, _agrees(counts, agreement, level))
        for group in groups if geolevel not in {area.name for area in areas} else ():
            _require(_table_name(group), _table_agrees(root, counts, group, spine))
        above = counts
    for area in areas:
        summed, own = area_counts(counts, area, schema.size), area_spine(area)
        for group in groups:
            _require(_area_name(area, spine), _table_agrees(root, summed, group, own))
    names = [_NOT_NEGATIVE, _POSSIBLE]
    names += [_sum_name(spine, level) for level in range(1, spine.n_levels)]
    names += [one.name_of_check(spine) for one in bounded]
    names += [agreement.name_of_check for agreement in agreed]
    if microdata and above is not None:
        _require(_MICRODATA, _equal(read_microdata(root, schema, spine), above))
        names.append(_MICRODATA)
    names += [_table_name(group) for group in groups]
    names += [_area_name(area, spine) for area in areas if groups]
    return names


def check_tables(root: Path, counts: PublicCounts, groups: Iterable[QueryGroup], spine: Spine) -> None:
    """Read back the tables of one geolevel and verify that they hold the published counts, row for row.

    Args:
        root: Folder that holds `tables/`.
        counts: The counts.
        groups: The queries.
        spine: Has a geolevel of the counts' name.
    Raises:
        SolverError: they do not; they must not be published.
        StoreError: a file is missing or damaged.
    """
    for group in groups:
        _require(_table_name(group), _table_agrees(root, counts, group, spine))


_NOT_NEGATIVE = "no count is negative"
_POSSIBLE = "no structural zero is filled"
_MICRODATA = "microdata hold exactly the records of the finest counts"


def _sum_name(spine: Spine, level: int) -> str:
    above, below = spine.geolevels[level - 1 : level + 1]
    return f"every {above} is the sum of its {below} geounits in every cell"


def _table_name(group: QueryGroup) -> str:
    return f"table {group.name} agrees with the counts"


def _area_name(area: EntityFamily, spine: Spine) -> str:
    return f"tables of {area.name} are sums of the published {spine.geolevels[-1]} counts"


def _require(name: str, passed: bool) -> None:
    if not passed:
        raise SolverError(
            f"final check failed: {name}. The release must not be published; keep the folder and report this.",
            code="check-failed",
        )


def _are_possible(counts: PublicCounts, schema: Schema) -> bool:
    pieces = range(0, len(counts.cells), ENTRIES_AT_ONCE)
    return all(bool(schema.possible(counts.cells[at : at + ENTRIES_AT_ONCE]).all()) for at in pieces)


def _adds_up(parent: PublicCounts, child: PublicCounts, spine: Spine, level: int, n_cells: int) -> bool:
    offsets = spine.child_offsets[level - 1]
    summed = sum_families(child.offsets, child.cells, child.counts, offsets, n_cells)
    return _equal(parent, PublicCounts(parent.geolevel, *summed))


def _equal(one: PublicCounts, other: PublicCounts) -> bool:
    return (
        np.array_equal(one.offsets, other.offsets)
        and np.array_equal(one.cells, other.cells)
        and np.array_equal(one.counts, other.counts)
    )


def _within(counts: PublicCounts, one: Bounded, level: int) -> bool:
    """Whether counts of a geolevel keep a constraint."""
    query, lower, upper = one.query, one.lower[level], one.upper[level]
    groups = one.groups if level == len(one.lower) - 1 else None
    sums = np.zeros((0 if groups is None else len(lower), query.size), dtype=np.int64)
    for start, stop in row_ranges(counts.offsets, ENTRIES_AT_ONCE // query.size + 1):
        answers = query.apply(*counts.rows(start, stop), stop - start)
        if groups is not None:
            np.add.at(sums, groups[start:stop], answers)
        elif not _between(answers, lower[start:stop], upper[start:stop]):
            return False
    return groups is None or _between(sums, lower, upper)


def _agrees(counts: PublicCounts, one: Agreeing, level: int) -> bool:
    """Whether the answers of counts of a geolevel are those of another release."""
    theirs = one.counts[level]
    for start, stop in row_ranges(counts.offsets):
        found = [
            sum_triplets(rows, one.query.answers_of(cells), persons)
            for rows, cells, persons in (_counted(each, one.query, start, stop) for each in (counts, theirs))
        ]
        if not all(np.array_equal(a, b) for a, b in zip(*found, strict=True)):
            return False
    return True


def _counted(
    counts: PublicCounts, query: QueryGroup, start: int, stop: int
) -> tuple[Integers, Integers, Integers]:
    """Triplets of some geounits, without the cells that a query leaves out."""
    rows, cells, persons = counts.rows(start, stop)
    inside = query.answers_of(cells) >= 0
    return rows[inside], cells[inside], persons[inside]


def _between(answers: Integers, lower: NDArray[Any], upper: NDArray[Any]) -> bool:
    return bool(((answers >= widen_limits(lower)) & (answers <= widen_limits(upper))).all())


def _table_agrees(root: Path, counts: PublicCounts, group: QueryGroup, spine: Spine) -> bool:
    """Whether the parts of a table, one after the other, hold what the counts say, row for row."""
    begin = 0
    for part in sorted(table_folder(root, counts.geolevel, group.name).glob("part-*.parquet")):
        rows = scan_parquet(part).select("geocode", answer_expression(group), "count")
        frame = collect(rows, part, "table")
        if frame.height == 0:
            continue
        last = int(spine.locate(spine.level_index(counts.geolevel), frame["geocode"][-1:])[0])
        if last < begin or not _part_agrees(frame, counts, group, spine, begin, last + 1):
            return False
        begin = last + 1
    # Whoever stands after the last row has, where zeros are left out, nobody; else must not be left out.
    return begin == counts.n_geounits or (
        not has_zeros(group) and len(table_rows(counts, group, begin, counts.n_geounits)[0]) == 0
    )


def _part_agrees(
    frame: pl.DataFrame, counts: PublicCounts, group: QueryGroup, spine: Spine, start: int, stop: int
) -> bool:
    """Whether a part is the table of geounits start..stop, in order."""
    rows, answers, persons = table_rows(counts, group, start, stop)
    if frame.height != len(rows) or sum(frame.null_count().row(0)):
        return False
    codes = spine.geocodes[spine.level_index(counts.geolevel)].text.gather(start + rows)
    return (
        np.array_equal(frame["count"].to_numpy(), persons)
        and np.array_equal(frame["answer"].to_numpy(), answers)
        and bool((frame["geocode"] == codes).all())
    )
