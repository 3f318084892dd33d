"""Many binding rows of a face, eliminated child by child, compiled.

Problem: with a diagonal B, find the rows' forces u for which (compliance + A P A') u is the right side. The symbols are
defined in `tallyveil.kernels.family.face`. With G for the inverse of B, E for the sums over children and S for the
inverse of E G E', which is diagonal, P is G - G E' S E G. So the matrix is

    R - U S U',    R = compliance + A G A',    U = A G E',

and R is a block for each child, because a row of a single child meets no other child's.

Step: Woodbury's formula. The inverse of the matrix is inverse(R) + inverse(R) U inverse(T) U' inverse(R), with
T = E G E' - U' inverse(R) U. T is a matrix between cells. It is what the children answer to the cells' prices while
their rows hold them. A family of many children has many more rows than cells.

Where a row sums several children, or where there are more cells than rows, the equations are solved by conjugate
gradients instead (`tallyveil.kernels.family.answer_solution`, with rows alone as unknowns).

Worked case: one cell, two children, both free with curvature 1; a row in each child and compliance 1. R is diag(2, 2),
U is (1, 1)', E G E' is 2 and T is 2 - 1 = 1. So u for the right side (1, 0) is (1/2, 0) + (1/4, 1/4) = (3/4, 1/4). The
matrix itself is [[3/2, -1/2], [-1/2, 3/2]].

Oracle: the tests solve the same equations as one dense system. Every sum runs in a fixed order, so that every machine
gives the same bits.
"""

import numpy as np

from tallyveil.arrays import Floats, Integers, Uint32s
from tallyveil.kernels.cholesky import cholesky, solve_cholesky
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.answer_solution import factor_blocks, solve_answers, solve_blocks
from tallyveil.kernels.family.answer_system import AnswerSystem


@internal
def factor_rows(
    rows: AnswerSystem, cells: Uint32s, cells_of: Integers, give: Floats, stiffness: Floats
) -> tuple[bool, AnswerSystem, Floats]:
    """Factor the children's blocks and T.

    Args:
        rows: The binding rows as unknowns.
        cells: Free cells, child by child. [F]
        cells_of: Where each child's begin. [C + 1]
        give: 1 / B. [F]
        stiffness: 1 / the sum of `give` over a cell's children; 0 at a root. [g]
    Returns:
        False where a block is singular; the rows with the blocks' factors; the Cholesky factor of T, [g, g], empty if
        the equations are left to conjugate gradients.
    """
    n_cells = stiffness.size
    # A row of several children breaks the blocks of R; with few rows, T would be larger than the system it
    # replaces.
    if rows.begin[-1] < rows.row.size or rows.row.size < n_cells:
        ok, blocks = factor_blocks(rows, cells, cells_of, give, stiffness)
        return ok, blocks, np.empty((0, 0))
    # no stiffness: R = compliance + A G A' leaves the cells' sums out, T brings them back
    ok, blocks = factor_blocks(rows, cells, cells_of, give, np.zeros(n_cells))
    between = np.zeros((n_cells, n_cells))
    if ok:
        for i in range(n_cells):
            # a cell without free variables is tied to no other; 1 keeps T regular, and its answer is zero
            between[i, i] = 1.0 / stiffness[i] if stiffness[i] > 0.0 else 1.0
        _take_out(blocks, cells, cells_of, give, between)
        # T = E inverse(B + A' inverse(compliance) A) E', by Woodbury: positive definite, so only rounding can
        # fail here.
        ok = cholesky(between, n_cells)
    return ok, blocks, between


@internal
def _take_out(
    blocks: AnswerSystem, cells: Uint32s, cells_of: Integers, give: Floats, between: Floats
) -> None:
    """Subtract U' inverse(R) U from the upper half of a matrix between cells, child by child.

    With V for the Cholesky factor of a child's block, V'V = R, this is the product of inverse(V') U with itself.
    """
    begin, first, unknowns, place = blocks.begin, blocks.first, blocks.unknowns, 0
    for c in range(cells_of.size - 1):
        start, n, own_cells = begin[c], begin[c + 1] - begin[c], cells[cells_of[c] : cells_of[c + 1]]
        factor = blocks.factors[place : place + n * n].reshape(n, n)
        place += n * n
        # a child's block is n x n, and U has a row for each of its rows: dense within a child
        half = np.zeros((n, own_cells.size))
        for k in range(own_cells.size):
            t = cells_of[c] + k
            for e in range(first[t], first[t + 1]):
                half[unknowns[e] - start, k] = give[t]
        for u in range(n):
            solved = half[u]
            # forward substitution with V', in place; later lines read the solved ones
            for v in range(u):
                for k in range(own_cells.size):
                    solved[k] -= factor[v, u] * half[v, k]
            inverse = 1.0 / factor[u, u]
            for k in range(own_cells.size):
                solved[k] *= inverse
            for k in range(own_cells.size):
                # a row reaches only a part of the child's cells
                if solved[k] != 0.0:
                    line, value = between[own_cells[k]], solved[k]
                    for other in range(k, own_cells.size):
                        line[own_cells[other]] -= value * solved[other]


@internal
def solve_rows(
    blocks: AnswerSystem,
    between: Floats,
    cells: Uint32s,
    give: Floats,
    stiffness: Floats,
    left: Floats,
) -> Floats:
    """The rows' forces for a right side, which is used up; arguments as `factor_rows` takes and returns them."""
    if between.size == 0:
        # enough = 0: only the error relative to the right side ends it, as the rows are a part of a
        # preconditioner
        _, forces = solve_answers(blocks, cells, give, stiffness, left, 0.0)
        return forces
    first, unknowns = blocks.first, blocks.unknowns
    # Woodbury: first every child alone, then what the cells' prices add.
    solve_blocks(blocks, left)
    answer, further = np.zeros(stiffness.size), np.zeros(left.size)
    for t in range(cells.size):
        for e in range(first[t], first[t + 1]):
            answer[cells[t]] += give[t] * left[unknowns[e]]
    solve_cholesky(between, answer)
    for t in range(cells.size):
        for e in range(first[t], first[t + 1]):
            further[unknowns[e]] += give[t] * answer[cells[t]]
    solve_blocks(blocks, further)
    for u in range(left.size):
        left[u] += further[u]
    return left
