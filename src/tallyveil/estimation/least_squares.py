"""Non-negative weighted least squares of one family, pass after pass.

Each pass tries one method after another until an answer is certified, and the method that succeeds gives its status:

1. The compiled solver: a descent, and a walk from face to face to the exact optimum.
2. The same with more sweeps and longer walks (`tallyveil.kernels.family.solver`).
3. PIQP's interior-point method, and the compiled walk from its answer (`tallyveil.estimation.interior_point`).
4. The best point of any of these as it is, if its residual is within the limit.

The third and fourth method ran in none of 27,519 families of 79 releases. They stay, since only the machine may stop a
run after the spend: of made-up families of up to 2^32 people, under noise of all sizes that a plan may hold, the first
two leave a third uncertified. In the tests another method in numpy judges all. It shares the carrying of answers and
the lists of constraints with these, and neither the reduction nor the solving.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.estimation.interior_point import solve_interior
from tallyveil.estimation.problem import UNBOUNDED, EstimationPass, FamilyProblem
from tallyveil.estimation.solution import EstimateStatus, least_certain
from tallyveil.kernels.family.certificate import CERTIFIED_PERSONS, squared_deviation
from tallyveil.kernels.family.program import PassArrays
from tallyveil.kernels.family.solver import solve_pass

LIMIT_PERSONS = 1e-4
"""Largest residual of an answer that is used, in persons. Estimates are rounded to whole persons, so 1e-4 decides only
near a half. It is a thousand times what certifies, and no family is known whose residual is between the two: at twice
or half of it no outcome changes."""

ZERO_PERSONS = 1e-9
"""A carried answer whose upper bound is no larger, in persons, must stay at zero. Its cells are forbidden, so that
later passes keep an interior. Answers of certified points are exact zeros or well above: twice or half of it tells the
same."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SumBounds:
    """Bounds on sums of cells, by group of children; a constraint or a carried query.

    Attributes:
        labels: Row of each cell, -1: none.
        lower: Shape (groups, k), -inf: none.
        upper: Shape (groups, k), inf: none.
        groups: Group of each child, shape (C,).
    """

    labels: Int32s | Integers
    lower: Floats
    upper: Floats
    groups: Integers


def constraint_bounds(problem: FamilyProblem) -> tuple[SumBounds, ...]:
    """The problem's constraints with trivial bounds taken away."""
    all_bounds = []
    for rows in problem.constraints:
        # Counts are not negative, so a lower bound of zero or less never binds.
        lower = np.where(rows.lower <= 0, -np.inf, rows.lower.astype(np.float64))
        # an upper bound of zero forbids the cells, so that no row is needed
        upper = np.where((rows.upper >= UNBOUNDED) | (rows.upper <= 0), np.inf, rows.upper.astype(np.float64))
        all_bounds.append(SumBounds(rows.labels, lower, upper, rows.group_of))
    return tuple(all_bounds)


def pass_arrays(
    problem: FamilyProblem, allowed: Bools, current: EstimationPass, bounds: Sequence[SumBounds]
) -> PassArrays:
    """Arrays of one pass.

    Args:
        problem: The family.
        allowed: Where children may be above zero, shape (C, s).
        current: The pass.
        bounds: Constraints and the rows carried from earlier passes, on support cells.
    """
    n_cells, parent = problem.n_cells, problem.parent_counts
    queries = problem.queries(current)
    return PassArrays(
        allowed=np.ascontiguousarray(allowed),
        # A root has no parent's counts to sum to; ones stand for them in the shares of merged cells.
        inhabitants=np.ones(n_cells) if parent is None else parent.astype(np.float64),
        has_sums=parent is not None,
        # Shapes are given even where a list is empty: the kernels are compiled for arrays of two dimensions.
        labels=np.array([query.labels for query in queries], dtype=np.int32).reshape(len(queries), n_cells),
        widths=np.array([query.values.shape[1] for query in queries], dtype=np.int64),
        values=np.concatenate([np.zeros(0), *(query.values.reshape(-1) for query in queries)]),
        weights=np.array([query.weights for query in queries], dtype=np.float64).reshape(
            len(queries), problem.n_children
        ),
        bound_labels=np.array([rows.labels for rows in bounds], dtype=np.int32).reshape(len(bounds), n_cells),
        bound_widths=np.array([rows.lower.shape[1] for rows in bounds], dtype=np.int64),
        bound_groups=np.array([rows.groups for rows in bounds], dtype=np.int64).reshape(
            len(bounds), problem.n_children
        ),
        lower=np.concatenate([np.zeros(0), *(rows.lower.reshape(-1) for rows in bounds)]),
        upper=np.concatenate([np.zeros(0), *(rows.upper.reshape(-1) for rows in bounds)]),
    )


