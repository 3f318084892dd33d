"""Arithmetic on bounds of logarithms of probabilities, rounded outwards, for one number or for many at once.

The bounds hold if the platform's exp, expm1, log and log1p are right to 16 units in the last place.
"""

from typing import Final, TypeVar

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Floats

Known = TypeVar("Known", Bounds, ManyBounds)
Number = float | Floats

_SLACK: Final = 80 * 2.3e-16  # relative error of the few operations here, with room to spare
_LAST_PLACES: Final = 16 * 2.3e-16  # relative error of one function of the platform
_LEAST: Final = 1e-322  # the same where the result is below the least normal float
_LARGEST_EXPONENT: Final = 700.0  # floats overflow at exp(709.8); the sum is cut at 1 in any case


def exponential(logarithm: Known) -> Known:
    """x from ln x, for a probability x."""
    lower = np.maximum(np.exp(logarithm.lower) * (1 - _LAST_PLACES) - _LEAST, 0.0)
    upper = np.exp(logarithm.upper) * (1 + _LAST_PLACES)
    # A number that is too small for a float is rounded up, not to 0.
    upper = np.minimum(upper + np.where(np.isneginf(logarithm.upper), 0.0, _LEAST), 1.0)
    return _like(logarithm, np.minimum(lower, upper), upper)


def log_rest(log_part: Known) -> Known:
    """ln(1 - x) from ln x."""
    lower = _log_one_minus(_exp_above(log_part.upper)) * (1 + _SLACK)
    upper = _log_one_minus(np.exp(log_part.lower) * (1 - _SLACK)) * (1 - _SLACK)
    return _like(log_part, lower, np.maximum(lower, upper))


def log_sum(log_part: Known, log_other: Known, log_factor: Number) -> Known:
    """ln min(1, x + f y) from ln x, ln y and ln f >= 0."""
    slack = _SLACK * (1 + log_factor)
    low = np.minimum(_LARGEST_EXPONENT, log_factor + log_other.lower - slack)
    high = np.minimum(_LARGEST_EXPONENT, log_factor + log_other.upper + slack)
    lower = np.exp(log_part.lower) + np.exp(low)
    upper = _exp_above(log_part.upper) + _exp_above(high)
    return _like(
        log_part,
        np.minimum(0.0, _log(lower * (1 - _SLACK))),
        np.minimum(0.0, _log(upper * (1 + _SLACK)) + _SLACK),
    )


def log_reflected(epsilon: Number, log_delta: Known) -> Known:
    """ln delta(epsilon) from ln delta(-epsilon), for an epsilon below 0 that is rounded to nearest, -1e300 at least.

    Both neighbours have the same loss law, so delta(e) = 1 - exp(e) + exp(e) delta(-e) = 1 - exp(e) (1 - delta(-e)).
    """
    slack = _SLACK * (1 - epsilon)
    share = -np.expm1(epsilon)
    lower = share + np.exp(epsilon + log_delta.lower - slack)
    upper = share + _exp_above(epsilon + log_delta.upper + slack)
    gone = log_rest(log_delta)
    rest = log_rest(
        _like(log_delta, epsilon + gone.lower - slack, np.minimum(0.0, epsilon + gone.upper + slack))
    )
    small = upper < 0.5
    lowest = _log(lower * (1 - _SLACK)) - 40 * _SLACK
    highest = _log(upper * (1 + _SLACK)) + 40 * _SLACK
    return _like(log_delta, np.where(small, lowest, rest.lower), np.where(small, highest, rest.upper))


def _like(model: Known, lower: Number, upper: Number) -> Known:
    """Bounds of one number or of many, as those of the model."""
    if isinstance(model, ManyBounds):
        return ManyBounds(np.asarray(lower), np.asarray(upper))
    return Bounds(float(lower), float(upper))


def _exp_above(value: Number) -> Floats:
    # A number that is too small for a float is rounded up, not to 0.
    above: Floats = np.exp(value) * (1 + _SLACK) + np.where(np.isneginf(value), 0.0, 1e-300)
    return above


def _log(value: Number) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(np.maximum(value, 0.0))
    return logs


def _log_one_minus(value: Number) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log1p(-np.minimum(value, 1.0))
    return logs
