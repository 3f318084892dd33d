"""Tilts of a loss: the one that moves its mean to an epsilon, and how far the tilted law spreads.

The variables: K(s) = ln E exp(s L), the logarithm of the moment of the loss L. The law tilted by s has the density
exp(s L - K(s)) with respect to that of L, the mean K'(s) and the variance K''(s).

Tilts are computed in floats. No bound rests on how near the mean is to the epsilon.
"""

import math
from fractions import Fraction
from typing import Final

from tallyveil.accounting.losses.factors import LossFactor, LossLattice
from tallyveil.accounting.losses.largest_loss import greatest_loss
from tallyveil.accounting.losses.moments import log_moment, moments

OUTSIDE: Final = 50.0
"""Minus the logarithm of the mass left outside a window on either side."""


def tilt_grid(factors: tuple[LossFactor, ...], epsilon: float, coarseness: float = 0.25) -> Fraction:
    """Tilt whose mean is near epsilon, rounded to a grid, so that neighbouring epsilons share one tilt.

    Args:
        factors: The losses added up.
        epsilon: Wanted mean.
        coarseness: Spacing of the grid: by how many standard deviations the mean moves from one tilt to the next.
    """
    tilt, spread = saddle_point(factors, epsilon)
    # A power of two: the tilt is then an exact fraction of few bits, which later products of fractions need. A quarter
    # of a standard deviation costs the sums nothing that shows and lets many epsilons share one law; twice of it halves
    # the laws, and the largest terms move away from epsilon.
    grid = 2.0 ** math.floor(math.log2(coarseness / spread)) if spread > 0 else 2.0**-20
    return Fraction(round(tilt / grid)) * Fraction(grid)


def saddle_point(factors: tuple[LossFactor, ...], epsilon: float) -> tuple[float, float]:
    """Tilt whose mean loss is about epsilon, and the standard deviation there; floats, without a certificate.

    Newton's method; a step that leaves the bracket is replaced by the middle of the bracket. It stops when the mean is
    within 0.05 standard deviations of epsilon, when the tilt exceeds 1e12, or after 80 steps.
    """
    low, high, tilt = -math.inf, math.inf, 0.0
    mean, variance = _total_moments(factors, tilt)
    # 80 halvings bring any bracket of size 1e12 down to 1e-12. Whatever tilt is reached is used: no bound depends on
    # it.
    for _ in range(80):
        if mean < epsilon:
            low = tilt
        else:
            high = tilt
        # Twentieth of a deviation: no bound depends on it, see above.
        if abs(mean - epsilon) <= 0.05 * math.sqrt(variance):
            break
        step = (epsilon - mean) / variance if variance > 0 else math.copysign(math.inf, epsilon - mean)
        # A Newton step may leap where nearly all mass sits on one atom and the variance is tiny.
        reach = 4 * (abs(tilt) + 1)
        wanted = tilt + min(max(step, -reach), reach)
        if not low < wanted < high:
            wanted = (low + high) / 2
        if wanted == tilt or abs(wanted) > 1e12:
            # Beyond 1e12 the wanted mean is the greatest loss, or past it: no tilt reaches it.
            break
        tilt = wanted
        mean, variance = _total_moments(factors, tilt)
    return tilt, math.sqrt(variance)


def window(factors: tuple[LossFactor, ...], tilt: float, outside: float = OUTSIDE) -> tuple[float, float]:
    """Losses outside of which the tilted law has mass at most exp(-outside) on either side.

    By Chernoff's bound P_s(L >= x) <= exp(K(s + t) - K(s) - t x) for every t > 0. So every t gives a valid end, and the
    nearest end of a few t is used. K is computed in floats; a bound on its error is added to the exponent.
    """
    # exp(-50) on either side is below the rounding of the transforms, so that what a window leaves out never decides.
    _, variance = _total_moments(factors, tilt)
    # Where nearly all mass sits on one atom the variance is tiny and says nothing about the next ones.
    untilted = sum(factor.multiplicity * abs(float(factor.step * factor.offset)) for factor in factors)
    natural = [math.sqrt(2 * outside / spread) for spread in (variance, 2 * untilted) if spread > 0]
    here, noise = _total_log_moment(factors, tilt)
    ends = []
    for side in (-1, 1):
        best = math.inf
        # Three values around the best one for a normal loss, for which sqrt(2 outside / variance) is the minimum.
        for t in (scale * multiple for scale in natural for multiple in (0.5, 1.0, 2.0)):
            there, more = _total_log_moment(factors, tilt + side * t)
            best = min(best, (there - here + outside + noise + more) / t)
        ends.append(side * best)
    # A bounded loss needs no points beyond its greatest one, however heavy the bound above is.
    most = greatest_loss(factors)
    if most is not None:
        # Rounded outwards: the exact bound must lie within the window.
        bound = float(most) * (1 + 1e-12)
        ends = [max(ends[0], -bound), min(ends[1], bound)]
    return ends[0], ends[1]


def estimated_length(factors: tuple[LossFactor, ...], lattice: LossLattice) -> float:
    """About how many lattice points the window holds without a tilt."""
    low, high = window(factors, 0.0)
    step = float(lattice.step)
    return (high - low) / step + 1 if step > 0 else math.inf


def _total_moments(factors: tuple[LossFactor, ...], tilt: float) -> tuple[float, float]:
    pairs = [(factor.multiplicity, *moments(factor, tilt)) for factor in factors]
    return sum(n * mean for n, mean, _ in pairs), sum(n * variance for n, _, variance in pairs)


def _total_log_moment(factors: tuple[LossFactor, ...], tilt: float) -> tuple[float, float]:
    """K(tilt) and a bound on its error, both in floats."""
    values = [factor.multiplicity * log_moment(factor, tilt) for factor in factors]
    largest = [
        factor.multiplicity * (tilt * tilt + abs(tilt) + 1) * (1 + abs(factor.offset_float))
        for factor in factors
    ]
    # Errors of log_moment grow with tilt^2 and with the offset; 1e-13 is some 450 units in the last place of that. It
    # enters the exponent of Chernoff's bound, so that a window in floats is still a proved one.
    return sum(values), 1e-13 * sum(largest)
