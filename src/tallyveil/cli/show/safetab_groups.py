"""What `tallyveil safetab` prints of population groups in records of any kind."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tallyveil.accounting.decimals import short_decimal
from tallyveil.cli.show.finished import opened_summary
from tallyveil.cli.show.safetab import details_table, guarantee_text, plain_table, privacy_table
from tallyveil.cli.terminal import Screen, headed

if TYPE_CHECKING:
    from tallyveil.release.manifest import Manifest


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
    console.print(details_table(record["details"]))
    console.print(
        "Margins in records: with probability 95 % or more the noise lies within. COUNT is measured, ESTIMATE the "
        "better one beside it.",
        soft_wrap=True,
    )


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
    table.add_row("checks passed", str(len(manifest.checks)))
    table.add_row("time and memory", f"{manifest.seconds:.1f} s, {manifest.peak_memory_mib:,} MiB at most")
    table.add_row("files", str(out))
    console.print(table)
