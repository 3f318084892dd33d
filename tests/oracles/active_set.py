"""Exact answer to a pass's quadratic program, from a close one: a proximal primal-dual active-set method in numpy.

This module is an independent oracle of the compiled solver. It
solves the same problem as `tallyveil.kernels.family.polish` and shares no code with it. It factors dense matrices where
the kernel iterates, and it makes no difference between rough and exact steps or between soft and stiff rows. So the
two visit different faces and end at the same optimum.

A face says which variables are at zero and which rows bind. On a face the optimum solves linear equations: one small
dense system for each block, which is a child, or all children that rows bind together. The prices of the parent's cell
sums couple these systems through a Schur complement.
Signs that come out wrong are swapped and the face is solved again, until nothing is wrong.

Rows may repeat one another or meet in one point, so that a face's equations may be dependent. Each binding row and
each cell sum is therefore given a little compliance around its last price (the proximal method of multipliers):
sum = bound - compliance * (price - last price). Every face then has one answer, and a price has its right sign by
construction. Solving again around the new prices makes the violation vanish; on an unchanged face that is iterative
refinement with the same factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.oracles.block_program import BlockProgram, Point, reduced_cost, residual_persons, row_scale

from tallyveil.arrays import Bools, Floats, Integers

COMPLIANCES = (2.0**-24, 2.0**-16, 2.0**-8)
"""Compliance of rows and sums, in units of an answer's own; the next one is tried where the face cycles."""

FULL_SWAPS = 15
MAX_STEPS = 150
EXACT_PERSONS = 1e-10
CERTIFIED_PERSONS = 1e-7


@dataclass(frozen=True, slots=True)
class _Face:
    """Free variables, shape (n,), and rows that bind: -1 lower, 1 upper, 2 equality, 0 not; shape (r,)."""

    free: Bools
    side: Integers


@dataclass(frozen=True, slots=True)
class _Block:
    """One block's inverse on the face. Its unknowns are its free variables, then its binding rows."""

    variables: Integers
    rows: Integers
    inverse: Floats


@dataclass(frozen=True, slots=True)
class _Factors:
    """All blocks' inverses and the inverse of the Schur complement for the cell prices."""

    blocks: tuple[_Block, ...]
    schur: Floats | None


@dataclass(frozen=True, slots=True)
class _Swap:
    """Variables to move on or off zero and by how many persons each is wrong; new row sides, likewise."""

    flip: Bools
    wrong: Floats
    side: Integers
    row_wrong: Floats


@dataclass(frozen=True, slots=True)
class _Errors:
    """By how much a point misses the face's equations.

    Attributes:
        gradient: Minus the Lagrangian's gradient where free, shape (n,).
        missing_rows: Persons that binding rows lack, shape (r,).
        missing_cells: Persons that cells lack, shape (g,).
    """

    gradient: Floats
    missing_rows: Floats
    missing_cells: Floats


def polish(program: BlockProgram, start: Point) -> tuple[Point, float]:
    """Improve a point until it is the exact optimum.

    Args:
        program: The pass's program.
        start: A close point, whose face is the first guess.
    Returns:
        The best point found, with exact zeros off its face, and its residual in persons; at most
        CERTIFIED_PERSONS where a face settled.
    """
    best = Point(np.maximum(start.x, 0.0), start.cell_price, start.row_price)
    residual = residual_persons(program, best)
    for compliance in COMPLIANCES:
        found = _search(program, start, compliance)
        if found is not None and found[1] < residual:
            best, residual = found
        if residual <= CERTIFIED_PERSONS:
            break
    return best, residual


def _search(program: BlockProgram, start: Point, compliance: float) -> tuple[Point, float] | None:
    """Walk from face to face at one compliance; the last settled face's point, and its residual."""
    tolerance = 1e-9 + 1e-13 * float(np.abs(start.x).max(initial=0.0))
    face = _with_a_child_in_every_cell(program, _guess(program, start), start.x)
    centre, factors = start, _factor(program, face, compliance)
    found: tuple[Point, float] | None = None
    last = np.inf
    for step in range(MAX_STEPS):
        if factors is None:
            return found
        point = _step(program, face, factors, centre)
        swap = _swap(program, face, centre, point, tolerance, compliance)
        if not swap.flip.any() and np.array_equal(swap.side, face.side):
            clean = Point(np.maximum(point.x, 0.0), point.cell_price, point.row_price)
            residual = residual_persons(program, clean)
            if found is None or residual < found[1]:
                found = clean, residual
            if residual <= EXACT_PERSONS or not residual < 0.9 * last:
                return found
            centre, last = point, residual
        else:
            last = np.inf
            centre = Point(point.x, centre.cell_price, centre.row_price)
            changed = _apply(face, swap, only_worst=step >= FULL_SWAPS)
            face = _with_a_child_in_every_cell(program, changed, point.x)
            factors = _factor(program, face, compliance)
    return found


