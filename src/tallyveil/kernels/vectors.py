"""Loops along stretches of flat arrays, compiled so that they run on vectors.

A signed index could be negative, which numba checks for every element unless it is shown to be unsigned; with
the check a loop runs on single numbers, four to six times slower.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]


@njit(nogil=True, cache=True)
def add_scaled(out: Floats, out_at: int, factor: float, source: Floats, at: int, n: int) -> None:
    """Add factor times n elements of `source` from `at` on to as many of `out` from `out_at` on."""
    for b in range(n):
        out[np.uint64(out_at + b)] += factor * source[np.uint64(at + b)]


@njit(nogil=True, cache=True)
def copy_stretch(out: Floats, out_at: int, source: Floats, at: int, n: int) -> None:
    """Copy n elements of `source` from `at` on to `out` from `out_at` on; within one array only to the left."""
    for b in range(n):
        out[np.uint64(out_at + b)] = source[np.uint64(at + b)]


@njit(nogil=True, cache=True)
def set_to(out: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy an array into one that is at least as long: a slice that is assigned to takes far longer to compile."""
    for i in range(source.size):
        out[i] = source[i]


@njit(nogil=True, cache=True)
def set_rows(out: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy a matrix into one with at least as many rows, of the same length."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            out[i, j] = source[i, j]


@njit(nogil=True, cache=True)
def sort_first(values: npt.NDArray[Any], n: int) -> None:
    """Sort the first n numbers in place, by Shell's method: numpy's takes a second to compile."""
    gap = n
    while gap > 1:
        gap = max(1, gap * 4 // 9)
        for i in range(gap, n):
            value, at = values[i], i
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value


@njit(nogil=True, cache=True)
def invert_small(matrix: Floats, at: int, width: int, n: int) -> bool:
    """Invert a symmetric positive definite matrix of a few rows in place, by Gauss and Jordan.

    Args:
        matrix: Holds it row after row, from `at` on; both halves.
        at: Where it begins.
        width: From one row to the next.
        n: Size.
    Returns:
        False where a pivot is not positive.
    """
    for k in range(n):
        pivot_at = np.uint64(at + k * width)
        pivot = matrix[pivot_at + np.uint64(k)]
        if not pivot > 0.0:
            return False
        scale = 1.0 / pivot
        matrix[pivot_at + np.uint64(k)] = 1.0
        for j in range(n):
            matrix[pivot_at + np.uint64(j)] *= scale
        for i in range(n):
            if i != k:
                own_at = np.uint64(at + i * width)
                factor = matrix[own_at + np.uint64(k)]
                matrix[own_at + np.uint64(k)] = 0.0
                for j in range(n):
                    matrix[own_at + np.uint64(j)] -= factor * matrix[pivot_at + np.uint64(j)]
    return True
