"""The lines of a ledger: their events, their content, their bytes, and the chain that binds them.

Privacy events, read from their JSON form.

A line is one JSON object. Its last two keys are `previous`, the SHA-256 of the line before without its end
(64 zeros on the first line), and `digest`, the SHA-256 of this line without the digest. So the chain shows
any change, removal, insertion or reordering of lines, by accident or by hand. It does not show two things:
lines cut off at the end, and a whole chain that was written again with other content. To detect these, keep
the SHA-256 of the last line (`Ledger.head`) somewhere else.

Format 2 is written. Format 1 had no chain and stated sensitivities differently. It is read, at the same cost.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tallyveil.accounting.costs import epsilon_of, rho_of
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
    RepeatAndSelect,
    SampledWithoutReplacement,
    SampledWithReplacement,
    SequentialEvent,
    TruncatedPoissonSampled,
    WorstEvent,
)
from tallyveil.accounting.losses import branches_of_one_law
from tallyveil.accounting.numbers import exact_number, exact_text
from tallyveil.errors import BudgetError, StoreError
from tallyveil.exact import as_given

DEEPEST = 100
"""A JSON form with more levels of events within events is refused."""

_Place: TypeAlias = tuple[str, ...]
"""Where an event stands within others: events[2], then branches[1] in it."""


def event_from_mapping(mapping: Mapping[str, Any], *, place: str = "") -> PrivacyEvent:
    """The event that a JSON form describes; the inverse of `to_mapping`.

    Args:
        mapping: The JSON form.
        place: Where it stands, such as events[2], for messages.

    Raises:
        BudgetError: an unknown kind, a key missing or unknown, a value of the wrong form, adaptive branches
            with different loss laws, or events nested more than a hundred deep. The message names the place of an
            event within others, such as branches[1].
    """
    return _read(mapping, (place,) if place else ())


def _read(mapping: Mapping[str, Any], place: _Place) -> PrivacyEvent:
    kind = mapping.get("kind") if isinstance(mapping, Mapping) else None
    # An error and never skipped: nobody would count the cost of a skipped event.
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _refused(
            place,
            f"unknown privacy event {as_given(kind)}; known are {', '.join(_KINDS)}. "
            "Read the file with the version of Tallyveil that wrote it, or a later one.",
        )
    # Counted by hand, as a recursion that fails in Python's own limit has no words for the reader.
    if len(place) >= DEEPEST:
        raise BudgetError(
            f"privacy events are nested more than {DEEPEST} deep. Write them side by side in one SequentialEvent."
        )
    event, readers = _KINDS[kind]
    wanted, got = set(readers), set(mapping) - {"kind"}
    # A missing key could not be guessed, and an unknown one may mean a higher cost.
    if wanted - _WRITTEN_IF_TRUE != got - (_WRITTEN_IF_TRUE & wanted):
        raise _refused(
            place,
            f"a {kind} event has the keys {sorted(got)}; wanted exactly {sorted(wanted - _WRITTEN_IF_TRUE)}. "
            "Read the file with the version of Tallyveil that wrote it, or a later one.",
        )
    arguments = {key: read(mapping, key, place) for key, read in readers.items() if key in mapping}
    try:
        return event(**arguments)
    except BudgetError as error:
        raise _refused(place, str(error), code=error.code) from None


def _refused(place: _Place, why: str, code: str = BudgetError.code) -> BudgetError:
    return BudgetError(f"{'.'.join(place)}: {why}" if place else why, code=code)


def _given(keys: Mapping[str, Any], key: str, _: _Place) -> Any:
    return keys[key]


def _text(keys: Mapping[str, Any], key: str, place: _Place) -> str:
    text = keys[key]
    # A JSON number would be read as a float, which is not the fraction that was meant.
    if not isinstance(text, str):
        raise _refused(
            place,
            f"'{key}' of a {keys['kind']} event must be text (a number as its exact fraction), got {as_given(text)}.",
        )
    return text


def _texts(keys: Mapping[str, Any], key: str, place: _Place) -> tuple[str, ...]:
    texts = keys[key]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _refused(
            place, f"'{key}' of a {keys['kind']} event must be a list of texts, got {as_given(texts)}."
        )
    return tuple(texts)


def _event(keys: Mapping[str, Any], key: str, place: _Place) -> PrivacyEvent:
    return _read(keys[key], (*place, key))


def _events(keys: Mapping[str, Any], key: str, place: _Place) -> tuple[PrivacyEvent, ...]:
    events = keys[key]
    # Checked before recursion: a text is a sequence of letters, and would give a strange error.
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise _refused(
            place, f"'{key}' of a {keys['kind']} event must be a list of events, got {as_given(events)}."
        )
    return tuple(_read(event, (*place, f"{key}[{n}]")) for n, event in enumerate(events, start=1))


def _adaptive(branches: tuple[PrivacyEvent, ...]) -> AdaptiveEvent:
    event = AdaptiveEvent(branches)
    # Refused while reading: the class cannot compare the laws of its branches itself.
    branches_of_one_law(event)
    return event


_KINDS: Mapping[
    str, tuple[Callable[..., PrivacyEvent], Mapping[str, Callable[[Mapping[str, Any], str, _Place], Any]]]
] = {
    "discrete_gaussian": (
        DiscreteGaussian,
        {"variance": _text, "sensitivity": _given, "multiplicity": _given},
    ),
    "discrete_laplace": (DiscreteLaplace, {"scale": _text, "sensitivity": _given, "multiplicity": _given}),
    "integer_subspace_gaussian": (
        IntegerSubspaceGaussian,
        {"variance": _text, "squared_distance": _given, "invariants": _texts, "total_variation": _text},
    ),
    "integer_subspace_laplace": (
        IntegerSubspaceLaplace,
        {
            "epsilon": _text,
            "norm": _given,
            "distance": _text,
            "invariants": _texts,
            "total_variation": _text,
            "restricted": _given,
        },
    ),
    "gaussian": (Gaussian, {"variance": _text, "sensitivity": _text, "multiplicity": _given}),
    "laplace": (Laplace, {"scale": _text, "sensitivity": _text, "multiplicity": _given}),
    "mixture_of_gaussians": (
        MixtureOfGaussians,
        {"variance": _text, "sensitivities": _texts, "probabilities": _texts, "multiplicity": _given},
    ),
    "randomized_response": (
        RandomizedResponse,
        {"epsilon": _text, "options": _given, "multiplicity": _given},
    ),
    "approximate_dp": (ApproximateDP, {"epsilon": _text, "delta": _text, "multiplicity": _given}),
    "zcdp": (ZCDP, {"rho": _text}),
    "poisson_sampled": (PoissonSampled, {"event": _event, "probability": _text, "multiplicity": _given}),
    "sampled_without_replacement": (
        SampledWithoutReplacement,
        {"event": _event, "sample_size": _given, "records": _given, "multiplicity": _given},
    ),
    "sampled_with_replacement": (
        SampledWithReplacement,
        {"event": _event, "sample_size": _given, "records": _given, "multiplicity": _given},
    ),
    "truncated_poisson_sampled": (
        TruncatedPoissonSampled,
        {"event": _event, "probability": _text, "largest": _given, "records": _given, "multiplicity": _given},
    ),
    "repeat_and_select": (
        RepeatAndSelect,
        {"event": _event, "gamma": _text, "eta": _text, "multiplicity": _given},
    ),
    "poisson_repeat_and_select": (
        PoissonRepeatAndSelect,
        {"event": _event, "mean": _text, "multiplicity": _given},
    ),
    "sequential": (SequentialEvent, {"events": _events}),
    "parallel": (ParallelEvent, {"events": _events, "degree": _given}),
    "adaptive": (_adaptive, {"branches": _events}),
    "worst": (WorstEvent, {"branches": _events, "chosen": _given}),
    "invariant": (InvariantEvent, {"statement": _text}),
    "non_private": (NonPrivateEvent, {"reason": _text}),
}
"""Kinds of events: the class, and how each of its arguments is read."""

_WRITTEN_IF_TRUE = {"restricted"}
"""A key that is written only where it is true; a line without it keeps its meaning."""


LEDGER = "ledger.jsonl"
"""Name of the ledger in the folder of a run."""
LEDGER_FORMAT = 2
"""Number of the format that is written: chained lines, and a sensitivity that says by how much an answer moves."""
UNCHAINED_FORMAT = 1
"""Number of the first format, still read at the same cost: it has no chain, and its sensitivity counts answers."""
NO_LINE = "0" * 64
"""Stands for the SHA-256 of the line before the first."""

_DIGEST_KEY = b',"digest":"'
_DIGEST_END = len(_DIGEST_KEY) + 64 + len(b'"}')
"""Bytes of the end of a line, from the comma before the digest on; a SHA-256 has 64 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The budget a run may spend, declared before any record is read.

    Attributes:
        budget_unit: "rho" (zero-concentrated) or "epsilon" (pure).
        total: Exact budget in that unit.
        neighbours: The relation that the sensitivities of all events are stated under.
    """

    budget_unit: Literal["rho", "epsilon"]
    total: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if self.budget_unit not in ("rho", "epsilon"):
            raise BudgetError(
                f"budget unit must be 'rho' or 'epsilon', got {as_given(self.budget_unit)}. Use one of them."
            )
        if not isinstance(self.total, Fraction) or self.total <= 0:
            raise BudgetError(
                f"the declared budget must be a Fraction above 0, got {as_given(self.total)}. Declare one."
            )

    def cost_of(self, event: PrivacyEvent) -> Fraction:
        """Cost of an event in the declared unit.

        Raises:
            BudgetError: the event has no cost in that unit.
        """
        return rho_of(event) if self.budget_unit == "rho" else epsilon_of(event)

    def to_mapping(self, run: str) -> dict[str, Any]:
        """JSON form of the first line, without the keys of the chain."""
        return {
            "sequence": 0,
            "kind": "declaration",
            "format": LEDGER_FORMAT,
            "budget_unit": self.budget_unit,
            "budget": str(self.total),
            "neighbours": self.neighbours.value,
            "run": run,
        }

    def __str__(self) -> str:
        return f"{self.budget_unit} = {exact_text(self.total)} under {self.neighbours.value} neighbours"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line after the declaration.

    Attributes:
        sequence: Line number, from 1.
        kind: "spend", or "declassify" for a look at the records that no budget pays for.
        event: What was done.
        cost: Exact cost in the declared unit; None for a declassification.
        description: In words.
        token: Name of the act; no token is entered twice.
        run: Name of the run that entered it.
    """

    sequence: int
    kind: Literal["spend", "declassify"]
    event: PrivacyEvent
    cost: Fraction | None
    description: str
    token: str
    run: str

    def to_mapping(self) -> dict[str, Any]:
        """JSON form of the line, without the keys of the chain."""
        return {
            "sequence": self.sequence,
            "kind": self.kind,
            "description": self.description,
            "token": self.token,
            "run": self.run,
            "cost": None if self.cost is None else str(self.cost),
            "event": self.event.to_mapping(),
        }


