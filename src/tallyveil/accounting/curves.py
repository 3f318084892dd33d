"""The trade-off function: the errors of the best tests between two neighbours.

The problem: for a type I error alpha, the least type II error beta of any test, from both sides.

The best tests reject if L > l (Neyman and Pearson). Such a test has alpha = Q(L > l). By the symmetry of the loss it
has beta = P(L <= l) = Q(L >= -l). Between the tests of two neighbouring losses the trade-off function is linear.

On a lattice: find two neighbouring losses whose tests have levels on either side of alpha. At alpha the function lies
below the chord of these two points, and above every line beta + exp(l) (alpha_l - alpha) through one of them.

Off every lattice the engines know delta far better than Q. The function then follows from delta (`profile_tradeoff`).

Example: one answer of randomised response with loss e or -e. The test at l = 0 has alpha = beta = 1 / (1 + exp(e)),
and the function is the two lines from (0, 1) and (1, 0) to that point.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.enclosing import Between, WithFailure
from tallyveil.accounting.engines.gridded import Gridded
from tallyveil.accounting.engines.tails import LossEngine, float_bounds, fraction_bounds, log_bounds_of
from tallyveil.accounting.losses.factors import GaussianLoss, LossFactor, lattice_of
from tallyveil.accounting.losses.further import Law, cost_hint, further, of_integers
from tallyveil.accounting.losses.log_bounds import exponential
from tallyveil.accounting.profile_tradeoff import betas_from_profile, normal_quantile
from tallyveil.noise.balls import precision, rational

OFF_LATTICE = ("dithered", "gridded")
"""Names of the engines whose bounds of delta are much closer than those of both probabilities."""

_NO_ERROR = 1e-300
"""A type II error so small that the trade-off function is stated as lying between 0 and it."""
_PROTECTS_NOBODY = 600.0
"""Rho above which that is tried before a search. Gaussian noise has such small errors from a rho of about 2,700 on."""

_STEEPEST = Fraction(700)
"""Loss beyond which exp(loss) has a lower bound alone: floats overflow at exp(709.8). Such a line bounds nothing."""
_FINEST = Fraction(1, 10**9)
"""The least distance of the two losses of a chord. Over a chord this short, the function bends by less than 1e-18."""


def betas_at(engine: LossEngine, law: Law, alphas: Sequence[Fraction]) -> list[tuple[Fraction, Bounds]]:
    """The same as `beta_at` for many type I errors, much faster where the function follows from delta.

    Args:
        engine: Tails of the loss.
        law: The losses added up.
        alphas: Between 0 and 1, exact.
    """
    if isinstance(engine, WithFailure):
        levels = [engine.levels_of_rest(alpha) for alpha in alphas]
        less, more = (betas_at(engine.rest, engine.law, part) for part in zip(*levels, strict=True))
        return [(knot, engine.beta(low, high)) for (knot, low), (_, high) in zip(less, more, strict=True)]
    if not law or not (further(law) or engine.name in OFF_LATTICE):
        return [_on_lattice(engine, of_integers(law), alpha) for alpha in alphas]
    inner = [alpha for alpha in alphas if alpha not in {0, 1}]
    from_profile = iter(betas_from_profile(engine, search_cost(law), inner))
    betas = [_certain(alpha) if alpha in {0, 1} else next(from_profile) for alpha in alphas]
    if further(law):
        return betas
    tested = [_of_nobody(engine, of_integers(law), alpha) for alpha in alphas]
    return [beta if none is None else (Fraction(0), none) for beta, none in zip(betas, tested, strict=True)]


def beta_at(engine: LossEngine, law: Law, alpha: Fraction) -> tuple[Fraction, Bounds]:
    """A loss whose line supports the trade-off function at alpha, and the value at alpha from both sides.

    Args:
        engine: Tails of the loss.
        law: The losses added up.
        alpha: Between 0 and 1, exact.
    """
    return betas_at(engine, law, [alpha])[0]


def _of_nobody(engine: LossEngine, factors: tuple[LossFactor, ...], alpha: Fraction) -> Bounds | None:
    """The error of the test that rejects above loss 0, if it makes next to no error of either kind."""
    if zcdp_cost(factors) <= _PROTECTS_NOBODY or alpha in {0, 1}:
        return None
    level, missed = _point(engine, Fraction(0), lattice_of(factors).step)
    if level.upper <= fraction_bounds(alpha).lower and missed.upper <= _NO_ERROR:
        return Bounds(0.0, missed.upper)
    return None


def _certain(alpha: Fraction) -> tuple[Fraction, Bounds]:
    """The same for alpha = 0 or 1, where every outcome is possible on both sides, and without losses."""
    return Fraction(0), fraction_bounds(1 - alpha)


def _on_lattice(
    engine: LossEngine, factors: tuple[LossFactor, ...], alpha: Fraction
) -> tuple[Fraction, Bounds]:
    """The same from the tests at two neighbouring losses of the lattice."""
    if not factors or alpha in {0, 1}:
        return _certain(alpha)
    lattice = lattice_of(factors)
    nearly_none = _of_nobody(engine, factors, alpha)
    if nearly_none is not None:
        return Fraction(0), nearly_none
    # Tests at any two losses bound the function. So a finer lattice is thinned out, and none is missed.
    spacing = lattice.step * max(1, _FINEST // lattice.step)

    def loss(index: int) -> Fraction:
        return lattice.offset + spacing * index

    wanted = log_bounds_of(alpha).lower

    def passes(index: int) -> bool:
        return engine.log_tails(loss(index)).log_second.upper <= wanted

    # `passes` is certified, but monotone only up to the bounds. Any index found gives valid bounds.
    index = _first(passes, _index_guess(factors, alpha, lattice.offset, spacing))
    right = _point(engine, loss(index), lattice.step)
    left = _point(engine, loss(index - 1), lattice.step)
    return loss(index), _between(alpha, (loss(index), *right), (loss(index - 1), *left))


def knot_at(engine: LossEngine, law: Law, count: int) -> NDArray[np.float64]:
    """Type I errors at which to draw the trade-off function: they belong to evenly spread losses."""
    # Without quick levels of tests: points of a cosine, closer at both ends, where the curve bends.
    if isinstance(engine, Between | WithFailure | Gridded):
        return (np.cos(np.linspace(math.pi, 0, count + 2)[1:-1]) + 1) / 2
    if not law:
        return np.linspace(0, 1, count + 2)[1:-1]
    rho = search_cost(law)
    # The mean loss is rho under one neighbour and -rho under the other; four standard deviations beyond.
    reach = rho + 4 * math.sqrt(2 * rho)
    if engine.name in OFF_LATTICE:  # the errors of a single test take long, and normal ones are near
        normal = NormalDist(-rho, math.sqrt(2 * rho))
        return np.array([1 - normal.cdf(loss) for loss in np.linspace(-reach, reach, count).tolist()])
    logs = [engine.log_tails(float(loss)).log_second.upper for loss in np.linspace(-reach, reach, count)]
    return np.exp(logs)


def zcdp_cost(factors: tuple[LossFactor, ...]) -> float:
    """A rho such that K(s) <= s (s + 1) rho for every s: exact for Gaussians, epsilon^2 / 2 for Laplace; in floats."""
    total = Fraction(0)
    for factor in factors:
        if isinstance(factor, GaussianLoss):
            total += factor.multiplicity * factor.offset
        else:
            total += factor.multiplicity * (factor.sensitivity / factor.scale) ** 2 / 2
    return fraction_bounds(total).upper


def search_cost(law: Law) -> float:
    """About the rho of a law, by which searches begin; the same as `zcdp_cost` for integer noise."""
    return zcdp_cost(of_integers(law)) + sum(cost_hint(loss) for loss in further(law))


def _point(engine: LossEngine, loss: Fraction, step: Fraction) -> tuple[Bounds, Bounds]:
    """(alpha, beta) of the test that rejects above a lattice point."""
    alpha = engine.log_tails(loss).log_second
    beta = engine.log_tails(-loss - step / 2).log_second  # Q(L >= -loss): no lattice point lies between
    return exponential(alpha), exponential(beta)


def _between(
    alpha: Fraction, right: tuple[Fraction, Bounds, Bounds], left: tuple[Fraction, Bounds, Bounds]
) -> Bounds:
    """The value at alpha, which lies between the levels of two tests; `right` has the smaller level."""
    here = fraction_bounds(alpha)
    (above, a2, b2), (below, a1, b1) = right, left
    upper = min(b2.upper, 1 - here.lower)
    if a1.upper > a2.upper and a1.upper > here.upper:
        share = min(max((here.lower - a2.upper) / (a1.upper - a2.upper), 0.0), 1.0)
        # A smaller share moves along the falling chord less far, so the factor rounds the bound up.
        chord = b2.upper + (min(b1.upper, b2.upper) - b2.upper) * share * (1 - 1e-15)
        upper = min(upper, chord)
    beyond = max(here.upper - a2.lower, 0.0)
    # The two supporting lines bound a convex function from below: each falls as fast as it may.
    falls = beyond * _slope(above).upper * (1 + 4e-16) if beyond else 0.0
    rises = max(a1.lower - here.upper, 0.0) * _slope(below).lower * (1 - 4e-16)
    lower = max(b2.lower - falls, (b1.lower + rises if a1.lower >= here.upper else 0.0), 0.0)
    upper = min(upper * (1 + 1e-15), 1.0)
    return Bounds(min(lower * (1 - 1e-15), upper), upper)


def _slope(loss: Fraction) -> Bounds:
    """exp(loss) from both sides."""
    with precision(128):
        slope = float_bounds(rational(min(loss, _STEEPEST)).exp())
    return slope if loss <= _STEEPEST else Bounds(slope.lower, math.inf)


def _first(passes: Callable[[int], bool], guess: int) -> int:
    """The smallest index that passes, if every larger index passes too."""
    stride = 1
    if passes(guess):
        high, low = guess, guess - 1
        while passes(low):
            high, stride = low, 2 * stride
            low = high - stride
    else:
        low, high = guess, guess + 1
        while not passes(high):
            low, stride = high, 2 * stride
            high = low + stride
    # Strides doubled until the answer was passed, so this takes as many steps as the strides did.
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle
    return high


def _index_guess(
    factors: tuple[LossFactor, ...], alpha: Fraction, offset: Fraction, spacing: Fraction
) -> int:
    rho = zcdp_cost(factors)
    deviate = normal_quantile(float(alpha))
    return int((Fraction(-rho - math.sqrt(2 * rho) * deviate) - offset) // spacing)
