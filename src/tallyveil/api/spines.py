"""Spines from Python: build, measure, compare and show them, from public geography alone. No records are opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tallyveil.api.arguments import AnyPath, Flag, Names, Text, WholeNumber, checked
from tallyveil.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.budget.spine.variance import TotalMeasures
    from tallyveil.geography.areas import AreaChange
    from tallyveil.geography.entities import OffSpineDistances
    from tallyveil.geography.spine import Spine
    from tallyveil.products.topdown.run.spine_design import FittedSpine

_SCHEMA: Final = "pl94-persons"
"""Schema preset of a strategy preset if no other is named."""


@dataclass(frozen=True, slots=True, eq=False)
class BuiltSpine:
    """A spine that was written.

    Attributes:
        path: Its file.
        spine: The spine.
        changes: What it changes for every family and geolevel; none without a preset and without chosen groups.
    """

    path: Path
    spine: "Spine"
    changes: "Sequence[AreaChange]"

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        from tallyveil.products.topdown.run.spine_making import changes_record

        # In the spine's order, so that plain data lists the root first.
        sizes = dict(zip(self.spine.geolevels, map(len, self.spine.geocodes), strict=True))
        return {"out": str(self.path), "geounits": sizes, **changes_record(self.changes)}


@dataclass(frozen=True, slots=True, eq=False)
class SpineDistances:
    """Off-spine distances of entities.

    Attributes:
        families: The distances of each family.
        recipe: The geounits that are added (1) and subtracted (-1) to make one entity, with their geolevels; None if no
            recipe was asked for.
    """

    families: "tuple[OffSpineDistances, ...]"
    recipe: tuple[tuple[int, str, str], ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class SpineComparison:
    """Standard deviations of totals, and off-spine distances, on two spines.

    Attributes:
        kinds: A row for each kind of area. With free groups, `bound_mean` is a mean that no groups reach below on the
            second spine, and `gap` the part by which its own mean is above it. For families of entities, no
            groups make the mean smaller than `shared_mean`, unless they make the mean standard deviation over all
            families greater; `shared_gap` is the part by which the mean is above it.
        areas: A row for each geounit of the first spine and each entity; `bound` is the least standard deviation that
            any groups could give it.
        distances: A row for each family of entities: off-spine distances, with bounds as above.
        parameters: The privacy parameters of both strategies, a row for each geolevel.
    """

    kinds: "pl.DataFrame"
    areas: "pl.DataFrame"
    distances: "pl.DataFrame"
    parameters: list[dict[str, Any]]


@checked
def build_spine(
    geography: AnyPath,
    out: AnyPath,
    *,
    entities: AnyPath | None = None,
    preset: Text | None = None,
    geolevels: Names | None = None,
    columns: Names = (),
    strategy: Text | None = None,
    schema: Text | None = None,
    exact: Names = (),
    regroup: Text | None = None,
    aim: Names = (),
    most_loss: Text = "1/20",
    reference: Literal["steps", "geography"] = "steps",
    may_worsen: Names = (),
    cutoff: WholeNumber = 12,
    maximum: Flag = False,
    bypass: Flag = True,
    every_query: Flag = False,
) -> BuiltSpine:
    """Make a spine by the steps of a preset, and optionally choose groups by the resulting variances.

    Args:
        geography: Public table of all finest geounits. It has a column for each geolevel.
        out: File of the spine (Parquet).
        entities: Public table of off-spine entities.
        preset: Preset with the steps of a production spine; None for the geography as it is.
        geolevels: Geolevels from the root down. Not with a preset.
        columns: "GEOLEVEL=COLUMN" of geolevels whose geocodes are in a column of another name.
        strategy: Strategy preset, or path of a release file, with the queries and the shares of the budget.
        schema: Schema preset of a strategy preset; None for pl94-persons.
        exact: Geolevels whose totals are published exactly, with a strategy preset.
        regroup: Geolevel whose groups are chosen by variance after the steps. It needs a strategy.
        aim: "NAME" or "NAME=WEIGHT" of families or geolevels whose variance is minimised. The families of the preset
            are added with weight 1.
        most_loss: Fraction by which the mean standard deviation of other areas may grow, as text.
        reference: Whether `most_loss` compares with the spine that the steps make, or with the geography as it is.
        may_worsen: Families and geolevels to which `most_loss` does not apply, and which are not added to the aim.
        cutoff: A group has at most this number of children plus the square root of the number of siblings.
        maximum: Whether the greatest variance is minimised instead of the weighted sum.
        bypass: Whether geounits are bypassed, if the preset does so and a strategy gives shares.
        every_query: Bypass geounits where no query gets a greater variance, with a preset or without, in the place of
            the rule of the mechanism. It needs a strategy.
    Raises:
        ConfigError: arguments that do not fit each other.
        GeographyError, BudgetError, StoreError: as reading, the steps and the search do.
    """
    from tallyveil.budget.allocation import require_affordable
    from tallyveil.budget.caps import Reference
    from tallyveil.geography.tables import write_spine
    from tallyveil.products.topdown.run.spine_design import BuildFlags, built
    from tallyveil.storage.outputs import claim_file

    table, file = Path(geography), Path(out)
    areas = None if entities is None else Path(entities)
    # Claimed before the work, which can take minutes; an input is never overwritten.
    claim_file(file, [table, *([areas] if areas is not None else [])])
    measures = None if strategy is None else _measures_of(strategy, schema, exact)[0]
    result = built(
        BuildFlags(
            table, areas, preset, geolevels, columns, measures, regroup, aim,
            cutoff, maximum, most_loss, Reference(reference), may_worsen, bypass, every_query,
        )
    )  # fmt: skip
    spine, shares = result.spine.spine, result.spine.shares
    if shares is not None:  # of a spine that costs more than its strategy, nothing is written
        require_affordable(spine, shares)
    write_spine(file, spine, shares, result.aimed)
    return BuiltSpine(file, spine, result.changes if preset is not None or regroup is not None else ())


@checked
def spine_distances(
    spine: AnyPath,
    entities: AnyPath,
    families: Names = (),
    *,
    recipe: Text | None = None,
    out: AnyPath | None = None,
) -> SpineDistances:
    """The off-spine distance of each entity: the number of geounits to add or subtract.

    Args:
        spine: File of the spine.
        entities: Public table of off-spine entities.
        families: Columns of `entities`; none for the family of the recipe, or else for every text column.
        recipe: "FAMILY:ENTITY" of an entity whose geounits are wanted.
        out: File for the distances of all entities (Parquet); None to write none.
    Raises:
        GeographyError, SchemaError, StoreError: the table does not fit the spine, or a file cannot be read or written.
    """
    import polars as pl

    from tallyveil.geography.entities import off_spine_distances, recipe_of
    from tallyveil.geography.tables import read_spine_file
    from tallyveil.products.topdown.run.spine_design import read_families
    from tallyveil.storage.outputs import claim_file
    from tallyveil.storage.write import write_parquet

    if out is not None:
        claim_file(Path(out), [Path(spine), Path(entities)])
    geounits, _ = read_spine_file(Path(spine))
    name, _, code = (recipe or "").partition(":")
    # A recipe names its family, so that no other column need be read.
    read = read_families(Path(entities), geounits, list(families) or ([name] if name else []))
    distances = tuple(off_spine_distances(geounits, family) for family in read)
    if out is not None:
        frames = [
            pl.DataFrame(
                {"family": [family.family] * len(family.codes), "entity": list(family.codes)},
                schema={"family": pl.String, "entity": pl.String},
            ).with_columns(pl.Series("distance", family.distance), pl.Series("complement", family.complement))
            for family in distances
        ]
        write_parquet(Path(out), pl.concat(frames), {})
    if recipe is None:
        return SpineDistances(distances, None)
    chosen = next((family for family in read if family.name == name), read[0])
    return SpineDistances(distances, tuple(recipe_of(geounits, chosen, code).lines(geounits)))


@checked
def compare_spines(
    first: AnyPath,
    second: AnyPath,
    *,
    strategy: Text,
    second_strategy: Text | None = None,
    entities: AnyPath | None = None,
    families: Names = (),
    schema: Text | None = None,
    exact: Names = (),
    grouped: Names = (),
    cutoff: WholeNumber = 12,
    out: AnyPath | None = None,
    each: AnyPath | None = None,
) -> SpineComparison:
    """Compare the standard deviations of totals on two spines: geounits of each spine, and every family of entities.

    The standard deviations are those of generalised least squares with all measurements, before counts are made
    non-negative and integer. No noise is drawn: the numbers follow from the spines and the strategy.

    Args:
        first, second: Files of two spines with the same blocks.
        strategy: Strategy preset, or path of a release file, of the first spine.
        second_strategy: That of the second spine; None for the same.
        entities: Public table of off-spine entities.
        families: Columns of `entities`; none for every text column.
        schema, exact: As for `build_spine`.
        grouped: Geolevels of the second spine that consist of groups. Bounds are computed on what any other groups
            could reach, with the groups of all of them free. Standard deviations have no bounds over groups of two
            geolevels of higher geounits than the finest, nor over any of these where geounits are bypassed.
        cutoff: The groups have at most this number of children plus the square root of the number of siblings.
        out: File for the rows of all kinds of areas (Parquet).
        each: File for the rows of all areas (Parquet).
    Raises:
        GeographyError: the spines are not over the same blocks.
        BudgetError: a spine has more to spend than the strategy allows, or does not fit it.
    """
    from tallyveil.geography.distance_bounds import FreeGroups
    from tallyveil.geography.steps import FanOutLimit
    from tallyveil.products.topdown.run.spine_comparison import comparison
    from tallyveil.storage.outputs import claim_file
    from tallyveil.storage.write import write_parquet

    table = None if entities is None else Path(entities)
    # Both outputs are claimed before either is computed.
    for path in (out, each):
        if path is not None:
            claim_file(Path(path), [Path(first), Path(second), *([table] if table is not None else [])])
    measures, name = _measures_of(strategy, schema, exact)
    # Without a second strategy both spines are measured alike, and only the spines differ.
    others = measures if second_strategy is None else _measures_of(second_strategy, schema, exact)[0]
    free = FreeGroups(tuple(dict.fromkeys(grouped)), FanOutLimit(cutoff=cutoff)) if grouped else None
    compared = comparison((Path(first), Path(second)), (measures, others), table, list(families), free)
    if out is not None:
        write_parquet(Path(out), compared.kinds, {"schema": name})
    if each is not None:
        write_parquet(Path(each), compared.each, {"schema": name})
    return SpineComparison(compared.kinds, compared.each, compared.distances, compared.parameters)


@checked
def fit_shares(
    spine: AnyPath,
    targets: Names,
    *,
    strategy: Text,
    entities: AnyPath | None = None,
    every: Flag = False,
    schema: Text | None = None,
    exact: Names = (),
) -> "FittedSpine":
    """Find the shares of the geolevels that meet accuracy targets with the least budget.

    Args:
        spine: File of the spine.
        targets: "NAME=SD" of geolevels and families: the largest standard deviation of their totals.
        strategy: Strategy preset, or path of a release file. Its queries are kept.
        entities: Public table of off-spine entities.
        every: Whether every area must meet its target; otherwise the mean variance must meet it.
        schema, exact: As for `build_spine`.
    Raises:
        ConfigError: a target does not have this form.
        BudgetError: no shares meet the targets.
    """
    from tallyveil.products.topdown.run.spine_design import fitted

    measures = _measures_of(strategy, schema, exact)[0]
    return fitted(Path(spine), measures, targets, None if entities is None else Path(entities), every)


@checked
def show_spine(
    spine: AnyPath,
    out: AnyPath,
    *,
    points: AnyPath | None = None,
    county: Text | None = None,
    within: Text = "County",
    group: Text = "Block_Group",
) -> Path:
    """Write a page with the fan-outs of a spine and a map of one geounit whose blocks are coloured by group.

    Args:
        spine: File of the spine.
        out: File of the page (HTML).
        points: Table of the map: geocode, latitude and longitude; None for no map.
        county: Geocode of the geounit to draw; None for a geounit of median size.
        within: Geolevel of the geounit that is drawn.
        group: Geolevel whose geounits have one colour each.
    Returns:
        Path of the page.
    """
    from tallyveil.geography.tables import read_spine_file
    from tallyveil.products.topdown.page.spine import write_spine_page
    from tallyveil.products.topdown.run.spine_design import read_points
    from tallyveil.storage.outputs import claim_file

    table = None if points is None else Path(points)
    claim_file(Path(out), [Path(spine), *([table] if table is not None else [])])
    geounits, shares = read_spine_file(Path(spine))
    located = read_points(table) if table is not None else None
    return write_spine_page(Path(out), geounits, shares, located, county=county, within=within, group=group)


def _measures_of(strategy: str, schema: str | None, exact: Sequence[str]) -> "tuple[TotalMeasures, str]":
    """The measurements of totals under a strategy, and the name of the schema.

    Args:
        strategy: Name of a strategy preset, or path of a release file, which ends in `.toml`. Of a release file its
            queries, budget and mechanism are used, and the totals that its invariants publish.
        schema: Schema preset of a strategy preset; None for the usual one.
        exact: Geolevels whose totals are published, with a strategy preset.
    Raises:
        ConfigError: the release file is not sound, or a schema or exact totals are named beside it.
        BudgetError, SchemaError: there is no such preset, or it does not fit the schema.
    """
    # The ending tells a path from a preset's name, neither of which is looked up to find out.
    if strategy.endswith(".toml"):
        from tallyveil.plans.from_toml.load import load_plan
        from tallyveil.products.topdown.run.spine_making import total_measures

        if schema is not None or exact:
            raise ConfigError(
                f"--strategy {strategy} is a release file, which states its own schema and invariants. Leave --schema "
                "and --exact out.",
                code="bad-flag",
            )
        plan = load_plan(Path(strategy))
        return total_measures(plan), plan.schema.name
    from tallyveil.budget.presets import load_strategy_preset
    from tallyveil.budget.spine.variance import TotalMeasures, totals_summed
    from tallyveil.schema.presets import load_preset

    preset, name = load_strategy_preset(strategy).strategy, schema or _SCHEMA
    # Exact totals once each, in the order given.
    return TotalMeasures(preset, totals_summed(load_preset(name), preset), tuple(dict.fromkeys(exact))), name
