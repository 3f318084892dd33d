"""Privacy events, read from their JSON form."""

from collections.abc import Callable, Mapping
from typing import Any

from tallyveil.accounting.events import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.accounting.further_events import ZCDP, ApproximateDP, Gaussian, Laplace, RandomizedResponse
from tallyveil.accounting.losses.loss_laws import branches_of_one_law
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

DEEPEST = 100
"""A JSON form with more levels of events within events is refused."""


def event_from_mapping(mapping: Mapping[str, Any]) -> PrivacyEvent:
    """The event that a JSON form describes; the inverse of `to_mapping`.

    Raises:
        BudgetError: an unknown kind, a key missing or unknown, a value of the wrong form, adaptive branches
            with different loss laws, or events nested more than a hundred deep.
    """
    return _read(mapping, 1)


def _read(mapping: Mapping[str, Any], depth: int) -> PrivacyEvent:
    kind = mapping.get("kind") if isinstance(mapping, Mapping) else None
    # An error and never skipped: nobody would count the cost of a skipped event.
    if not isinstance(kind, str) or kind not in _READERS:
        raise BudgetError(
            f"unknown privacy event {as_given(kind)}; known are {', '.join(_READERS)}. "
            "Read the file with the version of Tallyveil that wrote it, or a later one."
        )
    # Counted by hand, as a recursion that fails in Python's own limit has no words for the reader.
    if depth > DEEPEST:
        raise BudgetError(
            f"privacy events are nested more than {DEEPEST} deep. Write them side by side in one SequentialEvent."
        )
    return _READERS[kind](mapping, depth)


def _read_gaussian(keys: Mapping[str, Any], _: int) -> DiscreteGaussian:
    _check_keys(keys, {"variance", "sensitivity", "multiplicity"})
    return DiscreteGaussian(_text(keys, "variance"), keys["sensitivity"], keys["multiplicity"])


def _read_laplace(keys: Mapping[str, Any], _: int) -> DiscreteLaplace:
    _check_keys(keys, {"scale", "sensitivity", "multiplicity"})
    return DiscreteLaplace(_text(keys, "scale"), keys["sensitivity"], keys["multiplicity"])


def _read_subspace_laplace(keys: Mapping[str, Any], _: int) -> IntegerSubspaceLaplace:
    known = {"epsilon", "norm", "distance", "invariants", "total_variation"}
    # This key is written only where it is true; a line without it keeps its meaning.
    _check_keys(keys, known | {"restricted"} if "restricted" in keys else known)
    return IntegerSubspaceLaplace(
        _text(keys, "epsilon"),
        keys["norm"],
        _text(keys, "distance"),
        _texts(keys, "invariants"),
        _text(keys, "total_variation"),
        keys.get("restricted", False),
    )


def _read_subspace_gaussian(keys: Mapping[str, Any], _: int) -> IntegerSubspaceGaussian:
    _check_keys(keys, {"variance", "squared_distance", "invariants", "total_variation"})
    return IntegerSubspaceGaussian(
        _text(keys, "variance"),
        keys["squared_distance"],
        _texts(keys, "invariants"),
        _text(keys, "total_variation"),
    )


def _read_real_gaussian(keys: Mapping[str, Any], _: int) -> Gaussian:
    _check_keys(keys, {"variance", "sensitivity", "multiplicity"})
    return Gaussian(_text(keys, "variance"), _text(keys, "sensitivity"), keys["multiplicity"])


def _read_real_laplace(keys: Mapping[str, Any], _: int) -> Laplace:
    _check_keys(keys, {"scale", "sensitivity", "multiplicity"})
    return Laplace(_text(keys, "scale"), _text(keys, "sensitivity"), keys["multiplicity"])


def _read_response(keys: Mapping[str, Any], _: int) -> RandomizedResponse:
    _check_keys(keys, {"epsilon", "options", "multiplicity"})
    return RandomizedResponse(_text(keys, "epsilon"), keys["options"], keys["multiplicity"])


def _read_approximate(keys: Mapping[str, Any], _: int) -> ApproximateDP:
    _check_keys(keys, {"epsilon", "delta", "multiplicity"})
    return ApproximateDP(_text(keys, "epsilon"), _text(keys, "delta"), keys["multiplicity"])


