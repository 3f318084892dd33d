"""`tallyveil plan --families`: show exact standard deviations of entities before any records are opened."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil.postprocess.intervals.expected_deviations import AreaDeviations

ENTITIES_SHOWN = 12


def show_deviations(found: "Sequence[AreaDeviations]", units: str) -> None:
    """Print a summary of each area and query, then entities of each family from the smallest to the largest.

    Args:
        found: The standard deviations.
        units: Plural of what a record is, such as "people".
    """
    from rich import box
    from rich.table import Table

    from tallyveil.cli.frame.terminal import Screen

    console = Screen()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("st.dev. of estimates", no_wrap=True)
    table.add_column("query", overflow="fold")
    for heading in ("number", "smallest", "median", "largest"):
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for item in found:
        if last not in (None, item.area):
            table.add_section()
        one = item.summary()
        values = [_deviation(one[name]) for name in ("smallest", "median", "largest")]
        table.add_row(item.area if item.area != last else "", item.query, f"{one['n']:,}", *values)
        last = item.area
    console.print(table)
    for family in dict.fromkeys(item.area for item in found if item.is_entity):
        _show_family(console, [item for item in found if item.is_entity and item.area == family])
    console.print(
        f"Standard deviations, in {units}, of the unbiased estimates that all noisy answers together allow: exact, "
        "of the privacy noise alone, the same whatever the data. Of a query's several answers the largest is shown.",
        soft_wrap=True,
    )


def _show_family(console: Any, items: "Sequence[AreaDeviations]") -> None:
    """Print some entities of a family, at evenly spaced ranks of size."""
    from rich import box
    from rich.table import Table

    first = items[0]
    order = sorted(range(len(first.codes)), key=lambda row: (int(first.n_finest[row]), first.codes[row]))
    n = min(ENTITIES_SHOWN, len(order))
    shown = [order[round(place * (len(order) - 1) / max(n - 1, 1))] for place in range(n)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(first.area, overflow="fold")
    table.add_column("finest geounits", justify="right", no_wrap=True)
    for item in items:
        table.add_column(item.query, justify="right", overflow="fold")
    for row in shown:
        largest = [float(item.largest[row]) for item in items]
        table.add_row(first.codes[row], f"{int(first.n_finest[row]):,}", *map(_deviation, largest))
    console.print(table)
    if len(order) > n:
        console.print(f"{n} of {len(order):,} entities of {first.area}; all of them with --json.")


def _deviation(value: float | None) -> str:
    if value is None or value == float("inf"):
        return "not determined"
    return "exact" if value < 1e-6 else f"{value:,.2f}"
