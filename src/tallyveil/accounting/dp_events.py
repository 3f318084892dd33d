"""Events of the library dp_accounting, read as ours. It need not be installed: classes are told by their names.

Its events hold floats. A float is taken as its exact binary value, which is also what that library computes with.

`to_named_tuple` of its events is made for storing them: the names of the module and of the class, and the fields. It is
read as a mapping, with mappings in the place of events, which is what a file of JSON can hold.

Its events name no relation of neighbours. `GaussianDpEvent` and its like bound what one record adds. So an answer
moves by that bound if a record is added or removed, and by at most twice the bound if a record changes its value.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, Final

from tallyveil.accounting.engines.tails import upper_fraction
from tallyveil.accounting.events import (
    ZCDP,
    ApproximateDP,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    Neighbours,
    NonPrivateEvent,
    PoissonRepeatAndSelect,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    Repeatable,
    RepeatAndSelect,
    Sample,
    Sampleable,
    SampledWithoutReplacement,
    SampledWithReplacement,
    Selection,
    SequentialEvent,
    TruncatedPoissonSampled,
)
from tallyveil.accounting.numbers import count_of, exact_number
from tallyveil.accounting.renyi import log_mean_of_runs
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational

_DIGITS = 2**100
"""Epsilon of randomized response is rounded up to a multiple of one over this."""

_ROUNDED: Final = Fraction(1, 10**9)
"""By how much probabilities in floats may miss the sum 1: far more than roundings, and less than a misprint."""

_MOST_RUNS: Final = 10**90
"""Mean number of runs of a selection at most: gamma is then above 1e-100."""

_MODULE: Final = "dp_accounting.dp_event"

_DEEPEST = 100
"""Levels of events within events. A level takes two or three calls, and Python allows about 1,000: twice as many levels
would still fit, ten times as many would not."""


def from_dp_event(event: object, *, neighbours: Neighbours | str) -> PrivacyEvent:
    """An event of dp_accounting as an event of this package, stated under a relation.

    Known are GaussianDpEvent, LaplaceDpEvent, DiscreteLaplaceDpEvent, EpsilonDeltaDpEvent, RandomizedResponseDpEvent,
    ZCDpEvent with xi = 0, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent, SampledWithReplacementDpEvent,
    TruncatedSubsampledGaussianDpEvent, MixtureOfGaussiansDpEvent, SingleEpochTreeAggregationDpEvent,
    RepeatAndSelectDpEvent, ComposedDpEvent, SelfComposedDpEvent, NoOpDpEvent and NonPrivateDpEvent.

    - An answer of Gaussian or Laplace noise moves by the bound of the event under unbounded neighbours (in
      dp_accounting ADD_OR_REMOVE_ONE), and by twice that under bounded neighbours (REPLACE_ONE).
    - (epsilon, delta) and rho are taken as stated under the relation given.
    - Randomized response and samples of fixed size need bounded neighbours; Poisson samples and mixtures unbounded
      ones.
    - Probabilities of a mixture are floats. What their sum lacks to 1 counts for the largest sensitivity, and what it
      exceeds 1 by is taken from the smallest one; both are at most 1e-9.
    - Laplace noise on several coordinates costs no more than on one (docs/proofs/real-noise.md, section 5).
    - A tree over n steps is Gaussian noise on as many sums as one step is in: the binary digits of n. The record and
      public facts alone must decide which step a record is in, so that no other record changes its step.
    - Of a repetition the mean number of runs is given, which is 1 or more. Gamma follows from it, and is rounded down
      by less than 1e-13 of it, which costs no less.
    - The epsilon of randomized response is irrational. It is rounded up, by less than 1e-30.

    Args:
        event: Of dp_accounting, or any object with the same name of its class and the same attributes; or the mapping
            of its named tuple, with a module_name and a class_name.
        neighbours: The relation that the result is stated under.

    Raises:
        BudgetError: an event, or a part of it, that is not supported; the message names it.
    """
    return _read(event, Neighbours.of(neighbours), 1)


def _read(event: object, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    name = event.get("class_name") if isinstance(event, Mapping) else type(event).__name__
    # By name, as the library need not be installed; an unknown event is an error and never free.
    if not isinstance(name, str) or name not in _READERS:
        raise _refused(
            name if isinstance(event, Mapping) else event,
            f"Known are {', '.join(_READERS)}. State its (epsilon, delta) as ApproximateDP.",
        )
    # Said in words, before Python's own limit on recursion is met.
    if depth > _DEEPEST:
        raise _refused(event, f"It is nested more than {_DEEPEST} deep. Write its parts side by side.")
    read, fields = _READERS[name]
    if isinstance(event, Mapping):
        event = _of_fields(event, name, fields)
    try:
        return read(event, neighbours, depth)
    except AttributeError as error:
        raise _refused(event, f"It lacks the attribute {error.name!r}.") from error


def _of_fields(mapping: Mapping[str, Any], name: str, fields: tuple[str, ...]) -> object:
    """An object with the name of a class and the fields of a mapping."""
    content = {key: value for key, value in mapping.items() if key != "class_name"}
    # Another module may have a class of this name for another mechanism.
    if content.pop("module_name", None) != _MODULE:
        raise _refused(name, f"Its module_name must be '{_MODULE}'.")
    # A field that is not known may mean a higher cost, and one that is missing could not be guessed.
    if content.keys() != set(fields):
        raise _refused(name, f"It has the fields {sorted(content)}; wanted exactly {sorted(fields)}.")
    event: object = type(name, (SimpleNamespace,), {})(**content)
    return event


def _gaussian(event: Any, neighbours: Neighbours, _: int) -> PrivacyEvent:
    multiplier = _number(event, "noise_multiplier")
    # Its square would be as large as that of noise.
    if multiplier < 0:
        raise _refused(event, "Its noise_multiplier is below 0.")
    # The multiplier is a standard deviation, in units of what one added record moves.
    return Gaussian(multiplier**2, _moved(neighbours)) if multiplier else _no_noise(event)


def _tree(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    counts = event.step_counts
    listed = counts if isinstance(counts, Sequence) and not isinstance(counts, str) else [counts]
    steps = max((count_of(count, "step_counts", least=0) for count in listed), default=0)
    if not steps:
        raise _refused(event, "Its step_counts must hold a number above 0.")
    # A record is in one step of one tree. Only whole subtrees are released, and those that hold a step have
    # 1, 2, 4, ... steps, up to n.
    return _repeated(_gaussian(event, neighbours, depth), steps.bit_length())


def _laplace(event: Any, neighbours: Neighbours, _: int) -> PrivacyEvent:
    multiplier = _number(event, "noise_multiplier")
    return Laplace(multiplier, _moved(neighbours)) if multiplier else _no_noise(event)


def _discrete_laplace(event: Any, neighbours: Neighbours, _: int) -> PrivacyEvent:
    rate = _number(event, "noise_parameter")
    if rate <= 0:
        raise _refused(event, "Its noise_parameter must be above 0.")
    moved = count_of(event.sensitivity, "sensitivity of DiscreteLaplaceDpEvent") * _moved(neighbours)
    # Its parameter is one over the scale.
    return DiscreteLaplace(1 / rate, moved)


def _epsilon_delta(event: Any, _: Neighbours, __: int) -> PrivacyEvent:
    return ApproximateDP(_number(event, "epsilon"), _number(event, "delta"))


def _response(event: Any, neighbours: Neighbours, _: int) -> PrivacyEvent:
    if neighbours is not Neighbours.BOUNDED:
        raise _refused(event, "Its neighbours differ in one person's answer: give neighbours='bounded'.")
    share, options = _number(event, "noise_parameter"), count_of(event.num_buckets, "num_buckets")
    if options == 1 or share == 1:
        return SequentialEvent(())
    if not share:
        return _no_noise(event)
    with precision(256):
        # The true option has probability 1 - s + s / k, each other one s / k: this is their quotient.
        epsilon = upper_fraction((1 + rational(options * (1 - share) / share)).log())
    return RandomizedResponse(Fraction(math.ceil(epsilon * _DIGITS), _DIGITS), options)


def _zcdp(event: Any, _: Neighbours, __: int) -> PrivacyEvent:
    if _number(event, "xi"):
        raise _refused(event, "Only xi = 0 is supported.")
    rho = _number(event, "rho")
    return ZCDP(rho) if rho else SequentialEvent(())


def _sampled(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    if neighbours is not Neighbours.UNBOUNDED:
        raise _refused(
            event, "A random sample is stated for an added or removed record: give neighbours='unbounded'."
        )
    inner = _on_sample(event, neighbours, depth)
    if isinstance(inner, Sampleable | PoissonSampled):
        return PoissonSampled(inner, _number(event, "sampling_probability"))
    return inner


def _of_fixed_size(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    if neighbours is not Neighbours.BOUNDED:
        raise _refused(
            event, "A sample of fixed size is stated for a record that changes: give neighbours='bounded'."
        )
    sizes = (
        count_of(event.sample_size, "sample_size", least=0),
        count_of(event.source_dataset_size, "source_dataset_size", least=0),
    )
    inner = _on_sample(event, neighbours, depth)
    if not sizes[0]:
        return SequentialEvent(())
    if not isinstance(inner, Sampleable):
        return inner
    if type(event).__name__ == "SampledWithoutReplacementDpEvent":
        return SampledWithoutReplacement(inner, *sizes)
    if not isinstance(inner, Gaussian):
        raise _refused(event, "Draws with replacement are known for Gaussian noise alone.")
    # Every draw from one record is that record.
    if sizes[1] == 1:
        return replace(inner, sensitivity=sizes[0] * inner.sensitivity)
    return SampledWithReplacement(inner, *sizes)


def _truncated(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    if neighbours is not Neighbours.UNBOUNDED:
        raise _refused(
            event, "A truncated sample is stated for an added or removed record: give neighbours='unbounded'."
        )
    inner = _gaussian(event, neighbours, depth)
    records = count_of(event.dataset_size, "dataset_size", least=0)
    largest = count_of(event.truncated_batch_size, "truncated_batch_size", least=0)
    probability = _number(event, "sampling_probability")
    if not (records and largest and probability):
        return SequentialEvent(())
    if not isinstance(inner, Gaussian):
        return inner
    return TruncatedPoissonSampled(inner, probability, largest, records)


def _on_sample(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    """The one release that uses a sample, or nothing."""
    inner = _joined(_read(event.event, neighbours, depth + 1))
    nothing = isinstance(inner, SequentialEvent) and not inner.events
    again = isinstance(inner, PoissonSampled) and neighbours is Neighbours.UNBOUNDED
    # Answers that share a sample do not compose as samples drawn anew.
    if not (nothing or again or isinstance(inner, Sampleable)):
        raise _refused(
            event,
            "Several releases use its sample, and not all of them are Gaussian; or no sample is known for the one "
            "release that uses it.",
        )
    return inner


def _mixture(event: Any, neighbours: Neighbours, _: int) -> PrivacyEvent:
    if neighbours is not Neighbours.UNBOUNDED:
        raise _refused(
            event, "A mixture is stated for an added or removed record: give neighbours='unbounded'."
        )
    deviation = _number(event, "standard_deviation")
    if deviation < 0:
        raise _refused(event, "Its standard_deviation is below 0.")
    moves, shares = _numbers(event, "sensitivities"), _numbers(event, "sampling_probs")
    if (
        len(moves) != len(shares)
        or not moves
        or min(*moves, *shares) < 0
        or abs(sum(shares, Fraction(-1))) > _ROUNDED
    ):
        raise _refused(event, "Its sensitivities must have as many sampling_probs, none below 0, with sum 1.")
    # The sum of floats is 1 but for roundings, which must not make the law a smaller one.
    parts = sorted(zip(moves, shares, strict=True))
    lacking = 1 - sum(shares, Fraction(0))
    while lacking < 0:
        move, share = parts.pop(0)
        lacking += share
        if lacking > 0:
            parts.insert(0, (move, lacking))
            lacking = Fraction(0)
    parts[-1] = (parts[-1][0], parts[-1][1] + lacking)
    if not parts[-1][0]:
        return SequentialEvent(())
    if not deviation:
        return _no_noise(event)
    return MixtureOfGaussians(deviation**2, [move for move, _ in parts], [share for _, share in parts])


def _selected(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    inner = _joined(_read(event.event, neighbours, depth + 1))
    mean = _number(event, "mean")
    if not 1 <= mean <= _MOST_RUNS:
        raise _refused(event, "Its mean number of runs must lie between 1 and 1e90.")
    if inner == SequentialEvent(()) or isinstance(inner, NonPrivateEvent):
        return inner
    if not isinstance(inner, Repeatable):
        raise _refused(event, "No Renyi divergence is known of what is repeated.")
    # In its shape an infinity stands for a Poisson number of runs.
    if event.shape in (math.inf, "inf"):
        return PoissonRepeatAndSelect(inner, mean)
    shape = _number(event, "shape")
    if shape < 0:
        raise _refused(event, "Its shape must be 0 or more.")
    return RepeatAndSelect(inner, _gamma(mean, shape), shape) if mean > 1 else inner


def _gamma(mean: Fraction, eta: Fraction) -> Fraction:
    """A gamma whose truncated negative binomial law has at least this mean, between 1 and 1e90."""
    if eta == 1:
        return 1 / mean
    low, high = -230.0, 0.0  # of the logarithm: the mean falls with gamma
    with precision(256):
        wanted = rational(mean).log()
        while low < (middle := (low + high) / 2) < high:
            enough = log_mean_of_runs(eta, Fraction(math.exp(middle))) >= wanted
            low, high = (middle, high) if enough else (low, middle)
    return Fraction(math.exp(low))


def _composed(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    if not isinstance(event.events, Sequence) or isinstance(event.events, str):
        raise _refused(event, "Its events must be a list.")
    return SequentialEvent(tuple(_read(part, neighbours, depth + 1) for part in event.events))


def _self_composed(event: Any, neighbours: Neighbours, depth: int) -> PrivacyEvent:
    return _repeated(_read(event.event, neighbours, depth + 1), count_of(event.count, "count", least=0))


def _nothing(_: Any, __: Neighbours, ___: int) -> PrivacyEvent:
    return SequentialEvent(())


def _non_private(event: Any, _: Neighbours, __: int) -> PrivacyEvent:
    return NonPrivateEvent(f"{type(event).__name__} of dp_accounting")


_READERS: Final[dict[str, tuple[Callable[[Any, Neighbours, int], PrivacyEvent], tuple[str, ...]]]] = {
    "GaussianDpEvent": (_gaussian, ("noise_multiplier",)),
    "LaplaceDpEvent": (_laplace, ("noise_multiplier",)),
    "DiscreteLaplaceDpEvent": (_discrete_laplace, ("noise_parameter", "sensitivity")),
    "EpsilonDeltaDpEvent": (_epsilon_delta, ("epsilon", "delta")),
    "RandomizedResponseDpEvent": (_response, ("noise_parameter", "num_buckets")),
    "ZCDpEvent": (_zcdp, ("rho", "xi")),
    "PoissonSampledDpEvent": (_sampled, ("sampling_probability", "event")),
    "SampledWithoutReplacementDpEvent": (
        _of_fixed_size,
        ("source_dataset_size", "sample_size", "event"),
    ),
    "SampledWithReplacementDpEvent": (_of_fixed_size, ("source_dataset_size", "sample_size", "event")),
    "TruncatedSubsampledGaussianDpEvent": (
        _truncated,
        ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier"),
    ),
    "MixtureOfGaussiansDpEvent": (_mixture, ("standard_deviation", "sensitivities", "sampling_probs")),
    "SingleEpochTreeAggregationDpEvent": (_tree, ("noise_multiplier", "step_counts")),
    "RepeatAndSelectDpEvent": (_selected, ("event", "mean", "shape")),
    "ComposedDpEvent": (_composed, ("events",)),
    "SelfComposedDpEvent": (_self_composed, ("event", "count")),
    "NoOpDpEvent": (_nothing, ()),
    "NonPrivateDpEvent": (_non_private, ()),
}
"""For the name of each class: how its events are read, and their fields."""


def _repeated(event: PrivacyEvent, count: int) -> PrivacyEvent:
    """The event several times, each with its own noise and its own samples."""
    match event:
        case _ if not count:
            return SequentialEvent(())
        case SequentialEvent(events):
            return SequentialEvent(tuple(_repeated(part, count) for part in events))
        case ZCDP(rho):
            # Rho adds up, and the event has no multiplicity.
            return ZCDP(rho * count)
        case _ if isinstance(event, Sampleable | Sample | MixtureOfGaussians | Selection):
            return replace(event, multiplicity=event.multiplicity * count)
        case _:
            return event


def _joined(event: PrivacyEvent) -> PrivacyEvent:
    """Several Gaussian releases that see the same sample, as one."""
    if not isinstance(event, SequentialEvent):
        return event
    parts = [part for part in map(_joined, event.events) if part != SequentialEvent(())]
    if len(parts) == 1:
        return parts[0]
    if parts and all(isinstance(part, Gaussian) for part in parts):
        # They share one sample, so they are one vector of answers, and mu squared adds up.
        mu_squared = sum(
            (p.multiplicity * p.mu_squared for p in parts if isinstance(p, Gaussian)), Fraction(0)
        )
        return Gaussian(1 / mu_squared)
    return SequentialEvent(tuple(parts))


def _number(event: Any, name: str) -> Fraction:
    return _exact(event, name, getattr(event, name))


def _numbers(event: Any, name: str) -> list[Fraction]:
    values = getattr(event, name)
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise _refused(event, f"Its {name} must be a list.")
    return [_exact(event, name, value) for value in values]


def _exact(event: Any, name: str, value: Any) -> Fraction:
    # Its binary value: that is what the other library computes with, too.
    if isinstance(value, float) and math.isfinite(value):
        return Fraction(value)
    return exact_number(value, f"{name} of {type(event).__name__}")


def _moved(neighbours: Neighbours) -> int:
    return neighbours.answers_moved


def _no_noise(event: Any) -> PrivacyEvent:
    return NonPrivateEvent(f"{type(event).__name__} of dp_accounting without noise")


def _refused(event: object, why: str) -> BudgetError:
    return BudgetError(
        f"the event {as_given(event)} of dp_accounting is not supported. {why}", code="dp-event"
    )
