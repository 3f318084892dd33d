"""Linear and integer programs, solved by HiGHS without output and on one thread.

*Integer programs* with whole-number data are solved exactly. First the program is solved as a linear program
by the simplex method, with only the columns that seem useful. The other columns are priced, and enter when
they would lower the cost. A whole-number vertex is accepted when a whole-number dual solution proves it
optimal in exact arithmetic. This always succeeds where the matrix is a network, as it is for nested queries.
All other programs are solved by branch and bound with a zero gap.

*Conflicts.* Which constraints of a family contradict one another is said without showing a count. An elastic
linear program minimises the persons by which bounds are missed. If the minimum is above zero, the bounds
conflict. The bounds with a dual price that is not zero at the optimum are the ones in conflict: they alone
prove that no counts exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.problem import UNBOUNDED, FamilyProblem, RoundingMethod


def linear_program(
    cost: Floats,
    columns: tuple[Floats, Floats],
    rows: tuple[Floats, Floats],
    matrix: sparse.csc_matrix,
) -> highspy.HighsLp:
    """min cost . z over z within the columns' (lower, upper) and matrix z within the rows' (lower, upper)."""
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = matrix.shape
    program.col_cost_ = cost
    program.col_lower_, program.col_upper_ = columns
    program.row_lower_, program.row_upper_ = rows
    # The arrays of a csc_matrix are column-wise already, so that nothing is copied or sorted.
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr
    program.a_matrix_.index_ = matrix.indices
    program.a_matrix_.value_ = matrix.data
    return program


def quiet_solver() -> highspy.Highs:
    """A solver that prints nothing and uses one thread, so that its answer does not depend on the machine's."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    # Families are solved on many threads at once already.
    solver.setOptionValue("threads", 1)
    return solver


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
        matrix: Shape (r, n), whole numbers; the sum of absolute entries of a row times values must stay below EXACT.
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
    # The program's sums stay below 2^52, so that they are exact in int64.
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


SHOWN_CHILDREN = 8
"""Children whose geocodes a message shows; a constraint may be in conflict for thousands. Twice or half of it changes
the length of the message only."""


@dataclass(frozen=True, slots=True)
class _Elastic:
    """Rows of the elastic program; the first are cell sums, which are never relaxed and have no owners.

    `owner` has the children whose cells a row sums.
    """

    matrix: sparse.csc_matrix
    lower: Floats
    upper: Floats
    name: tuple[str, ...]
    owner: tuple[tuple[int, ...], ...]


def explain_conflict(problem: FamilyProblem) -> str | None:
    """A message naming the constraints and children in conflict, or None when real-valued counts exist.

    The message holds names and geocodes and no number of the data.
    """
    # Without sums and bounds every non-negative table is possible, so there is nothing to explain.
    if problem.parent_counts is None and not problem.constraints:
        return None
    rows = _elastic(problem)
    prices = _prices(rows)
    if prices is None:
        return None
    children_of: dict[str, list[str]] = {}
    # Prices at a vertex are whole numbers where the rows are a network; 1e-6 only cuts the solver's rounding.
    for i in np.flatnonzero(np.abs(prices) > 1e-6):
        if rows.owner[i]:
            children_of.setdefault(rows.name[i], []).extend(problem.children[c] for c in rows.owner[i])
    # Sorted, so that the same conflict always gives the same message.
    parts = [
        f"'{name}' of {_listed(sorted(set(children)))}" for name, children in sorted(children_of.items())
    ]
    n_sums = 0 if problem.parent_counts is None else problem.n_cells
    with_parent = " with the parent's published counts" if (np.abs(prices[:n_sums]) > 1e-6).any() else ""
    return (
        f"{problem.where}: no counts satisfy the constraints{with_parent}; in conflict: {'; '.join(parts)}. "
        "Relax one of them, or make the bounds of the parent's geolevel imply those of its children"
    )


def _listed(children: list[str]) -> str:
    shown = ", ".join(f"'{child}'" for child in children[:SHOWN_CHILDREN])
    more = len(children) - SHOWN_CHILDREN
    return f"children {shown}" + (f" and {more} more" if more > 0 else "")


def _elastic(problem: FamilyProblem) -> _Elastic:
    """Rows over all C * s counts: sums to the parent, then each constraint of each child."""
    n_children, n_cells = problem.n_children, problem.n_cells
    variable = np.arange(n_children * n_cells).reshape(n_children, n_cells)
    # Triplets are collected row block by row block and made a sparse matrix once: a dense one would have C * s columns.
    rows, columns, lower, upper = [], [], [], []
    names: list[str] = []
    owner: list[tuple[int, ...]] = []
    n_rows = 0
    if problem.parent_counts is not None:
        rows.append(np.tile(np.arange(n_cells), n_children))
        columns.append(variable.reshape(-1))
        lower.append(problem.parent_counts.astype(np.float64))
        upper.append(lower[0])
        names += ["parent"] * n_cells
        # Sums to the parent have no owner and are therefore never relaxed: a conflict is always put on a constraint.
        owner += [()] * n_cells
        n_rows = n_cells
    for constraint in problem.constraints:
        used = np.flatnonzero(constraint.labels >= 0)
        width = constraint.lower.shape[1]
        n_groups = constraint.lower.shape[0]
        number = n_rows + np.arange(n_groups * width).reshape(n_groups, width)
        rows.append(number[constraint.group_of][:, constraint.labels[used]].reshape(-1))
        columns.append(variable[:, used].reshape(-1))
        lower.append(constraint.lower.reshape(-1).astype(np.float64))
        limit = constraint.upper.reshape(-1).astype(np.float64)
        # 2^62 persons would be a number to the solver, and would spoil the scale of its rows.
        limit[constraint.upper.reshape(-1) >= UNBOUNDED] = highspy.kHighsInf
        upper.append(limit)
        names += [constraint.name] * (n_groups * width)
        together = [tuple(np.flatnonzero(constraint.group_of == group).tolist()) for group in range(n_groups)]
        owner += [children for children in together for _ in range(width)]
        n_rows += n_groups * width
    row, column = np.concatenate(rows), np.concatenate(columns)
    matrix = sparse.csc_matrix((np.ones(row.size), (row, column)), shape=(n_rows, n_children * n_cells))
    return _Elastic(matrix, np.concatenate(lower), np.concatenate(upper), tuple(names), tuple(owner))


def _prices(rows: _Elastic) -> Floats | None:
    """Prices of the rows at the least total violation, or None when there is none."""
    n_rows, n = rows.matrix.shape
    elastic = np.array([i for i, children in enumerate(rows.owner) if children], dtype=np.int64)
    # Each relaxed row gets two columns, one for each side on which it may be missed, at one unit of cost a person.
    short = sparse.eye(n_rows, format="csc")[:, elastic]
    matrix = sparse.hstack([rows.matrix, short, -short], format="csc")
    cost = np.concatenate([np.zeros(n), np.ones(2 * elastic.size)])
    columns = np.zeros(matrix.shape[1]), np.full(matrix.shape[1], highspy.kHighsInf)
    solver = quiet_solver()
    solver.passModel(linear_program(cost, columns, (rows.lower, rows.upper), matrix))
    solver.run()
    # Persons in total. A conflict between whole numbers misses by far more; 1e-6 is the solver's rounding.
    if solver.getInfo().objective_function_value < 1e-6:
        return None
    return np.asarray(solver.getSolution().row_dual)
