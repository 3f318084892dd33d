"""`tallyveil spine`: make and compare spines, from public geography alone. No records are opened."""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tallyveil.cli.frame.arguments import (
    ENTITIES,
    GEOGRAPHY,
    GEOLEVELS,
    SCHEMA,
    STRATEGY,
    AsJson,
    Quiet,
    give,
    group_of_commands,
    names_if_any,
)
from tallyveil.cli.frame.tables import show_table
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.api.spines import SpineComparison
    from tallyveil.geography.areas import AreaChange
    from tallyveil.products.topdown.run.spine_design import FittedSpine


spine = group_of_commands("spine", "Make a geographic spine, and compute how exact counts on it will be.")

Entities = Annotated[Path | None, typer.Option("--entities", metavar="FILE", help=ENTITIES)]
Family = Annotated[
    list[str] | None,
    typer.Option(
        "--family",
        metavar="COLUMN",
        help="Family of entities. May be repeated. Default: every text column.",
    ),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="PRESET|RELEASE.TOML",
        help=STRATEGY,
    ),
]
SchemaName = Annotated[
    str | None,
    typer.Option(
        "--schema",
        help=f"{SCHEMA} Of the queries of a strategy preset. A release file has its own.",
    ),
]
Exact = Annotated[
    list[str] | None,
    typer.Option(
        "--exact",
        metavar="GEOLEVEL",
        help="Geolevel whose totals are published exactly, with a strategy preset. May be repeated.",
    ),
]
Cutoff = Annotated[
    int,
    typer.Option(
        "--cutoff",
        min=0,
        help="A group has at most this number of children plus the square root of the number of siblings. "
        "For --regroup, or --grouped.",
    ),
]
SpineFile = Annotated[Path, typer.Argument(help="A spine made by `tallyveil spine build`.", metavar="SPINE")]


