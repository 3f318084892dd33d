"""The independent privacy losses that a composition adds up, and the lattice of their sum.

The variables: v variance, t scale, k sensitivity, n multiplicity, h lattice step, W offset, a = exp(-1 / t).

An answer with discrete Gaussian noise that moves by k has the loss L = (k^2 + 2 k X) / (2 v) with X ~ N_Z(0, v). An
answer with discrete Laplace noise that moves by k has the loss L = (k - 2 j) / t, j = 0..k. Its probability is 1 / (1
+ a) at j = 0, a^k / (1 + a) at j = k, and (1 - a) a^j / (1 + a) in between. Both laws are the same whichever of the
two neighbours is the true population.

Example: k = 1, v = 2. The losses are 1/4 + X / 2, so the lattice has the step 1/2 and the offset 1/4.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from tallyveil.errors import BudgetError
from tallyveil.exact import as_given


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """Losses of answers with discrete Gaussian noise.

    Attributes:
        variance: Parameter of the noise, exact.
        sensitivity: By how much each answer moves, at least 1.
        multiplicity: Number of such answers, all independent, at least 1.
    """

    variance: Fraction
    sensitivity: int
    multiplicity: int

    @property
    def step(self) -> Fraction:
        """Distance between neighbouring values of one loss."""
        return self.sensitivity / self.variance

    @property
    def offset(self) -> Fraction:
        """Loss at noise X = 0; one loss is offset + step * X."""
        return Fraction(self.sensitivity**2) / (2 * self.variance)

    @property
    def offset_float(self) -> float:
        """The offset, rounded to nearest. Searches ask for it thousands of times, and fractions are slow to divide."""
        # A quotient of two Python integers is rounded once, however long they are.
        return self.sensitivity**2 * self.variance.denominator / (2 * self.variance.numerator)


@dataclass(frozen=True, slots=True)
class LaplaceLoss:
    """Losses of answers with discrete Laplace noise.

    Attributes:
        scale: Parameter of the noise, exact.
        sensitivity: By how much each answer moves, at least 1.
        multiplicity: Number of such answers, all independent, at least 1.
    """

    scale: Fraction
    sensitivity: int
    multiplicity: int

    @property
    def step(self) -> Fraction:
        """Distance between neighbouring values of one loss."""
        return 2 / self.scale

    @property
    def offset(self) -> Fraction:
        """Smallest loss; one loss is offset + step * i with i = sensitivity - j in 0..sensitivity."""
        return -self.sensitivity / self.scale

    @property
    def offset_float(self) -> float:
        """The offset, rounded to nearest."""
        return -self.sensitivity * self.scale.denominator / self.scale.numerator


LossFactor = GaussianLoss | LaplaceLoss


@dataclass(frozen=True, slots=True)
class LossLattice:
    """The common lattice of a composition: total loss = offset + step * sum over factors of weight * S.

    S is the sum of the factor's `multiplicity` independent integers: X for Gaussian noise, i = k - j for Laplace noise.

    Attributes:
        step: h, exact, above 0.
        offset: W, exact.
        weights: Each factor's own step divided by h, a whole number; in the order of the factors.
    """

    step: Fraction
    offset: Fraction
    weights: tuple[int, ...]


def merged(factors: tuple[LossFactor, ...]) -> tuple[LossFactor, ...]:
    """The same composition with equal factors counted together, in a fixed order.

    Raises:
        BudgetError: a variance, scale, sensitivity or multiplicity is out of range.
    """
    counted: dict[tuple[type, Fraction, int], int] = {}
    for factor in factors:
        # Checked once more, as losses can be made without an event.
        parameter = factor.variance if isinstance(factor, GaussianLoss) else factor.scale
        if parameter <= 0 or factor.sensitivity < 1 or factor.multiplicity < 1:
            raise BudgetError(
                f"a loss needs a positive parameter, sensitivity and multiplicity, got {as_given(factor)}"
            )
        key = type(factor), parameter, factor.sensitivity
        counted[key] = counted.get(key, 0) + factor.multiplicity
    ordered = sorted(counted.items(), key=lambda item: (item[0][0].__name__, item[0][1], item[0][2]))
    return tuple(kind(parameter, sensitivity, n) for (kind, parameter, sensitivity), n in ordered)


def lattice_of(factors: tuple[LossFactor, ...]) -> LossLattice:
    """The coarsest lattice that holds the total loss.

    Raises:
        BudgetError: there is no factor.
    """
    if not factors:
        raise BudgetError("an empty composition has no lattice of losses")
    steps = [factor.step for factor in factors]
    # The coarsest step: a finer one would leave points that no loss takes, and longer transforms.
    step = reduce(common_step, steps)
    # The common step divides each step, so that these quotients have no remainder.
    weights = (s.numerator * step.denominator // (s.denominator * step.numerator) for s in steps)
    offset = sum((factor.multiplicity * factor.offset for factor in factors), Fraction(0))
    return LossLattice(step, offset, tuple(weights))


def common_step(a: Fraction, b: Fraction) -> Fraction:
    """Greatest common divisor of two positive fractions."""
    # Over the product of the denominators; the fraction is reduced by itself.
    numerator = math.gcd(a.numerator * b.denominator, b.numerator * a.denominator)
    return Fraction(numerator, a.denominator * b.denominator)
