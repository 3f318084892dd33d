"""The lines of a ledger: what they hold, their bytes, and the chain that binds each to the one before.

A line is one JSON object. Its last two keys are `previous`, the SHA-256 of the line before (without its end;
64 zeros on the first line), and `digest`, the SHA-256 of this line without the digest itself. Any change,
removal, insertion or reordering of lines by accident or by hand therefore shows. Two things do not: leaving
off lines at the end, and writing the whole chain anew with other content; against these keep the last line's
SHA-256 (`Ledger.head`) somewhere else.

Format 2 is written. Format 1, which had no chain and stated sensitivities otherwise, is read, at the same cost.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.events import NonPrivateEvent, PrivacyEvent
from tallyveil.accounting.exact import exact_number, exact_text
from tallyveil.accounting.ledger.event_json import event_from_mapping
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import BudgetError, StoreError
from tallyveil.exact import as_given

LEDGER_FORMAT = 2
UNCHAINED_FORMAT = 1
NO_LINE = "0" * 64
"""Stands for the SHA-256 of the line before the first."""

_DIGEST_KEY = b',"digest":"'
_DIGEST_END = len(_DIGEST_KEY) + 64 + len(b'"}')


@dataclass(frozen=True, slots=True)
class Declaration:
    """The budget a run may spend, declared before any record is read.

    Attributes:
        budget_unit: "rho" (zero-concentrated) or "epsilon" (pure).
        total: Exact budget in that unit.
        neighbours: The relation the sensitivities of every event are stated under.
    """

    budget_unit: Literal["rho", "epsilon"]
    total: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if self.budget_unit not in ("rho", "epsilon"):
            raise BudgetError(
                f"budget unit must be 'rho' or 'epsilon', got {self.budget_unit!r}. Use one of them."
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
        """JSON form of the first line, but for its place in the chain."""
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
        token: Names the act; the same token is never entered twice.
        run: The run that entered it.
    """

    sequence: int
    kind: Literal["spend", "declassify"]
    event: PrivacyEvent
    cost: Fraction | None
    description: str
    token: str
    run: str

    def to_mapping(self) -> dict[str, Any]:
        """JSON form of the line, but for its place in the chain."""
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
        format: Of its lines.
        declaration: Its first line.
        entries: The others, in order.
        head: SHA-256 of its last line.
    """

    format: int
    declaration: Declaration
    entries: tuple[LedgerEntry, ...]
    head: str


def chained_line(mapping: Mapping[str, Any], previous: str) -> bytes:
    """Bytes of a line without its end.

    Args:
        mapping: The content.
        previous: SHA-256 of the line before, or `NO_LINE`.
    """
    text = json.dumps({**mapping, "previous": previous}, ensure_ascii=True, separators=(",", ":"))
    body = text.encode("ascii")
    return body[:-1] + _DIGEST_KEY + line_hash(body).encode("ascii") + b'"}'


def line_hash(line: bytes) -> str:
    """SHA-256 of a line without its end, in hexadecimal."""
    return hashlib.sha256(line).hexdigest()


def spent(entries: tuple[LedgerEntry, ...]) -> Fraction:
    """Exact sum of the entries' costs."""
    return sum((entry.cost for entry in entries if entry.cost is not None), Fraction(0))


def parse_ledger(complete: bytes, path: Path) -> LedgerContent:
    """Content of a ledger's finished lines, at least one, all of them checked.

    Raises:
        StoreError: a line is corrupt, or not in its place.
    """
    chain = _Chain()
    for number, line in enumerate(complete.split(b"\n")[:-1], start=1):
        try:
            chain.follow(line)
        except (ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError, BudgetError) as error:
            raise StoreError(
                f"line {number} of the ledger {path} is corrupt: {error!r:.300}. "
                "A ledger is only ever appended to: restore the file from a copy."
            ) from error
    content = chain.content()
    if spent(content.entries) > content.declaration.total:
        raise StoreError(
            f"the ledger {path} adds up to more than it declares, so a line was changed. "
            "Restore it from a copy."
        )
    return content


class _Chain:
    """Lines read so far, each checked against those before."""

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
                raise ValueError(f"wanted a ledger of format {LEDGER_FORMAT} or {UNCHAINED_FORMAT}")
        if self._format == LEDGER_FORMAT:
            _check_chain(mapping, line, self._head)
        sequence = len(self._declarations) + len(self._entries)
        if mapping["sequence"] != sequence:
            raise ValueError(f"sequence is {mapping['sequence']}, wanted {sequence}")
        if not self._declarations:
            self._declarations.append(_declaration(mapping))
        else:
            entry = _entry(mapping, self._declarations[0], self._format)
            if entry.token in self._tokens:
                raise ValueError(f"token '{entry.token}' was entered before")
            self._entries.append(entry)
            self._tokens.add(entry.token)
        self._head = line_hash(line)

    def content(self) -> LedgerContent:
        """What was read; there was at least one line."""
        return LedgerContent(self._format, self._declarations[0], tuple(self._entries), self._head)


def _check_chain(mapping: dict[str, Any], line: bytes, previous: str) -> None:
    """Check a line's digest and its place, and leave only its content in the mapping."""
    if line != line[:-_DIGEST_END] + _DIGEST_KEY + line_hash(line[:-_DIGEST_END] + b"}").encode() + b'"}':
        raise ValueError("the digest is not the SHA-256 of the line")
    if mapping["previous"] != previous:
        raise ValueError("'previous' is not the SHA-256 of the line before")
    del mapping["previous"], mapping["digest"]


def _declaration(mapping: dict[str, Any]) -> Declaration:
    if mapping["kind"] != "declaration":
        raise ValueError("wanted a declaration")
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
    cost = declaration.cost_of(event) if kind == "spend" else None
    entry = LedgerEntry(
        mapping["sequence"], kind, event, cost, mapping["description"], mapping["token"], mapping["run"]
    )
    wanted = entry.to_mapping() | ({} if chained else {"event": mapping["event"]})
    if mapping != wanted:
        raise ValueError("the cost or another value is not the one the event gives")
    return entry


def _rewritten(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of format 1, where a sensitivity said how many answers move by one, in today's form."""
    kind = event["kind"]
    moved = {"discrete_gaussian": "squared_sensitivity", "discrete_laplace": "sensitivity"}.get(kind)
    if moved is not None:
        others = {key: value for key, value in event.items() if key != moved}
        if "sensitivity" in others:
            raise ValueError("a key of another format")
        return others | {"sensitivity": 1, "multiplicity": event[moved] * event["multiplicity"]}
    if kind in ("sequential", "parallel"):
        parts = {"events": [_rewritten(part) for part in event["events"]]}
        return dict(event) | parts | ({"degree": 1} if kind == "parallel" else {})
    return dict(event)
