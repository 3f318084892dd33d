"""One pass at one geolevel: every family is gathered and estimated, and how each ended is counted.

A family is gathered from the fixed counts and the measurements.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers, NarrowArray
from tallyveil.budget.allocation import Allocation
from tallyveil.errors import SolverError
from tallyveil.estimation.problem import MeasuredQuery, TileProblem, TileStatus
from tallyveil.estimation.tiles import (
    BACKWARD_ERROR_PERSONS,
    effort_of,
    estimate_tiles,
    status_of,
)
from tallyveil.geography.spine import Spine
from tallyveil.kernels.tiles.chunk import SETTLED, SOLVED, solve_chunk
from tallyveil.kernels.tiles.family import TileChunk
from tallyveil.kernels.tiles.on_threads import Crew, solve_family
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource, answers_on_support
from tallyveil.plans.lifts import possible_cells
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.level import Span, cut, largest_first
from tallyveil.postprocess.passes.groups import FixedGroups
from tallyveil.runs.executor import Chunks, Executor, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import PublicCounts, narrow, places_in
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

LARGE_FAMILY: Final = 1 << 22
"""Children times columns above which a family is estimated by several threads. Below, one thread takes about ten
seconds, and others have families of their own. With half as many, more loops are too short to be divided; with twice as
many, a thread works by itself for twice as long. Counts do not depend on it."""

WEIGHT_OF_CHAIN = 16
"""What a person of deviation costs at every level of a rounding chain, in the kernel's sixteenths."""