@spine.command()
def build(
    *,
    geography: Annotated[
        Path,
        typer.Option("--geography", metavar="FILE", help=f"{GEOGRAPHY} It has a column for each geolevel."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File of the spine (Parquet).")],
    entities: Entities = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="Preset with the steps of a production spine. Without it the geography is used as it is.",
        ),
    ] = None,
    geolevels: Annotated[
        str | None,
        typer.Option("--geolevels", metavar="NAME,...", help=f"{GEOLEVELS} Not with --preset."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="GEOLEVEL=COLUMN",
            help="Column that holds the geocodes of a geolevel. May be repeated.",
        ),
    ] = None,
    strategy: StrategyName = None,
    schema: SchemaName = None,
    exact: Exact = None,
    regroup: Annotated[
        str | None,
        typer.Option(
            "--regroup",
            metavar="GEOLEVEL",
            help="After the steps, choose the groups of this geolevel by variance. No mean variance in the aim "
            "grows, except with --maximum; --most-loss limits the loss of other areas.",
        ),
    ] = None,
    aim: Annotated[
        list[str] | None,
        typer.Option(
            "--aim",
            metavar="NAME[=WEIGHT]",
            help="Family or geolevel whose variance --regroup minimises. May be repeated. The families of the preset "
            "are added with weight 1. The name of the regrouped geolevel means its geounits in the geography "
            "table.",
        ),
    ] = None,
    most_loss: Annotated[
        str,
        typer.Option(
            "--most-loss",
            metavar="FRACTION",
            help="For --regroup: fraction by which the mean standard deviation of every other family of the entity "
            "table, or geolevel of the geography, may grow.",
        ),
    ] = "1/20",
    reference: Annotated[
        Literal["steps", "geography"],
        typer.Option(
            "--reference",
            help="For --most-loss: compare with the spine that the steps make, or with the geography as it is.",
        ),
    ] = "steps",
    may_worsen: Annotated[
        list[str] | None,
        typer.Option(
            "--may-worsen",
            metavar="NAME",
            help="For --regroup: family or geolevel to which --most-loss does not apply, and which is not added to "
            "the aim. May be repeated.",
        ),
    ] = None,
    cutoff: Cutoff = 12,
    maximum: Annotated[
        bool,
        typer.Option(
            "--maximum", help="For --regroup: minimise the greatest variance instead of the weighted sum."
        ),
    ] = False,
    bypass: Annotated[
        bool,
        typer.Option(
            help="Bypass geounits if the preset does and a strategy gives shares. The mechanism decides the rule."
        ),
    ] = True,
    every_query: Annotated[
        bool,
        typer.Option(
            "--every-query",
            help="Bypass geounits only where no linear query of any geounit gets a greater variance, also if "
            "geolevels measure different queries. It needs a strategy, and no preset.",
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a spine by the steps of a preset, and optionally choose groups by the resulting variances."""
    from tallyveil.api.spines import build_spine

    built = build_spine(
        geography,
        out,
        entities=entities,
        preset=preset,
        geolevels=names_if_any(geolevels, "--geolevels"),
        columns=column or [],
        strategy=strategy,
        schema=schema,
        exact=exact or [],
        regroup=regroup,
        aim=aim or [],
        most_loss=most_loss,
        reference=reference,
        may_worsen=may_worsen or [],
        cutoff=cutoff,
        maximum=maximum,
        bypass=bypass,
        every_query=every_query,
    )
    # The words are the spine's own short form; all geolevels are in the JSON.
    give(built.to_mapping(), [f"{out}: {built.spine!r}"], quiet=quiet, as_json=as_json)
    show_changes(built.changes, quiet=quiet or as_json)


@spine.command()
def distance(
    file: SpineFile,
    entities: Annotated[Path, typer.Option("--entities", metavar="FILE", help=ENTITIES)],
    family: Family = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="FAMILY:ENTITY",
            help="Show the geounits that are added and subtracted to make one entity.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File for the distances of all entities (Parquet)."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compute the off-spine distance of each entity: the number of geounits to add or subtract."""
    from tallyveil.api.spines import spine_distances
    from tallyveil.cli.frame.tables import show_table

    distances = spine_distances(file, entities, family or [], recipe=recipe, out=out)
    # JSON is printed also with --quiet, because programs ask for it by name.
    if quiet and not as_json:
        return
    if distances.recipe is not None:
        _show_recipe(distances.recipe, str(recipe), as_json)
        return
    show_table(
        ["entities", "number", "mean", "median", "90 %", "maximum"],
        [
            [
                family.family,
                len(family.codes),
                family.mean,
                family.quantile(1, 2),
                family.quantile(9, 10),
                family.maximum,
            ]
            for family in distances.families
        ],
        as_json,
    )


@spine.command()
def compare(
    first: SpineFile,
    second: Annotated[Path, typer.Argument(help="Another spine with the same blocks.", metavar="SPINE")],
    *,
    strategy: Annotated[
        str,
        typer.Option("--strategy", metavar="PRESET|RELEASE.TOML", help=f"{STRATEGY} Of the first spine."),
    ],
    entities: Entities = None,
    family: Family = None,
    second_strategy: Annotated[
        str | None,
        typer.Option(
            "--second-strategy",
            metavar="PRESET|RELEASE.TOML",
            help="Strategy preset, or release file, of the second spine, if it is a different one.",
        ),
    ] = None,
    schema: SchemaName = None,
    exact: Exact = None,
    grouped: Annotated[
        list[str] | None,
        typer.Option(
            "--grouped",
            metavar="GEOLEVEL",
            help="Geolevel of the second spine that consists of groups. Shows how far its distances and standard "
            "deviations are above the least that any such groups could reach. May be repeated.",
        ),
    ] = None,
    cutoff: Cutoff = 12,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File for the same numbers (Parquet).")
    ] = None,
    each: Annotated[
        Path | None,
        typer.Option(
            "--each",
            metavar="FILE",
            help="File for the numbers of every geounit of the first spine and every entity, on both spines (Parquet).",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare the standard deviations of totals on two spines: geounits of each spine, and every family of entities.

    The standard deviations are those of generalised least squares with all measurements, before counts are made
    non-negative and integer. No noise is drawn: the numbers follow from the spines and the strategy.
    """
    from tallyveil.api.spines import compare_spines

    comparison = compare_spines(
        first,
        second,
        strategy=strategy,
        second_strategy=second_strategy,
        entities=entities,
        families=family or [],
        schema=schema,
        exact=exact or [],
        grouped=grouped or [],
        cutoff=cutoff,
        out=out,
        each=each,
    )
    # The files are written by the call above, whether or not anything is printed.
    if as_json or not quiet:
        _show_rows(comparison, as_json)


@spine.command()
def fit(
    file: SpineFile,
    *,
    strategy: Annotated[
        str,
        typer.Option("--strategy", metavar="PRESET|RELEASE.TOML", help=f"{STRATEGY} The queries are kept."),
    ],
    target: Annotated[
        list[str],
        typer.Option(
            "--target",
            metavar="NAME=SD",
            help="Largest standard deviation of the totals of a geolevel or family. May be repeated.",
        ),
    ],
    entities: Entities = None,
    each: Annotated[
        bool,
        typer.Option(
            "--every",
            help="Every area must meet its target. Without this flag the mean variance must meet it.",
        ),
    ] = False,
    schema: SchemaName = None,
    exact: Exact = None,
    as_json: AsJson = False,
) -> None:
    """Find the shares of the geolevels that meet accuracy targets with the least budget, and compare them with the
    shares of the strategy."""
    from tallyveil.api.spines import fit_shares

    shares = fit_shares(
        file,
        target,
        strategy=strategy,
        entities=entities,
        every=each,
        schema=schema,
        exact=exact or [],
    )
    _show_fitted(shares, as_json)
    # After the table, so that a reader knows what the warning is about.
    warn(shares.losses)


@spine.command()
def show(
    file: SpineFile,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File of the page (HTML).")],
    points: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="Table of the map: geocode, latitude and longitude.",
        ),
    ] = None,
    county: Annotated[
        str | None,
        typer.Option(
            "--county",
            metavar="GEOCODE",
            help="Geocode of the geounit to draw. Default: a geounit of median size.",
        ),
    ] = None,
    within: Annotated[
        str, typer.Option("--within", help="Geolevel of the geounit that is drawn.")
    ] = "County",
    group: Annotated[
        str, typer.Option("--group", help="Geolevel whose geounits have one colour each.")
    ] = "Block_Group",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a page with the fan-outs of a spine and a map of one county whose blocks are coloured by group."""
    from tallyveil.api.spines import show_spine

    page = str(show_spine(file, out, points=points, county=county, within=within, group=group))
    give({"page": page}, [page], quiet=quiet, as_json=as_json)


PRINTED = {"mean": "mean", "q90": "90 %", "greatest": "max"}


def _areas(row: dict[str, Any]) -> str:
    return f"{row['name']} of the first spine" if row["kind"] == "geolevel" else str(row["name"])


def _ratio_of_means(row: dict[str, Any]) -> str:
    """Relative change of the mean standard deviation; a dash if the first spine has none or is exact."""
    first, second = row["first_mean"], row["second_mean"]
    if first is None or not 0 < first < inf:
        # A ratio to nothing, or to infinity, is no number.
        return "–"
    return f"{second / first - 1:+.0%}" + (" worse" if row["worse"] else "")


BOUNDS = ["bound", "gap", "shared", "gap"]


def _bounds_and_gaps(row: dict[str, Any]) -> list[Any]:
    """What stands below `BOUNDS`; a dash where there is no bound or no gap."""
    columns: list[Any] = []
    for bound, gap in (("bound_mean", "gap"), ("shared_mean", "shared_gap")):
        columns.append("–" if row[bound] is None else row[bound])
        columns.append("–" if row[gap] is None else f"{row[gap]:.1%}")
    return columns


def _show_distances(frame: "pl.DataFrame", bounded: bool) -> None:
    """Print the off-spine distances of the families on two spines."""
    if frame.is_empty():
        return
    columns = [f"{place}_{name}" for name in ("mean", "greatest") for place in ("first", "second")]
    show_table(
        ["off-spine distance", "areas", "1st mean", "2nd mean", "1st max", "2nd max"]
        + (BOUNDS if bounded else []),
        [
            [row["name"], row["areas"], *(row[column] for column in columns)]
            + (_bounds_and_gaps(row) if bounded else [])
            for row in frame.iter_rows(named=True)
        ],
        False,
    )


def _show_rows(comparison: "SpineComparison", as_json: bool) -> None:
    """Print a comparison with what its accuracy costs, and a warning for every kind of area that is less exact."""
    from tallyveil.cli.frame.tables import show_parameters

    frame, parameters = comparison.kinds, comparison.parameters
    if as_json:
        distances = comparison.distances.to_dicts()
        say_json({"areas": frame.to_dicts(), "distances": distances, "privacy": parameters}, indent=2)
        return
    # A strategy without bounds, and one that only bounds distances, have no column for them.
    bounded = frame["bound_mean"].is_not_null().any()
    show_table(
        [
            "",
            "areas",
            *(f"{place} {name}" for name in PRINTED.values() for place in ("1st", "2nd")),
            "change",
            *(BOUNDS if bounded else []),
        ],
        [
            [
                row["name"] + (AIMED if row["aimed"] else "")
                if row["part"].startswith("areas")
                else f"{row['name']} of the 2nd",
                row["areas"],
            ]
            + [row[f"{place}_{measure}"] for measure in PRINTED for place in ("first", "second")]
            + [_ratio_of_means(row)]
            + (_bounds_and_gaps(row) if bounded else [])
            for row in frame.iter_rows(named=True)
        ],
        False,
    )
    say(
        "Standard deviations of the total, in counts. The same areas on both spines; below, the second's own. The last "
        "column says by how much the mean changes."
    )
    limited = "bound_mean" in comparison.distances and comparison.distances["bound_mean"].is_not_null().any()
    _show_distances(comparison.distances, bool(limited))
    if bounded or limited:
        say(
            "A bound is a mean that no groups of this size reach below on the second spine, and the gap is by how much "
            "its own mean is above the bound."
        )
    if bounded:
        say(
            "The first bound supposes groups that serve one family or area alone. No groups make a family's mean "
            "smaller than the shared bound, unless they make the mean standard deviation over all families greater."
        )
    say("What this accuracy costs, for each geolevel alone and for all together:")
    show_parameters(parameters)
    if frame["aimed"].any():
        say("Groups were chosen by variance for what is marked *.")
    warn(
        [
            f"{_areas(row)}: totals are less exact on the second spine, with a mean standard deviation of "
            f"{row['second_mean']:,.2f} against {row['first_mean']:,.2f}"
            for row in frame.iter_rows(named=True)
            if row["worse"]
        ]
    )


def _show_fitted(fitted: "FittedSpine", as_json: bool) -> None:
    """Print fitted shares and the strategy's own shares, with their budgets and standard deviations."""
    shares, present = fitted.shares, dict(fitted.given.geolevel_shares)
    rows = [[name, str(share), str(present[name])] for name, share in shares.strategy.geolevel_shares]
    show_table(["geolevel", "share", "strategy's own"], rows, as_json)
    if as_json:
        return
    say(
        f"{fitted.given.budget_unit} needed: {shares.needed} = {float(shares.needed):.6g} (no shares do with less than "
        f"{shares.least:.6g}); with the strategy's own shares {shares.given_needed:.6g}"
    )
    for target, reached in shares.reached:
        say(f"  {target.name}: wanted {float(target.standard_deviation):g}, reached {reached:.4g}")


def _show_recipe(lines: "Sequence[tuple[int, str, str]]", name: str, as_json: bool) -> None:
    """Print the geounits that make an entity."""
    if as_json:
        say_json([{"sign": sign, "geolevel": level, "geocode": code} for sign, level, code in lines])
        return
    say(f"{name} is {len(lines)} geounits:")
    for sign, level, code in lines:
        say(f"  {'+' if sign > 0 else '-'} {level} {code}")


AIMED = " *"


def show_changes(changes: "Sequence[AreaChange]", *, quiet: bool = False) -> None:
    """Print the mean standard deviation of totals for every family and geolevel, and the warnings.

    A warning names each family or geolevel that the spine makes less accurate.

    Args:
        changes: The change for each family and each geolevel.
        quiet: Print only the warnings.
    """
    from tallyveil.products.topdown.run.spine_making import warnings_of

    if changes and not quiet:
        _show_changes(changes)
    warn(warnings_of(changes))


def _show_changes(changes: "Sequence[AreaChange]") -> None:
    from tallyveil.cli.frame.tables import show_table

    regrouped = any(change.aimed for change in changes)
    rows: list[list[Any]] = [
        [
            change.name + (AIMED if change.aimed else ""),
            change.areas,
            change.given.mean,
            *([change.steps.mean] if regrouped else []),
            change.made.mean,
            change.made.greatest,
        ]
        for change in changes
    ]
    before = ["geography", *(["steps"] if regrouped else [])]
    show_table(["st.dev. of totals", "areas", *before, "this spine", "its greatest"], rows, False)
    say(
        "Mean standard deviations of totals, with the same budget on every spine: on the geography as "
        "given, "
        + ("after the steps, with groups chosen by variance for what is marked *, " if regrouped else "")
        + "and on this spine."
    )


def warn(sentences: Sequence[str]) -> None:
    """Print warnings on standard error."""
    for sentence in sentences:
        say(f"warning: {sentence}", err=True)
