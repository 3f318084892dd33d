"""`tallyveil account`: the exact privacy guarantee of noise, and the least noise for a stated guarantee."""

import json
from collections.abc import Callable
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
    from tallyveil.accounting import Calibration, Guarantee, PrivacyEvent, ZcdpConversion


LARGEST_EPSILON = 10**6
"""Largest epsilon at the end of a curve. A guarantee with a larger epsilon is meaningless."""

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
    guarantee = guarantee_of(gaussian, laplace, plan, product, neighbours, proved, width)
    # The exact number beside its text, so that the answer shows what was typed.
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
    # To the end at which delta is 1e-12: beyond it a curve shows nothing.
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

        # A drawing needs floats, and only the drawing: all printed numbers come from the bounds.
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
    least, target = calibrated(before, epsilon, exact_of(delta), curve, rho)
    answer = {
        **_factor(least.factor),
        "epsilon": dict(zip(("lower", "upper"), least.epsilon, strict=True)),
        "delta": delta,
        **target,
        "event": least.event.to_mapping(),
        **about(least.guarantee),
    }
    print_answer(answer, as_json)
    _plot_profile(least.guarantee, plot)


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
    savings_by_geolevel = [
        {
            "geolevel": geolevel,
            **_factor(item.factor),
            "epsilon": dict(zip(("lower", "upper"), item.epsilon, strict=True)),
        }
        for geolevel, item in geolevel_savings(strategy, exact_of(delta), by)
    ]
    answer = {"delta": delta, "conversion": by.value, "geolevels": savings_by_geolevel}
    print_answer(answer | {"neighbours": strategy.neighbours.value}, as_json)


@account.command()
def products(as_json: AsJson = False) -> None:
    """List the released products of the 2020 Census that `--product` can name, and their cost by zCDP.

    The exact epsilon of one is `tallyveil account epsilon --delta 1e-10 --product NAME`.
    """

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
    from tallyveil.api.guarantees import total_guarantee

    # Drawing first, because it may fail, and an answer on the screen would look like success.
    total = total_guarantee(runs, delta)
    if plot is not None:
        _plot_profile(total.guarantee(), plot)
    print_answer(total.content, as_json)


def _largest(text: str) -> Fraction:
    from tallyveil.errors import ConfigError

    value = exact_of(text, "--largest")
    if not 0 < value <= LARGEST_EPSILON:
        raise ConfigError(
            f"--largest is {text:.80}; wanted a number above 0 and at most {LARGEST_EPSILON:,}.",
            code="bad-flag",
        )
    return value


def _factor(factor: Fraction) -> dict[str, Any]:
    """A factor on all noise, exactly and rounded up, and the percentage that it saves, rounded down."""
    from tallyveil.accounting.decimals import at_least, at_most

    return {
        # Rounded up, because less noise than the factor would not keep the target; the saving is rounded down for that
        # reason.
        "factor": {"exact": str(factor), "decimal": Fraction(at_most(factor, 12))},
        "saving_percent": Fraction(at_least(100 * (1 - factor))),
    }


def _grid(end: Fraction, points: int) -> list[Fraction]:
    """Numbers from 0 to the end, equally spaced up to the sixth digit. Each is exactly the decimal that is shown."""
    from tallyveil.accounting.decimals import at_most

    # Rounded up to the digits that are shown, so that a bound at the shown number is the one beside it.
    return [Fraction(at_most(end * i / (points - 1))) for i in range(points)]


def _plot_profile(guarantee: "Guarantee", path: Path | None, grid: list[Fraction] | None = None) -> None:
    if path is None:
        return
    from tallyveil.report.accounting_plots import draw_profile

    grid = grid or _grid(Fraction(guarantee.epsilon(Fraction(1, 10**12)).upper), 121)
    draw_profile(path, [float(epsilon) for epsilon in grid], guarantee.profile_curve(grid))


