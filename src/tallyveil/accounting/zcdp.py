"""What events cost in rho and in epsilon, exactly, and what rho means as (epsilon, delta), certified.

Key: rho (zCDP), epsilon and delta (approximate differential privacy), alpha (order of the Renyi divergence),
excess (alpha - 1, kept apart because both ends of its range are far from 1).
"""

import math
import sys
from collections.abc import Callable
from fractions import Fraction

import flint

from tallyveil.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
)
from tallyveil.accounting.exact import exact_text
from tallyveil.errors import BudgetError

_BITS = 256  # working precision of the ball arithmetic; the answer is rounded to 53
_LEAST_RHO = Fraction(1, 10**300)  # a smaller rho is counted as this much: floats search the order
_FARTHEST = 600.0  # logarithm of the largest excess tried; exp stays finite 30 beyond it
_GOLDEN = (math.sqrt(5) - 1) / 2


def rho_of(event: PrivacyEvent, *, laplace_as_zcdp: bool = False) -> Fraction:
    """Cost of an event in zero-concentrated differential privacy.

    Gaussian: squared sensitivity / (2 variance) each. Sequential events add; of parallel events the largest
    counts (its condition stands with `ParallelEvent`). Invariants cost nothing.

    Args:
        event: What is done.
        laplace_as_zcdp: Count Laplace noise too, as epsilon^2 / 2; valid, but loose for many releases.

    Raises:
        BudgetError: Laplace noise without `laplace_as_zcdp`, or a non-private event.

    Source: Canonne, Kamath, Steinke 2020, Theorem 4; Bun and Steinke 2016, Lemma 2.3 and Proposition 1.4.
    """

    def of_release(release: DiscreteGaussianEvent | DiscreteLaplaceEvent) -> Fraction:
        if isinstance(release, DiscreteGaussianEvent):
            return release.multiplicity * Fraction(release.squared_sensitivity) / (2 * release.variance)
        if laplace_as_zcdp:
            return release.multiplicity * (release.sensitivity / release.scale) ** 2 / 2
        raise BudgetError(
            f"discrete Laplace noise of scale {exact_text(release.scale)} has a cost in epsilon, not in rho. "
            "Declare the budget in epsilon, use discrete Gaussian noise, or ask for laplace_as_zcdp."
        )

    return _cost(event, of_release)


def epsilon_of(event: PrivacyEvent) -> Fraction:
    """Cost of an event in pure differential privacy.

    Laplace: L1 sensitivity / scale each. Sequential events add; of parallel events the largest counts (its
    condition stands with `ParallelEvent`). Invariants cost nothing.

    Raises:
        BudgetError: Gaussian noise, which has no finite pure epsilon, or a non-private event.

    Source: Ghosh, Roughgarden, Sundararajan 2009; Dwork and Roth 2014, Theorem 3.14.
    """

    def of_release(release: DiscreteGaussianEvent | DiscreteLaplaceEvent) -> Fraction:
        if isinstance(release, DiscreteLaplaceEvent):
            return release.multiplicity * Fraction(release.sensitivity) / release.scale
        raise BudgetError(
            f"discrete Gaussian noise of variance {exact_text(release.variance)} has no finite pure epsilon. "
            "Declare the budget in rho, or use discrete Laplace noise."
        )

    return _cost(event, of_release)


def zcdp_to_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Smallest proved epsilon such that rho-zCDP gives (epsilon, delta)-differential privacy.

    The bound holds at every order alpha; floats only choose a good one, at which the bound is then evaluated
    in ball arithmetic and rounded up. So the answer is never below the bound's true minimum, and above it by
    less than about one part in 10^15.

    Args:
        rho: zCDP cost, 0 or more.
        delta: Between 0 and 1, both excluded.

    Raises:
        BudgetError: rho or delta out of range.

    Source: Canonne, Kamath, Steinke 2020, Proposition 12, solved for epsilon.
    """
    _check_rho(rho)
    _check_delta(delta)
    if rho == 0:
        return 0.0
    rho = max(rho, _LEAST_RHO)
    log_delta = _log(delta)
    rho_float = _as_float(rho)

    def bound(excess: float) -> float:
        correction = -excess * math.log1p(1 / excess) - math.log1p(excess)
        return (1 + excess) * rho_float + (correction - log_delta) / excess

    best = _best_excess(bound, guess=(math.log(1 - log_delta) - _log(rho)) / 2)
    with flint.ctx.workprec(_BITS):
        x, r, d = _ball(best), _ball(rho), _ball(delta)
        epsilon = (1 + x) * r - (1 / x).log1p() - (x.log1p() + d.log()) / x
        return max(0.0, _round_up(epsilon))


def zcdp_to_delta(rho: Fraction, epsilon: Fraction) -> float:
    """Smallest proved delta such that rho-zCDP gives (epsilon, delta)-differential privacy; at most 1.

    Certified as `zcdp_to_epsilon` is. A delta below the smallest float comes back as that float, not as 0.

    Raises:
        BudgetError: rho or epsilon is negative.

    Source: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    _check_rho(rho)
    if epsilon < 0:
        raise BudgetError(
            f"epsilon must be 0 or more, got {exact_text(epsilon)}. Give a non-negative epsilon."
        )
    if rho == 0:
        return 0.0
    rho = max(rho, _LEAST_RHO)
    rho_float, epsilon_float = _as_float(rho), _as_float(epsilon)

    def log_delta(excess: float) -> float:
        alpha = 1 + excess
        return (
            excess * (alpha * rho_float - epsilon_float) - math.log(excess) - alpha * math.log1p(1 / excess)
        )

    guess = -_log(rho) / 2
    if epsilon > rho:
        guess = max(guess, _log(epsilon - rho) - _log(rho))
    best = _best_excess(log_delta, guess)
    with flint.ctx.workprec(_BITS):
        x, r, e = _ball(best), _ball(rho), _ball(epsilon)
        delta = (x * ((1 + x) * r - e) - (1 + x) * (1 / x).log1p()).exp() / x
        return min(1.0, _round_up(delta))


