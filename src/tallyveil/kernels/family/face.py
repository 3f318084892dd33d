"""A face of a pass's program and the equations on it, compiled.

Problem: a face says which variables are free and which rows bind. On it, minimise 1/2 z' B z - r' z over the
free variables z whose sums over children are zero, with the rows met up to a little compliance. B is H's
diagonal or, where a ridge leaves H nearly singular, H itself. Where that would be costly, the face is solved
among the answers (`tallyveil.kernels.family.answer_system`).

Solution: `project` solves the problem without rows. With P for what `project` does and A for the rows, the
prices that make z meet the rows solve a system with the matrix compliance + A P A' (Woodbury's formula).
`list_face` prepares its factors.

Worked case: one cell, two children, both free with curvature 1, no rows, r = (4, 0). The price of the sum is
2, and z = (2, -2).

*Many binding rows.* Where many rows bind and B is diagonal, they are eliminated child by child. With G for
the inverse of B, E for the sums over children and S for the inverse of E G E', which is diagonal, P is G - G
E' S E G. So the matrix is

    R - U S U',    R = compliance + A G A',    U = A G E',

and R is a block for each child, because a row of a single child meets no other child's. By Woodbury's formula
the inverse of the matrix is inverse(R) + inverse(R) U inverse(T) U' inverse(R), with
T = E G E' - U' inverse(R) U. T is a matrix between cells. It is what the children answer to the cells' prices
while their rows hold them. A family of many children has many more rows than cells. Where a row sums several
children, or where there are more cells than rows, the equations are solved by conjugate gradients among the
rows instead.

Worked case: one cell, two children, both free with curvature 1; a row in each child and compliance 1. R is
diag(2, 2), U is (1, 1)', E G E' is 2 and T is 2 - 1 = 1. So the forces for the right side (1, 0) are
(1/2, 0) + (1/4, 1/4) = (3/4, 1/4). The matrix itself is [[3/2, -1/2], [-1/2, 3/2]].

Oracle: the tests solve the same equations as one dense system. Every sum runs in a fixed order, so that every
machine gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import BoolRows, Bools, FloatRows, Floats, Integers, Uint32s
from tallyveil.kernels.compiled import inlined, internal, njit
from tallyveil.kernels.family.answer_system import (
    AnswerSystem,
    all_above_zero,
    factor_blocks,
    list_unknowns,
    no_answers,
    own_diagonal,
    pays,
    solve_answers,
    solve_blocks,
)
from tallyveil.kernels.family.program import Program, children_of
from tallyveil.kernels.vectors import cholesky, invert, solve_cholesky


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


BY_DIAGONAL, BY_ANSWERS, BY_INVERSES = 0, 1, 2
"""How a face is solved: with H's diagonal as B; with H among the answers; with dense inverses of H as B."""


DENSE_ROWS = 256
"""With more binding rows, and a diagonal B, the matrix of the rows is not factored as a whole."""


class Signs(NamedTuple):
    """Which face: what is free, and what binds.

    Attributes:
        free: Variables that may be above zero. [C, g]
        side: -1: a row binds below, 1: above, 2: it is an equality, 0: it does not bind. [R]
    """

    free: BoolRows
    side: Integers


class Face(NamedTuple):
    """The F free variables of a face and its m binding rows.

    Attributes:
        cells: Free cells in ascending order; child c's from cells_of[c] on. [F]
        cells_of: [C + 1]
        give: Persons by which a variable moves for one unit of price, where B is diagonal; among the answers, where
            it is D. [F]
        cell_stiffness: 1 / the sum of `give` over a cell's children; 0 where none is free. [g]
        inverse: Where B is H: inverses on the children's free cells, one after the other, by rows; else empty.
        schur: Where B is H: Cholesky factor of their sum over children; else, and at a root, empty. [g, g]
        rows: Binding rows. [m]
        row_begin: Where the members of each begin. [m + 1]
        members: Places of the free variables that a row sums.
        compliance: Of rows, in the objective's units.
        system: Cholesky factor of compliance + A P A', A the rows and P what `project` does. [m, m] If there is
            `by_child`, it is the factor of T that `factor_rows` returns, [g, g] or empty.
        by_child: The same equations by the children's blocks; empty where they are factored as a whole.
        place: Which binding row each of its unknowns is.
        answers: The face's equations among the answers; empty where it is solved otherwise.
    """

    cells: Uint32s
    cells_of: Integers
    give: Floats
    cell_stiffness: Floats
    inverse: Floats
    schur: FloatRows
    rows: Integers
    row_begin: Integers
    members: Uint32s
    compliance: float
    system: FloatRows
    by_child: AnswerSystem
    place: Integers
    answers: AnswerSystem


