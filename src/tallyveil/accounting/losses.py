"""Privacy losses of events: the classes of losses, the lattice of their sum, and the laws of an event.

*Losses of integer noise* that moves by k: with discrete Gaussian noise of variance v, L = (k^2 + 2 k X) / (2 v) with X
~ N_Z(0, v). With discrete Laplace noise of scale t and a = exp(-1 / t), L = (k - 2 j) / t, j = 0..k, with probability
1 / (1 + a) at j = 0, a^k / (1 + a) at j = k, and (1 - a) a^j / (1 + a) in between. Both laws are the same whichever of
the two neighbours is the true population. Example: k = 1, v = 2 has the losses 1/4 + X / 2, a lattice of step 1/2 and
offset 1/4.

*Other losses*, of real-valued noise, stated guarantees and random samples. (P, Q) is the pair of laws behind a loss;
the loss is ln dP/dQ under P. `multiplicity` independent losses are added up.

- `NormalLoss`: N(mu, 1) against N(0, 1). The loss is normal with mean mu^2 / 2 and variance mu^2.
- `ExponentialLoss`: two Laplace laws of scale 1 whose centres lie `epsilon` apart.
- `ResponseLoss`: the loss is epsilon, 0 or -epsilon, with weights exp(epsilon), options - 2 and 1.
- `FailureLoss`: infinite with a probability, and otherwise 0.
- `ConcentratedLoss`: only its Renyi divergences are known, at most rho times the order.
- `SampledLoss`: (1 - q) Q + q P against Q, or, if the record was added, Q against (1 - q) Q + q P. If a record of a
  sample of fixed size changes: the former where it is above 0, the latter where it is below, and 0 otherwise.
- `MixtureLoss`, on a sample alone: a mixture of N(mu, 1) against N(0, 1).
- `SelectedLoss`: the best of a random number of results; only its Renyi divergences are bounded.
- `ChoiceLoss`, on a sample alone: one of several samples is drawn, and which one is told.

*Laws and alternatives* (`loss_law_of`, `choices_of`, `alternatives_of`). A law is a tuple of loss factors with equal
ones merged. An event that may go one of several ways costs one law or another. Its *alternatives* are the laws of these
ways, without those that another of them dominates. They are stated as *choices*: an alternative adds up one or more
options of each choice. A spine with 64 kinds of paths has one choice of two halves, and 2,080 alternatives. Law A
dominates law B if the output behind B can be made from that behind A, so that A's profile is nowhere below B's: B is a
sub-composition of A, or the losses of B that A lacks have pure epsilon e in total, and A has one spare discrete Laplace
answer of sensitivity 1 and scale 1 / e or less. The guarantee is the largest profile among the alternatives, if only
the pair and public facts decide which applies. If what was released decides, such a choice is refused, unless nothing
else is composed with it. Proofs: docs/proofs/domination.md.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

from flint import arb

from tallyveil.accounting.events import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Laplace,
    MixtureOfGaussians,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    PoissonRepeatAndSelect,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    Release,
    RepeatAndSelect,
    Sampleable,
    SampledWithoutReplacement,
    SampledWithReplacement,
    SequentialEvent,
    SubspaceRelease,
    TruncatedPoissonSampled,
    WorstEvent,
    parts_of,
)
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational
from tallyveil.printable import in_one_line


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

    @property
    def step(self) -> Fraction:
        """Distance between neighbouring values of one loss."""
        return self.epsilon

    @property
    def offset(self) -> Fraction:
        """Smallest loss; one loss is offset + step * i with i = 0, 1 or 2."""
        return -self.epsilon


@dataclass(frozen=True, slots=True)
class FailureLoss:
    """Everything is revealed with a probability, and otherwise nothing.

    Attributes:
        probability: Above 0 and below 1, exact.
        multiplicity: Number of independent chances.
        attained: Whether some mechanism fails so often; if not, it counts in upper bounds alone.
    """

    probability: Fraction
    multiplicity: int = 1
    attained: bool = True


@dataclass(frozen=True, slots=True)
class ConcentratedLoss:
    """The loss of a mechanism of which rho is known.

    Attributes:
        rho: Exact.
        multiplicity: Number of such mechanisms.
    """

    rho: Fraction
    multiplicity: int = 1


@dataclass(frozen=True, slots=True)
class MixtureLoss:
    """The loss of normal noise whose centre the record moves by a random distance above 0, not added up with others.

    Attributes:
        variance: Of the noise, exact.
        shares: Each distance, exact and above 0, with its probability; in ascending order, with sum 1.
    """

    variance: Fraction
    shares: tuple[tuple[Fraction, Fraction], ...]


@dataclass(frozen=True, slots=True)
class ChoiceLoss:
    """The losses of several kinds of samples, of which one is drawn; both neighbours know which one.

    Attributes:
        parts: For each kind its probability, that of a record on it, and the loss on it, one answer. The first have sum
            1. All exact.
        attained: The probability of a record and the loss on a sample, of one kind, that some mechanism has.
    """

    parts: tuple[tuple[Fraction, Fraction, "NormalLoss | GaussianLoss"], ...]
    attained: tuple[Fraction, "NormalLoss | MixtureLoss"]


Base: TypeAlias = GaussianLoss | LaplaceLoss | NormalLoss | ExponentialLoss | ResponseLoss
SampleBase: TypeAlias = Base | MixtureLoss | ChoiceLoss
"""What a mechanism may lose on a sample."""


@dataclass(frozen=True, slots=True)
class SampledLoss:
    """Losses of a mechanism that sees a Poisson sample of the records.

    Attributes:
        base: Loss of the mechanism on the sample, one answer; None for a mechanism that reveals nothing or everything.
        probability: q, with which a record is in the sample, between 0 and 1, both excluded; exact. Only a mixture may
            have 1.
        failure: Probability with which the mechanism reveals everything that is in the sample; exact.
        added: Whether P is the law without the record.
        multiplicity: Number of samples, each drawn anew.
        changed: Whether a record changes its value and samples have a fixed size; not `added` then, and no failures.
    """

    base: "SampleBase | None"
    probability: Fraction
    failure: Fraction = Fraction(0)
    added: bool = False
    multiplicity: int = 1
    changed: bool = False


@dataclass(frozen=True, slots=True)
class SelectedLoss:
    """The loss of a mechanism that runs a random number of times, if the best result alone is released.

    Attributes:
        base: Law of one run.
        eta: Of the truncated negative binomial number of runs, exact; None if the number is a Poisson one.
        parameter: Gamma of the former, or the mean of the latter; exact.
        multiplicity: Number of such selections.
    """

    base: "Law"
    eta: Fraction | None
    parameter: Fraction
    multiplicity: int = 1


UNKNOWN_LAW = ConcentratedLoss | SelectedLoss
"""Losses of which only Renyi divergences are known."""

FurtherLoss: TypeAlias = (
    NormalLoss | ExponentialLoss | ResponseLoss | FailureLoss | ConcentratedLoss | SampledLoss | SelectedLoss
)
AnyLoss: TypeAlias = LossFactor | FurtherLoss
Law: TypeAlias = tuple[AnyLoss, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Laws of which some are taken, each one any number of times.

    Attributes:
        options: The laws, at least one.
        times: How many are taken.
    """

    options: tuple[Law, ...]
    times: int = 1


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
    return tuple(map(_mirrored, law))