def zcdp_to_epsilon_textbook(rho: Fraction, delta: Fraction) -> float:
    """The simpler, larger epsilon = rho + 2 sqrt(rho ln(1 / delta)), rounded up; found in older tables.

    Raises:
        BudgetError: rho or delta out of range.

    Source: Bun and Steinke 2016, Proposition 1.3.
    """
    _check_rho(rho)
    _check_delta(delta)
    with flint.ctx.workprec(_BITS):
        r, d = _ball(rho), _ball(delta)
        return _round_up(r + 2 * (-r * d.log()).sqrt())


def _cost(
    event: PrivacyEvent, of_release: Callable[[DiscreteGaussianEvent | DiscreteLaplaceEvent], Fraction]
) -> Fraction:
    match event:
        case DiscreteGaussianEvent() | DiscreteLaplaceEvent():
            return of_release(event)
        case SequentialEvent(events):
            return sum((_cost(part, of_release) for part in events), Fraction(0))
        case ParallelEvent(events):
            return max((_cost(part, of_release) for part in events), default=Fraction(0))
        case InvariantEvent():
            return Fraction(0)
        case NonPrivateEvent(reason):
            raise BudgetError(
                f"a non-private event has no finite cost ({reason}). "
                "Record it with Ledger.declassify, apart from what is paid for."
            )


def _best_excess(objective: Callable[[float], float], guess: float) -> Fraction:
    """Excess near the objective's minimum, by golden-section search on its logarithm.

    The objective is taken to have one minimum there. A poor answer would cost tightness, never validity.
    """
    guess = min(max(guess, -_FARTHEST), _FARTHEST)
    low, high = guess - 30.0, guess + 30.0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = objective(math.exp(left)), objective(math.exp(right))
    while high - low > 1e-8:  # the minimum is flat: the bound is then within 1e-16 of it, relatively
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = objective(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = objective(math.exp(right))
    return Fraction(math.exp((low + high) / 2))


def _ball(value: Fraction) -> flint.arb:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def _round_up(ball: flint.arb) -> float:
    """Least float not below any point of the ball."""
    end = ball.upper()
    if not end.is_finite():
        return math.inf
    mantissa, exponent = (int(part) for part in end.man_exp())
    size = mantissa.bit_length() + exponent  # 2^(size - 1) <= |end| < 2^size: may be far out of range
    if mantissa > 0 and size > sys.float_info.max_exp:
        return math.inf
    if size < sys.float_info.min_exp - sys.float_info.mant_dig:
        return math.ulp(0.0) if mantissa > 0 else 0.0
    exact = Fraction(mantissa) * Fraction(2) ** exponent
    nearest = _as_float(exact)
    return nearest if math.isinf(nearest) or Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:  # Fraction has no infinity to round to
        return math.inf if value > 0 else -math.inf


def _log(value: Fraction) -> float:
    # Apart, numerator and denominator may be far outside the range of floats.
    return math.log(value.numerator) - math.log(value.denominator)


def _check_rho(rho: Fraction) -> None:
    if rho < 0:
        raise BudgetError(f"rho must be 0 or more, got {exact_text(rho)}. Give a non-negative rho.")


def _check_delta(delta: Fraction) -> None:
    if not 0 < delta < 1:
        raise BudgetError(
            f"delta must lie between 0 and 1, both excluded, got {exact_text(delta)}. "
            "Give one such as '1e-10'."
        )