@dataclass(frozen=True, slots=True)
class LedgerContent:
    """What a ledger holds.

    Attributes:
        format: Number of the format of its lines.
        declaration: Content of the first line.
        entries: Content of the other lines, in order.
        head: SHA-256 of the last line.
    """

    format: int
    declaration: Declaration
    entries: tuple[LedgerEntry, ...]
    head: str


def chained_line(mapping: Mapping[str, Any], previous: str) -> bytes:
    """The bytes of a line, without its end.

    Args:
        mapping: The content of the line.
        previous: SHA-256 of the line before, or `NO_LINE`.
    """
    # ASCII without spaces: the hash is one of bytes, which no locale or editor's encoding may change.
    text = json.dumps({**mapping, "previous": previous}, ensure_ascii=True, separators=(",", ":"))
    # A line feed within a text is escaped by JSON, so that one line is always one object.
    body = text.encode("ascii")
    return body[:-1] + _DIGEST_KEY + line_hash(body).encode("ascii") + b'"}'


def whole_ledger(declaration: Declaration, entries: Sequence[LedgerEntry], run: str) -> bytes:
    """The bytes of a ledger that shows all acts of a run that was done elsewhere.

    Args:
        declaration: What it declares.
        entries: Its entries, in order.
        run: Name of the run.
    """
    lines = [chained_line(declaration.to_mapping(run), NO_LINE)]
    for entry in entries:
        lines.append(chained_line(entry.to_mapping(), line_hash(lines[-1])))
    return b"".join(line + b"\n" for line in lines)


