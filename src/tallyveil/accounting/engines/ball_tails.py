"""Engines in ball arithmetic, which prove every error: an integer polynomial, enumeration, a normal loss, one sample.

*`Proved`* encloses the law of L = W + h Z, Z on the integers, as one polynomial with integer coefficients. Coefficient
z is the mass of Z = z in multiples of 2^-`bits`, rounded down. m = 2 W / h is a whole number, with which Q(Z >= z) =
P(Z <= -m - z).

1. Enclose the probabilities of every factor in balls, and round them down to multiples of 2^-bits.
2. Multiply the factors as integer polynomials, exactly. After each product round down again and cut off far values.
3. The missing mass is one minus all that was found. Each step only removes mass, so the true probability of any set
   lies between the mass found there and that plus the missing mass.

Example with 8 bits, for two answers of sensitivity 1 with exp(-1 / t) = 1/2: one answer has the masses 1/3 and 2/3,
rounded down 85 and 170, with 1 missing. Their square has the coefficients 28, 112, 112, with 4 of 256 missing.

*`Enumeration`* of every combination of losses is plainly right, and slow. It needs no lattice, so that it is the best
engine for a few losses that share none and have little Gaussian noise beside them, and the tests compare the other
engines with it. A table maps each value of a loss, an exact fraction, to its probability, a ball; each answer adds its
losses and multiplies the probabilities. More generally the transform E exp(z L) is the sum of exp(z a) f(1 / y) over
the values a of the table, with y = z + 1/2 and polynomials f. A loss that takes the values in the table has constants
f. That of real Laplace noise takes epsilon and -epsilon with f = 1/2 + 1/(4 y) and exp(-epsilon) (1/2 - 1/(4 y)). In
the end exp(z a) y^-k contributes to the tails at epsilon if a is above it, by an inverse transform in closed form
(docs/proofs/off-lattice.md, section 9). Gaussian noise is cut off far from 0, which widens the bounds by at most one
minus the probability that the table holds. All other losses have finite tables, so every delta keeps its digits.

*`Normal`*, one normal loss, or real answers with normal noise together: delta = Phi(mu / 2 - epsilon / mu) -
exp(epsilon) Phi(-mu / 2 - epsilon / mu), with a precision that is raised until the difference has 60 proved bits.
Source: Balle, Wang 2018, Theorem 8. *`OneSample`* has one sample of normal noise, by the same means.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Final, TypeAlias

import flint
from flint import arb, arb_poly, fmpz, fmpz_poly

from tallyveil.accounting.engines.moments import estimated_length, greatest_bounds
from tallyveil.accounting.engines.sampled import kinds_of, losses_of_sample, number_of_losses
from tallyveil.accounting.engines.tails import (
    NOTHING,
    DeltaByTails,
    Tails,
    float_bounds,
    probability,
    within_floats,
)
from tallyveil.accounting.losses import (
    ChoiceLoss,
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    LossFactor,
    LossLattice,
    MixtureLoss,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    common_step,
    lattice_of,
    merged,
    of_integers,
)
from tallyveil.accounting.numbers import Bounds, at_most
from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.balls import between_zero_and, precision, rational

MOST_BITS: Final = 1 << 20
"""More working precision than this is refused."""

Countable: TypeAlias = LossFactor | ExponentialLoss | ResponseLoss | SampledLoss
"""Losses that an enumeration takes; of samples, those of noise with finitely many losses."""

_ACCURACY_BITS: Final = 140
"""Bits beyond those that resolve the least delta: 67 for 20 digits, the rest for lost mass and for cancellation."""


def resolving_bits(factors: tuple[LossFactor, ...], least_delta: Fraction) -> int:
    """Bits that resolve both tails at the epsilon of the least delta.

    The tail under Q is smaller than the tail under P by a factor of about exp(epsilon), and zCDP bounds that epsilon.
    An answer with Laplace noise whose loss is at most e satisfies zCDP with rho = e^2 / 2.
    """
    # Exact, since the message names it and since no float sum may decide how many bits an answer gets.
    exact = sum(
        (
            factor.multiplicity
            * Fraction(factor.sensitivity**2)
            / (2 * (factor.variance if isinstance(factor, GaussianLoss) else factor.scale**2))
            for factor in factors
        ),
        Fraction(0),
    )
    rho = float(min(exact, Fraction(10**9)))  # far above what the bits allow, and no overflow
    depth = math.log(least_delta.denominator) - math.log(least_delta.numerator)
    # zCDP bounds epsilon by rho + 2 sqrt(rho ln(1 / delta)); Q's tail lies that many nats below delta itself.
    lost = depth + rho + 2 * math.sqrt(rho * depth)
    # Refused before any ball is made: a million bits a number is far beyond what an answer is worth.
    if lost > MOST_BITS:
        raise BudgetError(
            f"the exact loss distribution of this composition would need at least {lost:.3g} bits of "
            f"precision, wanted at most {MOST_BITS}: the composition costs rho = {at_most(exact, 3)}, and the least "
            f"delta asked for is exp(-{depth:.4g}). Use another engine, or a larger least delta."
        )
    # Nats to bits. Too few bits would not make a bound wrong, only wide.
    return math.ceil(lost / math.log(2)) + _ACCURACY_BITS


def tails_of_balls(first: arb, second: arb, delta: arb) -> Tails:
    """Tails whose probabilities lie in three balls.

    Args:
        first: P(L > epsilon).
        second: Q(L > epsilon).
        delta: The hockey-stick divergence.
    """
    return Tails(log_first=log_bounds(first), log_second=log_bounds(second), log_delta=log_bounds(delta))


def log_bounds(probability: arb) -> Bounds:
    """Bounds on the logarithm of a probability known to lie in a ball."""
    # A ball is an interval: the logarithm of each of its ends bounds the logarithm of whatever lies in it.
    low, high = probability.lower(), probability.upper()
    lower = float_bounds(low.log()).lower if low > 0 else -math.inf
    if not high <= 1:  # a ball too wide to say anything, or no number at all
        return Bounds(min(lower, 0.0), 0.0)
    upper = min(0.0, float_bounds(high.log()).upper) if high > 0 else -math.inf
    return Bounds(min(lower, upper), upper)


MAX_POINTS: Final = 1 << 24
"""Lattice points of the total loss above which the composition is refused."""

MAX_BITS: Final = 1 << 31
"""Number of points times bits above which the composition is refused; this is a quarter of a gigabyte."""


@dataclass(frozen=True, slots=True)
class Proved(DeltaByTails):
    """Composition of any losses whose common lattice is small enough; answers are balls.

    Attributes:
        lattice: The lattice of the total loss.
        bits: Masses are whole multiples of 2^-bits.
        lowest: The least Z with a mass above 0.
        masses_from: [points + 1]; entry i is the mass of Z >= lowest + i, rounded down.
        missing: The mass that was removed, in the same unit.
    """

    lattice: LossLattice
    bits: int
    lowest: int
    masses_from: tuple[fmpz, ...] = field(repr=False)
    missing: fmpz = field(repr=False)
    name: str = "proved"

    @classmethod
    def build(
        cls, factors: tuple[LossFactor, ...], *, least_delta: Fraction = Fraction(1, 10**30)
    ) -> "Proved":
        """Multiply the laws of all factors.

        Args:
            factors: The composition.
            least_delta: A delta of this size or more has at least 20 proved digits. Bounds of smaller ones still hold.

        Raises:
            BudgetError: the lattice is too large; the message names its size.
        """
        factors = merged(factors)
        lattice = lattice_of(factors)
        bits = resolving_bits(factors, least_delta)
        # Refused from the size alone, before anything is made.
        _check_size(factors, lattice, bits)
        with precision(bits + 64):
            # One answer of nothing: the mass 1 at 0, in units of 2^-bits.
            law, lowest = fmpz_poly([fmpz(1) << bits]), 0
            # Variances add, and a sum of discrete Gaussians is subgaussian with at most their sum, so its reach is
            # known.
            spread = 0.0  # subgaussian variance proxy of the Gaussian part of Z
            # Finite supports last: only the Gaussian part has tails to cut off.
            for factor, weight in sorted(
                zip(factors, lattice.weights, strict=True),
                key=lambda pair: (isinstance(pair[0], LaplaceLoss), pair[1]),
            ):
                power, low = _power(factor, bits)
                law, lowest = _shifted(law * _spread(power, weight), bits), lowest + weight * low
                if isinstance(factor, GaussianLoss):
                    spread += factor.multiplicity * weight**2 * float(factor.variance)
                    law, lowest = _cut(law, lowest, _reach(spread, bits))
        masses_from = [fmpz(0)]
        # Sums from the top once, so that every tail afterwards is one look-up.
        for mass in reversed(law.coeffs()):
            masses_from.append(masses_from[-1] + mass)
        masses_from.reverse()
        return cls(lattice, bits, lowest, tuple(masses_from), (fmpz(1) << bits) - masses_from[0])

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        with precision(self.bits + 64):
            return tails_of_balls(*self.balls(Fraction(epsilon)))

    def balls(self, epsilon: Fraction) -> tuple[arb, arb, arb]:
        """P(L > epsilon), Q(L > epsilon) and delta(epsilon)."""
        with precision(self.bits + 64):
            # The least Z with W + h Z > epsilon.
            first, second = self._tails_from(
                # Exact: no loss is counted on the wrong side of an epsilon that is itself a loss.
                math.floor((epsilon - self.lattice.offset) / self.lattice.step) + 1
            )
            # Balls: the two masses cancel where epsilon is large, and their width says how far.
            return first, second, first - rational(epsilon).exp() * second

    def _tails_from(self, z: int) -> tuple[arb, arb]:
        """P(Z >= z) and Q(Z >= z)."""
        # 2 W / h is whole by the definition of the lattice, so the mirror of a point is a point.
        mirrored = -int(2 * self.lattice.offset / self.lattice.step) - z
        above = self._found_from(z)
        below = self.masses_from[0] - self._found_from(mirrored + 1)
        # All that was rounded away could lie in this tail, or none of it: a ball from 0 to that.
        unit, missing = arb(1) / (fmpz(1) << self.bits), between_zero_and(arb(self.missing))
        return (arb(above) + missing) * unit, (arb(below) + missing) * unit

    def _found_from(self, z: int) -> fmpz:
        return self.masses_from[min(max(z - self.lowest, 0), len(self.masses_from) - 1)]


def _reach(variance: float, bits: int) -> int:
    """A distance beyond which a sum of discrete Gaussians of this variance has mass below 2^-bits on each side."""
    # The mass of |X| > r is below 2 exp(-r^2 / (2 v)) for a subgaussian sum; two bits and two steps of room.
    return math.ceil(math.sqrt(2 * variance * (bits + 2) * math.log(2))) + 2


def _check_size(factors: tuple[LossFactor, ...], lattice: LossLattice, bits: int) -> None:
    variance, points = Fraction(0), 1
    for factor, weight in zip(factors, lattice.weights, strict=True):
        if isinstance(factor, GaussianLoss):
            variance += factor.multiplicity * weight**2 * factor.variance
        else:
            points += factor.multiplicity * factor.sensitivity * weight
    # The cap keeps a variance beyond all use from overflowing the float; it is refused for its size.
    points += 2 * _reach(float(min(variance, Fraction(10**30))), bits)
    if points > MAX_POINTS or points * bits > MAX_BITS:
        raise BudgetError(
            f"the exact loss distribution of this composition has {points} points of {bits} bits, wanted at most "
            f"{MAX_POINTS} points and {MAX_BITS} bits in total. Use another engine, or a larger least delta."
        )


def _power(factor: LossFactor, bits: int) -> tuple[fmpz_poly, int]:
    """Law of the sum S of all answers of one factor, and its least value."""
    masses, low = _gaussian(factor, bits) if isinstance(factor, GaussianLoss) else (_laplace(factor, bits), 0)
    base, base_low = fmpz_poly(masses), low
    power, power_low = fmpz_poly([fmpz(1) << bits]), 0
    left = factor.multiplicity
    while left:  # powers by squaring
        if left & 1:
            power, power_low = _shifted(power * base, bits), power_low + base_low
        left >>= 1
        if left:
            base, base_low = _shifted(base * base, bits), 2 * base_low
        # Cut at the reach of all answers together, which no power on the way exceeds.
        if isinstance(factor, GaussianLoss):
            reach = _reach(factor.multiplicity * float(factor.variance), bits)
            power, power_low = _cut(power, power_low, reach)
            base, base_low = _cut(base, base_low, reach)
    return power, power_low


def _gaussian(factor: GaussianLoss, bits: int) -> tuple[list[fmpz], int]:
    """Masses of N_Z(0, variance) from -reach on, rounded down."""
    reach = _reach(float(factor.variance), bits)
    exponent = rational(-1 / (2 * factor.variance))
    weights = [(exponent * (x * x)).exp() for x in range(reach + 2)]
    # Beyond the reach the ratio of neighbouring weights only falls: at most a geometric series.
    rest = between_zero_and(weights[-1] / (1 - (exponent * (2 * reach + 3)).exp()))
    # The whole weight is enclosed from both sides: divided by too much, masses fall, never rise.
    unit = arb(fmpz(1) << bits) / (1 + 2 * (sum(weights[1:-1], arb(0)) + rest))
    masses = [_floor(weight * unit) for weight in weights[:-1]]
    return masses[:0:-1] + masses, -reach


def _laplace(factor: LaplaceLoss, bits: int) -> list[fmpz]:
    """Masses of i = 0..sensitivity, rounded down."""
    a = rational(-1 / factor.scale).exp()
    k = factor.sensitivity
    weights = [a**k, *((1 - a) * a ** (k - i) for i in range(1, k)), arb(1)]
    # Rounded down: what is lost here is part of the missing mass as well.
    return [_floor(weight / (1 + a) * (fmpz(1) << bits)) for weight in weights]


def _floor(ball: arb) -> fmpz:
    # The lower end of the ball: a mass that is not certain counts as missing.
    floor = ball.lower().floor().unique_fmpz()
    if floor is None:  # never: a lower end is one number
        raise SolverError(f"the integer part of {ball} could not be certified. Please report the event.")
    return floor


def _spread(law: fmpz_poly, weight: int) -> fmpz_poly:
    """Law of weight * S."""
    masses = law.coeffs()
    spread = [fmpz(0)] * (weight * (len(masses) - 1) + 1)
    spread[::weight] = masses
    return fmpz_poly(spread)


def _shifted(law: fmpz_poly, bits: int) -> fmpz_poly:
    """A product of two laws as multiples of 2^-bits again, rounded down."""
    return fmpz_poly([mass >> bits for mass in law.coeffs()])


def _cut(law: fmpz_poly, lowest: int, reach: int) -> tuple[fmpz_poly, int]:
    """The law without the values further than `reach` from zero."""
    masses = law.coeffs()
    start = max(0, -reach - lowest)
    return fmpz_poly(masses[start : max(start, reach - lowest + 1)]), lowest + start


MAX_STEPS: Final = 1 << 20
"""Multiplications of one product above which a composition is refused: about 5 seconds."""

MAX_TERMS: Final = 1 << 15
"""Coefficients of all polynomials of the table above which a composition is refused: each epsilon takes some 50 ms."""

Table = dict[Fraction, arb | arb_poly]


@dataclass(frozen=True, slots=True)
class Enumeration(DeltaByTails):
    """Composition of a few losses by plain loops.

    Attributes:
        probabilities: The probability of each total loss under P, or its polynomial in 1 / y.
        bits: Working precision of the balls.
        is_whole: Whether the table holds every loss, so that nothing was cut off.
        slip: By how much a loss may be off: those of samples are logarithms, which the table holds rounded.
    """

    probabilities: Table = field(repr=False)
    bits: int
    is_whole: bool
    slip: Fraction = Fraction(0)
    name: str = "direct"

    @classmethod
    def build(
        cls, factors: tuple[Countable, ...], *, least_delta: Fraction = Fraction(1, 10**30)
    ) -> "Enumeration | None":
        """Combine all losses, or None where that takes too long.

        Args:
            factors: The composition, equal losses merged.
            least_delta: A delta of this size or more has about 20 proved digits. Bounds of smaller ones still hold.

        Raises:
            BudgetError: the Gaussian losses are so large that their tails take too many bits.
        """
        real = sum(factor.multiplicity for factor in factors if isinstance(factor, ExponentialLoss))
        gaussian = tuple(factor for factor in factors if isinstance(factor, GaussianLoss))
        # Gaussian tails are cut off at this size. The densities of real noise cancel three bits each, at most about.
        bits = resolving_bits(gaussian, least_delta) + 3 * real
        points = [_points(factor, bits) for factor in factors]
        if max(points, default=1) * (real + 1) > MAX_TERMS:
            return None
        # Refuse before the work where it will be too much, unless so many sums are equal that only the work can tell.
        if math.prod(points) * (real + 1) > MAX_TERMS and not _overlap(factors):
            return None
        with precision(bits + 64):
            # The empty sum is 0 with certainty; every factor multiplies into it.
            total: Table = {Fraction(0): arb(1)}
            for factor in factors:
                table = _power_of(factor, bits)
                # Losses need not share a lattice, so the length of a table is only known when it is made.
                if len(total) * len(table) * (real + 1) > MAX_STEPS:
                    return None
                total = _combined(total, table)
        if len(total) * (real + 1) > MAX_TERMS:
            return None
        samples = sum(factor.multiplicity for factor in factors if isinstance(factor, SampledLoss))
        # All other losses have finite tables; only Gaussian noise is cut off.
        return cls(total, bits + 64, not gaussian, samples * Fraction(1, 1 << (bits + 32)))

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        with precision(self.bits):
            return tails_of_balls(*self.balls(Fraction(epsilon)))

    def balls(self, epsilon: Fraction) -> tuple[arb, arb, arb]:
        """P(L > epsilon), Q(L > epsilon) and delta(epsilon)."""
        with precision(self.bits):
            first = second = delta = arb(0)
            for loss, probability in self.probabilities.items():
                if loss > epsilon + self.slip:
                    parts = _tails_of(probability, loss - epsilon, self.bits)
                    first, second, delta = first + parts[0], second + parts[1], delta + parts[2]
                elif loss > epsilon - self.slip:
                    # So close to epsilon that rounding decides; delta is covered by the slip below.
                    perhaps = between_zero_and(_at(probability, 0))
                    first, second = first + perhaps, second + perhaps
            second *= rational(-epsilon).exp()
            if self.slip:
                # Each term 1 - exp(epsilon - loss) changes by no more than the loss does, exp(-loss) by that of itself.
                slip = rational(2 * self.slip)
                second, delta = second * (1 + slip * arb(0, 1)), delta + first * slip * arb(0, 1)
            if self.is_whole:
                return first, second, delta
            cut_first, cut_second = map(_cut_off, self.held())
            # The cut-off mass may lie above epsilon or not: from 0 to all of it, on each probability.
            return first + cut_first, second + cut_second, delta + cut_first

    def held(self) -> tuple[arb, arb]:
        """What the table holds under P and under Q; one minus it is what was cut off. The caller sets the precision."""
        # The transform at z = 0 and at z = -1, where 1 / y is 2 and -2.
        entries = self.probabilities.items()
        first = sum((_at(probability, 2) for _, probability in entries), arb(0))
        second = sum((_at(probability, -2) * rational(-loss).exp() for loss, probability in entries), arb(0))
        return first, second

    def log_cut(self) -> float:
        """Logarithm of the probability under P of what was cut off, at most."""
        if self.is_whole:
            return -math.inf
        with precision(self.bits):
            return log_of_rest(self.held()[0])

    def logarithms(self) -> tuple[tuple[Fraction, ...], tuple[Bounds, ...]]:
        """Every loss, and the logarithm of its probability under P; for losses without a density."""
        with precision(self.bits):
            chances = [log_bounds(_at(ball, 0)) for ball in self.probabilities.values()]
        return tuple(self.probabilities), tuple(chances)


def log_of_rest(held: arb) -> float:
    """Logarithm of the probability that a table does not hold, at most."""
    return float_bounds((1 - held).abs_upper().log()).upper


def _cut_off(held: arb) -> arb:
    """A ball from 0 to the whole probability that the table does not hold."""
    # Balls of the mass may exceed 1 by rounding, so the absolute value of the difference is bounded.
    return between_zero_and((1 - held).abs_upper())


def _at(probability: arb | arb_poly, place: int) -> arb:
    return probability(arb(place)) if isinstance(probability, arb_poly) else probability


def _tails_of(probability: arb | arb_poly, x: Fraction, bits: int) -> tuple[arb, arb, arb]:
    """What one value of the loss, x above epsilon, adds to P, to exp(epsilon) Q and to delta."""
    less = rational(-x)
    if not isinstance(probability, arb_poly):
        # expm1 as a ball of the exact difference: no cancellation, however close the loss is.
        return probability, probability * less.exp(), -probability * less.expm1()
    coefficients = probability.coeffs()
    inverses = _inverses(rational(x), len(coefficients), bits)
    half = (less / 2).exp()
    first, second, delta = (
        half * sum((c * part for c, part in zip(coefficients, parts, strict=True)), arb(0))
        for parts in inverses
    )
    return first, second, delta


def _inverses(x: arb, count: int, bits: int) -> tuple[list[arb], list[arb], list[arb]]:
    """The inverse transforms of y^-k / (y - 1/2), y^-k / (y + 1/2) and y^-k / (y^2 - 1/4) at x, k below a count.

    With e_k = x^k / k! they are the sums over i of 2^-i e_(k+i), of (-2)^-i e_(k+i) and of 4^-i e_(k+1+2i).
    """
    powers = [arb(1)]
    while len(powers) < count:
        powers.append(powers[-1] * x / len(powers))
    if x > 2 * count:
        # Each follows from the one before. No digits are lost as long as k is below x / 2.
        first, second = [(x / 2).exp()], [(-x / 2).exp()]
        for power in powers[:-1]:
            first.append(2 * (first[-1] - power))
            second.append(2 * (power - second[-1]))
        return first, second, [a - b for a, b in zip(first, second, strict=True)]
    # Each follows from the one beyond it, and the farthest ones are bounded: from k >= x on, terms fall by half.
    least = powers[-1] * arb(2) ** -bits
    while not (x < len(powers) and powers[-1] * arb(2) ** (count - len(powers)) < least):
        powers.append(powers[-1] * x / len(powers))
    rest = 2 * powers[-1]
    first, second = [between_zero_and(rest)], [between_zero_and(rest)]
    both = [between_zero_and(rest), between_zero_and(rest)]
    for power in reversed(powers[:-1]):
        first.append(power + first[-1] / 2)
        second.append(power - second[-1] / 2)
        both.append(power + both[-2] / 4)
    # `both` is one ahead: it began with two bounds.
    return first[: -count - 1 : -1], second[: -count - 1 : -1], both[-2 : -count - 2 : -1]


def number_of_values(factor: Countable, least_delta: Fraction) -> int:
    """How many values the sum of all answers of a factor takes in a table that resolves a delta."""
    gaussian = (factor,) if isinstance(factor, GaussianLoss) else ()
    return _points(factor, resolving_bits(gaussian, least_delta))


def _points(factor: Countable, bits: int) -> int:
    """How many values the sum of all answers of a factor takes; they lie on one lattice."""
    match factor:
        case GaussianLoss():
            last = 2 * (_enumerated_reach(factor.variance, bits) + factor.sensitivity)
        case LaplaceLoss():
            last = factor.sensitivity
        case ExponentialLoss():
            last = 1
        case ResponseLoss():
            last = 2
        case SampledLoss():
            # Sums of several are equal only if they have each loss equally often.
            values = number_of_losses(factor)
            if values * factor.multiplicity > MAX_TERMS:
                return MAX_TERMS + 1
            sums = math.comb(factor.multiplicity + values - 1, values - 1)
            # One sample after the other is added.
            return sums if sums * values * factor.multiplicity <= MAX_STEPS else MAX_TERMS + 1
    return factor.multiplicity * last + 1


def _overlap(factors: tuple[Countable, ...]) -> bool:
    """Whether the losses share a lattice, so that many sums are equal."""
    integers = of_integers(factors)
    if any(isinstance(factor, SampledLoss) for factor in factors):
        return False
    if len(integers) == len(factors):
        return estimated_length(integers, lattice_of(integers)) <= MAX_STEPS
    steps = [
        2 * f.epsilon if isinstance(f, ExponentialLoss) else f.step
        for f in factors
        if not isinstance(f, SampledLoss)
    ]
    reach = greatest_bounds(factors).upper
    real = sum(factor.multiplicity for factor in factors if isinstance(factor, ExponentialLoss))
    return 2 * reach * (real + 1) <= MAX_TERMS * reduce(common_step, steps)


def _enumerated_reach(variance: Fraction, bits: int) -> int:
    # Beyond it every weight is below 2^-bits: x^2 / (2 v) > bits ln 2. The cap keeps the float from overflowing; a
    # table of that size is refused anyway.
    return math.ceil(math.sqrt(2 * float(min(variance, Fraction(10**12))) * bits * math.log(2))) + 1


def _power_of(factor: Countable, bits: int) -> Table:
    """Loss of all answers of a factor: the power of a polynomial whose coefficients are the entries of one answer."""
    table, n = _table(factor, bits), factor.multiplicity
    if isinstance(factor, SampledLoss):
        return reduce(_combined, [table] * n)
    losses = sorted(table)
    entries: Sequence[arb | arb_poly] = [table[loss] for loss in losses]
    if isinstance(factor, ExponentialLoss):
        # Two entries, which are polynomials themselves: the binomial formula.
        powers = [[arb_poly([1])], [arb_poly([1])]]
        for entry, up_to in zip(entries, powers, strict=True):
            for _ in range(n):
                up_to.append(up_to[-1] * entry)
        entries = [math.comb(n, i) * powers[0][n - i] * powers[1][i] for i in range(n + 1)]
    else:
        entries = (arb_poly([_at(entry, 0) for entry in entries]) ** n).coeffs()
    step = losses[1] - losses[0]
    return {n * losses[0] + i * step: entry for i, entry in enumerate(entries)}


def _table(factor: Countable, bits: int) -> Table:
    """Loss of one answer."""
    if isinstance(factor, SampledLoss):
        rounded: Table = {}
        for value, probability in losses_of_sample(factor):
            # To a quarter of the slip; the radius of the ball is far below that.
            numerator = (value * 2 ** (bits + 34)).mid().floor().unique_fmpz()
            assert numerator is not None
            loss = Fraction(int(numerator), 1 << (bits + 34))
            rounded[loss] = rounded[loss] + probability if loss in rounded else probability
        return rounded
    if isinstance(factor, ExponentialLoss):
        least = rational(-factor.epsilon).exp()
        return {
            factor.epsilon: arb_poly([arb("0.5"), arb("0.25")]),
            -factor.epsilon: arb_poly([least / 2, -least / 4]),
        }
    if isinstance(factor, ResponseLoss):
        most, rest = rational(factor.epsilon).exp(), arb(factor.options - 2)
        total = most + rest + 1
        return {factor.epsilon: most / total, Fraction(0): rest / total, -factor.epsilon: 1 / total}
    if isinstance(factor, GaussianLoss):
        # Q's noise is P's moved by the sensitivity: reach that much further on both sides.
        reach = _enumerated_reach(factor.variance, bits) + factor.sensitivity
        exponent = rational(-1 / (2 * factor.variance))
        weights = {x: (exponent * (x * x)).exp() for x in range(-reach, reach + 1)}
        # The tail as a geometric series: neighbouring ratios fall, so the first ratio bounds them all.
        beyond = (exponent * (reach + 1) ** 2).exp() / (1 - (exponent * (2 * reach + 3)).exp())
        total = sum(weights.values(), arb(0)) + 2 * between_zero_and(beyond)
        return {factor.offset + factor.step * x: weight / total for x, weight in weights.items()}
    k = factor.sensitivity
    a = rational(-1 / factor.scale).exp()
    table: Table = {}
    # In between, the noise lies j from one of the two answers and k - j from the other.
    for j in range(k + 1):
        # The ends j = 0 and k hold a whole half line of the noise; places in between hold one point each.
        weight = arb(1) if j == 0 else a**k if j == k else (1 - a) * a**j
        table[(k - 2 * j) / factor.scale] = weight / (1 + a)
    return table


def _combined(left: Table, right: Table) -> Table:
    """Losses of independent answers add."""
    total: Table = {}
    for loss, chance in left.items():
        for other_loss, other_probability in right.items():
            added = loss + other_loss
            # Equal losses meet in one entry: fractions compare exactly, which floats would not.
            product = chance * other_probability
            total[added] = total[added] + product if added in total else product
    return total


# Bits of delta that are proved before a precision is enough: 18 digits, more than the 53 bits of the floats handed out.
# Half of it would show in the width of the bounds; twice of it costs another round for nothing.
_PROVED: Final = 60
# Bits to begin with: 196 beyond the proved ones are left for the cancellation of the two terms, so that only a tiny mu
# needs a second round.
_FEWEST_BITS: Final = 256
# Bits from which a round is the last one. The bounds still hold then, they are only wider than 60 bits.
_MOST_BITS: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Normal(DeltaByTails):
    """Certified tails of one normal loss.

    Attributes:
        mu_squared: Exact, above 0.
        name: "normal".
    """

    mu_squared: Fraction
    name: str = "normal"

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`."""
        exact, bits = within_floats(epsilon), _FEWEST_BITS
        while True:
            with precision(bits):
                mu = rational(self.mu_squared).sqrt()
                quotient = rational(exact) / mu
                first, second = _phi(mu / 2 - quotient), _phi(-mu / 2 - quotient)
                # Both terms agree in most of their digits where mu is small or epsilon large; hence balls and not
                # floats.
                delta = first - rational(exact).exp() * second
                if delta.rel_accuracy_bits() >= _PROVED or bits >= _MOST_BITS:
                    return Tails(*(probability(_log(ball)) for ball in (first, second, delta)))
            # Four times at once: a round that fails costs little against the one that follows.
            bits *= 4

    def mu(self) -> Bounds:
        """The parameter of Gaussian differential privacy."""
        with precision(_FEWEST_BITS):
            # A square root is proved to nearly all bits at any precision, so that no loop is needed.
            return float_bounds(rational(self.mu_squared).sqrt())


