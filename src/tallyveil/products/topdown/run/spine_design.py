"""What `tallyveil spine` does with spines before any data is opened: read, build, compare, fit shares.

A spine is built from the steps of a preset, with groups chosen by variance and with bypassing. Two spines are
compared by how exact totals are on them. Shares of the geolevels are fitted to accuracy targets, beside those
of a given strategy.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.budget.caps import Reference
from tallyveil.budget.fitted_shares import AccuracyTarget, FittedShares, fit_shares
from tallyveil.budget.guarantees import cost_parameters, strategy_parameters
from tallyveil.budget.spine.bounds import variance_bounds
from tallyveil.budget.spine.presets import SpinePreset, bypass_rule, load_spine_preset, query_shares
from tallyveil.budget.spine.regroup import Measure, Regrouped
from tallyveil.budget.spine.variance import (
    AreaAccuracy,
    SpineVariances,
    TotalMeasures,
    entity_variances,
    family_accuracies,
    geolevel_accuracies,
)
from tallyveil.budget.strategy import Strategy, parse_fraction
from tallyveil.errors import BudgetError, ConfigError, GeographyError
from tallyveil.geography.areas import AreaChange, geounits_as_entities
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.distance_bounds import distance_bounds, joint_distance_bound, require_groups
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.optimise import OptimisedSpine, further, optimise_spine
from tallyveil.geography.spine import GeounitShares, Spine, uniform_shares
from tallyveil.geography.steps import FanOutLimit
from tallyveil.geography.tables import family_columns, read_aimed, read_spine_file
from tallyveil.plans.inputs import Regroup, with_protected
from tallyveil.products.topdown.run.spine_making import area_changes, choose_groups, is_worse


def read_geography(path: Path, geolevels: Sequence[str], columns: Sequence[str]) -> "Spine":
    """The plain spine of a geography table.

    Args:
        path: Parquet or CSV, one row for each finest geounit.
        geolevels: Names, root first.
        columns: "GEOLEVEL=COLUMN" where the column is not the geolevel's name in small letters (the finest:
            geocode). The first geolevel may be without column: it then is one geounit.

    Raises:
        ConfigError: a column is absent or is no text.
        GeographyError: it is no tree.
    """
    import polars as pl

    from tallyveil.geography.build import spine_from_columns
    from tallyveil.geography.tables import GEOCODE
    from tallyveil.storage.read import collect, require_text, scan_table

    named = _pairs(columns, "--column", geolevels)
    wanted = {name: named.get(name, GEOCODE if name == geolevels[-1] else name.lower()) for name in geolevels}
    root = geolevels[0]
    # A table of one country seldom has a column for it. Then the root is one geounit with the name of the geolevel.
    if len(geolevels) > 1 and wanted[root] not in _columns_of(path) and root not in named:
        del wanted[root]
    scan = scan_table(path, list(wanted.values()), "geography")
    for column in wanted.values():
        require_text(scan, column, path, "geography")
    table = collect(scan, path, "geography")
    given = {name: table[column] for name, column in wanted.items()}
    if root not in given:
        given[root] = pl.repeat(root, table.height, dtype=pl.String, eager=True)
    return spine_from_columns(given, geolevels)


def read_families(
    path: Path | None,
    spine: "Spine",
    families: Sequence[str],
    geography: Path | None = None,
    *,
    blank: bool = False,
) -> "tuple[EntityFamily, ...]":
    """Families of a table of entities, on a spine.

    Args:
        path: Parquet or CSV with a row for each finest geounit and a column for each family; None for none.
        spine: The spine.
        families: Columns; empty for every column of text that is no geolevel of the spine (`family_columns`).
        geography: Table to take a column from that the table of entities lacks, such as block_group.
        blank: Whether an empty text stands for "in none", as null does; so it does where no columns are named.

    Raises:
        ConfigError: a column is absent, or families without a table.
        GeographyError: the table does not fit the spine.
    """
    import polars as pl

    from tallyveil.geography.tables import GEOCODE, entities_from_columns, family_columns, read_assignments
    from tallyveil.storage.read import read_table

    if path is None:
        if families:
            raise ConfigError(
                f"families {', '.join(families)} need a table of entities: give --entities FILE.",
                code="bad-flag",
            )
        return ()
    chosen = list(families) or [name for name in family_columns(path) if name not in spine.geolevels]
    # A family that only the geography table has, such as the block group, is joined by geocode; the order stays.
    beside = [name for name in chosen if geography is not None and name not in _columns_of(path)]
    beside = [name for name in beside if geography is not None and name in _columns_of(geography)]
    in_table = [name for name in chosen if name not in beside]
    table = read_assignments(path, in_table, "entities")
    if beside and geography is not None:
        others = read_table(geography, [GEOCODE, *beside], "geography")
        table = table.join(others, on=GEOCODE, how="left", maintain_order="left")
    if blank or not families:
        table = table.with_columns(pl.col(name).replace("", None) for name in chosen)
    return entities_from_columns(spine, {name: table[name] for name in table.columns}, chosen)


def read_points(path: Path) -> "pl.DataFrame | None":
    """Geocode, latitude and longitude of every block, where the table has them."""
    from tallyveil.geography.tables import COORDINATES, read_assignments

    if not set(COORDINATES) <= set(_columns_of(path)):
        return None
    return read_assignments(path, COORDINATES, "entities")


def weights(given: Sequence[str], known: Sequence[str]) -> dict[str, Fraction]:
    """Exact weights written "NAME" or "NAME=WEIGHT".

    Raises:
        ConfigError: a weight that is no number above 0, or an unknown name.
    """
    from tallyveil.budget.strategy import parse_fraction
    from tallyveil.errors import TallyveilError

    by_name = {}
    for item in given:
        name, _, text = item.partition("=")
        try:
            value = parse_fraction(text or "1", "weight")
        except TallyveilError:
            # Refused below, with the same sentence as a weight of 0.
            value = Fraction(0)
        if not value > 0 or name not in known:
            raise ConfigError(
                f"'{item}' is no name with a weight above 0; wanted NAME or NAME=WEIGHT, where NAME is one of "
                f"{', '.join(known)}.",
                code="bad-flag",
            )
        by_name[name] = value
    return by_name


def _pairs(given: Sequence[str], flag: str, known: Sequence[str]) -> dict[str, str]:
    pairs = dict(item.partition("=")[::2] for item in given)
    wrong = [item for item in given if item.partition("=")[0] not in known or not item.partition("=")[2]]
    if wrong:
        raise ConfigError(
            f"{flag} {wrong[0]}: wanted GEOLEVEL=COLUMN with a geolevel among {', '.join(known)}.",
            code="bad-flag",
        )
    return pairs


def _columns_of(path: Path) -> list[str]:
    from tallyveil.errors import StoreError
    from tallyveil.storage.read import column_names

    try:
        return list(column_names(path, "geography"))
    except StoreError:
        return []  # reading it says what is wrong


PLAIN = ("US", "State", "County", "Tract", "Block_Group", "Block")


@dataclass(frozen=True, slots=True)
class BuildFlags:
    """The flags of `tallyveil spine build`, as they are given, and the measurements of the strategy that they name."""

    geography: Path
    entities: Path | None
    preset: str | None
    geolevels: Sequence[str] | None
    columns: Sequence[str]
    measures: TotalMeasures | None
    regroup: str | None
    aim: Sequence[str]
    cutoff: int
    maximum: bool
    most_loss: str
    reference: Reference
    may_worsen: Sequence[str]
    bypass: bool
    every_query: bool


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """What was made.

    Attributes:
        spine: The spine, with the rows of its finest geounits and its shares.
        aimed: Families and geolevels that its groups were chosen for.
        changes: What the spine changes for every family and geolevel; empty without a strategy.
    """

    spine: OptimisedSpine
    aimed: tuple[str, ...]
    changes: tuple[AreaChange, ...]


def built(flags: BuildFlags) -> Built:
    """Make a spine as flags say.

    Raises:
        ConfigError: flags that do not fit each other.
        GeographyError, BudgetError, StoreError: as reading, the steps and the search do.
    """
    if flags.preset is not None and flags.geolevels is not None:
        raise ConfigError(
            "a preset has geolevels of its own: give --preset or --geolevels, and not both.", code="bad-flag"
        )
    if flags.regroup is not None and flags.measures is None:
        raise ConfigError(
            "--regroup needs variances, which follow from a strategy. Give --strategy as well.",
            code="bad-flag",
        )
    if flags.every_query and (flags.measures is None or not flags.bypass):
        raise ConfigError(
            "--every-query chooses which geounits are bypassed, by the queries of a strategy. Give --strategy as well, "
            "and leave --no-bypass out.",
            code="bad-flag",
        )
    # A preset brings its geolevels; flags are checked first, since reading the geography can take long.
    preset = load_spine_preset(flags.preset) if flags.preset is not None else None
    names = preset.geolevels if preset else tuple(flags.geolevels or PLAIN)
    plain = read_geography(flags.geography, names, flags.columns)
    families = _families(flags, plain, preset)
    # The spine after its steps is kept apart: what groups and bypassing change is told against it.
    steps = optimise_spine(plain, families, preset.steps if preset else ())
    measures = flags.measures
    if measures is None:
        return Built(steps, (), ())
    optimised = steps
    groups: Regrouped | None = None
    aimed: tuple[str, ...] = ()
    if flags.regroup is not None:
        asked = _asked(flags, preset, steps.spine, families)
        optimised, groups = choose_groups(asked, plain, steps, families, measures.made_into(plain, steps))
        aimed = tuple(name for name, _ in asked.aim)
    # Without bypassing, all geounits of a geolevel have the share of the strategy.
    shares = uniform_shares(optimised.spine, dict(measures.strategy.geolevel_shares))
    optimised = replace(optimised, shares=shares)
    if flags.every_query or (flags.bypass and preset is not None and preset.bypasses):
        rule = BypassRule.EVERY_QUERY if flags.every_query else bypass_rule(measures.strategy.mechanism)
        queries = query_shares(measures.strategy, optimised.spine.geolevels)
        moved, shares = bypass(optimised.spine, shares, rule, queries=queries)
        optimised = further(plain, optimised, moved, shares)
    return Built(optimised, aimed, area_changes(plain, families, measures, steps, optimised, groups, aimed))


def _families(flags: BuildFlags, plain: Spine, preset: SpinePreset | None) -> tuple[EntityFamily, ...]:
    """The families that flags name, and all others of the entity table, so that every loss is seen."""
    needed = preset.families if preset else ()
    geolevels = (*plain.geolevels, *(preset.result if preset else ()))
    asked = [item.partition("=")[0] for item in flags.aim]
    wanted = tuple(dict.fromkeys((*needed, *(name for name in asked if name not in geolevels))))
    families = read_families(flags.entities, plain, wanted, flags.geography) if wanted else ()
    if flags.entities is None:
        return families
    # Families outside the aim are limited by the search and reported, so that no loss is hidden.
    others = [name for name in family_columns(flags.entities) if name not in (*wanted, *geolevels)]
    return (*families, *(read_families(flags.entities, plain, others, blank=True) if others else ()))


def _asked(
    flags: BuildFlags, preset: SpinePreset | None, spine: Spine, families: Sequence[EntityFamily]
) -> Regroup:
    known = [family.name for family in families if family.n_entities]
    needed = [name for name in known if preset is None or name in preset.families]
    most_loss = parse_fraction(flags.most_loss, "--most-loss")
    if most_loss < 0:
        raise ConfigError(
            f"--most-loss {flags.most_loss} is negative. Give a number of 0 or more, such as 1/20.",
            code="bad-flag",
        )
    both = [item for item in flags.aim if item.partition("=")[0] in flags.may_worsen]
    if both:
        raise ConfigError(
            f"--aim {both[0]}: --may-worsen names it as well. Name it in one of the two.", code="bad-flag"
        )
    # Without --aim, the families that the preset was made for are the aim, all with weight 1.
    default = [name for name in needed if name not in flags.may_worsen]
    asked = Regroup(
        flags.regroup or "",
        FanOutLimit(cutoff=flags.cutoff),
        tuple(weights(flags.aim or default, [*known, *spine.geolevels]).items()),
        Measure.MAXIMUM if flags.maximum else Measure.SUM,
        Fraction(most_loss),
        flags.reference,
        tuple(dict.fromkeys(flags.may_worsen)),
    )
    return with_protected(asked, preset.steps if preset else ())


MEASURES = ("mean", "median", "q90", "greatest")


@dataclass(frozen=True, slots=True)
class FreeGroups:
    """Geolevels whose groups might be chosen otherwise, for bounds on what any choice could reach.

    Attributes:
        geolevels: Geolevels of the second spine that consist of groups.
        limit: Largest number of children of a group.
    """

    geolevels: tuple[str, ...]
    limit: FanOutLimit


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two spines beside each other.

    Attributes:
        kinds: Standard deviations: a row for each kind of area.
        each: The same for each area: every geounit of the first spine, every entity.
        distances: Off-spine distances: a row for each family of entities.
        parameters: Privacy parameters of both strategies, a row for each geolevel (`budget/guarantees.py`). Where a
            spine moves shares between geolevels there is one row, for all of them.
    """

    kinds: pl.DataFrame
    each: pl.DataFrame
    distances: pl.DataFrame
    parameters: list[dict[str, Any]]


