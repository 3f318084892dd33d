"""From one neighbouring relation to the other: exactly for partition queries, by group privacy for all others."""

from dataclasses import replace
from fractions import Fraction

from tallyveil.accounting.events import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.accounting.exact import exact_number, exact_text
from tallyveil.accounting.further_events import ZCDP, ApproximateDP, Gaussian, Laplace, RandomizedResponse
from tallyveil.accounting.losses.loss_laws import branches_of_one_law
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.rounding import round_up
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational

_BITS = 256
"""Bits of ball arithmetic. expm1 keeps nearly all of them for any epsilon, and a float needs 53: half would do."""
_LARGEST_GROUP = 10**6
"""Steps between two populations. A limit on what is asked and not on what is computed: the sum is one quotient,
whatever the size."""


def translate(event: PrivacyEvent, source: Neighbours | str, target: Neighbours | str) -> PrivacyEvent:
    """The same releases, stated under the other relation; exact for releases of partition queries.

    A record that changes leaves one answer of a partition query and enters another. So twice as many answers move under
    bounded neighbours as under unbounded ones, each by the same amount. Multiplicities double from unbounded to bounded
    and halve the other way; sensitivities stay.

    The caller must know that every release in the event is of a partition query. For other queries the two relations
    have no such link; use `group_privacy`. Invariants and non-private events stay as they are. If no two neighbours
    under the target can agree on an invariant, such as the total under unbounded neighbours, the guarantee is about no
    pair of populations.

    Args:
        event: Releases of partition queries.
        source: The relation that the event is stated under.
        target: The relation that is wanted.

    Raises:
        BudgetError: a multiplicity cannot be halved, so the release is not of a partition query under bounded
            neighbours; or adaptive branches have different loss laws.
    """
    source, target = Neighbours.of(source), Neighbours.of(target)
    if source is target:
        return event
    # Two or one half; a half must divide every multiplicity, or the event is refused.
    factor = Fraction(target.answers_moved, source.answers_moved)
    return _with_multiplicities(event, factor)


def group_privacy(
    epsilon: Fraction | int | str, delta: Fraction | int | str, size: int
) -> tuple[Fraction, float]:
    """What (epsilon, delta) between neighbours promises between populations `size` steps apart.

    A change is a removal and an addition. So size 2 turns any guarantee under unbounded neighbours into one under
    bounded neighbours, (2 epsilon, (1 + exp(epsilon)) delta). There is no such bound the other way: bounded neighbours
    say nothing about populations of different sizes.

    Args:
        epsilon: 0 or more, exact.
        delta: Between 0 and 1, exact.
        size: Number of steps, 1 or more.

    Returns:
        size * epsilon, exactly, and delta * (1 + exp(epsilon) + ... + exp((size - 1) epsilon)), rounded up and
        at most 1.

    Raises:
        BudgetError: an argument out of range.

    Source: Vadhan 2017, Lemma 2.2.
    """
    exact_epsilon, exact_delta = exact_number(epsilon, "epsilon"), exact_number(delta, "delta")
    if exact_epsilon < 0 or not 0 <= exact_delta <= 1:
        raise BudgetError(
            f"epsilon must be 0 or more and delta between 0 and 1, got {exact_text(exact_epsilon)} and "
            f"{exact_text(exact_delta)}. Give an epsilon and a delta in these ranges."
        )
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= _LARGEST_GROUP:
        raise BudgetError(f"size must be an integer from 1 to {_LARGEST_GROUP}, got {as_given(size)}.")
    # No multiple of 0 is more than 0; the exponentials might be huge.
    if exact_delta == 0:
        return size * exact_epsilon, 0.0
    with precision(_BITS):
        step = rational(exact_epsilon)
        # A term each would be exact too, but slow for large groups; at epsilon 0 the quotient is 0 / 0.
        terms = (size * step).expm1() / step.expm1() if exact_epsilon else rational(Fraction(size))
        return size * exact_epsilon, min(1.0, round_up(rational(exact_delta) * terms))


def _with_multiplicities(event: PrivacyEvent, factor: Fraction) -> PrivacyEvent:
    match event:
        case DiscreteGaussian() | DiscreteLaplace() | Gaussian() | Laplace():
            multiplicity = event.multiplicity * factor
            if multiplicity.denominator != 1:
                raise BudgetError(
                    f"{as_given(event)} has an odd multiplicity, which cannot be halved: it does not describe "
                    "partition queries under bounded neighbours. State the event under the other relation yourself."
                )
            # The sensitivity stays: twice as many answers move, each by as much as before.
            return replace(event, multiplicity=int(multiplicity))
        case IntegerSubspaceLaplace() | IntegerSubspaceGaussian():
            raise BudgetError(
                f"{as_given(event)} states the distance of the populations that it protects, not a neighbour "
                "relation, so there is nothing to translate. Give the event with the distance that neighbours under "
                "the other relation have."
            )
        case RandomizedResponse() | ApproximateDP() | ZCDP() | PoissonSampled():
            raise BudgetError(
                f"{as_given(event)} is no noisy partition query, so nothing says what it costs under the other "
                "relation. State it under that relation yourself, or use group_privacy."
            )
        case SequentialEvent(events):
            return SequentialEvent(tuple(_with_multiplicities(part, factor) for part in events))
        case ParallelEvent(events, degree):
            return ParallelEvent(tuple(_with_multiplicities(part, factor) for part in events), degree)
        case AdaptiveEvent():
            parts = branches_of_one_law(event)
            return AdaptiveEvent(tuple(_with_multiplicities(part, factor) for part in parts))
        case WorstEvent(branches, chosen):
            return WorstEvent(tuple(_with_multiplicities(part, factor) for part in branches), chosen)
        case _:
            return event
