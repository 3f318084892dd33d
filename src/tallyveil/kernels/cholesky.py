"""Small dense symmetric systems, compiled, with the same bits on every machine: no sum is reassociated or fused.

All matrices are stored by rows and only upper halves are used, so that inner loops run along rows.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from tallyveil.kernels.compiled import part

Floats = npt.NDArray[np.float64]


@njit(nogil=True, cache=True)
def cholesky(matrix: Floats, n: int) -> bool:
    """Replace the leading n x n block by U with U'U = block; only its upper half is read and written.

    Four pivots at a time, each applied in order to whole rows: fast without reassociating a sum.
    Returns False where a pivot is not positive.
    """
    done = 0
    while done < n:
        block = min(4, n - done)
        for j in range(done, done + block):
            if not matrix[j, j] > 0.0:
                return False
            # a loop of divisions is slow: each must be checked for zero
            inverse_root, pivot = 1.0 / np.sqrt(matrix[j, j]), matrix[j]
            for k in range(j, n):
                pivot[k] *= inverse_root
            for i in range(j + 1, done + block):
                factor, row = pivot[i], matrix[i]
                for k in range(i, n):
                    row[k] -= factor * pivot[k]
        if block == 4:
            one, two, three, four = matrix[done], matrix[done + 1], matrix[done + 2], matrix[done + 3]
            for i in range(done + 4, n):
                row = matrix[i]
                a, b, c, d = one[i], two[i], three[i], four[i]
                for k in range(i, n):
                    row[k] = row[k] - a * one[k] - b * two[k] - c * three[k] - d * four[k]
        done += block
    return True


@njit(nogil=True, cache=True)
def invert(matrix: Floats, n: int, work: Floats, inverse: Floats) -> bool:
    """Invert a symmetric positive definite matrix given by its upper half, which is destroyed.

    Args:
        matrix: [at least n, at least n]
        n: Size.
        work: Scratch of the same shape.
        inverse: Output; both halves.
    Returns:
        False where the matrix is not definite.
    """
    if not cholesky(matrix, n):
        return False
    _invert_triangle(matrix, n, inverse)
    # rows of `work` are columns of the triangle's inverse, so that the product runs along rows
    for i in range(n):
        for k in range(i, n):
            work[k, i] = inverse[i, k]
        for k in range(i):
            work[k, i] = 0.0
    for i in range(n):
        for k in range(i + 1):
            inverse[i, k] = 0.0
    _sum_of_outer_products(work, n, inverse)
    for i in range(n):
        for k in range(i):
            inverse[k, i] = inverse[i, k]
    return True


@part
def _invert_triangle(upper: Floats, n: int, inverse: Floats) -> None:
    """Inverse of an upper triangle, row after row from the last; zeros below its diagonal."""
    for i in range(n - 1, -1, -1):
        own = inverse[i]
        for k in range(n):
            own[k] = 0.0
        own[i] = 1.0
        k = i + 1
        while k + 4 <= n:
            one, two, three, four = inverse[k], inverse[k + 1], inverse[k + 2], inverse[k + 3]
            a, b, c, d = upper[i, k], upper[i, k + 1], upper[i, k + 2], upper[i, k + 3]
            for j in range(k, n):
                own[j] = own[j] - a * one[j] - b * two[j] - c * three[j] - d * four[j]
            k += 4
        while k < n:
            a, one = upper[i, k], inverse[k]
            for j in range(k, n):
                own[j] -= a * one[j]
            k += 1
        inverse_pivot = 1.0 / upper[i, i]
        for k in range(i, n):
            own[k] *= inverse_pivot


@part
def _sum_of_outer_products(lower: Floats, n: int, out: Floats) -> None:
    """Add the lower half of the sum over k of (row k)' (row k) of a lower triangle, four rows at a time."""
    done = 0
    while done + 4 <= n:
        one, two, three, four = lower[done], lower[done + 1], lower[done + 2], lower[done + 3]
        for i in range(done + 4):
            row = out[i]
            a, b, c, d = one[i], two[i], three[i], four[i]
            for j in range(i + 1):
                row[j] = row[j] + a * one[j] + b * two[j] + c * three[j] + d * four[j]
        done += 4
    for k in range(done, n):
        own = lower[k]
        for i in range(k + 1):
            row, a = out[i], own[i]
            for j in range(i + 1):
                row[j] += a * own[j]


@njit(nogil=True, cache=True)
def solve_cholesky(factor: Floats, right: Floats) -> None:
    """Solve U'U z = right in place."""
    n = right.size
    for i in range(n):
        right[i] /= factor[i, i]
        value = right[i]
        for j in range(i + 1, n):
            right[j] -= value * factor[i, j]
    for i in range(n - 1, -1, -1):
        value = right[i]
        for j in range(i + 1, n):
            value -= factor[i, j] * right[j]
        right[i] = value / factor[i, i]
