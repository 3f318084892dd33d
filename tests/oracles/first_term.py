"""The first term of delta alone: the upper bound that the published f-DP accounting of the census used.

delta(epsilon) = P(L > epsilon) - exp(epsilon) Q(L > epsilon). If the second term is too small to be computed beside
the first one, it can be left out; the result is then too large, never too small. The exact engines do not need this
bound. It is here so that it can be compared with them.

Source: Su, Su, Wang, "The 2020 United States Decennial Census Is More Private Than You (Might) Think", section A.6.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from tallyveil.accounting.guarantee import Guarantee
from tallyveil.accounting.numbers import Bounds, exact_number, exact_text, round_up
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision, rational

_BITS = 128
_LARGEST_EPSILON = 2.0**60


def first_term_delta(guarantee: Guarantee, epsilon: float | Fraction) -> Bounds:
    """P(L > epsilon), an upper bound of delta(epsilon); the probability itself is known from both sides.

    Args:
        guarantee: Guarantee of the composition. If it has alternatives, the largest value is returned.
        epsilon: Any real number.
    """
    first = _log_first(guarantee, epsilon)
    # exp of the system is right to about one unit in the last place.
    return Bounds(
        max(0.0, math.exp(first.lower) * (1 - 1e-15)), min(1.0, math.exp(first.upper) * (1 + 1e-15))
    )


def first_term_epsilon(guarantee: Guarantee, delta: Fraction | int | str) -> Bounds:
    """Smallest epsilon of 0 or more with P(L > epsilon) <= delta, an upper bound of the exact epsilon.

    The tail is a step function, so the answer is a value of the loss, or 0.

    Args:
        guarantee: Guarantee of the composition. If it has alternatives, the largest value is returned.
        delta: Between 0 and 1, both excluded, exact.

    Raises:
        BudgetError: a delta out of range, or an epsilon beyond 2^60.
    """
    exact = exact_number(delta, "delta")
    if not 0 < exact < 1:
        raise BudgetError(
            f"delta must lie between 0 and 1, both excluded, got {exact_text(exact)}. Give one such as '1e-10'."
        )
    with precision(_BITS):
        logarithm = rational(exact).log()
        low, high = -round_up(-logarithm), round_up(logarithm)

    def is_met(epsilon: float) -> bool:
        return _log_first(guarantee, epsilon).upper <= low

    def may_be_met(epsilon: float) -> bool:
        return _log_first(guarantee, epsilon).lower <= high

    upper = _first(is_met)
    return Bounds(min(_first(may_be_met), upper), upper)


def _log_first(guarantee: Guarantee, epsilon: float | Fraction) -> Bounds:
    found = [engine.log_tails(epsilon).log_first for engine in guarantee.computed_by]
    return Bounds(max(one.lower for one in found), max(one.upper for one in found))


def _first(holds: Callable[[float], bool]) -> float:
    """The least float of 0 or more at which a test holds, if it holds at every larger number too."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            raise BudgetError(
                f"the epsilon is larger than {_LARGEST_EPSILON:g}, so no bound is given. Check the noise of the "
                "event."
            )
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