def comparison(
    files: tuple[Path, Path],
    measures: tuple[TotalMeasures, TotalMeasures],
    entities: Path | None,
    family: Sequence[str],
    free: FreeGroups | None = None,
) -> Compared:
    """Standard deviations and off-spine distances on two spines.

    Args:
        files: The spines.
        measures: What is measured on each.
        entities: Table of entities; None for none.
        family: Its columns; empty for all of text.
        free: Groups of the second spine, for lower bounds; None for no bounds.

    Raises:
        GeographyError: the spines are not over the same blocks, or groups do not fit the second.
        BudgetError: a spine has more to spend than the strategy allows, or does not fit it; or bounds are wanted, and
            geounits of the free groups' geolevels are bypassed.
    """

    families, spines, all_shares, parameters = [], [], [], []
    aimed = {name for file in files for name in read_aimed(file)}
    for place, file, measured in zip(("first", "second"), files, measures, strict=True):
        spine, shares = read_spine_file(file)
        plan = measured.strategy
        # A file with shares says itself what each geounit gets, so that the geolevels of the strategy may differ.
        if shares is None and plan.geolevels != spine.geolevels:
            raise BudgetError(
                f"{file} has geolevels {', '.join(spine.geolevels)}, and its strategy has "
                f"{', '.join(plan.geolevels)}. Name the strategy that the spine was built for."
            )
        all_shares.append(shares)
        families.append(read_families(entities, spine, family))
        spines.append(spine)
        parameters += [{"spine": place, **row} for row in _parameters(plan, shares is not None)]
    if free is not None:
        _require_all_measured(spines[1], all_shares[1], free)
    # Both spines sort the same finest geounits differently: `rows_on_first` maps the second to the first, argsort back.
    rows_on_first = _rows(spines[0], spines[1])
    order = (np.argsort(rows_on_first), rows_on_first)
    variances = [
        measures[place]
        .with_cut(spine, spines[1 - place].geolevels, _cut_by(spine, spines[1 - place], order[place]))
        .on(spine, all_shares[place])
        for place, spine in enumerate(spines)
    ]
    first = [*geolevel_accuracies(variances[0], spines[0]), *family_accuracies(variances[0], families[0])]
    areas = [geounits_as_entities(spines[0], level) for level in range(spines[0].n_levels)]
    moved = [area.reordered(rows_on_first) for area in areas]
    second = [
        *family_accuracies(variances[1], moved, "geolevel"),
        *family_accuracies(variances[1], families[1]),
    ]
    each = [
        _each(kind, family, variances[0], variances[1], rows_on_first).with_columns(
            pl.Series("bound", _least_deviations(variances[1], family.reordered(rows_on_first), free))
        )
        for kind, families_on_first in (("geolevel", areas), ("entities", families[0]))
        for family in families_on_first
    ]
    # Families without entities have no row among the kinds.
    bounds = [frame["bound"].mean() for frame in each if frame.height]
    rows = [
        _row("areas of the first", on_first, on_second, aimed, bound)
        for on_first, on_second, bound in zip(first, second, bounds, strict=True)
    ]
    rows += [
        _row("geounits of the second", None, geolevel, set(), None)
        for geolevel in geolevel_accuracies(variances[1], spines[1])
    ]
    pairs = [pair for pair in zip(*families, strict=True) if pair[0].n_entities]
    distances = [_distances(spines, pair, free) for pair in pairs]
    if len(distances) > 1:
        distances.append(_all_distances(distances, spines[1], [pair[1] for pair in pairs], free))
    kinds = pl.DataFrame(rows, infer_schema_length=None, schema_overrides=_BOUNDS)
    return Compared(kinds, pl.concat(each), pl.DataFrame(distances, schema_overrides=_BOUNDS), parameters)


