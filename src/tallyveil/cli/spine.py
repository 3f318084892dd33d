"""`tallyveil spine`: make a spine, and say what it is good for. Public geography only; no records are opened."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tallyveil.cli.arguments import Quiet
from tallyveil.cli.terminal import say
from tallyveil.cli.whole_help import WholeHelp

spine = typer.Typer(
    name="spine",
    cls=WholeHelp,
    no_args_is_help=True,
    help="Make a geographic spine, and say what it is good for.",
)

Entities = Annotated[
    Path | None,
    typer.Option("--entities", help="Table of off-spine entities: geocode, and a column for each family."),
]
Family = Annotated[
    list[str] | None,
    typer.Option(
        "--family",
        metavar="COLUMN",
        help="Family of entities; may be repeated. Default: every column of text.",
    ),
]
StrategyName = Annotated[
    str | None, typer.Option("--strategy", metavar="PRESET", help="Strategy whose shares and queries count.")
]
SchemaName = Annotated[str, typer.Option("--schema", help="Schema preset of the strategy's queries.")]
Exact = Annotated[
    list[str] | None,
    typer.Option(
        "--exact", metavar="GEOLEVEL", help="Geolevel whose totals are published exactly; may be repeated."
    ),
]
SpineFile = Annotated[Path, typer.Argument(help="A spine made by `tallyveil spine build`.", metavar="SPINE")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@spine.command()
def build(
    geography: Annotated[
        Path, typer.Option("--geography", help="One row for each block, a column for each geolevel.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The spine (Parquet).")],
    entities: Entities = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="Steps of a production spine; without it, the plain spine.")
    ] = None,
    geolevels: Annotated[
        str | None, typer.Option("--geolevels", help="Geolevels, root first, with commas; without a preset.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", metavar="GEOLEVEL=COLUMN", help="Column of a geolevel.")
    ] = None,
    strategy: StrategyName = None,
    schema: SchemaName = "pl94-persons",
    exact: Exact = None,
    regroup: Annotated[
        str | None,
        typer.Option(
            "--regroup",
            metavar="GEOLEVEL",
            help="Then choose its groups by variance: never for the worse for --aim, within --most-loss for all else.",
        ),
    ] = None,
    aim: Annotated[
        list[str] | None,
        typer.Option(
            "--aim",
            metavar="NAME[=WEIGHT]",
            help="Family or geolevel --regroup is for; may be repeated. The preset's families join with weight 1. "
            "The geolevel that is regrouped stands for the geounits it has in the geography table.",
        ),
    ] = None,
    most_loss: Annotated[
        str,
        typer.Option(
            "--most-loss",
            metavar="FRACTION",
            help="--regroup: part by which the mean standard deviation of every other family of the entity table, or "
            "geolevel of the geography, may grow.",
        ),
    ] = "1/20",
    reference: Annotated[
        Literal["steps", "geography"],
        typer.Option(
            "--reference",
            help="--most-loss: counted from the spine that the steps make, or from the geography as it is.",
        ),
    ] = "steps",
    may_worsen: Annotated[
        list[str] | None,
        typer.Option(
            "--may-worsen",
            metavar="NAME",
            help="--regroup: family or geolevel without --most-loss, and not added to the aim; may be repeated.",
        ),
    ] = None,
    cutoff: Annotated[
        int,
        typer.Option(
            "--cutoff", min=0, help="--regroup: at most the square root of n, and this, children a group."
        ),
    ] = 12,
    maximum: Annotated[
        bool, typer.Option("--maximum", help="Aim at the greatest variance instead of the weighted sum.")
    ] = False,
    bypass: Annotated[
        bool, typer.Option(help="Bypass as the preset says, where a strategy gives shares.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Make a spine by the steps of a preset, and optionally choose groups by the variances they lead to."""
    from tallyveil.budget.caps import Reference
    from tallyveil.budget.spine.matrices import require_affordable
    from tallyveil.cli.show.area_changes import show_changes
    from tallyveil.execution.topdown.spine_build import BuildFlags, built
    from tallyveil.geography.spine_files import write_spine
    from tallyveil.storage.outputs import claim_file

    claim_file(out, [geography, *([entities] if entities is not None else [])])
    found = built(
        BuildFlags(
            geography, entities, preset, geolevels, column or [], strategy, schema, exact or [], regroup, aim or [],
            cutoff, maximum, most_loss, Reference(reference), may_worsen or [], bypass,
        )
    )  # fmt: skip
    made = found.made
    if made.shares is not None:
        require_affordable(made.spine, made.shares)
    write_spine(out, made.spine, made.shares, found.aimed)
    if not quiet:
        say(f"{out}: {made.spine!r}")
    if preset is not None or regroup is not None:
        show_changes(found.changes, quiet=quiet)