@njit(nogil=True, cache=True)
def list_face(program: Program, signs: Signs, row_compliance: float, manner: int) -> tuple[bool, Face]:
    """The equations of a face, factored.

    Args:
        program: The pass's program.
        signs: What is free and what binds.
        row_compliance: In units of an answer's own, see `tallyveil.kernels.family.polish`.
        manner: BY_DIAGONAL; BY_INVERSES, which costs the cube of a child's free cells; BY_ANSWERS, which becomes
            BY_INVERSES where that costs less, or where some variable has no D.
    Returns:
        False where a system is singular; the face.
    """
    # compliance is given in medians of H's diagonal, and the equations are in the objective's units
    compliance = row_compliance / program.row_stiffness
    if manner == BY_ANSWERS:
        ok, face = _list_among_answers(program, signs, compliance)
        if face.answers.begin.size > 0:
            return ok, face
        # among the answers it does not pay, or cannot be done: dense inverses handle every face
        manner = BY_INVERSES
    cells, cells_of, give, stiffness = _free_cells(program, signs.free, program.scale)
    rows, row_begin, members = _members(program, signs.side, cells, cells_of)
    # Inverses couple the cells of a child, so that rows do not fall into blocks; their matrix is then always
    # whole.
    whole, n_cells = manner == BY_INVERSES, stiffness.size
    n_schur = n_cells if whole and program.has_sums else 0
    dense, ok = whole or rows.size <= DENSE_ROWS, True
    n_dense = rows.size if dense else 0
    by_child, place, system = no_answers(), np.empty(0, np.int64), np.zeros((n_dense, n_dense))
    if not dense:
        # without answers of several cells, rows are the only unknowns of the system
        none = np.zeros(program.weights.shape[1], np.bool_)
        listed = list_unknowns(program, none, signs.side, cells, cells_of, compliance)
        place = _places(listed.row, rows, signs.side.size)
        ok, by_child, system = factor_rows(listed, cells, cells_of, give, stiffness)
    face = Face(
        cells,
        cells_of,
        give,
        stiffness,
        # empty arrays where something is not used: a kernel's tuple has the same types everywhere
        np.empty(_squares(cells_of) if whole else 0),
        np.zeros((n_schur, n_schur)),
        rows,
        row_begin,
        members,
        compliance,
        system,
        by_child,
        place,
        no_answers(),
    )
    # before the rows: their matrix is made of projections, which use the inverses
    if whole and not _invert_children(program, face):
        return False, face
    if rows.size == 0 or not dense:
        return ok, face
    if whole:
        _add_rows(face)
    else:
        _add_rows_of_diagonal(face)
    # the compliance on the diagonal makes it definite, except for rounding, even where rows repeat one
    # another
    return cholesky(face.system, rows.size), face


@inlined
def _list_among_answers(program: Program, signs: Signs, compliance: float) -> tuple[bool, Face]:
    """The face among the answers; without these where inverses cost less, or where some variable has no D."""
    several, curvature = own_diagonal(program)
    solvable = all_above_zero(curvature)
    cells, cells_of, give, stiffness = _free_cells(
        program, signs.free, curvature if solvable else program.scale
    )
    rows, row_begin, members = _members(program, signs.side, cells, cells_of)
    ok, answers = True, no_answers()
    if solvable:
        listed = list_unknowns(program, several, signs.side, cells, cells_of, compliance)
        if pays(listed, cells_of, stiffness.size):
            ok, answers = factor_blocks(listed, cells, cells_of, give, stiffness)
    none = np.zeros((0, 0))
    return ok, Face(
        cells,
        cells_of,
        give,
        stiffness,
        np.empty(0),
        none,
        rows,
        row_begin,
        members,
        compliance,
        none,
        no_answers(),
        np.empty(0, np.int64),
        answers,
    )


@internal
def _places(row: Integers, rows: Integers, n_rows: int) -> Integers:
    """Where each row of a list is among the binding rows."""
    number, place = np.empty(n_rows, np.int64), np.empty(row.size, np.int64)
    # filled at binding rows alone, and read at these alone
    for k in range(rows.size):
        number[rows[k]] = k
    for u in range(row.size):
        place[u] = number[row[u]]
    return place