def _read_zcdp(keys: Mapping[str, Any], _: int) -> ZCDP:
    _check_keys(keys, {"rho"})
    return ZCDP(_text(keys, "rho"))


def _read_sampled(keys: Mapping[str, Any], depth: int) -> PoissonSampled:
    _check_keys(keys, {"event", "probability", "multiplicity"})
    event = _read(keys["event"], depth + 1)
    return PoissonSampled(event, _text(keys, "probability"), keys["multiplicity"])  # type: ignore[arg-type]


def _read_sequential(keys: Mapping[str, Any], depth: int) -> SequentialEvent:
    _check_keys(keys, {"events"})
    return SequentialEvent(_events(keys, "events", depth))


def _read_parallel(keys: Mapping[str, Any], depth: int) -> ParallelEvent:
    _check_keys(keys, {"events", "degree"})
    return ParallelEvent(_events(keys, "events", depth), keys["degree"])


def _read_adaptive(keys: Mapping[str, Any], depth: int) -> AdaptiveEvent:
    _check_keys(keys, {"branches"})
    event = AdaptiveEvent(_events(keys, "branches", depth))
    # Refused while reading: the class cannot compare the laws of its branches itself.
    branches_of_one_law(event)
    return event


def _read_worst(keys: Mapping[str, Any], depth: int) -> WorstEvent:
    _check_keys(keys, {"branches", "chosen"})
    return WorstEvent(_events(keys, "branches", depth), keys["chosen"])


def _read_invariant(keys: Mapping[str, Any], _: int) -> InvariantEvent:
    _check_keys(keys, {"statement"})
    return InvariantEvent(_text(keys, "statement"))


def _read_non_private(keys: Mapping[str, Any], _: int) -> NonPrivateEvent:
    _check_keys(keys, {"reason"})
    return NonPrivateEvent(_text(keys, "reason"))


_READERS: Mapping[str, Callable[[Mapping[str, Any], int], PrivacyEvent]] = {
    "discrete_gaussian": _read_gaussian,
    "discrete_laplace": _read_laplace,
    "integer_subspace_laplace": _read_subspace_laplace,
    "integer_subspace_gaussian": _read_subspace_gaussian,
    "gaussian": _read_real_gaussian,
    "laplace": _read_real_laplace,
    "randomized_response": _read_response,
    "approximate_dp": _read_approximate,
    "zcdp": _read_zcdp,
    "poisson_sampled": _read_sampled,
    "sequential": _read_sequential,
    "parallel": _read_parallel,
    "adaptive": _read_adaptive,
    "worst": _read_worst,
    "invariant": _read_invariant,
    "non_private": _read_non_private,
}


def _events(keys: Mapping[str, Any], key: str, depth: int) -> tuple[PrivacyEvent, ...]:
    events = keys[key]
    # Checked before recursion: a text is a sequence of letters, and would give a strange error.
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise BudgetError(
            f"'{key}' of a {keys['kind']} event must be a list of events, got {as_given(events)}."
        )
    return tuple(_read(event, depth + 1) for event in events)


def _text(keys: Mapping[str, Any], key: str) -> str:
    text = keys[key]
    # A JSON number would be read as a float, which is not the fraction that was meant.
    if not isinstance(text, str):
        raise BudgetError(
            f"'{key}' of a {keys['kind']} event must be text (a number as its exact fraction), got {as_given(text)}."
        )
    return text


def _texts(keys: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = keys[key]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BudgetError(
            f"'{key}' of a {keys['kind']} event must be a list of texts, got {as_given(texts)}."
        )
    return tuple(texts)


def _check_keys(keys: Mapping[str, Any], wanted: set[str]) -> None:
    got = set(keys) - {"kind"}
    # A missing key could not be guessed, and an unknown one may mean a higher cost.
    if got != wanted:
        raise BudgetError(
            f"a {keys['kind']} event has the keys {sorted(got)}; wanted exactly {sorted(wanted)}. "
            "Read the file with the version of Tallyveil that wrote it, or a later one."
        )
