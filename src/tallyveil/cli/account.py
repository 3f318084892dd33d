"""`tallyveil account`: the exact privacy guarantee of noise, and the least noise for a stated guarantee."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.account_inputs import calibrated, conversion_of, exact_of, guarantee_of
from tallyveil.cli.frame.arguments import DELTA, EPSILON, NEIGHBOURS, RHO, AsJson, ReleaseFilePath
from tallyveil.cli.frame.whole_help import WholeHelp
from tallyveil.cli.show.account import about, exact_epsilon, print_answer, published

if TYPE_CHECKING:
    from tallyveil.accounting import Guarantee
    from tallyveil.accounting.ledger.joint import JointLedgers

LARGEST_EPSILON = 10**6
"""Largest epsilon at the end of a curve. A guarantee with a larger epsilon is meaningless."""

account = typer.Typer(
    name="account",
    cls=WholeHelp,
    no_args_is_help=True,
    help="Compute the exact privacy guarantee of noise, and the least noise for a stated guarantee.",
)

Gaussian = Annotated[
    list[str] | None,
    typer.Option(
        "--gaussian",
        metavar="VARIANCE[:COUNT[:SENSITIVITY]]",
        help="COUNT queries with discrete Gaussian noise of this variance. May be repeated.",
    ),
]
Laplace = Annotated[
    list[str] | None,
    typer.Option(
        "--laplace",
        metavar="SCALE[:COUNT[:SENSITIVITY]]",
        help="COUNT queries with discrete Laplace noise of this scale. May be repeated.",
    ),
]
Plan = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="RELEASE.TOML", help="Account for the measurements of this release file instead."
    ),
]
Product = Annotated[
    str | None,
    typer.Option(
        "--product",
        metavar="NAME",
        help="Account for a released product of the 2020 Census instead; `tallyveil account products` names them.",
    ),
]
Relation = Annotated[
    str,
    typer.Option(
        "--neighbours",
        help=f"{NEIGHBOURS} A change of value moves two answers of every query. A release file and a product state "
        "their own.",
    ),
]
Proved = Annotated[
    bool, typer.Option("--proved", help="Compute in ball arithmetic, which is slow and proves every digit.")
]
Width = Annotated[
    str | None,
    typer.Option(
        "--width",
        metavar="NUMBER",
        help="How far apart the two bounds of epsilon may be where the losses share no lattice, such as 1e-11; 1e-9 if "
        "not given. A smaller width takes longer.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the curve to this file (.svg, .png or .pdf)."),
]
Delta = Annotated[str, typer.Option("--delta", help=DELTA)]
Epsilon = Annotated[str, typer.Option("--epsilon", help=EPSILON)]
Points = Annotated[int, typer.Option("--points", min=2, max=10_000, help="Number of points of the curve.")]


@account.command()
def epsilon(
    *,
    delta: Delta,
    gaussian: Gaussian = None,
    laplace: Laplace = None,
    plan: Plan = None,
    product: Product = None,
    neighbours: Relation = "unbounded",
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute bounds on epsilon at a delta from both sides, and the epsilon of the classical accountants."""
    guarantee = guarantee_of(gaussian, laplace, plan, product, neighbours, proved, width)
    print_answer({**exact_epsilon(guarantee, delta, exact_of(delta)), **about(guarantee)}, as_json)
    _plot_profile(guarantee, plot)


