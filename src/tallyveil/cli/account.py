"""`tallyveil account`: the exact privacy guarantee of noise, and the least noise for a stated guarantee."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from tallyveil.api.noise_flags import NOISE_FLAGS
from tallyveil.cli.frame.arguments import (
    DELTA,
    EPSILON,
    NEIGHBOURS,
    RHO,
    AsJson,
    ReleaseFilePath,
    group_of_commands,
)
from tallyveil.cli.frame.terminal import say_headed, say_json

if TYPE_CHECKING:
    from tallyveil.accounting.guarantee import Guarantee
    from tallyveil.api.guarantees import Curve


account = group_of_commands(
    "account", "Compute the exact privacy guarantee of noise, and the least noise for a stated guarantee."
)

Events = Annotated[
    Path | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="Account for the events in this file instead (TOML, or JSON), each as in a ledger or as dp_accounting "
        "stores it.",
    ),
]
Plan = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="RELEASE.TOML", help="Account for the measurements of this release file instead."
    ),
]
Secret = Annotated[
    str | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="With --plan: account for this secret of a record alone; `tallyveil account secrets` names them.",
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
    str | None,
    typer.Option(
        "--neighbours",
        help=f"{NEIGHBOURS} A change of value moves two answers of every query. For flags of noise alone, where it is "
        "unbounded by default: a file of events, a release file and a product state their own.",
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
Conversion = Annotated[
    str,
    typer.Option(
        "--conversion",
        metavar="textbook|best",
        help="How zCDP gives epsilon: rho + 2 sqrt(rho ln(1 / delta)), or by the best known proof.",
    ),
]
Points = Annotated[int, typer.Option("--points", min=2, max=10_000, help="Number of points of the curve.")]

Noise: TypeAlias = Mapping[str, Any]
"""The values of all flags that say which noise or which events are accounted for, by the names of `_SOURCES`."""

_SOURCES: Final = {
    **{
        item.name: Annotated[
            list[str] | None,
            typer.Option(item.flag, metavar=item.metavar, help=f"{item.describes} May be repeated."),
        ]
        for item in NOISE_FLAGS
    },
    "events": Events,
    "plan": Plan,
    "secret": Secret,
    "product": Product,
    "neighbours": Relation,
}


def of_noise(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of `_SOURCES`. It gets their values as one mapping, its first argument."""

    @wraps(command)
    def of_flags(**given: Any) -> None:
        command({name: given.pop(name) for name in _SOURCES}, **given)

    stated = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=None)
        for name, kind in _SOURCES.items()
    ]
    _, *others = signature(command).parameters.values()
    # typer makes the flags of these two.
    of_flags.__signature__ = Signature([*stated, *others])  # type: ignore[attr-defined]
    of_flags.__annotations__ = {item.name: item.annotation for item in (*stated, *others)}
    return of_flags