_BOUNDS: Final = {"bound_mean": pl.Float64, "gap": pl.Float64}


def _require_all_measured(spine: Spine, shares: GeounitShares | None, free: FreeGroups) -> None:
    """Refuse bounds over groups some of which are bypassed, as other groups could have been bypassed instead.

    Raises:
        GeographyError: the geolevels cannot be groups, with bypassed geounits or without.
        BudgetError: some groups are bypassed.
    """
    require_groups(spine, free.geolevels)
    for geolevel in free.geolevels:
        level = spine.level_index(geolevel)
        # The children of a bypassed group replace it, and stand once more below themselves, not measured there.
        levels = range(level, min(level + 2, spine.n_levels))
        if shares is not None and not all(shares.measured(each).all() for each in levels):
            raise BudgetError(
                f"some geounits of {geolevel} on the second spine are bypassed, and which ones depends on the groups. "
                "The bounds hold for groups that are all measured: build the spine with --no-bypass."
            )


def _least_deviations(
    variances: SpineVariances, family: EntityFamily, free: FreeGroups | None
) -> list[float | None]:
    """Bounds on standard deviations; None where groups just above the finest geounits are not free.

    There is none for the finest geounits themselves: they are many, and groups matter little to them.
    """
    spine = variances.spine
    lowest = spine.geolevels[max(spine.finest - 1, 0)]
    if free is None or lowest not in free.geolevels or family.name == spine.geolevels[-1]:
        return [None] * family.n_entities
    bounds: list[float | None] = np.sqrt(variance_bounds(variances, family, lowest, free.limit)).tolist()
    return bounds


