"""The book of a register: what all releases from the same records may cost together, and what each of them has cost.

A ledger records one run. A book records all runs on the records of one register, over products and years. Its first
line names the register and what is allowed for all time. A run enters its spend into the book before it enters it into
its own ledger, and so before any noise is drawn. What would exceed the allowance is refused.

The budgets of later releases are chosen by people who have seen the earlier ones. So the book is a filter
(docs/proofs/filters.md): costs add up in rho, or in epsilon where pure differential privacy is allowed, and what is
promised holds however the releases were chosen. An allowance of epsilon at a delta allows the largest rho that gives
this epsilon by the best known conversion.

A book is a file of chained lines, like a ledger. It holds names of releases, dates and events, and no counts.
"""

import re
import secrets
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, Self

from tallyveil.accounting.costs import (
    epsilon_of,
    require_neighbours,
    rho_of,
    total_variation_of,
    translate,
)
from tallyveil.accounting.events import Neighbours, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.chain import ChainedFile, finished_lines
from tallyveil.accounting.ledger.joint import JointLedgers
from tallyveil.accounting.ledger.lines import NO_LINE, event_from_mapping, follow_lines, line_hash, unchained
from tallyveil.accounting.numbers import (
    at_least,
    at_most,
    delta_text,
    parameter_of_noise,
    share_of,
    short_decimal,
)
from tallyveil.accounting.renyi import epsilon_to_rho
from tallyveil.errors import BudgetError, StoreError
from tallyveil.printable import has_bytes, in_one_line, shown
from tallyveil.storage.write import store_error

BOOK_FORMAT: Final = 1
"""Number of the format of the lines."""

# Seconds that a run waits for others that write their lines. A line takes less than a second in a book of a hundred
# releases.
_PATIENCE: Final = 30.0

