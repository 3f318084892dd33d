"""What events cost in rho and in pure epsilon, exactly, and what they are under the other neighbouring relation.

From one neighbouring relation to the other: exactly for partition queries, by group privacy for all others.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

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
    Sample,
    SampledWithoutReplacement,
    SampledWithReplacement,
    Selection,
    SequentialEvent,
    TruncatedPoissonSampled,
    WorstEvent,
    parts_of,
    require_distance,
)
from tallyveil.accounting.losses import branches_of_one_law, no_cost_of_leaving
from tallyveil.accounting.numbers import Exact, exact_number, exact_text, round_up
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational
from tallyveil.printable import in_one_line

Number = TypeVar("Number", Fraction, float)
Point = TypeVar("Point")


def rho_of(event: PrivacyEvent, *, laplace_as_zcdp: bool = False) -> Fraction:
    """Cost of an event in zero-concentrated differential privacy.

    Gaussian noise costs multiplicity * sensitivity^2 / (2 variance); `folded_cost` combines the parts of an event.

    Args:
        event: What is done.
        laplace_as_zcdp: Count Laplace noise too, as epsilon^2 / 2. This is valid, but loose for many releases.

    Raises:
        BudgetError: Laplace noise without `laplace_as_zcdp`, or a non-private event.

    Source: Canonne, Kamath, Steinke 2020, Theorem 4; Bun and Steinke 2016, Lemma 2.3 and Proposition 1.4;
        SafeTab (Haney et al.), Lemmas 2, 7 and 10.
    """

    def of_release(release: Release) -> Fraction:
        match release:
            case DiscreteGaussian() | Gaussian():
                # A fraction, so that sums of any length are exact and never round below the budget.
                return release.multiplicity * Fraction(release.sensitivity**2) / (2 * release.variance)
            case IntegerSubspaceGaussian() | ZCDP():
                return release.rho
        # Refuses what has no pure epsilon either, in words about rho.
        epsilon, answers = _pure(release, "rho")
        if laplace_as_zcdp:
            # Each answer by itself: the square of their sum would be larger.
            return answers * epsilon**2 / 2
        raise BudgetError(
            f"{_in_words(release)} has a cost in epsilon, not in rho. Declare the budget in epsilon, use discrete "
            "Gaussian noise, or ask for laplace_as_zcdp."
        )

    return folded_cost(event, of_release, Fraction(0))


_OF_ADDED_RECORDS: Final = PoissonSampled | TruncatedPoissonSampled | MixtureOfGaussians
"""Events that are stated under unbounded neighbours."""


def require_neighbours(event: PrivacyEvent, neighbours: Neighbours) -> None:
    """Refuse an event that leaves out what one record moves, because its stated cost would be too low.

    Raises:
        BudgetError: an integer-subspace release in it states a distance below that of neighbours; a random sample is
            under the relation that it is not stated for; or, under bounded neighbours, parts that a record can leave
            and enter hold something else than integer answers with discrete noise.
    """
    if isinstance(event, ParallelEvent) and neighbours is Neighbours.BOUNDED:
        _require_answers(event)
    if isinstance(event, SampledWithoutReplacement | SampledWithReplacement) and (
        neighbours is Neighbours.UNBOUNDED
    ):
        raise BudgetError(
            f"{type(event).__name__} is stated for bounded neighbours: samples have a fixed size, and one record "
            "changes its value. Ask with neighbours='bounded'.",
            code="sample-neighbours",
        )
    if isinstance(event, _OF_ADDED_RECORDS) and neighbours is Neighbours.BOUNDED:
        raise BudgetError(
            f"{type(event).__name__} is stated for unbounded neighbours: one record is added or removed. Ask with "
            "neighbours='unbounded'. Group privacy with size 2 turns the (epsilon, delta) found into one for a record "
            "that changes its value.",
            code="sample-neighbours",
        )
    if isinstance(event, IntegerSubspaceLaplace | IntegerSubspaceGaussian):
        require_distance(event, neighbours)
    for part in (event.event,) if isinstance(event, Selection) else parts_of(event):
        # At every depth, since the relation is that of the whole event.
        require_neighbours(part, neighbours)


def _require_answers(event: PrivacyEvent) -> None:
    """Refuse what is stated for a change within one part, where a record may leave that part for another one.

    A mechanism that is differentially private for records that change their value may publish how many there are. Over
    the parts, this would show which part a record is in.
    """
    if isinstance(event, Release) and not isinstance(event, DiscreteGaussian | DiscreteLaplace):
        raise no_cost_of_leaving(event)
    for part in parts_of(event):
        _require_answers(part)


def epsilon_of(event: PrivacyEvent) -> Fraction:
    """Cost of an event in pure differential privacy.

    Laplace noise costs multiplicity * sensitivity / scale; `folded_cost` combines the parts of an event.

    Raises:
        BudgetError: Gaussian noise, which has no finite pure epsilon, or a non-private event.

    Source: Ghosh, Roughgarden, Sundararajan 2009; Dwork and Roth 2014, Theorem 3.14; SafeTab (Haney et al.),
        Lemmas 1, 6 and 9.
    """

    def of_release(release: Release) -> Fraction:
        match release:
            case DiscreteGaussian() | Gaussian() | IntegerSubspaceGaussian():
                raise BudgetError(
                    f"Gaussian noise of variance {exact_text(release.variance)} has no finite pure epsilon. "
                    "Declare the budget in rho, or use discrete Laplace noise."
                )
            case ZCDP():
                raise BudgetError(
                    f"a rho of {exact_text(release.rho)} promises no finite pure epsilon. Declare the budget in rho."
                )
        epsilon, answers = _pure(release, "pure epsilon")
        return answers * epsilon

    return folded_cost(event, of_release, Fraction(0))


PureRelease: TypeAlias = (
    DiscreteLaplace | Laplace | RandomizedResponse | ApproximateDP | IntegerSubspaceLaplace
)


def _pure(release: PureRelease | Sample | MixtureOfGaussians | Selection, unit: str) -> tuple[Fraction, int]:
    """The pure epsilon of one answer, and the number of answers."""
    match release:
        case DiscreteLaplace():
            return release.sensitivity / release.scale, release.multiplicity
        case IntegerSubspaceLaplace():
            return release.loss, 1
        case RepeatAndSelect() | PoissonRepeatAndSelect():
            return _pure_of_selection(release, unit), release.multiplicity
        case _ if isinstance(release, Sample | MixtureOfGaussians):
            raise BudgetError(
                f"a random sample has no {unit} in closed form. Ask for its guarantee, which is bounded from "
                "both sides.",
                code="no-cost",
            )
        case ApproximateDP() if release.delta:
            raise BudgetError(
                f"(epsilon, delta) with delta {exact_text(release.delta)} promises no {unit}. Ask for the guarantee, "
                "which is bounded from both sides.",
                code="no-cost",
            )
        case _:
            return release.epsilon, release.multiplicity


def _pure_of_selection(release: Selection, unit: str) -> Fraction:
    """The pure epsilon of one selection (docs/proofs/real-noise.md, section 12)."""
    if has_gaussian(release):
        raise BudgetError(
            f"{type(release).__name__} of Gaussian noise has no {unit} in closed form. Ask for its guarantee, "
            "whose upper bound comes from Renyi divergences.",
            code="no-cost",
        )
    run = epsilon_of(release.event)
    if isinstance(release, RepeatAndSelect):
        return (2 + release.eta) * run
    # The exact term has the hyperbolic tangent of run / 2, for which this is a rational upper bound, less than a third
    # above it.
    return run + release.mean * min(run / 2, Fraction(1))


def _in_words(release: PureRelease | Sample | MixtureOfGaussians | Selection) -> str:
    match release:
        case DiscreteLaplace() | Laplace():
            kind = "discrete Laplace" if isinstance(release, DiscreteLaplace) else "Laplace"
            return f"{kind} noise of scale {exact_text(release.scale)}"
        case IntegerSubspaceLaplace():
            return f"generalised Laplace noise of epsilon {exact_text(release.epsilon)}"
        case _:
            return f"a release of {as_given(release)}"


def has_gaussian(event: PrivacyEvent) -> bool:
    """Whether some noise in an event is Gaussian, or is known by its rho: it has no finite pure epsilon."""
    # Its inner event is no part in `parts_of`, but its noise is what matters here.
    if isinstance(event, Sample | Selection):
        return has_gaussian(event.event)
    if isinstance(event, DiscreteGaussian | IntegerSubspaceGaussian | Gaussian | MixtureOfGaussians | ZCDP):
        return True
    return any(has_gaussian(part) for part in parts_of(event))


def folded_cost(event: PrivacyEvent, of_release: Callable[[Release], Number], nothing: Number) -> Number:
    """Cost of an event in a unit that adds up: pure epsilon, rho, or Renyi divergence at one order.

    The costs of sequential events add (SafeTab, Lemmas 1 to 3), whatever each one depends on. Alternative branches cost
    as much as the largest one, also if the choice depends on what was released: given that, the branch taken costs at
    most this. Parallel events cost their degree times the largest (Lemmas 9, 10 and 12; `ParallelEvent` states the
    condition). Invariants cost nothing.

    Args:
        event: What is done.
        of_release: Gives the cost of one release.
        nothing: The zero of the unit.

    Raises:
        BudgetError: a non-private event, adaptive branches with different loss laws, or what `of_release` raises.
    """

    def constant(release: Release) -> Callable[[None], Number]:
        cost = of_release(release)
        return lambda _: cost

    return cost_function(event, constant, nothing)(None)


def cost_function(
    event: PrivacyEvent, of_release: Callable[[Release], Callable[[Point], Number]], nothing: Number
) -> Callable[[Point], Number]:
    """Cost of an event as a function, such as of the order of a Renyi divergence.

    The event is looked through once, however often the function is called.

    Args:
        event: What is done.
        of_release: Gives the cost of one release as a function.
        nothing: The zero of the unit.

    Raises:
        BudgetError: as `folded_cost`.
    """

    def of(parts: Iterable[PrivacyEvent]) -> list[Callable[[Point], Number]]:
        return [cost_function(part, of_release, nothing) for part in parts]

    match event:
        case SequentialEvent(events):
            # A register's book has the same event hundreds of times, each of which costs the same.
            times = Counter(events)
            added = list(zip(times.values(), of(times), strict=True))
            return lambda point: sum((number * cost(point) for number, cost in added), nothing)
        case AdaptiveEvent() | WorstEvent():
            ways = of(branches_of_one_law(event) if isinstance(event, AdaptiveEvent) else event.branches)
            # The worst branch at one order need not be the worst at another.
            return lambda point: max(cost(point) for cost in ways)
        case ParallelEvent(events, degree):
            beside = of(events)
            # A listed part may stand for several, so the worst one counts `degree` times.
            return lambda point: degree * max((cost(point) for cost in beside), default=nothing)
        case InvariantEvent():
            return lambda _: nothing
        case NonPrivateEvent(reason):
            raise BudgetError(
                f"a non-private event has no finite cost ({in_one_line(reason)}). A ledger enters it as a "
                "declassification, which has no cost."
            )
        case _:
            return of_release(event)


def total_variation_of(event: PrivacyEvent) -> Fraction:
    """Upper bound on the total variation between what was drawn and the laws that costs are computed for.

    It adds up over all releases, and adds (1 + exp(epsilon)) times itself to delta (`delta_with_total_variation`). It
    is 0 for every exact sampler.

    Source: docs/proofs/integer-subspace.md, section 4.
    """
    if isinstance(event, IntegerSubspaceLaplace | IntegerSubspaceGaussian):
        return event.total_variation
    parts = branches_of_one_law(event) if isinstance(event, AdaptiveEvent) else parts_of(event)
    shares = [total_variation_of(part) for part in parts]
    match event:
        case AdaptiveEvent() | WorstEvent():
            return max(shares)
        case ParallelEvent(_, degree):
            # Parts the changed record is in neither before nor after have the same output either way.
            return 2 * degree * max(shares, default=Fraction(0))
        case _:
            return sum(shares, Fraction(0))


def delta_with_total_variation(epsilon: Exact, delta: Exact, total_variation: Exact) -> float:
    """The delta of a mechanism within a total variation of an (epsilon, delta) one: delta + (1 + e^epsilon) tv.

    Rounded up; at most 1.

    Source: docs/proofs/integer-subspace.md, section 4.
    """
    with precision(128):
        e, d = (
            rational(exact_number(number, name)) for number, name in ((epsilon, "epsilon"), (delta, "delta"))
        )
        # A delta of 1 promises nothing already; the exponential may be far larger.
        return min(
            1.0, round_up(d + (1 + e.exp()) * rational(exact_number(total_variation, "total variation")))
        )


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
        event: Releases of partition queries. A public choice in it depends on public facts alone: if the record
            decided, a change would cost the branch that it leaves and the one that it enters.
        source: The relation that the event is stated under.
        target: The relation that is wanted.

    Raises:
        BudgetError: an event without a cost that follows (code `no-translation`): a multiplicity cannot be halved, so
            that the release is not of a partition query under bounded neighbours; a release that states a distance; or
            no noisy query at all. Or adaptive branches have different loss laws.
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
    require_size(size)
    # No multiple of 0 is more than 0; the exponentials might be huge.
    if exact_delta == 0:
        return size * exact_epsilon, 0.0
    with precision(_BITS):
        step = rational(exact_epsilon)
        # A term each would be exact too, but slow for large groups; at epsilon 0 the quotient is 0 / 0.
        terms = (size * step).expm1() / step.expm1() if exact_epsilon else rational(Fraction(size))
        return size * exact_epsilon, min(1.0, round_up(rational(exact_delta) * terms))


def require_size(size: int) -> None:
    """Refuse a number of persons that is no whole number from 1 to a million; raises BudgetError."""
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= _LARGEST_GROUP:
        raise BudgetError(f"size must be an integer from 1 to {_LARGEST_GROUP}, got {as_given(size)}.")


def _with_multiplicities(event: PrivacyEvent, factor: Fraction) -> PrivacyEvent:
    match event:
        case DiscreteGaussian() | DiscreteLaplace() | Gaussian() | Laplace():
            multiplicity = event.multiplicity * factor
            if multiplicity.denominator != 1:
                raise BudgetError(
                    f"{as_given(event)} has an odd multiplicity, which cannot be halved: it does not describe "
                    "partition queries under bounded neighbours. State the event under the other relation yourself.",
                    code="no-translation",
                )
            # The sensitivity stays: twice as many answers move, each by as much as before.
            return replace(event, multiplicity=int(multiplicity))
        case IntegerSubspaceLaplace() | IntegerSubspaceGaussian():
            raise BudgetError(
                f"{as_given(event)} states the distance of the populations that it protects, not a neighbour "
                "relation, so there is nothing to translate. Give the event with the distance that neighbours under "
                "the other relation have.",
                code="no-translation",
            )
        case _ if isinstance(
            event, RandomizedResponse | ApproximateDP | ZCDP | Sample | MixtureOfGaussians | Selection
        ):
            raise BudgetError(
                f"{as_given(event)} is no noisy partition query, so nothing says what it costs under the other "
                "relation. State it under that relation yourself, or use group privacy.",
                code="no-translation",
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
