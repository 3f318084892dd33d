"""The least squares of a family by a method in numpy that shares no code with the kernels.

A pass is reduced in numpy (`reduction`), solved by PIQP (`interior_point`) and polished with dense matrices
(`active_set`). If that certifies nothing, the same is tried for the difference to a close point.
"""

import numpy as np
from tests.oracles.active_set import CERTIFIED_PERSONS, polish
from tests.oracles.block_program import centred
from tests.oracles.interior_point import solve_interior
from tests.oracles.reduction import reduce_pass

from tallyveil.estimation import least_squares
from tallyveil.estimation.least_squares import constraint_bounds
from tallyveil.estimation.problem import FamilyProblem

MOST_CENTRES = 3


def solve_pass_in_numpy(problem, allowed, current, bounds, near=None):
    """One pass: the estimate of shape (C, s), and its residual in persons; inf where there is none."""
    program, merging = reduce_pass(problem, allowed, current, bounds)
    x, residual = _polished(program)
    if residual > CERTIFIED_PERSONS and (np.isfinite(residual) or near is not None):
        start = x if np.isfinite(residual) else merging.merge(near)[program.child, program.cell]
        for _ in range(MOST_CENTRES):
            around = centred(program, start)
            difference, error = _polished(around)
            if not np.isfinite(error):
                break
            start = around.centre + difference
            if error < residual:
                x, residual = start, error
            if residual <= CERTIFIED_PERSONS:
                break
    if not np.isfinite(residual):
        return np.zeros(allowed.shape), np.inf
    return merging.expand(program.spread(x)), residual


def _polished(program):
    start, infeasible = solve_interior(program)
    if infeasible or not np.isfinite(start.x).all():
        return start.x, np.inf
    point, residual = polish(program, start)
    return point.x, residual


def solve_passes_in_numpy(problem: FamilyProblem):
    """All passes in turn, as `least_squares.solve_passes`: the last estimate and the largest residual in persons."""
    allowed, bounds, worst = problem.allowed(), constraint_bounds(problem), 0.0
    for current in problem.passes:
        if not allowed.any():
            estimate, residual = np.zeros(allowed.shape), 0.0
        else:
            estimate, residual = solve_pass_in_numpy(problem, allowed, current, bounds)
        worst = max(worst, residual)
        if worst > least_squares.LIMIT_PERSONS:
            break
        carried = least_squares._carried(problem, current, estimate)
        allowed = least_squares._narrow(allowed, carried)
        bounds = (*bounds, *(least_squares._without_repeats(rows, bounds) for rows in carried))
    return estimate, worst