def _mirrored(loss: AnyLoss) -> AnyLoss:
    match loss:
        case SampledLoss(changed=False):
            return replace(loss, added=not loss.added)
        case SelectedLoss(base):
            return replace(loss, base=merged_law(mirrored(base)))
        case _:
            # All other pairs of laws are symmetric, so that the mirrored law is the same one.
            return loss


def counted(law: Law) -> dict[AnyLoss, int]:
    """How often each loss is in a merged law."""
    return {replace(factor, multiplicity=1): factor.multiplicity for factor in law}


def rho_of_loss(loss: Base) -> Fraction:
    """A rho such that K(s) <= s (s + 1) rho for every s: exact for Gaussian noise, epsilon^2 / 2 for other noise."""
    match loss:
        case GaussianLoss():
            rho = loss.offset
        case NormalLoss():
            rho = loss.mu_squared / 2
        case LaplaceLoss():
            rho = loss.offset**2 / 2
        case ExponentialLoss() | ResponseLoss():
            rho = loss.epsilon**2 / 2
    return loss.multiplicity * rho


def cost_hint(loss: AnyLoss | SampleBase) -> float:
    """About the rho of a loss, in floats, by which searches begin and end; not a bound."""
    match loss:
        case ConcentratedLoss():
            rho = loss.multiplicity * loss.rho
        case FailureLoss():
            rho = Fraction(0)
        case SelectedLoss(base):
            return loss.multiplicity * sum(map(cost_hint, base))
        case MixtureLoss(variance, shares):
            return float(sum((share * move**2 for move, share in shares), Fraction(0)) / (2 * variance))
        case ChoiceLoss(parts):
            return sum(float(share) * cost_hint(base) for share, _, base in parts)
        case SampledLoss():
            hint = 0.0 if loss.base is None else cost_hint(loss.base)
            # About the chi-squared divergence on the sample; times q^2 it is capped at the base itself.
            grown = min(math.expm1(min(2 * hint, 600.0)) / 2, hint / float(loss.probability) ** 2)
            return loss.multiplicity * float(loss.probability) ** 2 * grown + 1e-12
        case _:
            rho = rho_of_loss(loss)
    return float(rho)