def _distances(
    spines: Sequence[Spine], pair: Sequence[EntityFamily], free: FreeGroups | None
) -> dict[str, Any]:
    """Off-spine distances of a family on two spines, and the bound on those of the second."""
    first, second = (off_spine_distances(spine, family) for spine, family in zip(spines, pair, strict=True))
    bounds = None if free is None else distance_bounds(spines[1], pair[1], free.geolevels, free.limit)
    least = None if bounds is None else float(bounds.mean())
    return {
        "name": first.family,
        "areas": len(first.codes),
        "first_mean": first.mean,
        "second_mean": second.mean,
        "first_greatest": first.maximum,
        "second_greatest": second.maximum,
        "bound_mean": least,
        "bound_greatest": None if bounds is None else int(bounds.max()),
        "gap": _gap(second.mean, least),
    }


def _all_distances(
    rows: Sequence[dict[str, Any]], spine: Spine, families: Sequence[EntityFamily], free: FreeGroups | None
) -> dict[str, Any]:
    """The row of all families together. Where only the lowest groups are free, its bound lets entities share them."""
    areas = sum(row["areas"] for row in rows)
    means: dict[str, Any] = {
        name: None if rows[0][name] is None else sum(row["areas"] * row[name] for row in rows) / areas
        for name in ("first_mean", "second_mean", "bound_mean")
    }
    if free is not None and free.geolevels == (spine.geolevels[max(spine.finest - 1, 0)],):
        means["bound_mean"] = joint_distance_bound(spine, families, free.geolevels[0], free.limit) / areas
    greatest = {
        name: None if rows[0][name] is None else max(row[name] for row in rows)
        for name in ("first_greatest", "second_greatest", "bound_greatest")
    }
    return {
        "name": "all of these",
        "areas": areas,
        **means,
        **greatest,
        "gap": _gap(means["second_mean"], means["bound_mean"]),
    }


