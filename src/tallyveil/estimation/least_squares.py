"""Non-negative weighted least squares of one family, pass after pass.

Each pass tries one method after another until an answer is certified, and the method that succeeds gives its status:

1. Compiled descent and active-set polish.
2. The same with more sweeps.
3. An interior-point method, followed by the active-set polish in numpy.
4. The third method for the difference to a close point, which large counts need.
5. The interior point's answer as it is, if its residual is within the limit.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.estimation.active_set import CERTIFIED_PERSONS, polish
from tallyveil.estimation.interior_point import solve_interior
from tallyveil.estimation.pass_arrays import pass_arrays
from tallyveil.estimation.problem import EstimationPass, FamilyProblem
from tallyveil.estimation.program import BlockProgram, centred
from tallyveil.estimation.reduction import Bounds, constraint_bounds, reduce_pass
from tallyveil.estimation.solution import EstimateStatus, least_certain
from tallyveil.kernels.family.certificate import squared_deviation
from tallyveil.kernels.family.solver import solve_pass

LIMIT_PERSONS = 1e-4
ZERO_PERSONS = 1e-9
MOST_CENTRES = 3
"""Close points that are tried in turn, each the answer around the one before."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeastSquaresAnswer:
    """The last pass's estimate.

    Attributes:
        estimate: Persons, shape (C, s).
        status: The least certain pass's.
        residual_persons: Largest residual of any pass; above the limit the answer must not be used.
        infeasible: The solver says that no counts satisfy the rows.
    """

    estimate: Floats
    status: EstimateStatus
    residual_persons: float
    infeasible: bool


def solve_passes(problem: FamilyProblem, allowed: Bools, limit: float = LIMIT_PERSONS) -> LeastSquaresAnswer:
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
    for number, current in enumerate(problem.passes, start=1):
        answer = _solve(problem, allowed, current, bounds)
        estimate, worst = answer.estimate, max(worst, answer.residual_persons)
        if answer.residual_persons > limit:
            return LeastSquaresAnswer(estimate, EstimateStatus.INTERIOR_POINT, worst, answer.infeasible)
        if answer.status is not EstimateStatus.CERTIFIED:
            _log.info("%s: a pass ended as '%s'", problem.where, answer.status.value)
        status = least_certain(status, answer.status)
        if number == len(problem.passes):
            break
        carried = _carried(problem, current, estimate)
        allowed = _narrow(allowed, carried)
        bounds = (*bounds, *(_without_repeats(one, bounds) for one in carried))
    return LeastSquaresAnswer(estimate, status, worst, False)


def weighted_deviation(problem: FamilyProblem, current: EstimationPass, estimate: Floats) -> float:
    """Sum over a pass's queries of (Q x - y)^2 / variance, over the answers that hold a support cell."""
    arrays = pass_arrays(problem, np.ones(estimate.shape, dtype=np.bool_), current, ())
    return float(
        squared_deviation(
            arrays.labels, arrays.widths, arrays.values, arrays.weights, np.ascontiguousarray(estimate)
        )
    )


def _solve(
    problem: FamilyProblem, allowed: Bools, current: EstimationPass, bounds: tuple[Bounds, ...]
) -> LeastSquaresAnswer:
    """One pass, by the first method that certifies it."""
    if not allowed.any():
        return _solve_nobody(problem, allowed, bounds)
    compiled = solve_pass(pass_arrays(problem, allowed, current, bounds))
    if compiled.residual <= CERTIFIED_PERSONS:
        first = compiled.rounds == 1
        status = EstimateStatus.CERTIFIED if first else EstimateStatus.CERTIFIED_BY_MORE_SWEEPS
        return LeastSquaresAnswer(compiled.estimate, status, compiled.residual, False)
    fallback = _solve_interior(problem, allowed, current, bounds, compiled.estimate)
    if fallback.infeasible or fallback.residual_persons <= compiled.residual:
        return fallback
    return LeastSquaresAnswer(compiled.estimate, fallback.status, compiled.residual, False)


def _solve_nobody(problem: FamilyProblem, allowed: Bools, bounds: tuple[Bounds, ...]) -> LeastSquaresAnswer:
    """A pass in which no child may have anybody."""
    wanted = problem.parent_counts is not None and bool(problem.parent_counts.any())
    wanted = wanted or any((one.lower > 0).any() for one in bounds)
    return LeastSquaresAnswer(
        np.zeros(allowed.shape), EstimateStatus.CERTIFIED, np.inf if wanted else 0.0, wanted
    )