def chord_length(law: Law) -> float:
    """Over which the slope of delta is looked at: about a fiftieth of the standard deviation of the loss."""
    return 0.02 * math.sqrt(2 * sum(map(cost_hint, law)))


MOST_ALTERNATIVES = 2_500
"""Number of laws above which they are not composed one by one. Each takes up to 30 ms, so these take about a minute.

A spine of six geolevels with bypassing has at most 32 kinds of paths, which is 528 pairs of kinds. Two releases of nine
kinds each have 2,025 pairs of pairs."""

MOST_PRODUCTS = 16 * MOST_ALTERNATIVES
"""Number of products of laws that are compared, because many of them may be equal; this many take about ten seconds."""


class TooManyLawsError(BudgetError):
    """An event may take more ways than are composed one by one."""


def loss_law_of(event: PrivacyEvent) -> Law:
    """The one composition that an event adds up to, merged; empty if nothing is released.

    It holds under both relations. Under bounded neighbours a record may leave one parallel part and enter another,
    which costs half of each. Domination still holds when all multiplicities are halved, so this costs no more.

    Raises:
        BudgetError: the event is non-private, or no single law covers all the ways it may take.
    """
    laws = enumerated(_choices(event, None, outermost=True))
    if len(laws) > 1:
        raise _several(len(laws))
    return laws[0]


def alternatives_of(event: PrivacyEvent, neighbours: Neighbours) -> tuple[Law, ...]:
    """The compositions of which the worst one is what the event costs; none of them dominates another.

    The privacy profile of the event is the pointwise largest of their profiles, as the top of this module explains. An
    event with random samples has each law twice: for the removal of a record and for its addition.

    Args:
        event: What is done.
        neighbours: The relation that its sensitivities are stated under. Under bounded neighbours a record may leave
            one parallel part and enter another, so halves of different parts are combined.

    Returns:
        At least one composition. If nothing is released, it is the empty one.

    Raises:
        BudgetError: as `choices_of`; or more than 2,500 alternatives.
    """
    return both_directions(enumerated(choices_of(event, neighbours)))


def choices_of(event: PrivacyEvent, neighbours: Neighbours) -> tuple[Choice, ...]:
    """What an event costs as choices: each of its alternatives adds up so many options of each choice.

    With random samples these are the laws for the removal of a record.

    Raises:
        BudgetError: the event is non-private; a choice that depends on what was released, within a larger
            event, among branches of which none dominates; or parallel parts that cannot be halved.
    """
    return _choices(event, neighbours.answers_moved, outermost=True)


