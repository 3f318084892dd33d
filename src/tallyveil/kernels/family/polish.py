"""The proximal primal-dual active-set method, compiled: from a close point to the exact optimum.

The numpy twin and specification is `tallyveil.estimation.active_set`, which explains the method. Here a face is at
first solved roughly, which is enough to see most of what is wrong, and its rows are soft: a face whose rows are stiff
gives way to the next one as soon as a row should let go. Once nothing is wrong any more, rows become stiff, so that
two or three steps settle their prices, and the face is solved exactly.
"""

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.kernels.compiled import inlined, internal
from tallyveil.kernels.family.certificate import CERTIFIED_PERSONS, reduced_costs, residual, violation
from tallyveil.kernels.family.conjugate import correct
from tallyveil.kernels.family.descent import row_activity
from tallyveil.kernels.family.face import Face, list_face
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.family.swap import swap
from tallyveil.kernels.vectors import set_rows, set_to

EXACT_PERSONS = 1e-11
ROUNDING = 4e-15
"""What rounding leaves of a count at best, in parts of the largest."""

ENOUGH, ENOUGH_PERSONS = 4e-14, 1e-9
"""What is exact enough: sums of many terms miss by so many parts of the largest; but never more persons."""

ROUGH_PERSONS, ROUGH_SIGN = 1e-3, 1e-2
"""How exactly a face is solved at first, and by how many persons a sign is then wrong."""

STIFFER, NEAR_PERSONS = 2.0**-10, 4e-3
"""Factor of the rows' compliance once a settled face's residual is this small."""

FEW_WRONG, NEARER = 3, 0.125
"""Where more than a few signs are wrong once rows are stiff, the residual must be so many times smaller first."""

STIFFEST, SOFTEST = 2.0**-30, 1.0
STUCK = 0.95
MOST_REFINEMENTS = 3