@spine.command()
def distance(
    file: SpineFile,
    entities: Annotated[Path, typer.Option("--entities", help="Table of off-spine entities.")],
    family: Family = None,
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", metavar="FAMILY:ENTITY", help="Show the geounits that make one entity."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Distances of all entities (Parquet).")] = None,
    as_json: AsJson = False,
) -> None:
    """How many geounits must be added or subtracted to make each entity."""
    import polars as pl

    from tallyveil.execution.topdown.spine_inputs import read_families
    from tallyveil.geography import off_spine_distances, recipe_of
    from tallyveil.geography.spine_files import read_spine_file
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
        show_recipe(made, recipe_of(made, chosen, code), recipe, as_json)
        return
    _show(
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
    second: Annotated[Path, typer.Argument(help="Another spine over the same blocks.", metavar="SPINE")],
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="PRESET", help="Strategy of the first spine.")
    ],
    entities: Entities = None,
    family: Family = None,
    second_strategy: Annotated[
        str | None,
        typer.Option("--second-strategy", metavar="PRESET", help="Strategy of the second, if another."),
    ] = None,
    schema: SchemaName = "pl94-persons",
    exact: Exact = None,
    out: Annotated[Path | None, typer.Option("--out", help="The same numbers (Parquet).")] = None,
    each: Annotated[
        Path | None,
        typer.Option("--each", help="Of every geounit of the first and every entity, on both (Parquet)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Standard deviation of the total, on two spines: the first's geounits, every family, the second's geounits.

    Under generalised least squares of all measurements, before counts are made non-negative and whole. Nothing is
    drawn: these numbers follow from the spines and the strategy.
    """
    from tallyveil.cli.show.spine import show_rows
    from tallyveil.execution.topdown.spine_comparison import comparison
    from tallyveil.storage.outputs import claim_file
    from tallyveil.storage.write import write_parquet

    for path in (out, each):
        if path is not None:
            claim_file(path, [first, second, *([entities] if entities is not None else [])])
    frame, areas, parameters = comparison(
        (first, second), (strategy, second_strategy or strategy), entities, family or [], schema, exact or []
    )
    if out is not None:
        write_parquet(out, frame, {"schema": schema})
    if each is not None:
        write_parquet(each, areas, {"schema": schema})
    show_rows(frame, parameters, as_json)


@spine.command()
def fit(
    file: SpineFile,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="PRESET", help="Strategy whose queries are kept.")
    ],
    target: Annotated[
        list[str],
        typer.Option(
            "--target", metavar="NAME=SD", help="Standard deviation wanted of a geolevel or family."
        ),
    ],
    entities: Entities = None,
    each: Annotated[
        bool, typer.Option("--every", help="Of every single one, not of their mean variance.")
    ] = False,
    schema: SchemaName = "pl94-persons",
    exact: Exact = None,
    as_json: AsJson = False,
) -> None:
    """Shares by geolevel that meet stated accuracy with the least budget, beside the strategy's own."""
    from tallyveil.cli.show.area_changes import warn
    from tallyveil.cli.show.spine import show_fitted
    from tallyveil.execution.topdown.fitted_spine import fitted

    made = fitted(file, strategy, target, entities, each, schema, exact or [])
    show_fitted(made, as_json)
    warn(made.losses)


@spine.command()
def show(
    file: SpineFile,
    out: Annotated[Path, typer.Option("--out", help="The page (HTML), self-contained.")],
    entities: Annotated[
        Path | None,
        typer.Option("--entities", help="Table with geocode, latitude and longitude, for the map."),
    ] = None,
    county: Annotated[
        str | None,
        typer.Option("--county", metavar="GEOCODE", help="Geounit to draw; one of middling size without it."),
    ] = None,
    within: Annotated[
        str, typer.Option("--within", help="Geolevel of the geounit that is drawn.")
    ] = "County",
    group: Annotated[str, typer.Option("--group", help="Geolevel that colours the blocks.")] = "Block_Group",
    quiet: Quiet = False,
) -> None:
    """Write a page with the spine's fan-outs and a map of one county's blocks coloured by group."""
    from tallyveil.execution.topdown.spine_inputs import read_points
    from tallyveil.geography.spine_files import read_spine_file
    from tallyveil.report.spine_page import write_spine_page
    from tallyveil.storage.outputs import claim_file

    claim_file(out, [file, *([entities] if entities is not None else [])])
    made, shares = read_spine_file(file)
    points = read_points(entities) if entities is not None else None
    page = write_spine_page(out, made, shares, points, county=county, within=within, group=group)
    if not quiet:
        say(str(page))


def _show(headings: list[str], rows: list[list[Any]], as_json: bool) -> None:
    from tallyveil.cli.show.number_table import show_table

    show_table(headings, rows, as_json)
