"""The independent privacy losses a composition adds up, and the lattice they live on.

Letters: v variance, t scale, k sensitivity, n multiplicity, h lattice step, W offset.

One answer with discrete Gaussian noise moved by k loses L = (k^2 + 2 k X) / (2 v), X ~ N_Z(0, v).
One answer with discrete Laplace noise moved by k loses L = (k - 2 j) / t with j in 0..k: probability
1 / (1 + a) at j = 0, (1 - a) a^j / (1 + a) in between, a^k / (1 + a) at j = k, where a = exp(-1 / t).
Both laws are the same whichever of the two neighbours is the true population.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.errors import BudgetError
from tallyveil.exact import as_given


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """Losses of answers with discrete Gaussian noise.

    Attributes:
        variance: Parameter of the noise, exact.
        sensitivity: By how much the answer moves, at least 1.
        multiplicity: How many independent such answers, at least 1.
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


@dataclass(frozen=True, slots=True)
class LaplaceLoss:
    """Losses of answers with discrete Laplace noise.

    Attributes:
        scale: Parameter of the noise, exact.
        sensitivity: By how much the answer moves, at least 1.
        multiplicity: How many independent such answers, at least 1.
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


LossFactor = GaussianLoss | LaplaceLoss


@dataclass(frozen=True, slots=True)
class Lattice:
    """The common lattice of a composition: total loss = offset + step * sum over factors of weight * S.

    S is the sum of `multiplicity` independent X (Gaussian) or i (Laplace) of the factor.

    Attributes:
        step: h, exact, above 0.
        offset: W, exact.
        weights: Whole multiple of the step that each factor's own step is, in the factors' order.
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
        parameter = factor.variance if isinstance(factor, GaussianLoss) else factor.scale
        if parameter <= 0 or factor.sensitivity < 1 or factor.multiplicity < 1:
            raise BudgetError(
                f"a loss needs a positive parameter, sensitivity and multiplicity, got {as_given(factor)}"
            )
        key = type(factor), parameter, factor.sensitivity
        counted[key] = counted.get(key, 0) + factor.multiplicity
    ordered = sorted(counted.items(), key=lambda item: (item[0][0].__name__, item[0][1], item[0][2]))
    return tuple(kind(parameter, sensitivity, n) for (kind, parameter, sensitivity), n in ordered)


def lattice_of(factors: tuple[LossFactor, ...]) -> Lattice:
    """The coarsest lattice that holds the total loss.

    Raises:
        BudgetError: there is no factor.
    """
    if not factors:
        raise BudgetError("an empty composition has no lattice")
    step = factors[0].step
    for factor in factors[1:]:
        step = common_step(step, factor.step)
    offset = sum((factor.multiplicity * factor.offset for factor in factors), Fraction(0))
    return Lattice(step, offset, tuple(int(factor.step / step) for factor in factors))


def common_step(a: Fraction, b: Fraction) -> Fraction:
    """Greatest common divisor of two positive fractions."""
    numerator = math.gcd(a.numerator * b.denominator, b.numerator * a.denominator)
    return Fraction(numerator, a.denominator * b.denominator)
