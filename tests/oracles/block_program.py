"""The quadratic program of one pass: one block of cells for each child, coupled by the parent's counts.

Minimise  sum over children c of  1/2 x_c' H_c x_c - b_c' x_c
subject to  x >= 0,  sum over c of x_c = sums (in every cell),  lower <= A x <= upper.

All children have the same queries. Children whose variances are the same have the same H: they are of one kind. There
is usually one kind, and seldom more than three. Variables are the allowed (child, cell) pairs, ordered by child, then
cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.kernels.family.program import SOFTEST

ROOM: Final = 2.0**14
"""Persons by which a count may fall below a close point of it."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One measured query on the program's cells.

    Attributes:
        labels: Answer of each cell, shape (g,), numbered 0..k-1 without gaps; -1: none.
        weights: 1 / variance, shape (C,); 0: not measured.
        values: Measured answers, shape (C, k).
    """

    labels: Integers
    weights: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class RowSet:
    """Linear rows, each of children in one block.

    Attributes:
        block: Block of each row, shape (r,).
        lower: Lower bounds, -inf for none.
        upper: Upper bounds, inf for none; an equality where both agree.
        matrix: 0/1 matrix over the variables, shape (r, n).
    """

    block: Integers
    lower: Floats
    upper: Floats
    matrix: sparse.csr_matrix

    @property
    def equality(self) -> Bools:
        """Which rows are equalities."""
        return np.asarray(self.lower == self.upper)


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """See the module's text.

    Attributes:
        allowed: Where variables exist, shape (C, g).
        sums: Parent's count of every cell, or None at a root.
        partitions: Measured queries; they make H and b.
        kind: Kind of each child, shape (C,).
        block: Block of each child, shape (C,): children that share a row are in one block. Usually each is alone.
        ridge: Added to the diagonals, shape (kinds, g); zero where an H is definite without it.
        hessian: H of each kind, shape (kinds, g, g).
        linear: b, shape (C, g).
        rows: Constraint rows and rows carried from earlier passes.
        child: Child of each variable, shape (n,).
        cell: Cell of each variable, shape (n,).
        centre: What was taken away from every count, shape (n,): zeros, or see `centred`. The ridge still pulls
            the whole count, and optimality is that of the whole count, which may not be below zero.
    """

    allowed: Bools
    sums: Floats | None
    partitions: tuple[Partition, ...]
    kind: Integers
    block: Integers
    ridge: Floats
    hessian: Floats
    linear: Floats
    rows: RowSet
    child: Integers
    cell: Integers
    centre: Floats

    @property
    def n_variables(self) -> int:
        """n."""
        return int(self.child.size)

    @property
    def scale(self) -> Floats:
        """What converts a gradient to persons, shape (kinds, g): H's diagonal, or SOFTEST of any kind's."""
        diagonal = np.diagonal(self.hessian, axis1=1, axis2=2)
        return np.asarray(np.maximum(diagonal, SOFTEST * diagonal.max(axis=0)))

    @property
    def curvature(self) -> Floats:
        """The scale of each variable, shape (n,)."""
        return np.asarray(self.scale[self.kind[self.child], self.cell])

    def spread(self, x: Floats) -> Floats:
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

    x: Floats
    cell_price: Floats
    row_price: Floats


def centred(program: BlockProgram, x: Floats) -> BlockProgram:
    """The same program in the differences from whole numbers a little below a close point.

    Floats hold 53 bits. Of a count of billions these leave too few for the differences that decide where the optimum
    is. All that is taken away is whole and is subtracted from whole numbers first, which is exact; what is left is of
    the size of the noise.

    Args:
        program: A program whose centre is zero.
        x: A close point, shape (n,). Counts below `ROOM` keep their own bound at zero; from larger ones all but about
            `ROOM` is taken, which bounds them from below. An optimum that lies on such a bound is not certified.
    """
    centre = np.floor(np.maximum(x - ROOM, 0.0))
    full = program.spread(centre)
    partitions, linear = [], np.zeros(full.shape)
    for one in program.partitions:
        used = one.labels >= 0
        values = one.values.copy()
        for cell in np.flatnonzero(used):
            values[:, one.labels[cell]] -= full[:, cell]
        linear[:, used] += one.weights[:, None] * values[:, one.labels[used]]
        partitions.append(replace(one, values=values))
    moved = program.rows.matrix @ centre
    rows = replace(program.rows, lower=program.rows.lower - moved, upper=program.rows.upper - moved)
    return replace(
        program,
        sums=None if program.sums is None else program.sums - full.sum(axis=0),
        partitions=tuple(partitions),
        linear=linear - program.ridge[program.kind] * full,
        rows=rows,
        centre=centre,
    )


def reduced_cost(program: BlockProgram, point: Point) -> Floats:
    """Gradient of the Lagrangian at each variable, shape (n,): zero inside, not negative at zero."""
    full = program.spread(point.x)
    product = np.empty(full.shape)
    for kind, hessian in enumerate(program.hessian):
        product[program.kind == kind] = full[program.kind == kind] @ hessian
    gradient = (product - program.linear)[program.child, program.cell]
    if program.sums is not None:
        gradient = gradient - point.cell_price[program.cell]
    if program.rows.block.size:
        gradient = gradient - point.row_price @ program.rows.matrix
    return np.asarray(gradient)


def row_scale(program: BlockProgram) -> float:
    """Curvature that converts a row's multiplier to persons."""
    scale = program.scale
    return float(scale.min()) if scale.size else 1.0


def residual_persons(program: BlockProgram, point: Point) -> float:
    """Largest violation of the optimality conditions, in persons.

    Each condition is written as the distance a variable or a row's sum would move in one projected Newton step
    along its own coordinate: |x - max(0, x - gradient / H_ii)|, and likewise for rows; cell sums enter as they
    are. Zero exactly at the optimum.
    """
    if program.n_variables == 0:
        return 0.0 if program.sums is None or not program.sums.any() else np.inf
    step = point.x - np.maximum(-program.centre, point.x - reduced_cost(program, point) / program.curvature)
    worst = float(np.abs(step).max())
    if program.sums is not None:
        sums = np.bincount(program.cell, weights=point.x, minlength=program.sums.size)
        worst = max(worst, float(np.abs(sums - program.sums).max()))
    if program.rows.block.size:
        activity = program.rows.matrix @ point.x
        moved = np.clip(
            activity - point.row_price / row_scale(program), program.rows.lower, program.rows.upper
        )
        worst = max(worst, float(np.abs(activity - moved).max()))
    return worst if np.isfinite(worst) else np.inf
