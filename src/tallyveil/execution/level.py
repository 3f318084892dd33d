"""One geolevel: measure it, estimate every family, keep the integer counts and how they were obtained."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.estimation.solution import FamilySolution
from tallyveil.execution.families import FamilyBuilder
from tallyveil.execution.observer import Observer
from tallyveil.universe.counts import PublicCounts, compress_rows


@dataclass(frozen=True, slots=True, eq=False)
class LevelOutcome:
    """Estimated counts of one geolevel.

    Attributes:
        counts: Non-negative integer counts.
        solver: Families by status and by rounding method, and the largest residual, for the manifest.
    """

    counts: PublicCounts
    solver: dict[str, Any]


def estimate_level(builder: FamilyBuilder, above: PublicCounts | None, observer: Observer) -> LevelOutcome:
    """Estimate a geolevel from the one above it.

    Args:
        builder: Makes the family problems of this geolevel.
        above: Estimated counts of the geolevel above; None at the root.
        observer: Told of every finished family.
    Raises:
        ConstraintError: a family has no solution.
        SolverError: a family's answer could not be certified.
    """
    tally = _Tally()
    rows, cells, counts = [], [], []
    # One BLAS thread: with more, sums are split differently on every machine (docs/decisions/0001).
    with threadpool_limits(limits=1, user_api="blas"):
        for first, problem in _problems(builder, above):
            solution = estimate_family(problem)
            tally.add(solution)
            child, column = np.nonzero(solution.counts)
            rows.append(first + child)
            cells.append(problem.support[column])
            counts.append(solution.counts[child, column])
            observer.advanced(1)
    n_geounits = builder.spine.n_geounits(builder.level)
    compressed = compress_rows(
        n_geounits, np.concatenate(rows), np.concatenate(cells), np.concatenate(counts)
    )
    return LevelOutcome(PublicCounts(builder.geolevel, *compressed), tally.record())


def compile_kernels() -> None:
    """Estimate the smallest family there is, so that compiling happens once and where it can be told.

    Compiled code is kept on disk: on every later run this takes a moment.
    """
    cells = np.array([0, 1], dtype=np.int32)
    both = np.zeros(2, dtype=np.int32)
    values = np.array([[2, 0], [1, 3]])
    bound = LinearConstraint("one", both, np.array([[1], [0]]), np.array([[9], [UNBOUNDED]]))
    estimate_family(
        FamilyProblem(
            geocode="",
            geolevel="",
            children=("", ""),
            support=np.arange(2),
            parent_counts=np.array([3, 4]),
            measured=(
                MeasuredQuery("total", both, values.sum(axis=1, keepdims=True), 1.0),
                MeasuredQuery("detailed", cells, values, 2.0),
            ),
            constraints=(bound,),
            passes=(EstimationPass(("total",), 0.1), EstimationPass(("detailed",))),
            rounding=(RoundingStage((("total", both),)), RoundingStage((("detailed", cells),))),
        )
    )


def n_families(builder: FamilyBuilder) -> int:
    """Number of families of the builder's geolevel."""
    return builder.spine.n_geounits(max(builder.level - 1, 0))


def _problems(builder: FamilyBuilder, above: PublicCounts | None) -> Iterator[tuple[int, FamilyProblem]]:
    """Each family with the index of its first child."""
    for parent in range(n_families(builder)):
        if above is None:
            yield parent, builder.root(parent)
        else:
            first = int(builder.spine.child_offsets[builder.level - 1][parent])
            yield first, builder.family(parent, above)


class _Tally:
    """Counts of how families were solved."""

    def __init__(self) -> None:
        self._status: Counter[str] = Counter()
        self._rounding: Counter[str] = Counter()
        self._widened = 0
        self._residual = 0.0

    def add(self, solution: FamilySolution) -> None:
        self._status[solution.status.value] += 1
        self._rounding[solution.rounding.method.value] += 1
        self._widened += solution.rounding.widened
        self._residual = max(self._residual, solution.residual_persons)

    def record(self) -> dict[str, Any]:
        return {
            "families": sum(self._status.values()),
            "estimate": dict(self._status),
            "rounding": dict(self._rounding),
            "rounding_widened": self._widened,
            "largest_residual_persons": self._residual,
        }
