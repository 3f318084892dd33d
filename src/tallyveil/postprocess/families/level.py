"""Measure one geolevel, estimate every family, and keep the integer counts and the methods that gave them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from tallyveil.estimation.solution import EstimateStatus, RoundingMethod
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.chunks import (
    ChunkOutcome,
    KeepMeasurements,
    Span,
    cut,
    estimate_span,
    largest_first,
)
from tallyveil.postprocess.families.problems import FamilyBuilder
from tallyveil.postprocess.families.unsolved import estimate_or_keep
from tallyveil.runs.executor import Chunks, Executor, Threads, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import PublicCounts, compress_rows, narrow

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
    # One BLAS thread: with more, the order of summation depends on the machine (docs/decisions/0001).
    with threadpool_limits(limits=1, user_api="blas"):
        if above is None:
            return _estimate_roots(builder, observer, folders.unsolved)
        outcomes = _estimate_chunks(builder, above, observer, executor, keep, folders)
    # In order of chunks, whatever the order in which they were completed.
    counts = _joined(builder.geolevel, outcomes)
    return LevelOutcome(
        counts,
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
