"""The ledger: an append-only file of everything that was done to privacy.

One JSON object a line. The first line declares the budget; every later one is a spend or a declassification.
A line is on disk before the call that wrote it returns, so nothing is measured that the ledger does not show.
It holds events, words and exact costs, no counts: it can be published as it is.
"""

import fcntl
import json
import logging
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tallyveil.accounting.events import NonPrivateEvent, PrivacyEvent, event_from_mapping
from tallyveil.accounting.exact import exact_text
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.zcdp import epsilon_of, rho_of
from tallyveil.errors import BudgetError, StoreError
from tallyveil.storage.write import flush

LEDGER_FORMAT = 1
_LOGGER = logging.getLogger(__name__)


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
                f"the declared budget must be a Fraction above 0, got {self.total!r}. Declare one."
            )

    def cost_of(self, event: PrivacyEvent) -> Fraction:
        """Cost of an event in the declared unit.

        Raises:
            BudgetError: the event has no cost in that unit.
        """
        return rho_of(event) if self.budget_unit == "rho" else epsilon_of(event)

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
        """JSON form of the line."""
        return {
            "sequence": self.sequence,
            "kind": self.kind,
            "description": self.description,
            "token": self.token,
            "run": self.run,
            "cost": None if self.cost is None else str(self.cost),
            "event": self.event.to_mapping(),
        }


class Ledger:
    """A ledger open for writing, by one writer at a time. Use it as a context manager, or close it.

    Attributes:
        path: The file.
        declaration: The declared budget.
        run: Name of the run whose entries these calls make.
    """

    def __init__(self, path: Path, declaration: Declaration, run: str) -> None:
        """Open the ledger, or begin one.

        A last line without its end, left by a crash, is dropped with a warning: the call that was writing it
        never returned, so nothing was measured on its account.

        Raises:
            StoreError: the file cannot be opened, another writer has it open, or a line is corrupt.
            BudgetError: the file declares another budget.
        """
        self.path, self.declaration, self.run = path, declaration, run
        self._file = _open_locked(path)
        try:
            self._entries = self._read_or_begin()
        except BaseException:
            self.close()
            raise

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries after the declaration, in order."""
        return tuple(self._entries)

    @property
    def spent(self) -> Fraction:
        """Exact sum of what was spent, in the declared unit."""
        return _spent(self._entries)

    @property
    def remaining(self) -> Fraction:
        """What is left of the declared budget."""
        return self.declaration.total - self.spent

    def spend(self, event: PrivacyEvent, description: str, token: str) -> LedgerEntry:
        """Enter a spend before it is made; on return it is on disk.

        A token entered before gives back the entry it made and writes nothing, so a resumed run that does
        the same thing again with the same noise pays once.

        Args:
            event: What is about to be done.
            description: In words.
            token: Names the act: the same in every attempt at it, and different for every other act.

        Raises:
            BudgetError: the sum would exceed the declared budget, the event has no cost in its unit, or the
                token was entered with another event. Nothing is written then.
            StoreError: the line could not be written.
        """
        known = self._entered(token, event)
        if known is not None:
            return known
        cost = self.declaration.cost_of(event)
        if self.spent + cost > self.declaration.total:
            unit = self.declaration.budget_unit
            over = self.spent + cost - self.declaration.total
            raise BudgetError(
                f"'{description}' would exceed the declared budget by {unit} = {exact_text(over)}: "
                f"declared {unit} = {exact_text(self.declaration.total)}, already spent "
                f"{exact_text(self.spent)}, wanted {exact_text(cost)}. Nothing was entered or measured. "
                "Measure less, or start a new run with a larger declared budget if policy allows it."
            )
        return self._enter("spend", event, cost, description, token)

    def declassify(self, event: NonPrivateEvent, description: str, token: str) -> LedgerEntry:
        """Enter a look at the records that no budget pays for; idempotent by token as `spend` is.

        Raises:
            BudgetError: the token was entered with another event.
            StoreError: the line could not be written.
        """
        known = self._entered(token, event)
        return known if known is not None else self._enter("declassify", event, None, description, token)

    def close(self) -> None:
        """Close the file and let another writer in. Entries are on disk already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_or_begin(self) -> list[LedgerEntry]:
        data = self._file.read()
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):
            _LOGGER.warning(
                "%s: dropped an unfinished last line of %d bytes, left by a crash; nothing was measured on "
                "its account",
                self.path,
                len(data) - len(complete),
            )
            self._file.truncate(len(complete))
        if not complete:
            self._write_line({**_declaration_mapping(self.declaration), "run": self.run})
            flush(self.path.parent)
            return []
        declared, entries = _parse(complete, self.path)
        if declared != self.declaration:
            raise BudgetError(
                f"{self.path} declares {declared}, the run wants {self.declaration}. "
                "A budget is declared once: give the run another folder, or declare what the ledger says."
            )
        return entries

    def _entered(self, token: str, event: PrivacyEvent) -> LedgerEntry | None:
        known = next((entry for entry in self._entries if entry.token == token), None)
        if known is not None and known.event != event:
            raise BudgetError(
                f"token '{token}' was entered as line {known.sequence} ('{known.description}') with another "
                "event. The plan has changed since: start a new run in another folder."
            )
        return known

    def _enter(
        self,
        kind: Literal["spend", "declassify"],
        event: PrivacyEvent,
        cost: Fraction | None,
        description: str,
        token: str,
    ) -> LedgerEntry:
        entry = LedgerEntry(len(self._entries) + 1, kind, event, cost, description, token, self.run)
        self._write_line(entry.to_mapping())
        self._entries.append(entry)
        return entry

    def _write_line(self, mapping: dict[str, Any]) -> None:
        line = json.dumps(mapping, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line)
            os.fsync(self._file.fileno())
        except OSError as error:
            # Half a line in the middle of the file would make the ledger unreadable for ever.
            self._file.truncate(end)
            raise StoreError(
                f"could not write to the ledger {self.path}: {error}. Nothing was spent; "
                "make room or mend the disk and run again."
            ) from error


