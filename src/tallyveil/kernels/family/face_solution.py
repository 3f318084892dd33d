"""The exact point of a face, compiled: conjugate gradients among the points that keep the parent's sums.

Problem: the equations of a face (`tallyveil.kernels.family.face`) with H in place of B, at the point where a
walk is. Variables: a change of the free x, of the prices of the parent's sums and of the prices of the
binding rows.

Steps: measure what the point misses, solve the equations for it, and move the point. Rounding leaves
something over, so this is repeated. To solve the equations, the preconditioner takes B in place of H, so it
handles the parent's sums and the rows exactly. The iterations correct only for H - B, which is small at block
level: a handful of products with H is enough.

Stopping rules: the point is exact enough when what is missing is less than what decides a swap, or
MOST_REFINEMENTS steps were made. The iterations end when the preconditioned direction is shorter than a
quarter of what is exact enough; or it loses its positive curvature to rounding; or the directions are used
up.

Worked case: one child without sums or rows, H = [[2, 1], [1, 2]], B = diag(2, 2), right side (3, 3). The
first step with B gives (1.5, 1.5). The remaining gradient is then (-1.5, -1.5), the direction is (-0.75,
-0.75) and the step's length 2/3. That gives (1, 1), the solution.

Oracle: the tests solve the same equations as one dense system. Every sum runs in a fixed order, so that every
machine gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import inlined, internal, njit
from tallyveil.kernels.family.answer_system import add_forces, answers_of, respond, solve_answers
from tallyveil.kernels.family.descent import row_activity
from tallyveil.kernels.family.face import (
    Face,
    add_to_members,
    give_way,
    price_sums,
    project,
    row_sums,
    solve_rows,
)
from tallyveil.kernels.family.polish import Walk, reduced_costs
from tallyveil.kernels.family.program import Point, Program
from tallyveil.kernels.vectors import inner, largest_of, set_to, solve_cholesky

MOST_DIRECTIONS, MOST_MENDING_DIRECTIONS = 400, 8
"""Directions after which a face counts as unsolved: in general; and where B is H, so that they mend rounding only."""

SETTLED = 0.25
"""The iteration ends when a direction is shorter than this part of what is exact enough."""


class Missing(NamedTuple):
    """Persons that are missing at a point.

    Attributes:
        rows: What binding rows lack; 0 where a row does not bind. [R]
        cells: What the parent's cells lack. [g]
    """

    rows: Floats
    cells: Floats


class ConjugateWork(NamedTuple):
    """Scratch of one solution.

    Attributes:
        gradient: The remaining gradient of the Lagrangian, with its sign changed. [F]
        direction: [F]
        product: [F]
        price: [g]
        row_change: [m]
        sums: [at least g, at least L]
    """

    gradient: Floats
    direction: Floats
    product: Floats
    price: Floats
    row_change: Floats
    sums: Floats


@inlined
def correct(
    program: Program,
    face: Face,
    costs: Floats,
    missing: Missing,
    enough: float,
    point: Point,
) -> bool:
    """Solve the face's equations for these errors and add the answer in place.

    Args:
        program: The pass's program.
        face: The face.
        costs: The Lagrangian's gradient; read where free. [C, g]
        missing: Persons that binding rows and cells lack.
        enough: Persons below which an error does not count.
        point: Changed where variables are free and rows bind.
    Returns:
        Whether the directions vanished.
    """
    cells, cells_of = face.cells, face.cells_of
    x, cell_price, row_price = point
    work = _new_work(program, face)
    # Projected conjugate gradients with a constraint preconditioner (Gould, Hribar and Nocedal 2001).
    # Differences: rows give way by their compliance and have prices of their own, and the prices of sums that
    # each projection takes out are added up in `removed` in place of being solved for at the end.
    step, row_step, removed = np.empty(cells.size), np.empty(face.rows.size), np.zeros(cell_price.size)
    along, row_along = np.empty(cells.size), np.empty(face.rows.size)
    for c in range(cells_of.size - 1):
        for t in range(cells_of[c], cells_of[c + 1]):
            work.gradient[t] = -costs[c, cells[t]]
    # Sums and rows are met first. All later directions keep them, so the iteration is one without
    # constraints.
    _begin(face, work, missing, step, row_step, removed)
    _product(program, face, step, work.sums, work.product)
    for t in range(cells.size):
        work.gradient[t] -= work.product[t]
    slope, settled = np.inf, False
    # with inverses B is H, and the first direction is the answer up to rounding
    most = MOST_DIRECTIONS if face.inverse.size == 0 else MOST_MENDING_DIRECTIONS
    for _ in range(most):
        _precondition(face, work, removed)
        settled = largest_of(work.direction) <= SETTLED * enough
        if settled:
            break
        before, slope = slope, inner(work.gradient, work.direction)
        # `before` is inf at first, and the ratio 0
        ratio = slope / before
        for t in range(cells.size):
            # not ratio * along where the ratio is 0: the memory is uninitialised, and 0 times what is there
            # may be NaN
            along[t] = work.direction[t] + ratio * along[t] if ratio > 0.0 else work.direction[t]
        for k in range(row_along.size):
            row_along[k] = work.row_change[k] + ratio * row_along[k] if ratio > 0.0 else work.row_change[k]
        _product(program, face, along, work.sums, work.product)
        add_to_members(face, row_along, 1.0, work.product)
        curvature = inner(along, work.product)
        # rounding has used up the digits; the caller measures what is missing and begins again
        if not (slope > 0.0 and curvature > 0.0):
            break
        length = slope / curvature
        for t in range(cells.size):
            step[t] += length * along[t]
            # updated and not recomputed: a product with H a step, and the caller refines what drifts
            work.gradient[t] -= length * work.product[t]
        for k in range(row_along.size):
            row_step[k] -= length * row_along[k]
    for c in range(cells_of.size - 1):
        for t in range(cells_of[c], cells_of[c + 1]):
            x[c, cells[t]] += step[t]
    for k in range(row_step.size):
        row_price[face.rows[k]] += row_step[k]
    for i in range(removed.size):
        # what projections took out of the gradient is the change of the cells' prices
        cell_price[i] -= removed[i]
    return settled


@inlined
def correct_among_answers(face: Face, costs: Floats, missing: Missing, enough: float, point: Point) -> None:
    """The same for a face whose equations are among the answers; see `tallyveil.kernels.family.answer_system`."""
    cells, cells_of, system = face.cells, face.cells_of, face.answers
    x, cell_price, row_price = point
    step, price = np.empty(cells.size), np.empty(cell_price.size)
    for c in range(cells_of.size - 1):
        for t in range(cells_of[c], cells_of[c + 1]):
            step[t] = -costs[c, cells[t]]
    # The forces need the free response first, and the step needs the gradient once more with the forces in
    # it.
    gradient, left = step.copy(), np.empty(system.row.size)
    respond(cells, face.give, face.cell_stiffness, missing.cells, gradient, price)
    answers_of(system, gradient, left)
    # an answer has no bound to meet: its compliance holds how far it is from its measured value
    for u in range(left.size):
        if system.row[u] >= 0:
            left[u] -= missing.rows[system.row[u]]
    _, forces = solve_answers(system, cells, face.give, face.cell_stiffness, left, enough)
    add_forces(system, forces, -1.0, step)
    respond(cells, face.give, face.cell_stiffness, missing.cells, step, price)
    for c in range(cells_of.size - 1):
        for t in range(cells_of[c], cells_of[c + 1]):
            x[c, cells[t]] += step[t]
    for u in range(forces.size):
        # a row's price is its force with the opposite sign
        if system.row[u] >= 0:
            row_price[system.row[u]] -= forces[u]
    for k in range(face.rows.size):
        # a row without free variables is met by its compliance alone
        if face.row_begin[k] == face.row_begin[k + 1]:
            row_price[face.rows[k]] += missing.rows[face.rows[k]] / face.compliance
    for i in range(price.size):
        cell_price[i] -= price[i]


@internal
def _new_work(program: Program, face: Face) -> ConjugateWork:
    n, n_cells = face.cells.size, face.cell_stiffness.size
    return ConjugateWork(
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n_cells),
        np.empty(face.rows.size),
        np.empty(max(program.weights.shape[1], n_cells)),
    )


@inlined
def _begin(
    face: Face,
    work: ConjugateWork,
    missing: Missing,
    step: Floats,
    row_step: Floats,
    removed: Floats,
) -> None:
    """A step that meets sums and rows, with B in place of H; the rows' prices go into the gradient."""
    # with B in place of H, the change that gives each sum what it lacks at the least cost
    set_to(work.price, missing.cells)
    price_sums(face, work.price)
    for t in range(step.size):
        work.product[t] = work.price[face.cells[t]]
    give_way(face, work.product, step)
    project(face, work.gradient, work.direction, work.price)
    _add(work.price, removed)
    # what rows still lack after both parts decides their prices, and these change the direction a second time
    if row_step.size > 0:
        row_sums(face, step, row_step)
        row_sums(face, work.direction, work.row_change)
        for k in range(row_step.size):
            row_step[k] = missing.rows[face.rows[k]] - row_step[k] - work.row_change[k]
        _solve_rows(face, row_step)
        add_to_members(face, row_step, 1.0, work.gradient)
        project(face, work.gradient, work.direction, work.price)
        _add(work.price, removed)
    for t in range(step.size):
        step[t] += work.direction[t]


