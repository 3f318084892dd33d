"""The least noise for a stated guarantee: the inverse of accounting, rounded in the safe direction.

The problem: find the smallest factor f on all noise such that the certified upper bound of delta(epsilon) is at most
the target delta.

The steps, with x = ln f:

1. Guess x from an approximation of delta that costs little and certifies nothing (`accounting/approximation.py`).
2. Find two certified values beside the guess, one on either side of the target.
3. Search between them, with certified values only, until x is known to more digits than are asked for.
4. Round f up, and raise its last digit until a certified value meets the target. Only this step is the claim: the
   first three say where to look.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Generic, TypeVar, cast

from scipy.optimize import brentq

from tallyveil.accounting.approximation import approximate_log_delta
from tallyveil.accounting.composition import compose
from tallyveil.accounting.conversion import real_number
from tallyveil.accounting.engines.tails import log_bounds_of
from tallyveil.accounting.events import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.accounting.further_events import ZCDP, ApproximateDP, Gaussian, Laplace, RandomizedResponse
from tallyveil.accounting.guarantee import Guarantee
from tallyveil.accounting.losses.further import further, of_integers
from tallyveil.accounting.losses.loss_laws import alternatives_of, branches_of_one_law
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given, in_short

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
        case PoissonSampled():
            # The probability is how records are drawn, and no noise.
            return PoissonSampled(scaled(event.event, factor), event.probability, event.multiplicity)
        case IntegerSubspaceLaplace():
            return replace(event, epsilon=event.epsilon / factor)
        case IntegerSubspaceGaussian():
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
