"""What rho means as (epsilon, delta), certified.

The variables: rho (zCDP), epsilon and delta (approximate differential privacy), alpha (order of the Renyi
divergence), excess = alpha - 1. The excess is kept apart because both ends of its range are far from 1.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import flint

from tallyveil.accounting.decimals import at_least
from tallyveil.accounting.exact import Exact, exact_number, exact_text
from tallyveil.accounting.rounding import as_float, log_of, round_up
from tallyveil.accounting.search import least_point
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import rational

_BITS = 256  # working precision of the ball arithmetic; the answer is rounded to 53
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
    """An excess near the minimum of the objective, by golden-section search on the logarithm of the excess.

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
