"""The common answer of all engines: bounds on the tails of the privacy loss, as logarithms.

L is the privacy loss of a composition. P is the law of the release from one of two neighbours, Q from the other one.
By definition Q(L = l) = exp(-l) P(L = l). For the noise used here, L has under Q the law that -L has under P. So the
answers are the same whichever neighbour is the true population.

Logarithms keep their precision where the probabilities are too small for a float.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from flint import arb

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational


@dataclass(frozen=True, slots=True)
class Tails:
    """Tails of the loss above an epsilon; natural logarithms, -inf for zero.

    Attributes:
        log_first: ln P(L > epsilon).
        log_second: ln Q(L > epsilon) = ln E[exp(-L); L > epsilon].
        log_delta: ln delta(epsilon), delta = P(L > epsilon) - exp(epsilon) Q(L > epsilon), computed as
            a sum of positive terms. It keeps its relative precision where the two probabilities nearly cancel.
    """

    log_first: Bounds
    log_second: Bounds
    log_delta: Bounds


class LossEngine(Protocol):
    """One way to compute the tails of the loss of a composition.

    Attributes:
        name: Name of the way, for the reader of a guarantee.
    """

    @property
    def name(self) -> str:
        """Short name of the engine."""

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`, any real number. A float stands for its exact value."""

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon. Many at once may take less time than each by itself."""


class DeltaByTails:
    """The deltas of an engine that has no quicker way to them than all tails."""

    __slots__ = ()

    def log_deltas(self: LossEngine, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon, any real number. A float stands for its exact value."""
        return ManyBounds.of([self.log_tails(epsilon).log_delta for epsilon in epsilons])


def exact_epsilon(epsilon: float | Fraction) -> Fraction:
    """The epsilon as an exact number.

    Raises:
        BudgetError: it is not finite.
    """
    try:
        return Fraction(epsilon)
    except (ValueError, OverflowError, TypeError) as error:
        raise BudgetError(f"epsilon must be a finite number, got {as_given(epsilon)}.") from error


def within_floats(epsilon: float | Fraction) -> Fraction:
    """The same, of a size that floats hold with room to spare.

    Raises:
        BudgetError: it is not finite, or above 1e301 or below -1e301.
    """
    # Floats end at 1.8e308. Seven orders are left for what epsilon is multiplied by and added to.
    exact = exact_epsilon(epsilon)
    if abs(exact) > 10**301:
        raise BudgetError(
            "epsilon must lie between -1e301 and 1e301 for this noise, got a number beyond. Give one such as 1.5."
        )
    return exact


def log_delta_of(engine: LossEngine, epsilon: float | Fraction) -> Bounds:
    """ln delta(epsilon), without the other tails where they take longer."""
    return engine.log_deltas([epsilon])[0]


NOTHING = Bounds(-math.inf, -math.inf)


def up(value: float) -> float:
    """The next larger float; an infinity is returned unchanged."""
    # nextafter moves by one unit and no more; an addition could round back to the same float.
    return math.nextafter(value, math.inf) if math.isfinite(value) else value


def down(value: float) -> float:
    """The next smaller float; an infinity is returned unchanged."""
    return math.nextafter(value, -math.inf) if math.isfinite(value) else value


def float_bounds(ball: arb) -> Bounds:
    """Floats on both sides of every number in a ball."""
    # arb's own ends are exact to its precision but round to nearest on the way to a float: one unit outwards covers it.
    return Bounds(down(float(ball.lower())), up(float(ball.upper())))


def upper_fraction(ball: arb) -> Fraction:
    """An exact number that is not below any number in a ball."""
    mantissa, exponent = ball.upper().man_exp()
    # The upper end of a ball is a binary fraction, so nothing is rounded here.
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def lower_fraction(ball: arb) -> Fraction:
    """An exact number that is not above any number in a ball."""
    return -upper_fraction(-ball)


def fraction_bounds(value: Fraction) -> Bounds:
    """The nearest floats on both sides of an exact number; equal where it is a float."""
    try:
        nearest = float(value)
    except OverflowError:
        # Beyond the largest float: the bound is the infinity on the far side and the largest float on the near one.
        huge = math.nextafter(math.inf, 0.0)
        return Bounds(huge, math.inf) if value > 0 else Bounds(-math.inf, -huge)
    # Exact comparison: only where the fraction is no float is the neighbour taken.
    exact = Fraction(nearest)
    return Bounds(nearest if exact <= value else down(nearest), nearest if exact >= value else up(nearest))


def log_bounds_of(value: Fraction) -> Bounds:
    """Natural logarithm of a positive exact number."""
    # 128 bits leave the float's 53 bits exact to the last place.
    with precision(128):
        return float_bounds(rational(value).log())


def probability(logarithm: Bounds) -> Bounds:
    """Bounds on the logarithm of a probability: no bound exceeds ln 1 = 0."""
    return Bounds(min(logarithm.lower, 0.0), min(logarithm.upper, 0.0))


def narrower(left: Tails, right: Tails) -> Tails:
    """The intersection of two answers to the same question."""
    pairs = (
        (left.log_first, right.log_first),
        (left.log_second, right.log_second),
        (left.log_delta, right.log_delta),
    )
    # Both answers hold, so the truth lies in the overlap. An empty one would be a contradiction, hence no check.
    return Tails(*(Bounds(max(a.lower, b.lower), min(a.upper, b.upper)) for a, b in pairs))


def log_of(scale: Bounds, total: float, error: float) -> Bounds:
    """Logarithm of exp(scale) * S where S >= 0 lies within `error` of `total`.

    The few operations here are each rounded once; four units in the last place cover all of them.
    """
    # total may be below the error: then no lower bound, and the upper end is total + error.
    low, high = (total - error) * (1 - 1e-15), (total + error) * (1 + 1e-15)
    upper = _widened(scale.upper + math.log(high), 1) if high > 0 else -math.inf
    lower = _widened(scale.lower + math.log(low), -1) if low > 0 else -math.inf
    return Bounds(min(lower, upper), upper)


def _widened(value: float, side: int) -> float:
    # An addition and a logarithm: 4 ulp of the result and 1e-15 for the factors above.
    return value + side * (4 * math.ulp(value) + 1e-15)
