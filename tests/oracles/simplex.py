"""Slow and obvious specifications of the kernels in `tallyveil.kernels.vectors`."""

import numpy as np

from tallyveil.arrays import Floats


def simplex_shift_reference(values: Floats, n: int, total: float, start: float) -> float:
    """Oracle of `simplex_shift`, which sorts and needs no start."""
    largest_first = np.sort(values[:n])[::-1]
    shifts = (np.cumsum(largest_first) - total) / np.arange(1, n + 1)
    return float(shifts[np.flatnonzero(largest_first > shifts)[-1]])


def weighted_shift_reference(values: Floats, slack: Floats, n: int, total: float, start: float) -> float:
    """Oracle of `weighted_shift`, which sorts and needs no start."""
    order = np.argsort(-values[:n] / slack[:n])
    shifts = (np.cumsum(values[order]) - total) / np.cumsum(slack[order])
    return float(shifts[np.flatnonzero(values[order] > shifts * slack[order])[-1]])
