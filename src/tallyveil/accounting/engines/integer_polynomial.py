"""The oracle: the law of the total loss as one polynomial with integer coefficients, with every error proved.

The problem: enclose the law of L = W + h Z, Z on the integers, in exact arithmetic.

The variables: `bits`, the precision; coefficient z of the polynomial, the mass of Z = z in multiples of 2^-bits,
rounded down; m = 2 W / h, a whole number, with which Q(Z >= z) = P(Z <= -m - z).

The steps:

1. Enclose the probabilities of every factor in balls, and round them down to multiples of 2^-bits.
2. Multiply the factors as integer polynomials, exactly. After each product round down again and cut off far values.
3. The missing mass is one minus all that was found. Each step only removes mass, so the true probability of any set
   lies between the mass found there and that plus the missing mass.

Example with 8 bits, for two answers of sensitivity 1 with exp(-1 / t) = 1/2: one answer has the masses 1/3 and 2/3,
rounded down 85 and 170, with 1 missing. Their square has the coefficients 28, 112, 112, with 4 of 256 missing.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from flint import arb, fmpz, fmpz_poly

from tallyveil.accounting.engines.ball_tails import resolving_bits, tails_of_balls
from tallyveil.accounting.engines.tails import DeltaByTails, Tails
from tallyveil.accounting.losses.factors import (
    GaussianLoss,
    LaplaceLoss,
    LossFactor,
    LossLattice,
    lattice_of,
    merged,
)
from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.balls import between_zero_and, precision, rational

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

    def epsilon_ball(self, delta: Fraction) -> arb:
        """The epsilon, perhaps negative, at which the divergence is exactly `delta`.

        Raises:
            BudgetError: delta is not between 0 and 1, both excluded.
            SolverError: delta is too small for the bits kept.
        """
        if not 0 < delta < 1:
            raise BudgetError(f"delta must lie between 0 and 1, both excluded, got {delta}.")
        with precision(self.bits + 64):
            wanted = rational(delta)
            low, high = self.lowest - 1, self.lowest + len(self.masses_from)
            while high - low > 1:  # delta falls with epsilon; it is above `wanted` at low, below at high
                middle = (low + high) // 2
                first, second = self._tails_from(middle + 1)
                excess = first - self._loss(middle).exp() * second - wanted
                # Neither above nor below: the ball holds the wanted delta, so the masses are too rough to say.
                if not (excess > 0 or excess < 0):
                    raise _undecided(delta, self.bits)
                low, high = (middle, high) if excess > 0 else (low, middle)
            first, second = self._tails_from(low + 1)
            # P - exp(epsilon) Q = delta, solved for epsilon between two losses, where both tails are constants.
            epsilon = ((first - wanted) / second).log()  # between two losses both tails stay the same
            if low >= self.lowest and not (epsilon >= self._loss(low) and epsilon <= self._loss(low + 1)):
                raise _undecided(delta, self.bits)
            return epsilon

    def _loss(self, z: int) -> arb:
        return rational(self.lattice.offset + self.lattice.step * z)

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


def _undecided(delta: Fraction, bits: int) -> SolverError:
    return SolverError(
        f"delta = {float(delta):.3g} is too small to be resolved by {bits} bits. Build the oracle with a smaller "
        "least_delta."
    )


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
