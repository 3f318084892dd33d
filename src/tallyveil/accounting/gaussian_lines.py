"""Errors of tests between N(0, 1) and N(mu, 1), as lines in exp(epsilon), also where mu is tiny or huge.

The problem: for a test that rejects above a point, bound the value of the line Phi(a) - kappa Phi(a - mu), and of one
minus it, in logarithms. For every a, the line is at most delta_mu(epsilon), the delta of the Gaussian test. At a = mu /
2 - epsilon / mu the two are equal.

The variables: kappa = exp(epsilon); Phi and phi, the normal distribution function and density; R = (1 - Phi) / phi,
Mills' ratio; e_0, the epsilon at which the test is best; y = e_0 / mu - mu / 2 = -a.

Where y is -1 or more, kappa phi(a - mu) = exp(epsilon - e_0) phi(a), so that

    Phi(a) - kappa Phi(a - mu) = phi(y) [R(y) - R(y + mu) - (exp(epsilon - e_0) - 1) R(y + mu)].

For a tiny mu, R(y) - R(y + mu) is the integral of r(t) = 1 - t R(t) over [y, y + mu]. The function r is falling and
convex, because R(t) is the integral of exp(-t w - w^2 / 2) over w > 0. So the integral lies between mu r(y + mu / 2)
and mu (r(y) + r(y + mu)) / 2, which differ by about mu^2 of themselves.

Where y is below -1, the line may be so close to 1 that only its distance from 1 can be told. This distance is the sum
of positive terms Phi(-a) + kappa Phi(a - mu).

Example: mu = 1e-15. Both probabilities then agree to fifteen digits, but R(y) - R(y + mu) is known to twelve.
"""

import math
from typing import Final

import numpy as np

from tallyveil.arrays import Bools, Floats

ERROR: Final = 1e-12
"""Relative error of scipy's erfcx and log_ndtr, of the platform's functions and of a few operations, with room."""

_TINY_MU: Final = 1e-3
"""Mu below which the difference of two Mills' ratios is bounded as an integral. At twice of it the two bounds are four
times as far apart, at half of it the subtraction loses one bit more."""
_LOG_ROOT_2_PI: Final = math.log(2 * math.pi) / 2  # of the normal density
_CENTRAL: Final = -1.0
"""y from which the line itself is looked at. Here it is at most Phi(1) = 0.84 and one minus it at least 0.16, so that
both forms keep their digits."""


def is_central(mu: float, best_at: Floats) -> Bools:
    """Where one minus the line is to be looked at instead of the line, because y < -1."""
    central: Bools = best_at / mu - mu / 2 < _CENTRAL
    return central


def log_line(mu: float, best_at: Floats, epsilons: Floats, side: int) -> Floats:
    """ln(Phi(a) - kappa Phi(a - mu)), rounded down or up; for y >= -1.

    Args:
        mu: Above 0.
        best_at: At which epsilon the test of each line is best.
        epsilons: Where each line is evaluated.
        side: -1 to round down, 1 to round up.
    """
    y = np.maximum(best_at / mu - mu / 2, _CENTRAL)
    here, there = _mills(y), _mills(y + mu)
    if mu < _TINY_MU:
        # r is convex: its middle bounds the integral from below, and its ends bound it from above.
        points = (y + mu / 2,) if side < 0 else (y, y + mu)
        steps = [1 - t * _mills(t) for t in points]
        gap = mu * sum(steps[1:], steps[0]) / len(steps)
        error = mu * (2 + (np.abs(y) + mu) * here)
    else:
        gap, error = here - there, here + there
    moved = np.expm1(epsilons - best_at)
    # The point y is rounded, so that the test is the best one at another epsilon, but nearly the same.
    elsewhere = np.exp(epsilons - best_at) * (np.abs(best_at) + np.abs(epsilons) + mu * mu)
    error = error + there * (np.abs(moved) + 0.01 * elsewhere)
    inner = gap - moved * there + side * ERROR * error
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Floats = np.log(np.maximum(inner, 0.0)) - y * y / 2 - _LOG_ROOT_2_PI
    slack = ERROR * (2 + y * y + np.where(np.isfinite(logs), np.abs(logs), 0.0))
    return logs + side * slack


def log_rest_of_line(mu: float, best_at: Floats, epsilons: Floats, side: int) -> Floats:
    """ln(1 - Phi(a) + kappa Phi(a - mu)), rounded down or up."""
    from scipy.special import log_ndtr  # here, since most users of guarantees do not ask for mu

    a = mu / 2 - best_at / mu
    # As logarithms, since far out both probabilities are below every float.
    first, second = log_ndtr(-a), epsilons + log_ndtr(a - mu)
    # A point that is rounded changes the logarithms by its error times their slope, at most |a| + mu + 1.
    size = 2 + np.abs(first) + np.abs(second) + np.abs(epsilons)
    size = size + (np.abs(a) + mu + 1) * (mu + np.abs(best_at) / mu)
    logs: Floats = np.logaddexp(first, second) + side * ERROR * size
    return logs


def _mills(t: Floats) -> Floats:
    """R(t), for t of -1 or more."""
    from scipy.special import erfcx  # here, since most users of guarantees do not ask for mu

    ratio: Floats = math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))
    return ratio
