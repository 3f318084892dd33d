"""A lift pass at one geolevel: how many records of each group belong to a part, such as householders.

The part has a total, or limits of its total, in every geounit of a geolevel: mostly the finest. Each family is one flow
that reaches down to these geounits (`estimation.leaf_lift`), so that all families below it keep a solution. Below them,
any counts that sum to the parent's are possible. What the counts should be near is said in `part_targets`.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.leaf_lift import Leaves, LiftedSplit, split_with_lift
from tallyveil.estimation.tiles import TileStatus
from tallyveil.geography.spine import Spine
from tallyveil.plans.part_cells import PartCells
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.chunks import Span, cut, largest_first
from tallyveil.postprocess.passes.groups import FixedGroups
from tallyveil.postprocess.passes.level import PassOutcome
from tallyveil.postprocess.passes.part_limits import PartLimits
from tallyveil.postprocess.passes.part_targets import PartTargets
from tallyveil.runs.executor import Chunks, Executor, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import PublicCounts, TripletSum, places_in

LIFT: Final = "lift"
"""Name of the work in addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class Lift:
    """One lift pass at one geolevel.

    Attributes:
        number: Number of the pass, from 0.
        spine: The spine that is measured.
        level: Number of the children's geolevel, 0 for the root.
        groups: What is fixed in every geounit.
        cells: The cells of each group.
        limits: Limits of the total of the part.
        targets: What the counts of the part should be near.
        n_cells: Number of cells of the schema.
        weights: Of each geounit of the geolevel, if counts are divided in proportion to something else than the fixed
            counts.
    """

    number: int
    spine: Spine
    level: int
    groups: FixedGroups
    cells: PartCells
    limits: PartLimits
    targets: PartTargets
    n_cells: int
    weights: Floats | None = None

    @property
    def geolevel(self) -> str:
        """Name of the children's geolevel."""
        return self.spine.geolevels[self.level]

    @property
    def columns(self) -> Integers:
        """The groups that have a part. They are the columns of every family."""
        return part_groups(self.cells)


def part_groups(cells: PartCells) -> Integers:
    """Numbers of the groups that have a part."""
    return np.flatnonzero(cells.part >= 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """Counts of the part in the children of some families, and how many families there were nothing to split in."""

    rows: Integers
    groups: Integers
    counts: Integers
    settled: int
    lifted: int


def lift_pass(lift: Lift, above: PublicCounts | None, observer: Observer, executor: Executor) -> PassOutcome:
    """Split the part at a geolevel. The counts do not depend on the executor.

    Args:
        lift: The pass at the geolevel.
        above: Counts of this pass at the geolevel above; None at the root.
        observer: Receives the number of finished families.
        executor: Runs the chunks.
    Raises:
        ConstraintError: finest geounits cannot have their totals, which only a defect can cause.
        SolverError: a flow failed its proof, which is a defect.
    """
    if above is None:
        parts = [_root(lift, geounit) for geounit in range(lift.spine.n_geounits(0))]
        observer.advanced(len(parts))
    else:
        parts = _below(lift, above, observer, executor)
    # What is fixed is entered as "not of the part"; the part is then moved out of it, so that sums stay as fixed.
    total = TripletSum(lift.spine.n_geounits(lift.level), lift.n_cells)
    offsets, groups, counts = lift.groups.levels[lift.level]
    total.add(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), lift.cells.rest[groups], counts)
    for part in parts:
        total.add(part.rows, lift.cells.part[part.groups], part.counts)
        # Subtracted from the rest: counts of both cells sum to the fixed count of the group.
        total.add(part.rows, lift.cells.rest[part.groups], -part.counts)
    status = Counter({TileStatus.SETTLED: sum(part.settled for part in parts)})
    status[TileStatus.LIFTED] = sum(part.lifted for part in parts)
    return PassOutcome(PublicCounts(lift.geolevel, *total.finish()), _record(status))