def read_ledger(path: Path) -> tuple[Declaration, tuple[LedgerEntry, ...]]:
    """Declared budget and entries of a ledger, without opening it for writing.

    An unfinished last line is left out, as when it is opened.

    Raises:
        StoreError: the file cannot be read, is empty, or a line is corrupt.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"could not read the ledger {path}: {error}. Give the path of a ledger.jsonl."
        ) from error
    complete = data[: data.rfind(b"\n") + 1]
    if not complete:
        raise StoreError(
            f"the ledger {path} holds no finished line. Give the path of a ledger a run has begun."
        )
    declaration, entries = _parse(complete, path)
    return declaration, tuple(entries)


def _spent(entries: list[LedgerEntry]) -> Fraction:
    return sum((entry.cost for entry in entries if entry.cost is not None), Fraction(0))


def _open_locked(path: Path) -> Any:
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0)
    except OSError as error:
        raise StoreError(
            f"could not open the ledger {path}: {error}. Make its folder, or give one that can be written."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StoreError(
            f"the ledger {path} is open in another run ({error}). Wait for it to finish: two runs that spend "
            "at once could together exceed the budget."
        ) from error
    return file


def _declaration_mapping(declaration: Declaration) -> dict[str, Any]:
    return {
        "sequence": 0,
        "kind": "declaration",
        "format": LEDGER_FORMAT,
        "budget_unit": declaration.budget_unit,
        "budget": str(declaration.total),
        "neighbours": declaration.neighbours.value,
    }


def _parse(complete: bytes, path: Path) -> tuple[Declaration, list[LedgerEntry]]:
    lines = complete.split(b"\n")[:-1]
    declaration: Declaration | None = None
    entries: list[LedgerEntry] = []
    tokens: set[str] = set()
    for sequence, line in enumerate(lines):
        try:
            mapping = json.loads(line)
            if mapping["sequence"] != sequence:
                raise ValueError(f"sequence is {mapping['sequence']}, wanted {sequence}")
            if declaration is None:
                declaration = _parse_declaration(mapping)
                continue
            entry = _parse_entry(mapping, declaration)
            if entry.token in tokens:
                raise ValueError(f"token '{entry.token}' was entered before")
        except (ValueError, KeyError, TypeError, ZeroDivisionError, BudgetError) as error:
            raise StoreError(
                f"line {sequence + 1} of the ledger {path} is corrupt: {error!r}. "
                "A ledger is only ever appended to: restore the file from a copy."
            ) from error
        entries.append(entry)
        tokens.add(entry.token)
    if declaration is None or _spent(entries) > declaration.total:
        raise StoreError(
            f"the ledger {path} adds up to more than it declares, so a line was changed. "
            "Restore it from a copy."
        )
    return declaration, entries


def _parse_declaration(mapping: dict[str, Any]) -> Declaration:
    if mapping["kind"] != "declaration" or mapping["format"] != LEDGER_FORMAT:
        raise ValueError(f"wanted a declaration of format {LEDGER_FORMAT}")
    return Declaration(mapping["budget_unit"], Fraction(mapping["budget"]), Neighbours(mapping["neighbours"]))


def _parse_entry(mapping: dict[str, Any], declaration: Declaration) -> LedgerEntry:
    event = event_from_mapping(mapping["event"])
    kind = mapping["kind"]
    if kind not in ("spend", "declassify") or (kind == "declassify") != isinstance(event, NonPrivateEvent):
        raise ValueError(f"kind '{kind}' does not fit the event")
    cost = declaration.cost_of(event) if kind == "spend" else None
    entry = LedgerEntry(
        mapping["sequence"], kind, event, cost, mapping["description"], mapping["token"], mapping["run"]
    )
    if mapping != entry.to_mapping():
        raise ValueError("the cost or another value is not the one the event gives")
    return entry
