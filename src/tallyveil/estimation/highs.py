"""The one way to solve a linear program by HiGHS: without output and on one thread."""

from __future__ import annotations

import highspy
from scipy import sparse

from tallyveil.arrays import Floats


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
