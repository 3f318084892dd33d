"""Measure one geolevel, estimate every family, and keep the integer counts and the methods that gave them.

The data that the estimator needs for a parent and its children is gathered from the measurements. A single
family becomes a `FamilyProblem`; a chunk of consecutive families becomes the arrays of the compiled loop,
which measures and estimates them in one call.

The first family of each chunk depends on the sizes of the families alone, never on the number of workers. The
estimate of a family does not depend on its chunk. So the counts are the same for every division of a geolevel
into chunks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, NarrowArray
from tallyveil.budget.allocation import Allocation
from tallyveil.estimation.problem import (
    EstimateStatus,
    EstimationPass,
    FamilyProblem,
    FamilySolution,
    MeasuredQuery,
    RoundingMethod,
    RoundingStage,
)
from tallyveil.geography.spine import Spine
from tallyveil.kernels.family.chunk import (
    CERTIFIED,
    CERTIFIED_BY_MORE_SWEEPS,
    COPIED,
    EMPTY,
    LEFT,
    Chunk,
    Rules,
    estimate_chunk,
)
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource, answer_tables, answers_on_support
from tallyveil.plans.estimating import GeolevelEstimation
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.families.chunk_files import ChunkFolders, estimate_or_keep
from tallyveil.postprocess.families.tree_values import TreeValues
from tallyveil.runs.executor import Chunks, Executor, Threads, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import PublicCounts, compress_rows, narrow
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class FamilyBuilder:
    """Makes the family problems of one geolevel.

    Attributes:
        plan: How the release is estimated.
        allocation: The share of the budget of each geounit.
        level: Number of the children's geolevel, 0 for the root.
        source: Source of the noisy answers.
        constraints: Every constraint of the release.
        queries: The query groups measured at this geolevel; each layer of one whose groups overlap.
        rounding: The query groups of each rounding stage.
        tree: What the families are fitted to instead of the noisy answers; None for the noisy answers themselves.
    """

    plan: StatedPlan
    allocation: Allocation
    level: int
    source: MeasurementSource
    constraints: tuple[ConstraintTable, ...]
    queries: tuple[QueryGroup, ...]
    rounding: tuple[tuple[QueryGroup, ...], ...]
    tree: TreeValues | None = None

    @property
    def spine(self) -> Spine:
        """The hierarchy."""
        return self.allocation.spine

    @property
    def geolevel(self) -> str:
        """Name of the children's geolevel."""
        return self.spine.geolevels[self.level]

    def root(self, start: int, stop: int) -> FamilyProblem:
        """The problem of the roots from `start` up to `stop`: every possible cell, and no parent to sum to."""
        schema = self.plan.schema
        cells = np.arange(schema.size, dtype=np.int64)
        support = cells[schema.possible(cells)]
        return self._problem((0, start), start, stop, support, None)

    @property
    def root_families(self) -> list[tuple[int, int]]:
        """The first root of each family of roots, and the one after its last.

        A root is a family of its own, unless a constraint on a sum binds it to others; these stand side by side.
        """
        last = np.arange(self.spine.n_geounits(0))
        for groups in self._groups:
            # Reversed, so that the first place of each group found is its last geounit.
            first, count = np.unique(groups[::-1], return_index=True)
            last = np.maximum(last, (len(groups) - 1 - count)[np.searchsorted(first, groups)])
        # A family ends where no group that began in it reaches further.
        reached = np.maximum.accumulate(last)
        ends = np.flatnonzero(reached == np.arange(len(last))) + 1
        return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))

    @property
    def binds_siblings(self) -> bool:
        """Whether a constraint is on sums of geounits of this geolevel."""
        return bool(self._groups)

    @property
    def _groups(self) -> list[Integers]:
        """Of each constraint on sums, the group of each geounit."""
        groups_of_tables = (table.groups_at(self.level) for table in self.bounding)
        return [groups for groups in groups_of_tables if groups is not None]

    def family(self, parent: int, counts: PublicCounts) -> FamilyProblem:
        """The problem of a parent's children, on the cells where the parent has people."""
        offsets = self.spine.child_offsets[self.level - 1]
        support, parent_counts = counts.entries(parent)
        start, stop = int(offsets[parent]), int(offsets[parent + 1])
        return self._problem((self.level - 1, parent), start, stop, support, parent_counts)

    @property
    def bounding(self) -> tuple[ConstraintTable, ...]:
        """The constraints that hold at this geolevel."""
        return tuple(table for table in self.constraints if table.reaches(self.level))

    def rules(self) -> Rules:
        """The data that all families of the geolevel share, as arrays."""
        settings = self.plan.estimation_of(self.geolevel)
        n_cells = self.plan.schema.size
        rounding = [(number, group) for number, stage in enumerate(self.rounding) for group in stage]
        bounded = [table.query for table in self.bounding]
        return Rules(
            pass_queries=np.array(
                [[group.name in names for group in self.queries] for names in settings.passes], dtype=np.bool_
            ),
            slack=np.full(len(settings.passes), float(settings.slack)),
            bound_answers=answer_tables(bounded, n_cells),
            bound_sizes=np.array([group.size for group in bounded], dtype=np.int64),
            round_answers=answer_tables([group for _, group in rounding], n_cells),
            round_sizes=np.array([group.size for _, group in rounding], dtype=np.int64),
            stage=np.array([number for number, _ in rounding], dtype=np.int64),
            nearest=np.full(len(self.rounding), settings.target == "nearest"),
        )

    def weights(self, start: int, stop: int) -> Floats:
        """1 / variance of each query's answers in geounits start..stop, shape (queries, stop - start).

        The value is zero for a geounit that is not measured.
        """
        return 1.0 / self.variances(start, stop)

    def variances(self, start: int, stop: int) -> Floats:
        """Variances of the answers in persons squared; infinite for a geounit that is not measured."""
        each = [self.allocation.variances(self.geolevel, group.name, start, stop) for group in self.queries]
        return np.array(each, dtype=np.float64).reshape(len(self.queries), stop - start)

    def answers(self, first: int, last: int, counts: PublicCounts) -> FamilyAnswers:
        """The measurements that the families of parents first..last need."""
        offsets, cells, _ = counts.slice(first, last)
        child_begin = self.spine.child_offsets[self.level - 1][first : last + 1]
        # A single child has its parent's counts, and an empty parent has empty children: neither needs measurements.
        settled = (np.diff(child_begin) == 1) | (np.diff(offsets) == 0)
        return answers_on_support(self.geolevel, self.queries, child_begin.copy(), offsets, cells, settled)

    def chunk(
        self, first: int, last: int, counts: PublicCounts, wanted: FamilyAnswers, values: Floats
    ) -> Chunk:
        """The families of parents first..last, with the values of their answers.

        Constraints must be on single geounits.
        """
        offsets, cells, persons = counts.slice(first, last)
        start, stop = int(wanted.child_begin[0]), int(wanted.child_begin[-1])
        # An array without columns keeps the concatenation defined where nothing is bounded.
        none = np.zeros((stop - start, 0), dtype=np.int64)
        bounding = [table.bounds_of(self.level, start, stop) for table in self.bounding]
        return Chunk(
            offsets=offsets,
            cells=cells,
            counts=persons,
            child_begin=wanted.child_begin - start,
            columns=wanted.columns,
            widths=wanted.widths,
            value_begin=wanted.value_begin,
            values=values,
            weights=self.weights(start, stop),
            lower=np.concatenate([none, *(lower for lower, _ in bounding)], axis=1),
            upper=np.concatenate([none, *(upper for _, upper in bounding)], axis=1),
        )

    def _problem(
        self,
        parent: tuple[int, int],
        start: int,
        stop: int,
        support: Integers,
        parent_counts: Integers | None,
    ) -> FamilyProblem:
        parent_level, parent_geounit = parent
        settings = self.plan.estimation_of(self.geolevel)
        # A single child has its parent's counts, and an empty parent has empty children: neither needs measurements.
        trivial = parent_counts is not None and (stop - start == 1 or len(support) == 0)
        variances = self.variances(start, stop)
        names = [group.name for group in self.queries]
        measured = tuple(
            self._measured(group, names[:number].count(group.name), variances[number], start, support)
            for number, group in enumerate(self.queries)
            # Nothing is measured for a family whose counts are settled; its noisy answers stay undrawn.
            if not trivial
        )
        return FamilyProblem(
            geocode=str(self.spine.geocodes[parent_level][parent_geounit]),
            geolevel=self.spine.geolevels[parent_level],
            children=tuple(str(code) for code in self.spine.geocodes[self.level][start:stop]),
            support=support,
            parent_counts=parent_counts,
            measured=measured,
            constraints=tuple(table.on_support(self.level, start, stop, support) for table in self.bounding),
            passes=(EstimationPass(()),) if trivial else _passes(settings),
            rounding=tuple(
                RoundingStage(
                    tuple((group.name, _labels(group, support)[0]) for group in stage), target=settings.target
                )
                for stage in self.rounding
            ),
        )

    def _measured(
        self, group: QueryGroup, layer: int, variances: Floats, start: int, support: Integers
    ) -> MeasuredQuery:
        labels, answers = _labels(group, support)
        asked = start, start + len(variances), answers
        if self.tree is None:
            noisy = self.source.measure(self.geolevel, group.name, *asked)
            values = noisy.values.astype(np.float64)
        else:
            values = self.tree.answers(self.geolevel, group, *asked)
        return MeasuredQuery(group.name, labels, values, variances, layer)


