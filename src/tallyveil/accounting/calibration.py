"""The least noise for a stated guarantee or for a whole reference curve, rounded in the safe direction.

This is the inverse of accounting. `calibrate` finds the smallest factor on all noise such that the certified upper
bound of delta(epsilon) is at most a target; `calibrate_to_curve`, such that epsilon stays within a reference curve at
every delta down to a smallest one. Both begin with a guess (`approximate_log_delta`), which costs little and proves
nothing; only certified values decide the result.
"""

import heapq
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Generic, Protocol, TypeVar, cast

from scipy.optimize import brentq
from scipy.special import log_ndtr

from tallyveil.accounting.conversion import real_number
from tallyveil.accounting.engines.moments import greatest_loss, log_moment, moments, saddle_point
from tallyveil.accounting.engines.tails import log_bounds_of
from tallyveil.accounting.events import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Laplace,
    MixtureOfGaussians,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    PoissonRepeatAndSelect,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    RepeatAndSelect,
    SampledWithoutReplacement,
    SampledWithReplacement,
    SequentialEvent,
    TruncatedPoissonSampled,
    WorstEvent,
)
from tallyveil.accounting.guarantee import Guarantee, compose
from tallyveil.accounting.losses import LossFactor, alternatives_of, branches_of_one_law, further, of_integers
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given, in_short


def approximate_log_delta(factors: tuple[LossFactor, ...], epsilon: float) -> float:
    """About ln delta(epsilon) of a composition, -inf where no loss exceeds epsilon. Not a bound.

    The problem: estimate ln delta(epsilon), delta = E[(1 - exp(epsilon - L))+], for a loss L that is a sum of
    many independent ones, without computing its law.

    Variables: K(s) = ln E exp(s L); s >= 0 the tilt at which the tilted loss has its mean m = K'(s) near epsilon;
    sigma^2 = K''(s); a = m - epsilon.

    Method. With d = L - epsilon and the law tilted by exp(s L),

        delta = exp(K(s) - s epsilon) * E_s[exp(-s d) - exp(-(s + 1) d); d > 0].

    The tilted law is replaced by the normal law with its mean and variance, for which

        ln E[exp(-r d); d > 0] = t(r) = r^2 sigma^2 / 2 - r a + ln Phi(a / sigma - r sigma).

    Example: for one Gaussian loss, L ~ N(mu^2 / 2, mu^2), nothing is replaced, and the result is exact.

    Args:
        factors: The losses added up.
        epsilon: A finite number.
    """
    most = greatest_loss(factors)
    if most is not None and most <= epsilon:
        return -math.inf
    # Left of the mean no tilt is needed: delta has its bulk there.
    tilt = max(saddle_point(factors, epsilon)[0], 0.0)
    pairs = [(factor.multiplicity, *moments(factor, tilt)) for factor in factors]
    above = sum(n * mean for n, mean, _ in pairs) - epsilon
    spread = math.sqrt(sum(n * variance for n, _, variance in pairs))
    if spread == 0:  # in floats the loss is a single value
        return 0.0 if above > 0 else -math.inf

    def log_share(rate: float) -> float:
        return (
            rate * rate * spread * spread / 2 - rate * above + float(log_ndtr(above / spread - rate * spread))
        )

    first, second = log_share(tilt), log_share(tilt + 1)
    if not second < first:
        return -math.inf
    scale = sum(factor.multiplicity * log_moment(factor, tilt) for factor in factors) - tilt * epsilon
    return scale + first + math.log(-math.expm1(second - first))


DIGITS = 13
"""Significant decimal digits of the factor found."""

MAX_STEPS = 60
"""Steps of a bracket, and raises of a factor. Neither is what ends a search: from the shortest step a bracket passes
e^100 in about 30 steps, so half as many are just enough; the raise doubles, so the 60th is a factor above 10^4."""
LARGEST_LOG_FACTOR = 100
"""Of e, about 10^43 either way. Usual noise then stays far inside the 10^-100 to 10^100 that a parameter may have."""
LARGEST_TARGET = Fraction(10**9)
"""Largest epsilon that noise is scaled for. Noise with an epsilon of 100 already protects nobody."""
Event_co = TypeVar("Event_co", bound=PrivacyEvent, covariant=True)
"""Type of an event, which scaling its noise does not change."""
Event = TypeVar("Event", bound=PrivacyEvent)