def both_directions(laws: tuple[Law, ...]) -> tuple[Law, ...]:
    """Each law with the one of the opposite change beside it, each one once."""
    return tuple(
        dict.fromkeys(law for direction in laws for law in (direction, merged_law(mirrored(direction))))
    )


def number_of_laws(choices: Sequence[Choice]) -> int:
    """How many laws some choices have, if none are equal."""
    # A binomial of huge numbers would take long, and says no more than that there are too many.
    return math.prod(
        math.comb(len(choice.options) + choice.times - 1, min(choice.times, len(choice.options) - 1))
        for choice in choices
    )


def enumerated(choices: Sequence[Choice]) -> tuple[Law, ...]:
    """All laws of some choices, merged, each one once.

    Raises:
        BudgetError: there are more than 2,500.
    """
    # What there is no choice about is merged once, and not in every product.
    fixed = merged_law(
        tuple(
            loss
            for choice in choices
            if len(choice.options) == 1
            for loss in times(choice.options[0], Fraction(choice.times))
        )
    )
    products: tuple[Law, ...] = (fixed,)
    for choice in choices:
        if len(choice.options) > 1:
            laws = _mixes(choice)
            if len(products) * len(laws) > MOST_PRODUCTS:
                raise _too_many()
            products = tuple(dict.fromkeys(merged_law(a + b) for a in products for b in laws))
            if len(products) > MOST_ALTERNATIVES:
                raise _too_many()
    return products


def branches_of_one_law(event: AdaptiveEvent) -> tuple[PrivacyEvent, ...]:
    """The branches of an adaptive event, which are first checked to have the same loss law.

    Whatever computes a number from an adaptive event, or reads or writes one, takes the branches from here.

    Raises:
        BudgetError: branches with different loss laws (use `WorstEvent`), or a non-private one.
    """
    laws = {loss_law_of(branch) for branch in event.branches}
    if len(laws) > 1:
        raise BudgetError(
            f"the {len(event.branches)} branches of AdaptiveEvent have {len(laws)} different loss laws; an adaptive "
            "choice among branches is supported only if all their laws are the same. Use WorstEvent, or give the "
            "branches equal noise."
        )
    return event.branches


def has_loss_law(event: PrivacyEvent) -> bool:
    """Whether every release in an event has an exact loss law; a release on a lattice may have none."""
    if isinstance(event, IntegerSubspaceGaussian):
        return False
    if isinstance(event, IntegerSubspaceLaplace):
        return event.total_variation == 0
    return all(has_loss_law(part) for part in parts_of(event))


def invariants_of(event: PrivacyEvent) -> tuple[str, ...]:
    """The statements of all invariants in an event, each one once, in order."""
    return tuple(dict.fromkeys(_statements(event)))


def dominates(larger: Law, smaller: Law) -> bool:
    """Whether one of the two cases of this module shows that a law dominates another. False may mean unknown."""
    more, less = counted(larger), counted(smaller)
    rest = {factor: n - more.get(factor, 0) for factor, n in less.items() if n > more.get(factor, 0)}
    spare = {factor: n - less.get(factor, 0) for factor, n in more.items() if n > less.get(factor, 0)}
    if not rest:
        return True
    if not all(isinstance(factor, LaplaceLoss) for factor in rest):
        return False
    epsilon = sum(_pure(factor) * n for factor, n in rest.items() if isinstance(factor, LaplaceLoss))
    together = math.gcd(*rest.values())
    # The rest falls into equal groups, each to stand against one of the spare answers. Both numbers of groups are even
    # where all multiplicities are, so that a law halved is dominated as the whole is (docs/proofs/domination.md, 3).
    return any(
        isinstance(factor, LaplaceLoss)
        and factor.sensitivity == 1
        and any(
            groups <= n and epsilon <= groups * _pure(factor) for groups in (together, math.gcd(together, n))
        )
        for factor, n in spare.items()
    )


def _pure(factor: LaplaceLoss) -> Fraction:
    """The pure epsilon of one answer of a Laplace factor."""
    return -factor.offset


