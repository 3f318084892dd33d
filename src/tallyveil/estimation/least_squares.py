"""Non-negative weighted least squares of one family, pass after pass.

Each pass tries one method after another until an answer is certified, and the method that succeeds gives its status:

1. The compiled solver: a descent, and a walk from face to face to the exact optimum.
2. The same with more sweeps and longer walks (`tallyveil.kernels.family.solver`).
3. PIQP's interior-point method, and the compiled walk from its answer.
4. The best point of any of these as it is, if its residual is within the limit.

The third and fourth ran in none of 27,519 families of 79 releases. They stay, since only the machine may stop a run
after the spend: of made-up families of up to 2^32 people, under noise of all sizes that a plan may hold, the first two
leave a third uncertified. In the tests another method in numpy judges all; it shares neither the reduction nor the
solving.

*The fallback* begins the same walk at the answer of an interior-point method, which needs no face to begin with and
does not mind rows that repeat one another. The reduction and the certificate are the kernels'; PIQP's own verdict is
never used, and its answer is measured in persons as any other. The reduced program
(`tallyveil.kernels.family.program`) has a variable r = Q x - y for each answer of several cells, so that the objective
is diagonal and the rows are sparse; the form with blocks of H took 3 to 800 times longer on redistricting families. If
no face is certified, both are done again with the differences from a close point: floats hold 53 bits, and a count of
billions leaves too few of them. Worked case: a count of 2^32 with a measurement of 2^32 + 0.25 is known to 2^-20 only;
in the difference from 2^32 - 2^14 the measurement is 2^14 + 0.25, known to 2^-39.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import piqp
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimateStatus,
    EstimationPass,
    FamilyProblem,
    least_certain,
)
from tallyveil.kernels.family.polish import CERTIFIED_PERSONS, squared_deviation
from tallyveil.kernels.family.program import PassArrays, Point, Program
from tallyveil.kernels.family.solver import polish_point, reduce_pass, solve_pass

TOLERANCE: Final = 1e-9
"""At which PIQP stops, in its own units: persons over a power of two, and H's largest diagonal as 1. The walk only
needs a point that shows which counts are above zero, so that twice or half of it changes no certified answer."""

LARGEST_NUMBER: Final = 2.0**20
"""Persons that PIQP is handed as they are. Larger numbers are divided by a power of two, which is exact, and which
keeps TOLERANCE above the rounding errors of a float (2^-53 of 2^20 is 1e-10). Twice or half of it is as good."""

MAX_ITERATIONS: Final = 200
"""Steps of PIQP, which usually needs a few dozen. One that is not solved by then goes on with the point reached."""

MOST_CENTRES: Final = 3
"""Close points that are tried in turn, each the answer around the one before. The second is right where the first was
so; a third is for a first one that was thousands of persons away."""

ROOM: Final = 2.0**14
"""Persons by which a count may fall below a close point. It must be above the distance of that point from the
optimum. Twice as much costs the differences one bit of their 53, half as much needs a point twice as close."""


def solve_interior(arrays: PassArrays, near: Floats) -> tuple[Floats, float]:
    """Solve a pass by the interior-point method and the walk.

    Args:
        arrays: The pass.
        near: A close point to take differences from if PIQP finds none, shape (C, s).
    Returns:
        The estimate, shape (C, s), and its residual in persons; inf where no point was found.
    """
    # Cells that no query or bound tells apart are one variable of the program; `share` divides it among them again.
    program, group, share = reduce_pass(arrays)
    first = np.unique(group, return_index=True)[1].astype(np.int64)
    # First the counts as they are. Differences from a centre are only needed where counts are so large that floats
    # blur.
    best, residual = _solved(program, np.zeros(program.allowed.shape))
    close = best if np.isfinite(residual) else _merged(near, group, first.size)
    for _ in range(MOST_CENTRES):
        if residual <= CERTIFIED_PERSONS:
            break
        # Whole, so that subtracting it from whole sums and bounds is exact; below the point, so that counts can still
        # fall.
        centre = np.floor(np.maximum(close - ROOM, 0.0))
        difference, error = _solved(*_around(arrays, centre, first))
        if not np.isfinite(error):
            break
        close = centre + difference
        # At such a bound the difference could fall no further, though the count could.
        held = ((difference <= 0.0) & (centre > 0.0)).any()
        if error < residual and not held:
            best, residual = close, error
    if not np.isfinite(residual):
        return np.zeros(arrays.allowed.shape), np.inf
    return np.asarray(best[:, group] * share), residual


def _solved(program: Program, pull: Floats) -> tuple[Floats, float]:
    """Counts of shape (C, g) after PIQP and the walk, and their residual in persons."""
    start = _interior_point(program, pull)
    finite = all(np.isfinite(numbers).all() for numbers in start)
    return (start.x, np.inf) if not finite else polish_point(program, start)


def _merged(counts: Floats, group: Integers, n_cells: int) -> Floats:
    """Counts on the support, shape (C, s), summed to those of the program's cells, shape (C, g)."""
    merged = np.zeros((n_cells, counts.shape[0]))
    # Unbuffered, since several cells go to one group; it adds by rows, hence the transposes.
    np.add.at(merged, group, counts.T)
    return np.ascontiguousarray(merged.T)


