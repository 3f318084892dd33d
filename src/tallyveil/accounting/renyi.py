"""Renyi differential privacy and zCDP: divergences, composition and conversion, as certified bounds.

The variables: alpha (order), excess = alpha - 1 (kept apart because both ends of its range are far from 1), rho (zCDP),
epsilon and delta. Results are certified in ball arithmetic and rounded in the safe direction. Searches in floats
(`least_point`) only choose the order at which a bound that holds at every order is evaluated.

Three subjects follow each other: divergences of single losses and of their sums (`certified_divergence`), events
(`renyi_divergence`, `renyi_epsilon`, `renyi_delta`), and what rho means as (epsilon, delta), at one point
(`zcdp_to_epsilon`, `epsilon_to_rho`, `zcdp_to_delta`) or at every delta (`ZcdpCurve`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Final

import flint
import numpy as np
from flint import arb

from tallyveil.accounting.costs import cost_function, folded_cost
from tallyveil.accounting.engines.sampled import (
    largest_tilt,
    log_moment_of_sample,
    moments_of_sample,
    takes_sample,
)
from tallyveil.accounting.events import IntegerSubspaceGaussian, IntegerSubspaceLaplace, PrivacyEvent, Release
from tallyveil.accounting.losses import (
    AnyLoss,
    ConcentratedLoss,
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    SelectedLoss,
    loss_law_of,
    merged_law,
    mirrored,
)
from tallyveil.accounting.numbers import (
    Exact,
    as_float,
    at_least,
    exact_number,
    exact_text,
    exact_upper,
    log_of,
    round_up,
)
from tallyveil.arrays import Floats
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational

_GOLDEN = (math.sqrt(5) - 1) / 2
"""Share of the interval that a step keeps. With this one an inner point of a step is one of the next step, too, so that
a step costs one evaluation; every other share would cost two."""


def least_point(objective: Callable[[float], float], low: float, high: float, width: float) -> float:
    """A point near the minimum of a function, by golden-section search.

    The function is assumed to have one minimum between the ends. If it has more, the search may end at the wrong one.
    The bound is then less tight, but still valid.

    Args:
        objective: The function.
        low, high: The ends of the interval.
        width: The search stops when the interval is this short.
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = objective(left), objective(right)
    while high - low > width:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = objective(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = objective(right)
    return (low + high) / 2


BITS: Final = 320
"""Working precision of the ball arithmetic; answers are rounded to 53 bits."""

_COARSE: Final = np.arange(-60.0, 101.0)
"""Logarithms of the excesses at which an objective is looked at before the search. An order beyond them would be the
best one for a delta that nobody states."""

_LEAST_EXCESS = 1e-6
"""Least excess that is tried for a sample: ln E exp(x L) is about x times a divergence of 1e-6 or so, and floats round
the sum that it is the logarithm of by 1e-16."""


def certified_divergence(law: Law, excess: Fraction) -> Fraction:
    """Upper bound of the divergence of a composition at order 1 + excess. The caller sets the working precision.

    Raises:
        BudgetError: a loss that has no finite divergence or none in closed form.
    """
    return sum((loss.multiplicity * _certified_divergence(loss, excess) for loss in law), Fraction(0))


def searched_divergence(law: Law) -> Callable[[float], float]:
    """The same in floats, as a function of the excess, by which an order is chosen.

    Raises:
        BudgetError: as `certified_divergence`.
    """
    parts = [(loss.multiplicity, _searched_divergence(replace(loss, multiplicity=1))) for loss in law]
    return lambda excess: sum((n * divergence(excess) for n, divergence in parts), 0.0)


def has_divergence(loss: AnyLoss) -> bool:
    """Whether the Renyi divergences of a loss are computed."""
    return _takes(loss, Fraction(0)) if isinstance(loss, SampledLoss) else not isinstance(loss, FailureLoss)


def saved(excess: float) -> float:
    """-ln[(1 - 1 / alpha)^alpha / (alpha - 1)]: by how much the better conversion lowers ln delta."""
    return (1 + excess) * math.log1p(1 / excess) + math.log(excess)


def saved_ball(excess: arb) -> arb:
    """The same as a ball."""
    return (1 + excess) * (1 / excess).log1p() + excess.log()


def best_excess(objective: Callable[[float], float]) -> Fraction:
    """An excess near the minimum of the objective."""
    # A coarse look first, since golden section assumes one minimum, which e^160 may not have.
    heights = np.array([objective(excess) for excess in np.exp(_COARSE).tolist()])
    return Fraction(_refined(_COARSE, heights, objective))


def _refined(logarithms: Floats, heights: Floats, objective: Callable[[float], float]) -> float:
    """An excess near the minimum of the objective, whose values at evenly spaced logarithms of the excess are given."""
    best, apart = float(logarithms[int(np.argmin(heights))]), float(logarithms[1] - logarithms[0])

    def at(logarithm: float) -> float:
        return objective(math.exp(logarithm))

    # Beside the best of the values there may be orders at which a sample has no divergence.
    return math.exp(min(best, least_point(at, best - apart, best + apart, 1e-8), key=at))


def _rho_of_loss(loss: AnyLoss) -> Fraction | None:
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


def _certified_divergence(loss: AnyLoss, excess: Fraction) -> Fraction:
    """Upper bound of the divergence of one loss. The variables: v variance, t scale, k sensitivity, e epsilon.

    One discrete Gaussian answer that moves by k has a divergence of at most alpha k^2 / (2 v), with equality if
    alpha k is an integer. Proof: the sum of P^alpha Q^(1 - alpha) is exp(alpha (alpha - 1) k^2 / (2 v)) times the
    sum of exp(-(j - alpha k)^2 / (2 v)) over the integers j, divided by the sum of exp(-j^2 / (2 v)). The former
    sum is largest if its centre is an integer (Canonne, Kamath, Steinke 2020, Theorem 4).

    One discrete Laplace answer that moves by k has the loss (k - 2 j) / t with the probabilities in
    `accounting/losses.py`. With a = exp(-1 / t) and r = exp(-(2 alpha - 1) / t), the sum of p_j
    exp((alpha - 1) (k - 2 j) / t) over j = 0..k is a geometric series, and the divergence is

        k / t + ln[(1 + r^k + (1 - a) (r - r^k) / (1 - r)) / (1 + a)] / (alpha - 1).

    Example: for k = 1 this is ln[(exp(alpha e) + exp((1 - alpha) e)) / (1 + exp(e))] / (alpha - 1) with e = 1 /
    t, which is the divergence of randomised response. SafeTab's Lemma 8 and Corollary 1 print a smaller value,
    which is no bound.

    A normal loss has the divergence alpha mu^2 / 2. Two Laplace laws whose centres lie e scales apart have
    ln[alpha exp((alpha - 1) e) / (2 alpha - 1) + (alpha - 1) exp(-alpha e) / (2 alpha - 1)] / (alpha - 1)
    (Mironov 2017, Proposition 6).

    A sample has ln E exp((alpha - 1) L) / (alpha - 1), from its transform on the real line (`engines/sampled.py`).

    The best of a random number of results has the bounds of docs/proofs/real-noise.md, section 12.
    """
    if (rho := _rho_of_loss(loss)) is not None:
        # Exact, as these divergences are at most rho times the order.
        return rho * (1 + excess)
    x = rational(excess)
    most: Fraction | None = None
    match loss:
        case SampledLoss() if _takes(loss, excess):
            ball = log_moment_of_sample(loss, excess) / x
        case SelectedLoss():
            return _selection(replace(loss, multiplicity=1)).certified(excess)
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
            raise _no_divergence(loss)
    divergence = _from_above(ball, loss)
    # What pure differential privacy promises bounds every order, also where the ball is wide.
    return divergence if most is None else min(divergence, most)


def _from_above(ball: arb, loss: AnyLoss) -> Fraction:
    end = exact_upper(ball)
    if end is None:
        raise BudgetError(
            f"the divergence of {as_given(loss)} is too large to be computed. Check its parameters."
        )
    return Fraction(end[0]) * Fraction(2) ** end[1]


def _takes(loss: SampledLoss, excess: Fraction) -> bool:
    """Whether the divergence of a sample is computed at an order; beyond some order its list would be too long."""
    # A mechanism that may reveal everything has no finite divergence.
    return takes_sample(loss) and not loss.failure and excess <= largest_tilt(loss)


def _searched_divergence(loss: AnyLoss) -> Callable[[float], float]:
    """The divergence of one loss of multiplicity 1 in floats, as a function of the excess."""
    if (exact := _rho_of_loss(loss)) is not None:
        rho = as_float(exact)
        return lambda excess: rho * (1 + excess)
    match loss:
        case SampledLoss() if _takes(loss, Fraction(0)):
            most = largest_tilt(loss)

            def of_sample(excess: float) -> float:
                # An order that is not computed, or at which floats keep no digits, is never chosen.
                return (
                    moments_of_sample(loss, excess)[0] / excess
                    if _LEAST_EXCESS <= excess <= most
                    else math.inf
                )

            return of_sample
        case SelectedLoss():
            return _selection(loss).searched
        case LaplaceLoss():
            return partial(_laplace, loss)
        case ExponentialLoss():
            return partial(_exponential, float(loss.epsilon))
        case ResponseLoss():
            return partial(_response, float(loss.epsilon), loss.options)
        case _:
            raise _no_divergence(loss)


_FINE: Final = np.arange(-60, 401) / 4
"""Logarithms of the excesses at which the divergence of one run of a selection is tabulated, to choose an order of it;
the choice is refined. Steps of 1 would make `_minimum` a percent too large or small."""

_EXCESSES: Final = np.exp(_FINE)
_SAVED: Final = np.array([saved(excess) for excess in _EXCESSES.tolist()])

_ORDERS: Final = 4096
"""Orders at which the bounds of a selection are kept: a search looks at some hundreds."""


def _minimum(values: Floats) -> float:
    """About the least value of a smooth function with these values at `_EXCESSES`: that of a parabola through three."""
    place = int(np.argmin(values))
    least = float(values[place])
    if 0 < place < values.size - 1 and np.isfinite(values[place - 1 : place + 2]).all():
        before, after = float(values[place - 1]), float(values[place + 1])
        least -= (after - before) ** 2 / max(8 * (after - 2 * least + before), 1e-300)
    return least


def _log_gamma(gamma: Fraction) -> arb:
    # With all digits, also beside 1.
    return rational(gamma).log() if 2 * gamma < 1 else (-rational(1 - gamma)).log1p()


def log_mean_of_runs(eta: Fraction | None, parameter: Fraction) -> arb:
    """Logarithm of the mean number of runs of a selection; the parameters are those of `SelectedLoss`."""
    if eta is None:
        return rational(parameter).log()
    # Of an eta near 0 these differences keep their digits.
    log_gamma = _log_gamma(parameter)
    quotient = rational(eta) / -(rational(eta) * log_gamma).expm1() if eta else -1 / log_gamma
    return (quotient * rational((1 - parameter) / parameter)).log()


class _Selection:
    """The bounds of one selection (docs/proofs/real-noise.md, section 12).

    They are kept at each order, since a bound of nested selections asks for several of each inner one.

    Attributes:
        loss: The selection, of multiplicity 1.
        back: The law of one run for the opposite change: the order of the results is seen from the other population.
        certified: An upper bound of the divergence at an excess. The caller sets the working precision.
    """

    def __init__(self, loss: SelectedLoss) -> None:
        self.loss, self.back = loss, merged_law(mirrored(loss.base))
        self._run, self._back = searched_divergence(loss.base), searched_divergence(self.back)
        with precision(BITS):
            self._log_mean = float(log_mean_of_runs(loss.eta, loss.parameter))
        self._bound = lru_cache(maxsize=_ORDERS)(
            self._of_binomial if loss.eta is not None else self._of_poisson
        )
        self.certified = lru_cache(maxsize=_ORDERS)(self._certified)

    @cached_property
    def _table(self) -> Floats:
        """The divergence of `back` at `_EXCESSES`."""
        return np.array([self._back(excess) for excess in _EXCESSES.tolist()])

    @cached_property
    def _least(self) -> float:
        """The excess at which the bound is least: a divergence of a lower order is no larger."""
        return _refined(_FINE, np.array([self._bound(excess) for excess in _EXCESSES.tolist()]), self._bound)

    def searched(self, excess: float) -> float:
        """The divergence in floats."""
        return self._bound(max(excess, self._least))

    def _of_binomial(self, excess: float) -> float:
        assert self.loss.eta is not None
        return self._run(excess) + as_float(1 + self.loss.eta) * self._second[1] + self._log_mean / excess

    @cached_property
    def _second(self) -> tuple[float, float]:
        """The excess of the best second order of a negative binomial selection, and what 1 + eta is multiplied by."""
        log_gamma = log_of(self.loss.parameter)

        def added(excess: float) -> float:
            return (excess * self._back(excess) - log_gamma) / (1 + excess)

        best = _refined(_FINE, (_EXCESSES * self._table - log_gamma) / (1 + _EXCESSES), added)
        return best, added(best)

    def _of_poisson(self, excess: float) -> float:
        nearest = float(self._table.min())
        least = math.log(max(min(nearest / 2, -math.expm1(-nearest)), 1e-300)) / 2
        log_delta = min(least, _minimum(_EXCESSES * (self._table - math.log1p(1 / excess)) - _SAVED))
        log_most = self._log_mean + as_float(self.loss.parameter) * excess * math.exp(log_delta)
        run = excess * self._run(excess)
        # ln[1 + M (exp(run) - 1)], where both M and the exponential may be far too large for floats.
        if not 0 < run + abs(log_most) < math.inf:
            return math.inf
        return float(np.logaddexp(0.0, log_most + run + math.log(-math.expm1(-max(run, 1e-300))))) / excess

    def _second_of_poisson(self, allowed: float) -> float:
        """The excess of the order at which the delta of one run at an epsilon is bounded."""
        heights = _EXCESSES * (self._table - allowed) - _SAVED
        if any(isinstance(loss, SelectedLoss) for loss in self.back):
            # Every order would ask for another one of the inner selections, twice as many with each level.
            return float(_EXCESSES[int(np.argmin(heights))])
        return _refined(
            _FINE, heights, lambda excess: excess * (self._back(excess) - allowed) - saved(excess)
        )

    def _certified(self, excess: Fraction) -> Fraction:
        eta, parameter = self.loss.eta, self.loss.parameter
        first = max(excess, Fraction(self._least))
        x, run = rational(first), rational(certified_divergence(self.loss.base, first))
        log_mean = log_mean_of_runs(eta, parameter)
        allowed = (1 / x).log1p()
        second = Fraction(self._second_of_poisson(float(allowed)) if eta is None else self._second[0])
        x2, back = rational(second), rational(certified_divergence(self.back, second))
        if eta is not None:
            added = (x2 * back - _log_gamma(parameter)) / (1 + x2)
            return _from_above(run + rational(1 + eta) * added + log_mean / x, self.loss)
        # Delta is at most the total variation, which the least divergence bounds (Pinsker; Bretagnolle and Huber).
        lowest = Fraction(_EXCESSES[int(np.argmin(self._table))])
        least = rational(certified_divergence(self.back, lowest))
        total_variation = (least / 2).min(-(-least).expm1())
        log_delta = (x2 * (back - allowed) - saved_ball(x2)).min(total_variation.log() / 2)
        log_most = log_mean + rational(parameter) * x * log_delta.exp()
        return _from_above((log_most.exp() * (x * run).expm1()).log1p() / x, self.loss)


_selection = lru_cache(maxsize=256)(_Selection)


def _no_divergence(loss: AnyLoss) -> BudgetError:
    return BudgetError(
        f"{as_given(loss)} has no finite Renyi divergence at this order, or none that is computed. Ask for its "
        "guarantee by itself, and state that as ApproximateDP.",
        code="no-cost",
    )


def _log_sum(log_left: float, log_right: float) -> float:
    highest = max(log_left, log_right)
    return highest + math.log(math.exp(log_left - highest) + math.exp(log_right - highest))


def _exponential(e: float, excess: float) -> float:
    """Divergence of one answer with real Laplace noise, in floats."""
    first = excess * e + math.log1p(excess) - math.log1p(2 * excess)
    second = math.log(excess) - math.log1p(2 * excess) - (1 + excess) * e
    return _log_sum(first, second) / excess


def _response(e: float, options: int, excess: float) -> float:
    """Divergence of one randomized response, in floats."""
    whole = e + math.log1p((options - 1) * math.exp(-e))
    both = _log_sum((1 + excess) * e, math.log(options - 2))
    return (_log_sum(both, -excess * e) - whole) / excess


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
        BudgetError: an order of 1 or less, a non-private event, or one without a divergence that is computed at this
            order: a stated delta, or a random sample of noise that is too small or at an order that is too large.
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
        # Only a sample tells the removal of a record from its addition.
        law = _law(release)
        return max(certified_divergence(each, excess) for each in {law, mirrored(law)})

    return folded_cost(event, of_release, Fraction(0))


def _searched(event: PrivacyEvent) -> Callable[[float], float]:
    """The divergence in floats at order 1 + excess, as a function of the excess, by which an order is chosen."""

    def of_release(release: Release) -> Callable[[float], float]:
        if isinstance(release, IntegerSubspaceGaussian):
            rho = as_float(release.rho)
            return lambda excess: rho * (1 + excess)
        laws = {law := _law(release), mirrored(law)}
        divergences = list(map(searched_divergence, laws))
        return lambda excess: max(divergence(excess) for divergence in divergences)

    return cost_function(event, of_release, 0.0)


def _law(release: Release) -> Law:
    if isinstance(
        release, IntegerSubspaceLaplace
    ):  # the worst mechanism of this pure epsilon: randomised response
        return (LaplaceLoss(1 / release.loss, 1, 1),)
    return loss_law_of(release)


_BITS = 256  # working precision of conversions of rho; divergences have `BITS`
_LEAST_RHO = Fraction(1, 10**300)  # a smaller rho is counted as this much: floats search the order
_LARGEST_EPSILON = 10**6  # of a search for rho; an epsilon of 100 already protects nobody
_FARTHEST = 600.0  # logarithm of the largest excess tried; exp stays finite 30 beyond it


def zcdp_to_epsilon(rho: Exact, delta: Exact) -> float:
    """Smallest proved epsilon such that rho-zCDP gives (epsilon, delta)-differential privacy.

    The bound holds at every order alpha. Floats only choose a good order; there the bound is evaluated in ball
    arithmetic and rounded up. So the answer is never below the true minimum of the bound, and exceeds it by less than
    about one part in 10^15.

    Args:
        rho: zCDP cost, 0 or more.
        delta: Between 0 and 1, both excluded.

    Raises:
        BudgetError: rho or delta out of range.

    Source: Canonne, Kamath, Steinke 2020, Proposition 12, solved for epsilon.
    """
    rho, delta = _rho(rho), _delta(delta)
    if rho == 0:
        return 0.0
    rho = max(rho, _LEAST_RHO)
    log_delta = log_of(delta)
    rho_float = as_float(rho)

    def bound(excess: float) -> float:
        correction = -excess * math.log1p(1 / excess) - math.log1p(excess)
        return (1 + excess) * rho_float + (correction - log_delta) / excess

    best = _best_excess(bound, guess=(math.log(1 - log_delta) - log_of(rho)) / 2)
    with flint.ctx.workprec(_BITS):
        x, r, d = rational(best), rational(rho), rational(delta)
        epsilon = (1 + x) * r - (1 / x).log1p() - (x.log1p() + d.log()) / x
        return max(0.0, round_up(epsilon))


def epsilon_to_rho(epsilon: Exact, delta: Exact) -> Fraction:
    """A large rho, of at most six digits, such that rho-zCDP gives (epsilon, delta)-differential privacy.

    It is within about one part in 100,000 of the largest one. The inverse of `zcdp_to_epsilon`.

    Raises:
        BudgetError: epsilon or delta out of range.
    """
    epsilon, delta = exact_number(epsilon, "epsilon"), _delta(delta)
    if not 0 < epsilon <= _LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon must be above 0 and at most {_LARGEST_EPSILON}, got {exact_text(epsilon)}. Give another one."
        )
    low, high = (
        Fraction(0),
        Fraction(epsilon),
    )  # rho = epsilon gives more than epsilon at every delta below 1 / e
    while zcdp_to_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    while not low or high - low > low / 10**6:
        middle = Fraction(float((low + high) / 2))
        low, high = (middle, high) if zcdp_to_epsilon(middle, delta) <= epsilon else (low, middle)
        if high < _LEAST_RHO:
            raise BudgetError(
                f"epsilon {exact_text(epsilon)} is too small for delta {exact_text(delta)}: no rho above 1e-300 gives "
                "it. Give a larger one."
            )
    return Fraction(at_least(low, 6))