def first_lines(data: bytes, number: int) -> bytes:
    """The first lines of a ledger with their ends. Only a line feed ends a line, as in `parse_ledger`."""
    return b"".join(line + b"\n" for line in data.split(b"\n")[:-1][:number])


def line_hash(line: bytes) -> str:
    """SHA-256 of a line without its end, in hexadecimal."""
    return hashlib.sha256(line).hexdigest()


def spent(entries: tuple[LedgerEntry, ...]) -> Fraction:
    """Exact sum of the entries' costs."""
    return sum((entry.cost for entry in entries if entry.cost is not None), Fraction(0))


def parse_ledger(complete: bytes, path: Path) -> LedgerContent:
    """The content of a ledger's finished lines, of which there is at least one. Every line is checked.

    Raises:
        StoreError: a line is corrupt or out of place.
    """
    chain = _Chain()
    follow_lines(complete, path, "ledger", chain.follow)
    content = chain.content()
    # No spend beyond the budget is ever written, so this cannot come from a run.
    if spent(content.entries) > content.declaration.total:
        raise StoreError(
            f"the ledger {path} adds up to more than it declares, so a line of it was changed after it was written. "
            "Restore it from a copy."
        )
    return content


def follow_lines(complete: bytes, path: Path, name: str, follow: Callable[[bytes], None]) -> None:
    """Give every line to a reader, in order.

    Args:
        complete: Finished lines.
        path: The file, for messages.
        name: What it is, for messages.
        follow: Reads a line; it may raise what a changed line can raise.
    Raises:
        StoreError: a line is corrupt or out of place. The message names it.
    """
    for number, line in enumerate(complete.split(b"\n")[:-1], start=1):
        try:
            follow(line)
        # Whatever a changed line can raise, also by a fraction over 0 or by nesting without end.
        except (ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError, BudgetError) as error:
            raise StoreError(
                f"line {number} of the {name} {path} is corrupt: {_in_words(error):.300}. "
                f"A {name} is only ever appended to: restore the file from a copy."
            ) from error


