"""Renyi differential privacy: divergences of the noise, composition and conversion, as certified upper bounds.

The variables: alpha (order), excess = alpha - 1 (kept apart because both ends of its range are far from 1), v
variance, t scale, k sensitivity.

One discrete Gaussian answer that moves by k has a divergence of at most alpha k^2 / (2 v), with equality if alpha k
is an integer. Proof: the sum of P^alpha Q^(1 - alpha) is exp(alpha (alpha - 1) k^2 / (2 v)) times the sum of exp(-(j
- alpha k)^2 / (2 v)) over the integers j, divided by the sum of exp(-j^2 / (2 v)). The former sum is largest if its
centre is an integer (Canonne, Kamath, Steinke 2020, Theorem 4).

One discrete Laplace answer that moves by k has the loss (k - 2 j) / t with the probabilities in
`accounting/losses/factors.py`. With a = exp(-1 / t) and r = exp(-(2 alpha - 1) / t), the sum of p_j exp((alpha - 1)
(k - 2 j) / t) over j = 0..k is a geometric series, and the divergence is

    k / t + ln[(1 + r^k + (1 - a) (r - r^k) / (1 - r)) / (1 + a)] / (alpha - 1).

Example: for k = 1 this is ln[(exp(alpha e) + exp((1 - alpha) e)) / (1 + exp(e))] / (alpha - 1) with e = 1 / t, which
is the divergence of randomised response. SafeTab's Lemma 8 and Corollary 1 print a smaller value, which is no bound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import flint

from tallyveil.accounting.costs import folded_cost
from tallyveil.accounting.events import DiscreteGaussian, DiscreteLaplace, PrivacyEvent, Release
from tallyveil.accounting.exact import exact_number, exact_text
from tallyveil.accounting.rounding import as_float, exact_upper, log_of, round_up
from tallyveil.accounting.search import least_point
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational

_BITS = 320  # working precision of the ball arithmetic; the answer is rounded to 53
_NEAREST, _FARTHEST = -60, 100  # logarithms of the least and the largest excess tried


class Conversion(StrEnum):
    """How a Renyi divergence tau of order alpha becomes (epsilon, delta).

    CANONNE: delta = exp((alpha - 1) (tau - epsilon)) (1 - 1 / alpha)^alpha / (alpha - 1), the smallest known.
        Source: Canonne, Kamath, Steinke 2020, Proposition 12; SafeTab (Haney et al.), Lemma 4.
    MIRONOV: delta = exp((alpha - 1) (tau - epsilon)), the first published; always larger.
        Source: Mironov 2017, Proposition 3.
    """

    CANONNE = "canonne"
    MIRONOV = "mironov"


@dataclass(frozen=True, slots=True)
class RenyiBound:
    """An upper bound by Renyi differential privacy.

    Attributes:
        value: Epsilon or delta, rounded up.
        order: The order alpha it holds at.
    """

    value: float
    order: Fraction


def renyi_divergence(event: PrivacyEvent, order: Fraction | int | str) -> float:
    """Renyi divergence of an event at one order, an upper bound rounded up.

    Divergences of sequential events add. Branches cost as much as the largest one, and parallel events their degree
    times the largest (SafeTab, Lemmas 3 and 12).

    Args:
        event: What is done.
        order: alpha, above 1, exact.

    Raises:
        BudgetError: an order of 1 or less, or a non-private event.
    """
    alpha = exact_number(order, "the order of the Renyi divergence")
    if alpha <= 1:
        raise BudgetError(
            f"the order of a Renyi divergence must be above 1, got {exact_text(alpha)}. Give a larger order."
        )
    with precision(_BITS):
        return round_up(rational(_certified(event, alpha - 1)))


def renyi_epsilon(
    event: PrivacyEvent, delta: Fraction | int | str, conversion: Conversion = Conversion.CANONNE
) -> RenyiBound:
    """Smallest epsilon at a delta that Renyi differential privacy proves, over all orders above 1.

    The bound holds at every order. Floats only choose a good order; there the bound is evaluated in ball arithmetic and
    rounded up.

    Args:
        event: What is done.
        delta: Between 0 and 1, both excluded, exact.
        conversion: How divergences become (epsilon, delta).

    Raises:
        BudgetError: a delta out of range, or a non-private event.
    """
    exact = exact_number(delta, "delta")
    if not 0 < exact < 1:
        raise BudgetError(
            f"delta must lie between 0 and 1, both excluded, got {exact_text(exact)}. Give one such as '1e-10'."
        )
    log_delta = log_of(exact)

    def bound(excess: float) -> float:
        saved = _saved(excess) if conversion is Conversion.CANONNE else 0.0
        return _searched(event, excess) - (log_delta + saved) / excess

    best = _best_excess(bound)
    with precision(_BITS):
        x, log_ball = rational(best), rational(exact).log()
        if conversion is Conversion.CANONNE:
            log_ball += _saved_ball(x)
        epsilon = rational(_certified(event, best)) - log_ball / x
        return RenyiBound(max(0.0, round_up(epsilon)), 1 + best)


def renyi_delta(
    event: PrivacyEvent, epsilon: Fraction | int | str, conversion: Conversion = Conversion.CANONNE
) -> RenyiBound:
    """Smallest delta at an epsilon that Renyi differential privacy proves; at most 1.

    Certified as `renyi_epsilon` is.

    Raises:
        BudgetError: epsilon is negative, or a non-private event.
    """
    exact = exact_number(epsilon, "epsilon")
    if exact < 0:
        raise BudgetError(f"epsilon must be 0 or more, got {exact_text(exact)}. Give a non-negative epsilon.")
    allowed = as_float(exact)

    def log_delta(excess: float) -> float:
        saved = _saved(excess) if conversion is Conversion.CANONNE else 0.0
        return excess * (_searched(event, excess) - allowed) - saved

    best = _best_excess(log_delta)
    with precision(_BITS):
        x = rational(best)
        logarithm = x * (rational(_certified(event, best)) - rational(exact))
        if conversion is Conversion.CANONNE:
            logarithm -= _saved_ball(x)
        return RenyiBound(min(1.0, round_up(logarithm.exp())), 1 + best)


def _saved(excess: float) -> float:
    """-ln[(1 - 1 / alpha)^alpha / (alpha - 1)]: by how much the better conversion lowers ln delta."""
    return (1 + excess) * math.log1p(1 / excess) + math.log(excess)


def _saved_ball(excess: flint.arb) -> flint.arb:
    return (1 + excess) * (1 / excess).log1p() + excess.log()


def _certified(event: PrivacyEvent, excess: Fraction) -> Fraction:
    """Upper bound of the divergence at order 1 + excess. The caller sets the working precision."""

    def of_release(release: Release) -> Fraction:
        if isinstance(release, DiscreteGaussian):
            return _gaussian(release) * (1 + excess)
        if isinstance(release, IntegerSubspaceGaussian):
            return release.rho * (1 + excess)
        if isinstance(release, IntegerSubspaceLaplace):
            release = _as_response(release)
        end = exact_upper(_laplace_ball(release, rational(excess)))
        if end is None:
            raise BudgetError(
                f"the divergence of {as_given(release)} is too large to be computed. Check its scale or variance."
            )
        exact = release.multiplicity * Fraction(end[0]) * Fraction(2) ** end[1]
        # What pure differential privacy promises bounds every order, also where the ball is wide.
        return min(exact, release.multiplicity * release.sensitivity / release.scale)

    return folded_cost(event, of_release, Fraction(0))


def _searched(event: PrivacyEvent, excess: float) -> float:
    """The divergence in floats, by which an order is chosen."""

    def of_release(release: Release) -> float:
        if isinstance(release, DiscreteGaussian):
            return as_float(_gaussian(release)) * (1 + excess)
        if isinstance(release, IntegerSubspaceGaussian):
            return as_float(release.rho) * (1 + excess)
        if isinstance(release, IntegerSubspaceLaplace):
            release = _as_response(release)
        return release.multiplicity * _laplace(release, excess)

    return folded_cost(event, of_release, 0.0)


def _as_response(release: IntegerSubspaceLaplace) -> DiscreteLaplace:
    """The worst mechanism of the same pure epsilon: randomised response."""
    return DiscreteLaplace(1 / release.loss)


def _gaussian(release: DiscreteGaussian) -> Fraction:
    return release.multiplicity * Fraction(release.sensitivity**2) / (2 * release.variance)


def _laplace_ball(release: DiscreteLaplace, excess: flint.arb) -> flint.arb:
    """Divergence of one answer."""
    k, rate = release.sensitivity, rational(1 / release.scale)
    log_r = -(1 + 2 * excess) * rate
    r_to_k = (k * log_r).exp()
    inner = (-rate).expm1() * (r_to_k - log_r.exp()) / -log_r.expm1()  # (1 - a) (r - r^k) / (1 - r)
    return k * rate + ((1 + r_to_k + inner) / (1 + (-rate).exp())).log() / excess


def _laplace(release: DiscreteLaplace, excess: float) -> float:
    """Divergence of one answer, in floats."""
    k, rate = release.sensitivity, as_float(1 / release.scale)
    log_r = -(1 + 2 * excess) * rate
    if log_r > -1e-300:  # the noise drowns the answer
        return 0.0
    r_to_k = math.exp(k * log_r)
    inner = math.expm1(-rate) * (r_to_k - math.exp(log_r)) / -math.expm1(log_r)
    return k * rate + math.log((1 + r_to_k + inner) / (1 + math.exp(-rate))) / excess


def _best_excess(objective: Callable[[float], float]) -> Fraction:
    """An excess near the minimum of the objective: the best of a coarse grid, refined by golden-section search."""

    def at(logarithm: float) -> float:
        return objective(math.exp(logarithm))

    best = min(range(_NEAREST, _FARTHEST + 1), key=at)
    return Fraction(math.exp(least_point(at, best - 1.0, best + 1.0, 1e-8)))
