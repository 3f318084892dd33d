"""The unified interval of Feldman and Cousins for a mean that cannot be negative, in units of its standard error.

For a mean m >= 0 and one normal observation x of it with variance 1, those x are accepted that are likeliest
relative to the best m for them, max(x, 0), until their probability is the level. The interval of x holds every m that
accepts x. It is never empty, and covers with the level exactly, whatever m is.

With d = (upper end of the acceptance) - m, the lower end is m - d while that is not negative, and
m/2 - d^2/(2 m) otherwise: there the two ends have one likelihood ratio.

Source: Feldman and Cousins 1998, Phys. Rev. D 57, 3873, section IV.B and table X.
"""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri

from tallyveil.arrays import Floats

FAR = 9.0
"""Standard errors below zero from which on the lower tail of the normal law is no number of double precision."""
KNOTS = 2001
_STEPS = 60


@dataclass(frozen=True, slots=True, eq=False)
class UnifiedBelt:
    """Ends of the interval as functions of the estimate in standard errors.

    Attributes:
        level: Coverage, between 0 and 1.
        two_sided: Normal quantile that leaves (1 - level) / 2 above.
        one_sided: Normal quantile that leaves 1 - level above.
        low_end: Lower end between `one_sided` and twice `two_sided`.
        high_end: Upper end between -FAR and 0.
    """

    level: float
    two_sided: float
    one_sided: float
    low_end: PchipInterpolator
    high_end: PchipInterpolator

    def ends(self, x: Floats) -> tuple[Floats, Floats]:
        """Lower and upper ends for estimates of any shape; not-a-number stays so."""
        low = np.where(x <= self.one_sided, 0.0, x - self.two_sided)
        inner = (x > self.one_sided) & (x < 2 * self.two_sided)
        low[inner] = self.low_end(x[inner])
        high = x + self.two_sided
        near = (x < 0) & (x > -FAR)
        high[near] = self.high_end(x[near])
        far = x <= -FAR
        # below, x itself no longer matters to the tail: the far end of the acceptance has m solved for
        d = self.one_sided
        high[far] = d * d / (np.hypot(x[far], d) - x[far])
        return np.where(np.isnan(x), np.nan, np.maximum(low, 0.0)), high


def unified_belt(level: float) -> UnifiedBelt:
    """Tabulate the belt of a level; ends are then right to 1e-8 standard errors.

    Args:
        level: Coverage, between 0.5 and 1.
    """
    two, one = float(ndtri(0.5 + level / 2)), float(ndtri(level))
    means = two * np.linspace(0.0, 1.0, KNOTS)[1:] ** 2
    d = _half_widths(means, level, one, two)
    uppers, lowers = means + d, means / 2 - d * d / (2 * means)
    low_end = PchipInterpolator(np.append(one, uppers), np.append(0.0, means))
    order = np.flatnonzero(lowers >= -2 * FAR)
    high_end = PchipInterpolator(lowers[order], means[order])
    return UnifiedBelt(level, two, one, low_end, high_end)


def _half_widths(means: Floats, level: float, one: float, two: float) -> Floats:
    """d of each mean: the acceptance from the lower end to m + d has the level's probability; by bisection."""
    small: Floats = np.full(means.shape, one)
    large: Floats = np.full(means.shape, two)
    for _ in range(_STEPS):
        d = (small + large) / 2
        lower = -means / 2 - d * d / (2 * means)  # lower end minus m
        enough = ndtr(d) - ndtr(lower) >= level
        large, small = np.where(enough, d, large), np.where(enough, small, d)
    widths: Floats = (small + large) / 2
    return widths
