"""What `tallyveil safetab` prints of population groups in records of any kind."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tallyveil.accounting.decimals import short_decimal
from tallyveil.cli.frame.terminal import Screen, headed
from tallyveil.cli.show.finished import opened_summary
from tallyveil.cli.show.safetab import (
    guarantee_text,
    not_private_screen,
    plain_table,
    print_summary,
    privacy_table,
    show_details,
)

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.files.manifest import Manifest


def show_group_plan(record: dict[str, Any]) -> None:
    """Print the plan of a file of population groups."""
    console = Screen()
    said = " (no records were opened; one record is added or removed)"
    console.print(headed(f"Plan of {record['plan']['name']}", said))
    console.print(privacy_table(record["privacy"], record["budget_unit"]))
    table = plain_table("level")
    for heading in ("budget", "stability", "groups", "total only"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in record["plan"]["levels"]:
        numbers = (one["stability"], one["groups"], one["total_only_groups"])
        budget = short_decimal(Fraction(one["budget"]))
        table.add_row(one["name"], budget, *(f"{number:,}" for number in numbers))
    console.print(table)
    show_details(console, record["details"], "records", "what was measured")


def show_group_summary(manifest: "Manifest", out: Path, already_finished: bool) -> None:
    """Print the summary of a run."""
    console = opened_summary(manifest, out, already_finished, "this finished run", "a new one")
    table = Table(title=f"Groups of {manifest.body['name']} (run {manifest.run})", show_header=False)
    for one in manifest.privacy.values():
        table.add_row("privacy", guarantee_text(one, manifest.spent.unit))
    for name, sizes in manifest.body["sizes"].items():
        table.add_row(
            name,
            f"{sizes['groups']:,} groups, {sizes['noisy_counts']:,} noisy counts, {sizes['cells_rows']:,} cells",
        )
    print_summary(console, table, manifest, out)


def show_group_errors(errors: "pl.DataFrame") -> None:
    """Print the errors of the totals of groups with adaptive detail, by level and size class."""
    console = not_private_screen()
    table = plain_table()
    table.add_column("level", overflow="fold")
    table.add_column("true size", no_wrap=True)
    for heading in ("groups", "rms: COUNT", "ESTIMATE", "covered", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for row in errors.filter(~errors["TOTAL_ONLY"]).iter_rows(named=True):
        if last not in (None, row["LEVEL"]):
            table.add_section()
        table.add_row(
            row["LEVEL"] if row["LEVEL"] != last else "",
            row["SIZE"],
            f"{row['groups']:,}",
            f"{row['COUNT: root mean square']:,.2f}",
            f"{row['ESTIMATE: root mean square']:,.2f}",
            f"{row['COUNT: within margin']:.0%}",
            f"{row['ESTIMATE: within margin']:.0%}",
        )
        last = row["LEVEL"]
    console.print(table)
    console.print(
        "Root mean squared errors in records, and the share of numbers within their margin.", soft_wrap=True
    )
