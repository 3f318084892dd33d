"""Small vectors and small dense systems, compiled: loops, places, a projection, Cholesky's method.

The loops compile in less time than what numpy has for them. No sum is reassociated and no product is fused
with a sum, so that every machine gives the same bits.

*Projection on a simplex.* Given v and a positive total, find the x >= 0 with sum of x = total that is nearest
to v. The answer is x = max(0, v - t) for one shift t; with weighted distances, x = max(0, v - t * slack).
Step: Newton's method on the sum of max(0, v - t) as a function of t, which is convex, piecewise linear and
decreasing. Stopping rule: a step no longer changes t, which happens after finitely many steps. Rounding
errors of a long sum can move t up and down for ever. So the method also ends after FEW_STEPS steps where two
steps have the same numbers above zero: the second one has then only mended rounding. Worked case: v = (5, -2)
and total 3. At t = 0 the sum is 5 with one number above zero, so t = 2; the sum is 3 there. x = (3, 0).
Oracle: `tests.oracles.simplex`, which sorts the numbers.

*Cholesky's method.* Factor a symmetric positive definite matrix as U'U with U upper triangular, solve with
the factor, invert: without pivots, four rows at a time. It ends with failure at a pivot that is not positive.
Matrices are stored by rows, and inner loops run along rows. Worked case: [[4, 2], [2, 2]] has U = [[2, 1],
[0, 1]]. Oracle: `numpy.linalg`, in the tests.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import hot, internal, uncounted
from tallyveil.kernels.fours import LANES, four_sums, subtract_fours


@internal
def set_to(out: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy an array into one that is at least as long. Assigning to a slice takes far longer to compile."""
    # The type of both is left open, so that one source serves floats and integers.
    for i in range(source.size):
        out[i] = source[i]