_ALLOWANCE: Final = re.compile(r"\s*(rho|epsilon)\s*<=\s*(\S+?)(?:\s+at\s+(\S+))?\s*")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What all releases from the records of a register may cost together.

    Attributes:
        unit: "rho" (zero-concentrated), or "epsilon".
        most: Exact; above 0.
        delta: Where epsilon is allowed; None for rho, and for pure epsilon.
    """

    unit: Literal["rho", "epsilon"]
    most: Fraction
    delta: Fraction | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """The allowance of a text such as `rho <= 1`, `epsilon <= 8 at 1e-10` or `epsilon <= 2`.

        Raises:
            BudgetError: it is none (code `book-allowance`), or a number of it is out of range.
        """
        match = _ALLOWANCE.fullmatch(text)
        if match is None or (match[1] == "rho" and match[3]):
            raise BudgetError(
                f"the allowance of a book is {text!a:.80}, wanted a text such as 'epsilon <= 8 at 1e-10', 'rho <= 1', "
                "or 'epsilon <= 2' for pure differential privacy.",
                code="book-allowance",
            )
        unit: Literal["rho", "epsilon"] = "rho" if match[1] == "rho" else "epsilon"
        delta = None if match[3] is None else share_of(match[3], "delta of a book's allowance")
        if delta == 0:
            delta = None  # pure epsilon, in other words
        return cls(unit, parameter_of_noise(match[2], f"{unit} of a book's allowance"), delta)

    @property
    def cost_unit(self) -> Literal["rho", "epsilon"]:
        """The unit in which costs add up."""
        return "epsilon" if self.unit == "epsilon" and self.delta is None else "rho"

    @property
    def budget(self) -> Fraction:
        """What all releases may cost together, in `cost_unit`; exact."""
        return self.most if self.delta is None else epsilon_to_rho(self.most, self.delta)

    def cost_of(self, event: PrivacyEvent) -> Fraction:
        """The cost of an event in `cost_unit`; pure epsilon counts as epsilon^2 / 2 in rho.

        Raises:
            BudgetError: the event has no cost in this unit.
        """
        if total_variation_of(event):
            raise BudgetError(
                "the noise of this release follows its law only up to a total variation distance, which the sum of a "
                "book does not count. Use noise that is drawn exactly.",
                code="book-unsuited",
            )
        # Pure epsilon is zCDP with epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4).
        return rho_of(event, laplace_as_zcdp=True) if self.cost_unit == "rho" else epsilon_of(event)

    @property
    def text(self) -> str:
        """The text that `of` reads back, with exact fractions."""
        return f"{self.unit} <= {self.most}" + ("" if self.delta is None else f" at {self.delta}")

    def __str__(self) -> str:
        at = "" if self.delta is None else f" at {delta_text(self.delta)}"
        return f"{self.unit} <= {short_decimal(self.most)}{at}"


@dataclass(frozen=True, slots=True)
class BookEntry:
    """A line after the first: one release.

    Attributes:
        sequence: Line number, from 1.
        date: When it was entered, in universal time.
        description: The release in words.
        token: Name of the act, the same as in the ledger of its run; no token is entered twice.
        neighbours: The relation that the event is stated under.
        event: What was done.
    """

    sequence: int
    date: str
    description: str
    token: str
    neighbours: Neighbours
    event: PrivacyEvent

    def to_mapping(self) -> dict[str, Any]:
        """JSON form of the line, without the keys of the chain."""
        return {
            "sequence": self.sequence,
            "kind": "spend",
            "date": self.date,
            "description": self.description,
            "token": self.token,
            "neighbours": self.neighbours.value,
            "event": self.event.to_mapping(),
        }


@dataclass(frozen=True, slots=True)
class Spend:
    """What a run enters into a book.

    Attributes:
        event: What will be done.
        neighbours: The relation that it is stated under.
        description: In words.
        token: Name of the act: the same in every attempt at it, and different for every other act. None for an act
            that is not a run of Tallyveil, such as the release of another program; each call then enters another act.
    """

    event: PrivacyEvent
    neighbours: Neighbours
    description: str
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Book:
    """What a book holds.

    Attributes:
        path: The file.
        register: Name of the register.
        allowance: What all releases may cost together.
        neighbours: The relation that costs are added up under.
        entries: The releases, in the order in which they were entered.
        head: SHA-256 of the last line. A copy kept elsewhere shows whether lines were cut off or replaced.
    """

    path: Path
    register: str
    allowance: Allowance
    neighbours: Neighbours
    entries: tuple[BookEntry, ...]
    head: str

    @property
    def spent(self) -> Fraction:
        """What all releases cost together, in the unit of the allowance; exact."""
        return sum((self.cost_of(entry.event, entry.neighbours) for entry in self.entries), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What may still be spent; below 0 where two books that were merged had spent too much together."""
        return self.allowance.budget - self.spent

    @property
    def joint(self) -> JointLedgers:
        """All releases, for the functions that account for several ledgers (`accounting/ledger/joint.py`)."""
        events = tuple(self._translated(entry.event, entry.neighbours) for entry in self.entries)
        return JointLedgers((self.path,), self.neighbours, SequentialEvent(events), (), ())

    def cost_of(self, event: PrivacyEvent, neighbours: Neighbours) -> Fraction:
        """The cost of an event in the unit of the allowance.

        Raises:
            BudgetError: it has none, or none under the relation of the book.
        """
        translated = self._translated(event, neighbours)
        require_neighbours(translated, self.neighbours)
        return self.allowance.cost_of(translated)

    def require_room(self, spends: Iterable[Spend]) -> None:
        """Refuse releases for which not enough is left. What is entered already costs nothing more.

        Raises:
            BudgetError: they would cost more together than is left (code `book-spent`), or one has no cost in the unit
                of the book or under its relation.
        """
        tokens = {entry.token for entry in self.entries}
        new = [spend for spend in spends if spend.token not in tokens]
        if not new:
            return
        cost = sum((self.cost_of(spend.event, spend.neighbours) for spend in new), Fraction(0))
        left = self.left
        if cost > left:
            unit, names = self.allowance.cost_unit, ", ".join(spend.description for spend in new)
            remaining = at_least(max(left, Fraction(0)))
            raise BudgetError(
                f"'{names:.300}' would cost {unit} = {at_most(cost)}, and {unit} = {remaining} "
                f"is left in the book {self.path}, which allows {self.allowance} for all releases from the register "
                f"{self.register!a:.80} and has {len(self.entries)} of them. Nothing was entered or measured. Choose "
                "more noise, or leave this release out.",
                code="book-spent",
            )

    def _translated(self, event: PrivacyEvent, neighbours: Neighbours) -> PrivacyEvent:
        # A release from unbounded neighbours adds up in a book of bounded ones, but not the other way: a record that is
        # added or removed is no change of a value.
        if self.neighbours is Neighbours.UNBOUNDED and neighbours is Neighbours.BOUNDED:
            raise BudgetError(
                f"the book {self.path} adds up costs under unbounded neighbours, and this release is stated under "
                "bounded ones, from which no cost under unbounded ones follows. Make a book of bounded neighbours, "
                "which takes both.",
                code="book-unsuited",
            )
        return translate(event, neighbours, self.neighbours)