_LARGEST_EXCESS = 1e6
"""Stands for an infinite excess of ln delta, of which a root finder needs the sign alone."""
_NEAR = 1e-3
"""Half the distance of the logarithms of factors between which the slope of the excess is measured."""
_SHORTEST_STEP = 1e-10
"""Of a logarithm of the factor: below it, the bounds of delta need not fall from one step to the next."""


@dataclass(frozen=True, slots=True)
class Calibration(Generic[Event_co]):
    """Noise that meets a target, and what it guarantees.

    Attributes:
        factor: Exact factor on every variance (Gaussian) and scale (Laplace): the smallest, to its digits,
            that keeps the upper bound of epsilon at delta within the target.
        event: The event with that noise, of the class of the one that was given.
        guarantee: Its guarantee.
        target: The epsilon that was asked for, exact: a certified upper bound of epsilon at the delta.
        delta: The delta of the target, or the smallest one of a curve.
    """

    factor: Fraction
    event: Event_co
    guarantee: Guarantee
    target: Fraction
    delta: Fraction

    @property
    def epsilon(self) -> tuple[float, Fraction]:
        """Both ends of epsilon at the delta. The upper end is exact, and never above the target.

        The guarantee alone finds its upper end by a search, which may stop a little above the target.
        """
        epsilon = self.guarantee.epsilon(self.delta)
        return epsilon.lower, min(Fraction(epsilon.upper), self.target)


def calibrate(
    event: Event,
    *,
    epsilon: Fraction | float | str,
    delta: Fraction | float | str,
    neighbours: Neighbours | str,
    digits: int = DIGITS,
) -> Calibration[Event]:
    """Scale all noise of an event by one factor, as small as a target allows.

    The problem: find the smallest factor f on all noise such that the certified upper bound of delta(epsilon) is
    at most the target delta.

    The steps, with x = ln f:

    1. Guess x from an approximation of delta that costs little and certifies nothing (`approximate_log_delta`).
    2. Find two certified values beside the guess, one on either side of the target.
    3. Search between them, with certified values only, until x is known to more digits than are asked for.
    4. Round f up, and raise its last digit until a certified value meets the target. Only this step is the claim:
       the first three say where to look.

    The variance of Gaussian noise and the scale of Laplace noise are both multiplied by the factor. So the shares of
    the budget keep their proportions.

    Args:
        event: What would be done. Its noise sets the proportions.
        epsilon: Target epsilon, above 0 and at most 1e9.
        delta: Target delta, between 0 and 1.
        neighbours: The relation that the sensitivities of the event are stated under.
        digits: Significant digits of the factor.
    Raises:
        BudgetError: a target out of range, an event without private releases, or a target that no noise meets.
    Privacy: the factor is rounded up, and the certified upper bound of the result meets the target.
    """
    target, allowed, log_delta = _target(epsilon, delta)
    relation = Neighbours.of(neighbours)

    @cache  # the root finder asks again for both ends of its bracket
    def excess(log_factor: float) -> float:
        """Above 0 where the noise is too small."""
        noisier = scaled(event, Fraction(math.exp(log_factor)))
        return finite(compose(noisier, neighbours=relation).log_delta(target).upper - log_delta)

    def approximate_excess(log_factor: float) -> float:
        laws = alternatives_of(scaled(event, Fraction(math.exp(log_factor))), relation)
        return finite(max(approximate_log_delta(of_integers(law), float(target)) for law in laws) - log_delta)

    # The approximation knows integer noise alone. All other searches begin at the noise as given.
    integers = not any(further(law) for law in alternatives_of(event, relation))
    low, high = bracket(excess, *(_first_guess(approximate_excess) if integers else (0.0, -1.0)))
    # No claim rests on the root. A certified value beside it decides.
    root = brentq(excess, low, high, xtol=10.0 ** -(digits + 1), rtol=8 * sys.float_info.epsilon)
    factor = rounded_up(Fraction(math.exp(root)), digits)
    # The bounds of delta may be wider than a last digit. Raises that double pass any such width.
    for nudge in range(MAX_STEPS):
        guarantee = compose(scaled(event, factor), neighbours=relation)
        if guarantee.log_delta(target).upper <= log_delta:
            return Calibration(factor, scaled(event, factor), guarantee, target, allowed)
        factor = rounded_up(factor * (1 + Fraction(2) ** nudge / 10**digits), digits)
    raise BudgetError(
        f"the noise that gives epsilon {in_short(target)} could not be certified to the accuracy asked for. Ask for "
        "fewer digits."
    )


