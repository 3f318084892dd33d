"""Solving the equations of a face among its answers, compiled.

Problem: find the forces u for which (compliance + A P A') u is the right side. The symbols are defined in
`tallyveil.kernels.family.answer_system`.

Step: conjugate gradients. The preconditioner has two parts. First, it solves the equations of each child by themselves,
with a factored block for each child, because different children meet only in the cells' sums and in rows of several
children. These rows are the border of the blocks and are eliminated last. The blocks and the border leave out that P
ties the children to each other.
Second, it treats forces on one answer that are equal in all children. The given sums allow no common change, so P maps
such forces to zero, and only the compliance is left. They are solved exactly (deflation). On the faces of six made-up
families of 100 to 684 cells without rows of several children, 4 to 22 steps were needed. Where a child has fewer
answers than cells, its block costs less than H (`pays`).

Stopping rule: the largest error of an answer or row is below a small part of what the caller takes as exact enough, or
below a tiny part of the largest error at the start. The iteration also ends if rounding hides the curvature, or if the
steps are used up. The caller measures what is missing and solves again.

Worked case: two children without a common answer. Their blocks are then the whole matrix, and one step is enough.

Oracle: the tests solve the same equations as one dense system. Every sum runs in a fixed order, so that every machine
gives the same bits.
"""

import numpy as np

from tallyveil.arrays import Floats, Integers, Uint32s
from tallyveil.kernels.cholesky import cholesky, solve_cholesky
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.answer_system import AnswerSystem
from tallyveil.kernels.vectors import inner, largest_of, set_to

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