def create_book(path: Path, register: str, allowance: Allowance, neighbours: Neighbours) -> None:
    """Begin a book.

    Raises:
        StoreError: something is at the path (code `book-taken`), or it cannot be written.
        BudgetError: the allowance is out of range.
    """
    path = path.resolve()
    allowance.budget  # noqa: B018 (refuses an epsilon that no rho gives, before the file is made)
    if not register.strip():
        raise BudgetError(
            "the name of a register is empty. Give one, which every page shows.", code="book-allowance"
        )
    # Before it is opened for appending, which drops an unfinished last line: the file may be something else.
    _require_no_file(path)
    with closing(ChainedFile(path, "book", patience=_PATIENCE)) as file:
        _require_no_file(path)
        file.append(_first_line(_now(), register, allowance, neighbours))


_BEGINNING: Final = b'{"sequence":0,"kind":"book"'
"""How the first line of every book begins."""
_LONGEST_BEGINNING: Final = 1 << 16
"""Bytes of a first line at most: the name of a register has some hundred."""


def _require_no_file(path: Path) -> None:
    if path.exists() and not _is_unfinished(path):
        raise StoreError(
            f"{path} is there already. A book is begun only once; `tallyveil book show` prints what it holds.",
            code="book-taken",
        )


def _is_unfinished(path: Path) -> bool:
    """Whether a file is what a call leaves that was killed before it had written the whole first line."""
    if not path.is_file() or path.stat().st_size > _LONGEST_BEGINNING:
        return False
    try:
        content = path.read_bytes()
    except OSError as error:
        raise store_error(path, error) from error
    return b"\n" not in content and (content.startswith(_BEGINNING) or _BEGINNING.startswith(content))


def read_book(path: Path) -> Book:
    """What a book holds, without opening it for writing; an unfinished last line is left out.

    Raises:
        StoreError: the file cannot be read, is no book, or a line is corrupt or out of its place.
    """
    return _parsed(_finished(path), path)


def _finished(path: Path) -> bytes:
    return finished_lines(path, "book", "a book that `tallyveil book create` made")


def require_room(path: Path, spends: Iterable[Spend]) -> None:
    """Refuse releases for which too little is left in a book, and a book that could not be written.

    Raises:
        BudgetError: as `Book.require_room`.
        StoreError: the book cannot be read or opened for writing, or another process holds it.
    """
    with closing(_opened(path)) as file:
        _parsed(file.lines, path).require_room(spends)


def enter_spend_in_book(path: Path, spend: Spend) -> None:
    """Enter a spend before it is made; on return it is on disk.

    If its token was entered before, nothing is written. So a resumed run pays once.

    Args:
        path: The book.
        spend: What a run is about to do.
    Raises:
        BudgetError: as `Book.require_room`, or the token was entered with another event. Nothing is written then.
        StoreError: the book cannot be read or written, or another process holds it.
    """
    with closing(_opened(path)) as file:
        book = _parsed(file.lines, path)
        book.require_room([spend])
        _append_new(file, book, [_entry_of(book, spend)])


def record_spends(path: Path, spends: Iterable[Spend]) -> None:
    """Enter what was spent elsewhere, also where it exceeds the allowance: it is spent.

    Args:
        path: The book.
        spends: What was done.
    Raises:
        BudgetError: an event has no cost in the unit of the book or under its relation, or its token was entered with
            another event. Nothing is written then.
        StoreError: the book cannot be read or written, or another process holds it.
    """
    with closing(_opened(path)) as file:
        book = _parsed(file.lines, path)
        _append_new(file, book, [_entry_of(book, spend) for spend in spends])


def merge_books(path: Path, other: Path) -> None:
    """Enter into a book all releases of another book of the same register, which began as a copy of it.

    What two machines have spent is spent: nothing is refused where both together exceed the allowance.

    Args:
        path: The book that is added to.
        other: The other one, which stays as it is.
    Raises:
        StoreError: a book cannot be read or written.
        BudgetError: the other book is of another register, allowance or relation, or has another event under a token
            (code `book-unsuited`).
    """
    others = read_book(other)
    with closing(_opened(path)) as file:
        book = _parsed(file.lines, path)
        terms = [(item.register, item.allowance, item.neighbours) for item in (book, others)]
        if terms[0] != terms[1]:
            raise BudgetError(
                f"{other} is of the register {others.register!a:.80} and allows {others.allowance} under "
                f"{others.neighbours.value} neighbours; {path} is of {book.register!a:.80} and allows {book.allowance} "
                f"under {book.neighbours.value} neighbours. Merge books that began as copies of one book.",
                code="book-unsuited",
            )
        _append_new(file, book, others.entries)


