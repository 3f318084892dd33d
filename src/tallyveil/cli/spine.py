"""`tallyveil spine`: make a spine, and say what it is good for. Public geography only; no records are opened."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tallyveil.budget import Strategy
    from tallyveil.budget.regroup import Regrouped
    from tallyveil.geography import EntityFamily
    from tallyveil.geography.optimise import OptimisedSpine

spine = typer.Typer(
    name="spine", no_args_is_help=True, help="Make a geographic spine, and say what it is good for."
)

Entities = Annotated[
    Path | None,
    typer.Option("--entities", help="Table of off-spine entities: geocode, and a column for each family."),
]
Family = Annotated[
    list[str] | None,
    typer.Option(
        "--family", metavar="COLUMN", help="Family of entities; may be repeated. Default: the usual ones."
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
PLAIN = ("US", "State", "County", "Tract", "Block_Group", "Block")


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
            "--regroup", metavar="GEOLEVEL", help="Then choose its groups by variance, never for the worse."
        ),
    ] = None,
    aim: Annotated[
        list[str] | None,
        typer.Option(
            "--aim",
            metavar="NAME[=WEIGHT]",
            help="Family or geolevel --regroup is for; may be repeated. The geolevel that is regrouped stands for the "
            "geounits it has in the geography table.",
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
) -> None:
    """Make a spine by the steps of a preset, and optionally choose groups by the variances they lead to."""
    from tallyveil.budget.spine_matrices import require_affordable
    from tallyveil.geography.spine_files import write_spine
    from tallyveil.storage.outputs import claim_file

    claim_file(out, [geography, *([entities] if entities is not None else [])])
    made, groups = _built(
        geography, entities, preset, geolevels, column or [], strategy, schema, exact or [], regroup, aim or [],
        cutoff, maximum, bypass,
    )  # fmt: skip
    if made.shares is not None:
        require_affordable(made.spine, made.shares)
    write_spine(out, made.spine, made.shares)
    typer.echo(f"{out}: {made.spine!r}")
    if groups is not None:
        for one, two in zip(groups.before, groups.after, strict=True):
            typer.echo(
                f"  {one.name}: standard deviation {one.mean**0.5:.3f} -> {two.mean**0.5:.3f} (root mean square), "
                f"greatest {one.greatest**0.5:.3f} -> {two.greatest**0.5:.3f}"
            )


def _built(
    geography: Path,
    entities: Path | None,
    preset: str | None,
    geolevels: str | None,
    columns: list[str],
    strategy: str | None,
    schema: str,
    exact: list[str],
    regroup: str | None,
    aim: list[str],
    cutoff: int,
    maximum: bool,
    bypassing: bool,
) -> "tuple[OptimisedSpine, Regrouped | None]":
    from dataclasses import replace

    from tallyveil.budget.regroup import GIVEN
    from tallyveil.budget.spine_accuracy import geounits_as_entities
    from tallyveil.budget.spine_presets import load_spine_preset
    from tallyveil.cli.spine_inputs import read_families, read_geography, read_strategy
    from tallyveil.errors import ConfigError
    from tallyveil.geography import Reshaped, optimise_spine, uniform_shares
    from tallyveil.geography.bypass import bypass as bypass_spine
    from tallyveil.geography.optimise import further

    if preset is not None and geolevels is not None:
        raise ConfigError("a preset names its geolevels: give --preset or --geolevels.", code="bad-flag")
    if regroup is not None and strategy is None:
        raise ConfigError("--regroup needs variances, and so a --strategy.", code="bad-flag")
    steps = load_spine_preset(preset) if preset is not None else None
    names = steps.geolevels if steps else tuple((geolevels or ",".join(PLAIN)).split(","))
    plain = read_geography(geography, names, columns)
    needed = steps.families if steps else ()
    more = [item.partition("=")[0] for item in aim]
    wanted = [*needed, *(name for name in more if name not in plain.geolevels and name not in needed)]
    families = read_families(entities, plain, wanted, geography) if wanted else ()
    if regroup in plain.geolevels and regroup in more:
        areas = geounits_as_entities(plain, plain.level_index(regroup))
        families = (*families, replace(areas, name=GIVEN + regroup))
    made = optimise_spine(plain, families, steps.steps if steps else ())
    groups = None
    plan, summed = read_strategy(strategy, schema) if strategy is not None else (None, {})
    if regroup is not None and plan is not None:
        groups = _regroup(made, families, plan, summed, exact, regroup, aim, cutoff, maximum)
        made = further(plain, made, Reshaped(groups.spine, groups.rows))
    if plan is not None:
        shares = uniform_shares(made.spine, dict(plan.geolevel_shares))
        made = replace(made, shares=shares)
        if bypassing and steps is not None and steps.bypassing is not None:
            moved, shares = bypass_spine(made.spine, shares, steps.bypassing)
            made = further(plain, made, moved, shares)
    return made, groups


def _regroup(
    made: "OptimisedSpine",
    families: "tuple[EntityFamily, ...]",
    plan: "Strategy",
    summed: dict[str, int],
    exact: list[str],
    geolevel: str,
    aim: list[str],
    cutoff: int,
    maximum: bool,
) -> "Regrouped":
    from fractions import Fraction

    from tallyveil.budget.precision import precision_of
    from tallyveil.budget.regroup import GIVEN, Aim, Measure, group_by_variance
    from tallyveil.cli.spine_inputs import weights
    from tallyveil.geography import FanOutLimit

    moved = [family.reordered(made.rows) for family in families]
    known = [family.name for family in moved if family.n_entities]
    levels = [name for name in made.spine.geolevels if name != geolevel]
    asked = [GIVEN + item if item.partition("=")[0] == geolevel else item for item in aim]
    chosen = weights(asked or known, [*known, *levels])
    own = dict(plan.geolevel_shares)
    precisions = {
        name: float("inf")
        if name in exact
        else float(precision_of(plan, name, own.get(name, Fraction(0)), summed))
        for name in made.spine.geolevels
    }
    return group_by_variance(
        made.spine,
        moved,
        precisions,
        geolevel=geolevel,
        limit=FanOutLimit(cutoff=cutoff),
        aim=Aim(
            tuple((name, weight) for name, weight in chosen.items() if name in known),
            tuple((name, weight) for name, weight in chosen.items() if name not in known),
            Measure.MAXIMUM if maximum else Measure.SUM,
        ),
    )


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

    from tallyveil.cli.spine_inputs import read_families
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
        from tallyveil.cli.spine_tables import show_recipe

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
    from tallyveil.cli.spine_tables import comparison, show_rows
    from tallyveil.storage.outputs import claim_file
    from tallyveil.storage.write import write_parquet

    for path in (out, each):
        if path is not None:
            claim_file(path, [first, second, *([entities] if entities is not None else [])])
    frame, areas = comparison(
        (first, second), (strategy, second_strategy or strategy), entities, family or [], schema, exact or []
    )
    if out is not None:
        write_parquet(out, frame, {"schema": schema})
    if each is not None:
        write_parquet(each, areas, {"schema": schema})
    show_rows(frame, as_json)


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
        bool, typer.Option("--each", help="Of every single one, not of their mean variance.")
    ] = False,
    schema: SchemaName = "pl94-persons",
    exact: Exact = None,
    as_json: AsJson = False,
) -> None:
    """Shares by geolevel that meet stated accuracy with the least budget, beside the strategy's own."""
    from tallyveil.cli.spine_tables import fitted

    rows, lines = fitted(file, strategy, target, entities, each, schema, exact or [])
    _show(["geolevel", "share", "strategy's own"], rows, as_json)
    if not as_json:
        for line in lines:
            typer.echo(line)


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
) -> None:
    """Write a page with the spine's fan-outs and a map of one county's blocks coloured by group."""
    from tallyveil.cli.spine_inputs import read_points
    from tallyveil.geography.spine_files import read_spine_file
    from tallyveil.report.spine_page import write_spine_page
    from tallyveil.storage.outputs import claim_file

    claim_file(out, [file, *([entities] if entities is not None else [])])
    made, shares = read_spine_file(file)
    points = read_points(entities) if entities is not None else None
    typer.echo(str(write_spine_page(out, made, shares, points, county=county, within=within, group=group)))


def _show(headings: list[str], rows: list[list[Any]], as_json: bool) -> None:
    from tallyveil.cli.spine_tables import show_table

    show_table(headings, rows, as_json)