def scaled(event: Event, factor: Fraction) -> Event:
    """The same event with every variance and scale multiplied by a factor."""
    return cast(
        Event, _scaled(event, factor)
    )  # the class stays, which a checker cannot follow through `match`


def _scaled(event: PrivacyEvent, factor: Fraction) -> PrivacyEvent:  # noqa: PLR0911, PLR0912 (one return a kind)
    match event:
        case DiscreteGaussian():
            return DiscreteGaussian(event.variance * factor, event.sensitivity, event.multiplicity)
        case DiscreteLaplace():
            return DiscreteLaplace(event.scale * factor, event.sensitivity, event.multiplicity)
        case Gaussian():
            return Gaussian(event.variance * factor, event.sensitivity, event.multiplicity)
        case Laplace():
            return Laplace(event.scale * factor, event.sensitivity, event.multiplicity)
        # Where no noise is stated: epsilon is inverse to a scale, and rho to a variance.
        case RandomizedResponse():
            return RandomizedResponse(event.epsilon / factor, event.options, event.multiplicity)
        case ZCDP():
            return ZCDP(event.rho / factor)
        case ApproximateDP():
            raise BudgetError(
                f"{as_given(event)} states a guarantee, and no noise that could be scaled. Leave it out, and lower the "
                "target by what it costs."
            )
        # The probabilities are how records are drawn, and no noise.
        case PoissonSampled():
            return replace(event, event=scaled(event.event, factor))
        case SampledWithoutReplacement():
            return replace(event, event=scaled(event.event, factor))
        case SampledWithReplacement() | TruncatedPoissonSampled():
            return replace(event, event=scaled(event.event, factor))
        # Nor is the number of runs.
        case RepeatAndSelect() | PoissonRepeatAndSelect():
            return replace(event, event=scaled(event.event, factor))
        case IntegerSubspaceLaplace():
            return replace(event, epsilon=event.epsilon / factor)
        case IntegerSubspaceGaussian() | MixtureOfGaussians():
            return replace(event, variance=event.variance * factor)
        case SequentialEvent():
            return SequentialEvent(tuple(scaled(part, factor) for part in event.events))
        case ParallelEvent():
            return ParallelEvent(tuple(scaled(part, factor) for part in event.events), event.degree)
        case AdaptiveEvent():
            return AdaptiveEvent(tuple(scaled(part, factor) for part in branches_of_one_law(event)))
        case WorstEvent():
            return WorstEvent(tuple(scaled(part, factor) for part in event.branches), event.chosen)
        case InvariantEvent() | NonPrivateEvent():
            return event


def _target(
    epsilon: Fraction | float | str, delta: Fraction | float | str
) -> tuple[Fraction, Fraction, float]:
    """The target epsilon, its delta, and the logarithm of delta, rounded down."""
    target, allowed = real_number(epsilon, "the target epsilon"), real_number(delta, "the target delta")
    if not target > 0:
        raise BudgetError(
            f"the target epsilon is {as_given(target)}, wanted a number above 0. Give a positive one."
        )
    if target > LARGEST_TARGET:
        raise BudgetError(
            f"the target epsilon is about {in_short(target)}, wanted one of at most 1e9. Noise with such an epsilon "
            "protects nobody: give a smaller one."
        )
    if not 0 < allowed < 1:
        raise BudgetError(
            f"the target delta is {as_given(allowed)}, wanted a number between 0 and 1, both excluded. Give one "
            "such as '1e-10'."
        )
    # A target that is a little too small only asks for a little more noise.
    return target, allowed, log_bounds_of(allowed).lower


def finite(excess: float) -> float:
    """For root finders, which take no infinity."""
    return min(max(excess, -_LARGEST_EXCESS), _LARGEST_EXCESS)


def _first_guess(excess: Callable[[float], float]) -> tuple[float, float]:
    """Where an approximate excess changes its sign, and its slope there."""
    low, high = bracket(excess, 0.0, -1.0)
    root = brentq(excess, low, high, xtol=1e-9)
    return root, (excess(root + _NEAR) - excess(root - _NEAR)) / (2 * _NEAR)


