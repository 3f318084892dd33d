"""One pass at one geolevel: every family is estimated, and how each ended is counted."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from tallyveil.arrays import Floats, Integers, NarrowArray
from tallyveil.errors import SolverError
from tallyveil.estimation.tiles import (
    BACKWARD_ERROR_PERSONS,
    TileStatus,
    effort_of,
    estimate_tiles,
    status_of,
)
from tallyveil.kernels.tiles.chunk import SETTLED, SOLVED, solve_chunk
from tallyveil.plans.part_cells import possible_cells
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.chunks import Span, cut, largest_first
from tallyveil.postprocess.passes.families import PassBuilder
from tallyveil.runs.executor import Chunks, Executor, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import PublicCounts, narrow

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
    # One BLAS thread: with more, the order of summation depends on the machine (docs/decisions/0001).
    with threadpool_limits(limits=1, user_api="blas"):
        parts = (
            _roots(builder, observer)
            if above is None
            else _chunks(builder, above, number, observer, executor)
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


def pass_chunks(builder: PassBuilder, above: PublicCounts, number: int) -> tuple[Chunks[_Part], list[Span]]:
    """A pass below a geolevel as chunks that any process of the run can do.

    Args:
        builder, above: As for `estimate_pass`.
        number: Number of the pass, from 0.
    Returns:
        The chunks, and the families of each.
    """
    spans = cut(above, builder.spine.child_offsets[builder.level - 1])
    # Chunks return counts; the run's own process writes them.
    folders = ChunkFolders(None)  # a chunk writes nothing but its result

    def work(span: int) -> _Part:
        return _estimated(builder, spans[span], above)

    address = {"work": PASS, "number": number, "geolevel": builder.geolevel}
    return folders.chunks(address, _Part, work), spans


def _chunks(
    builder: PassBuilder, above: PublicCounts, number: int, observer: Observer, executor: Executor
) -> list[_Part]:
    """Outcomes of all chunks, in order. The largest chunks are begun first, so that no core waits long at the end."""
    chunks, spans = pass_chunks(builder, above, number)

    def done(span: int) -> None:
        observer.advanced(spans[span].last - spans[span].first)

    return gathered(executor, chunks, largest_first(spans), done)


def _estimated(builder: PassBuilder, span: Span, above: PublicCounts) -> _Part:
    wanted = builder.answers(span.first, span.last, above)
    # No name for the noisy answers: those of a large family must be gone before it is solved.
    chunk = builder.chunk(span.first, span.last, above, wanted, builder.source.measure_families(wanted))
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
