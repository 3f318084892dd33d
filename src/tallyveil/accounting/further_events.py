"""Events beside integer mechanisms: real-valued noise, randomized response, and guarantees that somebody states.

They are for mechanisms that Tallyveil does not run itself. An event describes the mechanism in exact arithmetic. Noise
that a program draws in floating point is another mechanism, whose guarantee may be far worse (Mironov 2012).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from tallyveil.accounting.exact import count_of, exact_number, parameter_of_noise, share_of
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

LARGEST_LOSS = 10**4
"""Largest epsilon of one answer, and largest squared quotient of a sensitivity and a standard deviation."""

_LEAST_LOSS = Fraction(1, 10**60)
"""Least loss of one answer that is above 0. Floats still hold its fourth power, 1e-240; with twice the
exponent that would be 0."""
_LEAST_DELTA = Fraction(1, 10**300)
"""Least delta above 0. Normal floats end at 2.2e-308; with twice the exponent it would be 0."""


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """Real answers released with normal noise, independent in every answer.

    The guarantee is that of real numbers. Normal noise drawn in floating point does not have it: some outputs are
    possible for one neighbour only. Where the answers are integers, use `DiscreteGaussian`.

    Attributes:
        variance: Of the noise; exact. Given as a Fraction, a Decimal, an integer or exact text; a float is refused.
            The "noise multiplier" z of machine learning is `Gaussian(variance=z * z)`.
        sensitivity: By how much one answer moves between neighbours, or the l2 distance of a whole vector; exact.
        multiplicity: Number of answers that move by this much, each with its own noise.

    Source: Balle, Wang 2018, Theorem 8; Dong, Roth, Su 2022.
    """

    variance: Fraction
    sensitivity: Fraction
    multiplicity: int

    def __init__(
        self, variance: Fraction | int | str, sensitivity: Fraction | int | str = 1, multiplicity: int = 1
    ) -> None:
        _set(self, "variance", parameter_of_noise(variance, "variance of Gaussian"))
        _set(self, "sensitivity", parameter_of_noise(sensitivity, "sensitivity of Gaussian"))
        _set(self, "multiplicity", count_of(multiplicity, "multiplicity of Gaussian"))
        # Both numbers may be in range and their quotient beyond what floats search.
        _require_loss(self.mu_squared, "sensitivity^2 / variance of Gaussian")

    @property
    def mu_squared(self) -> Fraction:
        """The square of mu of Gaussian differential privacy, for one answer."""
        return self.sensitivity**2 / self.variance

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "gaussian",
            "variance": str(self.variance),
            "sensitivity": str(self.sensitivity),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Real answers released with Laplace noise, independent in every answer.

    The guarantee is that of real numbers. Laplace noise drawn in floating point does not have it (Mironov 2012). Where
    the answers are integers, use `DiscreteLaplace`.

    Attributes:
        scale: The density is proportional to exp(-|x| / scale); exact. Given as a Fraction, a Decimal, an integer or
            exact text; a float is refused.
        sensitivity: By how much one answer moves between neighbours; exact.
        multiplicity: Number of answers that move by this much, each with its own noise.

    Source: Dwork, McSherry, Nissim, Smith 2006.
    """

    scale: Fraction
    sensitivity: Fraction
    multiplicity: int

    def __init__(
        self, scale: Fraction | int | str, sensitivity: Fraction | int | str = 1, multiplicity: int = 1
    ) -> None:
        _set(self, "scale", parameter_of_noise(scale, "scale of Laplace"))
        _set(self, "sensitivity", parameter_of_noise(sensitivity, "sensitivity of Laplace"))
        _set(self, "multiplicity", count_of(multiplicity, "multiplicity of Laplace"))
        # As for normal noise: each in range does not mean that their quotient is.
        _require_loss(self.epsilon, "sensitivity / scale of Laplace")

    @property
    def epsilon(self) -> Fraction:
        """Pure epsilon of one answer."""
        return self.sensitivity / self.scale

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "laplace",
            "scale": str(self.scale),
            "sensitivity": str(self.sensitivity),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """One of several options is released: the true one with odds exp(epsilon) to 1 against each other option.

    Neighbours differ in the true option. So under bounded neighbours, a person may answer this once. Under unbounded
    neighbours, state it only if a person who is not there answers too.

    Attributes:
        epsilon: Pure epsilon, above 0; exact.
        options: Number of options, 2 or more.
        multiplicity: Number of answers of the same person.

    Source: Warner 1965; Kairouz, Oh, Viswanath 2015.
    """

    epsilon: Fraction
    options: int
    multiplicity: int

    def __init__(self, epsilon: Fraction | int | str, options: int = 2, multiplicity: int = 1) -> None:
        _set(self, "epsilon", parameter_of_noise(epsilon, "epsilon of RandomizedResponse"))
        # With one option nothing is released.
        _set(self, "options", count_of(options, "options of RandomizedResponse", least=2))
        _set(self, "multiplicity", count_of(multiplicity, "multiplicity of RandomizedResponse"))
        _require_loss(self.epsilon, "epsilon of RandomizedResponse")

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; epsilon is an exact fraction as text."""
        return {
            "kind": "randomized_response",
            "epsilon": str(self.epsilon),
            "options": self.options,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class ApproximateDP:
    """Any mechanism of which nothing is known but (epsilon, delta). A guarantee is that of the worst such mechanism.

    The worst one exists: with probability delta it reveals everything, and otherwise it is randomized response
    (docs/proofs/real-noise.md, section 1). So the bounds hold from both sides.

    Attributes:
        epsilon: 0 or more; exact.
        delta: At least 0 and below 1; exact.
        multiplicity: Number of such mechanisms.

    Source: Kairouz, Oh, Viswanath 2015.
    """

    epsilon: Fraction
    delta: Fraction
    multiplicity: int

    def __init__(
        self, epsilon: Fraction | int | str, delta: Fraction | int | str = 0, multiplicity: int = 1
    ) -> None:
        exact = exact_number(epsilon, "epsilon of ApproximateDP")
        if exact < 0:
            raise BudgetError(f"epsilon of ApproximateDP must be 0 or more, got {as_given(epsilon)}.")
        # Epsilon 0 is allowed: with its delta it is a chance of failure and nothing else.
        if exact:
            _require_loss(exact, "epsilon of ApproximateDP")
        _set(self, "epsilon", exact)
        _set(self, "delta", share_of(delta, "delta of ApproximateDP"))
        if 0 < self.delta < _LEAST_DELTA:
            raise BudgetError(
                f"delta of ApproximateDP must be 0, or 1e-300 or more, got {as_given(delta)}. Give 0 or '1e-300'."
            )
        # A finite guarantee at delta 1 would be true and say nothing; the other event shows as no guarantee.
        if self.delta == 1:
            raise BudgetError(
                "delta of ApproximateDP must be below 1, got 1, which promises nothing. Use NonPrivateEvent."
            )
        _set(self, "multiplicity", count_of(multiplicity, "multiplicity of ApproximateDP"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "approximate_dp",
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class ZCDP:
    """Any mechanism of which nothing is known but rho, its cost in zero-concentrated differential privacy.

    No single mechanism is known to be the worst one at every epsilon. So the two ends of a bound mean different things
    here. The upper end holds for every mechanism with this rho; it comes from Renyi divergences. The lower end is that
    of normal noise with this rho: that is such a mechanism, so that no smaller claim holds for all of them.

    Attributes:
        rho: Above 0; exact.

    Source: Bun, Steinke 2016, Definition 1.1; Canonne, Kamath, Steinke 2020, Proposition 12.
    """

    rho: Fraction

    def __init__(self, rho: Fraction | int | str) -> None:
        _set(self, "rho", parameter_of_noise(rho, "rho of ZCDP"))
        _require_loss(self.rho, "rho of ZCDP")

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; rho is an exact fraction as text."""
        return {"kind": "zcdp", "rho": str(self.rho)}


FurtherRelease: TypeAlias = Gaussian | Laplace | RandomizedResponse | ApproximateDP | ZCDP


def _set(event: object, name: str, value: object) -> None:
    object.__setattr__(event, name, value)


def _require_loss(loss: Fraction, where: str) -> None:
    # Exact fractions, so that a loss at the very end of the range is not refused by a rounding.
    if not _LEAST_LOSS <= loss <= LARGEST_LOSS:
        raise BudgetError(
            f"{where} must lie between 1e-60 and {LARGEST_LOSS}, got {as_given(loss)}. Check the units."
        )
