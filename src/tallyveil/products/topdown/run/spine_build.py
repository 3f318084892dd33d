"""What `tallyveil spine build` makes: the steps of a preset, groups chosen by variance, bypassing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from tallyveil.budget.caps import Reference
from tallyveil.budget.spine.presets import SpinePreset, bypass_rule, load_spine_preset
from tallyveil.budget.spine.regroup import Measure, Regrouped
from tallyveil.budget.spine.variance import TotalMeasures
from tallyveil.budget.strategy import parse_fraction
from tallyveil.errors import ConfigError
from tallyveil.geography import (
    EntityFamily,
    FanOutLimit,
    OptimisedSpine,
    Spine,
    optimise_spine,
    uniform_shares,
)
from tallyveil.geography.areas import AreaChange
from tallyveil.geography.bypass import bypass
from tallyveil.geography.optimise import further
from tallyveil.geography.tables import family_columns
from tallyveil.plans.inputs import Regroup, with_protected
from tallyveil.products.topdown.run.spine_changes import area_changes
from tallyveil.products.topdown.run.spine_inputs import read_families, read_geography, weights
from tallyveil.products.topdown.run.spine_making import choose_groups

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
    if flags.bypass and preset is not None and preset.bypasses:
        moved, shares = bypass(optimised.spine, shares, bypass_rule(measures.strategy.mechanism))
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