def _guess(program: BlockProgram, point: Point) -> _Face:
    """A variable is free where it is larger than its reduced cost, both in persons; a row likewise."""
    free = point.x > reduced_cost(program, point) / program.curvature
    rows = program.rows
    activity = rows.matrix @ point.x
    price = point.row_price / row_scale(program)
    side = np.zeros(rows.block.size, dtype=np.int64)
    side[price > np.abs(activity - rows.lower)] = -1
    side[-price > np.abs(rows.upper - activity)] = 1
    side[rows.equality] = 2
    return _Face(np.asarray(free), side)


def _swap(
    program: BlockProgram, face: _Face, centre: Point, point: Point, tolerance: float, compliance: float
) -> _Swap:
    """Everything with a wrong sign, and by how many persons it is wrong."""
    cost = reduced_cost(program, point) / program.curvature
    wrong = np.where(face.free, -point.x, -cost)
    rows = program.rows
    # a row binds where its price would have the right sign; in persons, the last price shifts the bound
    shift = np.where(face.side != 0, centre.row_price, 0.0) * (compliance / row_scale(program))
    activity = rows.matrix @ point.x
    short, over = rows.lower + shift - activity, activity - shift - rows.upper
    # a binding row keeps its side within the tolerance, a loose one changes only beyond it
    margin = np.where(face.side != 0, -tolerance * compliance, tolerance)
    side = np.zeros(rows.block.size, dtype=np.int64)
    side[short > margin] = -1
    side[over > margin] = 1
    side[rows.equality] = 2
    held = np.where(face.side == -1, -short, np.where(face.side == 1, -over, np.maximum(short, over)))
    return _Swap(wrong > tolerance, wrong, side, np.where(side != face.side, held, 0.0))


def _apply(face: _Face, swap: _Swap, only_worst: bool) -> _Face:
    """Swap everything that is wrong, or only what is most wrong, which ends cycles of full swaps."""
    if not only_worst:
        return _Face(np.where(swap.flip, ~face.free, face.free), swap.side)
    free, side = face.free.copy(), face.side.copy()
    worst_variable = np.where(swap.flip, swap.wrong, 0.0).max(initial=0.0)
    worst_row = swap.row_wrong.max(initial=0.0)
    if worst_variable >= worst_row:
        i = int(np.where(swap.flip, swap.wrong, 0.0).argmax())
        free[i] = not free[i]
    else:
        i = int(swap.row_wrong.argmax())
        side[i] = swap.side[i]
    return _Face(free, side)


def _with_a_child_in_every_cell(program: BlockProgram, face: _Face, x: Floats) -> _Face:
    """Free the largest variable of every inhabited cell that has none, so that its sum can be met."""
    if program.sums is None:
        return face
    count = np.bincount(program.cell[face.free], minlength=program.sums.size)
    missing = np.flatnonzero((count == 0) & (program.sums > 0))
    if missing.size == 0:
        return face
    free = face.free.copy()
    best = np.where(program.allowed, program.spread(x - x.min() + 1.0), 0.0).argmax(axis=0)
    free[np.isin(program.cell, missing) & (program.child == best[program.cell])] = True
    return _Face(free, face.side)


def _step(program: BlockProgram, face: _Face, factors: _Factors, centre: Point) -> Point:
    """Minimise on the face, with compliance around the centre's prices."""
    base = Point(
        np.where(face.free, centre.x, 0.0), centre.cell_price, np.where(face.side != 0, centre.row_price, 0.0)
    )
    step = _correction(program, factors, _face_errors(program, face, base))
    return Point(base.x + step.x, base.cell_price + step.cell_price, base.row_price + step.row_price)


