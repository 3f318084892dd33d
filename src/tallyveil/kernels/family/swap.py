"""What is wrong with a face's answer, and its swapping, compiled.

The numpy twin and specification is `tallyveil.estimation.active_set`.
"""

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.program import Program


@internal
def swap(
    program: Program,
    free: Bools,
    side: Integers,
    x: Floats,
    costs: Floats,
    activity: Floats,
    centre_row: Floats,
    tolerance: float,
    exact: float,
    compliance: float,
    manner: int,
) -> int:
    """Swap what has a wrong sign; returns how much was wrong.

    Manner 0 swaps everything, 1 every variable but only the worst row, 2 only the worst of all: rows share a
    direction (all totals up, all prices up), in which swapping them together overshoots for ever.
    """
    n_wrong, worst, worst_child, worst_cell, worst_row, worst_side = 0, -np.inf, 0, 0, -1, 0
    for c in range(free.shape[0]):
        scale = program.scale[program.kind[c]]
        for i in range(free.shape[1]):
            if program.allowed[c, i]:
                wrong = -x[c, i] if free[c, i] else -costs[c, i] / scale[i]
                # what stays free is clipped at zero, which must not cost accuracy
                if wrong > (exact if free[c, i] else tolerance):
                    n_wrong += 1
                    if manner == 2 and wrong > worst:
                        worst, worst_child, worst_cell = wrong, c, i
                    if manner < 2:
                        free[c, i] = not free[c, i]
    for row in range(side.size):
        new_side, wrong = _side(
            program, row, side[row], activity[row], centre_row[row], tolerance, exact, compliance
        )
        if new_side != side[row]:
            n_wrong += 1
            if wrong > worst:
                worst, worst_row, worst_side = wrong, row, new_side
            if manner == 0:
                side[row] = new_side
    if manner > 0 and n_wrong > 0:
        if worst_row >= 0:
            side[worst_row] = worst_side
        elif manner == 2:
            free[worst_child, worst_cell] = not free[worst_child, worst_cell]
    return n_wrong


@internal
def _side(
    program: Program,
    row: int,
    side: int,
    activity: float,
    centre_price: float,
    tolerance: float,
    exact: float,
    compliance: float,
) -> tuple[int, float]:
    """Which side a row should bind on, and by how many persons it is wrong where that is new."""
    lower, upper = program.row_lower[row], program.row_upper[row]
    if lower == upper:
        return 2, 0.0
    # a row binds where its price would have the right sign; in persons, the last price shifts the bound
    softness = compliance / program.row_stiffness
    shift = centre_price * softness
    short, over = lower + shift - activity, activity - shift - upper
    # a binding row keeps its side within the tolerance, a loose one changes only beyond it
    margin = -tolerance * program.row_scale * softness if side != 0 else exact
    wanted = 1 if over > margin else (-1 if short > margin else 0)
    if side == -1:
        return wanted, -short
    if side == 1:
        return wanted, -over
    return wanted, max(short, over)
