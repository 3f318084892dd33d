"""The privacy parameters that stand beside a claim of accuracy: a few numbers, each rounded in the safe direction.

A claim that an answer is exact to so many records means little without what it costs. So every table of errors names,
for the same noise, epsilon at three deltas, the least false negative rate of a test with five percent false positives,
and mu of Gaussian differential privacy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tallyveil.accounting.decimals import at_least, at_most
from tallyveil.accounting.guarantee import Guarantee
from tallyveil.accounting.zcdp import zcdp_to_epsilon

DELTAS: Final = ("1e-5", "1e-10", "1e-11")
"""Deltas at which epsilon is stated."""

ALPHA: Final = Fraction(1, 20)
"""False positive rate at which the least false negative rate is stated."""

BETA: Final = "beta_at_alpha_0.05"
MU: Final = "mu"


def parameter_texts(row: Mapping[str, Any], columns: Sequence[str]) -> list[str | None]:
    """What a table of any kind shows of some parameters: epsilon at each of DELTAS, then columns such as BETA and MU.

    Each number is rounded in the safe direction: the rate beta down, everything else up.

    Args:
        row: Parameters by name, as `PrivacyParameters.to_mapping` gives them.
        columns: Those of BETA and MU that the table has. What the row lacks is None.
    """
    return [
        *(at_most(row[epsilon_name(delta)], places=4) for delta in DELTAS),
        *(
            None
            if row.get(column) is None
            else (at_least if column == BETA else at_most)(row[column], places=4)
            for column in columns
        ),
    ]


@dataclass(frozen=True, slots=True)
class PrivacyParameters:
    """What some noise guarantees, in a few numbers.

    Attributes:
        epsilons: Upper bounds of epsilon, by delta as it is written in DELTAS.
        beta: A lower bound of the least false negative rate at ALPHA; None if it was not computed.
        mu: An upper bound of mu; None if it was not computed, or if no finite one was found.
    """

    epsilons: Mapping[str, float]
    beta: float | None = None
    mu: float | None = None

    def to_mapping(self) -> dict[str, float | None]:
        """The numbers by name: `epsilon_at_1e-5` and so on, BETA and MU."""
        named: dict[str, float | None] = {
            epsilon_name(delta): value for delta, value in self.epsilons.items()
        }
        return {**named, BETA: self.beta, MU: self.mu}


def exact_parameters(guarantee: Guarantee, *, with_mu: bool = True) -> PrivacyParameters:
    """The parameters of a guarantee.

    Args:
        guarantee: The guarantee.
        with_mu: Whether mu is computed, which takes from a tenth of a second to two seconds.

    Returns:
        The parameters. There is no mu where the lattice of the losses is too fine for a finite one.
    """
    # An upper bound of mu and a lower one of beta: both err towards less privacy.
    mu = guarantee.mu().upper if with_mu else math.inf
    return PrivacyParameters(
        # Text, not floats: 1e-5 as a float is another number than the one stated.
        epsilons={delta: guarantee.epsilon(delta).upper for delta in DELTAS},
        beta=guarantee.beta(ALPHA).lower,
        mu=mu if math.isfinite(mu) else None,
    )


def zcdp_parameters(rho: Fraction) -> PrivacyParameters:
    """What follows from rho alone: larger epsilons, by the best conversion."""
    return PrivacyParameters({delta: zcdp_to_epsilon(rho, Fraction(delta)) for delta in DELTAS})


def pure_parameters(epsilon: float) -> PrivacyParameters:
    """What follows from pure differential privacy alone: one epsilon at every delta."""
    return PrivacyParameters(dict.fromkeys(DELTAS, epsilon))


def epsilon_name(delta: str) -> str:
    """Name of the epsilon at a delta."""
    return f"epsilon_at_{delta}"
