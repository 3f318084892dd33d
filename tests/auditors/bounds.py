"""Confidence bounds that hold for every sample size: of a probability, a mean, a distance of two distributions.

Every function takes a failure probability, and fails with at most this probability. None of them is an approximation
for large samples.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def probability_bounds(hits: int, trials: int, failure: float) -> tuple[float, float]:
    """A lower and an upper bound on a probability; each of the two may fail.

    Source: Clopper and Pearson 1934.
    """
    from scipy.stats import beta

    lower = float(beta.ppf(failure, hits, trials - hits + 1)) if hits else 0.0
    upper = float(beta.ppf(1 - failure, hits + 1, trials - hits)) if hits < trials else 1.0
    return lower, upper


def epsilon_below(often: Bools, seldom: Bools, delta: float, failure: float) -> float:
    """The epsilon that is refuted at a delta by how often a set of outputs occurs under two neighbours; 0 for none.

    Args:
        often: Whether each output under the one neighbour is in the set.
        seldom: The same under the other.
        delta: Delta.
        failure: Failure probability.
    """
    low, _ = probability_bounds(int(often.sum()), often.size, failure / 2)
    _, high = probability_bounds(int(seldom.sum()), seldom.size, failure / 2)
    return max(math.log((low - delta) / high), 0.0) if low > delta else 0.0


def delta_below(often: Bools, seldom: Bools, epsilon: float, failure: float) -> float:
    """The delta that is refuted at an epsilon, as `epsilon_below`; it may be negative."""
    low, _ = probability_bounds(int(often.sum()), often.size, failure / 2)
    _, high = probability_bounds(int(seldom.sum()), seldom.size, failure / 2)
    return low - math.exp(epsilon) * high


def mu_below(often: Bools, seldom: Bools, failure: float) -> float:
    """The mu that is refuted: no test of N(0, 1) against N(mu, 1) does as well as this set for any smaller mu."""
    from scipy.stats import norm

    low, _ = probability_bounds(int(often.sum()), often.size, failure / 2)
    _, high = probability_bounds(int(seldom.sum()), seldom.size, failure / 2)
    if low <= 0 or high >= 1:
        return 0.0
    return max(float(norm.ppf(low) - norm.ppf(high)), 0.0)


def mean_radius(values: Floats, width: float, failure: float) -> float:
    """How far the mean of independent values may lie from the true mean, on one side.

    Args:
        values: The values, which lie in an interval.
        width: Width of this interval.
        failure: Failure probability.

    Source: Maurer and Pontil 2009, Theorem 4 (the empirical Bernstein bound).
    """
    n, log = values.size, math.log(2 / failure)
    return math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 7 * width * log / (3 * (n - 1))


def farthest_distribution(trials: int, failure: float) -> float:
    """The largest distance between the empirical and the true distribution function; it holds for every law.

    Source: Massart 1990, with the constant 2 for both sides.
    """
    return math.sqrt(math.log(2 / failure) / (2 * trials))
