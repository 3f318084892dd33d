"""Non-negative weighted least squares of one family, pass after pass."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from tallyveil.estimation.active_set import CERTIFIED_PERSONS, polish
from tallyveil.estimation.interior_point import solve_interior
from tallyveil.estimation.problem import BoolArray, EstimationPass, FamilyProblem, FloatArray, Int32Array
from tallyveil.estimation.program import BlockProgram
from tallyveil.estimation.reduction import Bounds, constraint_bounds, reduce_pass
from tallyveil.estimation.solution import EstimateStatus

LIMIT_PERSONS = 1e-4
ZERO_PERSONS = 1e-9

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeastSquaresAnswer:
    """The last pass's estimate.

    Attributes:
        estimate: Persons, shape (C, s).
        status: CERTIFIED when every pass was, else INTERIOR_POINT.
        residual_persons: Largest residual of any pass; above the limit the answer must not be used.
        infeasible: The solver says that no counts satisfy the rows.
    """

    estimate: FloatArray
    status: EstimateStatus
    residual_persons: float
    infeasible: bool


def solve_passes(
    problem: FamilyProblem, allowed: BoolArray, limit: float = LIMIT_PERSONS
) -> LeastSquaresAnswer:
    """Run the passes in order, each within the slack of the earlier ones' answers.

    Stops at the first pass whose residual is above the limit, and returns that residual.

    Args:
        problem: The family.
        allowed: Where children may be above zero, shape (C, s).
        limit: Largest acceptable residual, persons.
    Source: Abowd et al. 2022, the TopDown algorithm: multi-pass least squares with carried answers.
    """
    bounds = constraint_bounds(problem)
    status, worst = EstimateStatus.CERTIFIED, 0.0
    estimate = np.zeros(allowed.shape)
    for current in problem.passes:
        program, merging = reduce_pass(problem, allowed, current, bounds)
        merged, residual, certified, infeasible = _solve(program, limit)
        estimate, worst = merging.expand(merged), max(worst, residual)
        if residual > limit:
            return LeastSquaresAnswer(estimate, EstimateStatus.INTERIOR_POINT, worst, infeasible)
        if not certified:
            status = EstimateStatus.INTERIOR_POINT
            _log.info("%s: a pass was accepted without a certified face", problem.where)
        carried = _carried(problem, current, estimate)
        bounds, allowed = (*bounds, *carried), _narrow(allowed, carried)
    return LeastSquaresAnswer(estimate, status, worst, False)


def weighted_deviation(problem: FamilyProblem, current: EstimationPass, estimate: FloatArray) -> float:
    """Sum over a pass's queries of (Q x - y)^2 / variance, over the answers that hold a support cell."""
    total = 0.0
    for name in current.queries:
        query = problem.query(name)
        used = np.unique(query.labels[query.labels >= 0])
        answers = _answers(query.labels, query.values.shape[1], estimate)
        total += float(((answers - query.values)[:, used] ** 2).sum()) / query.variance
    return total


def _solve(program: BlockProgram, limit: float) -> tuple[FloatArray, float, bool, bool]:
    """(estimate on the program's cells, residual in persons, certified, infeasible) of one pass."""
    if program.n_variables == 0:
        residual = (
            np.inf
            if (program.rows.lower > 0).any() or (program.sums is not None and program.sums.any())
            else 0.0
        )
        return np.zeros(program.allowed.shape), residual, True, residual > 0
    start, infeasible = solve_interior(program)
    if infeasible or not np.isfinite(start.x).all():
        return np.zeros(program.allowed.shape), np.inf, False, infeasible
    point, residual = polish(program, start)
    return program.spread(point.x), residual, residual <= CERTIFIED_PERSONS, False


def _carried(problem: FamilyProblem, current: EstimationPass, estimate: FloatArray) -> tuple[Bounds, ...]:
    """Rows that keep this pass's answers within its slack."""
    carried = []
    for name in current.queries:
        query = problem.query(name)
        answers = _answers(query.labels, query.values.shape[1], estimate)
        carried.append(Bounds(query.labels, answers - current.slack, answers + current.slack))
    return tuple(carried)


def _narrow(allowed: BoolArray, carried: tuple[Bounds, ...]) -> BoolArray:
    """Take away the cells of answers that must stay at zero, so that later programs keep an interior."""
    allowed = allowed.copy()
    for one in carried:
        used = one.labels >= 0
        allowed[:, used] &= one.upper[:, one.labels[used]] > ZERO_PERSONS
    return allowed


def _answers(labels: Int32Array, n_answers: int, estimate: FloatArray) -> FloatArray:
    """Sums of cells by label, shape (C, k)."""
    n_children = estimate.shape[0]
    used = np.flatnonzero(labels >= 0)
    where = np.arange(n_children)[:, None] * n_answers + labels[used]
    sums = np.bincount(
        where.reshape(-1), weights=estimate[:, used].reshape(-1), minlength=n_children * n_answers
    )
    return sums.reshape(n_children, n_answers).astype(np.float64)