def _labels(group: QueryGroup, support: Integers) -> tuple[np.ndarray, Integers]:
    """The answers that have a cell on the support, and the position among them of each support cell's answer."""
    answer_of_cell = group.answers_of(support)
    answers, column = np.unique(answer_of_cell, return_inverse=True)
    # Cells in no answer of the query come first as -1, and are taken out of the list of answers.
    if len(answers) and answers[0] < 0:
        answers, column = answers[1:], column - 1
    return column.astype(np.int32).reshape(-1), answers.astype(np.int64)


def _passes(settings: GeolevelEstimation) -> tuple[EstimationPass, ...]:
    return tuple(EstimationPass(names, float(settings.slack)) for names in settings.passes)


KeepMeasurements = Callable[[int, FamilyAnswers, Integers], None]

CHUNKS_WANTED = 24
"""About how many chunks a geolevel is divided into, so that several cores end at about the same time.

With half as many, cores wait longer for the last chunk; with twice as many, each has more calls. Counts do not depend
on it.
"""
SMALLEST, LARGEST = 1 << 15, 1 << 21
"""Largest number of unknowns (children times cells of the parent's support) of a chunk with several families."""

STATUS = {
    EMPTY: EstimateStatus.EMPTY,
    COPIED: EstimateStatus.COPIED,
    CERTIFIED: EstimateStatus.CERTIFIED,
    CERTIFIED_BY_MORE_SWEEPS: EstimateStatus.CERTIFIED_BY_MORE_SWEEPS,
}