def _choices(event: PrivacyEvent, answers_moved: int | None, *, outermost: bool) -> tuple[Choice, ...]:
    """The choices of an event.

    Args:
        event: What is done.
        answers_moved: Answers of a partition query that one record moves; None if one law is wanted that holds under
            both relations.
        outermost: Whether nothing else that loses privacy is composed with the event.
    """
    match event:
        case InvariantEvent():
            return ()
        case NonPrivateEvent(reason):
            raise BudgetError(
                f"a non-private event has no finite guarantee ({in_one_line(reason)}). Ask for the guarantee of the "
                "other events, and state this one separately."
            )
        case SequentialEvent(events):
            lossy = [part for part in events if _loses(part)]
            # A choice by what was released is allowed only where nothing else is composed with it.
            alone = outermost and len(lossy) == 1
            return tuple(
                choice for part in lossy for choice in _choices(part, answers_moved, outermost=alone)
            )
        case AdaptiveEvent():
            # All branches have one law, and so the choice tells nothing more.
            return _choices(branches_of_one_law(event)[0], answers_moved, outermost=False)
        case WorstEvent(branches, chosen):
            laws = _undominated(
                law
                for branch in branches
                for law in enumerated(_choices(branch, answers_moved, outermost=outermost))
            )
            if len(laws) > 1 and chosen == "adaptive" and not outermost:
                raise BudgetError(
                    f"{len(laws)} branches of WorstEvent, none of which covers the others, are chosen by what was "
                    "released, and WorstEvent is part of a larger event. The exact loss of such an event is not "
                    "supported. Give the branches equal noise, or state chosen='public' if the choice does not "
                    "depend on released data."
                )
            return (Choice(laws),)
        case ParallelEvent(events, degree):
            # Covered parts may go before the mixing (docs/proofs/domination.md, section 3), which is costly.
            parts = _undominated(
                law for part in events for law in enumerated(_choices(part, answers_moved, outermost=False))
            )
            return _of_parts(parts, degree, answers_moved)
        case _:
            return (Choice((merged_law(_loss(event)),)),)


def sampled_law(event: PoissonSampled) -> Law:
    """The losses of a release that sees a random sample, for the removal of a record."""
    q = event.probability
    inner: Sampleable | PoissonSampled = event.event
    while isinstance(inner, PoissonSampled):  # a sample of a sample is a sample
        q *= inner.probability
        inner = inner.event
    # With probability 0 no record is ever in the sample, whatever is done with it.
    law = _loss(inner) if q else ()
    if q == 1 or not law:
        return times(law, Fraction(event.multiplicity))
    failure = sum((loss.probability for loss in law if isinstance(loss, FailureLoss)), Fraction(0))
    base = next((loss for loss in merged_law(law) if not isinstance(loss, FailureLoss)), None)
    assert not isinstance(base, SampledLoss | UNKNOWN_LAW | FailureLoss)
    return (SampledLoss(base, q, failure, multiplicity=event.multiplicity),)


def fixed_size_law(event: SampledWithoutReplacement) -> Law:
    """The losses of the least pair that covers a release on a sample of fixed size."""
    q, law = Fraction(event.sample_size, event.records), merged_law(_loss(event.event))
    if q == 1 or not law:
        return times(law, Fraction(event.multiplicity))
    (base,) = law
    assert not isinstance(base, SampledLoss | UNKNOWN_LAW | FailureLoss)
    return (SampledLoss(base, q, changed=True, multiplicity=event.multiplicity),)


_RARE = Fraction(1, 10**24)
"""Probability of draws of a record that count as revealing everything. Each one more is a longer list of losses."""

_ROUNDED = 2**200
"""Binomial probabilities are rounded to multiples of one over this, to the safe side."""


