"""Losses beside those of integer noise: of real-valued noise, of stated guarantees, and of random samples.

Every class has a `multiplicity`, the number of independent losses that are added up. The pair of laws behind a loss is
written (P, Q); the loss is ln dP/dQ under P.

- `NormalLoss`: N(mu, 1) against N(0, 1). The loss is normal with mean mu^2 / 2 and variance mu^2.
- `ExponentialLoss`: two Laplace laws of scale 1 whose centres lie `epsilon` apart.
- `ResponseLoss`: the loss is epsilon, 0 or -epsilon, with weights exp(epsilon), options - 2 and 1.
- `FailureLoss`: infinite with a probability, and otherwise 0.
- `ConcentratedLoss`: only its Renyi divergences are known, at most rho times the order.
- `SampledLoss`: (1 - q) Q + q P against Q, or, if the record was added, Q against (1 - q) Q + q P.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, LossFactor, merged


@dataclass(frozen=True, slots=True)
class NormalLoss:
    """Losses of real answers with normal noise.

    Attributes:
        mu_squared: Squared quotient of sensitivity and standard deviation, exact.
        multiplicity: Number of answers.
    """

    mu_squared: Fraction
    multiplicity: int = 1


@dataclass(frozen=True, slots=True)
class ExponentialLoss:
    """Losses of real answers with Laplace noise.

    Attributes:
        epsilon: Quotient of sensitivity and scale, exact.
        multiplicity: Number of answers.
    """

    epsilon: Fraction
    multiplicity: int = 1


@dataclass(frozen=True, slots=True)
class ResponseLoss:
    """Losses of randomized response with three options or more.

    Attributes:
        epsilon: The largest loss, exact.
        options: Number of options.
        multiplicity: Number of answers.
    """

    epsilon: Fraction
    options: int
    multiplicity: int = 1


@dataclass(frozen=True, slots=True)
class FailureLoss:
    """Everything is revealed with a probability, and otherwise nothing.

    Attributes:
        probability: Above 0 and below 1, exact.
        multiplicity: Number of independent chances.
    """

    probability: Fraction
    multiplicity: int = 1


@dataclass(frozen=True, slots=True)
class ConcentratedLoss:
    """The loss of a mechanism of which rho is known.

    Attributes:
        rho: Exact.
        multiplicity: Number of such mechanisms.
    """

    rho: Fraction
    multiplicity: int = 1


Base: TypeAlias = GaussianLoss | LaplaceLoss | NormalLoss | ExponentialLoss | ResponseLoss


@dataclass(frozen=True, slots=True)
class SampledLoss:
    """Losses of a mechanism that sees a Poisson sample of the records.

    Attributes:
        base: Loss of the mechanism on the sample, one answer; None for a mechanism that reveals nothing or everything.
        probability: q, with which a record is in the sample, between 0 and 1, both excluded; exact.
        failure: Probability with which the mechanism reveals everything that is in the sample; exact.
        added: Whether P is the law without the record.
        multiplicity: Number of samples, each drawn anew.
    """

    base: Base | None
    probability: Fraction
    failure: Fraction = Fraction(0)
    added: bool = False
    multiplicity: int = 1


FurtherLoss: TypeAlias = (
    NormalLoss | ExponentialLoss | ResponseLoss | FailureLoss | ConcentratedLoss | SampledLoss
)
AnyLoss: TypeAlias = LossFactor | FurtherLoss
Law: TypeAlias = tuple[AnyLoss, ...]


def merged_law(law: Law) -> Law:
    """The same composition with equal losses counted together, in a fixed order; normal losses become one.

    Raises:
        BudgetError: a loss of integer noise is out of range.
    """
    counted: dict[FurtherLoss, int] = {}
    # Several normal answers together are one normal answer: mu squared adds up exactly.
    mu_squared = sum(
        (loss.mu_squared * loss.multiplicity for loss in law if isinstance(loss, NormalLoss)), Fraction(0)
    )
    for loss in further(law):
        if not isinstance(loss, NormalLoss):
            single = replace(loss, multiplicity=1)
            counted[single] = counted.get(single, 0) + loss.multiplicity
    others = [replace(loss, multiplicity=n) for loss, n in counted.items()]
    normal = (NormalLoss(mu_squared),) if mu_squared else ()
    # In a fixed order, so that equal compositions are equal tuples however they were stated.
    return (*merged(of_integers(law)), *normal, *sorted(others, key=repr))


def of_integers(law: Law) -> tuple[LossFactor, ...]:
    """The losses of integer noise in a law."""
    # The engines on lattices take these alone; everything else needs a list or a closed form.
    return tuple(loss for loss in law if isinstance(loss, GaussianLoss | LaplaceLoss))


def further(law: Law) -> tuple[FurtherLoss, ...]:
    """The other losses in a law."""
    return tuple(loss for loss in law if not isinstance(loss, GaussianLoss | LaplaceLoss))


def mirrored(law: Law) -> Law:
    """The law of the opposite change: a record is added where it was removed. Only samples tell the two apart."""
    # All other pairs of laws are symmetric, so that the mirrored law is the same one.
    return tuple(
        replace(loss, added=not loss.added) if isinstance(loss, SampledLoss) else loss for loss in law
    )


def cost_hint(loss: AnyLoss) -> float:
    """About the rho of a loss, in floats, by which searches begin and end; not a bound."""
    match loss:
        case GaussianLoss():
            rho = loss.offset
        case LaplaceLoss():
            rho = loss.offset**2 / 2
        case NormalLoss():
            rho = loss.mu_squared / 2
        case ExponentialLoss() | ResponseLoss():
            rho = loss.epsilon**2 / 2
        case ConcentratedLoss():
            rho = loss.rho
        case FailureLoss():
            rho = Fraction(0)
        case SampledLoss():
            base = 0.0 if loss.base is None else cost_hint(loss.base)
            # About the chi-squared divergence on the sample; times q^2 it is capped at the base itself.
            grown = min(math.expm1(min(2 * base, 600.0)) / 2, base / float(loss.probability) ** 2)
            return loss.multiplicity * float(loss.probability) ** 2 * grown + 1e-12
    return float(loss.multiplicity * rho)
