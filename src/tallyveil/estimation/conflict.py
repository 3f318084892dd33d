"""Say which constraints of a family contradict one another, without showing a count.

An elastic linear program minimises the persons by which bounds are missed. If the minimum is above zero, the bounds
conflict. The bounds with a dual price that is not zero at the optimum are the ones in conflict: they alone prove that
no counts exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats
from tallyveil.estimation.highs import linear_program, quiet_solver
from tallyveil.estimation.problem import UNBOUNDED, FamilyProblem

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
