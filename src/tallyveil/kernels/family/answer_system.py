"""The equations of a face solved among the answers, compiled: for passes that leave cells undetermined.

Problem: a face says which variables are free and which rows bind (`tallyveil.kernels.family.face`). On a
face, minimise 1/2 z' H z - r' z over the free variables z whose sums over children have given values. A
binding row may be missed by its compliance times its force. H is D + A' W A. The diagonal D is the ridge and
the weights of answers of one cell. A is the answers of several cells, and W is their weights. Where the
detailed query is not measured, D is tiny. H is then nearly singular, and its diagonal is no good
approximation of it.

Variables: one unknown for each child and answer, the force u of the answer on its cells. The compliance of an
answer is 1 / weight. So a binding row is like an answer. Given the forces, the free variables follow from a
problem whose matrix is D: z = P(r - A'u), where P keeps the given sums. P takes a division for each variable
and cell. The forces solve

    (compliance + A P A') u = A P(r) - what binding rows lack.

Both sides are persons, so the residual is the number of persons by which answers and rows are missed. The
unknowns of a face are the answers and binding rows that a free variable is in, child by child, and after them
the rows of several children.

Step: conjugate gradients. The preconditioner has two parts. First, it solves the equations of each child by
themselves, with a factored block for each child, because different children meet only in the cells' sums and
in rows of several children. These rows are the border of the blocks and are eliminated last. The blocks and
the border leave out that P ties the children to each other. Second, it treats forces on one answer that are
equal in all children. The given sums allow no common change, so P maps such forces to zero, and only the
compliance is left. They are solved exactly (deflation). On the faces of six made-up families of 100 to 684
cells without rows of several children, 4 to 22 steps were needed. Where a child has fewer answers than cells,
its block costs less than H (`pays`).

Stopping rule: the largest error of an answer or row is below a small part of what the caller takes as exact
enough, or below a tiny part of the largest error at the start. The iteration also ends if rounding hides the
curvature, or if the steps are used up. The caller measures what is missing and solves again.

Worked case: two children with two cells each; D is 1 everywhere and the total has weight 1. With r = (4, 4)
in the first child and zeros in the second, P(r) is (2, 2) and (-2, -2). A P(r) is (4, -4), and compliance + A
P A' is [[2, -1], [-1, 2]]. So u is (4/3, -4/3), and z is (2/3, 2/3) and (-2/3, -2/3). Where two children have
no answer in common, their blocks are the whole matrix, and one step is enough.

Oracle: the tests solve the same equations as one dense system. Every sum runs in a fixed order, so that every
machine gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Uint32s
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.vectors import cholesky, inner, largest_of, set_to, solve_cholesky

DENSE_COST = 7.0
"""Cost of the inverse of a matrix in units of a Cholesky factorisation of the same size."""


class AnswerSystem(NamedTuple):
    """The N unknowns of a face and the matrices that solve for them.

    Attributes:
        begin: Where each child's unknowns begin; rows of several children come after those of all children. Empty if a
            face is not solved among the answers. [C + 1]
        first: Where the unknowns of each free variable begin in `unknowns`. [F + 1]
        unknowns: Answers and binding rows that a free variable is in, by number.
        row: Row of an unknown; -1 if the unknown is an answer. [N]
        compliance: 1 / weight of an answer; the compliance of a row. [N]
        common: Number of the common force (equal in all children) that an unknown belongs to; -1 if none. [N]
        shared: 1 / the sum of the compliances of each common force. [M]
        factors: Child after child, by rows: the Cholesky factor of its block, and what its unknowns answer to each
            row of several children. Then the Cholesky factor for those rows.
    """

    begin: Integers
    first: Integers
    unknowns: Uint32s
    row: Integers
    compliance: Floats
    common: Integers
    shared: Floats
    factors: Floats


@internal
def no_answers() -> AnswerSystem:
    """The system of a face that is solved in another way."""
    none, real = np.empty(0, np.int64), np.empty(0)
    return AnswerSystem(none, none, np.empty(0, np.uint32), none, real, none, real, real)


@internal
def own_diagonal(program: Program) -> tuple[Bools, Floats]:
    """Which answers are of several cells, [L]; and D: the ridge and the weights of the other answers, [K, g]."""
    number, diagonal = np.zeros(program.weights.shape[1], np.int64), program.ridge.copy()
    for i in range(program.answers.shape[0]):
        # An answer of one cell is an entry of H's diagonal already; as an unknown it would only enlarge the
        # system.
        for q in range(program.answers.shape[1]):
            if program.answers[i, q] >= 0:
                number[program.answers[i, q]] += 1
    for i in range(program.answers.shape[0]):
        for q in range(program.answers.shape[1]):
            k = program.answers[i, q]
            if k >= 0 and number[k] == 1:
                for z in range(diagonal.shape[0]):
                    diagonal[z, i] += program.weights[z, k]
    return number > 1, diagonal


@internal
def all_above_zero(matrix: Floats) -> bool:
    """Whether every variable has D."""
    positive = True
    # a single zero would divide by zero in `give`: such passes are not solved among the answers
    for z in range(matrix.shape[0]):
        for i in range(matrix.shape[1]):
            positive &= matrix[z, i] > 0.0
    return positive


@internal
def list_unknowns(
    program: Program,
    several: Bools,
    side: Integers,
    cells: Uint32s,
    cells_of: Integers,
    row_compliance: float,
) -> AnswerSystem:
    """The answers and binding rows that free variables are in; the factors are left empty.

    Args:
        program: The pass's program.
        several: Answers of several cells. [L]
        side: Which rows bind, see `tallyveil.kernels.family.face.Signs`.
        cells: Free cells, child by child. [F]
        cells_of: Where each child's begin. [C + 1]
        row_compliance: Of rows, in the objective's units.
    """
    n_children, n_queries = cells_of.size - 1, program.answers.shape[1]
    n_bounds, n_labels = program.bound_label.shape[0], program.weights.shape[1]
    # keys number the answers of the queries first, then the labels of one bound after another
    offset, alone = np.empty(n_bounds, np.int64), _alone(program)
    for b in range(n_bounds):
        offset[b] = n_labels
        n_labels += program.bound_width[b]
    # Entries come in unknown number. Rows of several children are called `most` and on until it is known
    # where they begin; no true number is that large.
    most = cells.size * (n_queries + n_bounds)
    begin, first = np.zeros(n_children + 1, np.int64), np.zeros(cells.size + 1, np.int64)
    unknowns, row, label = np.empty(most, np.uint32), np.empty(most, np.int64), np.empty(most, np.int64)
    compliance, number = np.empty(most), np.full(n_labels, -1, np.int64)
    # A force common to all children exists only under given sums, and only until some child turns out to lack
    # the answer.
    everywhere, border = np.full(n_labels, program.has_sums), np.full(side.size, -1, np.int64)
    n, n_border, entries = 0, 0, 0
    for c in range(n_children):
        weights = program.weights[program.kind[c]]
        for t in range(cells_of[c], cells_of[c + 1]):
            i = cells[t]
            for q in range(n_queries + n_bounds):
                own_row, own_compliance = -1, 0.0
                if q < n_queries:
                    key = program.answers[i, q]
                    if key < 0 or not several[key]:
                        # an answer of one cell is part of D; one that is not measured exerts no force, for
                        # which compliance 0 stands here
                        continue
                    own_compliance = 1.0 / weights[key] if weights[key] > 0.0 else 0.0
                else:
                    b = q - n_queries
                    key = program.bound_label[b, i]
                    if key < 0:
                        continue
                    place = program.bound_start[b] + program.bound_group[b, c] * program.bound_width[b] + key
                    own_row, key = program.row_number[place], key + offset[b]
                    own_compliance = row_compliance if own_row >= 0 and side[own_row] != 0 else 0.0
                # a row that does not bind exerts no force either
                if own_compliance == 0.0:
                    # a child has a free cell here without the unknown, so no force is equal in all children
                    everywhere[key] = False
                    continue
                if own_row >= 0 and not alone[own_row]:
                    # it ties the blocks of several children to each other: it becomes part of the border,
                    # which is eliminated last
                    everywhere[key] = False
                    if border[own_row] < 0:
                        border[own_row] = n_border
                        n_border += 1
                    unknowns[entries] = most + border[own_row]
                elif number[key] < begin[c]:
                    # numbers only rise, so one below this child's first, or -1, is not of this child
                    number[key], unknowns[entries] = n, n
                    row[n], label[n], compliance[n] = own_row, key, own_compliance
                    n += 1
                else:
                    unknowns[entries] = number[key]
                entries += 1
            first[t + 1] = entries
        begin[c + 1] = n
    common, shared = _common(everywhere, label[:n], compliance)
    for e in range(entries):
        # now that n is known, the border's numbers can be made final
        unknowns[e] = n + (unknowns[e] - most) if unknowns[e] >= most else unknowns[e]
    system = AnswerSystem(
        begin, first, unknowns[:entries], row[:n], compliance[:n], common, shared, np.empty(0)
    )
    return _with_border(system, border, n_border, row_compliance)


@internal
def _alone(program: Program) -> Bools:
    """Whether each row sums cells of one child."""
    alone = np.ones(program.row_group.size, np.bool_)
    for r in range(alone.size):
        groups, members = program.bound_group[program.row_bound[r]], 0
        for c in range(groups.size):
            members += groups[c] == program.row_group[r]
        alone[r] = members <= 1
    return alone


@internal
def _with_border(
    system: AnswerSystem, border: Integers, n_border: int, row_compliance: float
) -> AnswerSystem:
    """The system with the rows of several children after all others, in their order in `border`."""
    begin, first, unknowns, own_row, own_compliance, own_common, shared, factors = system
    n = own_row.size
    row, common = np.empty(n + n_border, np.int64), np.full(n + n_border, -1, np.int64)
    compliance = np.full(n + n_border, row_compliance)
    set_to(row, own_row)
    set_to(compliance, own_compliance)
    set_to(common, own_common)
    for r in range(border.size):
        if border[r] >= 0:
            # a row of several children has no common force: its own is one number already
            row[n + border[r]] = r
    return AnswerSystem(begin, first, unknowns, row, compliance, common, shared, factors)


@internal
def _common(everywhere: Bools, label: Integers, compliance: Floats) -> tuple[Integers, Floats]:
    """`common` and `shared`. An answer has a common force if it is unknown in every child with a free cell in it."""
    common, number, n = np.full(label.size, -1, np.int64), np.full(everywhere.size, -1, np.int64), 0
    total = np.zeros(label.size)
    for u in range(label.size):
        if everywhere[label[u]]:
            if number[label[u]] < 0:
                number[label[u]] = n
                n += 1
            common[u] = number[label[u]]
            total[common[u]] += compliance[u]
    # above zero, as every unknown that is listed gives way
    for k in range(n):
        total[k] = 1.0 / total[k]
    return common, total[:n].copy()


@internal
def pays(system: AnswerSystem, cells_of: Integers, n_cells: int) -> bool:
    """Whether factoring among the answers costs less than inverting H for every child and factoring their sum."""
    n_border = float(system.row.size - system.begin[-1])
    # in floating point, where cubes of large sizes do not overflow
    among_answers, dense = n_border**3, float(n_cells) ** 3
    for c in range(cells_of.size - 1):
        n = float(system.begin[c + 1] - system.begin[c])
        # the block's factor; its solutions for the border's rows; their products with each other
        among_answers += n**3 + 3.0 * n * n_border * (n + n_border)
        # an inverse for each child, where the other way needs a factor alone
        dense += DENSE_COST * float(cells_of[c + 1] - cells_of[c]) ** 3
    return among_answers <= dense


# Steps of conjugate gradients. Families that were tried took 4 to 22. Stopping early is safe: the caller
# measures what is missing. Twice as many would only cost time.
MOST_STEPS = 400

SETTLED_PART, RELATIVE_PART = 2.0**-9, 2.0**-40
"""The iteration ends when answers are met to this part of what is exact enough, or to this part of the right side."""


@internal
def factor_blocks(
    system: AnswerSystem, cells: Uint32s, cells_of: Integers, give: Floats, stiffness: Floats
) -> tuple[bool, AnswerSystem]:
    """Factor each child's block of compliance + A P A', and the border; False where one is singular.

    Args:
        system: The unknowns.
        cells: Free cells, child by child. [F]
        cells_of: Where each child's begin. [C + 1]
        give: 1 / D. [F]
        stiffness: 1 / the sum of `give` over a cell's children; 0 at a root. [g]
    """
    begin, first, unknowns, row, compliance, common, shared, _ = system
    # one array for all factors: blocks and sides child after child, then the border's corner
    n_children, n_border, size = begin.size - 1, row.size - begin[-1], 0
    for c in range(n_children):
        size += (begin[c + 1] - begin[c]) * (begin[c + 1] - begin[c] + n_border)
    factors, place = np.zeros(size + n_border * n_border), 0
    whole = AnswerSystem(begin, first, unknowns, row, compliance, common, shared, factors)
    corner = factors[size:].reshape(n_border, n_border)
    for k in range(n_border):
        corner[k, k] = compliance[begin[-1] + k]
    for c in range(n_children):
        start, n = begin[c], begin[c + 1] - begin[c]
        block = factors[place : place + n * n].reshape(n, n)
        place += n * n
        beside = factors[place : place + n_border * n].reshape(n_border, n)
        place += n_border * n
        for u in range(n):
            block[u, u] = compliance[start + u]
        for t in range(cells_of[c], cells_of[c + 1]):
            # The diagonal of P: a child gives way by `give`, less what the price of the cell takes back.
            part = give[t] - give[t] * give[t] * stiffness[cells[t]]
            for e in range(first[t], first[t + 1]):
                bordering = unknowns[e] >= begin[-1]
                line = corner[unknowns[e] - begin[-1]] if bordering else block[unknowns[e] - start]
                side = beside[unknowns[e] - begin[-1]] if bordering else line
                for other in range(first[t], first[t + 1]):
                    if unknowns[other] < begin[-1]:
                        side[unknowns[other] - start] += part
                    # a border row meets itself and other border rows in the corner, children only beside it
                    elif bordering:
                        line[unknowns[other] - begin[-1]] += part
        if not cholesky(block, n):
            # Singular to rounding. The walk then softens the rows, which adds to this diagonal.
            return False, whole
        _eliminate(block, beside, corner)
    return cholesky(corner, n_border), whole


@internal
def _eliminate(block: Floats, beside: Floats, corner: Floats) -> None:
    """Take a child's part out of the corner; `beside` becomes what its unknowns answer to the border's."""
    answer = np.empty(beside.shape[1])
    for k in range(beside.shape[0]):
        set_to(answer, beside[k])
        solve_cholesky(block, answer)
        # only the upper half: the Cholesky factorisation reads no other
        for other in range(k, beside.shape[0]):
            corner[k, other] -= inner(answer, beside[other])
        set_to(beside[k], answer)


@internal
def respond(
    cells: Uint32s, give: Floats, stiffness: Floats, missing: Floats, gradient: Floats, price: Floats
) -> None:
    """P: minimise 1/2 z' D z - r' z over z whose sums over children are `missing`.

    Args:
        cells: Free cells, child by child. [F]
        give: 1 / D. [F]
        stiffness: 1 / the sum of `give` over a cell's children; 0 at a root. [g]
        missing: [g]
        gradient: r, which becomes z. [F]
        price: Prices of the sums, as parts of r that z leaves. [g]
    """
    for i in range(price.size):
        price[i] = 0.0
    for t in range(gradient.size):
        price[cells[t]] += gradient[t] * give[t]
    for i in range(price.size):
        # with z = (r - price) / D, this price makes the sum of z what is missing; stiffness 0 leaves a root
        # without prices
        price[i] = (price[i] - missing[i]) * stiffness[i]
    for t in range(gradient.size):
        gradient[t] = (gradient[t] - price[cells[t]]) * give[t]


@internal
def answers_of(system: AnswerSystem, vector: Floats, out: Floats) -> None:
    """A times a vector of free variables."""
    first, unknowns = system.first, system.unknowns
    for u in range(out.size):
        out[u] = 0.0
    for t in range(vector.size):
        for e in range(first[t], first[t + 1]):
            out[unknowns[e]] += vector[t]


@internal
def add_forces(system: AnswerSystem, forces: Floats, factor: float, out: Floats) -> None:
    """Add factor times A' times the forces to a vector of free variables."""
    first, unknowns = system.first, system.unknowns
    for t in range(out.size):
        total = 0.0
        for e in range(first[t], first[t + 1]):
            total += forces[unknowns[e]]
        out[t] += factor * total