def _in_words(error: Exception) -> str:
    match error:
        case KeyError():
            return f"it lacks the key {error}"
        case TypeError():
            return "a value is of another kind than is written here"
        case RecursionError():
            return "it is nested without end"
        case _:
            return str(error)


class _Chain:
    """The lines read so far, each one checked against those before."""

    def __init__(self) -> None:
        self._format = LEDGER_FORMAT
        self._declarations: list[Declaration] = []
        self._entries: list[LedgerEntry] = []
        self._tokens: set[str] = set()
        self._head = NO_LINE

    def follow(self, line: bytes) -> None:
        """Check and keep one more line."""
        mapping = json.loads(line)
        if not self._declarations:
            self._format = mapping["format"]
            if self._format not in (UNCHAINED_FORMAT, LEDGER_FORMAT):
                raise ValueError(f"the format is not {LEDGER_FORMAT} or {UNCHAINED_FORMAT}")
        if self._format == LEDGER_FORMAT:
            mapping = unchained(line, self._head)
        sequence = len(self._declarations) + len(self._entries)
        # Format 1 has no chain: there the number alone shows a line that is missing.
        if mapping["sequence"] != sequence:
            raise ValueError(f"sequence is {mapping['sequence']}, wanted {sequence}")
        if not self._declarations:
            self._declarations.append(_declaration(mapping))
        else:
            entry = _entry(mapping, self._declarations[0], self._format)
            # One act has one token. A second line of it would be a copy, made by hand.
            if entry.token in self._tokens:
                raise ValueError(f"token '{entry.token}' was entered before")
            self._entries.append(entry)
            self._tokens.add(entry.token)
        self._head = line_hash(line)

    def content(self) -> LedgerContent:
        """The content of what was read, which was at least one line."""
        return LedgerContent(self._format, self._declarations[0], tuple(self._entries), self._head)


