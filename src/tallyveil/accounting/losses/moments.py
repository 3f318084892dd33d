"""The logarithm of the moment generating function of a loss, K(s) = ln E exp(s L), and the moments it gives.

The variables: s tilt, v variance, t scale, k sensitivity, n multiplicity, W the Gaussian losses' offset, half of
their variance.

A discrete Gaussian loss has K(s) = s (s + 1) k^2 / (2 v) + ln(S(s k) / S(0)), where S(m) is the sum over integers x
of exp(-(x - m)^2 / (2 v)). S has period 1 and is largest at 0. By Poisson's summation formula S(m) / S(0) differs
from 1 by less than 5 exp(-2 pi^2 v) if v >= 1/4. A discrete Laplace loss is a geometric sum.

Example: with k = 1, v = 2 and s = 1, K(1) = 1/2 exactly, because S(1) = S(0).
"""

import math
from fractions import Fraction

import numpy as np
from flint import arb

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.tails import float_bounds
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, LossFactor
from tallyveil.arrays import Floats
from tallyveil.noise.balls import between_zero_and, precision, rational

WIDE_VARIANCE = 2
"""From this variance on, the quotient S(m) / S(0) is taken as 1, within the bound 5 exp(-2 pi^2 2) < 4e-17."""

_BITS = 192
"""Bits of ball arithmetic, and of theta sums: terms below 2^-192 of the largest are bounded, not added. A float keeps
53, so that half as many would do for values far below 2^40."""


def certified_log_moment(factors: tuple[LossFactor, ...], tilt: Fraction, less: Fraction) -> Bounds:
    """K(tilt) - less, from both sides. Its exponential turns sums over the tilted law into true probabilities."""
    with precision(_BITS):
        gaussian = sum(
            (f.multiplicity * f.offset for f in factors if isinstance(f, GaussianLoss)), Fraction(0)
        )
        total = rational(tilt * (tilt + 1) * gaussian - less)
        for factor in factors:
            total += factor.multiplicity * (
                _theta_quotient(factor, tilt)
                if isinstance(factor, GaussianLoss)
                else _laplace_log_moment(factor, tilt)
            )
        return float_bounds(total)


def log_moment(factor: LossFactor, tilt: float) -> float:
    """K of one answer in floats, without a certificate; the error is about 1e-14 of the largest term."""
    if isinstance(factor, GaussianLoss):
        return tilt * (tilt + 1) * factor.offset_float + _log_theta(factor, tilt)
    rate, k = 1 / float(factor.scale), factor.sensitivity
    bent = -(1 + 2 * tilt) * rate  # logarithm of the ratio of the geometric sum
    middle = _log_geometric(bent, k - 1) + math.log(-math.expm1(-rate)) if k > 1 else -math.inf
    terms = (0.0, middle, k * bent)
    # Relative to the largest term, so that no exponential overflows.
    largest = max(terms)
    total = sum(math.exp(term - largest) for term in terms)
    return tilt * k * rate + largest + math.log(total) - math.log1p(math.exp(-rate))


def moments(factor: LossFactor, tilt: float) -> tuple[float, float]:
    """Mean and variance of one loss under the law tilted by exp(tilt L), in floats, without a certificate."""
    if isinstance(factor, GaussianLoss):
        step = float(factor.step)
        if factor.variance >= WIDE_VARIANCE:
            return (1 + 2 * tilt) * factor.offset_float, 2 * factor.offset_float
        x, weights = _narrow_gaussian(factor, tilt)
        x = x + round(tilt * factor.sensitivity)
        offset = factor.offset_float
    else:
        step, offset = float(factor.step), factor.offset_float
        rate, k = 1 / float(factor.scale), factor.sensitivity
        x, weights = _laplace_atoms(rate, k, tilt)
    mean = float(x @ weights)
    return offset + step * mean, step * step * float((x - mean) ** 2 @ weights)