@internal
def solve_answers(
    system: AnswerSystem, cells: Uint32s, give: Floats, stiffness: Floats, left: Floats, enough: float
) -> tuple[int, Floats]:
    """Solve for the forces by conjugate gradients.

    Args:
        system: The unknowns and their factors.
        cells: Free cells, child by child. [F]
        give: 1 / D. [F]
        stiffness: 1 / the sum of `give` over a cell's children; 0 at a root. [g]
        left: The right side, persons; it becomes what is left of it. [N]
        enough: Persons below which an error does not count.
    Returns:
        Steps made; the forces. [N]
    """
    # Conjugate gradients with a preconditioner (Hestenes and Stiefel 1952) and deflation. Differences: the
    # part along the common forces is solved exactly first; the end is told by the largest error in persons,
    # not by a norm.
    compliance, common, shared = system.compliance, system.common, system.shared
    scratch, price, none = np.empty(cells.size), np.empty(stiffness.size), np.zeros(stiffness.size)
    forces, wanted, sums = np.zeros(left.size), np.zeros(left.size), np.empty(shared.size)
    along, product = np.zeros(left.size), np.empty(left.size)
    # The relative part ends the iteration where `enough` is 0 or below what rounding allows.
    done = max(SETTLED_PART * enough, RELATIVE_PART * largest_of(left))
    # Deflation: once the common forces are right, P maps what is left of them to zero in every later step.
    _lift(system, left, wanted, sums, forces)
    for u in range(left.size):
        if common[u] >= 0:
            left[u] -= compliance[u] * forces[u]
    # the first ratio is a number over inf, which is 0: the first direction is the preconditioned error itself
    slope = np.inf
    for step in range(MOST_STEPS):
        if largest_of(left) <= done:
            return step, forces
        set_to(wanted, left)
        solve_blocks(system, wanted)
        _lift(system, left, wanted, sums, wanted)
        before, slope = slope, inner(left, wanted)
        # the first slope is divided by infinity, so that the first direction is the preconditioned one
        ratio = slope / before
        for u in range(left.size):
            along[u] = wanted[u] + ratio * along[u]
        for t in range(scratch.size):
            scratch[t] = 0.0
        add_forces(system, along, 1.0, scratch)
        respond(cells, give, stiffness, none, scratch, price)
        answers_of(system, scratch, product)
        for u in range(left.size):
            product[u] += compliance[u] * along[u]
        curvature = inner(along, product)
        # Written so that a value that is not a number ends the loop, too.
        if not (slope > 0.0 and curvature > 0.0):
            return step, forces
        length = slope / curvature
        for u in range(left.size):
            forces[u] += length * along[u]
            left[u] -= length * product[u]
    return MOST_STEPS, forces


