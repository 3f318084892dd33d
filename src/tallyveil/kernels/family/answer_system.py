"""The equations of a face solved among the answers, compiled: for passes that leave cells undetermined.

Problem: a face says which variables are free and which rows bind (`tallyveil.kernels.family.face`). On a face, minimise
1/2 z' H z - r' z over the free variables z whose sums over children have given values. A binding row may be missed by
its compliance times its force. H is D + A' W A. The diagonal D is the ridge and the weights of answers of one cell. A
is the answers of several cells, and W is their weights. Where the detailed query is not measured, D is tiny. H is then
nearly singular, and its diagonal is no good approximation of it.

Variables: one unknown for each child and answer, the force u of the answer on its cells. The compliance of an answer is
1 / weight. So a binding row is like an answer. Given the forces, the free variables follow from a problem whose matrix
is D: z = P(r - A'u), where P keeps the given sums. P takes a division for each variable and cell. The forces solve

    (compliance + A P A') u = A P(r) - what binding rows lack.

Both sides are persons, so the residual is the number of persons by which answers and rows are missed.

Step: conjugate gradients. The preconditioner has two parts. First, it solves the equations of each child by themselves,
with a factored block for each child, because different children meet only in the cells' sums. Second, it treats forces
on one answer that are equal in all children. The given sums allow no common change, so P maps such forces to zero, and
only the compliance is left. They are solved exactly (deflation). On the faces of six made-up families of 100 to 684
cells, 4 to 22 steps were needed. Where a child has fewer answers than cells, its block costs less than H (`pays`).

Stopping rule: every answer and row is met to a small part of what is exact enough, or to a tiny part of where it began;
or the curvature is lost to rounding; or the steps are used up. The caller measures what is missing and solves again.

Worked case: two children with two cells each; D is 1 everywhere and the total has weight 1. With r = (4, 4) in the
first child and zeros in the second, P(r) is (2, 2) and (-2, -2). A P(r) is (4, -4), and compliance + A P A' is
[[2, -1], [-1, 2]]. So u is (4/3, -4/3), and z is (2/3, 2/3) and (-2/3, -2/3).

Oracle: the tests solve the same equations as one dense system. Every sum runs in a fixed order, so that every machine
gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Uint32s
from tallyveil.kernels.cholesky import cholesky, solve_cholesky
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.vectors import set_to

MOST_STEPS = 400

SETTLED_PART, RELATIVE_PART = 2.0**-9, 2.0**-40
"""The iteration ends when answers are met to this part of what is exact enough, or to this part of the right side."""

DENSE_COST = 7.0
"""Cost of the inverse of a matrix in units of a Cholesky factorisation of the same size."""


class AnswerSystem(NamedTuple):
    """The N unknowns of a face and the matrices that solve for them.

    Attributes:
        begin: Where each child's unknowns begin; empty if a face is not solved among the answers. [C + 1]
        first: Where the unknowns of each free variable begin in `unknowns`. [F + 1]
        unknowns: Answers and binding rows that a free variable is in, by number.
        row: Row of an unknown; -1 if the unknown is an answer. [N]
        compliance: 1 / weight of an answer; the compliance of a row. [N]
        common: Number of the common force (equal in all children) that an unknown belongs to; -1 if none. [N]
        shared: 1 / the sum of the compliances of each common force. [M]
        factors: Cholesky factors of the children's blocks, one after the other, by rows.
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
    number, own = np.zeros(program.weights.shape[1], np.int64), program.ridge.copy()
    for i in range(program.answers.shape[0]):
        for q in range(program.answers.shape[1]):
            if program.answers[i, q] >= 0:
                number[program.answers[i, q]] += 1
    for i in range(program.answers.shape[0]):
        for q in range(program.answers.shape[1]):
            k = program.answers[i, q]
            if k >= 0 and number[k] == 1:
                for z in range(own.shape[0]):
                    own[z, i] += program.weights[z, k]
    return number > 1, own


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
        program: The pass's program, without rows of several children.
        several: Answers of several cells. [L]
        side: Which rows bind, see `tallyveil.kernels.family.face.Signs`.
        cells: Free cells, child by child. [F]
        cells_of: Where each child's begin. [C + 1]
        row_compliance: Of rows, in the objective's units.
    """
    n_children, n_queries, n_bounds = (
        cells_of.size - 1,
        program.answers.shape[1],
        program.bound_label.shape[0],
    )
    offset, n_labels = np.empty(n_bounds, np.int64), program.weights.shape[1]
    for b in range(n_bounds):
        offset[b] = n_labels
        n_labels += program.bound_width[b]
    most = cells.size * (n_queries + n_bounds)
    begin, first = np.zeros(n_children + 1, np.int64), np.zeros(cells.size + 1, np.int64)
    unknowns, row, label = np.empty(most, np.uint32), np.empty(most, np.int64), np.empty(most, np.int64)
    compliance, number = np.empty(most), np.full(n_labels, -1, np.int64)
    everywhere = np.full(n_labels, program.has_sums)
    n, entries = 0, 0
    for c in range(n_children):
        weights = program.weights[program.kind[c]]
        for t in range(cells_of[c], cells_of[c + 1]):
            i = cells[t]
            for q in range(n_queries + n_bounds):
                own_row, own_compliance = -1, 0.0
                if q < n_queries:
                    key = program.answers[i, q]
                    if key < 0 or not several[key]:
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
                if own_compliance == 0.0:
                    everywhere[key] = False
                    continue
                if number[key] < begin[c]:
                    number[key] = n
                    row[n], label[n], compliance[n] = own_row, key, own_compliance
                    n += 1
                unknowns[entries] = number[key]
                entries += 1
            first[t + 1] = entries
        begin[c + 1] = n
    common, shared = _common(everywhere, label[:n], compliance)
    return AnswerSystem(
        begin, first, unknowns[:entries], row[:n].copy(), compliance[:n].copy(), common, shared, np.empty(0)
    )


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
    for k in range(n):
        total[k] = 1.0 / total[k]
    return common, total[:n].copy()


@internal
def pays(system: AnswerSystem, cells_of: Integers, n_cells: int) -> bool:
    """Whether factoring among the answers costs less than inverting H for every child and factoring their sum."""
    own, dense = 0.0, float(n_cells) ** 3
    for c in range(cells_of.size - 1):
        own += float(system.begin[c + 1] - system.begin[c]) ** 3
        dense += DENSE_COST * float(cells_of[c + 1] - cells_of[c]) ** 3
    return own <= dense


@internal
def factor_blocks(
    system: AnswerSystem, cells: Uint32s, cells_of: Integers, give: Floats, stiffness: Floats
) -> tuple[bool, AnswerSystem]:
    """Factor each child's block of compliance + A P A'; False where one is singular.

    Args:
        system: The unknowns.
        cells: Free cells, child by child. [F]
        cells_of: Where each child's begin. [C + 1]
        give: 1 / D. [F]
        stiffness: 1 / the sum of `give` over a cell's children; 0 at a root. [g]
    """
    size = 0
    for c in range(system.begin.size - 1):
        size += (system.begin[c + 1] - system.begin[c]) ** 2
    factors, place = np.zeros(size), 0
    begin, first, unknowns, row, compliance, common, shared, _ = system
    whole = AnswerSystem(begin, first, unknowns, row, compliance, common, shared, factors)
    for c in range(begin.size - 1):
        start, n = begin[c], begin[c + 1] - begin[c]
        block = factors[place : place + n * n].reshape(n, n)
        for u in range(n):
            block[u, u] = compliance[start + u]
        for t in range(cells_of[c], cells_of[c + 1]):
            own = give[t] - give[t] * give[t] * stiffness[cells[t]]
            for e in range(first[t], first[t + 1]):
                line = block[unknowns[e] - start]
                for other in range(first[t], first[t + 1]):
                    line[unknowns[other] - start] += own
        if not cholesky(block, n):
            return False, whole
        place += n * n
    return True, whole


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
    compliance, common, shared = system.compliance, system.common, system.shared
    scratch, price, none = np.empty(cells.size), np.empty(stiffness.size), np.zeros(stiffness.size)
    forces, wanted, sums = np.zeros(left.size), np.zeros(left.size), np.empty(shared.size)
    along, product = np.zeros(left.size), np.empty(left.size)
    done = max(SETTLED_PART * enough, RELATIVE_PART * _largest(left))
    _lift(system, left, wanted, sums, forces)
    for u in range(left.size):
        if common[u] >= 0:
            left[u] -= compliance[u] * forces[u]
    slope = np.inf
    for step in range(MOST_STEPS):
        if _largest(left) <= done:
            return step, forces
        set_to(wanted, left)
        _solve_blocks(system, wanted)
        _lift(system, left, wanted, sums, wanted)
        before, slope = slope, _inner(left, wanted)
        kept = slope / before
        for u in range(left.size):
            along[u] = wanted[u] + kept * along[u]
        for t in range(scratch.size):
            scratch[t] = 0.0
        add_forces(system, along, 1.0, scratch)
        respond(cells, give, stiffness, none, scratch, price)
        answers_of(system, scratch, product)
        for u in range(left.size):
            product[u] += compliance[u] * along[u]
        curvature = _inner(along, product)
        if not (slope > 0.0 and curvature > 0.0):
            return step, forces
        length = slope / curvature
        for u in range(left.size):
            forces[u] += length * along[u]
            left[u] -= length * product[u]
    return MOST_STEPS, forces


@internal
def _solve_blocks(system: AnswerSystem, vector: Floats) -> None:
    """Solve with each child's block in place."""
    place = 0
    for c in range(system.begin.size - 1):
        start, last = system.begin[c], system.begin[c + 1]
        n = last - start
        solve_cholesky(system.factors[place : place + n * n].reshape(n, n), vector[start:last])
        place += n * n


@internal
def _lift(system: AnswerSystem, left: Floats, wanted: Floats, sums: Floats, out: Floats) -> None:
    """Add to `out` the common forces that remove the common part of `left`, after the effect of `wanted` on it."""
    common, compliance, shared = system.common, system.compliance, system.shared
    for k in range(sums.size):
        sums[k] = 0.0
    for u in range(left.size):
        if common[u] >= 0:
            sums[common[u]] += left[u] - compliance[u] * wanted[u]
    for u in range(left.size):
        if common[u] >= 0:
            out[u] += sums[common[u]] * shared[common[u]]


@internal
def _largest(values: Floats) -> float:
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    return largest


@internal
def _inner(one: Floats, two: Floats) -> float:
    total = 0.0
    for u in range(one.size):
        total += one[u] * two[u]
    return total
