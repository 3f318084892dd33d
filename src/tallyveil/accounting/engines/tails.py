"""The common answer of all engines: bounds on the tails of the privacy loss, as logarithms.

`ManyBounds` are two-sided answers to many questions at once, as two arrays. Arithmetic on bounds of
logarithms of probabilities is rounded outwards, for one number or for many at once. The bounds hold if the
platform's exp, expm1, log and log1p are right to 16 units in the last place.

L is the privacy loss of a composition. P is the law of the release from one of two neighbours, Q from the
other one. By definition Q(L = l) = exp(-l) P(L = l). For the noise used here, L has under Q the law that -L
has under P. So the answers are the same whichever neighbour is the true population.

Logarithms keep their precision where the probabilities are too small for a float.

`tails_by_chords` finds both probabilities for an engine that knows only delta: Q(L > epsilon) is minus the
slope of delta as a function of exp(epsilon), which chords bound.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol, TypeVar, overload

import numpy as np
from flint import arb

from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Bools, Floats
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational


@dataclass(frozen=True, slots=True, eq=False)
class ManyBounds(Sequence[Bounds]):
    """Many numbers known from both sides; each one, asked for by its place, is a `Bounds`.

    Attributes:
        lower: None is above the truth.
        upper: None is below the truth; what a privacy claim may state.
    """

    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        if not (self.lower <= self.upper).all():  # not true of nan either
            raise BudgetError(
                f"arrays of bounds must have lower <= upper everywhere, got {self.lower} and {self.upper}"
            )
        # Shared and cached: a caller who wrote to them would change a certified answer.
        for side in (self.lower, self.upper):
            side.setflags(write=False)

    @classmethod
    def of(cls, bounds: Sequence[Bounds]) -> "ManyBounds":
        """The same numbers as two arrays."""
        return cls(np.array([pair.lower for pair in bounds]), np.array([pair.upper for pair in bounds]))

    @property
    def width(self) -> Floats:
        """upper - lower."""
        with np.errstate(invalid="ignore"):
            # Equal infinities have the width 0, and their difference would be no number.
            widths: Floats = np.where(self.lower == self.upper, 0.0, self.upper - self.lower)
        return widths

    def where(self, chosen: Bools, other: "ManyBounds") -> "ManyBounds":
        """These numbers at the places chosen, and the other ones elsewhere."""
        return ManyBounds(
            np.where(chosen, self.lower, other.lower), np.where(chosen, self.upper, other.upper)
        )

    def at(self, places: slice | Bools) -> "ManyBounds":
        """These numbers at some places."""
        return ManyBounds(self.lower[places], self.upper[places])

    def __len__(self) -> int:
        return self.lower.size

    @overload
    def __getitem__(self, place: int) -> Bounds: ...

    @overload
    def __getitem__(self, place: slice) -> "ManyBounds": ...

    def __getitem__(self, place: int | slice) -> "Bounds | ManyBounds":
        if isinstance(place, slice):
            return self.at(place)
        return Bounds(float(self.lower[place]), float(self.upper[place]))

    def __iter__(self) -> Iterator[Bounds]:
        return map(Bounds, self.lower.tolist(), self.upper.tolist())


Known = TypeVar("Known", Bounds, ManyBounds)
Number = float | Floats

_SLACK: Final = 80 * 2.3e-16  # relative error of the few operations here, with room to spare
_LAST_PLACES: Final = 16 * 2.3e-16  # relative error of one function of the platform
_LEAST: Final = 1e-322  # the same where the result is below the least normal float
_LARGEST_EXPONENT: Final = 700.0  # floats overflow at exp(709.8); the sum is cut at 1 in any case


def exponential(logarithm: Known) -> Known:
    """x from ln x, for a probability x."""
    lower = np.maximum(np.exp(logarithm.lower) * (1 - _LAST_PLACES) - _LEAST, 0.0)
    upper = np.exp(logarithm.upper) * (1 + _LAST_PLACES)
    # A number that is too small for a float is rounded up, not to 0.
    upper = np.minimum(upper + np.where(np.isneginf(logarithm.upper), 0.0, _LEAST), 1.0)
    return _like(logarithm, np.minimum(lower, upper), upper)


def log_rest(log_part: Known) -> Known:
    """ln(1 - x) from ln x."""
    lower = _log_one_minus(_exp_above(log_part.upper)) * (1 + _SLACK)
    upper = _log_one_minus(np.exp(log_part.lower) * (1 - _SLACK)) * (1 - _SLACK)
    return _like(log_part, lower, np.maximum(lower, upper))


def log_sum(log_part: Known, log_other: Known, log_factor: Number) -> Known:
    """ln min(1, x + f y) from ln x, ln y and ln f >= 0."""
    slack = _SLACK * (1 + log_factor)
    low = np.minimum(_LARGEST_EXPONENT, log_factor + log_other.lower - slack)
    high = np.minimum(_LARGEST_EXPONENT, log_factor + log_other.upper + slack)
    lower = np.exp(log_part.lower) + np.exp(low)
    upper = _exp_above(log_part.upper) + _exp_above(high)
    return _like(
        log_part,
        np.minimum(0.0, _log(lower * (1 - _SLACK))),
        np.minimum(0.0, _log(upper * (1 + _SLACK)) + _SLACK),
    )


def log_reflected(epsilon: Number, log_delta: Known) -> Known:
    """ln delta(epsilon) from ln delta(-epsilon), for an epsilon below 0 that is rounded to nearest, -1e300 at least.

    Both neighbours have the same loss law, so delta(e) = 1 - exp(e) + exp(e) delta(-e) = 1 - exp(e) (1 - delta(-e)).
    """
    slack = _SLACK * (1 - epsilon)
    share = -np.expm1(epsilon)
    lower = share + np.exp(epsilon + log_delta.lower - slack)
    upper = share + _exp_above(epsilon + log_delta.upper + slack)
    gone = log_rest(log_delta)
    rest = log_rest(
        _like(log_delta, epsilon + gone.lower - slack, np.minimum(0.0, epsilon + gone.upper + slack))
    )
    small = upper < 0.5
    lowest = _log(lower * (1 - _SLACK)) - 40 * _SLACK
    highest = _log(upper * (1 + _SLACK)) + 40 * _SLACK
    return _like(log_delta, np.where(small, lowest, rest.lower), np.where(small, highest, rest.upper))


def _like(model: Known, lower: Number, upper: Number) -> Known:
    """Bounds of one number or of many, as those of the model."""
    if isinstance(model, ManyBounds):
        return ManyBounds(np.asarray(lower), np.asarray(upper))
    return Bounds(float(lower), float(upper))


def _exp_above(value: Number) -> Floats:
    # A number that is too small for a float is rounded up, not to 0.
    above: Floats = np.exp(value) * (1 + _SLACK) + np.where(np.isneginf(value), 0.0, 1e-300)
    return above


def _log(value: Number) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(np.maximum(value, 0.0))
    return logs


def _log_one_minus(value: Number) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log1p(-np.minimum(value, 1.0))
    return logs


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


# Relative rounding of a chord's slope and of its two ends, with room: some 4,500 units in the last place. Twice of it
# widens both probabilities by another 1e-12, which nothing else here is as exact as.
_CHORD_SLACK = 1e-12


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
    # One longer than 100 would say no more, and soon overflow.
    exact, chord = within_floats(epsilon), Fraction(min(max(length, 1e-9), 100))
    before, here, after = engine.log_deltas([exact - chord, exact, exact + chord])
    e, d = float(exact), float(chord)
    # No loss above epsilon: delta and both probabilities are 0, and the logarithms below would be of 0.
    if here.upper == -math.inf:
        return Tails(here, here, here)
    # (delta(e) - delta(e + d)) / (exp(e + d) - exp(e)) <= Q <= (delta(e - d) - delta(e)) / (exp(e) - exp(e - d))
    lower = _widened_chord(_log_less(here.lower, after.upper) - e - math.log(math.expm1(d)), e, -1)
    # Q is a probability: its logarithm is never above 0, whatever the chords allow.
    upper = min(
        _widened_chord(_log_less(before.upper, here.lower) - e - math.log(-math.expm1(-d)), e, 1), 0.0
    )
    # Each end is computed by itself, so rounding could cross them; the upper one is the safe one to keep.
    second = Bounds(min(lower, upper), upper)
    # P = delta + exp(epsilon) Q adds two positive numbers, so nothing cancels here.
    most = _log_sum(here.upper, second.upper + e)
    first = Bounds(
        min(_log_sum(here.lower, second.lower + e), most, 0.0), min(_widened_chord(most, e, 1), 0.0)
    )
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


def _widened_chord(value: float, epsilon: float, side: int) -> float:
    # An infinity stays exact: it says that nothing, or all, is known, and no rounding happened on the way to it.
    return value + side * _CHORD_SLACK * (1 + abs(value) + abs(epsilon)) if math.isfinite(value) else value
