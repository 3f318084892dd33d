"""Minima of functions of one number, in floats: they choose where a bound that holds everywhere is evaluated."""

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2
"""Share of the interval that a step keeps. With this one an inner point of a step is one of the next step, too, so that
a step costs one evaluation; every other share would cost two."""


def least_point(objective: Callable[[float], float], low: float, high: float, width: float) -> float:
    """A point near the minimum of a function, by golden-section search.

    The function is assumed to have one minimum between the ends. If it has more, the search may end at the wrong one.
    The bound is then less tight, but still valid.

    Args:
        objective: The function.
        low, high: The ends of the interval.
        width: The search stops when the interval is this short.
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