def _append_new(file: ChainedFile, book: Book, entries: Iterable[BookEntry]) -> None:
    """Append the entries whose tokens are new. All are looked at before the first is written."""
    known = {entry.token: entry for entry in book.entries}
    new = []
    for entry in entries:
        before = known.get(entry.token)
        # A token stands for one act with one noise. Another event under it was never paid for.
        if before is not None and (before.event, before.neighbours) != (entry.event, entry.neighbours):
            raise BudgetError(
                f"'{entry.description:.80}' is in the book {book.path} as line {before.sequence}, with another event. "
                "One of the two was changed: compare the book with the ledger of the release.",
                code="book-unsuited",
            )
        if before is None:
            book.cost_of(entry.event, entry.neighbours)  # refuses what could never be added up
            new.append(entry)
            known[entry.token] = entry
    for number, entry in enumerate(new, start=len(book.entries) + 1):
        file.append(entry.to_mapping() | {"sequence": number})


def _entry_of(book: Book, spend: Spend) -> BookEntry:
    # Random, as two machines may enter the same at the same time: two acts must not pass for one when they are merged.
    token = spend.token or f"stated {secrets.token_hex(16)}"
    # Names of folders may hold anything.
    description = shown(in_one_line(spend.description))
    return BookEntry(len(book.entries) + 1, _now(), description, token, spend.neighbours, spend.event)


def _opened(path: Path) -> ChainedFile:
    # Looked at first: opening for writing would make an empty file where there is none, or change one that is no book.
    # The other lines are read under the lock.
    first, end, _ = _finished(path).partition(b"\n")
    _parsed(first + end, path)
    # Where a link leads, as files are opened for writing without following one.
    return ChainedFile(path.resolve(), "book", patience=_PATIENCE)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _parsed(complete: bytes, path: Path) -> Book:
    lines = _Lines(path)
    follow_lines(complete, path, "book", lines.follow)
    return lines.book()


class _Lines:
    """The lines read so far, each one checked against those before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._terms: list[tuple[str, Allowance, Neighbours]] = []
        self._entries: list[BookEntry] = []
        self._tokens: set[str] = set()
        self._head = NO_LINE

    def follow(self, line: bytes) -> None:
        """Check and keep one more line."""
        mapping = unchained(line, self._head)
        if not self._terms:
            self._terms.append(_terms_of(mapping))
        else:
            entry = _entry_from(mapping)
            if entry.sequence != len(self._entries) + 1:
                raise ValueError("a line is missing or out of its place")
            if entry.token in self._tokens:
                raise ValueError("its token was entered before")
            self._tokens.add(entry.token)
            self._entries.append(entry)
        self._head = line_hash(line)

    def book(self) -> Book:
        """What was read, which was at least the first line."""
        register, allowance, neighbours = self._terms[0]
        return Book(self._path, register, allowance, neighbours, tuple(self._entries), self._head)


def _terms_of(mapping: dict[str, Any]) -> tuple[str, Allowance, Neighbours]:
    """What the first line says; raises ValueError where it is not as a book writes it."""
    _require_texts(mapping, "date", "register", "allow", "neighbours")
    register, allowance = mapping["register"], Allowance.of(mapping["allow"])
    neighbours = Neighbours(mapping["neighbours"])
    # By type as well: true and 1.0 equal 1.
    if mapping != _first_line(mapping["date"], register, allowance, neighbours) or (
        type(mapping["sequence"]),
        type(mapping["format"]),
    ) != (int, int):
        raise ValueError(f"the first line is not that of a book in format {BOOK_FORMAT}")
    return register, allowance, neighbours


def _entry_from(mapping: dict[str, Any]) -> BookEntry:
    """The entry that a line holds; raises ValueError where it is not as a book writes it."""
    _require_texts(mapping, "date", "description", "token", "neighbours")
    entry = BookEntry(
        mapping["sequence"],
        mapping["date"],
        mapping["description"],
        mapping["token"],
        Neighbours(mapping["neighbours"]),
        event_from_mapping(mapping["event"]),
    )
    # Compared as a whole: a key that is unknown or missing is a difference, too.
    if type(entry.sequence) is not int or mapping != entry.to_mapping():
        raise ValueError("a key or a value is not as a book writes it")
    return entry


def _require_texts(mapping: dict[str, Any], *keys: str) -> None:
    if not all(isinstance(mapping[key], str) and not has_bytes(mapping[key]) for key in keys):
        raise TypeError


def _first_line(date: str, register: str, allowance: Allowance, neighbours: Neighbours) -> dict[str, Any]:
    return {
        "sequence": 0,
        "kind": "book",
        "format": BOOK_FORMAT,
        "date": date,
        "register": register,
        "allow": allowance.text,
        "neighbours": neighbours.value,
    }
