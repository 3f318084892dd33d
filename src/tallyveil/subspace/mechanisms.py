"""The generalised Laplace and Gaussian laws on a lattice, as data.

Both laws give a lattice vector z a weight that depends on one integer, its *size*: the sum of absolute values (l1) or
the sum of squares (l2, and the Gaussian). All code for laws works with sizes, in integers. The logarithm of the weight
is a rational multiple of the size, or of its square root (l2 Laplace).
Source: Dharangutte, Gao, Gong, Yu 2022, "Integer Subspace Differential Privacy", Definitions 9 and 13.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.errors import BudgetError
from tallyveil.exact import as_given, in_short

LARGEST_PARAMETER: Final = Fraction(10**5)
"""Largest epsilon of a law per unit of distance. Its noise is zero except with a probability of about e**-1e5."""
SMALLEST_PARAMETER: Final = Fraction(1, 10**5)
"""Smallest epsilon or variance. Noise at epsilon 1e-5 is of the order of 1e5."""
LARGEST_VARIANCE: Final = Fraction(10**10)
"""Largest variance: a standard deviation of 1e5, as wide as the noise of the smallest epsilon."""


class Norm(StrEnum):
    """The norm of a Laplace law, and of the distance between two tables."""

    L1 = "l1"
    L2 = "l2"


@dataclass(frozen=True, slots=True)
class GeneralisedLaplace:
    """q(z) proportional to exp(-epsilon |z|) on the lattice.

    Attributes:
        norm: l1 or l2.
        epsilon: Privacy loss for each unit of distance in that norm; an exact Fraction from 1e-5 to 1e5.

    Raises:
        BudgetError: epsilon is not a Fraction or lies outside that range.

    Source: Dharangutte et al. 2022, Definition 9 and Theorem 10.
    """

    norm: Norm
    epsilon: Fraction

    def __init__(self, norm: Norm | Literal["l1", "l2"], epsilon: Fraction) -> None:
        _checked("GeneralisedLaplace", "epsilon", epsilon, SMALLEST_PARAMETER, LARGEST_PARAMETER)
        object.__setattr__(self, "norm", Norm(norm))
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def rate(self) -> Fraction:
        """ln weight = -rate * size, or -rate * sqrt(size) if `takes_root`."""
        return self.epsilon

    @property
    def takes_root(self) -> bool:
        """Whether the weight depends on the square root of the size."""
        return self.norm is Norm.L2

    @property
    def squares(self) -> bool:
        """Whether the size is a sum of squares rather than of absolute values."""
        return self.norm is Norm.L2

    def __str__(self) -> str:
        return (
            f"generalised Laplace, {self.norm.value} norm, epsilon {self.epsilon} for each unit of distance"
        )


@dataclass(frozen=True, slots=True)
class GeneralisedGaussian:
    """q(z) proportional to exp(-|z|^2 / (2 variance)) on the lattice.

    Attributes:
        variance: The parameter, in counts squared; an exact Fraction from 1e-5 to 1e10. The variance of a cell is
            smaller, because of the constraints.

    Raises:
        BudgetError: the variance is not a Fraction or lies outside that range.

    Source: Dharangutte et al. 2022, equation 8.
    """

    variance: Fraction

    def __post_init__(self) -> None:
        _checked("GeneralisedGaussian", "variance", self.variance, SMALLEST_PARAMETER, LARGEST_VARIANCE)

    @property
    def rate(self) -> Fraction:
        """ln weight = -rate * size."""
        return 1 / (2 * self.variance)

    @property
    def takes_root(self) -> bool:
        """Whether the weight depends on the square root of the size: always false."""
        return False

    @property
    def squares(self) -> bool:
        """Whether the size is a sum of squares: always true."""
        return True

    def __str__(self) -> str:
        return f"generalised Gaussian, variance {self.variance}"


LatticeLaw: TypeAlias = GeneralisedLaplace | GeneralisedGaussian


def size_of(law: LatticeLaw, vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The size of each vector, exactly: |z|_1, or |z|_2 squared.

    Args:
        law: Determines which of the two.
        vectors: int [..., n_cells], below 2**31 / sqrt(n_cells) in absolute value.
    Returns:
        int64 [...].
    """
    z = np.asarray(vectors, dtype=np.int64)
    return np.asarray((z * z if law.squares else np.abs(z)).sum(axis=-1), dtype=np.int64)


def size_at(law: LatticeLaw, distance: Fraction) -> Fraction:
    """The size of a change at a distance. The distance is in the law's norm; for the Gaussian it is already squared."""
    return distance * distance if law.takes_root else distance


def _checked(law: str, name: str, value: object, least: Fraction, largest: Fraction) -> None:
    if not isinstance(value, Fraction):
        raise BudgetError(
            f"{law}: {name} is a {type(value).__name__} ({as_given(value)}), wanted a fractions.Fraction. Noise "
            "parameters are exact numbers: write Fraction('0.192') or Fraction(1, 4), never a float.",
            code="subspace-parameter",
        )
    if not least <= value <= largest:
        meaning = (
            "An epsilon of 0 asks for infinite noise, which has no law: leave the table out instead."
            if value == 0
            else "Change the budget."
        )
        raise BudgetError(
            f"{law}: {name} is about {in_short(value)}, wanted a value from {float(least):.0e} to "
            f"{float(largest):.0e}. {meaning}",
            code="subspace-parameter",
        )
