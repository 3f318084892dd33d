"""A lift pass at one geolevel: how many records of each group belong to a part, such as householders.

The part has a total, or limits of its total, in every geounit of a geolevel: mostly the finest. Each family
is one flow that reaches down to these geounits (`estimation.leaf_lift`), so that all families below it keep a
solution. Below them, any counts that sum to the parent's are possible.

A cell of the part is a sum of answers of a measured query. Of the queries that give such sums, the one is
taken whose sums vary least. The noise of a sum of m answers has m times the variance of one.

*Targets*: a child's count y should be near a weighted mean of two numbers. One is the parent's y times the
child's share of a base: of the fixed counts of the group, or of the adults among the residents of units. Call
it q. Its variance is set to 0.5 + 0.05 q + 0.01 q^2, which is a choice and not an estimate: households of
neighbouring places are alike, but not equal. The other number is the sum of the noisy answers that make up
the cell. If the rest of each group is a sum of no more answers on average, the other number is the mean of
two numbers: this sum, and the fixed count of the group less the noisy sum of the rest. Each has a weight in
proportion to the number of answers in the other. Noisy answers are left out of a family where none of its
cells would give them 4 % of the weight: for a block, that would be hundreds of answers for one count, and
they would change little. A root has no parent. Its q is the base times the measured share of the part in the
whole base.

A coarser query may have measured the total of the part in a child, with less noise than the sum of all cells
has. This noisy total is then a target of its own, with its own variance. It is left out of a family where it
would have less than 4 % of the weight against the total of the cells' targets in every child.

Worked case: a tract has 30 householders among 100 adults, and one of its block groups has 40 of these adults.
So q is 12, and its variance 0.5 + 0.6 + 1.44 = 2.54. A noisy sum of 15 with variance 7.62 gets a quarter of
the weight. The target is 12.75.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.budget.outer_pass import Prior
from tallyveil.estimation.leaf_lift import Leaves, LiftedSplit, Totals, split_with_lift
from tallyveil.estimation.problem import TileStatus
from tallyveil.geography.spine import Spine
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.plans.lifts import PartCells
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.level import Span, cut, largest_first
from tallyveil.postprocess.passes.groups import FixedGroups
from tallyveil.postprocess.passes.level import PassOutcome
from tallyveil.postprocess.passes.part_limits import PartLimits
from tallyveil.runs.executor import Chunks, Executor, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import PublicCounts, TripletSum, entries_of_rows, places_in
from tallyveil.schema.nested_queries import determines, meet, representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

# 32 MiB of noisy values at once; twice as many would double it, and half costs more calls. Sums stay the same.
VALUES_AT_ONCE = 1 << 22


Terms = tuple[Integers, Integers]
"""Where the answers of each column begin, shape (columns + 1,); and numbers of answers of a query, column by column."""


@dataclass(frozen=True, slots=True, eq=False)
class PartAnswers:
    """The measured answers whose sums are the cells of a part, at one geolevel.

    Attributes:
        geolevel: The geolevel.
        query: The measured query.
        begin: Where the answers of each column begin, shape (columns + 1,).
        answers: Numbers of answers of the query, column by column.
        variances: Variance of one answer of each geounit; infinite for a geounit that is not measured.
    """

    geolevel: str
    query: str
    begin: Integers
    answers: Integers
    variances: Floats

    def as_few_as(self, other: "PartAnswers") -> bool:
        """Whether every column has answers, and on average no more than in another list of answers."""
        terms = np.diff(self.begin)
        return bool((terms > 0).all()) and len(self.answers) <= len(other.answers)

    def variance(self, geounits: slice, columns: Integers) -> Floats:
        """Variance of the sum of each column in each of some geounits, in squared counts."""
        terms = np.diff(self.begin)[columns].astype(np.float64)
        return self.variances[geounits][:, None] * terms

    def sums(self, source: MeasurementSource, geounits: slice, columns: Integers) -> Integers:
        """The noisy sums, shape (geounits, columns).

        Args:
            source: Source of the noisy answers.
            geounits: Consecutive geounits.
            columns: Numbers of columns.
        """
        terms = np.diff(self.begin)[columns]
        begins = np.cumsum(terms) - terms
        wanted = self.answers[entries_of_rows(self.begin, columns)]
        # The source wants answers in ascending order; they are put back by column below.
        order = np.argsort(wanted, kind="stable")
        column = np.repeat(np.arange(len(columns)), terms)[order]
        by_column = np.argsort(column, kind="stable")
        sums = np.empty((geounits.stop - geounits.start, len(columns)), dtype=np.int64)
        step = max(1, VALUES_AT_ONCE // max(1, len(wanted)))
        for start in range(geounits.start, geounits.stop, step):
            stop = min(start + step, geounits.stop)
            noisy = source.measure(self.geolevel, self.query, start, stop, wanted[order])
            begin = slice(start - geounits.start, stop - geounits.start)
            # reduceat needs a run that is not empty for each column; `as_few_as` requires this of the rest.
            sums[begin] = np.add.reduceat(noisy.values[:, by_column], begins, axis=1)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class PartQueries:
    """The queries whose answers add up to the cells of a part. Each query is looked at once for all geolevels.

    Attributes:
        schema: The universe.
        cells: Cells of the pass that count the part.
        part_cells: The representative cell of each column.
    """

    schema: Schema
    cells: QueryGroup
    part_cells: Integers
    _known: dict[str, Terms | None] = field(default_factory=dict, init=False, repr=False)

    def at(self, geolevel: str, measured: Sequence[str], allocation: Allocation) -> PartAnswers | None:
        """The answers that tell most about the part; None where no measured query tells its cells apart.

        Args:
            geolevel: The geolevel.
            measured: Queries that are measured there.
            allocation: The share of the budget of each geounit.
        """
        n_geounits = allocation.spine.n_geounits(allocation.spine.geolevels.index(geolevel))
        sums = []
        for name in measured:
            if name not in self._known:
                self._known[name] = self._terms(self.schema.query(name))
            terms = self._known[name]
            if terms is not None:
                variances = np.asarray(allocation.variances(geolevel, name, 0, n_geounits))
                sums.append(PartAnswers(geolevel, name, *terms, variances))
        # Of several queries the least noise; the first one where equal.
        return min(sums, key=_typical_variance, default=None)

    def _terms(self, query: QueryGroup) -> Terms | None:
        """The answers of a query that make up each cell; None where it does not tell the cells apart."""
        # Answers that overlap have correlated noise, so that m times the variance of one would be wrong.
        if query.overlaps or not determines(query, self.cells, self.schema.barred_levels()):
            return None
        both = meet(query, self.cells)
        sums = representative_cells(both, self.schema.possible_answers(both).astype(np.int64))
        wanted = self.cells.answers_of(self.part_cells)
        order = np.argsort(wanted, kind="stable")
        place, inside = places_in(wanted[order], self.cells.answers_of(sums))
        column = order[place[inside]]
        by_column = np.argsort(column, kind="stable")
        begin = np.searchsorted(column[by_column], np.arange(len(wanted) + 1))
        return begin, query.answers_of(sums)[inside][by_column]


def _typical_variance(answers: PartAnswers) -> float:
    return float(np.diff(answers.begin).mean() * answers.variances.min(initial=np.inf))


# Below 4 % the answers move the target little; a block would need hundreds of draws for it. Half draws far more.
SMALLEST_WEIGHT: Final = 0.04
"""Noisy answers are left out of a family where they would have less weight than this in every cell."""


FIRST: Final = np.zeros(1, dtype=np.int64)
"""The one column of answers about the whole part."""


@dataclass(frozen=True, slots=True, eq=False)
class PartTargets:
    """Where the targets of a part come from at one geolevel.

    Attributes:
        source: Source of the noisy answers.
        answers: Noisy answers whose sums are the cells of the part, if there are some at this geolevel.
        rest: Noisy answers of the same query whose sums are the rest of each group, if they are no more.
        total: Noisy answers whose sum is the whole part, of another query.
        prior: What is known before the noisy answers. "none": nothing, where there are noisy answers about cells.
    """

    source: MeasurementSource
    answers: PartAnswers | None
    rest: PartAnswers | None
    total: PartAnswers | None
    prior: Prior

    def near(
        self, near: Floats, fixed: Integers, children: slice, numbers: Integers
    ) -> tuple[Floats, Floats]:
        """The targets of a family and their variances, both of shape (children, columns).

        Args:
            near: The parent's counts times the children's shares of the base, of the same shape.
            fixed: The children's fixed counts of the groups, of the same shape.
            children: The children.
            numbers: Numbers of the columns among all columns of the pass.
        """
        # A chosen spread and no estimate (see above): 0.5 for small counts, 1 % of the square for large ones.
        variance = 0.5 + 0.05 * near + 0.01 * near**2
        if self.answers is None:
            return near, variance
        noise = self._noise(self.answers, children, numbers)
        weight = (
            np.where(np.isfinite(noise), 1.0, 0.0) if self.prior == "none" else variance / (variance + noise)
        )
        # Not drawn at all where it would say too little, which saves most of the time of a pass.
        if not bool((weight >= SMALLEST_WEIGHT).any()):
            return near, variance
        noisy = self._noisy(self.answers, fixed, children, numbers)
        # Inverse-variance weights: the mean moves by `weight`, and its variance shrinks by the same share.
        return near + weight * (noisy - near), np.where(weight < 1, variance * (1 - weight), noise)

    def _noise(self, answers: PartAnswers, children: slice, numbers: Integers) -> Floats:
        """Variance of what the noisy answers say of each cell."""
        noise = answers.variance(children, numbers)
        return noise if self.rest is None else noise * _weight(answers, self.rest, numbers)

    def _noisy(self, answers: PartAnswers, fixed: Integers, children: slice, numbers: Integers) -> Floats:
        """What the noisy answers say of each cell."""
        sums = answers.sums(self.source, children, numbers).astype(np.float64)
        if self.rest is None:
            return sums
        # Fixed count less the noisy rest is a second, independent measurement of the same cell.
        left = fixed - self.rest.sums(self.source, children, numbers)
        return left + _weight(answers, self.rest, numbers) * (sums - left)

    def totals(self, children: slice, variance: Floats) -> Totals | None:
        """The targets of the totals of a family; None where they would say too little.

        Args:
            children: The children.
            variance: Variances of the targets of the cells, shape (children, columns).
        """
        if self.total is None:
            return None
        noise = self.total.variance(children, FIRST)[:, 0]
        spread = variance.sum(axis=1)
        # All children or none: totals of some siblings alone would bias those of the others.
        if not bool(np.isfinite(noise).all() and (spread >= SMALLEST_WEIGHT * (spread + noise)).any()):
            return None
        return Totals(self.total.sums(self.source, children, FIRST)[:, 0].astype(np.float64), noise)

    def measured_total(self, geounits: slice, numbers: Integers) -> float | None:
        """Sum of the noisy answers that tell most about the total of the part; None where it is not measured."""
        for answers, columns in ((self.total, FIRST), (self.answers, numbers)):
            if answers is not None and bool(np.isfinite(answers.variance(geounits, columns)).all()):
                return float(answers.sums(self.source, geounits, columns).sum())
        return None


def _weight(answers: PartAnswers, rest: PartAnswers, numbers: Integers) -> Floats:
    """Weight of the noisy cells of the part against what the noisy rest leaves, by column."""
    sums, others = (np.diff(answer_list.begin)[numbers].astype(np.float64) for answer_list in (answers, rest))
    return others / (sums + others)


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