def bracket(excess: Callable[[float], float], guess: float, slope: float) -> tuple[float, float]:
    """Logarithms of a factor that fails and of one that meets the target.

    Args:
        excess: Above 0 where a factor fails; falls as the factor grows.
        guess: Where to begin.
        slope: Of the excess there, about. The first step is twice as long as the one to where a line of this slope
            meets 0, so that it most often passes the root.
    """
    here = guess
    first = excess(here)
    fails = first > 0
    length = 2 * abs(first / slope) if slope < 0 else 1.0
    step = math.copysign(min(max(length, _SHORTEST_STEP), 1.0), first if fails else -1.0)
    for _ in range(MAX_STEPS):
        following = here + step
        if (excess(following) > 0) is not fails:
            return (here, following) if fails else (following, here)
        # Steps that grow pass a root at any distance in a number of steps like its logarithm.
        here, step = following, 1.5 * step if abs(step) >= 1 else 4 * step
        if abs(here) > LARGEST_LOG_FACTOR:
            break
    raise BudgetError(
        f"no factor between e^-{LARGEST_LOG_FACTOR} and e^{LARGEST_LOG_FACTOR} multiplies the noise so that it meets "
        "the target. Check that the event releases at least one noisy answer, and that the target is the one you "
        "mean."
    )


def rounded_up(value: Fraction, digits: int) -> Fraction:
    """The least number of that many significant decimal digits that is not below the value."""
    # Beside a power of ten this float may be off by one: then one digit more or fewer is kept,
    # and the result is still not below the value.
    exponent = digits - 1 - math.floor(math.log10(float(value)))
    scale = Fraction(10) ** exponent
    return Fraction(math.ceil(value * scale)) / scale


CURVE_DIGITS = 10
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


def curve_excess(
    guarantee: Guarantee, reference: ReferenceCurve, end: float, *, sign_only: bool = False
) -> CurveExcess:
    """The largest excess of a guarantee over a reference curve, for epsilon from 0 to an end.

    Variables: u = ln delta, known from above; v = ln r, known from below; k = exp(epsilon); an interval [a, b] of
    epsilon.

    What proves the inequality on an interval:

    - delta is a convex function of k. So it lies below its chord over [a, b], which is A - B k with B >= 0. The
      logarithm of this chord is a concave function of epsilon, so it lies below its tangents at a and at b.
    - v is a concave function of epsilon, so it lies above its chord over [a, b].
    - On [a, c] the first tangent less the chord of v is linear, on [c, b] the second one, for any c in [a, b]. So
      u - v is at most the largest of u(a) - v(a), u(b) - v(b), and what each tangent exceeds the chord of v by at
      c.

    The interval with the largest bound is cut in two until the bounds are close enough to the largest value
    found.

    Args:
        guarantee: The guarantee.
        reference: The curve that it is held against.
        end: The largest epsilon looked at, above 0.
        sign_only: Whether the search ends as soon as it is known whether the excess is above 0 anywhere.
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
        if sign_only and (best.excess > 0 or bound >= 0):
            break
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

    The problem: find the smallest factor f on all noise such that delta(epsilon) <= r(epsilon) at every epsilon
    in [0, E]. r is a reference curve, and E its epsilon at the smallest delta. The losses of discrete noise live
    on a lattice. Between its points delta bends, so a factor that meets the curve at E may miss it at a larger
    delta. To look at some points proves nothing about the others.

    Worked case: ten queries with variance 4.2454 have, at delta 1e-11, the epsilon that the textbook allows for
    variance 4.9995. At delta 1.5e-11 their epsilon is larger than the textbook's. Variance 4.25622 is enough for
    all deltas of 1e-11 or more.

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
        calibrate(event, epsilon=end, delta=least, neighbours=neighbours, digits=CURVE_DIGITS + 1).factor,
        CURVE_DIGITS,
    )
    # No factor below the one for the end alone can do, so nothing is searched where that one passes.
    if excess_at(factor)[1].bound > 0:
        low, high = bracket(excess, math.log(factor), _SLOPE)
        factor = rounded_up(
            Fraction(math.exp(brentq(excess, low, high, xtol=10.0 ** -(CURVE_DIGITS + 1)))), CURVE_DIGITS
        )
    # As in `calibrate`: only a certified bound ends the loop, whatever the search assumed.
    for nudge in range(MAX_STEPS):
        guarantee, above = excess_at(factor)
        if above.bound <= 0:
            return Calibration(factor, scaled(event, factor), guarantee, Fraction(end), least)
        factor = rounded_up(factor * (1 + Fraction(2) ** nudge / 10**CURVE_DIGITS), CURVE_DIGITS)
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
