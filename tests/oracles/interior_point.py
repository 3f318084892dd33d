"""A first answer to a pass's quadratic program, by PIQP's interior-point method.

The program is given in lifted form, with one residual variable r = Q x - y for each answer. The objective is then
diagonal and the rows are sparse. On redistricting families the form with blocks of H took 3 to 800 times longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import piqp
from scipy import sparse
from tests.oracles.block_program import BlockProgram, Point

from tallyveil.arrays import Bools, Floats

TOLERANCE = 1e-9
LARGEST_NUMBER = 2.0**20
"""Persons that the solver is handed as they are; larger numbers are divided by a power of two, which is exact."""

MAX_ITERATIONS = 200


@dataclass(frozen=True, slots=True)
class _Objective:
    """1/2 z' P z + c' z over z = (x, r), with rows `lift` z = `target` that define r."""

    quadratic: sparse.csc_matrix
    linear: Floats
    lift: sparse.csr_matrix
    target: Floats


def solve_interior(program: BlockProgram) -> tuple[Point, bool]:
    """Solve a pass's program.

    Returns:
        The point reached, and whether the solver says that no feasible point exists. How good the point is, is
        for the caller to measure in persons; the solver's own verdict of success is not used.
    """
    scale = 1.0 / float(np.diagonal(program.hessian, axis1=1, axis2=2).max())
    objective = _lifted(program, scale)
    n_extra = objective.linear.size - program.n_variables
    equality = program.rows.equality
    sums = _sum_matrix(program)
    equal = sparse.vstack(
        [_widen(sums, n_extra), _widen(program.rows.matrix[equality], n_extra), objective.lift]
    )
    right = np.concatenate([_sum_values(program), program.rows.lower[equality], objective.target])
    unit = _unit(np.concatenate([right, program.rows.lower[~equality], program.rows.upper[~equality]]))
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = TOLERANCE
    solver.settings.eps_rel = 0.0
    solver.settings.check_duality_gap = False
    solver.settings.max_iter = MAX_ITERATIONS
    solver.setup(
        objective.quadratic,
        objective.linear / unit,
        equal.tocsc(),
        right / unit,
        _widen(program.rows.matrix[~equality], n_extra).tocsc(),
        program.rows.lower[~equality] / unit,
        program.rows.upper[~equality] / unit,
        np.concatenate([np.zeros(program.n_variables), np.full(n_extra, -np.inf)]),
        np.full(objective.linear.size, np.inf),
    )
    status = solver.solve()
    return _point(program, solver.result, equality, scale, unit), status == piqp.PIQP_PRIMAL_INFEASIBLE


def _unit(numbers: Floats) -> float:
    """The power of two, 1 or more, in which no number is above `LARGEST_NUMBER`; without it, tolerances are lost.

    A bound that is not there is infinite, and counts for nothing.
    """
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    return max(1.0, float(2.0 ** np.ceil(np.log2(max(largest, 1.0) / LARGEST_NUMBER))))


def _point(program: BlockProgram, result: piqp.Result, equality: Bools, scale: float, unit: float) -> Point:
    """Undo both scales and the solver's sign convention (it adds multipliers, the house subtracts)."""
    scale = scale / unit
    n_sums = 0 if program.sums is None else program.sums.size
    y = -np.asarray(result.y) / scale
    row_price = np.zeros(equality.size)
    row_price[equality] = y[n_sums : n_sums + int(equality.sum())]
    row_price[~equality] = (np.asarray(result.z_l) - np.asarray(result.z_u)) / scale
    cell_price = np.zeros(program.allowed.shape[1]) if program.sums is None else y[:n_sums].copy()
    return Point(np.array(result.x[: program.n_variables]) * unit, cell_price, row_price)


def _sum_matrix(program: BlockProgram) -> sparse.csr_matrix:
    n_rows = 0 if program.sums is None else program.sums.size
    if n_rows == 0:
        return sparse.csr_matrix((0, program.n_variables))
    column = np.arange(program.n_variables)
    return sparse.csr_matrix((np.ones(column.size), (program.cell, column)), shape=(n_rows, column.size))


def _sum_values(program: BlockProgram) -> Floats:
    return np.zeros(0) if program.sums is None else program.sums


def _widen(matrix: sparse.csr_matrix, n_extra: int) -> sparse.csr_matrix:
    """The same rows with empty columns for the residual variables."""
    shape = (matrix.shape[0], matrix.shape[1] + n_extra)
    return sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=shape)


def _lifted(program: BlockProgram, scale: float) -> _Objective:
    """Residual variables for answers of two or more variables; a single cell's answer stays on the diagonal."""
    n = program.n_variables
    diagonal = program.ridge[program.kind[program.child], program.cell]
    linear = diagonal * program.centre
    weights, targets, rows, columns = [], [], [], []
    n_extra = 0
    for one in program.partitions:
        answer = one.labels[program.cell]
        used = np.flatnonzero(answer >= 0)
        weight, width = one.weights[program.child[used]], one.values.shape[1]
        where = program.child[used] * width + answer[used]
        size = np.bincount(where, minlength=one.values.size)
        single = size[where] == 1
        diagonal[used[single]] += weight[single]
        linear[used[single]] -= weight[single] * one.values.reshape(-1)[where[single]]
        lifted = np.flatnonzero(size > 1)
        number = np.full(one.values.size, -1, dtype=np.int64)
        number[lifted] = n_extra + np.arange(lifted.size)
        weights.append(one.weights[lifted // width])
        targets.append(one.values.reshape(-1)[lifted])
        rows.append(number[where[~single]])
        columns.append(used[~single])
        n_extra += lifted.size
    extra = np.arange(n_extra)
    row = np.concatenate([np.zeros(0, np.int64), *rows, extra])
    column = np.concatenate([np.zeros(0, np.int64), *columns, n + extra])
    value = np.concatenate([np.ones(row.size - n_extra), np.full(n_extra, -1.0)])
    everything = np.concatenate([diagonal, *weights]) * scale
    return _Objective(
        sparse.diags(everything, format="csc"),
        np.concatenate([linear * scale, np.zeros(n_extra)]),
        sparse.csr_matrix((value, (row, column)), shape=(n_extra, n + n_extra)),
        np.concatenate([np.zeros(0), *targets]),
    )