@dataclass(frozen=True, slots=True, eq=False)
class PassBuilder:
    """Makes the families of one pass at one geolevel.

    Attributes:
        schema: The universe.
        allocation: The share of the budget of each geounit.
        source: Source of the noisy answers.
        level: Number of the children's geolevel, 0 for the root.
        cells: Query whose answers the pass counts.
        groups: What is fixed in every geounit.
        queries: Query groups that the pass is fitted to at this geolevel; each layer of one whose groups overlap.
        chain: Rounding chain, coarse to fine.
    """

    schema: Schema
    allocation: Allocation
    source: MeasurementSource
    level: int
    cells: QueryGroup
    groups: FixedGroups
    queries: tuple[QueryGroup, ...]
    chain: tuple[QueryGroup, ...]

    @property
    def spine(self) -> Spine:
        """The spine that is measured."""
        return self.allocation.spine

    @property
    def geolevel(self) -> str:
        """Name of the children's geolevel."""
        return self.spine.geolevels[self.level]

    def root(self, geounit: int, possible: Integers) -> TileProblem:
        """The problem of a root: every possible cell of the pass whose group has records.

        Args:
            geounit: Number of the root.
            possible: Representative cells of the possible answers, ascending (`possible_cells`).
        """
        groups = self.groups.groups_of(possible)
        begin, end = self.groups.levels[0].offsets[geounit : geounit + 2]
        present = self.groups.levels[0].groups[begin:end]
        # Only groups that have records in this root; a column in another group is zero.
        place, inside = places_in(present, groups)
        columns, group = possible[inside], place[inside]
        only_family = np.zeros(len(columns), dtype=np.int64)
        code = str(self.spine.geocodes[0][geounit])
        chain = self._chain(columns, only_family, group, np.array([0, len(columns)]))
        return TileProblem(
            geocode=code,
            geolevel=self.geolevel,
            children=(code,),
            columns=columns,
            parent_counts=None,
            group=group.astype(np.int32),
            fixed=self.groups.levels[0].counts[begin:end].astype(np.int64)[None, :],
            measured=tuple(self._measured(number, geounit, columns) for number in range(len(self.queries))),
            chain=tuple(chain),
            chain_weights=np.ones(len(chain)),
        )

    def answers(self, first: int, last: int, above: PublicCounts) -> FamilyAnswers:
        """The measurements that the families of parents first..last need."""
        offsets, cells, _ = above.slice(first, last)
        child_begin = self.spine.child_offsets[self.level - 1][first : last + 1]
        # A single child has its parent's counts, and an empty parent has empty children: neither needs measurements.
        # The same rule as for families of one pass (`FamilyBuilder.answers`).
        settled = (np.diff(child_begin) == 1) | (np.diff(offsets) == 0)
        return answers_on_support(self.geolevel, self.queries, child_begin.copy(), offsets, cells, settled)

    def variances(self, start: int, stop: int) -> Floats:
        """Variances of the answers in squared counts; infinite for a geounit that is not measured."""
        each = [self.allocation.variances(self.geolevel, group.name, start, stop) for group in self.queries]
        return np.array(each, dtype=np.float64).reshape(len(self.queries), stop - start)

    def chunk(
        self, first: int, last: int, above: PublicCounts, wanted: FamilyAnswers, noisy: Integers
    ) -> TileChunk:
        """The families of parents first..last, with the values of their answers."""
        offsets, cells, persons = above.slice(first, last)
        family = np.repeat(np.arange(last - first), np.diff(offsets))
        # Family and group in one number, so that groups of all families are numbered in one sort.
        keys = family * self.groups.size + self.groups.groups_of(cells)
        present, place = np.unique(keys, return_inverse=True)
        begins = np.searchsorted(present, np.arange(last - first + 1) * self.groups.size)
        # Numbered from 0 in each family, as the kernel wants it.
        group = (place.reshape(-1) - begins[family]).astype(np.int32)
        fixed_begin, fixed = self._fixed(wanted.child_begin, present, begins)
        start, stop = int(wanted.child_begin[0]), int(wanted.child_begin[-1])
        chain = self._chain(cells, family, place.reshape(-1).astype(np.int64), offsets)
        return TileChunk(
            offsets=offsets,
            counts=persons,
            group=group,
            child_begin=wanted.child_begin - start,
            fixed_begin=fixed_begin,
            fixed=fixed,
            labels=wanted.columns,
            widths=np.ascontiguousarray(wanted.widths),
            value_begin=wanted.value_begin,
            values=noisy.astype(np.float64),
            weights=1.0 / self.variances(start, stop),
            chain=np.array(chain, dtype=np.int32).reshape(len(chain), len(cells)),
            chain_weight=np.full(len(chain), WEIGHT_OF_CHAIN, dtype=np.int64),
        )

    def _fixed(self, child_begin: Integers, present: Integers, begins: Integers) -> tuple[Integers, Integers]:
        """Counts of each child in each group of its family, child by child; and where each family's begin.

        Args:
            child_begin: First child of each family, and one past the last child.
            present: Family * number of groups + group, of the groups that the families have.
            begins: Where those of each family begin.
        """
        widths, children = np.diff(begins), np.diff(child_begin)
        fixed_begin = np.concatenate([[0], np.cumsum(widths * children)]).astype(np.int64)
        fixed = np.zeros(int(fixed_begin[-1]), dtype=np.int64)
        offsets, groups, counts = self.groups.levels[self.level]
        start, stop = int(child_begin[0]), int(child_begin[-1])
        entries = slice(int(offsets[start]), int(offsets[stop]))
        child = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        family = np.searchsorted(child_begin, child, side="right") - 1
        keys = family * self.groups.size + groups[entries]
        place, inside = places_in(present, keys)
        # A child with records where its parent has none would mean that an earlier pass is wrong: nothing may follow.
        if not inside.all():
            raise SolverError(
                f"{self.geolevel}: a child has records in a group in which its parent has none. Nothing was published; "
                "please report this.",
                code="check-failed",
            )
        fixed[
            fixed_begin[family] + (child - child_begin[family]) * widths[family] + place - begins[family]
        ] = counts[entries]
        return fixed_begin, fixed

    def _chain(self, cells: Integers, family: Integers, sets: Integers, offsets: Integers) -> list[Int32s]:
        """Sets of columns at each level of the chain, numbered from 0 in each family. They are nested.

        Args:
            cells: Columns of all families, one after the other.
            family: Family of each column.
            sets: Sets that the first level divides, rising from family to family.
            offsets: Where each family's columns begin.
        """
        answers = []
        for query in self.chain:
            # One more than the answers: cells in no answer (-1) form a set of their own.
            keys = sets.astype(np.int64) * (query.size + 1) + query.answers_of(cells) + 1
            sets = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
            first = np.zeros(len(offsets) - 1, dtype=np.int64)
            filled = np.diff(offsets) > 0
            if filled.any():
                first[filled] = np.minimum.reduceat(sets, offsets[:-1][filled])
            answers.append((sets - first[family]).astype(np.int32))
        return answers

    def _measured(self, number: int, geounit: int, columns: Integers) -> MeasuredQuery:
        """One query, or one of its layers, measured in a root."""
        group = self.queries[number]
        column_answers = group.answers_of(columns)
        answers, labels = np.unique(column_answers, return_inverse=True)
        # -1, for columns in no answer, comes first; labels are shifted so that it stays -1.
        if len(answers) and answers[0] < 0:
            answers, labels = answers[1:], labels - 1
        noisy = self.source.measure(self.geolevel, group.name, geounit, geounit + 1, answers.astype(np.int64))
        layer = [query.name for query in self.queries[:number]].count(group.name)
        return MeasuredQuery(
            group.name,
            labels.reshape(-1).astype(np.int32),
            noisy.values.astype(np.float64),
            noisy.variances,
            layer,
        )