@internal
def _free_cells(program: Program, free: Bools, diagonal: Floats) -> tuple[Uint32s, Integers, Floats, Floats]:
    """`cells`, `cells_of`, `give` and `cell_stiffness` of a face, with a diagonal B of shape (K, g)."""
    n_children, n_cells = free.shape
    cells_of = np.zeros(n_children + 1, np.int64)
    cells, give = np.empty(free.size, np.uint32), np.empty(free.size)
    stiffness, n = np.zeros(n_cells), 0
    for c in range(n_children):
        curvature = diagonal[program.kind[c]]
        # ascending cells within a child: later loops add in this order, whatever found the face
        for i in range(n_cells):
            if free[c, i]:
                cells[n], give[n] = i, 1.0 / curvature[i]
                stiffness[i] += give[n]
                n += 1
        cells_of[c + 1] = n
    for i in range(n_cells):
        # 0 at a root and where no child is free: no sum is kept, and its price is 0
        stiffness[i] = 1.0 / stiffness[i] if program.has_sums and stiffness[i] > 0.0 else 0.0
    return cells[:n], cells_of, give[:n], stiffness


@internal
def _squares(cells_of: Integers) -> int:
    """Numbers in the children's square matrices."""
    total = 0
    for c in range(cells_of.size - 1):
        total += (cells_of[c + 1] - cells_of[c]) ** 2
    return total


@internal
def _members(
    program: Program, side: Integers, cells: Uint32s, cells_of: Integers
) -> tuple[Integers, Integers, Uint32s]:
    """Binding rows, where the members of each begin, and the members: places of free variables."""
    m = 0
    for row in range(side.size):
        m += side[row] != 0
    rows, row_begin = np.empty(m, np.int64), np.zeros(m + 1, np.int64)
    # a variable is in one row of a bound at most
    members = np.empty(cells_of[-1] * program.bound_label.shape[0] if m > 0 else 0, np.uint32)
    m, n = 0, 0
    for row in range(side.size):
        if side[row] != 0:
            bound, group, label = program.row_bound[row], program.row_group[row], program.row_label[row]
            labels, groups = program.bound_label[bound], program.bound_group[bound]
            first, last = children_of(program, bound, group)
            for c in range(first, last):
                if groups[c] == group:
                    for t in range(cells_of[c], cells_of[c + 1]):
                        if labels[cells[t]] == label:
                            members[n] = t
                            n += 1
            rows[m], row_begin[m + 1] = row, n
            m += 1
    return rows, row_begin, members[:n]


@inlined
def _invert_children(program: Program, face: Face) -> bool:
    """Inverses of H and the factor of their sum; False where one is singular."""
    cells, place, schur = face.cells, 0, face.schur
    for c in range(face.cells_of.size - 1):
        first, last, kind = face.cells_of[c], face.cells_of[c + 1], program.kind[c]
        f = last - first
        inverse = face.inverse[place : place + f * f].reshape(f, f)
        # H is assembled from the answers, as it is not held where there are many cells; the diagonal has the
        # ridge as well
        for a in range(f):
            i = cells[first + a]
            for b in range(f):
                j = cells[first + b]
                inverse[a, b] = program.ridge[kind, i] if a == b else 0.0
                for q in range(program.answers.shape[1]):
                    if program.answers[i, q] >= 0 and program.answers[i, q] == program.answers[j, q]:
                        inverse[a, b] += program.weights[kind, program.answers[i, q]]
        if not invert(inverse):
            return False
        # E inverse(H) E', whose upper half is enough for Cholesky's method
        if schur.size > 0:
            for a in range(f):
                for b in range(a, f):
                    schur[cells[first + a], cells[first + b]] += inverse[a, b]
        place += f * f
    # no child is free in such a cell: a one on the diagonal keeps the factor regular, and its price is 0 as
    # its sum is
    for i in range(schur.shape[0]):
        schur[i, i] = schur[i, i] if schur[i, i] > 0.0 else 1.0
    return cholesky(schur, schur.shape[0])