@internal
def solve_blocks(system: AnswerSystem, vector: Floats) -> None:
    """Solve with the children's blocks and their border in place."""
    begin, place = system.begin, 0
    bordering = vector[begin[-1] :]
    n_border = bordering.size
    for c in range(begin.size - 1):
        part = vector[begin[c] : begin[c + 1]]
        n = part.size
        block = system.factors[place : place + n * n].reshape(n, n)
        place += n * n
        for k in range(n_border):
            # `part` is still the right side here: its solution would count the block twice
            bordering[k] -= inner(system.factors[place : place + n], part)
            place += n
        solve_cholesky(block, part)
    if n_border == 0:
        return
    # `place` stands behind the last child's factors, where the corner is
    solve_cholesky(system.factors[place:].reshape(n_border, n_border), bordering)
    place = 0
    for c in range(begin.size - 1):
        part = vector[begin[c] : begin[c + 1]]
        place += part.size * part.size
        for k in range(n_border):
            beside = system.factors[place : place + part.size]
            for u in range(part.size):
                # and back: each child answers to the border's forces, with what `_eliminate` stored
                part[u] -= bordering[k] * beside[u]
            place += part.size


@internal
def _lift(system: AnswerSystem, left: Floats, wanted: Floats, sums: Floats, out: Floats) -> None:
    """Add the forces, equal in all children, that meet the common part of what is left when `wanted` is applied."""
    common, compliance, shared = system.common, system.compliance, system.shared
    for k in range(sums.size):
        sums[k] = 0.0
    for u in range(left.size):
        if common[u] >= 0:
            # summed over the children, P drops out, and one scalar equation is left for each common force
            sums[common[u]] += left[u] - compliance[u] * wanted[u]
    for u in range(left.size):
        if common[u] >= 0:
            out[u] += sums[common[u]] * shared[common[u]]
