"""Small loops over arrays that compile in less time than what numpy has for them."""

from typing import Any

import numpy.typing as npt

from tallyveil.kernels.compiled import internal


@internal
def set_to(out: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy an array into one that is at least as long. Assigning to a slice takes far longer to compile."""
    # The type of both is left open, so that one source serves floats and integers.
    for i in range(source.size):
        out[i] = source[i]


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
