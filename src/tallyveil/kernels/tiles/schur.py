"""The equations for the prices of a table's inner side, when the prices of its outer side are eliminated.

Problem: entries above zero are *active*. If the price of an inner line rises by z, an active entry falls by give * z,
where give is the product of its outer and its inner line's give. The prices of the outer lines then follow, so that
their sums stay. The matrix S says how much the sums of the inner lines fall. With g the gives of one outer line's
active entries, S is the sum over the outer lines of diag(g) - g g' / sum(g). It is positive semidefinite. Each
connected part of the active entries leaves one direction in which nothing changes. A damping d on the diagonal makes
S + d I definite.

Step: Cholesky's method (`kernels.cholesky`) where the inner side has at most DENSE_LINES lines, conjugate gradients
with the diagonal as preconditioner where it has more.

Worked case: one outer line with two active entries of give 1. S = [[1/2, -1/2], [-1/2, 1/2]].

Oracle: the dense matrix in numpy, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.compiled import internal

# Above this, a matrix would take 800 KB and its factorisation 11 million products, where conjugate gradients
# do fewer. Half or twice as many lines move tables between the two.
DENSE_LINES = 320
"""Most inner lines whose equations are a dense matrix."""

# Whole rows cost the inner lines whatever is active, and the others cost the active entries with an index
# each.
SPARSE = 12
"""An outer line has few active entries if these are at most one in so many of the inner lines."""

# Half as many would leave most directions unfinished; twice as many cost time where the caller's next step
# mends anyway.
CG_STEPS = 400
"""Most steps of conjugate gradients. What is left makes the next step of Newton's method less exact."""


class Active(NamedTuple):
    """Active entries of the outer lines of a table.

    Attributes:
        begin: Where each outer line's active entries begin.
        inner: Their inner lines, rising within an outer line.
        first: Number of the table's first outer line in `begin`.
        outer_give, inner_give: [outer lines], [inner lines], above zero.
    """

    begin: Integers
    inner: Int32s
    first: int
    outer_give: Floats
    inner_give: Floats


@internal
def fill_matrix(active: Active, damping: float, matrix: Floats) -> None:
    """Write the upper half of S + damping I."""
    n = active.inner_give.size
    # a damping on the diagonal makes a definite matrix, and only the upper half is filled
    for j in range(n):
        row = matrix[j]
        for k in range(j, n):
            row[k] = 0.0
        row[j] = damping
    give, inner, line = active.inner_give, active.inner, np.zeros(n)
    for o in range(active.outer_give.size):
        # an outer line with one active entry is still, as its total holds it
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        if end - begin < 2:
            continue
        # in the gives of the inner lines, since the outer line's own is a common factor
        total = 0.0
        for z in range(begin, end):
            total += give[inner[z]]
        outer = active.outer_give[o]
        share = outer / total
        for z in range(begin, end):
            matrix[inner[z], inner[z]] += outer * give[inner[z]]
        if (end - begin) * SPARSE > n:
            _subtract_whole_rows(active, begin, end, share, matrix, line)
            continue
        for z in range(begin, end):
            row, factor = matrix[inner[z]], share * give[inner[z]]
            for y in range(z, end):
                row[inner[y]] -= factor * give[inner[y]]


@internal
def _subtract_whole_rows(
    active: Active, begin: int, end: int, share: float, matrix: Floats, line: Floats
) -> None:
    """Subtract the products of one outer line's gives, also those with the zeros of entries that are not active.

    This gives the same bits as to leave the zeros out. Where many entries are active, whole rows are faster. `line` is
    all zeros before and after.
    """
    give, inner = active.inner_give, active.inner
    for z in range(begin, end):
        line[inner[z]] = give[inner[z]]
    for z in range(begin, end):
        # slices, since the compiler checks every index of which it does not know that it is not negative
        row, rest, factor = matrix[inner[z]][inner[z] :], line[inner[z] :], share * give[inner[z]]
        for k in range(rest.size):
            row[k] -= factor * rest[k]
    for z in range(begin, end):
        line[inner[z]] = 0.0


@internal
def apply_matrix(active: Active, damping: float, vector: Floats, out: Floats) -> None:
    """out = (S + damping I) vector."""
    give, inner = active.inner_give, active.inner
    # S + damping I, as in `fill_matrix`, without storing it: two passes over the active entries
    for j in range(vector.size):
        out[j] = damping * vector[j]
    for o in range(active.outer_give.size):
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        total, mean = 0.0, 0.0
        for z in range(begin, end):
            total += give[inner[z]]
            # the mean of the outer line, whose price moves so that the line's sum stays
            mean += give[inner[z]] * vector[inner[z]]
        if end - begin < 2:
            continue
        mean /= total
        for z in range(begin, end):
            out[inner[z]] += active.outer_give[o] * give[inner[z]] * (vector[inner[z]] - mean)


@internal
def solve_by_steps(active: Active, damping: float, precision: float, right: Floats) -> None:
    """Replace `right` by (S + damping I)^-1 right, up to a relative residual, by conjugate gradients."""
    # Preconditioned conjugate gradients (Hestenes and Stiefel 1952), with the diagonal as the preconditioner.
    n = right.size
    diagonal, solution, product = np.full(n, damping), np.zeros(n), np.empty(n)
    give, inner = active.inner_give, active.inner
    # the diagonal of S, by the same formula as in `fill_matrix`
    for o in range(active.outer_give.size):
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        total = 0.0
        for z in range(begin, end):
            total += give[inner[z]]
        if end - begin >= 2:
            for z in range(begin, end):
                give_of_line = give[inner[z]]
                # a single active entry adds nothing, as its own mean is the whole move
                diagonal[inner[z]] += active.outer_give[o] * give_of_line * (1.0 - give_of_line / total)
    direction, energy = np.empty(n), 0.0
    for j in range(n):
        direction[j] = right[j] / diagonal[j]
        energy += right[j] * direction[j]
    enough = precision * precision * energy
    # the residual is measured with the preconditioner, whose product is at hand
    for _ in range(CG_STEPS):
        # a right side of zero has a solution of zero, and would divide by zero below
        if energy <= enough or energy == 0.0:
            break
        apply_matrix(active, damping, direction, product)
        curvature = 0.0
        for j in range(n):
            curvature += direction[j] * product[j]
        step, before = energy / curvature, energy
        energy = 0.0
        for j in range(n):
            solution[j] += step * direction[j]
            right[j] -= step * product[j]
            energy += right[j] * right[j] / diagonal[j]
        for j in range(n):
            direction[j] = right[j] / diagonal[j] + energy / before * direction[j]
    for j in range(n):
        right[j] = solution[j]
