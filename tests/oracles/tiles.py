"""Oracles of the tile problem's solver: the same problems, stated to PIQP and HiGHS in the plainest way.

Nothing else uses them.
They write out every child and column as a variable, and know nothing of groups, tables or prices.
"""

from __future__ import annotations

import highspy
import numpy as np
import piqp
from scipy import sparse

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import linear_program, quiet_solver
from tallyveil.estimation.problem import TileProblem


def least_squares_reference(problem: TileProblem) -> Floats:
    """The real-valued estimate, shape (C, s), of a problem whose own query is measured in every child.

    Each measured sum is a variable of its own. So the objective is a sum of squares of single variables, and the
    equations that PIQP solves are sparse.
    """
    n_children, n_columns = problem.n_children, problem.n_columns
    variable = np.arange(n_children * n_columns).reshape(n_children, n_columns)
    scale = min(float(query.variances.min()) for query in problem.measured)
    members, weights, values = _measured_sums(problem, variable)
    free = np.full(len(weights), -np.inf)
    fixed, totals = _sums(problem, variable)
    matrix = sparse.bmat([[fixed, None], [members, -sparse.eye(len(weights))]]).tocsc()
    curvature = np.concatenate([np.zeros(variable.size), scale * weights])
    solver = piqp.SparseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel = 1e-9, 0.0
    solver.settings.eps_duality_gap_abs, solver.settings.eps_duality_gap_rel = 1e-8, 0.0
    solver.setup(
        sparse.diags(curvature).tocsc(),
        np.concatenate([np.zeros(variable.size), -scale * weights * values]),
        matrix,
        np.concatenate([totals, np.zeros(len(weights))]),
        x_l=np.concatenate([np.zeros(variable.size), free]),
    )
    status = solver.solve()
    if status != piqp.PIQP_SOLVED:
        raise SolverError(f"PIQP ended with status {status}")
    return np.array(solver.result.x)[: variable.size].reshape(n_children, n_columns)


def _measured_sums(problem: TileProblem, variable: Integers) -> tuple[sparse.csc_matrix, Floats, Floats]:
    """Which counts each measured sum has, and the weights and values of these sums: query by query, child by child."""
    parts, weights, values = [], [], []
    for query in problem.measured:
        inside = query.labels >= 0
        n_sums = query.values.shape[1]
        for c in range(problem.n_children):
            place = (query.labels[inside], variable[c, inside])
            parts.append(sparse.csc_matrix((np.ones(place[0].size), place), shape=(n_sums, variable.size)))
            weights.append(np.full(n_sums, query.weights[c]))
            values.append(query.values[c])
    return sparse.vstack(parts).tocsc(), np.concatenate(weights), np.concatenate(values)


def _sums(problem: TileProblem, variable: Integers) -> tuple[sparse.csc_matrix, Floats]:
    """Matrix and right-hand side of the fixed sums: the parent's columns, then each child's groups."""
    n_children, n_columns = variable.shape
    parts, totals = [], []
    if problem.parent_counts is not None:
        place = (np.tile(np.arange(n_columns), n_children), variable.reshape(-1))
        parts.append(sparse.csc_matrix((np.ones(variable.size), place), shape=(n_columns, variable.size)))
        totals.append(problem.parent_counts)
    for c in range(n_children):
        groups = (problem.group, variable[c])
        parts.append(sparse.csc_matrix((np.ones(n_columns), groups), shape=(problem.n_groups, variable.size)))
        totals.append(problem.fixed[c])
    return sparse.vstack(parts).tocsc(), np.concatenate(totals).astype(np.float64)


def least_deviation_reference(
    estimate: Floats, totals: tuple[Integers, Integers], chain: tuple[Int32s, ...], weights: Integers
) -> float:
    """The least weighted deviation of any whole numbers with a table's sums, from a linear program.

    Its constraints are those of a flow, so that its least value is attained by whole numbers; deviations of sets that
    are convex and linear between whole numbers are stated by one variable for each piece.

    Args:
        estimate: [columns, children].
        totals: Of the columns, or empty, and of the children.
        chain: Sets of the columns, coarse to fine.
        weights: Of a person of deviation, by level.
    """
    n_columns, n_children = estimate.shape
    variable = np.arange(estimate.size).reshape(estimate.shape)
    rows, columns, entries, targets, costs = [], [], [], [], []
    n_sets = 0
    for labels, weight in zip(chain, weights, strict=True):
        for c in range(n_children):
            for label in np.unique(labels):
                members = np.flatnonzero(labels == label)
                rows += [n_sets] * members.size
                columns += variable[members, c].tolist()
                entries += [1.0] * members.size
                targets.append(float(estimate[members, c].sum()))
                costs.append(float(weight))
                n_sets += 1
    sums = sparse.csc_matrix((entries, (rows, columns)), shape=(n_sets, estimate.size))
    goals, cost, limits = [], [np.zeros(estimate.size)], []
    for target, weight in zip(targets, costs, strict=True):
        whole = np.floor(target + 1e-9)
        part = max(target - whole, 0.0)
        cost.append(weight * np.array([-1.0, 1.0 - 2.0 * part, 1.0]))
        limits += [whole, 1.0, np.inf]
        goals.append(weight * target)
    pieces = sparse.kron(sparse.eye(n_sets), np.ones((1, 3)))
    by_column = sparse.kron(sparse.eye(n_columns), np.ones((1, n_children)))
    by_child = sparse.kron(np.ones((1, n_columns)), sparse.eye(n_children))
    fixed = sparse.vstack([by_column, by_child] if totals[0].size else [by_child])
    none = sparse.csc_matrix((fixed.shape[0], 3 * n_sets))
    matrix = sparse.bmat([[fixed, none], [sums, -pieces]]).tocsc()
    right = np.concatenate([*totals, np.zeros(n_sets)]).astype(np.float64)
    upper = np.concatenate([np.full(estimate.size, np.inf), limits])
    solver = quiet_solver()
    solver.passModel(
        linear_program(np.concatenate(cost), (np.zeros(matrix.shape[1]), upper), (right, right), matrix)
    )
    solution = _solution(solver)
    return float(np.concatenate(cost) @ solution + sum(goals))


def _solution(solver: highspy.Highs) -> Floats:
    """The optimum.

    Raises:
        SolverError: HiGHS ended without one.
    """
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"HiGHS ended with {solver.modelStatusToString(solver.getModelStatus())}")
    return np.array(solver.getSolution().col_value)
