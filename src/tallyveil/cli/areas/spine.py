"""`tallyveil spine`: make and compare spines, from public geography alone. No records are opened."""

from pathlib import Path
from typing import Annotated, Literal

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
)
from tallyveil.cli.frame.names import names_if_any
from tallyveil.cli.frame.whole_help import WholeHelp

spine = typer.Typer(
    name="spine",
    cls=WholeHelp,
    no_args_is_help=True,
    help="Make a geographic spine, and compute how exact counts on it will be.",
)

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
    cutoff: Annotated[
        int,
        typer.Option(
            "--cutoff",
            min=0,
            help="For --regroup: a group has at most this number of children plus the square root of the number of "
            "siblings.",
        ),
    ] = 12,
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
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a spine by the steps of a preset, and optionally choose groups by the resulting variances."""
    from tallyveil.budget.caps import Reference
    from tallyveil.budget.spine.matrices import require_affordable
    from tallyveil.cli.areas.spine_measures import measures_of
    from tallyveil.cli.show.area_changes import show_changes
    from tallyveil.geography.spine_files import write_spine
    from tallyveil.products.topdown.run.spine_build import BuildFlags, built
    from tallyveil.products.topdown.run.spine_making import changes_record
    from tallyveil.storage.outputs import claim_file

    named = names_if_any(geolevels, "--geolevels")
    claim_file(out, [geography, *([entities] if entities is not None else [])])
    measures = None if strategy is None else measures_of(strategy, schema, exact or [])[0]
    found = built(
        BuildFlags(
            geography, entities, preset, named, column or [], measures, regroup, aim or [],
            cutoff, maximum, most_loss, Reference(reference), may_worsen or [], bypass,
        )
    )  # fmt: skip
    made = found.made
    if made.shares is not None:
        require_affordable(made.spine, made.shares)
    write_spine(out, made.spine, made.shares, found.aimed)
    changes = found.changes if preset is not None or regroup is not None else ()
    sizes = dict(zip(made.spine.geolevels, map(len, made.spine.geocodes), strict=True))
    record = {"out": str(out), "geounits": sizes, **changes_record(changes)}
    give(record, [f"{out}: {made.spine!r}"], quiet=quiet, as_json=as_json)
    show_changes(changes, quiet=quiet or as_json)


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
    import polars as pl

    from tallyveil.cli.show.number_table import show_table
    from tallyveil.geography import off_spine_distances, recipe_of
    from tallyveil.geography.spine_files import read_spine_file
    from tallyveil.products.topdown.run.spine_inputs import read_families
    from tallyveil.storage.outputs import claim_file
    from tallyveil.storage.write import write_parquet

    if out is not None:
        claim_file(out, [file, entities])
    made, _ = read_spine_file(file)
    name, _, code = (recipe or "").partition(":")
    families = read_families(entities, made, family or ([name] if name else []))
    found = [off_spine_distances(made, one) for one in families]
    if out is not None:
        frames = [
            pl.DataFrame(
                {"family": [one.family] * len(one.codes), "entity": list(one.codes)},
                schema={"family": pl.String, "entity": pl.String},
            ).with_columns(pl.Series("distance", one.distance), pl.Series("complement", one.complement))
            for one in found
        ]
        write_parquet(out, pl.concat(frames), {})
    if recipe is not None:
        from tallyveil.cli.show.spine import show_recipe

        chosen = next((one for one in families if one.name == name), families[0])
        if as_json or not quiet:
            show_recipe(made, recipe_of(made, chosen, code), recipe, as_json)
        return
    if quiet and not as_json:
        return
    show_table(
        ["entities", "number", "mean", "median", "90 %", "maximum"],
        [
            [one.family, len(one.codes), one.mean, one.quantile(1, 2), one.quantile(9, 10), one.maximum]
            for one in found
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
    from tallyveil.cli.areas.spine_measures import measures_of
    from tallyveil.cli.show.spine import show_rows
    from tallyveil.products.topdown.run.spine_comparison import comparison
    from tallyveil.storage.outputs import claim_file
    from tallyveil.storage.write import write_parquet

    for path in (out, each):
        if path is not None:
            claim_file(path, [first, second, *([entities] if entities is not None else [])])
    measures, name = measures_of(strategy, schema, exact or [])
    others = measures if second_strategy is None else measures_of(second_strategy, schema, exact or [])[0]
    frame, areas, parameters = comparison((first, second), (measures, others), entities, family or [])
    if out is not None:
        write_parquet(out, frame, {"schema": name})
    if each is not None:
        write_parquet(each, areas, {"schema": name})
    if as_json or not quiet:
        show_rows(frame, parameters, as_json)


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
    from tallyveil.cli.areas.spine_measures import measures_of
    from tallyveil.cli.show.area_changes import warn
    from tallyveil.cli.show.spine import show_fitted
    from tallyveil.products.topdown.run.fitted_spine import fitted

    made = fitted(file, measures_of(strategy, schema, exact or [])[0], target, entities, each)
    show_fitted(made, as_json)
    warn(made.losses)


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
    from tallyveil.geography.spine_files import read_spine_file
    from tallyveil.products.topdown.page.spine import write_spine_page
    from tallyveil.products.topdown.run.spine_inputs import read_points
    from tallyveil.storage.outputs import claim_file

    claim_file(out, [file, *([points] if points is not None else [])])
    made, shares = read_spine_file(file)
    located = read_points(points) if points is not None else None
    page = write_spine_page(out, made, shares, located, county=county, within=within, group=group)
    give({"page": str(page)}, [str(page)], quiet=quiet, as_json=as_json)
