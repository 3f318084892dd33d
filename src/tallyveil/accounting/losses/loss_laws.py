"""The loss laws of an event: the independent losses that it adds up to, exactly.

A *law* is a composition: a tuple of loss factors, with equal factors merged. Most events have one law. An event that
may take several ways has one law for each way that no other one dominates. These laws are its *alternatives*.

Law A *dominates* law B if whoever holds the output behind A can make the output behind B from it. Then the privacy
profile of A is nowhere below the profile of B, whatever else is composed with both. Two cases are recognised:

1. B is a sub-composition of A: leave some of A's outputs out.
2. The losses of B that A lacks have pure epsilon e in total, and A has one spare discrete Laplace answer of
   sensitivity 1 and scale 1 / e or less.

Laws that do not dominate each other are kept as alternatives if only the neighbouring pair and public facts decide
which applies. The guarantee is then the largest profile among them. If what was released decides, the largest profile
is no bound: such a choice is refused, unless nothing else is composed with it.

The proofs, also for parallel parts under bounded neighbours, are in docs/proofs/domination.md.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from tallyveil.accounting.events import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    Release,
    Sampleable,
    SequentialEvent,
    WorstEvent,
    parts_of,
)
from tallyveil.accounting.further_events import ZCDP, ApproximateDP, Gaussian, Laplace, RandomizedResponse
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, LossFactor
from tallyveil.accounting.losses.further import (
    AnyLoss,
    ConcentratedLoss,
    ExponentialLoss,
    FailureLoss,
    Law,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    further,
    merged_law,
    mirrored,
)
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.subspace_events import (
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    SubspaceRelease,
)
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

MOST_ALTERNATIVES = 2_500
"""Number of laws above which an event is refused. Each takes up to 30 ms to compose, so these take about a minute.

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
    laws = _laws(event, None, outermost=True)
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
        BudgetError: the event is non-private; a choice that depends on what was released, within a larger
            event, among branches of which none dominates; parallel parts that cannot be halved; or more than
            2,500 alternatives.
    """
    laws = _laws(event, neighbours.answers_moved, outermost=True)
    return tuple(
        dict.fromkeys(law for direction in laws for law in (direction, merged_law(mirrored(direction))))
    )


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
    more, less = _counted(larger), _counted(smaller)
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


def _laws(event: PrivacyEvent, answers_moved: int | None, *, outermost: bool) -> tuple[Law, ...]:
    """The laws of an event that no other one dominates.

    Args:
        event: What is done.
        answers_moved: Answers of a partition query that one record moves; None if one law is wanted that holds under
            both relations.
        outermost: Whether nothing else that loses privacy is composed with the event.
    """
    match event:
        case InvariantEvent():
            return ((),)
        case NonPrivateEvent(reason):
            raise BudgetError(
                f"a non-private event has no finite guarantee ({reason}). Ask for the guarantee of the other events, "
                "and state this one separately."
            )
        case SequentialEvent(events):
            lossy = [part for part in events if _loses(part)]
            # A choice by what was released is allowed only where nothing else is composed with it.
            alone = outermost and len(lossy) == 1
            return _product([_laws(part, answers_moved, outermost=alone) for part in lossy])
        case AdaptiveEvent():
            # All branches have one law, and so the choice tells nothing more.
            return _laws(branches_of_one_law(event)[0], answers_moved, outermost=False)
        case WorstEvent(branches, chosen):
            laws = _undominated(
                law for branch in branches for law in _laws(branch, answers_moved, outermost=outermost)
            )
            if len(laws) > 1 and chosen == "adaptive" and not outermost:
                raise BudgetError(
                    f"{len(laws)} branches of WorstEvent, none of which covers the others, are chosen by what was "
                    "released, and WorstEvent is part of a larger event. The exact loss of such an event is not "
                    "supported. Give the branches equal noise, or state chosen='public' if the choice does not "
                    "depend on released data."
                )
            return laws
        case ParallelEvent(events, degree):
            # Covered parts may go before the mixing (docs/proofs/domination.md, section 3), which is costly.
            parts = _undominated(
                law for part in events for law in _laws(part, answers_moved, outermost=False)
            )
            return _mixes(parts, degree, answers_moved)
        case _:
            return (merged_law(_loss(event)),)


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
        return _times(law, Fraction(event.multiplicity))
    failure = sum((loss.probability for loss in law if isinstance(loss, FailureLoss)), Fraction(0))
    base = next((loss for loss in merged_law(law) if not isinstance(loss, FailureLoss)), None)
    assert not isinstance(base, SampledLoss | ConcentratedLoss | FailureLoss)
    return (SampledLoss(base, q, failure, multiplicity=event.multiplicity),)


def _loss(release: Release) -> Law:  # noqa: PLR0911 (one return a kind)
    match release:
        case DiscreteGaussian():
            return (GaussianLoss(release.variance, release.sensitivity, release.multiplicity),)
        case DiscreteLaplace():
            return (LaplaceLoss(release.scale, release.sensitivity, release.multiplicity),)
        case Gaussian():
            return (NormalLoss(release.mu_squared, release.multiplicity),)
        case Laplace():
            return (ExponentialLoss(release.epsilon, release.multiplicity),)
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


def _mixes(parts: tuple[Law, ...], degree: int, answers_moved: int | None) -> tuple[Law, ...]:
    """The laws of a record that is in `degree` of the parts."""
    if not parts:
        return ((),)
    if answers_moved != 1:
        _require_halves(parts)
    if len(parts) == 1:
        return (_times(parts[0], Fraction(degree)),)
    if answers_moved is None:
        raise _several(len(parts))
    # A record that moves meets halves: of the parts that it leaves, and of those that it enters.
    units = [_times(law, Fraction(1, answers_moved)) for law in parts]
    n = degree * answers_moved
    # The first test keeps the binomial from being computed for huge numbers.
    if n > MOST_ALTERNATIVES or math.comb(len(units) + n - 1, n) > MOST_ALTERNATIVES:
        raise _too_many()
    choices = itertools.combinations_with_replacement(range(len(units)), n)
    mixes = (
        tuple(factor for unit in set(choice) for factor in _times(units[unit], Fraction(choice.count(unit))))
        for choice in choices
    )
    return tuple(dict.fromkeys(merged_law(mix) for mix in mixes))


def _product(by_part: Sequence[tuple[Law, ...]]) -> tuple[Law, ...]:
    """The laws of a sequence: every combination of one alternative of each part."""
    # Parts with one law are merged once, and not in every product.
    fixed = merged_law(tuple(factor for laws in by_part if len(laws) == 1 for factor in laws[0]))
    products: tuple[Law, ...] = (fixed,)
    for laws in by_part:
        if len(laws) > 1:
            if len(products) * len(laws) > MOST_PRODUCTS:
                raise _too_many()
            products = tuple(dict.fromkeys(merged_law(a + b) for a in products for b in laws))
            if len(products) > MOST_ALTERNATIVES:
                raise _too_many()
    return products


def _undominated(laws: Iterable[Law]) -> tuple[Law, ...]:
    """The laws that no other one dominates, each one once, in order."""
    undominated: list[Law] = []
    for law in laws:
        if any(dominates(other, law) for other in undominated):
            continue
        # A later law may cover several that were kept before.
        undominated = [other for other in undominated if not dominates(law, other)] + [law]
    return tuple(undominated)


def _times(law: Law, share: Fraction) -> Law:
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
        raise BudgetError(
            f"a parallel event holds {as_given(loss)}. Under bounded neighbours a record may leave one part and enter "
            "another, and only releases of integer answers say what that costs. State the parallel event under "
            "unbounded neighbours, or give its parts one after the other."
        )


def _counted(law: Law) -> dict[AnyLoss, int]:
    # Laws are merged, so that no factor comes twice here.
    return {replace(factor, multiplicity=1): factor.multiplicity for factor in law}


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
        f"an event may take {n} ways, none of which covers the others, so no single loss law describes it. Use "
        "compose, which takes the largest privacy profile among all cases."
    )


def _too_many() -> TooManyLawsError:
    return TooManyLawsError(
        f"the event has more than {MOST_ALTERNATIVES:,} worst cases to compare. Give the parts the same noise where "
        "that is possible, or leave out branches that are never the worst."
    )
