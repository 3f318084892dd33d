"""The page of a book: what a register allows for all time, what each release has cost, and what that means."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.book import Book
from tallyveil.accounting.numbers import at_least, at_most, claim_text, delta_text, short_decimal, spent_cell
from tallyveil.plans.guess import guess_of_pair, guess_text
from tallyveil.report.page import NumberTile, SummaryPoint, write_page
from tallyveil.report.privacy import guess_tile
from tallyveil.schema.schema import Unit
from tallyveil.version import VERSION

_RECORD = Unit("record", "records")


def write_book_page(book: Book, total: Mapping[str, Any], delta: Fraction, path: Path) -> Path:
    """Write the page of a book.

    Args:
        book: The book.
        total: What all its releases guarantee together at delta, with its `epsilon`; empty while there is none.
        delta: Where epsilon is stated.
        path: The file.
    Raises:
        StoreError: the page cannot be written.
    Privacy: a book holds no counts, so the page shows none.
    """
    allowance, unit = book.allowance, book.allowance.cost_unit
    at = "" if allowance.delta is None else f"at delta {delta_text(allowance.delta)}, "
    exact = list(dict.fromkeys(total.get("invariants", ())))
    tiles = [
        NumberTile("Allowed", f"{allowance.unit} ≤ {short_decimal(allowance.most)}", f"{at}for all time"),
        NumberTile(f"{unit} spent", at_most(book.spent), f"of {at_least(book.allowance.budget)}"),
        NumberTile(f"{unit} left", at_least(max(book.left, Fraction(0))), "for later releases"),
    ]
    points = [
        SummaryPoint(
            "What this is",
            "Everything that was released from the records of this register and entered into its book. A run is "
            "entered before it draws noise, and is refused where too little is left.",
        )
    ]
    if total:
        epsilon = total["epsilon"]["upper"]
        unknown = (
            "says one of two things" if book.neighbours is Neighbours.BOUNDED else "is there or is not there"
        )
        right = guess_of_pair(epsilon, float(delta))
        tiles.append(
            NumberTile("Epsilon together", f"≤ {claim_text(epsilon)}", f"at delta {delta_text(delta)}")
        )
        tiles.append(guess_tile(right, _RECORD, is_protected=True))
        points.append(
            SummaryPoint(
                "What it means for one record",
                f"Suppose that somebody knows everything but one record, which {unknown}, both equally "
                f"likely. With all releases at hand, at most {guess_text(right)} of their guesses are right. Without "
                "them, half are.",
            )
        )
    points.append(
        SummaryPoint(
            "What may not be concluded",
            "The book knows what was entered. Releases that were made without it are not in it, and neither is what "
            "somebody saw of the true counts. No budget limits what releases publish exactly"
            + (
                f": {'; '.join(exact)}. What is said above holds for records that change none of it."
                if exact
                else "."
            ),
        )
    )
    if book.left < 0:
        points.insert(
            1,
            SummaryPoint(
                "More than allowed",
                f"{unit} {at_most(-book.left)} more was spent than is allowed. Every further run is refused.",
            ),
        )
    return write_page(
        path,
        "book.html.j2",
        {
            "register": book.register,
            "points": points,
            "tiles": tiles,
            "unit": unit,
            "neighbours": book.neighbours.value,
            "rows": [
                (
                    entry.sequence,
                    entry.date.replace("T", " ").removesuffix("+00:00"),
                    entry.description,
                    spent_cell(book.cost_of(entry.event, entry.neighbours)),
                )
                for entry in book.entries
            ],
            "on_the_way": total.get("noise_chosen_on_the_way", {}).get("epsilon", {}).get("upper"),
            "head": book.head,
            "version": VERSION,
        },
    )
