"""What every engine answers: the tails of the privacy loss, from both sides, in logarithms.

L is the privacy loss of a composition under P, the release from one of the two neighbours; Q is the release
from the other one. Q(L = l) = exp(-l) P(L = l), and under Q the loss has the law of -L under P: the losses
counted here are the same whichever neighbour is the true population.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

from flint import arb

from tallyveil.accounting.bounds import Bounds


@dataclass(frozen=True, slots=True)
class Tails:
    """Tails of the loss above an epsilon; natural logarithms, -inf for zero.

    Attributes:
        log_first: ln P(L > epsilon).
        log_second: ln Q(L > epsilon) = ln E[exp(-L); L > epsilon].
        log_delta: ln delta(epsilon), delta = P(L > epsilon) - exp(epsilon) Q(L > epsilon), summed from
            positive terms, so that it keeps its relative precision where the two nearly cancel.
    """

    log_first: Bounds
    log_second: Bounds
    log_delta: Bounds


@runtime_checkable
class LossEngine(Protocol):
    """One way to evaluate the tails of a composition's loss.

    Attributes:
        name: Which way, for the reader of a guarantee.
    """

    @property
    def name(self) -> str:
        """Short name of the engine."""

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`, any real; the number is taken exactly."""


NOTHING = Bounds(-math.inf, -math.inf)


def up(value: float) -> float:
    """Next float above; infinities stay."""
    return math.nextafter(value, math.inf) if math.isfinite(value) else value


def down(value: float) -> float:
    """Next float below; infinities stay."""
    return math.nextafter(value, -math.inf) if math.isfinite(value) else value


def float_bounds(ball: arb) -> Bounds:
    """Floats on both sides of every number in a ball."""
    return Bounds(down(float(ball.lower())), up(float(ball.upper())))


def fraction_bounds(value: Fraction) -> Bounds:
    """The nearest floats on both sides of an exact number; equal where it is a float."""
    try:
        nearest = float(value)
    except OverflowError:
        huge = math.nextafter(math.inf, 0.0)
        return Bounds(huge, math.inf) if value > 0 else Bounds(-math.inf, -huge)
    exact = Fraction(nearest)
    return Bounds(nearest if exact <= value else down(nearest), nearest if exact >= value else up(nearest))


def probability(logarithm: Bounds) -> Bounds:
    """The same bounds, but for what exceeds a probability of 1."""
    return Bounds(min(logarithm.lower, 0.0), min(logarithm.upper, 0.0))


def narrower(one: Tails, other: Tails) -> Tails:
    """What two answers to the same question say together."""
    pairs = (
        (one.log_first, other.log_first),
        (one.log_second, other.log_second),
        (one.log_delta, other.log_delta),
    )
    return Tails(*(Bounds(max(a.lower, b.lower), min(a.upper, b.upper)) for a, b in pairs))


def log_of(scale: Bounds, total: float, error: float) -> Bounds:
    """Logarithm of exp(scale) * S where S >= 0 lies within `error` of `total`.

    Floats here are a few rounded operations from exact; four units in the last place cover them.
    """
    low, high = (total - error) * (1 - 1e-15), (total + error) * (1 + 1e-15)
    upper = _widened(scale.upper + math.log(high), 1) if high > 0 else -math.inf
    lower = _widened(scale.lower + math.log(low), -1) if low > 0 else -math.inf
    return Bounds(min(lower, upper), upper)


def _widened(value: float, side: int) -> float:
    return value + side * (4 * math.ulp(value) + 1e-15)
