"""Privacy events: what was done, as data, apart from what it costs.

Stability contract: an event describes exactly one mechanism and never changes its meaning. The field names
and the JSON form (`to_mapping`, `event_from_mapping`) are kept: a ledger written by one version is read, with
the same cost, by every later one. New mechanisms are new classes. Unknown kinds and keys are errors, never
skipped, since a skipped event would be a spend nobody counts.

Sensitivities are those under the neighbours the reader of the event works with: the event itself names none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from tallyveil.errors import BudgetError


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent:
    """Integer answers released with discrete Gaussian noise, independent in every answer.

    Attributes:
        variance: The parameter sigma squared of the noise, P(x) ~ exp(-x^2 / (2 variance)); counts squared.
        squared_sensitivity: How many answers move, each by exactly one, between neighbours; the squared L2
            sensitivity. For a partition query 2 under bounded neighbours and 1 under unbounded ones.
        multiplicity: How many such releases, one after the other with fresh noise.
    """

    variance: Fraction
    squared_sensitivity: int
    multiplicity: int = 1

    def __post_init__(self) -> None:
        _check_positive("DiscreteGaussianEvent", "variance", self.variance)
        _check_count("DiscreteGaussianEvent", "squared_sensitivity", self.squared_sensitivity)
        _check_count("DiscreteGaussianEvent", "multiplicity", self.multiplicity)

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the variance is an exact fraction as text."""
        return {
            "kind": "discrete_gaussian",
            "variance": str(self.variance),
            "squared_sensitivity": self.squared_sensitivity,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent:
    """Integer answers released with discrete Laplace (two-sided geometric) noise, independent in each answer.

    Attributes:
        scale: P(x) ~ exp(-|x| / scale); counts.
        sensitivity: How many answers move, each by exactly one, between neighbours; the L1 sensitivity.
            For a partition query 2 under bounded neighbours and 1 under unbounded ones.
        multiplicity: How many such releases, one after the other with fresh noise.
    """

    scale: Fraction
    sensitivity: int
    multiplicity: int = 1

    def __post_init__(self) -> None:
        _check_positive("DiscreteLaplaceEvent", "scale", self.scale)
        _check_count("DiscreteLaplaceEvent", "sensitivity", self.sensitivity)
        _check_count("DiscreteLaplaceEvent", "multiplicity", self.multiplicity)

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the scale is an exact fraction as text."""
        return {
            "kind": "discrete_laplace",
            "scale": str(self.scale),
            "sensitivity": self.sensitivity,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True)
class SequentialEvent:
    """Events on the same records, one after the other; each may depend on what the earlier ones released.

    Attributes:
        events: In order; none is a release of nothing.
    """

    events: tuple["PrivacyEvent", ...]

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "sequential", "events": [event.to_mapping() for event in self.events]}


@dataclass(frozen=True, slots=True)
class ParallelEvent:
    """Events on disjoint parts of the records: each record counts in the data of at most one of them.

    Which part a record falls in must be decided by the record alone. Under unbounded neighbours that is all.
    Under bounded neighbours a changed record may leave one part and enter another; the cost is still the
    largest of the parts' as long as every event below is a discrete Gaussian or Laplace release of partition
    queries, as here, because leaving or entering costs each part half of what a change within it does.

    Attributes:
        events: One for each part; none is a release of nothing.
    """

    events: tuple["PrivacyEvent", ...]

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "parallel", "events": [event.to_mapping() for event in self.events]}


@dataclass(frozen=True, slots=True)
class InvariantEvent:
    """A statistic published exactly, on which neighbours are taken to agree; it costs no budget.

    Privacy: nothing is promised about what the statistic itself reveals. It must be named with the guarantee.

    Attributes:
        statement: What is published, in words for the reader of the guarantee.
    """

    statement: str

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "invariant", "statement": self.statement}


@dataclass(frozen=True, slots=True)
class NonPrivateEvent:
    """The records were looked at without any protection; no finite budget pays for it.

    Attributes:
        reason: Why, in words for the reader of the ledger.
    """

    reason: str

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "non_private", "reason": self.reason}


PrivacyEvent: TypeAlias = (
    DiscreteGaussianEvent
    | DiscreteLaplaceEvent
    | SequentialEvent
    | ParallelEvent
    | InvariantEvent
    | NonPrivateEvent
)


def event_from_mapping(mapping: Mapping[str, Any]) -> PrivacyEvent:
    """The event a JSON form stands for; the inverse of `to_mapping`.

    Raises:
        BudgetError: an unknown kind, a key missing or unknown, or a value of the wrong form.
    """
    kind = mapping.get("kind")
    readers: dict[object, Callable[[Mapping[str, Any]], PrivacyEvent]] = {
        "discrete_gaussian": _read_gaussian,
        "discrete_laplace": _read_laplace,
        "sequential": lambda keys: SequentialEvent(_read_events(keys)),
        "parallel": lambda keys: ParallelEvent(_read_events(keys)),
        "invariant": lambda keys: InvariantEvent(_read_text(keys, "statement")),
        "non_private": lambda keys: NonPrivateEvent(_read_text(keys, "reason")),
    }
    if kind not in readers:
        raise BudgetError(
            f"unknown privacy event {kind!r}; known are {', '.join(map(str, readers))}. "
            "Read the file with the version of Tallyveil that wrote it, or a later one."
        )
    return readers[kind](mapping)


def _read_gaussian(keys: Mapping[str, Any]) -> DiscreteGaussianEvent:
    _check_keys(keys, {"variance", "squared_sensitivity", "multiplicity"})
    return DiscreteGaussianEvent(
        _read_fraction(keys, "variance"), keys["squared_sensitivity"], keys["multiplicity"]
    )


def _read_laplace(keys: Mapping[str, Any]) -> DiscreteLaplaceEvent:
    _check_keys(keys, {"scale", "sensitivity", "multiplicity"})
    return DiscreteLaplaceEvent(_read_fraction(keys, "scale"), keys["sensitivity"], keys["multiplicity"])


def _read_events(keys: Mapping[str, Any]) -> tuple[PrivacyEvent, ...]:
    _check_keys(keys, {"events"})
    events = keys["events"]
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise BudgetError(f"'events' of a {keys['kind']} event must be a list of events, got {events!r}.")
    return tuple(event_from_mapping(event) for event in events)


def _read_text(keys: Mapping[str, Any], key: str) -> str:
    _check_keys(keys, {key})
    text = keys[key]
    if not isinstance(text, str):
        raise BudgetError(f"'{key}' of a {keys['kind']} event must be text, got {text!r}.")
    return text


def _read_fraction(keys: Mapping[str, Any], key: str) -> Fraction:
    text = keys[key]
    try:
        value = Fraction(text) if isinstance(text, str) else None
    except (ValueError, ZeroDivisionError):
        value = None
    if value is None:
        raise BudgetError(
            f"'{key}' of a {keys['kind']} event must be an exact fraction as text, "
            f"such as '5/2', got {text!r}."
        )
    return value


def _check_keys(keys: Mapping[str, Any], wanted: set[str]) -> None:
    got = set(keys) - {"kind"}
    if got != wanted:
        raise BudgetError(
            f"a {keys['kind']} event has the keys {sorted(got)}; wanted exactly {sorted(wanted)}. "
            "Read the file with the version of Tallyveil that wrote it, or a later one."
        )


def _check_positive(event: str, field: str, value: Fraction) -> None:
    if not isinstance(value, Fraction) or value <= 0:
        raise BudgetError(
            f"{field} of {event} must be a Fraction above 0, got {value!r}. "
            "Leave the query out if it is not to be measured."
        )


def _check_count(event: str, field: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BudgetError(
            f"{field} of {event} must be an integer of 1 or more, got {value!r}. Leave the event out."
        )