@internal
def _add_rows(face: Face) -> None:
    """compliance + A P A' into the face's system."""
    n, m = face.cells.size, face.rows.size
    gradient, direction, price = np.empty(n), np.empty(n), np.empty(face.cell_stiffness.size)
    # a projection for each row: m times the work of one, with all pairs of rows, however few cells they share
    for k in range(m):
        gradient[:] = 0.0
        for e in range(face.row_begin[k], face.row_begin[k + 1]):
            gradient[face.members[e]] = 1.0
        project(face, gradient, direction, price)
        row_sums(face, direction, face.system[k])
        face.system[k, k] += face.compliance


@internal
def _add_rows_of_diagonal(face: Face) -> None:
    """The upper half of the same where B is diagonal: rows meet only in a cell."""
    # members by cell (a counting sort): two rows meet only within a cell, so that pairs are few
    n_cells, system = face.cell_stiffness.size, face.system
    begin = np.zeros(n_cells + 1, np.int64)
    for t in face.members:
        begin[face.cells[t] + 1] += 1
    for i in range(n_cells):
        begin[i + 1] += begin[i]
    filled, row_of = begin.copy(), np.empty(face.members.size, np.uint32)
    member_of, give_of = np.empty(face.members.size, np.uint32), np.empty(face.members.size)
    for k in range(face.rows.size):
        system[k, k] = face.compliance
        for e in range(face.row_begin[k], face.row_begin[k + 1]):
            t = face.members[e]
            place = np.uint64(filled[face.cells[t]])
            row_of[place], member_of[place], give_of[place] = k, t, face.give[t]
            filled[face.cells[t]] += 1
    # P between two variables of a cell: give where they are the same one, less the product of their gives
    # times the stiffness.
    for i in range(n_cells):
        last = np.uint64(begin[i + 1])
        for e in range(np.uint64(begin[i]), last):
            row, shared = system[row_of[e]], give_of[e] * face.cell_stiffness[i]
            # rows rise within a cell's list, so `other` is in the same or a later row: the upper half
            for other in range(e, last):
                row[row_of[other]] -= shared * give_of[other]
                if member_of[other] == member_of[e]:
                    row[row_of[other]] += give_of[e]
                elif row_of[other] == row_of[e]:  # two children of one group: the pair stands for both orders
                    row[row_of[other]] -= shared * give_of[other]


@internal
def project(face: Face, gradient: Floats, direction: Floats, price: Floats) -> None:
    """Minimise 1/2 z' B z - r' z over z whose sums over children are zero.

    Args:
        face: The face.
        gradient: r; the prices of the cells' sums are taken out of it. [F]
        direction: z. [F]
        price: Those prices. [g]
    """
    # Two responses: the first one tells which prices keep the sums, the second one moves by what is left of
    # the gradient.
    cells = face.cells
    for i in range(price.size):
        price[i] = 0.0
    give_way(face, gradient, direction)
    for t in range(direction.size):
        price[cells[t]] += direction[t]
    # at a root nothing is stiff, and prices are zero
    price_sums(face, price)
    for t in range(direction.size):
        gradient[t] -= price[cells[t]]
    give_way(face, gradient, direction)


@internal
def give_way(face: Face, prices: Floats, out: Floats) -> None:
    """How variables respond to prices: the inverse of B times the prices."""
    if face.inverse.size == 0:
        for t in range(out.size):
            out[t] = prices[t] * face.give[t]
        return
    place = 0
    for c in range(face.cells_of.size - 1):
        first, last = face.cells_of[c], face.cells_of[c + 1]
        # the inverse is symmetric: its rows are read in the order in which they are stored
        for t in range(first, last):
            out[t] = 0.0
            for u in range(first, last):
                out[t] += face.inverse[place] * prices[u]
                place += 1


@internal
def price_sums(face: Face, sums: Floats) -> None:
    """Prices that change the cells' sums by the given amounts, in place."""
    if face.schur.size > 0:
        solve_cholesky(face.schur, sums)
        return
    for i in range(sums.size):
        sums[i] *= face.cell_stiffness[i]


@internal
def row_sums(face: Face, vector: Floats, out: Floats) -> None:
    """A times a vector of free variables."""
    for k in range(face.rows.size):
        out[k] = 0.0
        for e in range(face.row_begin[k], face.row_begin[k + 1]):
            out[k] += vector[face.members[e]]


@internal
def add_to_members(face: Face, values: Floats, factor: float, out: Floats) -> None:
    """Add factor times A' times the rows' values."""
    for k in range(face.rows.size):
        for e in range(face.row_begin[k], face.row_begin[k + 1]):
            out[face.members[e]] += factor * values[k]
