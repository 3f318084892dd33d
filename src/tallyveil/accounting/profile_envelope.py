"""The smallest mu of a composition whose losses share no lattice, from its privacy profile alone.

The problem: delta_mu(epsilon) is the delta of the Gaussian test with parameter mu: between two normal laws of variance
1 whose means differ by mu. Find the smallest mu such that delta_mu(epsilon) >= delta(epsilon) for all epsilon >= 0.
Where the losses share a lattice, it is enough to look at its points (`envelope`). Here there are no such points.

The variables: kappa = exp(epsilon); Phi, the normal distribution function; sigma, the square root of twice the zCDP
cost.

The steps:

1. Compute delta from both sides at a grid of epsilons up to an end E.
2. The lower end of mu: at every epsilon of the grid, delta_mu must reach the lower bound of delta.
3. The upper end: between two neighbours of the grid, delta is below its chord in kappa, because delta is convex. For
every number a, the line Phi(a) - kappa Phi(a - mu) is at most delta_mu. Take the line that touches delta_mu at some
epsilon between the two. If this line is above both ends of the chord, delta_mu is above delta in between.
4. Beyond E, take the bound that zero-concentrated differential privacy gives (`envelope.beyond`).

The bracket is about 1e-3 wide, relative to mu: the grid of 0.04 sigma costs up to 2e-4, and E = 140 sigma costs the
rest. The bracket is wider for a mu below 1e-4, since the two terms of step 3 then nearly cancel in floats.

Example: many discrete Gaussian answers without a common lattice are nearly one continuous one. Then delta_mu is nearly
delta at every epsilon for mu = sigma, and both ends lie close to it.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.curves import zcdp_cost
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import WithFailure
from tallyveil.accounting.engines.normal import Normal
from tallyveil.accounting.engines.revivals import number_of_nodes
from tallyveil.accounting.engines.tails import LossEngine
from tallyveil.accounting.envelope import beyond, gaussian_envelope
from tallyveil.accounting.losses.further import Law, further, of_integers
from tallyveil.arrays import Floats

_GRID: Final = 0.04  # distance of neighbouring epsilons, in units of sigma
_END: Final = 140.0  # of the grid, in the same units
_NEAREST_END: Final = 14.0  # the same where the transform is large at many nodes
_PERIOD: Final = 9.0  # of a contour, about, in the same units
_MOST_NODES: Final = 300_000.0  # of the contours of one unit, times units: a few seconds
_SHARES: Final = (0.5, 0.75, 1.0)
"""Where between two neighbours a test is best. Far out delta falls so steeply that only the last of these helps."""

_HALVINGS: Final = 60
_ERROR: Final = 1e-12
"""Relative error of the logarithm of the normal distribution function, with room to spare."""


def smallest_mu(law: Law, engine: LossEngine) -> Bounds:
    """The smallest mu of a composition, from both sides, by the way that its engine allows.

    Real-valued noise beside other noise, guarantees that are stated, and random samples have the bounds (0, infinity),
    which say nothing.
    """
    if isinstance(engine, Normal):
        return engine.mu()
    if isinstance(engine, WithFailure):  # no normal noise reveals everything
        return Bounds(math.inf, math.inf)
    if further(law):
        return Bounds(0.0, math.inf)
    return profile_envelope(engine) if isinstance(engine, Dithered) else gaussian_envelope(of_integers(law))


def profile_envelope(engine: Dithered) -> Bounds:
    """The smallest mu with delta_mu nowhere below delta, from both sides.

    Args:
        engine: Bounds of delta.
    """
    rho = zcdp_cost(engine.factors)
    sigma = math.sqrt(2 * rho)
    epsilons: Floats = sigma * _GRID * np.arange(round(_end(engine) / _GRID) + 1, dtype=np.float64)
    found = engine.log_deltas(epsilons.tolist())
    lower, upper = found.lower, found.upper

    def reaches(mu: float) -> bool:
        """Whether delta_mu may reach every lower bound."""
        high = _log_line(mu, epsilons, epsilons, 1)
        return bool((high >= lower).all())

    def covers(mu: float) -> bool:
        """Whether delta_mu certainly covers delta up to the end of the grid."""
        covered = np.zeros(epsilons.size - 1, dtype=np.bool_)
        for share in _SHARES:
            at: Floats = epsilons[:-1] + share * np.diff(epsilons)
            left, right = _log_line(mu, at, epsilons[:-1], -1), _log_line(mu, at, epsilons[1:], -1)
            covered |= (left >= upper[:-1]) & (right >= upper[1:])
        return bool(covered.all())

    most = beyond(rho, float(epsilons[-1]))
    at_least = _between(reaches, sigma / 8, 2 * sigma)[0]
    if not (math.isfinite(most) and covers(2 * most)):
        return Bounds(at_least, math.inf)
    at_most = max(_between(covers, sigma / 8, 2 * most)[1], most)
    return Bounds(min(at_least, at_most), at_most)


def _end(engine: Dithered) -> float:
    """Where the grid ends, in units of sigma: nearer where each contour has many nodes and takes long."""
    windows, spread = engine.scan.windows, engine.scan.spread
    nodes = number_of_nodes(windows.lows, windows.highs, 2 * math.pi / (_PERIOD * spread))
    return min(_END, max(_NEAREST_END, _MOST_NODES / nodes))


def _between(passes: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Two close numbers of which the first one fails and the second one passes, if high passes.

    The first one is 0 if low passes, and high if high fails.
    """
    if passes(low):
        return 0.0, low
    if not passes(high):
        return high, high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return low, high


def _log_line(mu: float, at: Floats, epsilons: Floats, side: int) -> Floats:
    """ln(Phi(a) - kappa Phi(a - mu)) at epsilons, for the tests that are best at other ones, rounded to one side."""
    from scipy.special import log_ndtr  # here, since most users of guarantees do not ask for mu

    a = mu / 2 - at / mu
    first, second = log_ndtr(a), epsilons + log_ndtr(a - mu)
    slack = _ERROR * (1 + np.abs(first) + np.abs(second) + epsilons)
    ratio = second - first - side * slack
    with np.errstate(divide="ignore"):
        found: Floats = first + np.log(-np.expm1(np.minimum(ratio, 0.0))) + side * slack
    return found