@internal
def longer(source: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """An array with room for so many numbers, which begins with those of a shorter one."""
    out = np.empty(capacity, source.dtype)
    set_to(out, source)
    return out


@internal
def set_rows(out: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy a matrix into one with at least as many rows, of the same length."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            out[i, j] = source[i, j]


@internal
def largest_of(values: npt.NDArray[Any]) -> float:
    """The largest absolute value; 0 where there is none."""
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, abs(values[i]))
    return largest


@internal
def inner(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> float:
    """The sum of products, in order."""
    # One order, no lanes: the bits are the same on every machine.
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@hot
def first_at_least(values: npt.NDArray[Any], begin: int, end: int, least: Any) -> int:
    """The first place from begin up to end whose number is at least `least`, or end. Numbers rise there."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


@internal
def sort_first(values: npt.NDArray[Any], n: int) -> None:
    """Sort the first n numbers in place, by Shell's method: numpy's takes a second to compile."""
    # In place, and not stable, which does not matter for numbers.
    gap = n
    while gap > 1:
        # Gaps that fall by 4/9 need about the fewest comparisons (Tokuda 1992); any that end with 1 sort.
        gap = max(1, gap * 4 // 9)
        for i in range(gap, n):
            value, at = values[i], i
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value


FEW_STEPS = 20
"""Steps that are made without looking for this. Nearly every search has ended before."""


@hot
def simplex_shift(values: Floats, n: int, total: float, start: float) -> float:
    """The shift t with sum over the first n values of max(0, value - t) = total, which is positive.

    Newton's method reaches the root's piece from the left after finitely many steps, wherever it starts. One value or
    two values need no search.
    """
    # Closed forms for one value and for two.
    if n == 1:
        return float(values[0] - total)
    if n == 2:
        larger, smaller = max(values[0], values[1]), min(values[0], values[1])
        # The smaller one ends at 0: t lies at or above it, and the larger one alone makes the total.
        if larger - smaller >= total:
            return float(larger - total)
        return float((larger + smaller - total) * 0.5)
    # 4 n + 100 is a bound against rounding that would go on for ever; in exact arithmetic each step but the first
    # moves to another piece, of which there are n + 1.
    shift, before, whole = start, 0, n // LANES * LANES
    for number in range(4 * n + 100):
        # four sums side by side, in a fixed order
        (first, second, third, fourth), count = four_sums(values, whole, shift)
        for i in range(whole, n):
            first += max(values[i] - shift, 0.0)
            count += values[i] > shift
        above = (first + second) + (third + fourth)
        # All values lie at or below t, where the slope is 0: start again to the left of the root, where the largest
        # value alone makes the total.
        if count == 0:
            largest = values[0]
            for i in range(1, n):
                largest = max(largest, values[i])
            shift = largest - total
            continue
        # The slope of the piece is minus the number of values above t.
        step = (above - total) / count
        shift += step
        # About 4 units in the last place: a smaller step is rounding.
        if abs(step) <= 1e-15 * (1.0 + abs(shift)) or (number >= FEW_STEPS and count == before):
            break
        before = count
    return shift


@internal
def weighted_shift(values: Floats, slack: Floats, n: int, total: float, start: float) -> float:
    """The shift t with sum over the first n values of max(0, value - t * slack) = total, which is positive.

    This is the projection with distances weighted by 1 / slack, which is positive. It uses Newton's method too.
    """
    shift, before = start, 0.0
    for number in range(4 * n + 100):
        # One sum in order: the lanes of `four_sums` have no weights.
        above, slope = 0.0, 0.0
        for i in range(n):
            left = values[i] - shift * slack[i]
            if left > 0.0:
                above += left
                slope += slack[i]
        if slope == 0.0:
            # The largest t at which some value alone makes the total: the root lies at or above it, and the slope
            # there is not 0.
            shift = (values[0] - total) / slack[0]
            for i in range(1, n):
                shift = max(shift, (values[i] - total) / slack[i])
            continue
        step = (above - total) / slope
        shift += step
        # Relative to t or to the total, because either may be 0 or far smaller than the other.
        if abs(step) <= 1e-15 * abs(shift) or abs(above - total) <= 1e-15 * total:
            break
        if number >= FEW_STEPS and slope == before:
            break
        before = slope
    return shift


@internal
def cholesky(matrix: Floats, n: int) -> bool:
    """Replace the leading n x n block by U with U'U = block, and the half below its diagonal by U's mirror image.

    Only the upper half is read. Four pivots are applied at a time, in order, to whole rows, which is fast without
    reassociating a sum. Returns False where a pivot is not positive.
    """
    # About n^3 / 6 products. The lower half is written and not read.
    done, matrix = 0, uncounted(matrix)
    while done < n:
        # Four rows fit into the registers, so that each row below is read and written once for four pivots.
        block = min(4, n - done)
        for j in range(done, done + block):
            # Written so that it also refuses what is no number.
            if not matrix[j, j] > 0.0:
                return False
            # a loop of divisions is slow: each must be checked for zero
            inverse_root, pivot = 1.0 / np.sqrt(matrix[j, j]), matrix[j]
            for k in range(j, n):
                pivot[k] *= inverse_root
            # Within the four rows, each pivot is applied at once; rows further down wait for all four.
            for i in range(j + 1, done + block):
                factor, row = pivot[i], matrix[i]
                for k in range(i, n):
                    row[k] -= factor * pivot[k]
        if block == 4:
            # A last block of fewer than four rows has no rows below it.
            first, second, third, fourth = matrix[done], matrix[done + 1], matrix[done + 2], matrix[done + 3]
            for i in range(done + 4, n):
                row, rest = matrix[i][i:n], (first[i:n], second[i:n], third[i:n], fourth[i:n])
                a, b, c, d = first[i], second[i], third[i], fourth[i]
                # From left to right, as if the pivots were applied one after the other: the same bits as
                # without blocks.
                whole = row.size // LANES * LANES
                subtract_fours(row, rest, (a, b, c, d), whole)
                for k in range(whole, row.size):
                    row[k] = row[k] - a * rest[0][k] - b * rest[1][k] - c * rest[2][k] - d * rest[3][k]
        done += block
    # The mirror image lets the solve run along rows in both directions.
    for i in range(n):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
    return True


@internal
def solve_cholesky(factor: Floats, right: Floats) -> None:
    """Solve U'U z = right in place, given U with its mirror image below the diagonal."""
    n, factor = right.size, uncounted(factor)
    # First U'z = right, where row i of the upper half is column i of U'.
    for i in range(n):
        row = factor[i]
        right[i] /= row[i]
        value = right[i]
        for j in range(i + 1, n):
            right[j] -= value * row[j]
    # Then U z = right: column i of U lies in row i of the lower half.
    for i in range(n - 1, -1, -1):
        row = factor[i]
        right[i] /= row[i]
        value = right[i]
        for j in range(i):
            right[j] -= value * row[j]


@internal
def invert(matrix: Floats) -> bool:
    """Invert a symmetric positive definite matrix in place; False where a pivot is not positive."""
    factor = matrix.copy()
    if not cholesky(factor, matrix.shape[0]):
        return False
    # Row j becomes the solution for unit vector j. The inverse is symmetric, so its rows are its columns, up to
    # rounding.
    for j in range(matrix.shape[0]):
        row = matrix[j]
        for i in range(row.size):
            row[i] = 1.0 if i == j else 0.0
        solve_cholesky(factor, row)
    return True