def _narrow_gaussian(factor: GaussianLoss, tilt: float) -> tuple[Floats, Floats]:
    v, centre = float(factor.variance), tilt * factor.sensitivity
    reach = math.ceil(math.sqrt(90 * v)) + 1
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    # Up to here terms are above exp(-45) of the largest: what is cut off is below a float's last digit.
    exponents = -((x - (centre - round(centre))) ** 2) / (2 * v)
    weights = np.exp(exponents - exponents.max())
    return x, weights / weights.sum()


def _laplace_atoms(rate: float, k: int, tilt: float) -> tuple[Floats, Floats]:
    bent = -(1 + 2 * tilt) * rate
    # The caller needs a guess only. Of very many atoms, it gets the ends and a sample of those in between.
    j = np.unique(np.linspace(0, k, min(k, 4096) + 1).round())
    exponents = j * bent
    exponents[1:-1] += math.log(-math.expm1(-rate))
    weights = np.exp(exponents - exponents.max())
    return k - j, weights / weights.sum()


def _log_theta(factor: GaussianLoss, tilt: float) -> float:
    if factor.variance >= WIDE_VARIANCE:
        return 0.0
    v, centre = float(factor.variance), tilt * factor.sensitivity
    part = abs(centre - round(centre))
    reach = math.ceil(math.sqrt(90 * v)) + 1
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    # S has period 1, so the distance to the nearest integer is all that counts.
    at_centre = -((x - part) ** 2) / (2 * v)
    largest = at_centre.max()
    return float(
        largest + math.log(np.exp(at_centre - largest).sum()) - math.log(np.exp(-x * x / (2 * v)).sum())
    )


def _log_geometric(exponent: float, count: int) -> float:
    """ln of sum over j in 1..count of exp(j * exponent)."""
    # The next term of the series, (exponent * count)^2 / 24, is below 1e-17; the quotient would be 0 / 0.
    if abs(exponent) * count < 1e-8:
        return math.log(count) + exponent * (count + 1) / 2
    top = max(exponent, exponent * count)
    return top + math.log(math.expm1(-abs(exponent) * count) / math.expm1(-abs(exponent)))


def _theta_quotient(factor: GaussianLoss, tilt: Fraction) -> arb:
    """ln(S(tilt k) / S(0)) as a ball."""
    centre = tilt * factor.sensitivity
    part = abs(centre - round(centre))
    if part == 0:
        return arb(0)
    if factor.variance >= WIDE_VARIANCE:
        # A smaller variance gives a larger bound, so capping it is safe. The quotient is at most 1.
        bound = -5 * (-2 * arb.pi() ** 2 * rational(min(factor.variance, Fraction(10**4)))).exp()
        return between_zero_and(bound)
    return (_theta(factor.variance, part) / _theta(factor.variance, Fraction(0))).log()


def _theta(variance: Fraction, part: Fraction) -> arb:
    """S(part) for 0 <= part <= 1/2. A geometric series bounds the terms that are left out."""
    slope = rational(-1 / (2 * variance))
    reach = math.ceil(math.sqrt(2 * float(variance) * _BITS * math.log(2))) + 2
    total = arb(0)
    for x in range(-reach, reach + 1):
        total += (slope * rational((x - part) ** 2)).exp()
    # Beyond the reach, on either side, each term is below the one before by more than exp(-reach / v).
    first = (slope * rational((reach + 1 - part) ** 2)).exp()
    rest = 2 * first / (1 - rational(-reach / variance).exp())
    return total + between_zero_and(rest)


def _laplace_log_moment(factor: LaplaceLoss, tilt: Fraction) -> arb:
    k, rate = factor.sensitivity, 1 / factor.scale
    bent = -(1 + 2 * tilt) * rate
    a, last = rational(-rate).exp(), rational(k * bent).exp()
    # At a tilt of -1/2 all terms are equal, and the quotient below would be 0 / 0.
    if bent == 0:
        middle = arb(k - 1)
    else:
        b = rational(bent).exp()
        middle = b * rational((k - 1) * bent).expm1() / rational(bent).expm1()
    total = (1 - rational(-rate).expm1() * middle + last) / (1 + a)
    return rational(tilt * k * rate) + total.log()