def _around(arrays: PassArrays, centre: Floats, first: Integers) -> tuple[Program, Floats]:
    """The program of a pass in the differences from whole numbers, and the ridge's pull of what was taken away.

    All that is taken away is whole and is subtracted from whole numbers first, which is exact; what is left is of the
    size of the noise. The ridge still pulls the whole count: its pull of what was taken away is a linear term.

    Args:
        arrays: The pass.
        centre: What is taken away from the counts of the program's cells, shape (C, g).
        first: One support cell of each of the program's cells, shape (g,).
    """
    n_children = centre.shape[0]
    values, place = arrays.values.copy(), 0
    for labels, width in zip(arrays.labels, arrays.widths.tolist(), strict=True):
        sums = _sums(labels[first], width, centre, np.arange(n_children), n_children)
        values[place : place + sums.size] -= sums.reshape(-1)
        # Values lie query after query, and each of these is a table (child, answer).
        place += sums.size
    lower, upper, place = arrays.lower.copy(), arrays.upper.copy(), 0
    for labels, width, groups in zip(
        arrays.bound_labels, arrays.bound_widths.tolist(), arrays.bound_groups, strict=True
    ):
        sums = _sums(labels[first], width, centre, groups, int(groups.max(initial=-1)) + 1).reshape(-1)
        lower[place : place + sums.size] -= sums
        upper[place : place + sums.size] -= sums
        place += sums.size
    # The parent's own counts make the ridge and the shares, so that the sums are moved in the program.
    program, _, _ = reduce_pass(arrays._replace(values=values, lower=lower, upper=upper))
    sums = program.sums - centre.sum(axis=0) if program.has_sums else program.sums
    # A program minimises 1/2 x'Hx - b'x, b being `linear`. In differences from the centre, the ridge leaves H alone and
    # takes its pull off b. Without a held H the kernels make b again from the answers, and the pull would have no
    # place.
    pull = program.ridge[program.kind] * centre
    if program.hessian.size == 0 and pull.any():
        program = _with_hessian(program)
    linear = program.linear - pull if program.hessian.size else program.linear
    return program._replace(sums=sums, linear=linear), pull


def _sums(labels: Integers, width: int, counts: Floats, groups: Integers, n_groups: int) -> Floats:
    """Sums of cells by group of children and label, shape (groups, width)."""
    sums = np.zeros((n_groups, width))
    for cell in np.flatnonzero(labels >= 0):
        np.add.at(sums[:, labels[cell]], groups, counts[:, cell])
    return sums


def _with_hessian(program: Program) -> Program:
    """The program with H and b as matrices, where it has too many cells for the kernels to hold them unasked."""
    hessian = np.zeros((program.weights.shape[0], *program.allowed.shape[1:], program.allowed.shape[1]))
    linear = np.zeros(program.allowed.shape)
    for answers in program.answers.T:
        used = answers >= 0
        same = (answers[:, None] == answers) & used
        hessian += program.weights[:, np.where(used, answers, 0), None] * same
        linear[:, used] += program.targets[:, answers[used]]
    every = np.arange(program.allowed.shape[1])
    hessian[:, every, every] += program.ridge
    return program._replace(hessian=hessian, linear=linear)


