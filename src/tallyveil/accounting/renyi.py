"""Renyi differential privacy: divergences of the noise, composition and conversion, as certified upper bounds.

The variables: alpha (order), excess = alpha - 1 (kept apart because both ends of its range are far from 1), v
variance, t scale, k sensitivity.

`losses/divergences.py` has the divergences of single losses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from tallyveil.accounting.costs import cost_function, folded_cost
from tallyveil.accounting.events import PrivacyEvent, Release
from tallyveil.accounting.exact import exact_number, exact_text
from tallyveil.accounting.losses.divergences import (
    BITS,
    best_excess,
    certified_divergence,
    saved,
    saved_ball,
    searched_divergence,
)
from tallyveil.accounting.losses.factors import LaplaceLoss
from tallyveil.accounting.losses.further import Law
from tallyveil.accounting.losses.loss_laws import loss_law_of
from tallyveil.accounting.rounding import as_float, log_of, round_up
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision, rational


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
    with precision(BITS):
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
    # In floats, to choose the order alone: each order gives a valid bound.
    log_delta, divergence = log_of(exact), _searched(event)

    # The better conversion gains at every order: c(x) < 1 in docs/proofs/every-delta.md, section 1.
    def bound(excess: float) -> float:
        less = saved(excess) if conversion is Conversion.CANONNE else 0.0
        return divergence(excess) - (log_delta + less) / excess

    best = best_excess(bound)
    with precision(BITS):
        x, log_ball = rational(best), rational(exact).log()
        if conversion is Conversion.CANONNE:
            log_ball += saved_ball(x)
        # The order is an exact fraction from here on, and everything is a ball.
        epsilon = rational(_certified(event, best)) - log_ball / x
        # Epsilon is never negative: a bound below 0 holds at 0 too.
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
    allowed, divergence = as_float(exact), _searched(event)

    # x (tau - epsilon) less what the better conversion gains.
    def log_delta(excess: float) -> float:
        less = saved(excess) if conversion is Conversion.CANONNE else 0.0
        return excess * (divergence(excess) - allowed) - less

    best = best_excess(log_delta)
    with precision(BITS):
        x = rational(best)
        logarithm = x * (rational(_certified(event, best)) - rational(exact))
        if conversion is Conversion.CANONNE:
            logarithm -= saved_ball(x)
        return RenyiBound(min(1.0, round_up(logarithm.exp())), 1 + best)


def _certified(event: PrivacyEvent, excess: Fraction) -> Fraction:
    """Upper bound of the divergence at order 1 + excess. The caller sets the working precision."""

    def of_release(release: Release) -> Fraction:
        if isinstance(release, IntegerSubspaceGaussian):
            return release.rho * (1 + excess)
        return certified_divergence(_law(release), excess)

    return folded_cost(event, of_release, Fraction(0))


def _searched(event: PrivacyEvent) -> Callable[[float], float]:
    """The divergence in floats at order 1 + excess, as a function of the excess, by which an order is chosen."""

    def of_release(release: Release) -> Callable[[float], float]:
        if isinstance(release, IntegerSubspaceGaussian):
            rho = as_float(release.rho)
            return lambda excess: rho * (1 + excess)
        law = _law(release)
        return lambda excess: searched_divergence(law, excess)

    return cost_function(event, of_release, 0.0)


def _law(release: Release) -> Law:
    if isinstance(
        release, IntegerSubspaceLaplace
    ):  # the worst mechanism of this pure epsilon: randomised response
        return (LaplaceLoss(1 / release.loss, 1, 1),)
    return loss_law_of(release)
