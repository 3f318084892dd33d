"""The Bureau's accounting: the (epsilon, delta) curve of rho-zCDP and the trade-off function it implies."""

from fractions import Fraction

import numpy as np

from tallyveil.arrays import Floats


def zcdp_log_delta(rho: Fraction, epsilons: Floats) -> Floats:
    """ln delta with epsilon = rho + 2 sqrt(rho ln(1 / delta)); 0 up to epsilon = rho.

    Source: Bun and Steinke 2016, Proposition 1.3.
    """
    # At epsilon <= rho the conversion promises nothing: delta 1, logarithm 0.
    excess = np.maximum(epsilons - float(rho), 0.0)
    return -(excess**2) / (4 * float(rho))


def zcdp_tradeoff(rho: Fraction, alphas: Floats, points: int = 4001) -> Floats:
    """Trade-off function of that curve: the largest over epsilon of what each (epsilon, delta) promises.

    Args:
        rho: Cost.
        alphas: False positive rates.
        points: Epsilons tried, from 0 to where delta is 1e-30.
    Source: Dong, Roth and Su 2022, Proposition 2.12.
    """
    epsilons = np.linspace(0.0, float(rho) + 2 * np.sqrt(float(rho) * 30 * np.log(10)), points)
    deltas = np.exp(zcdp_log_delta(rho, epsilons))
    best = np.zeros_like(alphas)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        room = 1 - delta
        # Two lines for each (epsilon, delta): the function and its inverse are equal by symmetry.
        best = np.maximum(best, room - np.exp(epsilon) * alphas)
        best = np.maximum(best, np.exp(-epsilon) * (room - alphas))
    return best
