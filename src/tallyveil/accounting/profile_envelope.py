"""The smallest mu of a composition whose losses share no lattice, from its privacy profile alone.

The problem: delta_mu(epsilon) is the delta of the Gaussian test with parameter mu: between two normal laws of variance
1 whose means differ by mu. Find the smallest mu such that delta_mu(epsilon) >= delta(epsilon) for all epsilon >= 0.
Where the losses share a lattice, it is enough to look at its points (`envelope`). Here there are no such points.

The variables: kappa = exp(epsilon); Phi, the normal distribution function; rho, the zCDP
cost; sigma, the square root of 2 rho, about the standard deviation of the loss, whose mean is about rho.

The steps:

1. Compute delta and 1 - delta from both sides at a grid of epsilons up to an end E.
2. The lower end of mu: at every epsilon of the grid, delta_mu must reach the lower bound of delta.
3. The upper end: between two neighbours of the grid, delta is below its chord in kappa, because delta is convex. For
every number a, the line Phi(a) - kappa Phi(a - mu) is at most delta_mu. Take the line that touches delta_mu at some
epsilon between the two. If this line is above both ends of the chord, delta_mu is above delta in between. Where delta
is nearly 1, compare one minus all of these (`gaussian_lines`).
4. Beyond E, take the bound that zero-concentrated differential privacy gives (`envelope.beyond`).

The bracket is about 1e-3 wide, relative to mu: the grid of 0.04 sigma costs up to 2e-4, and E = rho + 140 sigma costs
the rest. Where the grid would take too long, because each contour has many nodes or sigma is huge, the lower end comes
from a few epsilons around rho, and the upper end from the answers taken one by one: if the trade-off function of each
is at least that of N(mu_i, 1), that of all together is at least that of N(mu, 1) with mu^2 the sum of all mu_i^2 (Dong,
Roth and Su 2022, Theorem 3.2 and Corollary 3.3). This bracket is a few per cent wide where variances are near 1, and
about 1 / (24 v) where they are a larger v.

Example: many discrete Gaussian answers without a common lattice are nearly one continuous one. Then delta_mu is nearly
delta at every epsilon for mu = sigma, and both ends lie close to it.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.curves import search_cost, zcdp_cost
from tallyveil.accounting.engines.choose import FallbackEngine
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import Between, WithFailure
from tallyveil.accounting.engines.normal import Normal
from tallyveil.accounting.engines.revivals import number_of_nodes
from tallyveil.accounting.engines.tails import LossEngine, fraction_bounds
from tallyveil.accounting.envelope import beyond, gaussian_envelope
from tallyveil.accounting.gaussian_lines import is_central, log_line, log_rest_of_line
from tallyveil.accounting.losses.factors import LossFactor
from tallyveil.accounting.losses.further import AnyLoss, Law, NormalLoss, further, of_integers
from tallyveil.accounting.losses.log_bounds import log_rest
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Bools, Floats

_GRID: Final = 0.04  # distance of neighbouring epsilons, in units of sigma
_LONGEST_STEP: Final = 0.3  # the same in units of epsilon: the chords of a longer one are far above delta
_END: Final = 140.0  # of the grid, in units of sigma, above rho
_MOST_EPSILONS: Final = 1 << 16  # of the grid: a few seconds
_PERIOD: Final = 9.0  # of a contour, about, in units of sigma
_MOST_NODES: Final = 4000.0  # of one contour, in a grid that takes a few seconds
_SHARES: Final = (0.5, 0.75, 1.0)
"""Where between two neighbours a test is best. Far out delta falls so steeply that only the last of these helps."""

_HALVINGS: Final = 30
"""Of a bracket of mu a few sigma wide: about 1e-9 of it is left, where the grid allows 1e-3. Half as many would leave
3e-5, and each one looks at the whole grid."""
_LOW_END: Final = 51
"""Epsilons within sigma of rho, at which the lower end is found if there is no grid."""


def smallest_mu(law: Law, engine: LossEngine) -> Bounds:
    """The smallest mu of a composition, from both sides, by the way that its engine allows.

    The upper end is infinite with random samples and with losses of which only rho is known.
    """
    if isinstance(engine, FallbackEngine):
        engine = engine.fast
    if isinstance(engine, Normal):
        return engine.mu()
    if isinstance(engine, WithFailure):  # no normal noise reveals everything
        return Bounds(math.inf, math.inf)
    if isinstance(engine, Dithered):
        mu = profile_envelope(engine)
    else:
        mu = Bounds(0.0, math.inf) if further(law) else gaussian_envelope(of_integers(law))
        if not math.isfinite(mu.upper):
            lower = engine.lower if isinstance(engine, Between) else engine
            mu = Bounds(_lower_end(lower, math.sqrt(2 * search_cost(law))), mu.upper)
    upper = mu.upper if math.isfinite(mu.upper) else _of_parts(law)
    return Bounds(min(mu.lower, upper), upper)


def profile_envelope(engine: Dithered) -> Bounds:
    """The smallest mu with delta_mu nowhere below delta, from both sides.

    Args:
        engine: Bounds of delta.
    """
    # Rounded up, as the bound beyond the grid rests on it. Sigma only says where to look.
    rho = zcdp_cost(engine.factors)
    sigma = math.sqrt(2 * rho)
    step = min(sigma * _GRID, _LONGEST_STEP)
    count = round((rho + _END * sigma) / step) + 1
    if count > _MOST_EPSILONS or _nodes(engine) > _MOST_NODES:
        return Bounds(_lower_end(engine, sigma), math.inf)
    epsilons: Floats = step * np.arange(count, dtype=np.float64)
    deltas, rests = engine.log_deltas_and_rests(epsilons.tolist())

    def covers(mu: float) -> bool:
        """Whether delta_mu certainly covers delta up to the end of the grid."""
        covered = np.zeros(epsilons.size - 1, dtype=np.bool_)
        # Every line is a valid bound. So an interval is covered if any one of these lines covers both ends.
        for share in _SHARES:
            at: Floats = epsilons[:-1] + share * np.diff(epsilons)
            ends = [
                _is_above(mu, at, epsilons[part], deltas.at(part), rests.at(part))
                for part in (slice(None, -1), slice(1, None))
            ]
            covered |= ends[0] & ends[1]
        return bool(covered.all())

    at_least = _reached(epsilons, deltas, rests, sigma)
    most = beyond(rho, float(epsilons[-1]))
    # Without an end beyond the grid, or one that covers, no mu is proved from above.
    if not (math.isfinite(most) and covers(2 * most)):
        return Bounds(at_least, math.inf)
    # Both must hold: mu covers the grid, and rho alone covers everything beyond it.
    at_most = max(_between(covers, at_least, 2 * most)[1], most)
    return Bounds(min(at_least, at_most), at_most)


def _nodes(engine: Dithered) -> float:
    """About how many nodes a contour has."""
    windows, spread = engine.scan.windows, engine.scan.spread
    return number_of_nodes(windows.lows, windows.highs, 2 * math.pi / (_PERIOD * spread))


def _lower_end(engine: LossEngine, sigma: float) -> float:
    """A mu below the smallest one, from delta at a few epsilons around the mean of the loss."""
    rho = sigma * sigma / 2
    epsilons: Floats = np.linspace(max(0.0, rho - sigma), rho + sigma, _LOW_END)
    deltas = engine.log_deltas(epsilons.tolist())
    return _reached(epsilons, deltas, log_rest(deltas), sigma)


def _reached(epsilons: Floats, deltas: ManyBounds, rests: ManyBounds, sigma: float) -> float:
    """A mu whose delta_mu is certainly below delta at one of these epsilons; 0 if none is found."""

    def reaches(mu: float) -> bool:
        """Whether delta_mu may reach every lower bound."""
        # Rounded so that a mu is called too small only where that is certain.
        high = log_line(mu, epsilons, epsilons, 1) >= deltas.lower
        rest = log_rest_of_line(mu, epsilons, epsilons, -1) <= rests.upper
        return bool(np.where(is_central(mu, epsilons), rest, high).all())

    return _between(reaches, sigma / 8, 2 * sigma)[0]


def _is_above(mu: float, at: Floats, epsilons: Floats, deltas: ManyBounds, rests: ManyBounds) -> Bools:
    """Where the lines that are best at some epsilons are certainly above delta at others."""
    # The other way round: called above only where that is certain.
    high = log_line(mu, at, epsilons, -1) >= deltas.upper
    rest = log_rest_of_line(mu, at, epsilons, 1) <= rests.lower
    return np.where(is_central(mu, at), rest, high)


def _of_parts(law: Law) -> float:
    """An upper end from the mu of every answer by itself."""
    total = sum(loss.multiplicity * _single(loss) ** 2 for loss in law)
    return math.sqrt(total) * (1 + 1e-12)


def _single(loss: AnyLoss) -> float:
    """A mu of one answer that is not below the smallest one; infinite where none is known."""
    if isinstance(loss, NormalLoss):
        return math.sqrt(fraction_bounds(loss.mu_squared).upper) * (1 + 1e-15)
    if not isinstance(loss, LossFactor):
        return math.inf
    answer = replace(loss, multiplicity=1)
    mu = gaussian_envelope((answer,)).upper
    if math.isfinite(mu):
        return mu
    engine = Dithered.build((answer,))
    return math.inf if engine is None else profile_envelope(engine).upper


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
