"""`tallyveil account`: the exact privacy guarantee of noise, and the least noise for a stated guarantee."""

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    DELTA,
    EPSILON,
    NEIGHBOURS,
    RHO,
    AsJson,
    ReleaseFilePath,
    group_of_commands,
)
from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.accounting.guarantee import Guarantee
    from tallyveil.api.guarantees import Curve


account = group_of_commands(
    "account", "Compute the exact privacy guarantee of noise, and the least noise for a stated guarantee."
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
    from tallyveil.api.guarantees import epsilon_of_guarantee

    guarantee = _guarantee(gaussian, laplace, plan, product, neighbours, proved, width)
    # Numbers are shown as they were typed.
    _print_answer(epsilon_of_guarantee(guarantee, delta) | {"delta": delta}, as_json)
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
    from tallyveil.api.guarantees import delta_of_guarantee

    guarantee = _guarantee(gaussian, laplace, plan, product, neighbours, proved, width)
    _print_answer(delta_of_guarantee(guarantee, epsilon) | {"epsilon": epsilon}, as_json)
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
    from tallyveil.api.guarantees import profile_of_guarantee

    guarantee = _guarantee(gaussian, laplace, plan, product, neighbours, proved, width)
    curve, answer = profile_of_guarantee(guarantee, points, largest)
    _print_answer(answer, as_json)
    _plot(curve, plot)


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
    from tallyveil.api.guarantees import tradeoff_of_guarantee

    guarantee = _guarantee(gaussian, laplace, plan, product, neighbours, proved, width)
    curve, answer = tradeoff_of_guarantee(guarantee, points)
    _print_answer(answer, as_json)
    _plot(curve, plot, tradeoff=True)


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
    from tallyveil.api.guarantees import calibrated_noise

    before = _guarantee(gaussian, laplace, plan, product, neighbours, proved=False)
    guarantee, answer = calibrated_noise(before, delta=delta, epsilon=epsilon, curve=curve, rho=rho)
    _print_answer(answer | {"delta": delta}, as_json)
    _plot_profile(guarantee, plot)


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
    from tallyveil.api.guarantees import savings_of_plan

    _print_answer(savings_of_plan(plan, delta, conversion) | {"delta": delta}, as_json)


@account.command()
def products(as_json: AsJson = False) -> None:
    """List the released products of the 2020 Census that `--product` can name, and their cost by zCDP.

    The exact epsilon of one is `tallyveil account epsilon --delta 1e-10 --product NAME`.
    """
    from tallyveil.api.guarantees import census_products
    from tallyveil.cli.frame.tables import show_table

    rows = census_products()
    show_table(list(rows[0]), [list(row.values()) for row in rows], as_json)


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
    from tallyveil.api.guarantees import total_guarantee

    # Drawing first, because it may fail, and an answer on the screen would look like success.
    total = total_guarantee(runs, delta)
    if plot is not None:
        _plot_profile(total.guarantee(), plot)
    _print_answer(total.content, as_json)


def _guarantee(
    gaussian: list[str] | None,
    laplace: list[str] | None,
    plan: Path | None,
    product: str | None,
    neighbours: str,
    proved: bool,
    width: str | None = None,
) -> "Guarantee":
    from tallyveil.api.guarantees import guarantee_of_noise

    return guarantee_of_noise(
        gaussian=gaussian or (),
        laplace=laplace or (),
        plan=plan,
        product=product,
        neighbours=neighbours,
        engine="proved" if proved else "auto",
        width=width,
    )


def _plot_profile(guarantee: "Guarantee", path: Path | None) -> None:
    from tallyveil.api.guarantees import profile_of_guarantee

    if path is not None:
        _plot(profile_of_guarantee(guarantee)[0], path)


def _plot(curve: "Curve", path: Path | None, *, tradeoff: bool = False) -> None:
    if path is None:
        return
    from tallyveil.report.figure import draw_profile, draw_tradeoff

    # A drawing needs floats, and only the drawing: all printed numbers come from the bounds.
    draw = draw_tradeoff if tradeoff else draw_profile
    draw(path, [float(place) for place, _ in curve], [bounds for _, bounds in curve])


def _print_answer(answer: dict[str, Any], as_json: bool) -> None:
    """Print an answer as lines of words, or as JSON."""
    if as_json:
        # default=float: fractions become numbers, which JSON has.
        say(json.dumps(answer, indent=2, default=float))
        return

    from tallyveil.cli.frame.screen import Screen, headed

    console = Screen()
    for key, value in answer.items():
        console.print(headed(key.replace("_", " "), f": {_in_words(value)}"), soft_wrap=True)


def _in_words(value: Any) -> str:  # noqa: PLR0911 (one return a kind)
    """A value for reading: bounds are rounded outwards, a float is an upper bound, a Fraction is exact."""
    from tallyveil.accounting.numbers import Bounds, at_most, short_decimal, within

    if isinstance(value, dict):
        # Outwards: shown digits must still enclose the number.
        if set(value) == {"lower", "upper"}:
            return within(Bounds(**value))
        if set(value) == {"upper"}:
            return f"at most {at_most(value['upper'])}"
        return "; ".join(f"{key.replace('_', ' ')} {_in_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return "\n" + "\n".join(f"  {_in_words(item)}" for item in value)
        return ", ".join(map(str, value)) or "none"
    # Rounded up, because a float is an upper bound here.
    if isinstance(value, float):
        return at_most(value)
    return short_decimal(value) if isinstance(value, Fraction) else str(value)
