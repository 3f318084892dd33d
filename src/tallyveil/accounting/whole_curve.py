"""The least noise that keeps epsilon within a reference curve at every delta down to a smallest one.

The problem: find the smallest factor f on all noise such that delta(epsilon) <= r(epsilon) at every epsilon in [0, E].
r is a reference curve, and E its epsilon at the smallest delta. The losses of discrete noise live on a lattice. Between
its points delta bends, so a factor that meets the curve at E may miss it at a larger delta. To look at some points
proves nothing about the others.

Variables: u = ln delta, known from above; v = ln r, known from below; k = exp(epsilon); an interval [a, b] of epsilon.

What proves the inequality on an interval:

- delta is a convex function of k. So it lies below its chord over [a, b], which is A - B k with B >= 0. The
  logarithm of this chord is a concave function of epsilon, so it lies below its tangents at a and at b.
- v is a concave function of epsilon, so it lies above its chord over [a, b].
- On [a, c] the first tangent less the chord of v is linear, on [c, b] the second one, for any c in [a, b]. So u - v is
  at most the largest of u(a) - v(a), u(b) - v(b), and what each tangent exceeds the chord of v by at c.

The interval with the largest bound is cut in two until the bounds are close enough to the largest value found.

Worked case: ten queries with variance 4.2454 have, at delta 1e-11, the epsilon that the textbook allows for variance
4.9995. At delta 1.5e-11 their epsilon is larger than the textbook's. Variance 4.25622 is enough for all deltas of 1e-11
or more.
"""

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Protocol

from scipy.optimize import brentq

from tallyveil.accounting.calibration import (
    MAX_STEPS,
    Calibration,
    Event,
    bracket,
    calibrate,
    finite,
    rounded_up,
    scaled,
)
from tallyveil.accounting.composition import compose
from tallyveil.accounting.conversion import real_number
from tallyveil.accounting.guarantee import Guarantee
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import BudgetError

DIGITS = 10
"""Significant decimal digits of the factor found."""

_CLOSE = 1e-11
"""Distance of the bound from the largest value found, at which a search over the curve ends."""
_FIRST_PIECES = 32
"""Intervals before any is cut. They only spread the first look: the cutting finds the rest one call at a time, while
these are evaluated together."""
_MOST_PIECES = 3_000
"""Cuts of one search, each one evaluation of delta. The bound of a search that ends here is valid, but less tight."""
_ROUNDING = 2.0**-48
"""Of the sum of the sizes of all terms of a bound: covers the rounding of about thirty operations in floats. It is
relative to these sizes, since both logarithms may be as small as exp(-rho) where both deltas are nearly 1."""
_LARGEST_EXPONENT = 700.0
"""Of the width of an interval, and of the fall of ln delta over it: floats do not hold exponentials of much more."""
_SLOPE = -30.0
"""Of the excess over the logarithm of the factor, about."""


class ReferenceCurve(Protocol):
    """Epsilon at every delta that a guarantee must not exceed; ln delta is a concave function of epsilon."""

    def epsilon(self, delta: Fraction) -> float:
        """Epsilon at a delta, never below the true one."""

    def log_delta_below(self, epsilon: float) -> float:
        """ln delta at an epsilon, never above the true one."""


@dataclass(frozen=True, slots=True)
class CurveExcess:
    """By how much ln delta of a guarantee exceeds that of a reference curve.

    Attributes:
        largest: The largest value found.
        epsilon: Where it was found.
        bound: The excess is nowhere above this number. If it is at most 0, the guarantee keeps within the curve.
    """

    largest: float
    epsilon: float
    bound: float


def curve_excess(guarantee: Guarantee, reference: ReferenceCurve, end: float) -> CurveExcess:
    """The largest excess of a guarantee over a reference curve, for epsilon from 0 to an end.

    Args:
        guarantee: The guarantee.
        reference: The curve that it is held against.
        end: The largest epsilon looked at, above 0.
    """

    def point(epsilon: float) -> _Point:
        upper = guarantee.log_delta(epsilon).upper
        return _Point(epsilon, upper, reference.log_delta_below(epsilon))

    first = [*(end * (i / _FIRST_PIECES) for i in range(_FIRST_PIECES)), end]
    points = [
        _Point(epsilon, known.upper, reference.log_delta_below(epsilon))
        for epsilon, known in zip(first, guarantee.log_profile(first), strict=True)
    ]
    best = max(points, key=lambda excess_point: excess_point.excess)
    # Python's heap gives the least first, so bounds are negated. The top bounds the whole curve.
    heap = [(-_largest_between(a, b), a, b) for a, b in pairwise(points)]
    heapq.heapify(heap)
    for _ in range(_MOST_PIECES):
        bound, left, right = heap[0]
        middle = (left.epsilon + right.epsilon) / 2
        # Where both deltas are nearly 1, the excess is 0 or just below. It is to be shown that it is nowhere above.
        close = min(_CLOSE, -best.excess) if best.excess <= 0 else _CLOSE
        if -bound <= best.excess + close or not left.epsilon < middle < right.epsilon:
            break
        between = point(middle)
        best = max(best, between, key=lambda excess_point: excess_point.excess)
        # Both halves take the place of the whole, so that the heap still covers [0, end].
        heapq.heapreplace(heap, (-_largest_between(left, between), left, between))
        heapq.heappush(heap, (-_largest_between(between, right), between, right))
    return CurveExcess(best.excess, best.epsilon, -heap[0][0])


