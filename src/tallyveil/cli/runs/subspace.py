"""`tallyveil subspace`: release one table whose invariants stay exact, and describe its noise."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import AsJson, InsecureTestKey, PlotFormat, Plots, Quiet
from tallyveil.cli.frame.terminal import say
from tallyveil.cli.frame.whole_help import WholeHelp

if TYPE_CHECKING:
    from tallyveil.files.manifest import Manifest
    from tallyveil.products.lattice.public.plan import SubspacePlan
    from tallyveil.subspace.noise_plan import NoisePlan

subspace = typer.Typer(
    name="subspace",
    cls=WholeHelp,
    help="Release one table whose invariants stay exact.",
    no_args_is_help=True,
)

TableFile = Annotated[Path, typer.Argument(help="The file of the table (TOML).", metavar="TABLE.TOML")]


@subspace.command()
def release(
    table_file: TableFile,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the release: new, empty, or with an unfinished run."
        ),
    ],
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
) -> None:
    """Publish a table with noise that keeps its invariants exact.

    The command checks every input, enters the spend into the ledger, and then draws the noise. It writes the noisy
    table, the guarantee, and diagnostics of simulated noise, which do not depend on the table.
    """
    from tallyveil.api.products import require_input
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.files.kinds import ReleaseKind
    from tallyveil.noise.key import insecure_key
    from tallyveil.products.lattice.public.from_toml import load_subspace_plan
    from tallyveil.products.lattice.run.run import noise_of, run_subspace
    from tallyveil.report import write_table_report
    from tallyveil.storage.claims import Claim
    from tallyveil.storage.paths import inside
    from tallyveil.storage.write import TEMPORARY_SUFFIX
    from tallyveil.subspace.outputs import Outputs

    require_input(table_file, ReleaseKind.SUBSPACE)
    plan = load_subspace_plan(table_file)
    key = insecure_key(insecure_test_key) if insecure_test_key is not None else None
    with observer_for(quiet, as_json) as observer:
        outcome = run_subspace(plan, out, draws=draws, test_key=key, observer=observer)
    if plan.outputs is not Outputs.RESTRICTED:
        with Claim(out, "subspace release"):
            # Also if a run was killed between the release and the diagnostics.
            if not inside(out, "diagnostics").exists():
                unfinished = inside(out, "diagnostics" + TEMPORARY_SUFFIX)
                shutil.rmtree(unfinished, ignore_errors=True)
                _write_diagnostics(unfinished, plan, outcome.noise or noise_of(plan), 1000, plots)
                unfinished.rename(inside(out, "diagnostics"))
    write_table_report(out)
    if as_json:
        from tallyveil.files.marks import marks_of

        manifest = outcome.manifest
        record = {
            "name": manifest.body["name"],
            "run": manifest.run,
            **marks_of(manifest).entry(),
            "privacy": manifest.privacy,
            "noise": manifest.body["noise"],
            "checks": list(manifest.checks),
        }
        say(json.dumps(record | {"already_finished": outcome.already_finished, "out": str(out)}))
    elif not quiet:
        _show(outcome.manifest, out, outcome.already_finished)


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
    from tallyveil.api.products import require_input
    from tallyveil.errors import ConfigError
    from tallyveil.files.kinds import ReleaseKind
    from tallyveil.products.lattice.public.from_toml import load_subspace_plan
    from tallyveil.products.lattice.public.plan import refuse_many_draws
    from tallyveil.products.lattice.run.run import noise_of
    from tallyveil.products.topdown.run.lattice_counts import noise_record
    from tallyveil.storage.outputs import own_folder
    from tallyveil.subspace.noise_plan import guarantee_record
    from tallyveil.subspace.outputs import Outputs

    require_input(table_file, ReleaseKind.SUBSPACE)
    plan = load_subspace_plan(table_file)
    if out is not None and plan.outputs is Outputs.RESTRICTED:
        raise ConfigError(
            'there are no diagnostics of noise to write: with outputs = "restricted" there is no noise apart from the '
            "table. Leave --out out.",
            code="subspace-draws",
        )
    if out is not None:
        refuse_many_draws(plan, draws)
    written: tuple[Path, ...] = ()
    with nullcontext() if out is None else own_folder(out, "subspace diagnose"):
        noise = noise_of(plan)
        if out is not None:  # written before a chain may be refused, because the plots show why
            written = _write_diagnostics(out, plan, noise, draws, plots)
    guarantee = guarantee_record(noise, plan.distance, plan.delta, plan.neighbours)
    record: dict[str, Any] = {
        "name": plan.name,
        "privacy": guarantee,
        "noise": noise_record(noise),
        "tails": _tails(noise),
    }
    if noise.chain is not None:
        record["noise"]["seconds_a_draw"] = noise.seconds_of_chain()
    if as_json:
        say(json.dumps(record, indent=2))
    if as_json or quiet:
        return
    _show_noise(record)
    for line in record["tails"]:
        say(
            f"reach       {line['norm']} norm of the noise below {line['radius']:,}, except with probability "
            f"{line['probability']} at most"
            + (f" plus the chain's total variation of {line['total_variation']:.2g}" if noise.chain else "")
        )
    for path in written:
        say(f"  {path}")


def _tails(noise: "NoisePlan") -> list[dict[str, Any]]:
    """How far the noise reaches, certified, and the paper's formula there. A restricted law has no noise of its own."""
    from fractions import Fraction

    from tallyveil.subspace.mechanisms import GeneralisedGaussian
    from tallyveil.subspace.tails import paper_tail, tail_radius

    if noise.restricted:
        return []
    lattice, law = noise.lattice, noise.law
    norm = "l2" if isinstance(law, GeneralisedGaussian) else law.norm.value
    lines = []
    for probability in (Fraction(1, 100), Fraction(1, 10**6)):
        radius = tail_radius(law, lattice.dimension, probability)
        lines.append(
            {
                "norm": norm,
                "probability": str(probability),
                "radius": radius,
                "total_variation": float(noise.total_variation),
                "paper_formula": paper_tail(law, lattice, Fraction(radius)),
            }
        )
    return lines


def _write_diagnostics(
    out: Path, plan: "SubspacePlan", noise: "NoisePlan", draws: int, plots: PlotFormat
) -> tuple[Path, ...]:
    from tallyveil.products.lattice.page.diagnostics import write_diagnostics
    from tallyveil.subspace.table import cell_labels

    labels = [", ".join(label.values()) for label in cell_labels(plan.schema)]
    return write_diagnostics(out, noise, labels, draws, plots.value)


def _show(manifest: "Manifest", out: Path, already_finished: bool) -> None:
    from tallyveil.cli.frame.terminal import headed
    from tallyveil.cli.show.finished import opened_summary

    console = opened_summary(manifest, out, already_finished, "this finished release")
    console.print(headed(f"Table {manifest.body['name']}", f" (run {manifest.run})"))
    _show_noise({"privacy": manifest.privacy, "noise": manifest.body["noise"]})
    for check in manifest.checks:
        console.print(f"checked     {check}")
    console.print(f"files       {out}", soft_wrap=True)


def _show_noise(record: dict[str, Any]) -> None:
    from tallyveil.accounting.decimals import at_most
    from tallyveil.cli.frame.terminal import Screen
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
