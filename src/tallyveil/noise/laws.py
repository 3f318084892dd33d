"""Probability laws of integer noise, with certified distribution functions.

Problem. Wanted are proved binary digits of P(X <= j), for a law that is symmetric around zero with support on all
integers. Both laws have one exact parameter: variance v of the discrete Gaussian, scale s of the discrete Laplace.

Steps. Tail probabilities P(X >= x) are computed in ball arithmetic (`tallyveil.noise.balls`), so each result is an
interval that certainly contains the true number.
- Gaussian: weights exp(-x**2 / 2v), divided by their sum Z over the integers. The tail of 1 is (1 - 1 / Z) / 2, and
each
  further tail subtracts one weight. Z and the variance come from a quickly converging sum (`_lattice_sums`).
- Laplace: with r = exp(-1 / s), P(X >= x) = r**x / (1 + r).

Stopping rule. If a ball does not decide a digit, the working precision doubles, up to MAX_PRECISION bits; then an error
is raised.

Worked case. For the Laplace law with s = 1, r = 0.3679, so P(X >= 1) = 0.3679 / 1.3679 = 0.2689. By symmetry
P(X <= -1) = 0.2689 too, and P(X = 0) = 1 - 2 x 0.2689 = 0.4621.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, islice
from typing import Final

from flint import arb

from tallyveil.errors import BudgetError, SolverError
from tallyveil.exact import as_given, in_short
from tallyveil.noise.balls import (
    MAX_PRECISION,
    between_zero_and,
    certified_float,
    certified_floor,
    power_of_two,
    precision,
    rational,
)

SMALLEST_PARAMETER: Final = Fraction(1, 250)
"""Below this parameter, noise differs from zero at most about once in 10**54 draws, and the variance could leave the
range of floats."""
# Largest parameter in counts squared: a spread of 1e5 counts. The table of such a law takes seconds and tens of MiB
# (`InversionTable.build`); twice the spread takes twice both.
LARGEST_VARIANCE: Final = Fraction(10**10)
# As above, in counts: the deviation of this law is the root of 2 times as large.
LARGEST_SCALE: Final = Fraction(10**5)

# Bits for numbers that become floats: far more than the 48 that are needed, so that one try is enough, also for
# probabilities far out in the tail. Twice as many would only cost time.
_FLOAT_PRECISION: Final = 192


def _checked_parameter(law: str, name: str, value: object, largest: Fraction) -> Fraction:
    if not isinstance(value, Fraction):
        raise BudgetError(
            f"{law}: {name} is a {type(value).__name__} ({as_given(value)}), wanted a fractions.Fraction. Noise "
            "parameters are exact numbers: write Fraction('68.49') or Fraction(45, 4), never a float."
        )
    if not SMALLEST_PARAMETER <= value <= largest:
        raise BudgetError(
            f"{law}: {name} is about {in_short(value)}, wanted a value from {SMALLEST_PARAMETER} to "
            f"{float(largest):.0e}. Change the privacy-loss budget, or this query's share of it. A larger budget "
            "makes the number smaller."
        )
    return value


class IntegerLaw(ABC):
    """A law on the integers that is symmetric around zero, with a certified distribution function."""

    __slots__ = ()

    @property
    @abstractmethod
    def _guard_bits(self) -> int:
        """Extra working precision that compensates for rounding in `_tails`."""

    @abstractmethod
    def _tails(self, unit: arb) -> Iterator[arb]:
        """unit * P(X >= x) for x = 1, 2, 3, ... at the current precision."""

    @abstractmethod
    def _tail_bound(self, x: int) -> arb:
        """A ball that contains some upper bound of P(X >= x), for x >= 1. It takes little time for any x."""

    @abstractmethod
    def _probability(self, x: int) -> arb:
        """P(X = x) at the current precision, with good relative accuracy."""

    @abstractmethod
    def _variance(self) -> arb:
        """The variance at the current precision, with good relative accuracy."""

    def _tail(self, x: int, unit: arb) -> arb:
        """unit * P(X >= x) for x >= 1."""
        # Term by term from x = 1: costs x steps. Laws with a closed form override it.
        return next(islice(self._tails(unit), x - 1, None))

    def cdf(self, j: int, bits: int = 64) -> arb:
        """P(X <= j) as a ball, computed with `bits` bits plus a guard. The time grows with abs(j)."""
        # The guard is part of the working precision alone; the ball that comes back still proves its own width.
        with precision(bits + self._guard_bits):
            if j < 0:
                return self._tail(-j, arb(1))
            return 1 - self._tail(j + 1, arb(1))

    def tail_floor(self, x: int, bits: int) -> int:
        """Certified floor of 2**bits * P(X >= x), for x >= 1.

        Raises:
            SolverError: MAX_PRECISION bits do not decide the floor (the number would have to be an integer).
        """
        # The quick way out for far tails, where the sum of x terms would take long. It is a proof as well: a tail
        # below 2**-bits has the floor 0.
        if self.tail_is_below(x, bits):
            return 0
        working = bits + self._guard_bits
        while working <= MAX_PRECISION:
            with precision(working):
                floor = certified_floor(self._tail(x, power_of_two(bits)))
            if floor is not None:
                return floor
            # Doubling keeps the total work within twice that of the last try.
            working *= 2
        raise SolverError(
            f"{as_given(self)}: the first {bits} bits of P(X >= {x}) are undecided at {MAX_PRECISION} bits of "
            "working precision. Use a slightly different parameter, and please report this one."
        )

    def tail_is_below(self, x: int, bits: int) -> bool:
        """Whether the quick bound proves P(X >= x) < 2**-bits, for x >= 1."""
        # False does not mean that the tail is larger: the bound may be too coarse. Callers only rely on True.
        with precision(64 + self._guard_bits):
            return bool(self._tail_bound(x) < power_of_two(-bits))

    def tail_floors(self, bits: int, least: int) -> list[int]:
        """Certified floors of 2**bits * P(X >= x) for x = 1, 2, ..., up to the first floor below `least`.

        Args:
            bits: Number of binary digits.
            least: The limit, 1 or more.
        """
        floors: list[int] = []
        with precision(bits + self._guard_bits):
            # One run of the recurrence gives all tails: n steps in all, where n calls of `tail_floor` would take
            # n**2.
            for x, ball in enumerate(self._tails(power_of_two(bits)), start=1):
                floor = certified_floor(ball)
                # Rare: the ball touches a whole number. This tail alone is computed again, with more bits.
                if floor is None:
                    floor = self.tail_floor(x, bits)
                floors.append(floor)
                # The first floor below the limit is kept as the last entry: the table needs it to know where tails
                # begin.
                if floor < least:
                    break
        return floors

    def floor_bits(self, j: int, bits: int) -> int:
        """Certified floor of 2**bits * P(X <= j): the first `bits` binary digits of the upper boundary of outcome j.

        Raises:
            SolverError: MAX_PRECISION bits do not decide the floor.
        """
        if j < 0:
            return self.tail_floor(-j, bits)
        # floor(N (1 - t)) = N - 1 - floor(N t), because tail_floor has proved that N t is not an integer.
        return (1 << bits) - 1 - self.tail_floor(j + 1, bits)

    def margin(self, confidence: Fraction) -> int:
        """Smallest m with P(abs(X) <= m) >= confidence: the exact two-sided quantile.

        Raises:
            BudgetError: the confidence is not a Fraction, or not in [0, 1).
            SolverError: MAX_PRECISION bits do not decide which m is the smallest.
        """
        if not isinstance(confidence, Fraction) or not 0 <= confidence < 1:
            raise BudgetError(
                f"{as_given(self)}: confidence is {as_given(confidence)}, wanted a Fraction of at least 0 and below 1. "
                "Write Fraction(9, 10) for 90 %."
            )
        # Each tail gets half, by symmetry. The exact fraction needs as many bits as its denominator has, so that a
        # confidence such as 1 - 10**-30 can be told from its neighbours.
        allowed = (1 - confidence) / 2
        working = 64 + self._guard_bits + allowed.denominator.bit_length()
        while working <= MAX_PRECISION:
            with precision(working):
                margin = self._first_tail_at_most(rational(allowed))
            if margin is not None:
                return margin
            working *= 2
        raise SolverError(
            f"{as_given(self)}: P(abs(X) <= m) is too close to {confidence} to be distinguished from it at "
            f"{MAX_PRECISION} bits of precision. Use a slightly different confidence."
        )

    def _first_tail_at_most(self, allowed: arb) -> int | None:
        # The tail number `margin` is P(X >= margin + 1), so the first one that is small enough gives the quantile.
        for margin, tail in enumerate(self._tails(arb(1))):
            if tail <= allowed:
                return margin
            # Neither certainly at most nor certainly above: more bits are needed, and the caller doubles them.
            if not tail > allowed:
                return None
        return None

    def probability_ball(self, x: int, bits: int = _FLOAT_PRECISION) -> arb:
        """P(X = x) as a ball, computed at `bits` bits plus a guard."""
        with precision(bits + self._guard_bits):
            return self._probability(x)

    def probability(self, x: int) -> float:
        """P(X = x), with relative error below 2**-47, or 0.0 if it is too small for a float."""
        with precision(_FLOAT_PRECISION + self._guard_bits):
            return certified_float(self._probability(x))

    def variance_ball(self, bits: int = _FLOAT_PRECISION) -> arb:
        """The variance of the law itself as a ball, computed at `bits` bits plus a guard."""
        with precision(bits + self._guard_bits):
            return self._variance()

    def variance_float(self) -> float:
        """The variance of the law itself, with relative error below 2**-47."""
        with precision(_FLOAT_PRECISION + self._guard_bits):
            return certified_float(self._variance())

    def standard_deviation(self) -> float:
        """The standard deviation of the law itself, with relative error below 2**-47."""
        with precision(_FLOAT_PRECISION + self._guard_bits):
            return certified_float(self._variance().sqrt())


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(IntegerLaw):
    """P(X = x) proportional to exp(-x**2 / (2 variance)) on the integers.

    Attributes:
        variance: The parameter, in counts squared; an exact Fraction from 1/250 to 1e10. The variance of the law itself
            is slightly smaller (`variance_float`), noticeably so only for parameters below 1.

    Raises:
        BudgetError: the parameter is not a Fraction or lies outside the range.

    Source: Canonne, Kamath, Steinke 2020, Definition 1.
    """

    variance: Fraction

    def __post_init__(self) -> None:
        _checked_parameter("DiscreteGaussian", "variance", self.variance, LARGEST_VARIANCE)

    @property
    def _guard_bits(self) -> int:
        # Weights are computed as products of products, so their relative error grows with x**2. The largest x used is
        # a moderate multiple of the standard deviation.
        return 64 + 2 * (int(self.variance) + 1).bit_length()

    def _lattice_sums(self) -> tuple[arb, arb]:
        """(Z, variance): the sum of exp(-x**2 / 2v) over the integers, and the variance of the law.

        By Poisson summation, Z = sqrt(2 pi v) * (sum of exp(-2 pi**2 v k**2) over the integers k). The sum that
        converges faster is computed. The variance is 2 v**2 times the logarithmic derivative of Z by v.
        """
        v = rational(self.variance)
        # Both series have a rate of at least 1 on their side of v = 1/2, as `_quick_sums` wants: 1 / 2v, or 2 pi**2
        # v, which is 9.9 there. So a few terms suffice for every variance.
        if self.variance <= Fraction(1, 2):
            total, moment = _quick_sums(1 / (2 * v))
            z = 1 + 2 * total
            return z, 2 * moment / z
        pi = arb.pi()
        total, moment = _quick_sums(2 * pi * pi * v)
        dual = 1 + 2 * total
        # The second term is 0.2 % of v at v = 1/2 and far less above, so that nothing is lost by the subtraction.
        return (2 * pi * v).sqrt() * dual, v - 8 * (pi * v) ** 2 * moment / dual

    def _tails(self, unit: arb) -> Iterator[arb]:
        # Weights by two multiplications each instead of an exponential: exp(-(x+1)^2 / 2v) = exp(-x^2 / 2v) *
        # ratio, and the ratio shrinks by the factor exp(-1 / v) from one x to the next.
        v = rational(self.variance)
        z, _ = self._lattice_sums()
        step = (-1 / v).exp()
        ratio = (-1 / (2 * v)).exp()  # weight of x + 1 over weight of x
        weight = unit / z
        # By symmetry P(X >= 1) = (1 - P(X = 0)) / 2. Subtracting weights loses digits as tails get small, which the
        # ball shows by its radius; the guard bits and the doubling in `tail_floor` make up for it.
        tail = (unit - weight) / 2
        while True:
            yield tail
            weight = weight * ratio
            tail = tail - weight
            ratio = ratio * step

    def _tail_bound(self, x: int) -> arb:
        # Beyond x, each weight is at most exp(-(2 x + 1) / 2v) times the previous one.
        return self._probability(x) / (1 - (-(2 * x + 1) / (2 * rational(self.variance))).exp())

    def _probability(self, x: int) -> arb:
        z, _ = self._lattice_sums()
        return (-(x * x) / (2 * rational(self.variance))).exp() / z

    def _variance(self) -> arb:
        return self._lattice_sums()[1]


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(IntegerLaw):
    """P(X = x) proportional to exp(-abs(x) / scale) on the integers: the two-sided geometric law.

    Attributes:
        scale: The parameter, in counts; an exact Fraction from 1/250 to 1e5.

    Raises:
        BudgetError: the parameter is not a Fraction or lies outside the range.

    Source: Ghosh, Roughgarden, Sundararajan 2012, Definition 2.1, with alpha = exp(-1 / scale).
    """

    scale: Fraction

    def __post_init__(self) -> None:
        _checked_parameter("DiscreteLaplace", "scale", self.scale, LARGEST_SCALE)

    @property
    def _guard_bits(self) -> int:
        return 64 + 2 * (int(self.scale) + 1).bit_length()

    def _tails(self, unit: arb) -> Iterator[arb]:
        # The geometric law has no subtraction, so its relative error grows only by one rounding a step.
        ratio = (-1 / rational(self.scale)).exp()
        tail = unit / (1 + ratio)
        while True:
            tail = tail * ratio
            yield tail

    def _tail(self, x: int, unit: arb) -> arb:
        rate = -1 / rational(self.scale)
        # Closed form: any x costs the same, which makes the quick bound exact for this law.
        return unit * (x * rate).exp() / (1 + rate.exp())

    def _tail_bound(self, x: int) -> arb:
        return self._tail(x, arb(1))

    def _probability(self, x: int) -> arb:
        rate = -1 / rational(self.scale)
        # expm1, since 1 - exp(-1 / scale) would lose five decimal digits at the largest scale.
        return -rate.expm1() / (1 + rate.exp()) * (abs(x) * rate).exp()

    def _variance(self) -> arb:
        rate = -1 / rational(self.scale)
        return 2 * rate.exp() / rate.expm1() ** 2


Law = DiscreteGaussian | DiscreteLaplace


def _quick_sums(rate: arb) -> tuple[arb, arb]:
    """Sums over k >= 1 of exp(-rate k**2) and of k**2 exp(-rate k**2), for rate >= 1.

    The result includes a bound on the omitted terms. From one k to the next, a term of either sum shrinks at least by
    the factor 4 exp(-3) < 1/2, so the omitted terms sum to at most twice the first omitted term. Terms are added until
    this is at most the rounding error of the sum, which is not zero once there is a term: no term is exact.
    """
    total, moment = arb(0), arb(0)
    for k in count(1):
        term = (-rate * (k * k)).exp()
        rest = 2 * k * k * term
        # `rest` is twice the first omitted term of the larger sum, which covers what is left out of both.
        if rest <= total.rad():
            break
        total, moment = total + term, moment + k * k * term
    remainder = between_zero_and(rest)
    return total + remainder, moment + remainder
