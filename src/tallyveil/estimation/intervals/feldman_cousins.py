"""The unified interval of Feldman and Cousins for a mean that cannot be negative, in units of the standard error.

Problem. One normal observation x has variance 1 and a mean m >= 0. Wanted is an interval for m that is never empty and
covers m with exactly the given probability, whatever m is.

Steps. For each m, values x are accepted in decreasing order of their likelihood under m relative to that under the best
mean for x, which is max(x, 0), until their probability is the level. The interval of x contains every m that accepts x.

Let the acceptance of m end at m + d. Its lower end is m - d if that is not negative, and m/2 - d^2/(2 m) otherwise: at
these two points both ends have the same likelihood ratio. Bisection finds the d for which the acceptance has the
probability of the level. The ends are tabulated over m and interpolated as functions of x.

Stopping rule. Bisection makes a fixed number of steps, which exhausts double precision.

Worked case. At level 0.95, x = 5 gives 5 - 1.96 = 3.04 to 6.96, and x = 0 gives 0 to 1.96.

Source: Feldman and Cousins 1998, Phys. Rev. D 57, 3873, section IV.B and table X.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tallyveil.arrays import Floats

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

FAR = 9.0
"""Below -9 standard errors, the lower tail of the normal law is too small for double precision."""
KNOTS = 2001
"""Means at which the belt is tabulated. They lie closer where the mean is small, because the ends bend there. Halving
the number would make the interpolation coarser than the 1e-8 that is promised; twice it only takes twice the time, once
for each level."""
_STEPS = 60
"""Halvings of an interval of less than one standard error; the 53 bits of a float are used up before. More steps change
nothing, and half of them would leave errors of up to 1e-9."""


@dataclass(frozen=True, slots=True, eq=False)
class UnifiedBelt:
    """Ends of the interval as functions of the estimate, in standard errors.

    Attributes:
        level: Coverage, between 0 and 1.
        two_sided: Normal quantile with probability (1 - level) / 2 above it.
        one_sided: Normal quantile with probability 1 - level above it.
        low_end: Lower end, for estimates between `one_sided` and twice `two_sided`.
        high_end: Upper end, for estimates between -FAR and 0.
    """

    level: float
    two_sided: float
    one_sided: float
    low_end: "PchipInterpolator"
    high_end: "PchipInterpolator"

    def ends(self, x: Floats) -> tuple[Floats, Floats]:
        """Lower and upper ends for estimates of any shape. Not-a-number gives not-a-number."""
        low = np.where(x <= self.one_sided, 0.0, x - self.two_sided)
        inner = (x > self.one_sided) & (x < 2 * self.two_sided)
        # Outside this range the ends are known in closed form: 0, or the normal interval.
        low[inner] = self.low_end(x[inner])
        high = x + self.two_sided
        near = (x < 0) & (x > -FAR)
        high[near] = self.high_end(x[near])
        far = x <= -FAR
        # For such x the lower tail is negligible, so d = one_sided, and m/2 - d^2/(2 m) = x is solved for m.
        d = self.one_sided
        high[far] = d * d / (np.hypot(x[far], d) - x[far])
        return np.where(np.isnan(x), np.nan, np.maximum(low, 0.0)), high


@lru_cache(maxsize=16)
def unified_belt(level: float) -> UnifiedBelt:
    """Tabulate the interval for a level. The ends are accurate to 1e-8 standard errors.

    Args:
        level: Coverage, between 0.5 and 1.
    """
    from scipy.interpolate import (
        PchipInterpolator,  # here, since few runs make intervals and the import takes long
    )
    from scipy.special import ndtri

    two_sided, one_sided = float(ndtri(0.5 + level / 2)), float(ndtri(level))
    # Squared spacing, and without the mean 0, at which the lower end of acceptance is -infinity.
    means = two_sided * np.linspace(0.0, 1.0, KNOTS)[1:] ** 2
    d = _half_widths(means, level, one_sided, two_sided)
    uppers, lowers = means + d, means / 2 - d * d / (2 * means)
    low_end = PchipInterpolator(np.append(one_sided, uppers), np.append(0.0, means))
    # Further down the formula for far estimates is used; the knots between FAR and twice FAR keep the interpolation
    # good up to its end.
    order = np.flatnonzero(lowers >= -2 * FAR)
    high_end = PchipInterpolator(lowers[order], means[order])
    return UnifiedBelt(level, two_sided, one_sided, low_end, high_end)


def _half_widths(means: Floats, level: float, one_sided: float, two_sided: float) -> Floats:
    """d of each mean, by bisection: the acceptance up to m + d then has the level's probability."""
    from scipy.special import ndtr

    small: Floats = np.full(means.shape, one_sided)
    large: Floats = np.full(means.shape, two_sided)
    for _ in range(_STEPS):
        d = (small + large) / 2
        lower = -means / 2 - d * d / (2 * means)  # lower end minus m
        # The probability rises with d, so that bisection is safe.
        enough = ndtr(d) - ndtr(lower) >= level
        large, small = np.where(enough, d, large), np.where(enough, small, d)
    widths: Floats = (small + large) / 2
    return widths
