"""Tables on the terminal: rows of names and numbers, and privacy parameters beside a claim of accuracy."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.terminal import say_json

if TYPE_CHECKING:
    from rich.table import Table


class GroupedRows:
    """Rows of a table that begin with their group. A group is named once, and a line parts it from the next."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._last: tuple[str, ...] | None = None

    def add(self, group: tuple[str, ...], *cells: str) -> None:
        """Add a row: the cells that name its group, and the others."""
        if self._last not in (None, group):
            self._table.add_section()
        self._table.add_row(*(("",) * len(group) if group == self._last else group), *cells)
        self._last = group


def plain_table(*names: str, texts: Sequence[str] = (), numbers: Sequence[str] = ()) -> "Table":
    """A table without lines between its columns.

    Args:
        names: Headings of columns of names, which stay on one line.
        texts: Headings of columns of text, which may take several lines.
        numbers: Headings of columns of numbers.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in names:
        table.add_column(heading, no_wrap=True)
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def show_marks(console: Screen, lines: Iterable[str]) -> None:
    """Print the marks of a release, as `tallyveil.files.marks` words them, where nobody overlooks them."""
    from tallyveil.files.marks import NOT_PRIVATE

    for line in lines:
        console.print(headed(NOT_PRIVATE, line.removeprefix(NOT_PRIVATE), "bold red"))


def not_private_screen() -> Screen:
    """A screen that begins with the warning of an evaluation."""
    console = Screen()
    console.print(headed("NOT PRIVATE", ": computed from the true counts; do not publish.", "bold red"))
    return console


def show_table(headings: list[str], rows: list[list[Any]], as_json: bool) -> None:
    """Print rows under headings, or as JSON."""
    if as_json:
        say_json([dict(zip(headings, row, strict=True)) for row in rows], indent=2)
        return
    table = plain_table()
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", no_wrap=not place)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console = Screen()
    # A file or a pipe has no width to respect. 140 characters hold the widest of these tables, a comparison of spines.
    console.print(table) if console.is_terminal else Screen(width=140).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def show_parameters(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print epsilon at three deltas, and beta at alpha = 5 % and mu if a row has them.

    Each is rounded in the safe direction.

    Args:
        rows: Of `budget.guarantees`. A row is named by its columns `spine` and `geolevel`, or `level`.
    """
    from tallyveil.accounting.guarantee import BETA, DELTAS, MU, parameter_texts
    from tallyveil.accounting.numbers import at_most

    if not rows:
        return
    names = [name for name in ("spine", "geolevel", "level") if name in rows[0]]
    headings = {BETA: "beta at 5 %", MU: "mu"}
    columns = [column for column in headings if any(row.get(column) is not None for row in rows)]
    show_table(
        [
            *names,
            "spent",
            *(f"epsilon at {delta}" for delta in DELTAS),
            *(headings[column] for column in columns),
            "by",
        ],
        [
            [
                *(row[name] for name in names),
                at_most(Fraction(row["spent"]), 5),
                *parameter_texts(row, columns),
                row["accountant"],
            ]
            for row in rows
        ],
        False,
    )