def replaced_law(event: SampledWithReplacement) -> Law:
    """The losses of a pair that covers a release on draws with replacement."""
    draws, chance = event.sample_size, Fraction(1, event.records)
    with precision(256):
        # How often the record is drawn: each probability from both sides, up to the number that is rare.
        share = (draws * rational(-chance).log1p()).exp()
        lows: list[Fraction] = []
        highs: list[Fraction] = []
        tail = 1 - share
        while tail.upper() > rational(_RARE) and len(highs) < draws:
            times = len(highs) + 1
            share *= rational(Fraction(draws - times + 1, times * (event.records - 1)))
            tail -= share
            lows.append(_rounded(share, -1))
            highs.append(_rounded(share, 1))
        rare = _rounded(tail, 1) if len(highs) < draws else Fraction(0)
    mu_squared = event.event.multiplicity * event.event.mu_squared
    total = sum(highs, Fraction(0))
    # Given that the record is not drawn more often than listed.
    q = min(total / (1 - rare), Fraction(1))
    parts = tuple(
        (high / total, q, NormalLoss(times**2 * mu_squared)) for times, high in enumerate(highs, start=1)
    )
    once = [low for low in lows if low]
    attained = MixtureLoss(
        1 / mu_squared,
        tuple((Fraction(times), low / sum(once, Fraction(0))) for times, low in enumerate(once, start=1)),
    )
    law: Law = (
        SampledLoss(
            ChoiceLoss(parts, (sum(once, Fraction(0)), attained)),
            q,
            changed=True,
            multiplicity=event.multiplicity,
        ),
    )
    return (*law, FailureLoss(rare, event.multiplicity, attained=False)) if rare else law


def truncated_law(event: TruncatedPoissonSampled) -> Law:
    """The losses of a pair that covers a release on a truncated Poisson sample, for the removal of a record."""
    n, most, p = event.records, event.largest, event.probability
    single = merged_law(_loss(event.event))[0]
    assert isinstance(single, NormalLoss)
    if most >= n or p in (0, 1):
        if p == 1 and most < n:
            # Always truncated: a part of fixed size, of all records.
            return (
                SampledLoss(
                    NormalLoss(4 * single.mu_squared), Fraction(most, n), multiplicity=event.multiplicity
                ),
            )
        return sampled_law(PoissonSampled(event.event, p, event.multiplicity))
    with precision(256):
        share = rational(p)
        # Truncated if `most` or more of the others are in the sample. Then the record is in the part with this one.
        truncated = share.beta_lower(most, n - most, True)
        both = share.beta_lower(most + 1, n - most, True) * most / n
        in_part = min(_rounded(both / truncated, 1), p) if truncated > 0 else p
        often, seldom = _rounded(truncated, -1), _rounded(1 - truncated, -1)
        # Of a record that moves the answer alone: it is in the sample that the release sees with this probability.
        attained = _rounded((1 - truncated) * share + both, -1)
    double = NormalLoss(4 * single.mu_squared)
    # What rounding leaves is counted as the worst of both.
    kinds = ((seldom, p, single), (often, in_part, double), (1 - often - seldom, p, double))
    parts = tuple(kind for kind in kinds if kind[0])
    q = sum((weight * part for weight, part, _ in parts), Fraction(0))
    choice = ChoiceLoss(parts, (attained, single))
    return (SampledLoss(choice, q, multiplicity=event.multiplicity),)


def _rounded(value: arb, side: int) -> Fraction:
    """A probability, rounded up (1) or down (-1) to a multiple of 1 / `_ROUNDED`, between 0 and 1."""
    scaled = value * _ROUNDED
    end = (scaled.upper() if side > 0 else scaled.lower()).floor().unique_fmpz()
    assert end is not None
    return min(max(Fraction(int(end) + (1 if side > 0 else 0), _ROUNDED), Fraction(0)), Fraction(1))


