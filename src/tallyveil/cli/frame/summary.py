"""The closing summary of a release or of measurements, for every command that makes one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.tables import show_marks
from tallyveil.cli.frame.terminal import say_json

if TYPE_CHECKING:
    from tallyveil.api.measured import Measurements
    from tallyveil.api.released import Release
    from tallyveil.cli.frame.screen import Screen
    from tallyveil.files.manifest import Manifest


def finish_release(release: "Release", out: Path, quiet: bool, as_json: bool) -> None:
    """Print the closing summary of a release, whose folder is named as the user named it."""
    if as_json:
        say_json(release_summary(release, out))
    elif not quiet:
        _show_summary(release, out)


def release_summary(release: "Release", out: Path) -> dict[str, Any]:
    """The closing summary of a release, for programs."""
    from tallyveil.files.marks import marks_of

    manifest = release.manifest
    return {
        "name": manifest.body["name"],
        "run": manifest.run,
        **marks_of(manifest).entry(),
        "already_finished": release.already_finished,
        "privacy": release.privacy,
        **({"estimated_from": manifest.body["estimated_from"]} if "estimated_from" in manifest.body else {}),
        "sizes": manifest.body["sizes"],
        "checks_passed": len(manifest.checks),
        "out": str(out),
    }


def opened_summary(
    manifest: "Manifest", out: Path, already_finished: bool, what: str, another: str | None = None
) -> "Screen":
    """Print the lines that precede every closing summary, and return the screen for the rest of the summary.

    Args:
        manifest: Manifest of the run.
        out: Folder of the run.
        already_finished: Whether the folder held the run before the command.
        what: What the folder holds, in words.
        another: What a new spend in another folder would make, in words; None to leave that sentence out.
    """
    from tallyveil.cli.frame.screen import Screen
    from tallyveil.files.marks import marks_of

    console = Screen()
    if already_finished:
        advice = "" if another is None else f" For {another} (a new spend) choose another folder."
        console.print(
            f"{out} already holds {what}; nothing was done and nothing spent.{advice} What follows is as its files "
            "state it; the guarantee is derived from them again.",
            soft_wrap=True,
        )
    show_marks(console, marks_of(manifest).lines())
    return console


def _show_summary(release: "Release", out: Path) -> None:
    from rich.table import Table

    from tallyveil.schema.schema import unit_of

    manifest, privacy = release.manifest, release.privacy
    console = opened_summary(
        manifest, out, release.already_finished, "this finished release", "a new release"
    )
    table = Table(title=f"Release {manifest.body['name']} (run {manifest.run})", show_header=False)
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
    table.add_row("files", _files(manifest))
    table.add_row("checks passed", str(len(manifest.checks)))
    table.add_row("report", str(out / "report.html"))
    for folder in ("microdata", "tables", "intervals"):
        if (out / folder).is_dir():
            table.add_row(folder, str(out / folder))
    console.print(table)


def finish_measurements(measurements: "Measurements", out: Path, quiet: bool, as_json: bool) -> None:
    """Print the closing summary of measurements, drawn or imported."""
    if as_json:
        say_json(_measurements_summary(measurements, out))
    elif not quiet:
        _show_measurements(measurements, out)


def _measurements_summary(measurements: "Measurements", out: Path) -> dict[str, Any]:
    from tallyveil.files.marks import marks_of

    manifest = measurements.manifest
    return {
        "name": manifest.body["name"],
        "run": manifest.run,
        **marks_of(manifest).entry(),
        "already_finished": measurements.already_finished,
        **({"imported": manifest.body["imported"]} if "imported" in manifest.body else {}),
        "privacy": measurements.privacy,
        "out": str(out),
    }


def _next(measurements: "Measurements", out: Path) -> str:
    """What to do with measurements. Counts of very many cells need the outer passes of their own release."""
    from tallyveil.files.finished import MANIFEST
    from tallyveil.plans.fitting import stated_plan

    manifest = measurements.manifest
    imported = "imported" in manifest.body
    if imported and stated_plan(out / MANIFEST, manifest.body["plan"]).tables_apart:
        return f"tallyveil ask {out} QUESTION"
    return f"tallyveil estimate {out} --out FOLDER"


def _show_measurements(measurements: "Measurements", out: Path) -> None:
    from rich.table import Table

    manifest, privacy = measurements.manifest, measurements.privacy
    imported = manifest.body.get("imported")
    # An import spends nothing, so that another one costs nothing either.
    another = None if imported else "new measurements"
    console = opened_summary(manifest, out, measurements.already_finished, "these measurements", another)
    table = Table(title=f"Measurements of {manifest.body['name']} (run {manifest.run})", show_header=False)
    if imported:
        table.add_row("imported", imported["statement"])
        table.add_row("rho", f"{imported['rho_of_variances']} by the variances of the files")
        if imported.get("left_out"):
            table.add_row("not in the files", ", ".join(imported["left_out"]))
    table.add_row("privacy", privacy["statement"])
    for invariant in privacy["invariants"]:
        table.add_row("published exactly", invariant)
    table.add_row("files", _files(manifest))
    table.add_row("next", _next(measurements, out))
    console.print(table)


def _files(manifest: "Manifest") -> str:
    return f"{len(manifest.files)}, {sum(file.bytes for file in manifest.files) / 1e6:.1f} MB"