def zcdp_to_delta(rho: Exact, epsilon: Exact) -> float:
    """Smallest proved delta such that rho-zCDP gives (epsilon, delta)-differential privacy; at most 1.

    Certified in the same way as `zcdp_to_epsilon`. A delta below the smallest float is rounded up to that float.

    Raises:
        BudgetError: rho or epsilon is negative.

    Source: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    rho, epsilon = _rho(rho), exact_number(epsilon, "epsilon")
    if epsilon < 0:
        raise BudgetError(
            f"epsilon must be 0 or more, got {exact_text(epsilon)}. Give a non-negative epsilon."
        )
    if rho == 0:
        return 0.0
    rho = max(rho, _LEAST_RHO)
    rho_float, epsilon_float = as_float(rho), as_float(epsilon)

    def log_delta(excess: float) -> float:
        alpha = 1 + excess
        return (
            excess * (alpha * rho_float - epsilon_float) - math.log(excess) - alpha * math.log1p(1 / excess)
        )

    guess = -log_of(rho) / 2
    if epsilon > rho:
        guess = max(guess, log_of(epsilon - rho) - log_of(rho))
    best = _best_excess(log_delta, guess)
    with flint.ctx.workprec(_BITS):
        x, r, e = rational(best), rational(rho), rational(epsilon)
        delta = (x * ((1 + x) * r - e) - (1 + x) * (1 / x).log1p()).exp() / x
        return min(1.0, round_up(delta))


def zcdp_to_epsilon_textbook(rho: Exact, delta: Exact) -> float:
    """The simpler, larger epsilon = rho + 2 sqrt(rho ln(1 / delta)), rounded up; found in older tables.

    Raises:
        BudgetError: rho or delta out of range.

    Source: Bun and Steinke 2016, Proposition 1.3.
    """
    rho, delta = _rho(rho), _delta(delta)
    with flint.ctx.workprec(_BITS):
        r, d = rational(rho), rational(delta)
        return round_up(r + 2 * (-r * d.log()).sqrt())


def _best_excess(objective: Callable[[float], float], guess: float) -> Fraction:
    """An excess near the minimum of the objective, by golden-section search around a guess.

    Of rho the minimum is known nearly, so that the coarse look of `best_excess` is not needed.

    The objective is assumed to have one minimum. A poor answer would make the bound less tight, but still valid.
    """
    guess = min(max(guess, -_FARTHEST), _FARTHEST)
    # The minimum is flat: the bound is then within 1e-16 of it, relatively.
    return Fraction(math.exp(least_point(lambda x: objective(math.exp(x)), guess - 30.0, guess + 30.0, 1e-8)))


def _rho(value: Exact) -> Fraction:
    rho = exact_number(value, "rho")
    if rho < 0:
        raise BudgetError(f"rho must be 0 or more, got {exact_text(rho)}. Give a non-negative rho.")
    return rho


def _delta(value: Exact) -> Fraction:
    delta = exact_number(value, "delta")
    if not 0 < delta < 1:
        raise BudgetError(
            f"delta must lie between 0 and 1, both excluded, got {exact_text(delta)}. "
            "Give one such as '1e-10'."
        )
    return delta


_ASIDE = Fraction(1, 10**6)
"""Distance of the two tangents from the x found, relative to it."""

_LARGEST_EXPONENT = 100_000.0
"""Minus the logarithm of the smallest x. There delta is 1 but for a number far below every float."""


class ZcdpConversion(StrEnum):
    """A way from rho to epsilon at a delta.

    TEXTBOOK: rho + 2 sqrt(rho ln(1 / delta)), which the Census Bureau published.
    BEST: the smallest epsilon that follows from rho-zCDP by the best known proof.
    """

    TEXTBOOK = "textbook"
    BEST = "best"

    def epsilon(self, rho: Exact, delta: Exact) -> float:
        """Epsilon at a delta, rounded up.

        Raises:
            BudgetError: rho or delta out of range.
        """
        convert = zcdp_to_epsilon_textbook if self is ZcdpConversion.TEXTBOOK else zcdp_to_epsilon
        return convert(rho, delta)


@dataclass(frozen=True, slots=True)
class ZcdpCurve:
    """What rho promises at every delta.

    The variable x = alpha - 1 > 0.

    Textbook: ln delta = -(epsilon - rho)^2 / (4 rho) where epsilon > rho, otherwise 0. Best: ln delta is the
    minimum over x of

        F(x) = x ((1 + x) rho - epsilon) + x ln x - (1 + x) ln(1 + x).

    Both are concave functions of epsilon: the second is a minimum of linear ones. A search over the whole curve
    (`accounting/calibration.py`) needs this, and values that are never above the true ones. F is convex in x,
    because F'' = 2 rho + 1 / (x (1 + x)). So two tangents on either side of its minimum bound it from below where
    they meet.

    Attributes:
        rho: zCDP cost, above 0.
        conversion: The conversion of rho.
    """

    rho: Fraction
    conversion: ZcdpConversion = ZcdpConversion.TEXTBOOK

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact_number(self.rho, "rho of ZcdpCurve"))
        if not self.rho > 0:
            raise BudgetError(
                f"a curve of zCDP needs rho above 0, got {exact_text(self.rho)}. Give the rho that was published."
            )

    def epsilon(self, delta: Exact) -> float:
        """Epsilon at a delta, rounded up.

        Raises:
            BudgetError: delta does not lie between 0 and 1.
        """
        return self.conversion.epsilon(self.rho, delta)

    def log_delta_below(self, epsilon: float) -> float:
        """Natural logarithm of delta at an epsilon of 0 or more, rounded down; -inf where rho is above 100,000."""
        exact = Fraction(epsilon)
        if self.conversion is ZcdpConversion.TEXTBOOK:
            excess = max(exact - self.rho, Fraction(0))
            # A fraction becomes the nearest float, so the next float up is never below it.
            return -math.nextafter(float(excess * excess / (4 * self.rho)), math.inf) if excess else 0.0
        return self._best_log_delta_below(exact)

    def _best_log_delta_below(self, epsilon: Fraction) -> float:
        flattest = _flattest(as_float(self.rho), as_float(epsilon))
        if flattest is None:
            return -math.inf
        with precision(_BITS):
            r, e = rational(self.rho), rational(epsilon)
            # Any two points may be taken: that the minimum lies between them is proved below.
            left, right = rational(flattest * (1 - _ASIDE)), rational(flattest * (1 + _ASIDE))

            def height(x: flint.arb) -> flint.arb:
                return x * ((1 + x) * r - e) + x * x.log() - (1 + x) * x.log1p()

            def slope(x: flint.arb) -> flint.arb:
                return (1 + 2 * x) * r - e - (1 / x).log1p()

            # The minimum may lie anywhere: nothing is known from below.
            if not slope(left) < 0 < slope(right):
                return -math.inf
            # The tangent at the left end, where the tangent at the right end meets it.
            reach = (height(left) - height(right) + slope(right) * (right - left)) / (
                slope(right) - slope(left)
            )
            return -round_up(-(height(left) + slope(left) * reach))


def _flattest(rho: float, epsilon: float) -> Fraction | None:
    """About the x at which F' = (1 + 2 x) rho - epsilon - ln(1 + 1 / x) is 0; None where floats end before it."""
    from scipy.optimize import brentq  # here, since most users of this module compute no curve

    def slope(log_x: float) -> float:
        x = math.exp(log_x)
        return (1 + 2 * x) * rho - epsilon - math.log1p(1 / x)

    if slope(-_FARTHEST) >= 0 and rho - epsilon < _LARGEST_EXPONENT:
        # F' is rho - epsilon + ln(x), but for about x of itself; exp(-(rho - epsilon)) as a float times a power of 2.
        halvings = math.floor((rho - epsilon) / math.log(2))
        return Fraction(math.exp(halvings * math.log(2) - (rho - epsilon))) / (1 << halvings)
    if not slope(-_FARTHEST) < 0 < slope(_FARTHEST):
        return None
    return Fraction(math.exp(brentq(slope, -_FARTHEST, _FARTHEST, xtol=1e-12)))