@inlined
def _precondition(face: Face, work: ConjugateWork, removed: Floats) -> None:
    """The direction and the change of the rows' prices that the gradient gives with B in place of H."""
    project(face, work.gradient, work.direction, work.price)
    _add(work.price, removed)
    if face.rows.size == 0:
        return
    row_sums(face, work.direction, work.row_change)
    _solve_rows(face, work.row_change)
    set_to(work.product, work.gradient)
    add_to_members(face, work.row_change, -1.0, work.product)
    project(face, work.product, work.direction, work.price)


@internal
def _solve_rows(face: Face, right: Floats) -> None:
    """Prices that change the rows' sums by the given amounts, in place."""
    if face.by_child.begin.size == 0:
        solve_cholesky(face.system, right)
        return
    # unknowns of the blocks are ordered child by child, rows by their number
    left = np.empty(face.place.size)
    for u in range(left.size):
        left[u] = right[face.place[u]]
    for k in range(right.size):
        # a row without free variables gives way by its compliance alone
        right[k] /= face.compliance
    forces = solve_rows(face.by_child, face.system, face.cells, face.give, face.cell_stiffness, left)
    for u in range(forces.size):
        right[face.place[u]] = forces[u]


@internal
def _product(program: Program, face: Face, vector: Floats, sums: Floats, out: Floats) -> None:
    """H times a vector of free variables."""
    cells, cells_of = face.cells, face.cells_of
    answers, weights, ridge = program.answers, program.weights, program.ridge
    for c in range(cells_of.size - 1):
        like, first, last = program.kind[c], np.uint64(cells_of[c]), np.uint64(cells_of[c + 1])
        # H is symmetric: its rows are added up, so that memory is read in order
        if program.hessian.size > 0:
            hessian = program.hessian[like]
            n_cells = hessian.shape[0]
            for i in range(n_cells):
                sums[i] = 0.0
            for t in range(first, last):
                row, factor = hessian[cells[t]], vector[t]
                for i in range(n_cells):
                    sums[i] += factor * row[i]
            for t in range(first, last):
                out[t] = sums[cells[t]]
            continue
        # H z = ridge * z + A' (W (A z)): the work of the answers in place of cells times cells
        for k in range(weights.shape[1]):
            sums[k] = 0.0
        for t in range(first, last):
            of_cell, factor = answers[cells[t]], vector[t]
            # unsigned indices spare the test for a negative one in the innermost loops
            for q in range(of_cell.size):
                if of_cell[q] >= 0:
                    sums[np.uint64(of_cell[q])] += factor
        for k in range(weights.shape[1]):
            sums[k] *= weights[like, k]
        for t in range(first, last):
            # H = ridge + A' W A by answers: a child costs its cells times queries, and H of many cells is
            # never held.
            of_cell, total = answers[cells[t]], ridge[like, cells[t]] * vector[t]
            for q in range(of_cell.size):
                if of_cell[q] >= 0:
                    total += sums[np.uint64(of_cell[q])]
            out[t] = total


