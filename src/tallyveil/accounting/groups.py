"""What an event is for a group of persons, such as a household: for populations that differ in several persons.

Group privacy in general multiplies epsilon by the size of the group, and delta by much more (`group_privacy`). Where
the event says which mechanism was used, more is known: several persons together move an answer by the sum of what each
of them moves. The worst they can do is to move the same answers, all in the same direction
(docs/proofs/domination.md, section 5). So noise with that larger sensitivity is the guarantee for the group, exactly.
"""

from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from tallyveil.accounting.costs import epsilon_of, group_privacy, require_size, rho_of
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
    NonPrivateEvent,
    ParallelEvent,
    PoissonRepeatAndSelect,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    Repeatable,
    RepeatAndSelect,
    SampledWithoutReplacement,
    SampledWithReplacement,
    Selection,
    SequentialEvent,
    TruncatedPoissonSampled,
    WorstEvent,
    parts_of,
)
from tallyveil.accounting.losses import branches_of_one_law, invariants_of
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

_Noise: TypeAlias = DiscreteGaussian | DiscreteLaplace | Gaussian | Laplace


def for_group(event: PrivacyEvent, size: int, *, together: bool = False) -> PrivacyEvent:
    """The event for populations that differ in `size` persons, under the relation that the event is stated under.

    - Noise: the sensitivity times the size. This is exact: persons who are alike move the same answers.
    - Randomized response: the answers of all persons.
    - `ZCDP`: rho times the square of the size.
    - `ApproximateDP` with delta 0: discrete Laplace noise of scale 1 / epsilon that moves by the size. This is exact:
      such noise has that epsilon. With delta above 0: the epsilon and delta of `group_privacy`, an upper bound.
    - A release on a lattice: its distance times the size.
    - Parallel parts: they must be alike, and have noise alone. They may differ for persons who are `together`.

    Args:
        event: What is done, stated for one person.
        size: Number of persons, 1 or more; 1 gives the event itself.
        together: Whether all persons are in the same parallel parts, in each of the two populations, as a household is
            in one block.

    Raises:
        BudgetError: the size is out of range; or nothing is known for a group: random samples, parallel parts that
            differ, a stated guarantee beside invariants, or a delta of the group that reaches 1.

    Source: docs/proofs/domination.md, section 5; Dong, Roth, Su 2022, Theorem 2.14; Bun, Steinke 2016,
        Proposition 1.9; Vadhan 2017, Lemma 2.2.
    """
    require_size(size)
    if size == 1:
        return event
    # Group privacy goes from person to person, and with invariants the populations in between need not be neighbours.
    if invariants_of(event) and _is_stated(event):
        raise _unknown(
            "ApproximateDP or ZCDP beside invariants: the populations between two that agree on the invariants need "
            "not agree on them. State the guarantee for the group yourself"
        )
    return _of_group(event, size, together)


def for_group_of_secret(event: PrivacyEvent, size: int) -> PrivacyEvent:
    """The event for populations in which each of `size` persons has another value of one secret.

    The worst pair of values of one person is known, but persons may change between different pairs, and which pairs are
    then the worst is not known. What each of them moves has at most the rho of the secret, whatever the pair. Moves add
    up as vectors, whose length is the square root of rho, so that rho of all is at most rho times the square of the
    size; and pure epsilons add up.

    Args:
        event: The event of the secret (`plans.secrets`), for one person: noise alone.
        size: Number of persons, 1 or more; 1 gives the event itself.
    Returns:
        An upper bound.
    Raises:
        BudgetError: the size is out of range.
    Source: docs/proofs/secrets.md, section 6.
    """
    require_size(size)
    if size == 1:
        return event
    if _is_pure(event):
        return _stated(ApproximateDP(epsilon_of(event), Fraction(0)), size)
    rho = rho_of(event)
    # A secret that no query tells apart costs nothing, for any number of persons.
    return ZCDP(size**2 * rho) if rho else event