@dataclass(frozen=True, slots=True)
class LeastSquaresAnswer:
    """The last pass's estimate.

    Attributes:
        estimate: Persons, shape (C, s).
        status: The least certain pass's.
        residual_persons: Largest residual of any pass; above the limit the answer must not be used.
    """

    estimate: Floats
    status: EstimateStatus
    residual_persons: float


def solve_passes(problem: FamilyProblem, allowed: Bools, limit: float = LIMIT_PERSONS) -> LeastSquaresAnswer:
    """Run the passes in order, each within the slack of the earlier ones' answers.

    Stops at the first pass whose residual is above the limit, and returns that residual.

    Args:
        problem: The family.
        allowed: Where children may be above zero, shape (C, s).
        limit: Largest acceptable residual, persons.
    Source: Abowd et al. 2022, the TopDown algorithm: multi-pass least squares with carried answers.
    """
    # Bounds of all passes so far; each pass adds rows that keep its answers.
    bounds = constraint_bounds(problem)
    status, worst = EstimateStatus.CERTIFIED, 0.0
    estimate = np.zeros(allowed.shape)
    for number, current in enumerate(problem.passes, start=1):
        answer = _solve(problem, allowed, current, bounds)
        estimate, worst = answer.estimate, max(worst, answer.residual_persons)
        # Later passes would only be held to an answer that must not be used.
        if answer.residual_persons > limit:
            return LeastSquaresAnswer(estimate, EstimateStatus.INTERIOR_POINT, worst)
        if answer.status is not EstimateStatus.CERTIFIED:
            _log.info("%s: a pass ended as '%s'", problem.where, answer.status.value)
        status = least_certain(status, answer.status)
        if number == len(problem.passes):
            break
        # The next pass may not undo this one: its answers are bounds from here on.
        carried = _carried(problem, current, estimate)
        # Zeros are taken out of the support instead of being rows: a row that pins a cell to zero leaves no interior.
        allowed = _narrow(allowed, carried)
        bounds = (*bounds, *(_without_repeats(rows, bounds) for rows in carried))
    return LeastSquaresAnswer(estimate, status, worst)


def weighted_deviation(problem: FamilyProblem, current: EstimationPass, estimate: Floats) -> float:
    """Sum over a pass's queries of (Q x - y)^2 / variance, over the answers that hold a support cell."""
    # Deviations are of answers, whatever cells are allowed; hence all of them here.
    arrays = pass_arrays(problem, np.ones(estimate.shape, dtype=np.bool_), current, ())
    return float(
        squared_deviation(
            arrays.labels, arrays.widths, arrays.values, arrays.weights, np.ascontiguousarray(estimate)
        )
    )


def _solve(
    problem: FamilyProblem, allowed: Bools, current: EstimationPass, bounds: tuple[SumBounds, ...]
) -> LeastSquaresAnswer:
    """One pass, by the first method that certifies it."""
    # A program without variables: only whether its sums and bounds can be zero is left to say.
    if not allowed.any():
        return _solve_nobody(problem, allowed, bounds)
    arrays = pass_arrays(problem, allowed, current, bounds)
    # All compiled rounds are in here; `rounds` says which of them certified.
    compiled = solve_pass(arrays)
    if compiled.residual <= CERTIFIED_PERSONS:
        first = compiled.rounds == 1
        status = EstimateStatus.CERTIFIED if first else EstimateStatus.CERTIFIED_BY_MORE_SWEEPS
        return LeastSquaresAnswer(compiled.estimate, status, compiled.residual)
    estimate, residual = solve_interior(arrays, compiled.estimate)
    if residual <= CERTIFIED_PERSONS:
        return LeastSquaresAnswer(estimate, EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT, residual)
    # Neither is certified. The better one may still be within the limit, which the caller decides.
    if compiled.residual < residual:
        estimate, residual = compiled.estimate, compiled.residual
    return LeastSquaresAnswer(estimate, EstimateStatus.INTERIOR_POINT, residual)


