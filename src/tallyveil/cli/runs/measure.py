"""`tallyveil measure`: draw the noisy measurements of a release, and stop there."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    AsJson,
    Executor,
    InsecureTestKey,
    Quiet,
    ReleaseFilePath,
    Workers,
    cluster_of,
)
from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.api.opened import Measurements


def measure(
    release_file: ReleaseFilePath,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the measurements; new, empty, or an unfinished run."
        ),
    ],
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    executor: Executor = None,
    insecure_test_key: InsecureTestKey = None,
) -> None:
    """Draw and publish the noisy measurements of a release, and stop there.

    The command spends what `tallyveil run` would spend. OUT then holds everything that `tallyveil estimate` needs to
    make the release on any machine, without the records and at no further cost.
    """
    from tallyveil.api.making import measure as make
    from tallyveil.cli.frame.progress import observer_for

    cluster = cluster_of(executor)
    with observer_for(quiet, as_json) as observer:
        made = make(
            release_file,
            out,
            insecure_test_key=insecure_test_key,
            observer=observer,
            workers=workers,
            cluster=cluster,
        )
    if as_json:
        say(json.dumps(_summary(made, out)))
    elif not quiet:
        _show_summary(made, out)


def _summary(made: "Measurements", out: Path) -> dict[str, Any]:
    from tallyveil.files.marks import marks_of

    manifest = made.manifest
    return {
        "name": manifest.body["name"],
        "run": manifest.run,
        **marks_of(manifest).entry(),
        "already_finished": made.already_finished,
        "privacy": manifest.privacy,
        "out": str(out),
    }


def _show_summary(made: "Measurements", out: Path) -> None:
    from rich.table import Table

    from tallyveil.cli.show.finished import opened_summary

    manifest, again = made.manifest, made.already_finished
    console = opened_summary(manifest, out, again, "these measurements", "new measurements")
    table = Table(title=f"Measurements of {manifest.body['name']} (run {manifest.run})", show_header=False)
    table.add_row("privacy", manifest.privacy["statement"])
    for invariant in manifest.privacy["invariants"]:
        table.add_row("published exactly", invariant)
    size = sum(file.bytes for file in manifest.files) / 1e6
    table.add_row("files", f"{len(manifest.files)}, {size:.1f} MB")
    table.add_row("next", f"tallyveil estimate {out} --out FOLDER")
    console.print(table)