_NEWTON_STEPS: Final = 200
"""Of Newton's method. Far from x* a step may only halve the distance, and near it the digits double."""


@dataclass(frozen=True, slots=True)
class OneSample(DeltaByTails):
    """Certified tails of one sample of normal or of real Laplace noise: delta is the value of one test.

    The variables: q the probability with which a record counts; b the loss on the sample, x ~ N(0, 1) the noise under
    Q; R(x) = 1 - q + q exp(b(x)), which rises with x; mu_i the distances by which the record moves the noise, w_i their
    probabilities; Phi the normal distribution function.

    If the record was removed, the loss ln R exceeds epsilon right of the x* with R(x*) = exp(epsilon), or everywhere.
    Then Q(L > epsilon) = Phi(-x*) and P(L > epsilon) = (1 - q) Phi(-x*) + q sum of w_i Phi(mu_i - x*). If it was added,
    -ln R exceeds epsilon left of the x* with R(x*) = exp(-epsilon), or nowhere, and P and Q change places.

    Of Laplace noise b lies above t, between -e and e, with the probability exp(-(t + e) / 2) / 2 under Q, and with 1 -
    exp((t - e) / 2) / 2 if the record is in the sample.

    Newton's method finds x* in balls. Two signs of b(x) - b(x*) prove it, and the formulas are evaluated at the ball.

    Attributes:
        loss: With real-valued noise on the sample, of multiplicity 1 and without failures.
        name: "one_sample".
    """

    loss: SampledLoss
    name: str = "one_sample"

    @classmethod
    def build(cls, law: Law) -> "OneSample | None":
        """The engine, or None if the law is another one."""
        match law:
            case (
                SampledLoss(NormalLoss() | MixtureLoss() | ChoiceLoss(), failure=0, multiplicity=1) as loss,
            ):
                return cls(loss)
            case (SampledLoss(ExponentialLoss(), failure=0, multiplicity=1, changed=False) as loss,):
                return cls(loss)
            case _:
                return None

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`."""
        exact, bits = within_floats(epsilon), _FEWEST_BITS
        while True:
            with precision(bits):
                tails = self._tails(exact)
                if tails == ():
                    return Tails(NOTHING, NOTHING, NOTHING)
                if tails and (tails[2].rel_accuracy_bits() >= _PROVED or bits >= _MOST_BITS):
                    return Tails(*(probability(_log(ball)) for ball in tails))
            bits *= 4

    def _tails(self, epsilon: Fraction) -> tuple[arb, ...] | None:
        """P(L > epsilon), Q(L > epsilon) and delta; empty if no loss is larger, None at too low a precision."""
        if isinstance(self.loss.base, ChoiceLoss):
            # Which kind of sample it was is told, so that all three are means over the kinds.
            kinds = [
                (rational(share), OneSample(kind)._tails(epsilon)) for share, kind in kinds_of(self.loss)
            ]
            known = [(share, tails) for share, tails in kinds if tails is not None]
            if len(known) < len(kinds):
                return None
            return tuple(sum((share * tails[i] for share, tails in known if tails), arb(0)) for i in range(3))
        if self.loss.changed and epsilon < 0:
            # Both laws of such a sample are alike: what is above epsilon under P is below -epsilon under Q.
            there = self._tails(-epsilon)
            return there and (1 - there[1], 1 - there[0], 1 - rational(epsilon).exp() * (1 - there[2]))
        sign = -1 if self.loss.added else 1
        q, rest = rational(self.loss.probability), rational(1 - self.loss.probability)
        odds = (rational(sign * epsilon).exp() - rest) / q
        # exp(epsilon) is 1 - q for no fractions but 0 and 0, so that more bits decide.
        if odds < 0:
            return () if self.loss.added else (arb(1), arb(1), 1 - rational(epsilon).exp())
        both = self._beyond(odds.log(), sign) if odds > 0 else None
        if not both:
            return both
        moved, without = both
        first, second = rest * without + q * moved, without
        if self.loss.added:
            first, second = second, first
        return first, second, first - rational(epsilon).exp() * second

    def _beyond(self, b: arb, sign: int) -> tuple[arb, ...] | None:
        """The probabilities of a loss above b on the sample, or below it, with the record and without it.

        They are empty if there is no such loss, and None if the precision is too low to say.
        """
        if isinstance(self.loss.base, ExponentialLoss):
            most = rational(self.loss.base.epsilon)
            # exp(epsilon) is no sum of exp(b) and a fraction at an end of the losses: more bits decide.
            if -most < b < most:
                above = 1 - ((b - most) / 2).exp() / 2, (-(b + most) / 2).exp() / 2
                return above if sign > 0 else (1 - above[0], 1 - above[1])
            if b > most or b < -most:
                return (arb(1), arb(1)) if (b > most) == (sign < 0) else ()
            return None
        place = self._place(b)
        if place is None:
            return None
        moved = sum((share * _phi(sign * (mu - place)) for mu, share in self._parts()), arb(0))
        return moved, _phi(-sign * place)

    def _parts(self) -> list[tuple[arb, arb]]:
        base = self.loss.base
        if isinstance(base, NormalLoss):
            return [(rational(base.mu_squared).sqrt(), arb(1))]
        assert isinstance(base, MixtureLoss)
        unit = rational(base.variance).sqrt()
        return [(rational(move) / unit, rational(share)) for move, share in base.shares]

    def _place(self, b: arb) -> arb | None:
        """The x with this loss on the sample; None if it is not proved at this precision."""
        parts = self._parts()
        # No part is larger than their sum: right of x*, where Newton's method falls towards it, as b is convex.
        places = [(b - share.log() + mu * mu / 2) / mu for mu, share in parts]
        x = min(places, key=lambda place: float(place.mid()))
        if len(parts) == 1:
            return x
        x = x.mid()
        close = ((1 + abs(x)) * arb(2) ** -(flint.ctx.prec * 3 // 4)).mid()
        for _ in range(_NEWTON_STEPS):
            excess, slope = _odds_at(parts, x)
            step = ((excess - b) / slope).mid()
            x = (x - step).mid()
            if abs(step) < close:
                break
        below, above = (_odds_at(parts, x + side * close)[0] for side in (-1, 1))
        return arb(x, close) if below < b < above else None


def _odds_at(parts: list[tuple[arb, arb]], x: arb) -> tuple[arb, arb]:
    """The loss b on the sample at a place, and its slope there."""
    terms = [(mu, share * (mu * x - mu * mu / 2).exp()) for mu, share in parts]
    total = sum((term for _, term in terms), arb(0))
    return total.log(), sum((mu * term for mu, term in terms), arb(0)) / total


def _phi(x: arb) -> arb:
    """The normal distribution function."""
    # erfc, not erf: the tail keeps its relative precision where Phi is tiny.
    return (-x / arb(2).sqrt()).erfc() / 2


def _log(ball: arb) -> Bounds:
    if ball > 0:
        return float_bounds(ball.log())
    most = ball.upper()
    # A ball that holds 0 gives no lower bound. Its upper end still is a bound; it is at most 0 only for an exact 0.
    return Bounds(-float("inf"), float_bounds(most.log()).upper if most > 0 else -float("inf"))