ROUNDED: Final = {"table_flow": "flows", "wide_table_flow": "wide_flows"}
"""Name in the manifest of each way of rounding, and the field of a family's effort that counts it."""
PASS: Final = "pass"
"""Name of the work in addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class PassOutcome:
    """Counts of one pass at one geolevel.

    Attributes:
        counts: Non-negative whole counts; each answer of the pass by its representative cell.
        solver: Families by status, tables by way of rounding, and the largest backward error, for the manifest.
    """

    counts: PublicCounts
    solver: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Counts of the children of some families, and how these families ended."""

    lengths: Integers
    cells: NarrowArray
    counts: NarrowArray
    status: "Counter[str]"
    rounded: "Counter[str]"
    backward_error: float


def estimate_pass(
    builder: PassBuilder,
    above: PublicCounts | None,
    number: int,
    observer: Observer,
    executor: Executor,
) -> PassOutcome:
    """Estimate a pass at a geolevel from the geolevel above. The counts do not depend on the executor.

    Args:
        builder: Makes the families.
        above: Counts of this pass at the geolevel above; None at the root.
        number: Number of the pass, from 0.
        observer: Receives the number of finished families.
        executor: Runs the chunks.
    Raises:
        SolverError: a rounding failed its proof, which is a defect.
    """
    parts = (
        _roots(builder, observer) if above is None else _chunks(builder, above, number, observer, executor)
    )
    # Children follow each other in the order of chunks, so lengths alone give the offsets.
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))]).astype(
        np.int64
    )
    offsets.setflags(write=False)
    counts = PublicCounts(
        builder.geolevel,
        offsets,
        narrow(np.concatenate([part.cells for part in parts])),
        narrow(np.concatenate([part.counts for part in parts])),
    )
    return PassOutcome(counts, _record(parts))


def _roots(builder: PassBuilder, observer: Observer) -> list[_Part]:
    possible = possible_cells(builder.schema, builder.cells)
    parts = []
    for geounit in range(builder.spine.n_geounits(0)):
        problem = builder.root(geounit, possible)
        solution = estimate_tiles(problem)
        columns = np.flatnonzero(solution.counts[0])
        effort = solution.effort
        parts.append(
            _Part(
                lengths=np.array([len(columns)]),
                cells=narrow(problem.columns[columns]),
                counts=narrow(solution.counts[0][columns]),
                status=Counter({solution.status.value: 1}),
                rounded=Counter({name: getattr(effort, field) for name, field in ROUNDED.items()}),
                backward_error=solution.residual_persons,
            )
        )
        observer.advanced(1)
    return parts