def guarantee_of(
    gaussian: list[str] | None,
    laplace: list[str] | None,
    plan: Path | None,
    product: str | None,
    neighbours: str,
    proved: bool,
    width: str | None = None,
) -> "Guarantee":
    """The guarantee of the noise that was given, of a release file or of a released product.

    Without a width, epsilon's bounds are as wide as `compose` makes them.

    Raises:
        ConfigError: a flag that cannot be understood, or flags that do not go together.
    """
    from tallyveil.accounting import Neighbours, compose
    from tallyveil.api.guarantees import guarantee_of_plan, guarantee_of_product
    from tallyveil.errors import ConfigError

    asked: dict[str, Any] = {"engine": "proved" if proved else "auto"}
    if width is not None:
        asked["width"] = _width(width)
    # Each of these states a whole guarantee, and two would contradict each other.
    if sum((plan is not None, product is not None, bool(gaussian or laplace))) > 1:
        raise ConfigError(
            "give one of these: --plan, --product, or --gaussian and --laplace.", code="bad-flag"
        )
    if product is not None:
        return guarantee_of_product(product, **asked)
    if plan is not None:
        return guarantee_of_plan(plan, **asked)
    # Before the noise is parsed, because it decides how many answers a record moves.
    if neighbours not in list(Neighbours):
        raise ConfigError(
            f"--neighbours is '{neighbours}'; wanted one of {', '.join(Neighbours)}.", code="bad-flag"
        )
    if not gaussian and not laplace:
        raise ConfigError(
            "no noise was given, so there is nothing whose guarantee could be stated. Give --gaussian VARIANCE or "
            "--laplace SCALE, once for every kind of query, or --plan RELEASE.TOML, or --product NAME.",
            code="bad-flag",
        )
    relation = Neighbours(neighbours)
    return compose(*_events(gaussian or [], laplace or [], relation), neighbours=relation, **asked)


def _width(text: str) -> float:
    """The width of epsilon's bounds, which is looked at before a float rounds it.

    Raises:
        ConfigError: it is no number of the range that engines take.
    """
    from tallyveil.accounting.engines.dithered import NARROWEST
    from tallyveil.errors import ConfigError

    value = exact_of(text, "--width")
    if not Fraction(str(NARROWEST)) <= value <= 1:
        raise ConfigError(
            f"--width is '{text:.80}'; wanted a number from {NARROWEST:g} to 1, such as 1e-9.",
            code="bad-flag",
        )
    return float(value)


def _events(gaussian: list[str], laplace: list[str], relation: Any) -> "list[PrivacyEvent]":
    from tallyveil.accounting import DiscreteGaussian, DiscreteLaplace

    kinds: list[tuple[list[str], Callable[[Fraction, int, int], PrivacyEvent], str]] = [
        (gaussian, DiscreteGaussian, "--gaussian"),
        (laplace, DiscreteLaplace, "--laplace"),
    ]
    return [
        kind(*_parsed(text, flag, relation.answers_moved)) for texts, kind, flag in kinds for text in texts
    ]


def _parsed(text: str, flag: str, answers_moved: int) -> tuple[Fraction, int, int]:
    """(parameter, sensitivity, multiplicity) of PARAMETER[:COUNT[:SENSITIVITY]]."""
    from tallyveil.errors import ConfigError
    from tallyveil.exact import whole_number_of

    parts = text.split(":")
    # 0 for what is no number, and 0 itself is no count either.
    counts = [whole_number_of(part) or 0 for part in parts[1:]]
    if len(parts) > 3 or not all(counts):
        raise ConfigError(
            f"{flag} is '{text:.80}'; wanted PARAMETER[:COUNT[:SENSITIVITY]] with whole counts above 0, "
            "such as 68.49:10.",
            code="bad-flag",
        )
    # Missing counts are 1 from the right.
    count, sensitivity = [*counts, 1, 1][:2]
    # Bounded neighbours move answers in two geounits, so that an answer counts twice.
    return exact_of(parts[0], flag), sensitivity, count * answers_moved


def exact_of(text: str, flag: str = "--delta") -> Fraction:
    """The exact number that a flag's text stands for."""
    from tallyveil.budget.fractions import parse_fraction

    return parse_fraction(text, flag)


def conversion_of(text: str, flag: str) -> "ZcdpConversion":
    """The conversion of zCDP that a flag names.

    Raises:
        ConfigError: there is no such conversion.
    """
    from tallyveil.accounting import ZcdpConversion
    from tallyveil.errors import ConfigError

    if text not in list(ZcdpConversion):
        raise ConfigError(
            f"{flag} is '{text:.80}'; wanted one of {', '.join(ZcdpConversion)}.", code="bad-flag"
        )
    return ZcdpConversion(text)