@inlined
def polish(
    program: Program,
    x: Floats,
    cell_price: Floats,
    row_price: Floats,
    row_compliance: float,
    whole: bool,
    full_swaps: int,
    single_swaps: int,
) -> tuple[float, int]:
    """Walk from face to face at one compliance until one settles.

    Args:
        program: The pass's program.
        x: A close point, whose face is the first guess; then the answer, or the last face's point, which is
            closer still where most of the face was right. [C, g]
        cell_price: Likewise. [g]
        row_price: Likewise. [R]
        row_compliance: Of rows, in units of an answer's own.
        whole: How faces are solved, see `list_face`.
        full_swaps: Steps that swap everything that is wrong.
        single_swaps: Later steps, which swap only what is most wrong.
    Returns:
        The answer's residual in persons, or inf where no face settled; steps made.
    """
    costs, activity = np.empty(x.shape), np.empty(row_price.size)
    free, side = _guess(program, x, cell_price, row_price, costs, activity)
    _free_a_child(program, free, x)
    ok, face = list_face(program, free, side, row_compliance, whole)
    centre_x, centre_cell, centre_row = x.copy(), cell_price.copy(), row_price.copy()
    point_x, point_cell, point_row = x.copy(), cell_price.copy(), row_price.copy()
    largest = _largest(x)
    tolerance, exact = 1e-9 + 1e-13 * largest, _exact(largest)
    found, found_unmet, last, last_unmet = np.inf, np.inf, np.inf, np.inf
    stiffest, stride, step, known = STIFFEST, 1.0, int(np.int64(0)), True
    soft, rough, refining, near = row_compliance, side.size > 0, False, NEAR_PERSONS
    soft_free, soft_side = free.copy(), side.copy()
    while step < full_swaps + single_swaps:
        while not ok:
            # rounding errors outweigh the compliance: soften
            if row_compliance > SOFTEST:
                return found, step
            row_compliance *= 64.0
            stiffest, soft = row_compliance, max(soft, row_compliance)
            ok, face = list_face(program, free, side, row_compliance, whole)
        if not refining:
            set_to(point_cell, centre_cell)
            known &= not _on_face(free, side, centre_x, centre_row, point_x, point_row)
        _solve_face(
            program,
            face,
            side,
            centre_row,
            ROUGH_PERSONS if rough else exact,
            point_x,
            point_cell,
            point_row,
            costs,
            activity,
            known or refining,
        )
        n_wrong = swap(
            program,
            free,
            side,
            point_x,
            costs,
            activity,
            centre_row,
            ROUGH_SIGN if rough else tolerance,
            ROUGH_SIGN if rough else exact,
            row_compliance,
            _manner(step, full_swaps),
        )
        step += 1
        if n_wrong > 0:
            last, last_unmet, stride, known = np.inf, np.inf, 1.0, False
            if row_compliance < soft and n_wrong > FEW_WRONG:
                # stiff too soon: back to where soft rows had settled
                set_rows(free, soft_free)
                set_to(side, soft_side)
                near *= NEARER
                rough = False
            else:
                set_rows(centre_x, point_x)
                rough = True
            row_compliance, refining = soft, False
            if step < full_swaps + single_swaps:
                _free_a_child(program, free, centre_x)
                ok, face = list_face(program, free, side, row_compliance, whole)
            continue
        refining = rough
        if rough:
            now, unmet = violation(program, point_x, costs, activity, point_row)
            rough = row_compliance == soft and face.rows.size > 0 and now <= near
            if rough:
                # near enough to go on with stiff rows, as rough still
                row_compliance, refining, known = max(row_compliance * STIFFER, stiffest), False, True
                set_rows(centre_x, point_x)
                set_to(centre_cell, point_cell)
                set_to(centre_row, point_row)
                set_rows(soft_free, free)
                set_to(soft_side, side)
                ok, face = list_face(program, free, side, row_compliance, whole)
            continue
        if _clip(point_x, centre_x):
            now, unmet = residual(program, centre_x, point_cell, point_row)
        else:
            now, unmet = violation(program, point_x, costs, activity, point_row)
        # a price's rounding error is the floor of `now`; sums and rows can be met better than that
        if now < found or (now <= CERTIFIED_PERSONS and unmet < found_unmet):
            found, found_unmet = now, unmet
            set_rows(x, centre_x)
            set_to(cell_price, point_cell)
            set_to(row_price, point_row)
        if now <= min(exact, CERTIFIED_PERSONS):
            return found, step
        better = now <= STUCK * last or exact < unmet <= STUCK * last_unmet
        if not better:
            if now <= CERTIFIED_PERSONS:
                return found, step
            # no counts meet this face's rows: prices must move until it changes, ever faster
            stride *= 2.0
        else:
            stride = 1.0
        set_rows(centre_x, point_x)
        _stride(stride, point_cell, centre_cell)
        _stride(stride, point_row, centre_row)
        known = stride == 1.0
        if better and now <= near and row_compliance > stiffest and face.rows.size > 0:
            # soft rows find the face, stiff ones its prices
            set_rows(soft_free, free)
            set_to(soft_side, side)
            row_compliance = max(row_compliance * STIFFER, stiffest)
            ok, face = list_face(program, free, side, row_compliance, whole)
        last, last_unmet = now, unmet
    if found == np.inf:
        _clip(point_x, x)
        set_to(cell_price, point_cell)
        set_to(row_price, point_row)
    return found, step


@internal
def _largest(x: Floats) -> float:
    largest = -np.inf
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            largest = x[c, i] if x[c, i] > largest else largest
    return largest


@internal
def _exact(largest: float) -> float:
    """Persons that do not count where the largest count is this."""
    return float(max(EXACT_PERSONS, ROUNDING * largest, min(ENOUGH * largest, ENOUGH_PERSONS)))


@internal
def _clip(x: Floats, positive: Floats) -> bool:
    """x without its negative entries into `positive`; whether there were any."""
    clipped = False
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            clipped |= x[c, i] < 0.0
            positive[c, i] = max(x[c, i], 0.0)
    return clipped


@internal
def _stride(stride: float, point: Floats, centre: Floats) -> None:
    """Move the centre to the point, or beyond."""
    if stride == 1.0:
        set_to(centre, point)
        return
    for i in range(centre.size):
        centre[i] += stride * (point[i] - centre[i])


@internal
def _manner(step: int, full_swaps: int) -> int:
    """How to swap at a step, see `swap`: in full, then more and more gently."""
    return 0 if step < full_swaps else (1 if step < 3 * full_swaps else 2)


