"""`tallyveil subspace`: release one table whose invariants stay exact, and describe its noise."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    AsJson,
    Book,
    InsecureTestKey,
    Out,
    PlotFormat,
    Plots,
    Quiet,
    TimingsFile,
    group_of_commands,
)
from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    from tallyveil.api.opened import Opened


subspace = group_of_commands("subspace", "Release one table whose invariants stay exact.")

TableFile = Annotated[Path, typer.Argument(help="The file of the table (TOML).", metavar="TABLE.TOML")]


@subspace.command()
def release(
    table_file: TableFile,
    out: Out,
    *,
    draws: Annotated[
        int,
        typer.Option(
            "--draws",
            min=0,
            help="Number of simulated noise vectors. They are written, for simulations. Needs --insecure-test-key.",
        ),
    ] = 0,
    plots: Plots = PlotFormat.SVG,
    quiet: Quiet = False,
    as_json: AsJson = False,
    insecure_test_key: InsecureTestKey = None,
    book: Book = None,
    timings: TimingsFile = None,
) -> None:
    """Publish a table with noise that keeps its invariants exact.

    The command checks every input, enters the spend into the ledger, and then draws the noise. It writes the noisy
    table, the guarantee, and diagnostics of simulated noise, which do not depend on the table.
    """
    from tallyveil.api.single_table import run_table
    from tallyveil.cli.frame.progress import observer_for

    with observer_for(quiet, as_json, timings, out) as observer:
        finished = run_table(
            table_file,
            out,
            draws=draws,
            plots=plots.value,
            insecure_test_key=insecure_test_key,
            book=book,
            observer=observer,
        )
    manifest = finished.manifest
    if as_json:
        from tallyveil.files.marks import marks_of

        record = {
            "name": manifest.body["name"],
            "run": manifest.run,
            **marks_of(manifest).entry(),
            "privacy": finished.privacy,
            "noise": manifest.body["noise"],
            "checks": list(manifest.checks),
            "already_finished": finished.already_finished,
            "out": str(out),
        }
        say_json(record)
    elif not quiet:
        _show(finished)


@subspace.command()
def diagnose(
    table_file: TableFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder for tables and plots. Without it none are written."
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            "--draws",
            min=2,
            help="Number of simulated noise vectors. The diagnostics are computed from them.",
        ),
    ] = 1000,
    plots: Plots = PlotFormat.SVG,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show the lattice, the sampler and the privacy guarantee of a table, without opening the table.

    The distance of a Markov chain from its target law is measured on pairs of chains. The command fails if this
    distance adds more delta than the file allows.
    """
    from tallyveil.api.single_table import diagnose_table

    table = diagnose_table(table_file, out, draws=draws, plots=plots.value)
    record = table.record
    if as_json:
        say_json(record, indent=2)
    if as_json or quiet:
        return
    _show_noise(record)
    for line in record["tails"]:
        say(
            f"reach       {line['norm']} norm of the noise below {line['radius']:,}, except with probability "
            f"{line['probability']} at most"
            + (
                f" plus the chain's total variation of {line['total_variation']:.2g}"
                if "chain" in record["noise"]
                else ""
            )
        )
    for path in table.files:
        say(f"  {path}")


def _show(finished: "Opened") -> None:
    from tallyveil.cli.frame.summary import opened_summary

    manifest, out = finished.manifest, finished.path
    console = opened_summary(manifest, out, finished.already_finished, "this finished release")
    console.print(headed(f"Table {manifest.body['name']}", f" (run {manifest.run})"))
    _show_noise({"privacy": finished.privacy, "noise": manifest.body["noise"]})
    for check in manifest.checks:
        console.print(f"checked     {check}")
    console.print(f"files       {out}", soft_wrap=True)


def _show_noise(record: dict[str, Any]) -> None:
    from tallyveil.accounting.numbers import at_most
    from tallyveil.subspace.guarantee import confidence_text

    console, noise = Screen(), record["noise"]
    console.print(f"privacy     {record['privacy']['statement']}", soft_wrap=True)
    console.print(
        f"lattice     {noise['structure']}; {noise['cells']:,} cells, dimension {noise['dimension']:,} "
        f"({noise['basis']})",
    )
    for note in noise["notes"]:
        console.print(f"note        {note}", soft_wrap=True)
    console.print(f"sampler     {noise['sampler']}: {noise['reason']}", soft_wrap=True)
    if "chain" in noise:
        chain = noise["chain"]
        console.print(
            f"chain       {chain['sweeps']} sweeps; total variation {at_most(chain['measured'], 3)} measured, "
            f"{at_most(chain['extrapolated'], 3)} extrapolated ({confidence_text(chain['confidence'])} confidence, "
            f"{chain['pairs']:,} pairs at lag {chain['lag']})",
            soft_wrap=True,
        )
        if "seconds_a_draw" in noise:
            console.print(f"time        {noise['seconds_a_draw']:.3g} s a draw")