def calibrate_to_curve(
    event: Event,
    *,
    reference: ReferenceCurve,
    smallest_delta: Fraction | float | str,
    neighbours: Neighbours | str,
) -> Calibration[Event]:
    """Scale all noise of an event by one factor, as small as a whole curve allows.

    The result has epsilon(delta) at most the reference curve's at every delta of `smallest_delta` or more. `calibrate`
    promises this at one delta only.

    The search for the factor assumes that less noise misses the curve by more. The promise does not rest on this.

    Args:
        event: What would be done. Its noise sets the proportions.
        reference: The curve.
        smallest_delta: Between 0 and 1.
        neighbours: The relation that the sensitivities of the event are stated under.

    Raises:
        BudgetError: a delta out of range, an event without private releases, or a curve that no noise meets.
    Privacy: the factor is rounded up, and the whole curve of the result is certified.
    """
    least = real_number(smallest_delta, "the smallest delta")
    if not 0 < least < 1:
        raise BudgetError(f"the smallest delta is {smallest_delta}, wanted a number between 0 and 1.")
    end = reference.epsilon(least)

    @cache
    def excess_at(factor: Fraction) -> tuple[Guarantee, CurveExcess]:
        guarantee = compose(scaled(event, factor), neighbours=neighbours)
        return guarantee, curve_excess(guarantee, reference, end)

    def excess(log_factor: float) -> float:
        # At 0 exactly a root finder would stop, but every larger factor may have an excess of 0, too.
        return finite(excess_at(Fraction(math.exp(log_factor)))[1].largest) or -_CLOSE

    factor = rounded_up(
        calibrate(event, epsilon=end, delta=least, neighbours=neighbours, digits=DIGITS + 1).factor, DIGITS
    )
    # No factor below the one for the end alone can do, so nothing is searched where that one passes.
    if excess_at(factor)[1].bound > 0:
        low, high = bracket(excess, math.log(factor), _SLOPE)
        factor = rounded_up(Fraction(math.exp(brentq(excess, low, high, xtol=10.0 ** -(DIGITS + 1)))), DIGITS)
    # As in `calibrate`: only a certified bound ends the loop, whatever the search assumed.
    for nudge in range(MAX_STEPS):
        guarantee, above = excess_at(factor)
        if above.bound <= 0:
            return Calibration(factor, scaled(event, factor), guarantee, Fraction(end), least)
        factor = rounded_up(factor * (1 + Fraction(2) ** nudge / 10**DIGITS), DIGITS)
    raise BudgetError(
        "the noise that keeps within the whole curve could not be certified. Give a larger smallest delta."
    )


@dataclass(frozen=True, slots=True, order=True)
class _Point:
    """ln delta of a guarantee from above and of a reference curve from below, at one epsilon."""

    epsilon: float
    upper: float
    reference: float

    @property
    def excess(self) -> float:
        return _difference(self.upper, self.reference)


def _difference(upper: float, reference: float) -> float:
    """The difference, rounded up. Equal numbers, such as two logarithms of delta = 1, differ by exactly 0."""
    return math.nextafter(upper - reference, math.inf) if upper != reference else 0.0


def _largest_between(left: _Point, right: _Point) -> float:
    """A bound of the excess on the interval between two points (see the module)."""
    anywhere = _difference(left.upper, right.reference)  # both curves decrease
    fall, width = max(left.upper - right.upper, 0.0), right.epsilon - left.epsilon
    # Also where a number is infinite or none. What holds anywhere is a valid bound, only a coarse one.
    if not max(fall, width) <= _LARGEST_EXPONENT or not math.isfinite(anywhere):
        return anywhere
    # Upper bounds may rise by their rounding. Clipped, the chord still lies above delta at both ends.
    last = left.upper - fall
    # Slopes of ln(chord) in epsilon at both ends; expm1 keeps the digits of short intervals.
    growth = math.expm1(width)
    from_left = math.expm1(-fall) / growth
    from_right = -math.expm1(fall) * (1 + growth) / growth
    bend = from_left - from_right
    # Where the tangents meet. Any point is valid, so its rounding costs tightness alone.
    reach = min(max(-(fall + from_right * width) / bend, 0.0), width) if bend > 0 else width
    at_left_tangent = left.upper + from_left * reach
    at_right_tangent = last + from_right * (reach - width)
    chord = left.reference + (right.reference - left.reference) / width * reach
    sizes = abs(left.upper) + fall + abs(left.reference) + abs(right.reference)
    sizes += (abs(from_left) + abs(from_right)) * width
    # An exponential multiplies the relative error of its exponent by the exponent.
    slack = _ROUNDING * (1 + fall + width) * sizes
    bound = max(left.excess, last - right.reference, at_left_tangent - chord, at_right_tangent - chord)
    return min(bound + slack, anywhere)
