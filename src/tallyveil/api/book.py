"""The book of a register, from Python: what all releases from its records may cost together, and what they cost."""

from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.accounting.events import Neighbours, PrivacyEvent
from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.ledger.book import (
    Allowance,
    Book,
    Spend,
    merge_books,
    read_book,
    record_spends,
)
from tallyveil.accounting.ledger.book import create_book as begin_book
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.accounting.losses import has_loss_law
from tallyveil.accounting.numbers import at_least, at_most, delta_text, short_decimal
from tallyveil.api.arguments import AnyPath, Text, book_of, checked
from tallyveil.api.guarantees import total_guarantee
from tallyveil.api.planned import Plan
from tallyveil.errors import BudgetError, StoreError, TallyveilError
from tallyveil.files.manifest_files import read_manifest
from tallyveil.printable import in_one_line
from tallyveil.runs.once import spends_of

DELTA: Final = "1e-10"
"""Where epsilon is stated if the allowance has no delta."""


# Python writes integers of up to 4,300 digits as text.
_LONGEST: Final = 10**2000


def exact_cost(cost: Fraction) -> str:
    """A cost as an exact fraction; rounded up to 40 digits if it would have thousands of them."""
    long = max(abs(cost.numerator), cost.denominator) > _LONGEST
    return at_most(cost, 40) if long else str(cost)


class RegisterBook:
    """A book, as it was when it was opened.

    Attributes:
        path: The file.
        register: Name of the register.
        allowed: What all releases may cost together, in words.
        neighbours: The relation that costs are added up under.
        unit: "rho" or "epsilon", in which costs add up.
        spent: What all releases cost together, in this unit; exact.
        left: What may still be spent; exact. It is below 0 where more was spent than is allowed, which only entries of
            what was spent elsewhere can do.
    """

    def __init__(self, path: Path) -> None:
        self._book = read_book(path)
        self.path = path
        self.register = self._book.register
        self.allowed = str(self._book.allowance)
        self.neighbours = self._book.neighbours.value
        self.unit = self._book.allowance.cost_unit
        self.spent, self.left = self._book.spent, self._book.left

    def __repr__(self) -> str:
        number = len(self._book.entries)
        return (
            f"The book of {self.register}: {self.allowed} for all releases under {self.neighbours} neighbours. "
            f"{number} {'release' if number == 1 else 'releases'}: {self.unit} {at_most(self.spent)} spent, "
            f"{at_most(self.left)} left."
        )

    @property
    def entries(self) -> pl.DataFrame:
        """One row for each release: `sequence`, `date`, `release`, `neighbours`, and its exact `cost` as text."""
        return pl.DataFrame(
            [
                {
                    "sequence": entry.sequence,
                    "date": entry.date,
                    "release": entry.description,
                    "neighbours": entry.neighbours.value,
                    "cost": exact_cost(self._book.cost_of(entry.event, entry.neighbours)),
                }
                for entry in self._book.entries
            ],
            schema={
                "sequence": pl.Int64,
                "date": pl.String,
                "release": pl.String,
                "neighbours": pl.String,
                "cost": pl.String,
            },
        )

    @checked
    def total(self, delta: str | Fraction | None = None) -> dict[str, Any]:
        """What is proved of all releases together, as `total_guarantee` states it of their folders.

        The epsilon of `noise_chosen_on_the_way` holds also if the results of earlier releases decided how much noise
        the later ones added.

        Args:
            delta: Where epsilon is stated; None for the delta of the allowance, or 1e-10 where it has none.
        Returns:
            Plain data; empty while nothing is entered.
        Raises:
            BudgetError: the delta is out of range.
        """
        from tallyveil.api.guarantees import total_content

        text, number = self._delta(delta), len(self._book.entries)
        return total_content(self._book.joint, text, Fraction(text), several=number > 1) if number else {}

    @checked
    def report(self, out: AnyPath, delta: str | Fraction | None = None) -> Path:
        """Write a page about the book, one HTML file.

        Args:
            out: The file.
            delta: Where epsilon is stated; None for the delta of the allowance, or 1e-10 where it has none.
        Raises:
            StoreError: the file cannot be written, or is the book.
            BudgetError: the delta is out of range.
        """
        from tallyveil.report.book import write_book_page
        from tallyveil.storage.outputs import refuse_inputs

        refuse_inputs(Path(out), [self.path])
        return write_book_page(self._book, self.total(delta), Fraction(self._delta(delta)), Path(out))

    def _delta(self, given: str | Fraction | None) -> str:
        """The delta where epsilon is stated, as text that is an exact number."""
        from tallyveil.budget.strategy import parse_fraction

        if given is None:
            allowed = self._book.allowance.delta
            return DELTA if allowed is None else short_decimal(allowed)
        parse_fraction(given, "--delta")
        return str(given)

    @checked
    def enter_release(self, run: AnyPath) -> "RegisterBook":
        """Enter a run that was made without the book, from its ledger. What is entered already is not entered again.

        Nothing is refused because too little is left: the run has spent.

        Args:
            run: Its folder. If it is stated under another relation than the book, it is a finished release.
        Returns:
            The book as it is now.
        Raises:
            StoreError: there is no ledger, or it is damaged; or the run is not finished where it must be.
            BudgetError: the run protects nobody, or has no cost in the unit of the book or under its relation.
        """
        from tallyveil.accounting.ledger.joint import read_joint, require_protection

        # Also refuses a ledger whose last lines were cut off.
        joint = read_joint([Path(run)])
        require_protection(joint)
        folder = joint.paths[0].parent
        spends = spends_of(folder)
        # Only of finished releases of Tallyveil it is known that their queries are partitions, so that their cost under
        # the other relation follows.
        if joint.neighbours is not self._book.neighbours:
            read_manifest(folder)
        else:
            for spend in spends:
                _require_composable(spend.event, self._book)
        record_spends(self.path, spends)
        return RegisterBook(self.path)

    @checked
    def enter_events(self, events: AnyPath, description: Text) -> "RegisterBook":
        """Enter what another program has released from the same records. Each call enters another act.

        Args:
            events: File of events (TOML or JSON), as for `tallyveil account --events`.
            description: What was released, in words.
        Returns:
            The book as it is now.
        Raises:
            StoreError, ConfigError: the file cannot be read.
            BudgetError: an event is wrong, or has no cost in the unit of the book or under its relation.
        """
        from tallyveil.plans.from_toml.spending import load_spending

        neighbours, event = load_spending(Path(events))
        # Of another program nothing says that its queries are partitions, so that its cost is not translated.
        if neighbours is not self._book.neighbours:
            raise BudgetError(
                f"{events} states its events under {neighbours.value} neighbours, and the book {self.path} adds up "
                f"costs under {self.neighbours} ones. State the events under the relation of the book.",
                code="book-unsuited",
            )
        _require_composable(event, self._book)
        record_spends(self.path, [Spend(event, neighbours, description)])
        return RegisterBook(self.path)

    @checked
    def merge(self, other: AnyPath) -> "RegisterBook":
        """Enter all releases of another book, which began as a copy of this one on another machine.

        Nothing is refused because too little is left: what both have spent is spent.

        Args:
            other: The other book, which stays as it is.
        Returns:
            The book as it is now.
        Raises:
            StoreError: a book cannot be read or written.
            BudgetError: the other book is of another register, allowance or relation.
        """
        merge_books(self.path, Path(other))
        return RegisterBook(self.path)