def mixed_law(event: MixtureOfGaussians) -> Law:
    """The losses of a mixture, for the removal of a record."""
    shares: dict[Fraction, Fraction] = {}
    for move, share in zip(event.sensitivities, event.probabilities, strict=True):
        if move and share:
            shares[move] = shares.get(move, Fraction(0)) + share
    q = sum(shares.values(), Fraction(0))
    if not shares:
        return ()
    if len(shares) > 1:
        parts = tuple((move, share / q) for move, share in sorted(shares.items()))
        return (SampledLoss(MixtureLoss(event.variance, parts), q, multiplicity=event.multiplicity),)
    # One distance alone is noise, on a sample or not.
    normal = NormalLoss(next(iter(shares)) ** 2 / event.variance)
    if q == 1:
        return times((normal,), Fraction(event.multiplicity))
    return (SampledLoss(normal, q, multiplicity=event.multiplicity),)


def selected_law(event: RepeatAndSelect | PoissonRepeatAndSelect) -> Law:
    """The losses of the best of a random number of results, for the removal of a record."""
    base, n = loss_law_of(event.event), event.multiplicity
    if not base:
        return ()
    if isinstance(event, PoissonRepeatAndSelect):
        return (SelectedLoss(base, None, event.mean, n),)
    return (SelectedLoss(base, event.eta, event.gamma, n),)


def _loss(release: Release) -> Law:  # noqa: PLR0911, PLR0912 (one return a kind)
    match release:
        case DiscreteGaussian():
            return (GaussianLoss(release.variance, release.sensitivity, release.multiplicity),)
        case DiscreteLaplace():
            return (LaplaceLoss(release.scale, release.sensitivity, release.multiplicity),)
        case Gaussian():
            return (NormalLoss(release.mu_squared, release.multiplicity),)
        case Laplace():
            return (ExponentialLoss(release.epsilon, release.multiplicity),)
        case MixtureOfGaussians():
            return mixed_law(release)
        case RandomizedResponse():
            if release.options == 2:
                return (LaplaceLoss(1 / release.epsilon, 1, release.multiplicity),)
            return (ResponseLoss(release.epsilon, release.options, release.multiplicity),)
        case ApproximateDP():
            pure = (LaplaceLoss(1 / release.epsilon, 1, release.multiplicity),) if release.epsilon else ()
            return (*pure, FailureLoss(release.delta, release.multiplicity)) if release.delta else pure
        case ZCDP():
            return (ConcentratedLoss(release.rho),)
        case PoissonSampled():
            return sampled_law(release)
        case SampledWithoutReplacement():
            return fixed_size_law(release)
        case SampledWithReplacement():
            return replaced_law(release)
        case TruncatedPoissonSampled():
            return truncated_law(release)
        case RepeatAndSelect() | PoissonRepeatAndSelect():
            return selected_law(release)
        case _:
            return (_lattice_loss(release),)


def _lattice_loss(release: SubspaceRelease) -> LossFactor:
    if isinstance(release, IntegerSubspaceGaussian):
        raise BudgetError(
            "Gaussian noise on a lattice has a different loss law for each pair of neighbouring populations, and no "
            "worst one among them. Ask for its rho, or for the privacy profile of one pair.",
            code="subspace-no-law",
        )
    if release.total_variation:
        raise BudgetError(
            "the noise of this release follows its law only up to a total variation distance, so the release has no "
            "exact loss law. Ask for its epsilon, and add delta_with_total_variation.",
            code="subspace-no-law",
        )
    # Randomised response is the worst pure mechanism (Kairouz, Oh, Viswanath 2015): case 2 above.
    return LaplaceLoss(1 / release.loss, 1, 1)


def _of_parts(parts: tuple[Law, ...], degree: int, answers_moved: int | None) -> tuple[Choice, ...]:
    """What a record costs that is in `degree` of the parts."""
    if not parts:
        return ()
    if answers_moved != 1:
        _require_halves(parts)
    if len(parts) == 1:
        return (Choice((times(parts[0], Fraction(degree)),)),)
    if answers_moved is None:
        raise _several(len(parts))
    # A record that moves meets halves: of the parts that it leaves, and of those that it enters.
    return (Choice(tuple(times(law, Fraction(1, answers_moved)) for law in parts), degree * answers_moved),)


