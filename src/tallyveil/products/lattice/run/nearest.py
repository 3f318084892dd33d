"""The nearest table without negative counts, for every kind of invariants.

Where the invariants fix block sums, and for two-way margins, `subspace.nonnegative` finds it in closed form or by
shortest paths. For all others it is the answer to an integer program, which is solved here.
"""

from typing import Any, Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import IntegerProgram, solve_integer
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.nonnegative import has_nearest, nearest_nonnegative

_WHERE: Final = "the nearest table without negative counts"


def nearest_table(
    table: Integers, lattice: Lattice, matrix: Any, order: Integers, largest: int | None = None
) -> Integers:
    """The nearest table of integers from 0 with the same invariants, in the l1 distance.

    Program. Let b be y with every count moved to the nearest one that is allowed, and m the largest count. Every table
    of such counts is b + u - v with 0 <= u <= m - b and 0 <= v <= b. Its l1 distance from y is that of b, plus the sum
    of u and v, so that this sum is minimised, subject to A (u - v) = A (y - b), in whole numbers. A simplex vertex that
    is whole and proved optimal by whole prices is the answer; otherwise branch and bound with no gap is
    (`estimation.highs`).

    Ties. The solver sees the cells in an order that the caller draws at random, so that equally near tables are not
    decided in favour of the same cells in every release.

    Worked case. A = (1 1 0; 0 1 1) and y = (-1, 2, 1). The tables with these sums are (t, 1 - t, 2 + t). The nearest
    one without a negative count has t = 0: w = (0, 1, 2), at distance 3.

    Args:
        table: int64 [n_cells]; some table without negative counts has its invariants.
        lattice: The lattice of the invariants.
        matrix: Their matrix A, whole numbers [n_constraints, n_cells], sparse.
        order: A random permutation of the cells.
        largest: Largest count of a cell; None for no bound.
    Returns:
        int64 [n_cells].
    Raises:
        SolverError: no such table exists, or branch and bound ended without a proof.
    Privacy: post-processing of the given table.
    """
    if has_nearest(lattice.structure) and largest is None:
        return nearest_nonnegative(table, lattice.structure, order)
    base = np.clip(table, 0, largest)
    needed = matrix @ (table - base)
    n, seen = len(table), np.argsort(order)
    columns = np.concatenate([seen, n + seen])
    program = IntegerProgram(
        cost=np.ones(2 * n, dtype=np.int64),
        lower=np.zeros(2 * n, dtype=np.int64),
        upper=np.concatenate([np.full(n, UNBOUNDED) if largest is None else largest - base, base])[columns],
        row_lower=needed,
        row_upper=needed,
        matrix=sparse.csc_matrix(sparse.hstack([matrix, -matrix])[:, columns], dtype=np.float64),
        useful=np.ones(2 * n, dtype=np.bool_),
    )
    answer = solve_integer(program, _WHERE)
    if answer is None:
        limit = "on" if largest is None else f"to {largest}"
        raise SolverError(
            f"{_WHERE} does not exist: no table with counts from 0 {limit} has these invariants. If the true table is "
            "one, please report this.",
            code="check-failed",
        )
    moves = np.empty(2 * n, dtype=np.int64)
    moves[columns] = answer.values
    nearest: Integers = base + moves[:n] - moves[n:]
    return nearest
