"""Renyi divergences of losses, as certified upper bounds, and the search for an order.

The variables: alpha (order), excess = alpha - 1 (kept apart because both ends of its range are far from 1), v variance,
t scale, k sensitivity, e epsilon.

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

A normal loss has the divergence alpha mu^2 / 2. Two Laplace laws whose centres lie e scales apart have
ln[alpha exp((alpha - 1) e) / (2 alpha - 1) + (alpha - 1) exp(-alpha e) / (2 alpha - 1)] / (alpha - 1) (Mironov 2017,
Proposition 6).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from flint import arb

from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.accounting.losses.further import (
    AnyLoss,
    ConcentratedLoss,
    ExponentialLoss,
    Law,
    NormalLoss,
    ResponseLoss,
)
from tallyveil.accounting.rounding import as_float, exact_upper
from tallyveil.accounting.search import least_point
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import rational

BITS: Final = 320
"""Working precision of the ball arithmetic; answers are rounded to 53 bits."""

_NEAREST, _FARTHEST = -60, 100  # logarithms of the least and the largest excess tried


def certified_divergence(law: Law, excess: Fraction) -> Fraction:
    """Upper bound of the divergence of a composition at order 1 + excess. The caller sets the working precision.

    Raises:
        BudgetError: a loss that has no finite divergence or none in closed form.
    """
    return sum((loss.multiplicity * _certified(loss, excess) for loss in law), Fraction(0))


def searched_divergence(law: Law, excess: float) -> float:
    """The same in floats, by which an order is chosen."""
    return sum((loss.multiplicity * _searched(loss, excess) for loss in law), 0.0)


def saved(excess: float) -> float:
    """-ln[(1 - 1 / alpha)^alpha / (alpha - 1)]: by how much the better conversion lowers ln delta."""
    return (1 + excess) * math.log1p(1 / excess) + math.log(excess)


def saved_ball(excess: arb) -> arb:
    """The same as a ball."""
    return (1 + excess) * (1 / excess).log1p() + excess.log()


def best_excess(objective: Callable[[float], float]) -> Fraction:
    """An excess near the minimum of the objective: the best of a coarse grid, refined by golden-section search."""

    def at(logarithm: float) -> float:
        return objective(math.exp(logarithm))

    # A coarse look first, since golden section assumes one minimum, which e^160 may not have.
    best = min(range(_NEAREST, _FARTHEST + 1), key=at)
    return Fraction(math.exp(least_point(at, best - 1.0, best + 1.0, 1e-8)))


def _rho(loss: AnyLoss) -> Fraction | None:
    """The divergence divided by the order, where that does not depend on the order."""
    match loss:
        case GaussianLoss():
            return loss.offset
        case NormalLoss():
            return loss.mu_squared / 2
        case ConcentratedLoss():
            return loss.rho
        case _:
            return None


def _certified(loss: AnyLoss, excess: Fraction) -> Fraction:
    if (rho := _rho(loss)) is not None:
        # Exact, as these divergences are at most rho times the order.
        return rho * (1 + excess)
    x = rational(excess)
    match loss:
        case LaplaceLoss():
            ball, most = _laplace_ball(loss, x), -loss.offset
        case ExponentialLoss(epsilon):
            e = rational(epsilon)
            ball = (((1 + x) * (x * e).exp() + x * (-(1 + x) * e).exp()) / (1 + 2 * x)).log() / x
            most = epsilon
        case ResponseLoss(epsilon, options):
            e = rational(epsilon)
            whole = e.exp() + options - 1
            ball = ((((1 + x) * e).exp() + options - 2 + (-x * e).exp()) / whole).log() / x
            most = epsilon
        case _:
            raise no_divergence(loss)
    end = exact_upper(ball)
    if end is None:
        raise BudgetError(
            f"the divergence of {as_given(loss)} is too large to be computed. Check its parameters."
        )
    # What pure differential privacy promises bounds every order, also where the ball is wide.
    return min(Fraction(end[0]) * Fraction(2) ** end[1], most)


def _searched(loss: AnyLoss, excess: float) -> float:
    if (rho := _rho(loss)) is not None:
        return as_float(rho) * (1 + excess)
    match loss:
        case LaplaceLoss():
            return _laplace(loss, excess)
        case ExponentialLoss(epsilon):
            e = float(epsilon)
            first = excess * e + math.log1p(excess) - math.log1p(2 * excess)
            second = math.log(excess) - math.log1p(2 * excess) - (1 + excess) * e
            return _log_sum(first, second) / excess
        case ResponseLoss(epsilon, options):
            e = float(epsilon)
            whole = e + math.log1p((options - 1) * math.exp(-e))
            both = _log_sum((1 + excess) * e, math.log(options - 2))
            return (_log_sum(both, -excess * e) - whole) / excess
        case _:
            raise no_divergence(loss)


def no_divergence(loss: AnyLoss) -> BudgetError:
    """The error of a loss without a finite Renyi divergence, or without one that is known in closed form."""
    return BudgetError(
        f"{as_given(loss)} has no finite Renyi divergence, or none in closed form. Ask for its guarantee by itself "
        "(compose), and state that as ApproximateDP."
    )


def _log_sum(log_left: float, log_right: float) -> float:
    highest = max(log_left, log_right)
    return highest + math.log(math.exp(log_left - highest) + math.exp(log_right - highest))


def _laplace_ball(loss: LaplaceLoss, excess: arb) -> arb:
    """Divergence of one answer."""
    k, rate = loss.sensitivity, rational(1 / loss.scale)
    log_r = -(1 + 2 * excess) * rate
    r_to_k = (k * log_r).exp()
    inner = (-rate).expm1() * (r_to_k - log_r.exp()) / -log_r.expm1()  # (1 - a) (r - r^k) / (1 - r)
    return k * rate + ((1 + r_to_k + inner) / (1 + (-rate).exp())).log() / excess


def _laplace(loss: LaplaceLoss, excess: float) -> float:
    """Divergence of one answer, in floats."""
    k, rate = loss.sensitivity, as_float(1 / loss.scale)
    log_r = -(1 + 2 * excess) * rate
    if log_r > -1e-300:  # the noise drowns the answer
        return 0.0
    r_to_k = math.exp(k * log_r)
    inner = math.expm1(-rate) * (r_to_k - math.exp(log_r)) / -math.expm1(log_r)
    return k * rate + math.log((1 + r_to_k + inner) / (1 + math.exp(-rate))) / excess
