"""What is wrong with a face's answer, and the swaps that give the next face, compiled.

A free variable is wrong where it is negative, and a zero variable where its reduced cost is negative. A binding row
is wrong where its price has the wrong sign, and a loose row where its sum is beyond a bound. All are measured in
persons. What is wrong by more than a tolerance is swapped.

Worked case: see `tallyveil.kernels.family.polish`.

Oracle: `tests.oracles.active_set`, whose swaps lead to the same optimum by other faces.
"""

import numpy as np

from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.family.walk import Walk


@internal
def swap(program: Program, walk: Walk, tolerance: float, exact: float, compliance: float, manner: int) -> int:
    """Swap the variables and rows that are wrong at the walk's point; returns how many were wrong.

    Args:
        program: The pass's program.
        walk: The face, its point, and the centre; the face is changed in place.
        tolerance: Persons by which a zero variable must be wrong, and by which a binding row may be.
        exact: Persons by which a free variable or a loose row must be wrong.
        compliance: Of rows, in units of an answer's own.
        manner: 0 swaps everything, 1 every variable but only the worst row of each child or group of children, 2 only
            the worst of all. Several rows of a child may all push its counts the same way. Swapping them all at once
            can then overshoot again and again.
    """
    free, side, x = walk.signs.free, walk.signs.side, walk.point.x
    costs, activity, centre_row = walk.costs, walk.activity, walk.centre.row_price
    n_wrong, n_children, worst_child, worst_cell = 0, free.shape[0], 0, 0
    # in manner 1 there is a worst row for each group, in manner 2 one for all, at 0
    worst, worst_side = np.full(n_children, -np.inf), np.empty(n_children, np.int64)
    worst_row = np.full(n_children, -1, np.int64)
    for c in range(n_children):
        scale = program.scale[program.kind[c]]
        for i in range(free.shape[1]):
            if program.allowed[c, i]:
                # persons in both cases: so variables compare with each other, and with rows
                wrong = -x[c, i] if free[c, i] else -costs[c, i] / scale[i]
                # what stays free is clipped at zero, which must not cost accuracy
                if wrong > (exact if free[c, i] else tolerance):
                    n_wrong += 1
                    # strictly more, so that the first of equals is taken on every machine
                    if manner == 2 and wrong > worst[0]:
                        worst[0], worst_child, worst_cell = wrong, c, i
                    if manner < 2:
                        free[c, i] = not free[c, i]
    # from units of an answer's own to the objective's
    softness = compliance / program.row_stiffness
    for row in range(side.size):
        # a binding row keeps its side within the tolerance, a loose one changes only beyond it
        margin = -tolerance * program.row_scale * softness if side[row] != 0 else exact
        # a row binds where its price would have the right sign; in persons, the last price shifts the bound
        shift = centre_row[row] * softness
        lower, upper = program.row_lower[row], program.row_upper[row]
        new_side, wrong = _side(lower, upper, side[row], activity[row], shift, margin)
        if new_side != side[row]:
            n_wrong += 1
            # groups of a bound on single children are the children
            among = program.row_group[row] if manner == 1 else 0
            if wrong > worst[among]:
                worst[among], worst_row[among], worst_side[among] = wrong, row, new_side
            if manner == 0:
                side[row] = new_side
    if manner > 0 and n_wrong > 0:
        for among in range(n_children):
            if worst_row[among] >= 0:
                side[worst_row[among]] = worst_side[among]
        # a row that is wrong goes before a variable
        if manner == 2 and worst_row[0] < 0:
            free[worst_child, worst_cell] = not free[worst_child, worst_cell]
    return n_wrong


@internal
def _side(
    lower: float, upper: float, side: int, activity: float, shift: float, margin: float
) -> tuple[int, float]:
    """Which side a row should bind on, and by how many persons it is wrong where that is new."""
    if lower == upper:
        return 2, 0.0
    # short and over are distances to the bounds after the shift; only one can be above zero, as lower < upper
    short, over = lower + shift - activity, activity - shift - upper
    wanted = 1 if over > margin else (-1 if short > margin else 0)
    # a bound that held and is now wrong: the amount by which it is on the inner side
    if side == -1:
        return wanted, -short
    if side == 1:
        return wanted, -over
    return wanted, max(short, over)