def _factor(program: BlockProgram, face: _Face, compliance: float) -> _Factors | None:
    """Invert every block's system and the Schur complement; None where one is singular."""
    n_cells = program.allowed.shape[1]
    schur = None if program.sums is None else np.zeros((n_cells, n_cells))
    n_blocks = int(program.block.max()) + 1
    variables = _by_block(np.flatnonzero(face.free), program.block[program.child], n_blocks)
    rows = _by_block(np.flatnonzero(face.side != 0), program.rows.block, n_blocks)
    blocks = []
    for own, binding in zip(variables, rows, strict=True):
        inverse = _invert_block(program, own, binding, compliance)
        if inverse is None:
            return None
        if schur is not None:
            cells = program.cell[own]
            np.add.at(schur, (cells[:, None], cells), inverse[: own.size, : own.size])
        blocks.append(_Block(own, binding, inverse))
    if schur is None:
        return _Factors(tuple(blocks), None)
    diagonal = np.diagonal(schur).max(initial=0.0)
    schur[np.diag_indices(n_cells)] += compliance * diagonal if diagonal > 0 else 1.0
    inverse = _invert(schur)
    return None if inverse is None else _Factors(tuple(blocks), inverse)


def _by_block(items: Integers, block: Integers, n_blocks: int) -> list[Integers]:
    """Split indices into one array a block."""
    owner = block[items]
    order = np.argsort(owner, kind="stable")
    return np.split(items[order], np.searchsorted(owner[order], np.arange(1, n_blocks)))


def _invert_block(
    program: BlockProgram, own: Integers, binding: Integers, compliance: float
) -> Floats | None:
    """Inverse of [[H, A'], [A, -compliance]] on one block's free variables and binding rows."""
    cells, child = program.cell[own], program.child[own]
    n = own.size
    system = np.empty((n + binding.size, n + binding.size))
    same = child[:, None] == child
    system[:n, :n] = np.where(same, program.hessian[program.kind[child][:, None], cells[:, None], cells], 0.0)
    if binding.size:
        dense = _dense_rows(program, binding, own)
        system[:n, n:] = dense.T
        system[n:, :n] = dense
        system[n:, n:] = -np.eye(binding.size) * (compliance / row_scale(program))
    return _invert(system)


def _dense_rows(program: BlockProgram, binding: Integers, own: Integers) -> Floats:
    """Binding rows of one block over its free variables."""
    matrix = program.rows.matrix
    dense = np.zeros((binding.size, own.size))
    for i, row in enumerate(binding):
        members = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        dense[i] = np.isin(own, members)
    return dense


def _invert(matrix: Floats) -> Floats | None:
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        return None


def _face_errors(program: BlockProgram, face: _Face, point: Point) -> _Errors:
    """Evaluate the face's equations at a point."""
    gradient = np.where(face.free, -reduced_cost(program, point), 0.0)
    rows = program.rows
    missing_rows = np.zeros(face.side.size)
    if face.side.size:
        target = np.where(face.side == 1, rows.upper, rows.lower)
        binds = face.side != 0
        missing_rows[binds] = (target - rows.matrix @ point.x)[binds]
    missing_cells = np.zeros(program.allowed.shape[1])
    if program.sums is not None:
        missing_cells = program.sums - np.bincount(program.cell, weights=point.x, minlength=program.sums.size)
    return _Errors(gradient, missing_rows, missing_cells)


def _correction(program: BlockProgram, factors: _Factors, errors: _Errors) -> Point:
    """Solve the face's equations for these errors."""
    parts = [
        block.inverse @ np.concatenate([errors.gradient[block.variables], errors.missing_rows[block.rows]])
        for block in factors.blocks
    ]
    cell_price = np.zeros(errors.missing_cells.size)
    if factors.schur is not None:
        short = errors.missing_cells.copy()
        for block, part in zip(factors.blocks, parts, strict=True):
            np.subtract.at(short, program.cell[block.variables], part[: block.variables.size])
        cell_price = factors.schur @ short
    x, row_price = np.zeros(program.n_variables), np.zeros(errors.missing_rows.size)
    for block, part in zip(factors.blocks, parts, strict=True):
        n = block.variables.size
        solved = part + block.inverse[:, :n] @ cell_price[program.cell[block.variables]]
        x[block.variables] = solved[:n]
        row_price[block.rows] = -solved[n:]
    return Point(x, cell_price, row_price)