def _solve_nobody(
    problem: FamilyProblem, allowed: Bools, bounds: tuple[SumBounds, ...]
) -> LeastSquaresAnswer:
    """A pass in which no child may have anybody."""
    wanted = problem.parent_counts is not None and bool(problem.parent_counts.any())
    wanted = wanted or any((rows.lower > 0).any() for rows in bounds)
    return LeastSquaresAnswer(np.zeros(allowed.shape), EstimateStatus.CERTIFIED, np.inf if wanted else 0.0)


def _carried(problem: FamilyProblem, current: EstimationPass, estimate: Floats) -> tuple[SumBounds, ...]:
    """Rows that keep this pass's answers within its slack."""
    carried = []
    for query in problem.queries(current):
        answers = _answers(query.labels, query.values.shape[1], estimate)
        # Rows tighter than the rounding errors of their own sums could contradict each other.
        slack = max(current.slack, _blur(answers))
        carried.append(SumBounds(query.labels, answers - slack, answers + slack, np.arange(len(answers))))
    return tuple(carried)


def _without_repeats(carried: SumBounds, bounds: tuple[SumBounds, ...]) -> SumBounds:
    """Leave out the carried bounds of the second of two children whose sum is exact: they repeat the first one's.

    The price of a row that repeats another is arbitrary, and the walk from face to face would wait for its sign.
    """
    lower, upper = carried.lower.copy(), carried.upper.copy()
    for rows in bounds:
        # Only pairs: there the second child's row is the first one's with its sign turned.
        pairs = np.flatnonzero(np.bincount(rows.groups) == 2)
        second = np.array([np.flatnonzero(rows.groups == pair)[1] for pair in pairs], dtype=np.int64)
        for k in range(rows.lower.shape[1] if pairs.size else 0):
            answer = _same_cells(rows.labels == k, carried.labels)
            if answer >= 0:
                # The pair's sum is exact, so that the first child's row implies the second's.
                repeats = second[rows.lower[pairs, k] == rows.upper[pairs, k]]
                lower[repeats, answer], upper[repeats, answer] = -np.inf, np.inf
    return replace(carried, lower=lower, upper=upper)


def _same_cells(row: Bools, labels: Int32s | Integers) -> int:
    """The answer that counts exactly these cells, or -1."""
    # Equal sets of cells: all cells of the row have one label, and no other cell has it.
    inside = np.unique(labels[row])
    if inside.size != 1 or inside[0] < 0 or (labels[~row] == inside[0]).any():
        return -1
    return int(inside[0])


def _blur(answers: Floats) -> float:
    """Rounding error of sums of such answers, in persons, where it is more than what certifies a point; else 0.

    From 2^27 persons on, rows that must hold a sum exactly may contradict the parent's counts in the last bits.
    """
    # Eight units in the last place: a sum of a family's cells passes through a few such roundings.
    blur = 8.0 * float(np.spacing(np.abs(answers).max(initial=0.0)))
    return blur if blur > CERTIFIED_PERSONS else 0.0


def _narrow(allowed: Bools, carried: tuple[SumBounds, ...]) -> Bools:
    """Take away the cells of answers that must stay at zero, so that later programs keep an interior."""
    allowed = allowed.copy()
    for rows in carried:
        used = rows.labels >= 0
        allowed[:, used] &= (rows.upper[:, rows.labels[used]] > ZERO_PERSONS)[rows.groups]
    return allowed


def _answers(labels: Int32s, n_answers: int, estimate: Floats) -> Floats:
    """Sums of cells by label, shape (C, k)."""
    n_children = estimate.shape[0]
    used = np.flatnonzero(labels >= 0)
    # One bincount over (child, answer) numbers is faster than an unbuffered add.
    where = np.arange(n_children)[:, None] * n_answers + labels[used]
    sums = np.bincount(
        where.reshape(-1), weights=estimate[:, used].reshape(-1), minlength=n_children * n_answers
    )
    return sums.reshape(n_children, n_answers).astype(np.float64)