def _mixes(choice: Choice) -> tuple[Law, ...]:
    """The laws of one choice, each one once."""
    # The first test keeps the binomial from being computed for huge numbers.
    if choice.times > MOST_ALTERNATIVES or number_of_laws([choice]) > MOST_ALTERNATIVES:
        raise _too_many()
    mixes = (
        tuple(loss for i in set(picks) for loss in times(choice.options[i], Fraction(picks.count(i))))
        for picks in itertools.combinations_with_replacement(range(len(choice.options)), choice.times)
    )
    return tuple(dict.fromkeys(merged_law(mix) for mix in mixes))


def _undominated(laws: Iterable[Law]) -> tuple[Law, ...]:
    """The laws that no other one dominates, each one once, in order."""
    undominated: list[tuple[Law, dict[int, int]]] = []
    places: dict[AnyLoss, int] = {}
    for law in dict.fromkeys(laws):
        # No case of domination puts anything in the place of a loss that is not of Laplace noise. So most pairs need no
        # closer look than at how often each has these, by their places: fractions take long to compare.
        fixed = {
            places.setdefault(loss, len(places)): n
            for loss, n in counted(law).items()
            if not isinstance(loss, LaplaceLoss)
        }
        if any(_has(other, fixed) and dominates(larger, law) for larger, other in undominated):
            continue
        # A later law may cover several that were kept before.
        undominated = [
            (smaller, other)
            for smaller, other in undominated
            if not (_has(fixed, other) and dominates(law, smaller))
        ]
        undominated.append((law, fixed))
    return tuple(law for law, _ in undominated)


def _has(more: dict[int, int], less: dict[int, int]) -> bool:
    return all(more.get(place, 0) >= n for place, n in less.items())


def times(law: Law, share: Fraction) -> Law:
    """The law so many times.

    Raises:
        BudgetError: a multiplicity becomes no whole number.
    """
    scaled = []
    for factor in law:
        multiplicity = factor.multiplicity * share
        if multiplicity.denominator != 1:
            raise BudgetError(
                f"the parts of a parallel event differ, and {as_given(factor)} has an odd multiplicity. Under "
                "bounded neighbours a record leaves one part and enters another, which costs half of each part's "
                "loss, and an odd multiplicity cannot be halved. Give each partition query multiplicity 2 under "
                "bounded neighbours."
            )
        scaled.append(replace(factor, multiplicity=int(multiplicity)))
    return tuple(scaled)


def _require_halves(parts: tuple[Law, ...]) -> None:
    """Refuse losses of which nothing is known where a record leaves one part and enters another."""
    # Only integer answers are known to cost half where a record leaves a part.
    for loss in (loss for law in parts for loss in further(law)):
        raise no_cost_of_leaving(loss)


def no_cost_of_leaving(item: object) -> BudgetError:
    """What is said where a record leaves a part for another, and nothing tells what that costs."""
    return BudgetError(
        f"a parallel event holds {as_given(item)}. Under bounded neighbours a record may leave one part and enter "
        "another, and only releases of integer answers say what that costs. State the parallel event under "
        "unbounded neighbours, or give its parts one after the other."
    )


def _loses(event: PrivacyEvent) -> bool:
    # An invariant loses nothing, and leaves a choice beside it as free as it was.
    if isinstance(event, Release | NonPrivateEvent):
        return True
    return any(_loses(part) for part in parts_of(event))


def _statements(event: PrivacyEvent) -> Iterator[str]:
    if isinstance(event, InvariantEvent):
        yield event.statement
    if isinstance(event, IntegerSubspaceLaplace | IntegerSubspaceGaussian):
        yield from event.invariants
    for part in parts_of(event):
        yield from _statements(part)


def _several(n: int) -> BudgetError:
    return BudgetError(
        f"an event may take {n} ways, none of which covers the others, so no single loss law describes it. Ask "
        "for its guarantee, which takes the largest privacy profile among all cases."
    )


def _too_many() -> TooManyLawsError:
    return TooManyLawsError(
        f"the event has more than {MOST_ALTERNATIVES:,} worst cases to compare. Give the parts the same noise where "
        "that is possible, or leave out branches that are never the worst."
    )