@internal
def _add(values: Floats, out: Floats) -> None:
    for i in range(values.size):
        out[i] += values[i]


# Corrections of one face. Each works on what rounding left of the last one. A face that is left inexact is
# judged by its residual, so that this bounds time only.
MOST_REFINEMENTS = 3


@njit(nogil=True, cache=True)
def solve_face(program: Program, face: Face, walk: Walk, enough: float, known: bool) -> None:
    """Minimise on the face, with compliance around the centre's prices; changes the walk's point in place.

    The equations are solved again for what rounding left over, until that is less than `enough` persons, which is
    what decides a swap. Costs and activity become those of the answer. If they are `known`, they are the given
    point's already.
    """
    point = walk.point
    # Iterative refinement: costs and sums are measured anew at each point, so that a solution with rounding
    # errors still gains digits at each turn.
    missing = Missing(np.empty(walk.activity.size), np.zeros(point.cell_price.size))
    for attempt in range(MOST_REFINEMENTS + 1):
        if attempt > 0 or not known:
            reduced_costs(program, point.x, point.cell_price, point.row_price, walk.costs)
            row_activity(program, point.x, walk.activity)
        error = max(_miss(program, walk, face.compliance, missing), _steepest(program, face, walk.costs))
        # the face is solved at least once, however small the first error is: only a solution's signs say what
        # to swap
        if attempt == MOST_REFINEMENTS or (attempt > 0 and error <= enough):
            return
        # `correct` and its twin add to the point, so that what was reached is never lost
        if face.answers.begin.size > 0:
            correct_among_answers(face, walk.costs, missing, enough, point)
        else:
            correct(program, face, walk.costs, missing, enough, point)


