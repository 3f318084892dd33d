"""Chunks: consecutive families that are measured and estimated in one call of compiled code.

The first family of each chunk depends on the sizes of the families alone, never on the number of workers. The estimate
of a family does not depend on its chunk. So the counts are the same for every division of a geolevel into chunks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, NarrowArray
from tallyveil.estimation.solution import EstimateStatus, FamilySolution, RoundingMethod
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
from tallyveil.measurements.answers import FamilyAnswers
from tallyveil.postprocess.families.problems import FamilyBuilder
from tallyveil.postprocess.families.unsolved import estimate_or_keep
from tallyveil.schema.counts import PublicCounts, narrow

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