def _gap(mean: float, bound: float | None) -> float | None:
    """By which part a mean is above its bound; None without a bound, or where the bound is 0."""
    return mean / bound - 1 if bound else None


def _parameters(strategy: Strategy, moved: bool) -> list[dict[str, Any]]:
    """Privacy parameters of a strategy; where shares are moved between geolevels, of the whole alone."""
    if not moved:
        return strategy_parameters(strategy, with_mu=False)
    return [cost_parameters(strategy)]


def _each(
    kind: str, family: EntityFamily, first: SpineVariances, second: SpineVariances, rows: Any
) -> pl.DataFrame:
    """Standard deviation of every area of a family on the first spine, on both."""

    names = {"kind": [kind] * family.n_entities, "name": [family.name] * family.n_entities}
    return pl.DataFrame(
        {**names, "code": list(family.codes)}, schema=dict.fromkeys((*names, "code"), pl.String)
    ).with_columns(
        pl.Series("first", np.sqrt(entity_variances(first, family))),
        pl.Series("second", np.sqrt(entity_variances(second, family.reordered(rows)))),
    )


def _rows(first: Spine, second: Spine) -> Any:
    """Row on the first spine of each finest geounit of the second."""

    rows = first.locate(first.finest, second.geocodes[-1].text)
    if first.n_geounits(first.finest) != len(rows) or bool((rows < 0).any()):
        raise GeographyError(
            "the two spines do not have the same finest geounits, so they cannot be compared. Build both from one "
            "geography table."
        )
    return rows