@internal
def _steepest(program: Program, face: Face, costs: Floats) -> float:
    """Largest reduced cost of a free variable, in persons."""
    worst = 0.0
    for c in range(costs.shape[0]):
        scale = program.scale[program.kind[c]]
        # zero variables may have any cost here: `swap` judges them
        for t in range(face.cells_of[c], face.cells_of[c + 1]):
            i = face.cells[t]
            worst = max(worst, abs(costs[c, i]) / scale[i])
    return worst


@internal
def _miss(program: Program, walk: Walk, softness: float, missing: Missing) -> float:
    """Persons that binding rows and cells lack, into `missing`; returns the most."""
    side, activity, centre_row = walk.signs.side, walk.activity, walk.centre.row_price
    x, _, row_price = walk.point
    missing_rows, missing_cells = missing
    worst = 0.0
    for row in range(side.size):
        missing_rows[row] = 0.0
        if side[row] != 0:
            bound = program.row_upper[row] if side[row] == 1 else program.row_lower[row]
            # Compliance pulls the price towards the centre. It vanishes as the centre comes to the answer, so
            # it leaves no error.
            missing_rows[row] = bound - activity[row] - softness * (row_price[row] - centre_row[row])
            worst = max(worst, abs(missing_rows[row]))
    if program.has_sums:
        # Summed anew each time: updates of the sums would gather rounding errors.
        set_to(missing_cells, program.sums)
        for c in range(x.shape[0]):
            for i in range(x.shape[1]):
                missing_cells[i] -= x[c, i]
        for i in range(missing_cells.size):
            worst = max(worst, abs(missing_cells[i]))
    return worst