@dataclass(frozen=True, slots=True)
class Span:
    """Chunk number `number`: families first..last of a geolevel; `unknowns` measures its work."""

    number: int
    first: int
    last: int
    unknowns: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkOutcome:
    """Estimated counts of a chunk, and how each family ended.

    Attributes:
        span: The families.
        lengths: Number of counts above zero of each child; shape (children,).
        cells: Cells of these counts, ascending within a child.
        counts: The counts, in persons.
        statuses: How each family's estimate was obtained.
        methods: How each family was rounded.
        widened: Number of families whose rounding had to leave the neighbouring integers.
        residual_persons: Largest residual of any family.
    """

    span: Span
    lengths: Integers
    cells: NarrowArray
    counts: NarrowArray
    statuses: tuple[EstimateStatus, ...]
    methods: tuple[RoundingMethod, ...]
    widened: int
    residual_persons: float


def cut(above: PublicCounts, child_begin: Integers) -> list[Span]:
    """Divide the families of a geolevel into chunks of consecutive families.

    Args:
        above: Counts of the parents.
        child_begin: First child of each parent; shape (parents + 1,).
    """
    children = np.diff(child_begin)
    # Work of a family: children times cells of the support; one more, so that empty parents count as well.
    ends = np.cumsum(children * (np.diff(above.offsets) + 1))
    # At SMALLEST and less, the call costs more than the work; above LARGEST, one chunk takes too much memory.
    limit = min(max(int(ends[-1]) // CHUNKS_WANTED, SMALLEST), LARGEST)
    spans: list[Span] = []
    first, done = 0, 0
    while first < len(children):
        # At least one family, however large.
        last = max(int(np.searchsorted(ends, done + limit, side="right")), first + 1)
        spans.append(Span(len(spans), first, last, int(ends[last - 1]) - done))
        first, done = last, int(ends[last - 1])
    return spans


def largest_first(spans: Sequence[Span]) -> list[int]:
    """Numbers of chunks in the order in which to begin them."""
    # By number where equal, so that the order is the same on every machine.
    return [span.number for span in sorted(spans, key=lambda span: (-span.unknowns, span.number))]


def estimate_span(
    builder: FamilyBuilder,
    rules: Rules,
    span: Span,
    above: PublicCounts,
    unsolved: Path | None,
    keep: KeepMeasurements | None = None,
) -> ChunkOutcome:
    """Measure and estimate one chunk.

    Args:
        builder: Makes the family problems of the geolevel.
        rules: Data that all families of the geolevel share.
        span: The families of the chunk.
        above: Counts of the parents.
        unsolved: Folder to which a family is written if its estimate cannot be certified.
        keep: Called with the number, answers and noisy values of the chunk, whatever its families are fitted to.
    Raises:
        ConstraintError, SolverError: as `estimate_family`.
    """
    wanted = builder.answers(span.first, span.last, above)
    if builder.tree is None or keep is not None:
        noisy = builder.source.measure_families(wanted)
        if keep is not None:
            # The noisy answers are kept as drawn, also where families are fitted to values of the tree.
            keep(span.number, wanted, noisy)
    values = noisy.astype(np.float64) if builder.tree is None else builder.tree.families(wanted)
    # Sums of siblings bind families in a way that the compiled loop does not know.
    if builder.binds_siblings:
        outcome = _none_found(span.last - span.first, int(wanted.child_begin[-1] - wanted.child_begin[0]))
    else:
        outcome = _found(rules, builder.chunk(span.first, span.last, above, wanted, values))
    # One family at a time with the slower solvers, which certify their answer or say that they cannot.
    left = {
        int(f): estimate_or_keep(builder.family(span.first + int(f), above), unsolved)
        for f in np.flatnonzero(outcome.ended == LEFT)
    }
    return _with_left(span, outcome, left, wanted.child_begin, above)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What the kernel returned."""

    ended: Integers
    chosen: Bools
    residuals: Floats
    lengths: Integers
    cells: np.ndarray
    counts: Integers


def _found(rules: Rules, chunk: Chunk) -> _Found:
    ended, chosen, residuals, offsets, cells, counts = estimate_chunk(rules, chunk)
    return _Found(ended, chosen, residuals, np.diff(offsets), cells, counts)


def _none_found(n_families: int, n_children: int) -> _Found:
    """All families left: the loop over families takes no constraints on sums of siblings."""
    return _Found(
        np.full(n_families, LEFT, dtype=np.int64),
        np.zeros(n_families, dtype=np.bool_),
        np.zeros(n_families),
        np.zeros(n_children, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros(0, dtype=np.int64),
    )


def _with_left(
    span: Span,
    outcome: _Found,
    left: dict[int, FamilySolution],
    child_begin: Integers,
    above: PublicCounts,
) -> ChunkOutcome:
    """The kernel's results, completed by the results of the families that the kernel did not certify."""
    lengths, cells, counts = outcome.lengths, outcome.cells, outcome.counts
    # Usually no family is left, and then no array is copied.
    if left:
        lengths = lengths.copy()
        ends = np.concatenate([[0], np.cumsum(outcome.lengths)])
        cell_parts, count_parts, done = [], [], 0
        # Families come in order, so each gap in the kernel's cells is filled at its place and nothing is sorted.
        for f, solution in left.items():
            child = int(child_begin[f] - child_begin[0])
            support, _ = above.entries(span.first + f)
            lengths[child : child + len(solution.counts)] = np.count_nonzero(solution.counts, axis=1)
            _, column = np.nonzero(solution.counts)
            cell_parts += [cells[done : ends[child]], support[column]]
            count_parts += [counts[done : ends[child]], solution.counts[solution.counts > 0]]
            done = ends[child]
        cells = np.concatenate([*cell_parts, cells[done:]])
        counts = np.concatenate([*count_parts, counts[done:]])
    statuses = [STATUS.get(int(code), EstimateStatus.EMPTY) for code in outcome.ended]
    methods = [
        RoundingMethod.NETWORK_FLOW if is_chosen else RoundingMethod.FIXED for is_chosen in outcome.chosen
    ]
    for f, solution in left.items():
        statuses[f], methods[f] = solution.status, solution.rounding.method
    return ChunkOutcome(
        span=span,
        lengths=lengths,
        cells=narrow(cells),
        counts=narrow(counts),
        statuses=tuple(statuses),
        methods=tuple(methods),
        widened=sum(solution.rounding.widened for solution in left.values()),
        residual_persons=max(
            [
                float(outcome.residuals[outcome.ended != LEFT].max(initial=0.0)),
                *(solution.residual_persons for solution in left.values()),
            ]
        ),
    )


ONE_THREAD: Final = Threads()
NO_FOLDERS: Final = ChunkFolders(None)
FAMILIES: Final = "families"
"""Name of the work in addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelOutcome:
    """Estimated counts of one geolevel.

    Attributes:
        counts: Non-negative integer counts.
        solver: Families by status and by rounding method, and the largest residual, for the manifest.
    """

    counts: PublicCounts
    solver: dict[str, Any]


def estimate_level(
    builder: FamilyBuilder,
    above: PublicCounts | None,
    observer: Observer,
    *,
    executor: Executor = ONE_THREAD,
    keep: KeepMeasurements | None = None,
    folders: ChunkFolders = NO_FOLDERS,
) -> LevelOutcome:
    """Estimate a geolevel from the one above it. The counts do not depend on the executor.

    Args:
        builder: Makes the family problems of this geolevel.
        above: Estimated counts of the geolevel above; None at the root.
        observer: Receives the number of finished families.
        executor: Runs the chunks.
        keep: Called with the number, answers and noisy values of every chunk, from several threads. It is not called
            for the root, whose support is every cell, so that its full measurements are written anyway.
        folders: Where the release is. A family whose estimate cannot be certified is written to it.
    Raises:
        ConstraintError: a family has no solution.
        SolverError: a family's answer could not be certified.
    """
    if above is None:
        return _estimate_roots(builder, observer, folders.unsolved)
    outcomes = _estimate_chunks(builder, above, observer, executor, keep, folders)
    return joined_outcome(builder.geolevel, outcomes)


def joined_outcome(geolevel: str, outcomes: Sequence[ChunkOutcome]) -> LevelOutcome:
    """The outcome of a geolevel from those of its chunks, in order of chunks."""
    return LevelOutcome(
        _joined(geolevel, outcomes),
        _record(
            Counter(status.value for outcome in outcomes for status in outcome.statuses),
            Counter(method.value for outcome in outcomes for method in outcome.methods),
            sum(outcome.widened for outcome in outcomes),
            max(outcome.residual_persons for outcome in outcomes),
        ),
    )


def n_families(builder: FamilyBuilder) -> int:
    """Number of families of the builder's geolevel."""
    return builder.spine.n_geounits(max(builder.level - 1, 0))


def family_chunks(
    builder: FamilyBuilder,
    above: PublicCounts,
    keep: KeepMeasurements | None,
    folders: ChunkFolders,
) -> tuple[Chunks[ChunkOutcome], list[Span]]:
    """The families below a geolevel as chunks that any process of the run can do.

    Args:
        builder, above, keep, folders: As for `estimate_level`.
    Returns:
        The chunks, and the families of each.
    """
    # Shared by all chunks, and made once for each process.
    rules = builder.rules()
    spans = cut(above, builder.spine.child_offsets[builder.level - 1])

    def work(number: int) -> ChunkOutcome:
        return estimate_span(builder, rules, spans[number], above, folders.unsolved, keep)

    address = {"work": FAMILIES, "geolevel": builder.geolevel}
    return folders.chunks(address, ChunkOutcome, work), spans


def _estimate_chunks(
    builder: FamilyBuilder,
    above: PublicCounts,
    observer: Observer,
    executor: Executor,
    keep: KeepMeasurements | None,
    folders: ChunkFolders,
) -> list[ChunkOutcome]:
    """Outcomes of all chunks, in order. The largest chunks are started first, so that no core waits long at the end."""
    chunks, spans = family_chunks(builder, above, keep, folders)

    def done(number: int) -> None:
        observer.advanced(spans[number].last - spans[number].first)

    # The longest begins first, so that the end is not one core with the largest chunk.
    return gathered(executor, chunks, largest_first(spans), done)


def _joined(geolevel: str, outcomes: Sequence[ChunkOutcome]) -> PublicCounts:
    """Chunks concatenated in order. Geounits are in depth-first order, so nothing has to be sorted."""
    lengths = np.concatenate([outcome.lengths for outcome in outcomes])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    offsets.setflags(write=False)
    cells = narrow(np.concatenate([outcome.cells for outcome in outcomes]))
    return PublicCounts(
        geolevel, offsets, cells, narrow(np.concatenate([outcome.counts for outcome in outcomes]))
    )


def _estimate_roots(builder: FamilyBuilder, observer: Observer, unsolved: Path | None) -> LevelOutcome:
    """Estimate every root as a family of its own, on every possible cell, unless constraints bind several together."""
    rows, cells, counts = [], [], []
    status: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    widened, residual = 0, 0.0
    for first, last in builder.root_families:
        problem = builder.root(first, last)
        solution = estimate_or_keep(problem, unsolved)
        status[solution.status.value] += 1
        methods[solution.rounding.method.value] += 1
        widened += solution.rounding.widened
        residual = max(residual, solution.residual_persons)
        root, column = np.nonzero(solution.counts)
        rows.append(first + root)
        cells.append(problem.support[column])
        counts.append(solution.counts[root, column])
        observer.advanced(last - first)
    compressed = compress_rows(
        builder.spine.n_geounits(0), np.concatenate(rows), np.concatenate(cells), np.concatenate(counts)
    )
    return LevelOutcome(
        PublicCounts(builder.geolevel, *compressed), _record(status, methods, widened, residual)
    )


def _record(
    status: "Counter[str]", methods: "Counter[str]", widened: int, residual_persons: float
) -> dict[str, Any]:
    """How the families were solved, for the manifest."""
    return {
        "families": sum(status.values()),
        "estimate": _in_order(status, [status.value for status in EstimateStatus]),
        "rounding": _in_order(methods, [method.value for method in RoundingMethod]),
        "rounding_widened": widened,
        "largest_residual": residual_persons,
    }


def _in_order(counted: "Counter[str]", names: Iterator[str] | Sequence[str]) -> dict[str, int]:
    return {name: counted[name] for name in names if counted[name]}
