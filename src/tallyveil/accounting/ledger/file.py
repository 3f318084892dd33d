"""The ledger: an append-only, hash-chained file of everything that was done to privacy.

Each line is one JSON object. The first line declares the budget. Every later line is a spend or a declassification. A
line is on disk before the call that wrote it returns, so nothing is measured that the ledger does not show.

Each line holds the SHA-256 of the line before and of itself. Both are checked whenever a ledger is opened or read;
`accounting/ledger/lines.py` says what they show. The ledger holds events, words and exact costs, but no counts, so it
can be published as it is.
"""

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from tallyveil.accounting.costs import require_neighbours
from tallyveil.accounting.events import NonPrivateEvent, PrivacyEvent
from tallyveil.accounting.ledger.chain import ChainedFile, finished_lines
from tallyveil.accounting.ledger.lines import (
    LEDGER_FORMAT,
    Declaration,
    LedgerEntry,
    parse_ledger,
    spent,
)
from tallyveil.accounting.numbers import exact_text
from tallyveil.errors import BudgetError, StoreError


class Ledger:
    """A ledger that is open for writing, by one writer at a time. Use it as a context manager, or close it.

    Attributes:
        path: The file.
        declaration: The declared budget.
        run: Name of the run that makes new entries.
    """

    def __init__(self, path: Path, declaration: Declaration, run: str) -> None:
        """Open the ledger, or begin one.

        A crash may leave a last line without its end. That line is dropped with a warning: the call that was writing
        it never returned, so nothing was measured on its account.

        Raises:
            StoreError: the file cannot be opened, another writer has it open, a line is corrupt or out of place, or
                an earlier version began the file without a chain.
            BudgetError: the file declares another budget.
        """
        self.path, self.declaration, self.run = path, declaration, run
        self._file = ChainedFile(path, "ledger")
        try:
            self._entries = self._read_or_begin()
        except BaseException:
            self._file.close()
            raise

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries after the declaration, in order."""
        return tuple(self._entries)

    @property
    def spent(self) -> Fraction:
        """Exact sum of what was spent, in the declared unit."""
        return spent(self.entries)

    @property
    def head(self) -> str:
        """SHA-256 of the last line. A copy kept elsewhere shows whether lines were cut off or all of them replaced."""
        return self._file.head

    @property
    def remaining(self) -> Fraction:
        """What is left of the declared budget."""
        return self.declaration.total - self.spent

    def spend(self, event: PrivacyEvent, description: str, token: str) -> LedgerEntry:
        """Enter a spend before it is made; on return it is on disk.

        If the token was entered before, the entry it made is returned and nothing is written. So a resumed run, which
        does the same thing again with the same noise, pays once.

        Args:
            event: What is about to be done.
            description: In words.
            token: Name of the act: the same in every attempt at it, and different for every other act.

        Raises:
            BudgetError: the sum would exceed the declared budget; the event has no cost in the declared unit; the
                event leaves out what one record moves; or the token was entered with another event. Nothing is written
                then.
            StoreError: the line could not be written.
        """
        known = self._entered(token, event)
        if known is not None:
            return known
        require_neighbours(event, self.declaration.neighbours)
        cost = self.declaration.cost_of(event)
        # Exact fractions, so that a budget can be spent to its last part and never beyond.
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
        """Enter a look at the records that no budget pays for. The same token is entered once, as for `spend`.

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
        if not self._file.lines:
            self._file.append(self.declaration.to_mapping(self.run))
            return []
        content = parse_ledger(self._file.lines, self.path)
        if content.format != LEDGER_FORMAT:
            raise StoreError(
                f"the ledger {self.path} was begun in format {content.format}, without a chain of digests. This "
                f"version of Tallyveil can read that format, but it writes format {LEDGER_FORMAT} only. Continue "
                "with the version that began the ledger."
            )
        if content.declaration != self.declaration:
            raise BudgetError(
                f"{self.path} declares {content.declaration}, the run wants {self.declaration}. A budget is declared "
                "only once. Give the run another folder, or declare the budget that is in the ledger."
            )
        return list(content.entries)

    def _entered(self, token: str, event: PrivacyEvent) -> LedgerEntry | None:
        known = next((entry for entry in self._entries if entry.token == token), None)
        # A token stands for one act with one noise. Another event under it was never paid for.
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
        self._file.append(entry.to_mapping())
        # Only now is the line on disk: an entry that failed to be written is not spent.
        self._entries.append(entry)
        return entry


def read_ledger(path: Path) -> tuple[Declaration, tuple[LedgerEntry, ...]]:
    """Declared budget and entries of a ledger, without opening it for writing.

    An unfinished last line is left out, as when a ledger is opened.

    Raises:
        StoreError: the file cannot be read, is empty, or a line is corrupt or out of its place.
    """
    content = parse_ledger(finished_lines(path, "ledger", "a ledger.jsonl that a run has begun"), path)
    return content.declaration, content.entries