def pass_chunks(
    builder: PassBuilder, above: PublicCounts, number: int, crew: Crew | None = None
) -> tuple[Chunks[_Part], list[Span]]:
    """A pass below a geolevel as chunks that any process of the run can do.

    Args:
        builder, above: As for `estimate_pass`.
        number: Number of the pass, from 0.
        crew: Threads that estimate large families together; None where one thread estimates each.
    Returns:
        The chunks, and the families of each.
    """
    spans = cut(above, builder.spine.child_offsets[builder.level - 1])
    # Chunks return counts; the run's own process writes them.
    folders = ChunkFolders(None)  # a chunk writes nothing but its result

    def work(span: int) -> _Part:
        return _estimated(builder, spans[span], above, crew)

    address = {"work": PASS, "number": number, "geolevel": builder.geolevel}
    return folders.chunks(address, _Part, work), spans


def _chunks(
    builder: PassBuilder, above: PublicCounts, number: int, observer: Observer, executor: Executor
) -> list[_Part]:
    """Outcomes of all chunks, in order. The largest chunks are begun first, so that no core waits long at the end."""
    # One crew for all large families, so that families that are estimated at the same time do not each start threads.
    with Crew(executor.threads) as crew:
        chunks, spans = pass_chunks(builder, above, number, crew if crew.size > 1 else None)

        def done(span: int) -> None:
            observer.advanced(spans[span].last - spans[span].first)

        return gathered(executor, chunks, largest_first(spans), done)


def _estimated(builder: PassBuilder, span: Span, above: PublicCounts, crew: Crew | None) -> _Part:
    wanted = builder.answers(span.first, span.last, above)
    # No name for the noisy answers: those of a large family must be gone before it is solved.
    chunk = builder.chunk(span.first, span.last, above, wanted, builder.source.measure_families(wanted))
    if crew is not None and span.unknowns > LARGE_FAMILY:
        # Above `families.level.LARGEST`, so that the chunk has this family alone.
        solved = solve_family(chunk, BACKWARD_ERROR_PERSONS, crew)
    else:
        solved = solve_chunk(chunk, BACKWARD_ERROR_PERSONS)
    # A parent without records has no columns, and nothing to contradict.
    wrong = np.flatnonzero(
        (solved.ended != SETTLED) & (solved.ended != SOLVED) & (np.diff(chunk.offsets) > 0)
    )
    if len(wrong):
        parent = builder.spine.geocodes[builder.level - 1][span.first + int(wrong[0])]
        raise SolverError(
            f"{builder.spine.geolevels[builder.level - 1]} '{parent}': the rounding of a table fails its proof or the "
            "check of its sums. This is a defect; please report it with the plan. All finished stages are kept.",
            code="family-unsolved",
        )
    efforts = [effort_of(record) for record in solved.effort]
    lengths = np.diff(solved.offsets)
    family = np.repeat(np.arange(span.last - span.first), np.diff(chunk.child_begin))
    # Columns of a family are numbered from its own begin; this finds the parent's cells again.
    begin = chunk.offsets[np.repeat(family, lengths)]
    _, cells, _ = above.slice(span.first, span.last)
    return _Part(
        lengths=lengths,
        cells=narrow(cells[begin + solved.columns]),
        counts=narrow(np.array(solved.counts)),
        status=Counter(status_of(record).value for record in solved.effort),
        rounded=Counter(
            {name: sum(getattr(effort, field) for effort in efforts) for name, field in ROUNDED.items()}
        ),
        backward_error=_largest(solved.gaps),
    )


def _largest(gaps: Floats) -> float:
    return float(gaps[:, 0].max(initial=0.0))


def _record(parts: list[_Part]) -> dict[str, Any]:
    """How the families were solved, for the manifest."""
    status: Counter[str] = sum((part.status for part in parts), Counter())
    rounded: Counter[str] = sum((part.rounded for part in parts), Counter())
    return {
        "families": sum(status.values()),
        "estimate": {ending.value: status[ending.value] for ending in TileStatus if status[ending.value]},
        "rounding": {name: rounded[name] for name in ROUNDED if rounded[name]},
        "rounding_widened": rounded["wide_table_flow"],
        "largest_residual": max(part.backward_error for part in parts),
    }