def _interior_point(program: Program, pull: Floats) -> Point:
    """PIQP's answer to a program, with prices in the sign of the house.

    Variables are the allowed pairs of a child and a cell, then a residual r for each answer of several of them.

    Args:
        program: The program.
        pull: The part of its linear term that no answer makes, shape (C, g).
    """
    # Forbidden pairs are no variables: a variable fixed at zero has no interior, which the method needs.
    child, cell = np.nonzero(program.allowed)
    n, n_answers = child.size, program.weights.shape[1]
    weights = program.weights[program.kind].reshape(-1)  # of answer a of child c at c * n_answers + a
    targets = program.targets.reshape(-1)
    variable, partition = np.nonzero(program.answers[cell] >= 0)
    answer = child[variable] * n_answers + program.answers[cell[variable], partition]
    # Answers of children that are not measured have weight 0 and would only add free residuals.
    variable, answer = variable[weights[answer] > 0], answer[weights[answer] > 0]
    # How many variables each answer sums decides whether it can stay on the diagonal.
    alone = np.bincount(answer, minlength=weights.size)[answer] == 1
    # An answer of one variable stays on the diagonal; the others get residuals.
    diagonal = program.ridge[program.kind[child], cell] + np.bincount(
        variable[alone], weights[answer[alone]], n
    )
    linear = pull[child, cell] - np.bincount(variable[alone], targets[answer[alone]], n)
    lifted, number = np.unique(answer[~alone], return_inverse=True)
    n_lifted = lifted.size
    # Rows Q x - r = y, one for each answer of several variables.
    lift = _matrix(
        np.concatenate([number.reshape(-1), np.arange(n_lifted)]),
        np.concatenate([variable[~alone], n + np.arange(n_lifted)]),
        (n_lifted, n + n_lifted),
        np.concatenate([np.ones(number.size), np.full(n_lifted, -1.0)]),
    )
    n_sums = program.sums.size if program.has_sums else 0
    sums = _matrix(cell[:n] if n_sums else cell[:0], np.arange(n if n_sums else 0), (n_sums, n + n_lifted))
    rows = _rows(program, child, cell, n + n_lifted)
    # Equalities go to their own block: as two inequalities they would leave no interior.
    equal = program.row_lower == program.row_upper
    right = np.concatenate(
        [program.sums[:n_sums], program.row_lower[equal], targets[lifted] / weights[lifted]]
    )
    # The objective's scale is arbitrary, and PIQP's tolerance is absolute: H's largest diagonal becomes 1.
    scale = 1.0 / float(program.curvature.max())
    unit = power_of_two_for(np.concatenate([right, program.row_lower[~equal], program.row_upper[~equal]]))
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = TOLERANCE
    # A relative tolerance would loosen with the counts, and what decides are persons.
    solver.settings.eps_rel = 0.0
    # The walk certifies in persons, whatever PIQP's gap is.
    solver.settings.check_duality_gap = False
    solver.settings.max_iter = MAX_ITERATIONS
    solver.setup(
        sparse.diags(np.concatenate([diagonal, weights[lifted]]) * scale, format="csc"),
        np.concatenate([linear, np.zeros(n_lifted)]) * scale / unit,
        sparse.vstack([sums, rows[equal], lift]).tocsc(),
        right / unit,
        rows[~equal].tocsc(),
        program.row_lower[~equal] / unit,
        program.row_upper[~equal] / unit,
        # Counts are not negative; residuals may be.
        np.concatenate([np.zeros(n), np.full(n_lifted, -np.inf)]),
        np.full(n + n_lifted, np.inf),
    )
    solver.solve()
    return _point(program, solver.result, equal, unit, scale)


def _point(program: Program, result: piqp.Result, equal: Bools, unit: float, scale: float) -> Point:
    """Undo both scales and PIQP's sign of prices: it adds multipliers, the house subtracts."""
    n_sums, n_equal = program.sums.size if program.has_sums else 0, int(equal.sum())
    x = np.zeros(program.allowed.shape)
    # An interior method may end a rounding error below zero; the walk expects counts.
    x[program.allowed] = np.maximum(np.asarray(result.x[: int(program.allowed.sum())]), 0.0) * unit
    # Prices are derivatives of the objective by persons: they scale with both units.
    price = -np.asarray(result.y) * (unit / scale)
    row_price = np.zeros(equal.size)
    row_price[equal] = price[n_sums : n_sums + n_equal]
    row_price[~equal] = (np.asarray(result.z_l) - np.asarray(result.z_u)) * (unit / scale)
    cell_price = np.zeros(program.sums.size)
    cell_price[:n_sums] = price[:n_sums]
    return Point(x, cell_price, row_price)


def _rows(program: Program, child: Integers, cell: Integers, width: int) -> sparse.csr_matrix:
    """Which variables each row sums."""
    rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for bound in range(program.bound_label.shape[0]):
        label = program.bound_label[bound, cell]
        place = program.bound_start[bound] + program.bound_group[bound, child] * program.bound_width[bound]
        used = np.flatnonzero(label >= 0)
        # -1 for a row that can never bind, which the program has left out.
        row = program.row_number[place[used] + label[used]]
        rows.append(row[row >= 0])
        columns.append(used[row >= 0])
    return _matrix(np.concatenate(rows), np.concatenate(columns), (program.row_lower.size, width))


def _matrix(
    row: Integers, column: Integers, shape: tuple[int, int], entries: Floats | None = None
) -> sparse.csr_matrix:
    """A sparse matrix, of ones unless entries are given."""
    return sparse.csr_matrix((np.ones(row.size) if entries is None else entries, (row, column)), shape=shape)


def power_of_two_for(numbers: Floats) -> float:
    """The power of two, 1 or more, in which no number is above `LARGEST_NUMBER`; without it, tolerances are lost.

    A bound that is not there is infinite, and counts for nothing.
    """
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    return max(1.0, float(2.0 ** np.ceil(np.log2(max(largest, 1.0) / LARGEST_NUMBER))))


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
            arrays.labels,
            arrays.widths,
            arrays.values,
            arrays.weights,
            np.require(estimate, requirements=["C", "W"]),
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