def is_exact_for_groups(event: PrivacyEvent) -> bool:
    """Whether `for_group` gives the least guarantee for a group, and not only an upper bound."""
    if isinstance(event, ApproximateDP):
        return not event.delta
    # Whether tables that far apart agree on the invariants is not looked at.
    if isinstance(event, IntegerSubspaceGaussian | IntegerSubspaceLaplace):
        return False
    return all(map(is_exact_for_groups, parts_of(event)))


def _of_group(event: PrivacyEvent, size: int, together: bool) -> PrivacyEvent:  # noqa: PLR0911, PLR0912 (one return a kind)
    match event:
        case DiscreteGaussian() | DiscreteLaplace():
            return replace(event, sensitivity=size * event.sensitivity)
        case Gaussian() | Laplace():
            return replace(event, sensitivity=size * event.sensitivity)
        case RandomizedResponse():
            return replace(event, multiplicity=size * event.multiplicity)
        case ApproximateDP():
            return _stated(event, size)
        case ZCDP(rho):
            return ZCDP(size**2 * rho)
        case IntegerSubspaceGaussian():
            return replace(event, squared_distance=size**2 * event.squared_distance)
        case IntegerSubspaceLaplace():
            return replace(event, distance=size * event.distance)
        case SequentialEvent(events):
            return SequentialEvent(tuple(_of_group(part, size, together) for part in events))
        case AdaptiveEvent():
            return AdaptiveEvent(
                tuple(_of_group(branch, size, together) for branch in branches_of_one_law(event))
            )
        case WorstEvent(branches, chosen):
            return WorstEvent(tuple(_of_group(branch, size, together) for branch in branches), chosen)
        case ParallelEvent(events, degree):
            # The persons may spread over the parts. Only with the same noise everywhere is one part known to be worst.
            if (len(set(events)) > 1 and not together) or not all(map(_is_noise, events)):
                raise _unknown(
                    "ParallelEvent with parts that differ, or that hold more than noise. State each part as an event "
                    "of its own if one person can be in all of them"
                )
            return ParallelEvent(tuple(_of_group(part, size, together) for part in events), degree)
        case (
            PoissonSampled()
            | SampledWithoutReplacement()
            | SampledWithReplacement()
            | TruncatedPoissonSampled()
        ):
            raise _unknown(f"{type(event).__name__}: each person is in the sample or not. Use group privacy")
        case RepeatAndSelect() | PoissonRepeatAndSelect():
            inner = _of_group(event.event, size, together)
            assert isinstance(inner, Repeatable)
            return replace(event, event=inner)
        case MixtureOfGaussians():
            raise _unknown(
                "MixtureOfGaussians: it may stand for a group itself. State the group's sensitivities"
            )
        case InvariantEvent() | NonPrivateEvent():
            return event


def _stated(event: ApproximateDP, size: int) -> PrivacyEvent:
    if not event.epsilon and not event.delta:
        return event
    # From person to person the odds of an outcome change by at most exp(epsilon); this noise attains it every time.
    if not event.delta:
        return DiscreteLaplace(1 / event.epsilon, size, event.multiplicity)
    epsilon, delta = group_privacy(event.epsilon, event.delta, size)
    if delta >= 1:
        raise _unknown(f"{as_given(event)}, whose delta reaches 1. Take a smaller group")
    return ApproximateDP(epsilon, Fraction(delta), event.multiplicity)


def _is_noise(event: PrivacyEvent) -> bool:
    if isinstance(event, SequentialEvent):
        return all(map(_is_noise, event.events))
    return isinstance(event, _Noise)


def _is_pure(event: PrivacyEvent) -> bool:
    parts = parts_of(event)
    return (
        all(map(_is_pure, parts))
        if parts
        else isinstance(event, DiscreteLaplace | IntegerSubspaceLaplace | InvariantEvent)
    )


def _is_stated(event: PrivacyEvent) -> bool:
    parts = (event.event,) if isinstance(event, Selection) else parts_of(event)
    return isinstance(event, ApproximateDP | ZCDP) or any(map(_is_stated, parts))


def _unknown(what: str) -> BudgetError:
    return BudgetError(f"nothing is known for a group about {what}.", code="no-group")
