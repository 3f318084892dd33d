"""Print rows of names and numbers as a table on the terminal or as JSON."""

import json
from typing import Any

from tallyveil.cli.frame.terminal import say


def show_table(headings: list[str], rows: list[list[Any]], as_json: bool) -> None:
    """Print rows under headings, or as JSON."""
    if as_json:
        say(json.dumps([dict(zip(headings, row, strict=True)) for row in rows], indent=2))
        return
    from rich import box
    from rich.table import Table

    from tallyveil.cli.frame.terminal import Screen

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", no_wrap=not place)
    for row in rows:
        table.add_row(*(_text(value) for value in row))
    console = Screen()
    # A file or a pipe has no width to respect.
    console.print(table) if console.is_terminal else Screen(width=140).print(table)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
