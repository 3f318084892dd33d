"""The exact point of a face, compiled.

Problem: the equations of a face (`tallyveil.kernels.family.face`) at the point where a walk is. Step: measure what the
point misses, solve the equations for it (`tallyveil.kernels.family.conjugate`), and move the point. Rounding leaves
something over, so the step is repeated.

Stopping rule: what is missing is less than what decides a swap, or MOST_REFINEMENTS steps were made.

Worked case: see `tallyveil.kernels.family.polish`. Oracle: the tests solve the same equations as one dense system.
"""

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.family.certificate import reduced_costs
from tallyveil.kernels.family.conjugate import Missing, correct, correct_among_answers
from tallyveil.kernels.family.descent import row_activity
from tallyveil.kernels.family.face import Face
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.family.walk import Walk
from tallyveil.kernels.vectors import set_to

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