def unchained(line: bytes, previous: str) -> dict[str, Any]:
    """The content of a line without the keys of the chain, once its digest and its place are checked.

    Args:
        line: The line, without its end.
        previous: SHA-256 of the line before, or `NO_LINE`.
    Raises:
        ValueError: the line is no JSON object, its digest is not its own, or it follows another line.
    """
    mapping: dict[str, Any] = json.loads(line)
    # The bytes as they are, not as JSON would write them again: any change of them shows.
    if line != line[:-_DIGEST_END] + _DIGEST_KEY + line_hash(line[:-_DIGEST_END] + b"}").encode() + b'"}':
        raise ValueError("the digest is not the SHA-256 of the line")
    if mapping["previous"] != previous:
        raise ValueError("'previous' is not the SHA-256 of the line before")
    del mapping["previous"], mapping["digest"]
    return mapping


def _declaration(mapping: dict[str, Any]) -> Declaration:
    if mapping["kind"] != "declaration":
        raise ValueError("the first line is not a declaration")
    return Declaration(
        mapping["budget_unit"],
        exact_number(mapping["budget"], "the declared budget"),
        Neighbours(mapping["neighbours"]),
    )


def _entry(mapping: dict[str, Any], declaration: Declaration, version: int) -> LedgerEntry:
    chained = version == LEDGER_FORMAT
    event = event_from_mapping(mapping["event"] if chained else _rewritten(mapping["event"]))
    kind = mapping["kind"]
    if kind not in ("spend", "declassify") or (kind == "declassify") != isinstance(event, NonPrivateEvent):
        raise ValueError(f"kind '{kind}' does not fit the event")
    # Computed from the event once more, so that no line can state less than it cost.
    cost = declaration.cost_of(event) if kind == "spend" else None
    entry = LedgerEntry(
        mapping["sequence"], kind, event, cost, mapping["description"], mapping["token"], mapping["run"]
    )
    # Compared as a whole: a key that is unknown or missing is a difference, too.
    wanted = entry.to_mapping() | ({} if chained else {"event": mapping["event"]})
    if mapping != wanted:
        raise ValueError("the cost or another value differs from what the event gives")
    return entry


def _rewritten(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of format 1, whose sensitivity was the number of answers that move by 1, in the form of format 2."""
    kind = event["kind"]
    # Under these names format 1 counted the answers that move by 1 in one of `multiplicity` releases.
    moved = {"discrete_gaussian": "squared_sensitivity", "discrete_laplace": "sensitivity"}.get(kind)
    if moved is not None:
        others = {key: value for key, value in event.items() if key != moved}
        if "sensitivity" in others:
            raise ValueError("the event has a key of another format")
        return others | {"sensitivity": 1, "multiplicity": event[moved] * event["multiplicity"]}
    if kind in ("sequential", "parallel"):
        parts = {"events": [_rewritten(part) for part in event["events"]]}
        return dict(event) | parts | ({"degree": 1} if kind == "parallel" else {})
    return dict(event)
