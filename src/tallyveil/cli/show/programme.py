"""What the commands print of a programme: its plan, and its finished releases."""

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say
from tallyveil.cli.show.finished import release_summary

if TYPE_CHECKING:
    from tallyveil.api.programme import Programme
    from tallyveil.plans.resources import Resources
    from tallyveil.products.dhc.public.plan import ProgrammePlan


def finish_programme(made: "Programme", out: Path, quiet: bool, as_json: bool) -> None:
    """Print the closing summary of a programme, whose folder is named as the user named it."""
    if as_json:
        say(json.dumps(_summary(made, out)))
    elif not quiet:
        _show_summary(made, out)


def _summary(made: "Programme", out: Path) -> dict[str, Any]:
    releases = [
        {"release": name, **release_summary(one.manifest, out / name, one.already_finished)}
        for name, one in made.releases.items()
    ]
    return {
        "name": made.name,
        "protected": made.protected,
        "warnings": list(made.warnings),
        "already_finished": made.already_finished,
        "releases": releases,
        "guarantee": made.guarantee,
        "between": made.content["between"],
        "out": str(out),
    }


def _show_summary(made: "Programme", out: Path) -> None:
    from rich.table import Table

    from tallyveil.cli.frame.terminal import Screen, headed
    from tallyveil.files.marks import NOT_PRIVATE, mark_lines

    console = Screen()
    if made.already_finished:
        console.print(
            f"{out} already holds the finished releases of this programme; nothing was done and nothing spent.",
            soft_wrap=True,
        )
    for line in mark_lines(made.warnings):
        console.print(headed(NOT_PRIVATE, line.removeprefix(NOT_PRIVATE), "bold red"))
    table = Table(title=f"Programme {made.name}", show_header=False)
    for name, release in made.releases.items():
        table.add_row(name, f"{release.manifest.privacy['statement']} ({out / name})")
    for part in _parts(made.guarantee):
        table.add_row("guarantee", part["statement"])
    for one in made.content["between"]:
        table.add_row("between them", f"{one['check']}: {one['statement']}")
    table.add_row("report", str(out / "report.html"))
    console.print(table)


def programme_record(
    plan: "ProgrammePlan",
    guarantee: dict[str, Any],
    needed: "Sequence[Resources]",
    plans: list[dict[str, Any]],
) -> dict[str, Any]:
    """A programme as plain data, as `tallyveil plan --json` prints it.

    Args:
        plan: The programme.
        guarantee: What all releases guarantee together.
        needed: Predicted resources of each release; none where they were not asked for.
        plans: The record of each plan.
    """
    releases = [
        {"release": one.name, "file": str(one.file), "reads": list(one.reads), **record}
        for one, record in zip(plan.releases, plans, strict=True)
    ]
    return {
        "name": plan.name,
        "releases": releases,
        "guarantee": guarantee,
        **({"resources": _added(needed)} if needed else {}),
    }


def _added(needed: "Sequence[Resources]") -> dict[str, Any]:
    """Resources of releases that run one after the other: times and sizes add up, and memory is that of the largest."""
    return {
        "memory_bytes": max(one.memory for one in needed),
        "disk_bytes": sum(one.disk for one in needed),
        "seconds": round(sum(one.total_seconds for one in needed), 1),
    }


def show_programme(
    plan: "ProgrammePlan",
    guarantee: dict[str, Any],
    needed: "Sequence[Resources]",
    privacies: Sequence[dict[str, Any]],
) -> None:
    """Print the plan of a programme; the arguments are as for `programme_record`, with each release's guarantee."""
    from tallyveil.cli.frame.terminal import Screen, headed

    console = Screen()
    console.print(headed(f"Plan of programme {plan.name}", " (no records were opened)"))
    console.print(_table(plan, needed, privacies))
    for one in plan.releases:
        if one.reads:
            console.print(f"reads       {one.name} reads {', '.join(one.reads)}", soft_wrap=True)
    for part in _parts(guarantee):
        console.print(f"guarantee   {part['statement']}", soft_wrap=True)
        if "not_exact" in part:
            console.print(
                f"            This epsilon is an upper bound, and a smaller one may hold: {part['not_exact']}.",
                soft_wrap=True,
            )
    if needed:
        _show_needed(_added(needed))


def _parts(guarantee: dict[str, Any]) -> list[dict[str, Any]]:
    """The totals of a programme, each once: those of each unit of record, then that of all units."""
    parts, together = guarantee["by_unit"], guarantee["together"]
    return [together] if len(parts) < 2 else [*parts, together]


def _table(plan: "ProgrammePlan", needed: "Sequence[Resources]", privacies: Sequence[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    from tallyveil.accounting.decimals import at_most, claim_text, delta_text
    from tallyveil.plans.machine import in_gib
    from tallyveil.report.wording import duration

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("release", overflow="fold")
    table.add_column("records", overflow="fold")
    for heading in ("spends", "epsilon <=", "at delta", *(("memory", "time") if needed else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, (one, privacy) in enumerate(zip(plan.releases, privacies, strict=True)):
        exact = privacy["exact"]
        table.add_row(
            one.name,
            one.plan.schema.unit.many,
            f"{privacy['budget_unit']} {at_most(Fraction(privacy['spent']), places=5)}",
            claim_text(exact["epsilon"]["upper"]),
            delta_text(Fraction(exact["delta"])),
            *((in_gib(needed[number].memory), duration(needed[number].total_seconds)) if needed else ()),
        )
    return table


def _show_needed(added: dict[str, Any]) -> None:
    from tallyveil.cli.frame.terminal import Screen
    from tallyveil.plans.machine import in_gib
    from tallyveil.report.wording import duration

    console = Screen()
    console.print(
        f"memory      {in_gib(added['memory_bytes'])} at most, since one release runs after the other"
    )
    console.print(f"disk        {in_gib(added['disk_bytes'])} for all releases")
    console.print(f"time        {duration(added['seconds'])} for all releases, on two cores")