@checked
def create_book(path: AnyPath, *, register: Text, allow: Text, neighbours: Text = "bounded") -> RegisterBook:
    """Begin the book of a register, into which every release from its records is entered.

    The allowance is for all time. A run that names the book is refused, before its records are opened, where too little
    is left. What is promised holds also if the budgets of later releases were chosen after looking at earlier ones.

    Args:
        path: The new file, such as book.jsonl.
        register: Name of the register.
        allow: Such as "epsilon <= 8 at 1e-10", "rho <= 1", or "epsilon <= 2" for pure differential privacy.
        neighbours: "bounded" takes releases under both relations, "unbounded" only those under unbounded neighbours.
    Raises:
        StoreError: something is at the path, or it cannot be written.
        BudgetError: the allowance is none.
    """
    begin_book(Path(path), register, Allowance.of(allow), Neighbours.of(neighbours))
    return RegisterBook(Path(path))


@checked
def open_book(path: AnyPath) -> RegisterBook:
    """Open the book of a register.

    Raises:
        StoreError: there is no book at the path, or a line is damaged.
    """
    return RegisterBook(Path(path))


def _require_composable(event: PrivacyEvent, book: Book) -> None:
    """Refuse an event that a sum has no guarantee for: the book could state none any more."""
    if has_loss_law(event):
        compose(event, neighbours=book.neighbours)


def spending_in_words(planned: Plan, run: Path, book: Path | None) -> str:
    """What was spent on the people of a finished release, as a sentence: from its book, or from the folders beside it.

    Args:
        planned: Its plan.
        run: Folder of the release.
        book: The book that the caller named; None for none.
    Returns:
        The sentence; empty where there is neither a book nor another protected release beside this one.
    """
    entered, delta = book_of(book, planned.content.book), planned.content.delta
    if entered is not None:
        held = RegisterBook(entered)
        return (
            f"The book of {in_one_line(held.register)} allows {held.allowed}: {held.unit} {at_most(held.spent)} is "
            f"spent, {at_least(held.left)} is left."
        )
    beside = _protected_beside(run)
    if len(beside) < 2:
        return ""
    place = in_one_line(str(run.resolve().parent))
    begin = f"No book was named. With the other releases in {place} ({len(beside)} together)"
    try:
        total = total_guarantee(beside, delta).content
    except TallyveilError as error:
        return f"{begin} the total is not known: {error}"
    return (
        f"{begin}, if they are about the same people, epsilon is at most {at_most(total['epsilon']['upper'])} at "
        f"delta = {delta_text(delta)}. `tallyveil book create` begins a book, which refuses what is too much."
    )


def _protected_beside(run: Path) -> list[Path]:
    """The folders of finished releases that protect people, in the folder that a run is in."""
    folders = sorted(path.parent for path in run.resolve().parent.glob(f"*/{LEDGER}"))
    protected = []
    for folder in folders:
        try:
            if read_manifest(folder).protected:
                protected.append(folder)
        # Unfinished, damaged or of another version: what it spent cannot be told from here.
        except StoreError:
            continue
    return protected