def _record(status: "Counter[TileStatus]") -> dict[str, Any]:
    """How the families were split, for the manifest; with the keys of `level.estimate_pass`."""
    return {
        "families": sum(status.values()),
        "estimate": {ending.value: status[ending] for ending in TileStatus if status[ending]},
        "rounding": {},
        "rounding_widened": 0,
        "largest_residual": 0.0,
    }


def _root(lift: Lift, geounit: int) -> _Split:
    columns = lift.columns
    base = _group_counts(lift, slice(geounit, geounit + 1), columns)
    # A group without records cannot have a part.
    columns = columns[base[0] > 0]
    return _split(lift, slice(geounit, geounit + 1), columns, None)


def lift_chunks(lift: Lift, above: PublicCounts) -> tuple[Chunks[_Split], list[Span]]:
    """A lift pass below a geolevel as chunks that any process of the run can do, and the families of each."""
    spans = cut(above, lift.spine.child_offsets[lift.level - 1])
    folders = ChunkFolders(None)  # a chunk writes nothing but its result

    def work(number: int) -> _Split:
        return _chunk(lift, spans[number], above)

    address = {"work": LIFT, "number": lift.number, "geolevel": lift.geolevel}
    return folders.chunks(address, _Split, work), spans


def _below(lift: Lift, above: PublicCounts, observer: Observer, executor: Executor) -> list[_Split]:
    """What every chunk of families found, in order."""
    chunks, spans = lift_chunks(lift, above)

    def done(number: int) -> None:
        observer.advanced(spans[number].last - spans[number].first)

    return gathered(executor, chunks, largest_first(spans), done)


def _chunk(lift: Lift, span: Span, above: PublicCounts) -> _Split:
    children = lift.spine.child_offsets[lift.level - 1]
    parts = []
    for parent in range(span.first, span.last):
        cells, persons = above.entries(parent)
        groups = lift.groups.groups_of(cells)
        inside = np.flatnonzero(lift.cells.part[groups] == cells)
        # Ascending by group, as `_split` wants its columns.
        inside = inside[np.argsort(groups[inside], kind="stable")]
        family = slice(int(children[parent]), int(children[parent + 1]))
        parts.append(_split(lift, family, groups[inside], persons[inside].astype(np.int64)))
    return _Split(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.groups for part in parts]),
        np.concatenate([part.counts for part in parts]),
        sum(part.settled for part in parts),
        sum(part.lifted for part in parts),
    )


def _split(lift: Lift, children: slice, columns: Integers, parent: Integers | None) -> _Split:
    """Split a parent's counts of the part among its children.

    Args:
        lift: The pass.
        children: The children.
        columns: Groups in which the parent has records of the part, ascending; at a root, all that have records.
        parent: The parent's counts, above zero; None at a root.
    """
    n_children = children.stop - children.start
    # Nothing to divide, or a single child, which has its parent's counts.
    if not len(columns) or (parent is not None and n_children == 1):
        counts = np.zeros((n_children, 0), np.int64) if parent is None else np.tile(parent, (n_children, 1))
        is_settled = True
    else:
        leaves = _leaves(lift, children, columns)
        # With one column, a flow to each leaf is no more than a flow to each child.
        if len(columns) == 1:
            leaves = _one_leaf_each(leaves, n_children)
        # Above zero in every column, so that the shares below do not divide by zero.
        base = _base(lift, children, columns)
        if parent is None:
            share = _root_total(lift, children, columns, leaves) / base.sum()
        else:
            share = parent / base.sum(axis=0)
        numbers = np.searchsorted(lift.columns, columns)
        fixed = _group_counts(lift, children, columns)
        target, variance = lift.targets.near(base * share, fixed, children, numbers)
        where = f"{lift.geolevel} '{lift.spine.geocodes[lift.level][children.start]}' and its siblings"
        # Where totals are given, a measured total could not change them.
        totals = None if _are_fixed(leaves) else lift.targets.totals(children, variance)
        counts = split_with_lift(LiftedSplit(where, parent, target, variance, leaves, totals))
        is_settled = False
    row, column = np.nonzero(counts)
    return _Split(
        children.start + row, columns[column], counts[row, column], int(is_settled), int(not is_settled)
    )


