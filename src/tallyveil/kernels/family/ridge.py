"""The matrix H of a pass and the ridge that makes it definite, compiled.

Problem: where a child's queries do not determine every cell, H is singular and the optimum is not unique. A diagonal
is then added that is far smaller than any measurement's weight: RIDGE * smallest weight * parent's mean count /
parent's count. Under the parent's sums it makes undetermined counts proportional to the parent's.

Step: H is singular if there are fewer answers than cells, or if Cholesky's method with pivots meets a pivot that is
zero up to rounding.

Worked case: two cells whose total alone is measured, with weight 1. H = [[1, 1], [1, 1]] has the pivots 1 and 0, so the
ridge is added; with equal counts in the parent it is 2^-14 on both diagonal entries.

Specification: `tests.oracles.reduction`.
"""

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.compiled import internal

RIDGE = 2.0**-14
"""Weight of the ridge, in weights of the noisiest query: that of a measurement with 16,384 times its variance, far
below what the noise could show. Half of it pulls half as hard on counts that measurements determine, and makes H twice
as nearly singular; 2^-20 was tried, and left some programs too ill-conditioned to certify. The published counts of
every release without a detailed query depend on it."""


@internal
def fill_hessian(answers: Integers, weights: Floats, hessian: Floats) -> None:
    """Write H, without the ridge, into a matrix of zeros."""
    n_cells = answers.shape[1]
    for k in range(answers.shape[0]):
        # an answer's cells are told by equal labels: no list of them is needed
        labels = answers[k]
        for i in range(n_cells):
            if labels[i] >= 0:
                row = hessian[i]
                weight = weights[labels[i]]
                # the upper half alone; the lower one is its mirror image, copied below
                for j in range(i, n_cells):
                    row[j] += weight if labels[j] == labels[i] else 0.0
    for i in range(n_cells):
        for j in range(i):
            hessian[i, j] = hessian[j, i]


@internal
def ridges(answers: Integers, sizes: Integers, weights: Floats, relative: Floats) -> Floats:
    """Diagonals that make each kind's H definite; zeros where it is already definite.

    `relative` is the parent's count of each cell over its mean count of a support cell."""
    n_kinds, n_cells = weights.shape[0], answers.shape[1]
    ridge = np.zeros((n_kinds, n_cells))
    # the noisiest query of any kind, for kinds that nothing measures
    of_any = np.inf
    for z in range(n_kinds):
        for t in range(weights.shape[1]):
            of_any = min(of_any, weights[z, t] if weights[z, t] > 0.0 else np.inf)
    for z in range(n_kinds):
        smallest, place, n_used, whole = np.inf, 0, 0, False
        # all answers of a partition have the same weight, so the first one speaks for all of them
        for k in range(answers.shape[0]):
            if weights[z, place] > 0.0:
                # a partition with as many answers as cells counts each by itself, and H is definite without a
                # test
                whole |= sizes[k] == n_cells
                smallest = min(smallest, weights[z, place])
                n_used += sizes[k]
            place += sizes[k]
        # fewer answers than cells cannot determine them; only where it is open is a matrix factored, at g^3 /
        # 3
        if whole or (n_used >= n_cells and _determined(answers, weights[z])):
            continue
        smallest = smallest if n_used > 0 else of_any
        smallest = smallest if smallest < np.inf else 1.0
        for i in range(n_cells):
            # More where the parent has few: under given sums the undetermined counts become proportional to
            # the parent's.
            ridge[z, i] = RIDGE * smallest / (relative[i] if relative[i] > 0 else 1.0)
    return ridge


@internal
def _determined(answers: Integers, weights: Floats) -> bool:
    """Whether the answers that have a weight determine every cell."""
    equal = np.empty(weights.size)
    # Ones in place of weights: what is determined does not depend on variances, and whole numbers keep a
    # pivot of zero far from one that is not.
    for t in range(weights.size):
        equal[t] = 1.0 if weights[t] > 0.0 else 0.0
    hessian = np.zeros((answers.shape[1], answers.shape[1]))
    fill_hessian(answers, equal, hessian)
    return _independent(hessian)


@internal
def _independent(matrix: Floats) -> bool:
    """Whether a symmetric positive semidefinite matrix is definite, by Cholesky's method with pivots."""
    n = matrix.shape[0]
    left = np.arange(n)
    largest = 0.0
    for step in range(n):
        # The largest pivot comes next. Only then does a small one prove that all of the rest is small.
        best = step
        for t in range(step, n):
            if matrix[left[t], left[t]] > matrix[left[best], left[best]]:
                best = t
        left[step], left[best] = left[best], left[step]
        pivot = left[step]
        largest = max(largest, matrix[pivot, pivot])
        # Pivots of a definite matrix of such whole numbers are far above 1e-9 of the largest; a zero one is
        # rounding, some 1e-16 of it.
        if matrix[pivot, pivot] <= 1e-9 * largest:
            return False
        for t in range(step + 1, n):
            i = left[t]
            factor = matrix[i, pivot] / matrix[pivot, pivot]
            if factor != 0.0:
                for u in range(step + 1, n):
                    matrix[i, left[u]] -= factor * matrix[pivot, left[u]]
    return True
