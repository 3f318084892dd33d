"""`tallyveil book`: what all releases from the records of a register may cost together, and what they have cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import DELTA, NEIGHBOURS, AsJson, Quiet, give_files, group_of_commands
from tallyveil.cli.frame.terminal import say_json

if TYPE_CHECKING:
    from tallyveil.api.book import RegisterBook

book = group_of_commands(
    "book", "Keep the book of a register: what all releases may cost together, and what they have cost."
)

BookFile = Annotated[
    Path, typer.Argument(help="The book, which `tallyveil book create` made.", metavar="BOOK")
]
Delta = Annotated[
    str | None, typer.Option("--delta", help=f"{DELTA} Default: that of the allowance, or 1e-10.")
]


@book.command()
def create(
    path: Annotated[Path, typer.Argument(help="The new file, such as book.jsonl.", metavar="BOOK")],
    *,
    register: Annotated[
        str, typer.Option("--register", metavar="NAME", help="Name of the register, which every page shows.")
    ],
    allow: Annotated[
        str,
        typer.Option(
            "--allow",
            metavar="TEXT",
            help="What all releases may cost together, such as 'epsilon <= 8 at 1e-10', 'rho <= 1', or 'epsilon <= 2' "
            "for pure differential privacy.",
        ),
    ],
    neighbours: Annotated[
        str,
        typer.Option(
            "--neighbours",
            help=f"{NEIGHBOURS} A book of bounded neighbours takes releases under both.",
        ),
    ] = "bounded",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Begin the book of a register.

    The allowance is for all time. A run that names the book (--book, [book] in the release file, or the environment
    variable TALLYVEIL_BOOK) enters its spend before it draws noise, and is refused before its records are opened where
    too little is left. Keep a copy of the book: only a copy shows that its last lines were cut off.
    """
    from tallyveil.api.book import create_book

    _show(
        create_book(path, register=register, allow=allow, neighbours=neighbours), as_json=as_json, quiet=quiet
    )


@book.command()
def show(
    path: BookFile,
    delta: Delta = None,
    as_json: AsJson = False,
) -> None:
    """Show what was released, what is left, and what all releases guarantee together."""
    from tallyveil.api.book import open_book

    shown = open_book(path)
    _show(shown, as_json=as_json, total=shown.total(delta))


@book.command()
def report(
    path: BookFile,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File of the page (HTML).")],
    delta: Delta = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a page about the book, for those who decide about later releases."""
    from tallyveil.api.book import open_book

    give_files([open_book(path).report(out, delta)], quiet=quiet, as_json=as_json)


@book.command()
def enter(
    path: BookFile,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs that were made without the book.", metavar="RUN..."),
    ] = None,
    spending: Annotated[
        Path | None,
        typer.Option(
            "--spending",
            metavar="FILE",
            help="What another program has released, as a file of events for `tallyveil account --events`.",
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="With --spending: what it was.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Enter what was released without the book. Nothing is refused because too little is left: it is spent.

    A run is known by its ledger and is entered once, however often this is called. What another program has released is
    entered again by each call.
    """
    from tallyveil.api.book import open_book
    from tallyveil.errors import ConfigError

    if not runs and spending is None:
        raise ConfigError(
            "there is nothing to enter. Name folders of runs, or give --spending FILE.", code="bad-flag"
        )
    if (spending is None) != (description is None):
        raise ConfigError("--spending and --description belong together. Give both.", code="bad-flag")
    entered = open_book(path)
    for run in runs or []:
        entered = entered.enter_release(run)
    if spending is not None and description is not None:
        entered = entered.enter_events(spending, description)
    _show(entered, as_json=as_json, quiet=quiet)


@book.command()
def merge(
    path: BookFile,
    other: Annotated[Path, typer.Argument(help="The other book, which stays as it is.", metavar="OTHER")],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Enter all releases of OTHER, which began as a copy of BOOK on another machine."""
    from tallyveil.api.book import open_book

    _show(open_book(path).merge(other), as_json=as_json, quiet=quiet)


def _show(
    shown: "RegisterBook", *, as_json: bool, quiet: bool = False, total: "dict[str, Any] | None" = None
) -> None:
    """Print what a book holds, and what all releases guarantee together, where that is given."""
    from fractions import Fraction

    from tallyveil.accounting.numbers import at_least, at_most, spent_cell
    from tallyveil.api.book import exact_cost
    from tallyveil.cli.frame.screen import Screen
    from tallyveil.cli.frame.tables import plain_table
    from tallyveil.printable import in_one_line

    rows = shown.entries.to_dicts()
    if as_json:
        say_json(
            {
                "register": shown.register,
                "allowed": shown.allowed,
                "neighbours": shown.neighbours,
                "unit": shown.unit,
                "spent": exact_cost(shown.spent),
                "left": exact_cost(shown.left),
                "releases": rows,
                **({"total": total} if total else {}),
            },
            indent=2,
        )
        return
    if quiet:
        return
    console = Screen()
    console.print(
        f"Register {in_one_line(shown.register)}: {shown.allowed} for all releases, under {shown.neighbours} "
        "neighbours.",
        soft_wrap=True,
    )
    if rows:
        table = plain_table("entered", texts=("release",), numbers=(shown.unit,))
        for row in rows:
            table.add_row(row["date"], in_one_line(row["release"]), spent_cell(Fraction(row["cost"])))
        console.print(table)
    left = f"{at_least(shown.left)} left" if shown.left >= 0 else f"{at_most(-shown.left)} MORE THAN ALLOWED"
    console.print(f"{shown.unit}: {at_most(shown.spent)} spent, {left}.", soft_wrap=True)
    if total:
        console.print(
            f"Together they have epsilon at most {at_most(total['epsilon']['upper'])} at delta = {total['delta']} for "
            "noise that nobody chose after seeing an earlier one of them.",
            soft_wrap=True,
        )
        for statement in total["invariants"]:
            console.print(f"No budget limits this: {in_one_line(statement)}.", soft_wrap=True)
