"""Tables with exact invariants from Python: release one table with noise on its lattice, and describe that noise."""

import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tallyveil.api.arguments import AnyPath, Progress, WholeNumber, book_of, checked, key_of
from tallyveil.api.opened import Opened
from tallyveil.api.products import require_input
from tallyveil.errors import ConfigError
from tallyveil.files.manifest import ReleaseKind

if TYPE_CHECKING:
    from tallyveil.products.lattice.public.plan import SubspacePlan
    from tallyveil.subspace.noise_plan import NoisePlan

PlotFormat = Literal["svg", "png"]

_DRAWS: Final = 1000
"""Simulated noise vectors behind the diagnostics of a release: a share of them is known to within 3 points with
probability 95 %. A quarter of them would double that margin; time grows with their number."""
_RARE: Final = (Fraction(1, 100), Fraction(1, 10**6))
"""Probabilities beyond which the reach of the noise is stated: what is seen now and then, and what hardly ever."""


@dataclass(frozen=True, slots=True)
class TableNoise:
    """The noise of a table, described without opening the table.

    Attributes:
        record: The lattice, the sampler, the guarantee and the reach of the noise, as plain data.
        files: Tables and plots that were written.
    """

    record: dict[str, Any]
    files: tuple[Path, ...]


@checked
def run_table(
    table_file: AnyPath,
    out: AnyPath,
    *,
    draws: WholeNumber = 0,
    plots: PlotFormat = "svg",
    insecure_test_key: str | None = None,
    book: AnyPath | None = None,
    observer: Progress | None = None,
) -> Opened:
    """Publish a table with noise that keeps its invariants exact, or resume an interrupted run.

    Args:
        table_file: The file of the table (TOML).
        out: Folder of the release. It does not exist, is empty, or holds an unfinished run of the same table.
        draws: Number of simulated noise vectors that are written, for simulations. They need a test key.
        plots: Format of the plots of the diagnostics.
        insecure_test_key: Any text, for tests. The noise then follows from it, and the release protects nobody.
        book: The book of the register, as for `run`.
        observer: Is told of progress.
    Returns:
        The finished release, with its diagnostics and its page.
    Raises:
        TallyveilError: an input is wrong, or the folder cannot be used. Nothing is spent then.
    Privacy: spends the budget of the file once, however often the run is interrupted and resumed.
    """
    from tallyveil.products.lattice.page.table import write_table_report
    from tallyveil.products.lattice.public.from_toml import load_subspace_plan
    from tallyveil.products.lattice.public.plan import noise_of
    from tallyveil.products.lattice.run.run import run_subspace
    from tallyveil.storage.paths import inside
    from tallyveil.storage.write import TEMPORARY_SUFFIX, Claim
    from tallyveil.subspace.nonnegative import Outputs

    folder = Path(out)
    require_input(Path(table_file), ReleaseKind.SUBSPACE)
    plan = load_subspace_plan(Path(table_file))
    outcome = run_subspace(
        plan,
        folder,
        draws=draws,
        test_key=key_of(insecure_test_key),
        observer=observer,
        book=book_of(book),
    )
    if plan.outputs is not Outputs.RESTRICTED:
        with Claim(folder, "subspace release"):
            # Also if a run was killed between the release and the diagnostics.
            if not inside(folder, "diagnostics").exists():
                unfinished = inside(folder, "diagnostics" + TEMPORARY_SUFFIX)
                shutil.rmtree(unfinished, ignore_errors=True)
                _write_diagnostics(unfinished, plan, outcome.noise or noise_of(plan), _DRAWS, plots)
                unfinished.rename(inside(folder, "diagnostics"))
    write_table_report(folder)
    return Opened(folder, outcome.manifest, already_finished=outcome.already_finished)


@checked
def diagnose_table(
    table_file: AnyPath, out: AnyPath | None = None, *, draws: WholeNumber = _DRAWS, plots: PlotFormat = "svg"
) -> TableNoise:
    """The lattice, the sampler and the privacy guarantee of a table, without opening the table.

    Args:
        table_file: The file of the table (TOML).
        out: Folder for tables and plots; None to write none.
        draws: Number of simulated noise vectors that these are computed from.
        plots: Format of plots.
    Raises:
        ConfigError: the file is wrong, or asks for no noise apart from the table while `out` is given.
        SolverError: the distance of a Markov chain from its law, which is measured on pairs of chains, adds more delta
            than the file allows.
    """
    from tallyveil.products.lattice.public.from_toml import load_subspace_plan
    from tallyveil.products.lattice.public.plan import noise_of, refuse_many_draws
    from tallyveil.storage.outputs import own_folder
    from tallyveil.subspace.noise_plan import guarantee_record, noise_record
    from tallyveil.subspace.nonnegative import Outputs

    require_input(Path(table_file), ReleaseKind.SUBSPACE)
    plan, folder = load_subspace_plan(Path(table_file)), None if out is None else Path(out)
    if folder is not None and plan.outputs is Outputs.RESTRICTED:
        raise ConfigError(
            'there are no diagnostics of noise to write: with outputs = "restricted" there is no noise apart from the '
            "table. Leave --out out.",
            code="subspace-draws",
        )
    if folder is not None:
        refuse_many_draws(plan, draws)
    files: tuple[Path, ...] = ()
    with nullcontext() if folder is None else own_folder(folder, "subspace diagnose"):
        noise = noise_of(plan)
        if folder is not None:  # written before a chain may be refused, because the plots show why
            files = _write_diagnostics(folder, plan, noise, draws, plots)
    guarantee = guarantee_record(noise, plan.distance, plan.delta, plan.neighbours)
    record: dict[str, Any] = {
        "name": plan.name,
        "privacy": guarantee,
        "noise": noise_record(noise),
        "tails": _tails(noise),
    }
    if noise.chain is not None:
        record["noise"]["seconds_a_draw"] = noise.seconds_of_chain()
    return TableNoise(record, files)


def _tails(noise: "NoisePlan") -> list[dict[str, Any]]:
    """How far the noise reaches, certified, and the paper's formula there. A restricted law has no noise of its own."""
    from tallyveil.subspace.guarantee import paper_tail, tail_radius
    from tallyveil.subspace.mechanisms import GeneralisedGaussian

    if noise.restricted:
        return []
    lattice, law = noise.lattice, noise.law
    norm = "l2" if isinstance(law, GeneralisedGaussian) else law.norm.value
    radii = {probability: tail_radius(law, lattice.dimension, probability) for probability in _RARE}
    return [
        {
            "norm": norm,
            "probability": str(probability),
            "radius": radius,
            "total_variation": float(noise.total_variation),
            "paper_formula": paper_tail(law, lattice, Fraction(radius)),
        }
        for probability, radius in radii.items()
    ]


def _write_diagnostics(
    out: Path, plan: "SubspacePlan", noise: "NoisePlan", draws: int, plots: PlotFormat
) -> tuple[Path, ...]:
    from tallyveil.products.lattice.page.diagnostics import write_diagnostics
    from tallyveil.subspace.table import cell_labels

    labels = [", ".join(label.values()) for label in cell_labels(plan.schema)]
    return write_diagnostics(out, noise, labels, draws, plots)