@internal
def _guess(
    program: Program, x: Floats, cell_price: Floats, row_price: Floats, costs: Floats, activity: Floats
) -> tuple[Bools, Integers]:
    """A variable is free where it is larger than its reduced cost, both in persons; a row likewise.

    Reduced costs and activity are left in the last two arguments.
    """
    reduced_costs(program, x, cell_price, row_price, costs)
    row_activity(program, x, activity)
    free = np.zeros(x.shape, np.bool_)
    for c in range(x.shape[0]):
        scale = program.scale[program.kind[c]]
        for i in range(x.shape[1]):
            free[c, i] = program.allowed[c, i] and x[c, i] > costs[c, i] / scale[i]
    side = np.zeros(row_price.size, np.int64)
    for row in range(row_price.size):
        price = row_price[row] / program.row_scale
        if program.row_lower[row] == program.row_upper[row]:
            side[row] = 2
        elif -price > abs(program.row_upper[row] - activity[row]):
            side[row] = 1
        elif price > abs(activity[row] - program.row_lower[row]):
            side[row] = -1
    return free, side


@internal
def _free_a_child(program: Program, free: Bools, x: Floats) -> None:
    """Free the largest variable of every inhabited cell that has none."""
    if not program.has_sums:
        return
    for i in range(free.shape[1]):
        if program.sums[i] > 0:
            best, any_free = -1, False
            for c in range(free.shape[0]):
                any_free |= free[c, i]
                if program.allowed[c, i] and (best < 0 or x[c, i] > x[best, i]):
                    best = c
            if not any_free and best >= 0:
                free[best, i] = True


@internal
def _on_face(
    free: Bools, side: Integers, x: Floats, row_price: Floats, face_x: Floats, face_price: Floats
) -> bool:
    """A point with zeros where the face has them; whether it differs from the point given."""
    moved = False
    for c in range(free.shape[0]):
        for i in range(free.shape[1]):
            moved |= x[c, i] != 0.0 and not free[c, i]
            face_x[c, i] = x[c, i] if free[c, i] else 0.0
    for row in range(side.size):
        moved |= row_price[row] != 0.0 and side[row] == 0
        face_price[row] = row_price[row] if side[row] != 0 else 0.0
    return moved


@inlined
def _solve_face(
    program: Program,
    face: Face,
    side: Integers,
    centre_row: Floats,
    enough: float,
    x: Floats,
    cell_price: Floats,
    row_price: Floats,
    costs: Floats,
    activity: Floats,
    known: bool,
) -> None:
    """Minimise on the face, with compliance around the centre's prices; changes the point in place.

    Solved again for what rounding left over, until that is less than what decides a swap. Reduced costs and
    activity become those of the answer; where they are `known`, they are the given point's already.
    """
    missing_rows, missing_cells = np.empty(side.size), np.zeros(cell_price.size)
    for attempt in range(MOST_REFINEMENTS + 1):
        if attempt > 0 or not known:
            reduced_costs(program, x, cell_price, row_price, costs)
            row_activity(program, x, activity)
        error = _missing(
            program, side, face.compliance, centre_row, x, row_price, activity, missing_rows, missing_cells
        )
        error = max(error, _steepest(program, face, costs))
        if attempt == MOST_REFINEMENTS or (attempt > 0 and error <= enough):
            return
        correct(program, face, costs, missing_rows, missing_cells, enough, x, cell_price, row_price)


@internal
def _steepest(program: Program, face: Face, costs: Floats) -> float:
    """Largest reduced cost of a free variable, in persons."""
    worst = 0.0
    for c in range(costs.shape[0]):
        scale = program.scale[program.kind[c]]
        for t in range(face.cells_of[c], face.cells_of[c + 1]):
            i = face.cells[t]
            worst = max(worst, abs(costs[c, i]) / scale[i])
    return worst


@internal
def _missing(
    program: Program,
    side: Integers,
    softness: float,
    centre_row: Floats,
    x: Floats,
    row_price: Floats,
    activity: Floats,
    missing_rows: Floats,
    missing_cells: Floats,
) -> float:
    """Persons that binding rows and cells lack; returns the most."""
    worst = 0.0
    for row in range(side.size):
        missing_rows[row] = 0.0
        if side[row] != 0:
            bound = program.row_upper[row] if side[row] == 1 else program.row_lower[row]
            missing_rows[row] = bound - activity[row] - softness * (row_price[row] - centre_row[row])
            worst = max(worst, abs(missing_rows[row]))
    if program.has_sums:
        set_to(missing_cells, program.sums)
        for c in range(x.shape[0]):
            for i in range(x.shape[1]):
                missing_cells[i] -= x[c, i]
        for i in range(missing_cells.size):
            worst = max(worst, abs(missing_cells[i]))
    return worst
