"""Minima of functions of one number, in floats: where to evaluate a bound that holds everywhere."""

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2


def least_point(objective: Callable[[float], float], low: float, high: float, width: float) -> float:
    """Point near the minimum of a function, by golden-section search.

    The function is taken to have one minimum between the ends. Where it has more, one of them may be missed,
    which costs a bound's tightness and never its validity.

    Args:
        objective: The function.
        low, high: Ends.
        width: How close to come.
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = objective(left), objective(right)
    while high - low > width:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = objective(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = objective(right)
    return (low + high) / 2