def calibrated(
    before: "Guarantee", epsilon: str | None, delta: Fraction, curve: str | None, rho: str | None
) -> "tuple[Calibration[PrivacyEvent], dict[str, Any]]":
    """The least noise for a target at one delta or for a whole curve, and what it was held against, in words.

    Args:
        before: The guarantee of the noise before; it sets the proportions.
        epsilon: The target at one delta, or None.
        delta: That delta, or the smallest delta of the curve.
        curve: The conversion of zCDP that gives the curve, or None.
        rho: The curve's rho; without it, that of the noise before.

    Raises:
        ConfigError: not exactly one of the two targets was given, or rho without a curve.
    """
    from tallyveil.accounting import (
        ZcdpCurve,
        calibrate,
        calibrate_to_curve,
        curve_excess,
        rho_of,
    )
    from tallyveil.errors import ConfigError

    # Exactly one of them: with both it would not be clear which target holds.
    if (epsilon is None) is (curve is None) or (rho is not None and curve is None):
        raise ConfigError(
            "give --epsilon for a target at one delta, or --curve (and --rho, if you like) for a whole curve.",
            code="bad-flag",
        )
    if curve is None:
        target = exact_of(str(epsilon), "--epsilon")
        return calibrate(before.event, epsilon=target, delta=delta, neighbours=before.neighbours), {}
    conversion = conversion_of(curve, "--curve")
    cost = rho_of(before.event, laplace_as_zcdp=True) if rho is None else exact_of(rho, "--rho")
    reference = ZcdpCurve(cost, conversion)
    least = calibrate_to_curve(
        before.event, reference=reference, smallest_delta=delta, neighbours=before.neighbours
    )
    # How far above the curve the result may lie is computed and not assumed.
    excess = curve_excess(least.guarantee, reference, reference.epsilon(delta))
    return least, {
        "curve": f"{conversion.value} conversion of zCDP, rho = {cost}",
        "log_delta_above_the_curve": {"upper": excess.bound},
    }


def exact_epsilon(guarantee: "Guarantee", delta: str, exact: Fraction) -> dict[str, Any]:
    """Lower and upper bounds on epsilon, and the upper bounds of the other accountants that apply.

    Args:
        guarantee: The guarantee.
        delta: The delta as the user wrote it.
        exact: The same number as a fraction.
    """
    from tallyveil.accounting.classical import classical_epsilons

    return {
        "epsilon": guarantee.epsilon(exact).to_mapping(),
        "delta": delta,
        "classical": classical_epsilons(guarantee.event, exact),
    }


def about(guarantee: "Guarantee") -> dict[str, Any]:
    """The neighbours that a guarantee covers, and how it was computed."""
    reached = guarantee.width_reached
    # Said only where the width that was asked for was not reached.
    wider = {} if reached is None or reached <= guarantee.width else {"width_reached": Fraction(str(reached))}
    return {
        "neighbours": guarantee.neighbours.value,
        "engines": list(guarantee.engines),
        **wider,
        "invariants": list(guarantee.invariants),
    }


def print_answer(answer: dict[str, Any], as_json: bool) -> None:
    """Print an answer as lines of words, or as JSON."""
    if as_json:
        # default=float: fractions become numbers, which JSON has.
        say(json.dumps(answer, indent=2, default=float))
        return
    from tallyveil.cli.frame.terminal import Screen, headed

    console = Screen()
    for key, value in answer.items():
        console.print(headed(key.replace("_", " "), f": {_in_words(value)}"), soft_wrap=True)


def _in_words(value: Any) -> str:  # noqa: PLR0911 (one return a kind)
    """A value for reading: bounds are rounded outwards, a float is an upper bound, a Fraction is exact."""
    from tallyveil.accounting.bounds import Bounds
    from tallyveil.accounting.decimals import at_most, short_decimal, within

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


def show_products(as_json: bool) -> None:
    """Print the released products, what their record is, and what they cost by zCDP at the published delta."""
    from tallyveil.accounting.decimals import at_most
    from tallyveil.accounting.zcdp_curve import ZcdpConversion
    from tallyveil.budget.products import DELTA, load_product, product_names
    from tallyveil.cli.frame.tables import show_table

    rows = []
    for product in map(load_product, product_names()):
        rho, published = product.rho, product.published_epsilon
        rows.append(
            [
                product.name,
                product.record,
                product.n_budgets,
                at_most(rho, places=4),
                None if published is None else at_most(published),
                *(at_most(conversion.epsilon(rho, DELTA), places=3) for conversion in ZcdpConversion),
            ]
        )
    show_table(
        ["product", "record", "budgets", "rho", "published epsilon", "textbook", "best zCDP"], rows, as_json
    )