@account.command()
@of_noise
def epsilon(
    noise: Noise,
    *,
    delta: Delta,
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute bounds on epsilon at a delta from both sides, and the epsilon of the classical accountants."""
    from tallyveil.api.guarantees import epsilon_of_guarantee

    guarantee = _guarantee(noise, proved, width)
    # Numbers are shown as they were typed.
    _print_answer(epsilon_of_guarantee(guarantee, delta) | {"delta": delta}, as_json)
    _plot_profile(guarantee, plot)


@account.command()
@of_noise
def delta(
    noise: Noise,
    *,
    epsilon: Epsilon,
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute bounds on delta at an epsilon from both sides, and on the logarithm of delta."""
    from tallyveil.api.guarantees import delta_of_guarantee

    guarantee = _guarantee(noise, proved, width)
    _print_answer(delta_of_guarantee(guarantee, epsilon) | {"epsilon": epsilon}, as_json)
    _plot_profile(guarantee, plot)


@account.command()
@of_noise
def profile(
    noise: Noise,
    *,
    points: Points = 21,
    largest: Annotated[str | None, typer.Option("--largest", help="Largest epsilon of the curve.")] = None,
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute the privacy profile, which is delta as a function of epsilon."""
    from tallyveil.api.guarantees import profile_of_guarantee

    guarantee = _guarantee(noise, proved, width)
    curve, answer = profile_of_guarantee(guarantee, points, largest)
    _print_answer(answer, as_json)
    _plot(curve, plot)


@account.command()
@of_noise
def tradeoff(
    noise: Noise,
    *,
    points: Points = 21,
    proved: Proved = False,
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute the trade-off function: the least type II error beta of any test with type I error alpha."""
    from tallyveil.api.guarantees import tradeoff_of_guarantee

    guarantee = _guarantee(noise, proved, width)
    curve, answer = tradeoff_of_guarantee(guarantee, points)
    _print_answer(answer, as_json)
    _plot(curve, plot, tradeoff=True)


@account.command()
@of_noise
def calibrate(
    noise: Noise,
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
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Find the least noise, in the given proportions, that keeps epsilon within a target at one delta or at many.

    With --epsilon the target holds at --delta. With --curve epsilon is at most the curve's at every delta of --delta
    or more; this computes about a hundred points for each amount of noise that is tried.
    """
    from tallyveil.api.guarantees import calibrated_noise

    before = _guarantee(noise)
    guarantee, answer = calibrated_noise(before, delta=delta, epsilon=epsilon, curve=curve, rho=rho)
    _print_answer(answer | {"delta": delta}, as_json)
    _plot_profile(guarantee, plot)


@account.command()
@of_noise
def group(
    noise: Noise,
    *,
    delta: Delta,
    size: Annotated[int, typer.Option("--size", min=1, help="Number of persons in the group.")],
    width: Width = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute epsilon for a group of persons, such as a household, beside that for one person.

    The textbook's bound multiplies epsilon by the size, and holds at a much larger delta. A group is refused where
    nothing is known about it: random samples, for example. With --secret, each person of the group may have another
    value of this secret, and nothing else changes.
    """
    from tallyveil.api.guarantees import epsilon_of_group

    record = None if noise["secret"] is None else _guarantee({**noise, "secret": None}, width=width)
    guarantee, answer = epsilon_of_group(_guarantee(noise, width=width), size, delta, record)
    _print_answer(answer | {"delta": delta}, as_json)
    _plot_profile(guarantee, plot)


@account.command()
@of_noise
def reduction(
    noise: Noise,
    *,
    delta: Delta = "1e-10",
    conversion: Conversion = "textbook",
    width: Width = None,
    as_json: AsJson = False,
) -> None:
    """Certify by how many percent the exact epsilon is smaller than what zCDP gives, at every delta from --delta up.

    With --plan or --product this is done for each geolevel, too. At smaller deltas the exact epsilon is not larger, and
    smaller for noise whose law is known, by a proof; by how much is not computed.
    """
    from tallyveil.api.guarantees import reductions

    # A secret has no geolevels of its own.
    of = {"plan": None if noise["secret"] else noise["plan"], "product": noise["product"]}
    answer = reductions(_guarantee(noise, width=width), delta, conversion, **of)
    _print_answer(answer | {"delta": delta}, as_json)


@account.command()
def savings(
    plan: ReleaseFilePath,
    delta: Delta = "1e-10",
    conversion: Conversion = "best",
    as_json: AsJson = False,
) -> None:
    """Find the least noise for each geolevel of a release file that keeps the epsilon which zCDP gives for it."""
    from tallyveil.api.guarantees import savings_of_plan

    _print_answer(savings_of_plan(plan, delta, conversion) | {"delta": delta}, as_json)


@account.command()
def secrets(plan: ReleaseFilePath, as_json: AsJson = False) -> None:
    """Compute what a release file guarantees of each attribute of a record, and of its place within each area.

    Each guarantee is about this secret alone, all else of the records being known. What several secrets cost together
    does not follow: that is the guarantee of the whole record. "Exchanged" stands where one record alone would change
    what is published exactly, so that two records exchange the secret.

    The curve of one secret is `tallyveil account profile --plan RELEASE.TOML --secret NAME`.
    """
    from tallyveil.accounting.numbers import bound_cell, delta_text, spent_cell
    from tallyveil.api.planned import plan as make
    from tallyveil.cli.frame.screen import Screen
    from tallyveil.cli.frame.tables import plain_table

    release = make(plan)
    rows = release.secrets().to_dicts()
    if as_json:
        say_json(rows, indent=2)
        return
    unit = release.content.budget_unit
    table = plain_table(texts=("secret",), numbers=(unit, "epsilon <="))
    for row in rows:
        table.add_row(row["secret"], spent_cell(Fraction(row["cost"])), bound_cell(row["epsilon"]))
    console = Screen()
    console.print(table)
    console.print(
        f"At delta = {delta_text(release.content.delta)}. Each is for populations that differ in this secret alone.",
        soft_wrap=True,
    )
    exact = list(dict.fromkeys(name for row in rows for name in row["changes_invariants"]))
    if exact:
        console.print(
            f"Exchanged: one record alone would change what is published exactly ({'; '.join(exact)}), so that two "
            "records exchange the secret. The other lines are for values and places that change nothing of it.",
            soft_wrap=True,
        )


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
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="RHO",
            help="A budget that was fixed in advance for all releases of these people: shows what is left, and fails "
            "if more was spent.",
        ),
    ] = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compute the joint privacy guarantee of several releases about the same people, from their ledgers.

    Measurements and the releases that are estimated from them count once. A ledger may record that true counts were
    looked at; the guarantee does not cover this, and the answer names it. If a release has Gaussian noise on a lattice,
    the total is an upper bound and is marked as such.

    Epsilon holds for noise that was fixed before the first release. If the results of earlier releases decided how much
    noise later ones added, the epsilon under noise_chosen_on_the_way holds.
    """
    from tallyveil.api.guarantees import total_guarantee

    # Drawing first, because it may fail, and an answer on the screen would look like success.
    total = total_guarantee(runs, delta, budget=budget)
    if plot is not None:
        _plot_profile(total.guarantee(), plot)
    _print_answer(total.content, as_json)


def _guarantee(noise: Noise, proved: bool = False, width: str | None = None) -> "Guarantee":
    from tallyveil.api.guarantees import guarantee_of_noise

    stated = {item.name: noise[item.name] or () for item in NOISE_FLAGS}
    sources = {name: value for name, value in noise.items() if name not in stated}
    return guarantee_of_noise(stated, **sources, engine="proved" if proved else "auto", width=width)


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
        say_json(answer, indent=2)
        return

    for key, value in answer.items():
        say_headed(key.replace("_", " "), f": {_in_words(value)}")


def _in_words(value: Any) -> str:  # noqa: PLR0911 (one return a kind)
    """A value for reading: bounds are rounded outwards, a float is an upper bound, a Fraction is exact."""
    from tallyveil.accounting.numbers import Bounds, at_most, short_decimal, within
    from tallyveil.printable import in_one_line

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
        return ", ".join(in_one_line(str(item)) for item in value) or "none"
    # Rounded up, because a float is an upper bound here.
    if isinstance(value, float):
        return at_most(value)
    return short_decimal(value) if isinstance(value, Fraction) else str(value)
