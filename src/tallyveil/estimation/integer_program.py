"""Integer programs with whole-number data, solved exactly.

First the program is solved as a linear program by the simplex method, with only the columns that seem useful. The
other columns are priced, and enter when they would lower the cost. A whole-number vertex is accepted when a
whole-number dual solution proves it optimal in exact arithmetic. This always succeeds where the matrix is a network,
as it is for nested queries. All other programs are solved by branch and bound with a zero gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import linear_program, quiet_solver
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.estimation.solution import RoundingMethod

COST_UNIT = 2.0**-10
"""Costs are handed to the solver in this unit, which keeps whole costs exact and far above its tolerances."""

EXACT = 2.0**52
"""Largest sum of absolute products of whole numbers that is trusted to floats and to int64. Floats hold whole numbers
exactly up to 2^53, so one bit is to spare: at twice it there is none left for rounding up, at half of it a few more
programs go to branch and bound. No answer changes."""


@dataclass(frozen=True, slots=True)
class IntegerProgram:
    """Minimise cost . z subject to lower <= z <= upper and row_lower <= M z <= row_upper, z whole numbers.

    Attributes:
        cost: Whole numbers, shape (n,).
        lower: Shape (n,); -UNBOUNDED: none.
        upper: Shape (n,); UNBOUNDED: none.
        row_lower: Shape (r,).
        row_upper: Shape (r,).
        matrix: Shape (r, n), entries -1, 0, 1.
        useful: Columns to start with, shape (n,); every other column must have lower = 0.
    """

    cost: Integers
    lower: Integers
    upper: Integers
    row_lower: Integers
    row_upper: Integers
    matrix: sparse.csc_matrix
    useful: Bools


@dataclass(frozen=True, slots=True)
class IntegerAnswer:
    """An optimal point and how it was found."""

    values: Integers
    method: RoundingMethod


def solve_integer(program: IntegerProgram, where: str) -> IntegerAnswer | None:
    """The exact optimum, or None when there is no feasible point.

    Args:
        program: The program.
        where: The family in words, for messages.
    Raises:
        SolverError: branch and bound ended without a proof.
    """
    if (program.lower > program.upper).any() or (program.row_lower > program.row_upper).any():
        return None
    if program.cost.size == 0:
        feasible = not ((program.row_lower > 0) | (program.row_upper < 0)).any()
        return IntegerAnswer(np.zeros(0, np.int64), RoundingMethod.FIXED) if feasible else None
    optimum = _solve_linear(program)
    if optimum is not None:
        # Rounding only proposes: what it gives is proved below in int64, or not used.
        values, prices = (np.rint(numbers) for numbers in optimum)
        # The casts must not overflow, and a float of this size is a whole number of its own accord.
        if max(np.abs(values).max(initial=0), np.abs(prices).max(initial=0)) < EXACT:
            whole = values.astype(np.int64)
            if proves_optimal(program, whole, prices.astype(np.int64)):
                return IntegerAnswer(whole, RoundingMethod.LINEAR_PROGRAM)
    # A vertex with fractions, or prices with fractions: no proof in whole numbers exists at this vertex.
    branched = branch_and_bound(program, where)
    return None if branched is None else IntegerAnswer(branched, RoundingMethod.INTEGER_PROGRAM)


def is_feasible(program: IntegerProgram, values: Integers) -> bool:
    """Whether whole numbers meet every bound and row, in exact arithmetic."""
    # Entries are -1, 0 and 1 and values are below 2^52, so that sums in int64 are exact.
    activity = program.matrix.astype(np.int64) @ values
    inside = (values >= program.lower) & (values <= program.upper)
    rows = (activity >= program.row_lower) & (activity <= program.row_upper)
    return bool(inside.all() and rows.all())


def proves_optimal(program: IntegerProgram, values: Integers, prices: Integers) -> bool:
    """Whether whole-number row prices prove the point optimal: feasible, and no gap to the dual bound.

    Weak duality in int64: for any prices p, cost . z >= sum of p times the row bound it leans on, plus the
    reduced costs times the column bounds that hold them.
    """
    if not is_feasible(program, values):
        return False
    # Any prices give a lower bound on the cost. If it is attained, the point is optimal, however the prices were found.
    reduced = program.cost - program.matrix.T.astype(np.int64) @ prices
    sides = [
        (prices, program.row_lower, program.row_upper),
        (reduced, program.lower, program.upper),
    ]
    bound = 0
    for price, lower, upper in sides:
        # A row or column without a price adds nothing to the bound, and may have no limit at all.
        leaning = price != 0
        at = np.where(price > 0, lower, upper)[leaning]
        # Whether the product in int64 could overflow is decided in floats, which cannot.
        size = np.abs(price[leaning].astype(np.float64)) @ np.abs(at.astype(np.float64))
        # A price that leans on a limit that does not exist proves nothing: the dual point is infeasible.
        if (np.abs(at) >= UNBOUNDED).any() or size > EXACT:
            return False
        bound += int(price[leaning] @ at)
    return bound == int((program.cost * values).sum())


def _solve_linear(program: IntegerProgram) -> tuple[Floats, Floats] | None:
    """(values, row prices in cost units) of the relaxation, by pricing columns in; None without an optimum."""
    included = program.useful.copy()
    while True:
        solver = _load(program, included)
        solver.run()
        # Too few columns may leave no feasible point; only with all of them does that say something about the program.
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            if included.all():
                return None
            included[:] = True
            continue
        solution = solver.getSolution()
        prices = np.asarray(solution.row_dual) / COST_UNIT
        reduced = program.cost - program.matrix.T @ prices
        # Costs and prices are whole at the vertices that count, so a reduced cost below zero is -1 or less.
        wanted = ~included & (reduced < -0.5) & (program.upper > 0)
        if not wanted.any():
            values = np.zeros(program.cost.size)
            values[included] = solution.col_value
            return values, prices
        # The set only grows, and there are finitely many columns: the loop ends.
        included |= wanted


def branch_and_bound(program: IntegerProgram, where: str) -> Integers | None:
    """The optimum over all columns with a gap of zero, or None when the program is infeasible."""
    solver = _load(program, np.ones(program.cost.size, dtype=np.bool_), whole=True)
    solver.setOptionValue("mip_rel_gap", 0.0)
    # Costs are whole in units of COST_UNIT: a quarter of one is below every gap between two different values.
    solver.setOptionValue("mip_abs_gap", COST_UNIT / 4)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    # The solver's integers are whole up to its tolerance of 1e-6; feasibility is checked on the rounded ones.
    values: Integers = np.rint(np.asarray(solver.getSolution().col_value)).astype(np.int64)
    if status != highspy.HighsModelStatus.kOptimal or not is_feasible(program, values):
        raise SolverError(
            f"{where}: the rounding's branch and bound stopped with {solver.modelStatusToString(status)}, "
            "want a proved optimum; make the rounding queries and the constraints nested"
        )
    return values


def _load(program: IntegerProgram, included: Bools, whole: bool = False) -> highspy.Highs:
    """A quiet one-thread solver that holds the included columns."""
    matrix = program.matrix if included.all() else program.matrix[:, included]
    cost = program.cost[included].astype(np.float64) * COST_UNIT
    columns = _bounds(program.lower[included]), _bounds(program.upper[included])
    lp = linear_program(cost, columns, (_bounds(program.row_lower), _bounds(program.row_upper)), matrix)
    if whole:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * matrix.shape[1]
    solver = quiet_solver()
    if not whole:
        # The proof needs a vertex, where whole numbers come from; an interior-point method would end inside a face.
        solver.setOptionValue("solver", "simplex")
        solver.setOptionValue("presolve", "off")
    solver.passModel(lp)
    return solver


def _bounds(values: Integers) -> Floats:
    """Bounds as the solver wants them, with infinities."""
    bounds = values.astype(np.float64)
    bounds[values >= UNBOUNDED] = highspy.kHighsInf
    bounds[values <= -UNBOUNDED] = -highspy.kHighsInf
    return bounds
