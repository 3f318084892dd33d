"""What `tallyveil plan` and `tallyveil run` print of a programme: its plan, and its finished releases."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.summary import release_summary
from tallyveil.cli.frame.tables import plain_table, show_marks
from tallyveil.cli.frame.terminal import say_json

if TYPE_CHECKING:
    from rich.table import Table

    from tallyveil.api.programme import Programme, ProgrammeForecast


def finish_programme(programme: "Programme", out: Path, quiet: bool, as_json: bool) -> None:
    """Print the closing summary of a programme, whose folder is named as the user named it."""
    if as_json:
        say_json(_programme_summary(programme, out))
    elif not quiet:
        _show_programme_summary(programme, out)


def _programme_summary(programme: "Programme", out: Path) -> dict[str, Any]:
    releases = [
        {"release": name, **release_summary(release, out / name)}
        for name, release in programme.releases.items()
    ]
    return {
        "name": programme.name,
        "protected": programme.protected,
        "warnings": list(programme.warnings),
        "already_finished": programme.already_finished,
        "releases": releases,
        "guarantee": programme.guarantee,
        "between": programme.content["between"],
        "out": str(out),
    }


def _show_programme_summary(programme: "Programme", out: Path) -> None:
    from rich.table import Table

    from tallyveil.files.marks import mark_lines

    console = Screen()
    if programme.already_finished:
        console.print(
            f"{out} already holds the finished releases of this programme; nothing was done and nothing spent.",
            soft_wrap=True,
        )
    show_marks(console, mark_lines(programme.warnings))
    table = Table(title=f"Programme {programme.name}", show_header=False)
    for name, release in programme.releases.items():
        table.add_row(name, f"{release.privacy['statement']} ({out / name})")
    for part in _parts(programme.guarantee):
        table.add_row("guarantee", part["statement"])
    for agreement in programme.content["between"]:
        table.add_row("between them", f"{agreement['check']}: {agreement['statement']}")
    table.add_row("report", str(out / "report.html"))
    console.print(table)


def show_programme(forecast: "ProgrammeForecast") -> None:
    """Print the plan of a programme."""
    console = Screen()
    console.print(headed(f"Plan of programme {forecast.plan.name}", " (no records were opened)"))
    console.print(_table(forecast))
    for release in forecast.plan.releases:
        if release.reads:
            console.print(f"reads       {release.name} reads {', '.join(release.reads)}", soft_wrap=True)
    for part in _parts(forecast.guarantee):
        console.print(f"guarantee   {part['statement']}", soft_wrap=True)
        if "not_exact" in part:
            console.print(
                f"            This epsilon is an upper bound, and a smaller one may hold: {part['not_exact']}.",
                soft_wrap=True,
            )
    if forecast.resources is not None:
        _show_needed(forecast.resources)


def _parts(guarantee: dict[str, Any]) -> list[dict[str, Any]]:
    """The totals of a programme, each once: those of each unit of record, then that of all units."""
    parts, together = guarantee["by_unit"], guarantee["together"]
    return [together] if len(parts) < 2 else [*parts, together]


def _table(forecast: "ProgrammeForecast") -> "Table":
    from tallyveil.accounting.numbers import claim_text, delta_text, spent_cell
    from tallyveil.plans.machine import in_gib
    from tallyveil.report.wording import duration

    with_resources = ("memory", "time") if forecast.resources is not None else ()
    table = plain_table(
        texts=("release", "records"), numbers=("spends", "epsilon <=", "at delta", *with_resources)
    )
    for name, release in forecast.releases.items():
        privacy, needed = release.privacy, release.resources
        exact = privacy["exact"]
        table.add_row(
            name,
            release.plan.schema.unit.many,
            f"{privacy['budget_unit']} {spent_cell(Fraction(privacy['spent']))}",
            claim_text(exact["epsilon"]["upper"]),
            delta_text(Fraction(exact["delta"])),
            *(() if needed is None else (in_gib(needed.memory), duration(needed.total_seconds))),
        )
    return table


def _show_needed(needed: dict[str, Any]) -> None:
    from tallyveil.plans.machine import in_gib
    from tallyveil.report.wording import duration

    console = Screen()
    console.print(
        f"memory      {in_gib(needed['memory_bytes'])} at most, since one release runs after the other"
    )
    console.print(f"disk        {in_gib(needed['disk_bytes'])} for all releases")
    console.print(f"time        {duration(needed['seconds'])} for all releases, on two cores")
