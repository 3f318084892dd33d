"""What `tallyveil spine` does with spines before any data is opened: read, build, fit shares.

A spine is built from the steps of a preset, with groups chosen by variance and with bypassing. Shares of the geolevels
are fitted to accuracy targets, beside those of a given strategy. `spine_comparison` compares two spines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import polars as pl

from tallyveil.budget.caps import Reference
from tallyveil.budget.fitted_shares import AccuracyTarget, FittedShares, fit_shares
from tallyveil.budget.spine.presets import SpinePreset, bypass_rule, load_spine_preset, query_shares
from tallyveil.budget.spine.regroup import Measure, Regrouped
from tallyveil.budget.spine.variance import (
    TotalMeasures,
    family_accuracies,
    geolevel_accuracies,
)
from tallyveil.budget.strategy import Strategy, parse_fraction
from tallyveil.errors import ConfigError
from tallyveil.geography.areas import AreaChange
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.optimise import OptimisedSpine, further, optimise_spine
from tallyveil.geography.spine import Spine, uniform_shares
from tallyveil.geography.steps import FanOutLimit
from tallyveil.geography.tables import family_columns, read_spine_file
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
