"""Estimate one parent whose fixed counts split it into tables: least squares, then rounding, then checks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.problem import TileProblem, TileStatus
from tallyveil.kernels.tiles.chunk import (
    CG_STEPS_AT,
    COMPONENTS_AT,
    ENTRIES_AT,
    FLOWS_AT,
    PLAIN_AT,
    RESTARTS_AT,
    SETTLED,
    SOLVED,
    STEPS_AT,
    TABLES_AT,
    solve_chunk,
)
from tallyveil.kernels.tiles.family import TileChunk
from tallyveil.kernels.tiles.rounding import ANY_WHOLE, NEIGHBOURS
from tallyveil.kernels.tiles.solver import APPROXIMATE, MORE_STEPS, RESTARTED

BACKWARD_ERROR_PERSONS = 0.1
"""Persons by which the measurements may differ from those for which the estimate is the exact optimum. It is small
beside the noise, which has the same unit. Half of it costs a few more steps of Newton's method; at twice it the
estimate may move by twice as much. The sums hold in any case (docs/proofs/tiles.md)."""


_OF_RUNG = {
    RESTARTED: TileStatus.CERTIFIED_BY_RESTART,
    MORE_STEPS: TileStatus.CERTIFIED_BY_MORE_STEPS,
    APPROXIMATE: TileStatus.APPROXIMATE,
}


@dataclass(frozen=True, slots=True)
class TileEffort:
    """What the estimate took.

    Attributes:
        tables: Tables that were not settled.
        components: Sets of tables that labels couple; each was solved by itself.
        entries: Unknown counts in these tables.
        restarts: How often Newton's method started again.
        steps: Steps of Newton's method.
        cg_steps: Steps of conjugate gradients in all of these.
        flows: Tables that were rounded by a flow among neighbouring whole numbers.
        wide_flows: Tables that were rounded by a flow among all whole numbers.
    """

    tables: int
    components: int
    entries: int
    restarts: int
    steps: int
    cg_steps: int
    flows: int
    wide_flows: int


@dataclass(frozen=True, slots=True)
class TileSolution:
    """Non-negative integer counts of the children.

    Attributes:
        counts: Persons, int64 of shape (C, s), on the problem's columns.
        estimate: The real-valued least-squares answer before rounding, persons, shape (C, s).
        status: How the estimate was obtained (the least certain component decides).
        residual_persons: The backward error: the estimate is the optimum for measurements that differ from the given
            ones by at most so much.
        count_gap_persons: Largest difference between the estimate and what its prices ask for (rounding errors).
        sum_gap_persons: Largest difference between a sum of the estimate and its fixed total (rounding errors).
        effort: What it took.
    """

    counts: Integers
    estimate: Floats
    status: TileStatus
    residual_persons: float
    count_gap_persons: float
    sum_gap_persons: float
    effort: TileEffort


def estimate_tiles(
    problem: TileProblem, *, backward_error_persons: float = BACKWARD_ERROR_PERSONS
) -> TileSolution:
    """Turn noisy measurements of a parent's children into non-negative whole counts with all fixed sums.

    Args:
        problem: The parent.
        backward_error_persons: The estimate must be the exact optimum for measurements that differ from the given ones
            by at most so much.
    Returns:
        Counts that sum to the parent in every column and to the fixed count in every child and group, checked in whole
        numbers. They exist for every problem (docs/proofs/tiles.md).
    Raises:
        SolverError: A rounding failed its proof or the check of its sums, which is a defect.
    Privacy: post-processing; reads only noisy measurements and published statements.
    """
    # One family is a chunk of one, so that no second path of the solver exists.
    solved = solve_chunk(chunk_of_one(problem), float(backward_error_persons), keep_estimates=True)
    ended = int(solved.ended[0])
    if ended not in (SETTLED, SOLVED):
        raise SolverError(
            f"{problem.where}: the rounding of a table fails its proof or the check of its sums; "
            "this is a defect of the rounding, please report it with the plan"
        )
    counts = np.zeros((problem.n_children, problem.n_columns), np.int64)
    # The kernel returns nonzero counts only, child after child.
    child = np.repeat(np.arange(problem.n_children), np.diff(solved.offsets))
    counts[child, solved.columns] = solved.counts
    estimate = solved.estimates.reshape(counts.shape)
    counts.setflags(write=False)
    estimate.setflags(write=False)
    residual, count_gap, sum_gap = (float(gap) for gap in solved.gaps[0])
    return TileSolution(
        counts,
        estimate,
        status_of(solved.effort[0]),
        residual,
        count_gap,
        sum_gap,
        effort_of(solved.effort[0]),
    )


def status_of(record: Integers) -> TileStatus:
    """The status of a family, from the kernel's record of its effort."""
    rungs = record[PLAIN_AT : PLAIN_AT + 4]
    if not rungs.any():
        return TileStatus.SETTLED
    # The last rung that any component needed.
    return _OF_RUNG.get(int(np.flatnonzero(rungs)[-1]), TileStatus.CERTIFIED)


def effort_of(record: Integers) -> TileEffort:
    """The effort of a family, from the kernel's record."""
    return TileEffort(
        tables=int(record[TABLES_AT]),
        components=int(record[COMPONENTS_AT]),
        entries=int(record[ENTRIES_AT]),
        restarts=int(record[RESTARTS_AT]),
        steps=int(record[STEPS_AT]),
        cg_steps=int(record[CG_STEPS_AT]),
        flows=int(record[FLOWS_AT + NEIGHBOURS]),
        wide_flows=int(record[FLOWS_AT + ANY_WHOLE]),
    )


def chunk_of_one(problem: TileProblem) -> TileChunk:
    """A problem as a chunk of one family. Arrays are writeable: others would be compiled for separately."""
    n_queries, n_levels = len(problem.measured), len(problem.chain)
    widths = np.array([query.values.shape[1] for query in problem.measured], np.int64).reshape(n_queries, 1)
    sizes = widths[:, 0] * problem.n_children
    ends = np.cumsum(sizes)
    values = [query.values.reshape(-1) for query in problem.measured]
    none = np.zeros(0, np.int64)
    return TileChunk(
        offsets=np.array([0, problem.n_columns]),
        counts=none if problem.parent_counts is None else problem.parent_counts.copy(),
        group=problem.group.copy(),
        child_begin=np.array([0, problem.n_children]),
        fixed_begin=np.array([0, problem.fixed.size]),
        fixed=problem.fixed.reshape(-1).copy(),
        labels=_stacked([query.labels for query in problem.measured], problem.n_columns),
        widths=widths,
        value_begin=np.stack([ends - sizes, ends], axis=1),
        values=np.concatenate([np.zeros(0), *values]),
        weights=np.array([query.weights for query in problem.measured]).reshape(
            n_queries, problem.n_children
        ),
        chain=_stacked(list(problem.chain), problem.n_columns),
        chain_weight=problem.whole_weights if n_levels else none,
    )


def _stacked(labels: list[np.ndarray], width: int) -> np.ndarray:
    return np.array(labels, np.int32).reshape(len(labels), width)