def _cut_by(spine: Spine, other: Spine, rows: Any) -> list[EntityFamily]:
    """The geolevels of another spine of which a spine has more geounits; `rows` are its blocks on the other spine."""
    return [
        geounits_as_entities(other, level).reordered(rows)
        for level, name in enumerate(other.geolevels)
        # More geounits under the same name mean that the spine cut those of the other one.
        if name in spine.geolevels and other.n_geounits(level) < spine.n_geounits(spine.level_index(name))
    ]


def _row(
    part: str,
    on_first: AreaAccuracy | None,
    on_second: AreaAccuracy,
    aimed: AbstractSet[str],
    bound: Any,
) -> dict[str, Any]:

    row: dict[str, Any] = {
        "part": part,
        "kind": on_second.kind,
        "name": on_second.name,
        "areas": on_second.areas,
    }
    for measure in MEASURES:
        row[f"first_{measure}"] = getattr(on_first, measure) if on_first is not None else None
        row[f"second_{measure}"] = getattr(on_second, measure)
    row["aimed"] = on_second.name in aimed
    row["worse"] = on_first is not None and is_worse(on_first.mean, on_second.mean)
    row["bound_mean"], row["gap"] = bound, _gap(on_second.mean, bound)
    return row


@dataclass(frozen=True, slots=True, eq=False)
class FittedSpine:
    """Shares fitted to a spine.

    Attributes:
        shares: The fitted shares, and the accuracy that they reach.
        given: The strategy that they are compared with.
        losses: A sentence for each family and geolevel whose counts are less exact with the fitted shares than with the
            strategy's own shares at the same budget.
    """

    shares: FittedShares
    given: Strategy
    losses: tuple[str, ...]


def fitted(
    file: Path,
    measures: TotalMeasures,
    targets: Sequence[str],
    entities: Path | None,
    each: bool,
) -> FittedSpine:
    """Fit shares that meet targets with the least budget.

    Args:
        file: The spine.
        measures: The strategy to compare with, and the totals that are published.
        targets: "NAME=STANDARD_DEVIATION" of geolevels and families.
        entities: Table of entities; None for none.
        each: Whether every area must meet the target; otherwise the mean variance of the areas must meet it.
    Raises:
        ConfigError: a target does not have this form.
        BudgetError: as `fit_shares`.
    """
    if any(not item.partition("=")[2] for item in targets):
        raise ConfigError(
            "a target is not of the form NAME=STANDARD_DEVIATION. Give one such as Tract=5.", code="bad-flag"
        )
    wanted = [
        AccuracyTarget(item.partition("=")[0], parse_fraction(item.partition("=")[2], "--target"), each)
        for item in targets
    ]
    spine, _ = read_spine_file(file)
    plan, summed, exact = measures.strategy, measures.summed, measures.exact
    missing = (
        [target.name for target in wanted if target.name not in spine.geolevels] if entities is None else []
    )
    families = read_families(entities, spine, missing)
    shares = fit_shares(spine, families, plan, summed, wanted, exact=exact)
    # Both strategies get the budget that the targets need, so that only the division differs.
    given_measures = TotalMeasures(replace(plan, total=shares.needed), summed, exact)
    fitted_measures = TotalMeasures(shares.strategy, summed, exact)
    losses = _losses(spine, families, given_measures, fitted_measures)
    return FittedSpine(shares, plan, losses)


def _losses(
    spine: Spine, families: Sequence[EntityFamily], given: TotalMeasures, fitted: TotalMeasures
) -> tuple[str, ...]:
    """A sentence for each family and geolevel whose counts the fitted shares make less exact at the same budget."""

    with_given, with_fitted = (
        [*family_accuracies(variances, families), *geolevel_accuracies(variances)]
        for variances in (given.on(spine), fitted.on(spine))
    )
    return tuple(
        f"{after.name}: totals are less exact with these shares, with a mean standard deviation of {after.mean:,.2f} "
        f"against {before.mean:,.2f} with the strategy's own shares of the same budget"
        for before, after in zip(with_given, with_fitted, strict=True)
        # Better ones are left out: that some areas gain is what the shares were fitted for.
        if is_worse(before.mean, after.mean)
    )
