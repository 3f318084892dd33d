"""What is shown of a finished release, whichever command made it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.cli.terminal import say

if TYPE_CHECKING:
    from tallyveil.release.manifest import Manifest
    from tallyveil.run.product import Outcome


def finish_release(outcome: "Outcome", quiet: bool, as_json: bool) -> None:
    """Write the report of a release, unless it is there, and print the closing summary."""
    out = outcome.path
    if not (out / "report.html").exists():
        from tallyveil.report import write_report

        write_report(out)
    if as_json:
        say(json.dumps(_summary(outcome.manifest, out, outcome.already_finished)))
    elif not quiet:
        _show_summary(outcome.manifest, out, outcome.already_finished)


def _summary(manifest: "Manifest", out: Path, already_finished: bool) -> dict[str, Any]:
    return {
        "name": manifest.body["name"],
        "run": manifest.run,
        "protected": manifest.protected,
        "warnings": list(manifest.warnings),
        "already_finished": already_finished,
        "privacy": manifest.privacy,
        **({"estimated_from": manifest.body["estimated_from"]} if "estimated_from" in manifest.body else {}),
        "sizes": manifest.body["sizes"],
        "checks_passed": len(manifest.checks),
        "seconds": round(sum(stage.seconds for stage in manifest.performance), 1),
        "out": str(out),
    }


def _show_summary(manifest: "Manifest", out: Path, already_finished: bool) -> None:
    from rich.table import Table

    from tallyveil.cli.terminal import Screen, headed
    from tallyveil.universe.unit import unit_of

    console = Screen()
    if already_finished:
        console.print(
            f"{out} already holds this finished release; nothing was done and nothing spent. "
            "For a new release (a new spend) choose another folder."
        )
    for warning in manifest.warnings:
        console.print(headed("NOT PRIVATE", f": {warning}", "bold red"))
    table = Table(title=f"Release {manifest.body['name']} (run {manifest.run})", show_header=False)
    privacy = manifest.privacy
    table.add_row("privacy", privacy["statement"])
    if "estimated_from" in manifest.body:
        table.add_row("estimated from", manifest.body["estimated_from"]["statement"])
    for invariant in privacy["invariants"]:
        table.add_row("published exactly", invariant)
    sizes = manifest.body["sizes"]
    geounits = ", ".join(f"{item['geounits']:,} {name}" for name, item in sizes["geolevels"].items())
    words = manifest.body["plan"]["schema"]
    unit = unit_of(words.get("unit"), words.get("units"))
    table.add_row(unit.many, f"{sizes['records']:,} (as published)")
    table.add_row("geounits", geounits)
    table.add_row("files", f"{len(manifest.files)}, {sum(f.bytes for f in manifest.files) / 1e6:.1f} MB")
    table.add_row("checks passed", str(len(manifest.checks)))
    seconds = sum(stage.seconds for stage in manifest.performance)
    memory = max((stage.peak_memory_mib for stage in manifest.performance), default=0)
    table.add_row("time and memory", f"{seconds:.1f} s, {memory:,} MiB at most")
    table.add_row("report", str(out / "report.html"))
    for folder in ("microdata", "tables", "intervals"):
        if (out / folder).is_dir():
            table.add_row(folder, str(out / folder))
    console.print(table)
