"""Arithmetic on bounds of logarithms of probabilities, rounded outwards.

The bounds hold if the platform's exp, expm1, log and log1p are right to 16 units in the last place.
"""

import math
from fractions import Fraction
from typing import Final

from tallyveil.accounting.bounds import Bounds

_SLACK: Final = 80 * 2.3e-16  # relative error of the few operations here, with room to spare


def log_rest(log_part: Bounds) -> Bounds:
    """ln(1 - x) from ln x."""
    lower = _log_one_minus(_exp_above(log_part.upper))
    upper = _log_one_minus(math.exp(log_part.lower) * (1 - _SLACK))
    lower *= 1 + _SLACK
    return Bounds(lower, max(lower, upper * (1 - _SLACK)))


def log_sum(log_part: Bounds, log_other: Bounds, log_factor: float) -> Bounds:
    """ln min(1, x + f y) from ln x, ln y and ln f >= 0."""
    slack = _SLACK * (1 + log_factor)
    lower = math.exp(log_part.lower) + math.exp(log_factor + log_other.lower - slack)
    upper = _exp_above(log_part.upper) + _exp_above(min(700.0, log_factor + log_other.upper + slack))
    return Bounds(min(0.0, _log(lower * (1 - _SLACK))), min(0.0, _log(upper * (1 + _SLACK)) + _SLACK))


def log_reflected(exact: float | Fraction, log_delta: Bounds) -> Bounds:
    """ln delta(epsilon) from ln delta(-epsilon), epsilon = `exact` < 0.

    Both neighbours have the same loss law, so delta(e) = 1 - exp(e) + exp(e) delta(-e) = 1 - exp(e) (1 - delta(-e)).
    """
    epsilon = float(max(exact, -(10**300)))  # beyond, all that is left of exp(epsilon) is that it is not 0
    slack = _SLACK * (1 - epsilon)
    share = -math.expm1(epsilon)
    lower = share + math.exp(epsilon + log_delta.lower - slack)
    upper = share + _exp_above(epsilon + log_delta.upper + slack)
    if upper < 0.5:
        return Bounds(_log(lower * (1 - _SLACK)) - 40 * _SLACK, _log(upper * (1 + _SLACK)) + 40 * _SLACK)
    gone = log_rest(log_delta)
    return log_rest(Bounds(epsilon + gone.lower - slack, min(0.0, epsilon + gone.upper + slack)))


def _exp_above(value: float) -> float:
    # A number that is too small for a float is rounded up, not to 0.
    return 0.0 if value == -math.inf else math.exp(value) * (1 + _SLACK) + 1e-300


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_one_minus(value: float) -> float:
    return math.log1p(-value) if value < 1 else -math.inf
