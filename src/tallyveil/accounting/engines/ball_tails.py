"""Engines in ball arithmetic, which prove every error: the integer polynomial, plain enumeration, and one normal loss.

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
engine for a few Laplace losses that share none, and the tests compare the other engines with it. A table maps each
value of a loss, an exact fraction, to its probability, a ball; each answer adds its losses and multiplies the
probabilities. Gaussian noise is cut off far from 0, which widens the bounds by at most one minus the probability that
the table holds. Laplace noise has a finite number of losses, so every delta keeps its digits.

*`Normal`*, one normal loss, or real answers with normal noise together: delta = Phi(mu / 2 - epsilon / mu) -
exp(epsilon) Phi(-mu / 2 - epsilon / mu), with a precision that is raised until the difference has 60 proved bits.
Source: Balle, Wang 2018, Theorem 8.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from flint import arb, fmpz, fmpz_poly

from tallyveil.accounting.engines.moments import estimated_length
from tallyveil.accounting.engines.tails import DeltaByTails, Tails, float_bounds, probability, within_floats
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor, LossLattice, lattice_of, merged
from tallyveil.accounting.numbers import Bounds, at_most
from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.balls import between_zero_and, precision, rational

MOST_BITS: Final = 1 << 20
"""More working precision than this is refused."""

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

MAX_ANSWERS: Final = 64
"""Answers above which a composition is refused: each one is a product of tables."""

Table = dict[Fraction, arb]


@dataclass(frozen=True, slots=True)
class Enumeration(DeltaByTails):
    """Composition of a few losses by plain loops.

    Attributes:
        probabilities: The probability of each total loss under P.
        bits: Working precision of the balls.
        is_whole: Whether the table holds every loss, so that nothing was cut off.
    """

    probabilities: Table = field(repr=False)
    bits: int
    is_whole: bool
    name: str = "direct"

    @classmethod
    def build(
        cls, factors: tuple[LossFactor, ...], *, least_delta: Fraction = Fraction(1, 10**30)
    ) -> "Enumeration | None":
        """Combine all losses, or None where that takes too long.

        Args:
            factors: The composition; a factor with multiplicity n counts as n answers.
            least_delta: A delta of this size or more has about 20 proved digits. Bounds of smaller ones still hold.

        Raises:
            BudgetError: a factor is out of range.
        """
        factors = merged(factors)
        bits = resolving_bits(factors, least_delta)
        answers = sum(factor.multiplicity for factor in factors)
        # One product of two tables of 1,024 entries is a million multiplications of balls.
        if answers > MAX_ANSWERS or sum(_points(factor, bits) for factor in factors) > MAX_STEPS:
            return None
        # Refuse before the work where it will be too much, unless so many sums are equal that only the work can tell.
        if not _overlap(factors) and _greatest_product(factors, bits) > MAX_STEPS:
            return None
        with precision(bits + 64):
            # The empty sum is 0 with certainty; every factor multiplies into it.
            total: Table = {Fraction(0): arb(1)}
            for factor in factors:
                table = _table(factor, bits)
                for _ in range(factor.multiplicity):
                    # Losses need not share a lattice, so the length of a table is only known when it is made.
                    if len(total) * len(table) > MAX_STEPS:
                        return None
                    total = _combined(total, table)
        # A Laplace loss takes finitely many values; only Gaussian noise is cut off.
        finite = not any(isinstance(factor, GaussianLoss) for factor in factors)
        return cls(total, bits + 64, finite)

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        with precision(self.bits):
            return tails_of_balls(*self.balls(Fraction(epsilon)))

    def balls(self, epsilon: Fraction) -> tuple[arb, arb, arb]:
        """P(L > epsilon), Q(L > epsilon) and delta(epsilon)."""
        with precision(self.bits):
            # What the table holds under each law; one minus it is what was cut off.
            first = second = delta = held_first = held_second = arb(0)
            for loss, probability in self.probabilities.items():
                under_second = probability * rational(-loss).exp()
                held_first += probability
                held_second += under_second
                if loss > epsilon:
                    first += probability
                    second += under_second
                    # 1 - exp(epsilon - loss) as a ball of the exact difference: no cancellation, however close the loss
                    # is.
                    delta += probability * (1 - rational(epsilon - loss).exp())
            if self.is_whole:
                return first, second, delta
            cut_first, cut_second = _cut_off(held_first), _cut_off(held_second)
            # The cut-off mass may lie above epsilon or not: from 0 to all of it, on each probability.
            return first + cut_first, second + cut_second, delta + cut_first


def _cut_off(held: arb) -> arb:
    """A ball from 0 to the whole probability that the table does not hold."""
    # Balls of the mass may exceed 1 by rounding, so the absolute value of the difference is bounded.
    return between_zero_and((1 - held).abs_upper())


def _points(factor: LossFactor, bits: int) -> int:
    if isinstance(factor, GaussianLoss):
        return 2 * _enumerated_reach(factor.variance, bits) + 1
    return factor.sensitivity + 1


def _greatest_product(factors: tuple[LossFactor, ...], bits: int) -> int:
    """Multiplications of the largest product of tables, if only sums of one factor fall on one another."""
    sums, greatest = 1, 0
    for factor in factors:
        points, n = _points(factor, bits), factor.multiplicity
        # The sum of n answers on one lattice takes at most n (points - 1) + 1 values.
        greatest = max(greatest, sums * ((n - 1) * (points - 1) + 1) * points)
        sums *= n * (points - 1) + 1
    return greatest


def _overlap(factors: tuple[LossFactor, ...]) -> bool:
    """Whether the losses share a lattice, so that many sums are equal."""
    return estimated_length(factors, lattice_of(factors)) <= MAX_STEPS


def _enumerated_reach(variance: Fraction, bits: int) -> int:
    # Beyond it every weight is below 2^-bits: x^2 / (2 v) > bits ln 2. The cap keeps the float from overflowing; a
    # table of that size is refused anyway.
    return math.ceil(math.sqrt(2 * float(min(variance, Fraction(10**12))) * bits * math.log(2))) + 1


def _table(factor: LossFactor, bits: int) -> Table:
    """Loss of one answer."""
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
            total[added] = total.get(added, arb(0)) + chance * other_probability
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