def _solve_interior(
    problem: FamilyProblem,
    allowed: Bools,
    current: EstimationPass,
    bounds: tuple[Bounds, ...],
    near: Floats,
) -> LeastSquaresAnswer:
    """One pass by an interior-point method and the polish in numpy, which share no code with the kernels.

    If that certifies nothing, the same is tried for the difference to a close point: the point just found or, if there
    is none, `near`.
    """
    program, merging = reduce_pass(problem, allowed, current, bounds)
    x, residual, infeasible = _polished(program)
    if residual > CERTIFIED_PERSONS:
        start = x if np.isfinite(residual) else merging.merge(near)[program.child, program.cell]
        for _ in range(MOST_CENTRES):
            around = centred(program, start)
            difference, found, _ = _polished(around)
            if not np.isfinite(found):
                break
            start = around.centre + difference
            if found < residual:
                x, residual, infeasible = start, found, False
            if residual <= CERTIFIED_PERSONS:
                break
    if not np.isfinite(residual):
        return LeastSquaresAnswer(np.zeros(allowed.shape), EstimateStatus.INTERIOR_POINT, np.inf, infeasible)
    certified = residual <= CERTIFIED_PERSONS
    status = EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT if certified else EstimateStatus.INTERIOR_POINT
    return LeastSquaresAnswer(merging.expand(program.spread(x)), status, residual, False)


def _polished(program: BlockProgram) -> tuple[Floats, float, bool]:
    """The interior point's answer after the polish, its residual, and whether the method says there is none."""
    start, infeasible = solve_interior(program)
    if infeasible or not np.isfinite(start.x).all():
        return start.x, np.inf, infeasible
    point, residual = polish(program, start)
    return point.x, residual, False


def _carried(problem: FamilyProblem, current: EstimationPass, estimate: Floats) -> tuple[Bounds, ...]:
    """Rows that keep this pass's answers within its slack."""
    carried = []
    for query in problem.queries(current):
        answers = _answers(query.labels, query.values.shape[1], estimate)
        slack = max(current.slack, _blur(answers))
        carried.append(Bounds(query.labels, answers - slack, answers + slack, np.arange(len(answers))))
    return tuple(carried)


def _without_repeats(carried: Bounds, bounds: tuple[Bounds, ...]) -> Bounds:
    """Leave out the carried bounds of the second of two children whose sum is exact: they repeat the first one's.

    The price of a row that repeats another is arbitrary, and the walk from face to face would wait for its sign.
    """
    lower, upper = carried.lower.copy(), carried.upper.copy()
    for one in bounds:
        pairs = np.flatnonzero(np.bincount(one.groups) == 2)
        second = np.array([np.flatnonzero(one.groups == pair)[1] for pair in pairs], dtype=np.int64)
        for k in range(one.lower.shape[1] if pairs.size else 0):
            answer = _same_cells(one.labels == k, carried.labels)
            if answer >= 0:
                repeats = second[one.lower[pairs, k] == one.upper[pairs, k]]
                lower[repeats, answer], upper[repeats, answer] = -np.inf, np.inf
    return replace(carried, lower=lower, upper=upper)


def _same_cells(row: Bools, labels: Int32s | Integers) -> int:
    """The answer that counts exactly these cells, or -1."""
    inside = np.unique(labels[row])
    if inside.size != 1 or inside[0] < 0 or (labels[~row] == inside[0]).any():
        return -1
    return int(inside[0])


def _blur(answers: Floats) -> float:
    """Rounding error of sums of such answers, in persons, where it is more than what certifies a point; else 0.

    From 2^27 persons on, rows that must hold a sum exactly may contradict the parent's counts in the last bits.
    """
    blur = 8.0 * float(np.spacing(np.abs(answers).max(initial=0.0)))
    return blur if blur > CERTIFIED_PERSONS else 0.0


def _narrow(allowed: Bools, carried: tuple[Bounds, ...]) -> Bools:
    """Take away the cells of answers that must stay at zero, so that later programs keep an interior."""
    allowed = allowed.copy()
    for one in carried:
        used = one.labels >= 0
        allowed[:, used] &= (one.upper[:, one.labels[used]] > ZERO_PERSONS)[one.groups]
    return allowed


def _answers(labels: Int32s, n_answers: int, estimate: Floats) -> Floats:
    """Sums of cells by label, shape (C, k)."""
    n_children = estimate.shape[0]
    used = np.flatnonzero(labels >= 0)
    where = np.arange(n_children)[:, None] * n_answers + labels[used]
    sums = np.bincount(
        where.reshape(-1), weights=estimate[:, used].reshape(-1), minlength=n_children * n_answers
    )
    return sums.reshape(n_children, n_answers).astype(np.float64)
