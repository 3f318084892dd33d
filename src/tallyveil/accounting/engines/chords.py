"""Both probabilities of an engine that knows only delta: minus the slope of delta in exp(epsilon) is Q(L > epsilon)."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.tails import Tails, within_floats
from tallyveil.accounting.many_bounds import ManyBounds

# Relative rounding of a chord's slope and of its two ends, with room: some 4,500 units in the last place. Twice of it
# widens both probabilities by another 1e-12, which nothing else here is as exact as.
_SLACK = 1e-12


class KnowsDelta(Protocol):
    """An engine of delta."""

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""


def tails_by_chords(engine: KnowsDelta, epsilon: float | Fraction, length: float) -> Tails:
    """All tails above epsilon: Q from the chords on either side of it, P = delta + exp(epsilon) Q.

    Delta is convex in exp(epsilon). So its slope lies between those of two chords that end at epsilon.

    Args:
        engine: Knows delta.
        epsilon: Any real number.
        length: Of the chords.
    """
    # The chord's ends are exact fractions, so the engine is asked at exactly the epsilons that the formulas assume. A
    # chord shorter than 1e-9 would divide the width of delta's bounds by a number that rounding decides.
    exact, chord = within_floats(epsilon), Fraction(max(length, 1e-9))
    before, here, after = engine.log_deltas([exact - chord, exact, exact + chord])
    e, d = float(exact), float(chord)
    # No loss above epsilon: delta and both probabilities are 0, and the logarithms below would be of 0.
    if here.upper == -math.inf:
        return Tails(here, here, here)
    # (delta(e) - delta(e + d)) / (exp(e + d) - exp(e)) <= Q <= (delta(e - d) - delta(e)) / (exp(e) - exp(e - d))
    lower = _widened(_log_less(here.lower, after.upper) - e - math.log(math.expm1(d)), e, -1)
    # Q is a probability: its logarithm is never above 0, whatever the chords allow.
    upper = min(_widened(_log_less(before.upper, here.lower) - e - math.log(-math.expm1(-d)), e, 1), 0.0)
    # Each end is computed by itself, so rounding could cross them; the upper one is the safe one to keep.
    second = Bounds(min(lower, upper), upper)
    # P = delta + exp(epsilon) Q adds two positive numbers, so nothing cancels here.
    most = _log_sum(here.upper, second.upper + e)
    first = Bounds(min(_log_sum(here.lower, second.lower + e), most, 0.0), min(_widened(most, e, 1), 0.0))
    return Tails(first, second, here)


def _log_less(larger: float, smaller: float) -> float:
    """ln(x - y) from ln x and ln y; -inf if y is not below x."""
    if not smaller < larger:
        return -math.inf
    if smaller == -math.inf:
        return larger
    # Through expm1, since y may be within rounding of x, where 1 - exp(.) would lose every digit.
    return larger + math.log(-math.expm1(smaller - larger))


def _log_sum(log_left: float, log_right: float) -> float:
    highest = max(log_left, log_right)
    if highest == -math.inf:
        # The larger term is taken out first: both may be far below the smallest float, or far above the largest one.
        return -math.inf
    return highest + math.log(math.exp(log_left - highest) + math.exp(log_right - highest))


def _widened(value: float, epsilon: float, side: int) -> float:
    # An infinity stays exact: it says that nothing, or all, is known, and no rounding happened on the way to it.
    return value + side * _SLACK * (1 + abs(value) + abs(epsilon)) if math.isfinite(value) else value
