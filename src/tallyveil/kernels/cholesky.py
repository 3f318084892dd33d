"""Small dense symmetric systems, compiled.

Problem: factor a symmetric positive definite matrix as U'U with U upper triangular, solve with the factor, invert.
Step: Cholesky's method without pivots, four rows at a time. It ends with failure at a pivot that is not positive.

Worked case: [[4, 2], [2, 2]] has U = [[2, 1], [0, 1]].

Matrices are stored by rows, and inner loops run along rows. No sum is reassociated and no product is fused with a
sum, so that every machine gives the same bits. Oracle: `numpy.linalg`, in the tests.
"""

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal


@internal
def cholesky(matrix: Floats, n: int) -> bool:
    """Replace the leading n x n block by U with U'U = block, and the half below its diagonal by U's mirror image.

    Only the upper half is read. Four pivots are applied at a time, in order, to whole rows, which is fast without
    reassociating a sum. Returns False where a pivot is not positive.
    """
    # About n^3 / 6 products. The lower half is written and not read.
    done = 0
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
                row = matrix[i]
                a, b, c, d = first[i], second[i], third[i], fourth[i]
                for k in range(i, n):
                    # From left to right, as if the pivots were applied one after the other: the same bits as
                    # without blocks.
                    row[k] = row[k] - a * first[k] - b * second[k] - c * third[k] - d * fourth[k]
        done += block
    # The mirror image lets the solve run along rows in both directions.
    for i in range(n):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
    return True


@internal
def solve_cholesky(factor: Floats, right: Floats) -> None:
    """Solve U'U z = right in place, given U with its mirror image below the diagonal."""
    n = right.size
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