def _root_total(lift: Lift, root: slice, columns: Integers, leaves: Leaves) -> float:
    """About how many records of the part a root has: as measured, but within the limits of its finest geounits."""
    # Given totals need no measurement.
    least, most = float(leaves.lower.sum()), float(leaves.upper.sum())
    if _are_fixed(leaves):
        return least
    measured = lift.targets.measured_total(root, np.searchsorted(lift.columns, columns))
    # A noisy total outside its limits is moved to the nearest of them.
    return (least + most) / 2 if measured is None else min(max(measured, least), most)


def _are_fixed(leaves: Leaves) -> bool:
    """Whether the totals of the part are given."""
    return np.array_equal(leaves.lower, leaves.upper)


def _leaves(lift: Lift, children: slice, columns: Integers) -> Leaves:
    """The geounits with limits below some children, or the children themselves where the limits are above them."""
    limits, last = lift.limits, max(lift.level, lift.limits.level)
    # From children down to the geounits that have limits; the geolevels between need no variables of their own.
    ends = np.arange(children.start, children.stop + 1)
    for level in range(lift.level, last):
        ends = lift.spine.child_offsets[level][ends]
    begin, stop = int(ends[0]), int(ends[-1])
    offsets, groups, counts = lift.groups.levels[last]
    entries = slice(int(offsets[begin]), int(offsets[stop]))
    leaf = np.repeat(np.arange(stop - begin), np.diff(offsets[begin : stop + 1]))
    place, inside = places_in(columns, groups[entries])
    leaf, capacity = leaf[inside], counts[entries][inside].astype(np.int64)
    lower, upper = np.zeros((2, stop - begin), dtype=np.int64)
    if lift.level <= limits.level:
        lower, upper = limits.lower[begin:stop], limits.upper[begin:stop]
    else:
        # Below the limits, the only limit is that of the counts in the groups.
        np.add.at(upper, leaf, capacity)
    return Leaves(
        child=np.repeat(np.arange(children.stop - children.start), np.diff(ends)),
        lower=lower,
        upper=upper,
        leaf=leaf,
        column=place[inside].astype(np.int64),
        capacity=capacity,
    )


def _one_leaf_each(leaves: Leaves, n_children: int) -> Leaves:
    """The same limits with one leaf for each child, which is enough where there is one column."""
    most = leaves.upper.copy()
    held = np.zeros_like(most)
    np.add.at(held, leaves.leaf, leaves.capacity)
    # A leaf cannot get more than its groups have.
    most = np.minimum(most, held)
    lower, upper = np.zeros((2, n_children), dtype=np.int64)
    np.add.at(lower, leaves.child, leaves.lower)
    np.add.at(upper, leaves.child, most)
    child = np.arange(n_children)
    return Leaves(child, lower, upper, child, np.zeros(n_children, dtype=np.int64), upper)


def _base(lift: Lift, children: slice, columns: Integers) -> Floats:
    """What the parent's counts are divided in proportion to, shape (children, columns); above zero in every column."""
    fixed = _group_counts(lift, children, columns).astype(np.float64)
    if lift.weights is None:
        return fixed
    everything = np.maximum(fixed.sum(axis=1), 1)
    weighted = fixed * (lift.weights[children] / everything)[:, None]
    # A column without any weight falls back on its fixed counts.
    return np.where(weighted.sum(axis=0) > 0, weighted, fixed)


def _group_counts(lift: Lift, geounits: slice, columns: Integers) -> Integers:
    """Fixed counts of some groups in consecutive geounits, shape (geounits, columns)."""
    offsets, groups, counts = lift.groups.levels[lift.level]
    entries = slice(int(offsets[geounits.start]), int(offsets[geounits.stop]))
    row = np.repeat(
        np.arange(geounits.stop - geounits.start), np.diff(offsets[geounits.start : geounits.stop + 1])
    )
    parts = np.zeros((geounits.stop - geounits.start, len(columns)), dtype=np.int64)
    place, inside = places_in(columns, groups[entries])
    parts[row[inside], place[inside]] = counts[entries][inside]
    return parts
