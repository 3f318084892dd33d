"""The quadratic program of one pass: blocks of cells, one block a child, tied together by the parent's counts.

Minimise  sum over children c of  1/2 x_c' H x_c - b_c' x_c
subject to  x >= 0,  sum over c of x_c = sums (in every cell),  lower <= A x <= upper.

All children share H, because they share the queries and their variances. Variables are the allowed
(child, cell) pairs, ordered by child, then cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tallyveil.estimation.problem import BoolArray, FloatArray, Int64Array


@dataclass(frozen=True, slots=True)
class Partition:
    """One measured query on the program's cells.

    Attributes:
        labels: Answer of each cell, shape (g,), numbered 0..k-1 without gaps; -1: none.
        weight: 1 / variance.
        values: Measured answers, shape (C, k).
    """

    labels: Int64Array
    weight: float
    values: FloatArray


@dataclass(frozen=True, slots=True)
class RowSet:
    """Linear rows, each of one child.

    Attributes:
        child: Child of each row, shape (r,).
        lower: Lower bounds, -inf for none.
        upper: Upper bounds, inf for none; an equality where both agree.
        matrix: 0/1 matrix over the variables, shape (r, n).
    """

    child: Int64Array
    lower: FloatArray
    upper: FloatArray
    matrix: sparse.csr_matrix

    @property
    def equality(self) -> BoolArray:
        """Which rows are equalities."""
        return np.asarray(self.lower == self.upper)


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """See the module's text.

    Attributes:
        allowed: Where variables exist, shape (C, g).
        sums: Parent's count of every cell, or None at a root.
        partitions: Measured queries; they make H and b.
        ridge: Added to H's diagonal, shape (g,); zero when H is definite without it.
        hessian: H, shape (g, g).
        linear: b, shape (C, g).
        rows: Constraint rows and rows carried from earlier passes.
        child: Child of each variable, shape (n,).
        cell: Cell of each variable, shape (n,).
    """

    allowed: BoolArray
    sums: FloatArray | None
    partitions: tuple[Partition, ...]
    ridge: FloatArray
    hessian: FloatArray
    linear: FloatArray
    rows: RowSet
    child: Int64Array
    cell: Int64Array

    @property
    def n_variables(self) -> int:
        """n."""
        return int(self.child.size)

    def spread(self, x: FloatArray) -> FloatArray:
        """Values of the variables as an array of shape (C, g), zero where nothing is allowed."""
        full = np.zeros(self.allowed.shape)
        full[self.child, self.cell] = x
        return full


@dataclass(frozen=True, slots=True)
class Point:
    """A primal and dual point.

    Attributes:
        x: Variables, shape (n,).
        cell_price: Multipliers of the parent's sums, shape (g,); zeros at a root.
        row_price: Multipliers of the rows, shape (r,): positive at a lower bound, negative at an upper one.
    """

    x: FloatArray
    cell_price: FloatArray
    row_price: FloatArray


def reduced_cost(program: BlockProgram, point: Point) -> FloatArray:
    """Gradient of the Lagrangian at each variable, shape (n,): zero inside, not negative at zero."""
    full = program.spread(point.x)
    gradient = (full @ program.hessian - program.linear)[program.child, program.cell]
    if program.sums is not None:
        gradient = gradient - point.cell_price[program.cell]
    if program.rows.child.size:
        gradient = gradient - point.row_price @ program.rows.matrix
    return np.asarray(gradient)


def row_scale(program: BlockProgram) -> float:
    """Curvature that converts a row's multiplier to persons."""
    diagonal = np.diagonal(program.hessian)
    return float(diagonal.min()) if diagonal.size else 1.0


def residual_persons(program: BlockProgram, point: Point) -> float:
    """Largest violation of the optimality conditions, in persons.

    Each condition is written as the distance a variable or a row's sum would move in one projected Newton step
    along its own coordinate: |x - max(0, x - gradient / H_ii)|, and likewise for rows; cell sums enter as they
    are. Zero exactly at the optimum.
    """
    if program.n_variables == 0:
        return 0.0 if program.sums is None or not program.sums.any() else np.inf
    curvature = np.diagonal(program.hessian)[program.cell]
    step = point.x - np.maximum(0.0, point.x - reduced_cost(program, point) / curvature)
    worst = float(np.abs(step).max())
    if program.sums is not None:
        sums = np.bincount(program.cell, weights=point.x, minlength=program.sums.size)
        worst = max(worst, float(np.abs(sums - program.sums).max()))
    if program.rows.child.size:
        activity = program.rows.matrix @ point.x
        moved = np.clip(
            activity - point.row_price / row_scale(program), program.rows.lower, program.rows.upper
        )
        worst = max(worst, float(np.abs(activity - moved).max()))
    return worst if np.isfinite(worst) else np.inf