@account.command()
def delta(
    *,
    epsilon: Epsilon,
    gaussian: Gaussian = None,
    laplace: Laplace = None,
    plan: Plan = None,
    product: Product = None,
    neighbours: Relation = "unbounded",
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute bounds on delta at an epsilon from both sides, and on the logarithm of delta."""
    guarantee = guarantee_of(gaussian, laplace, plan, product, neighbours, proved, width)
    answer = {
        "delta": guarantee.delta(exact_of(epsilon, "--epsilon")).to_mapping(),
        "log_delta": guarantee.log_delta(exact_of(epsilon, "--epsilon")).to_mapping(),
        "epsilon": epsilon,
    }
    print_answer({**answer, **about(guarantee)}, as_json)
    _plot_profile(guarantee, plot)


@account.command()
def profile(
    *,
    gaussian: Gaussian = None,
    laplace: Laplace = None,
    plan: Plan = None,
    product: Product = None,
    neighbours: Relation = "unbounded",
    points: Points = 21,
    largest: Annotated[str | None, typer.Option("--largest", help="Largest epsilon of the curve.")] = None,
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute the privacy profile, which is delta as a function of epsilon."""
    guarantee = guarantee_of(gaussian, laplace, plan, product, neighbours, proved, width)
    end = _largest(largest) if largest is not None else Fraction(guarantee.epsilon(Fraction(1, 10**12)).upper)
    grid = _grid(end, points)
    curve = [
        {"epsilon": x, "delta": bounds.to_mapping()}
        for x, bounds in zip(grid, guarantee.profile_curve(grid), strict=True)
    ]
    print_answer({"profile": curve, **about(guarantee)}, as_json)
    _plot_profile(guarantee, plot, grid)


@account.command()
def tradeoff(
    *,
    gaussian: Gaussian = None,
    laplace: Laplace = None,
    plan: Plan = None,
    product: Product = None,
    neighbours: Relation = "unbounded",
    points: Points = 21,
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute the trade-off function: the least type II error beta of any test with type I error alpha."""
    guarantee = guarantee_of(gaussian, laplace, plan, product, neighbours, proved, width)
    alphas = _grid(Fraction(1), points)
    betas = [guarantee.beta(alpha) for alpha in alphas]
    answer = {
        "tradeoff": [{"alpha": a, "beta": b.to_mapping()} for a, b in zip(alphas, betas, strict=True)],
        "advantage": guarantee.advantage().to_mapping(),
        "mu": guarantee.mu().to_mapping(),
    }
    print_answer({**answer, **about(guarantee)}, as_json)
    if plot is not None:
        from tallyveil.report.accounting_plots import draw_tradeoff

        draw_tradeoff(plot, [float(alpha) for alpha in alphas], betas)


@account.command()
def calibrate(
    *,
    delta: Delta,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help=f"{EPSILON} The target.")] = None,
    curve: Annotated[
        str | None,
        typer.Option(
            "--curve",
            metavar="textbook|best",
            help="Use this instead of --epsilon. Epsilon is then at most what this conversion of zCDP gives, at every "
            "delta of --delta or more.",
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(
            "--rho", help=f"{RHO} The rho of that curve; without it, the rho of the noise that was given."
        ),
    ] = None,
    gaussian: Gaussian = None,
    laplace: Laplace = None,
    plan: Plan = None,
    product: Product = None,
    neighbours: Relation = "unbounded",
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Find the least noise, in the given proportions, that keeps epsilon within a target at one delta or at many.

    With --epsilon the target holds at --delta. With --curve epsilon is at most the curve's at every delta of --delta
    or more; this computes about a hundred points for each amount of noise that is tried.
    """
    before = guarantee_of(gaussian, laplace, plan, product, neighbours, proved=False)
    found, target = calibrated(before, epsilon, exact_of(delta), curve, rho)
    answer = {
        **_factor(found.factor),
        "epsilon": dict(zip(("lower", "upper"), found.epsilon, strict=True)),
        "delta": delta,
        **target,
        "event": found.event.to_mapping(),
        **about(found.guarantee),
    }
    print_answer(answer, as_json)
    _plot_profile(found.guarantee, plot)


@account.command()
def savings(
    plan: ReleaseFilePath,
    delta: Delta = "1e-10",
    conversion: Annotated[
        str,
        typer.Option(
            "--conversion",
            metavar="textbook|best",
            help="How zCDP gives epsilon: rho + 2 sqrt(rho ln(1 / delta)), or by the best known proof.",
        ),
    ] = "best",
    as_json: AsJson = False,
) -> None:
    """Find the least noise for each geolevel of a release file that keeps the epsilon which zCDP gives for it."""
    from tallyveil.budget.target import geolevel_savings
    from tallyveil.plans.from_toml.load import load_plan

    by = conversion_of(conversion, "--conversion")
    strategy = load_plan(plan).strategy
    found = [
        {
            "geolevel": geolevel,
            **_factor(item.factor),
            "epsilon": dict(zip(("lower", "upper"), item.epsilon, strict=True)),
        }
        for geolevel, item in geolevel_savings(strategy, exact_of(delta), by)
    ]
    answer = {"delta": delta, "conversion": by.value, "geolevels": found}
    print_answer(answer | {"neighbours": strategy.neighbours.value}, as_json)


@account.command()
def products(as_json: AsJson = False) -> None:
    """List the released products of the 2020 Census that `--product` can name, and their cost by zCDP.

    The exact epsilon of one is `tallyveil account epsilon --delta 1e-10 --product NAME`.
    """
    from tallyveil.cli.show.account import show_products

    show_products(as_json)


@account.command()
def total(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of releases about the same people, or a folder that contains such folders.",
            metavar="RUN...",
        ),
    ],
    delta: Delta = "1e-10",
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute the joint privacy guarantee of several releases about the same people, from their ledgers.

    Measurements and the releases that are estimated from them count once. A ledger may record that true counts were
    looked at; the guarantee does not cover this, and the answer names it. If a release has Gaussian noise on a lattice,
    the total is an upper bound and is marked as such.
    """
    from tallyveil.accounting.ledger.joint import read_joint, require_protection, runs_in
    from tallyveil.files.estimated import copied_lines
    from tallyveil.files.finished import refuse_unfinished
    from tallyveil.files.manifest_files import read_manifest

    ledgers: list[Path] = []
    for run in runs:  # a folder that is not itself a run means all runs in it
        ledgers += runs_in(run) if run.is_dir() and not (run / "ledger.jsonl").exists() else [run]
    folders = [
        path if path.is_dir() else path.parent for path in ledgers if path.is_dir() or path not in runs
    ]
    for folder in folders:
        refuse_unfinished(folder)
    joint = read_joint(ledgers)
    require_protection(joint)  # tables without noise have no manifest of a release
    copied = {folder: copied_lines(read_manifest(folder)) for folder in folders}
    if any(copied.values()):
        joint = read_joint(ledgers, copied)
    answer: dict[str, Any] = {"runs": [str(run) for run in ledgers]}
    answer |= published(joint, delta, exact_of(delta))
    if joint.non_private:
        answer["not_covered"] = [f"NOT PRIVATE: {act}" for act in joint.non_private]
    if plot is not None:
        _plot_profile(_exact_guarantee(joint), plot)
    print_answer(answer, as_json)


def _largest(text: str) -> Fraction:
    from tallyveil.errors import ConfigError

    value = exact_of(text, "--largest")
    if not 0 < value <= LARGEST_EPSILON:
        raise ConfigError(
            f"--largest is {text:.80}; wanted a number above 0 and at most {LARGEST_EPSILON:,}.",
            code="bad-flag",
        )
    return value


def _exact_guarantee(joint: "JointLedgers") -> "Guarantee":
    """The guarantee whose curve can be drawn; raises BudgetError if there is none."""
    from tallyveil.accounting.ledger.joint import published_guarantee
    from tallyveil.accounting.losses.loss_laws import has_loss_law
    from tallyveil.errors import BudgetError

    if has_loss_law(joint.paid):
        return published_guarantee(joint)
    raise BudgetError(
        "--plot draws an exact privacy profile, and noise on a lattice has none. Leave --plot out: the total then "
        "gives rho and an upper bound on epsilon.",
        code="subspace-no-law",
    )


def _factor(factor: Fraction) -> dict[str, Any]:
    """A factor on all noise, exactly and rounded up, and the percentage that it saves, rounded down."""
    from tallyveil.accounting.decimals import at_least, at_most

    return {
        "factor": {"exact": str(factor), "decimal": Fraction(at_most(factor, 12))},
        "saving_percent": Fraction(at_least(100 * (1 - factor))),
    }


def _grid(end: Fraction, points: int) -> list[Fraction]:
    """Numbers from 0 to the end, equally spaced up to the sixth digit. Each is exactly the decimal that is shown."""
    from tallyveil.accounting.decimals import at_most

    return [Fraction(at_most(end * i / (points - 1))) for i in range(points)]


def _plot_profile(guarantee: "Guarantee", path: Path | None, grid: list[Fraction] | None = None) -> None:
    if path is None:
        return
    from tallyveil.report.accounting_plots import draw_profile

    grid = grid or _grid(Fraction(guarantee.epsilon(Fraction(1, 10**12)).upper), 121)
    draw_profile(path, [float(epsilon) for epsilon in grid], guarantee.profile_curve(grid))
