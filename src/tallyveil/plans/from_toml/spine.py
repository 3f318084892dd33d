"""The table [spine] of a release file: the steps that make the spine, and checks of the names they use."""

from collections.abc import Sequence
from dataclasses import replace

from tallyveil.budget.caps import Reference
from tallyveil.budget.spine.presets import SpinePreset, bypass_rule, load_spine_preset
from tallyveil.budget.spine.regroup import Measure
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.optimise import (
    Branch,
    CutByEntities,
    GroupByDistance,
    GroupByMembership,
    Step,
    geolevels_after,
)
from tallyveil.geography.steps import FanOutLimit
from tallyveil.plans.from_toml.models import ReleaseFile
from tallyveil.plans.from_toml.spine_tables import GroupByMembershipTable, RegroupTable, SpineTable, StepTable
from tallyveil.plans.inputs import Regroup, SpineInput, with_protected


def spine_of(file: ReleaseFile) -> SpineInput | None:
    """The entities and steps that a release file names; None if it has no [spine].

    Raises:
        ConfigError: a step or an output names an unknown family, one name has two meanings, or a preset does not fit
            the geography.
        BudgetError: there is no such preset.
        GeographyError: a step names a geolevel that does not exist at that step.
    """
    table = file.spine
    if table is None:
        _refuse_unknown(file.outputs.entities, (), "[outputs] entities")
        return None
    preset = None if table.preset is None else load_spine_preset(table.preset)
    columns = _columns(table, preset)
    families = (*columns, *table.overlapping)
    steps = _preset_steps(table, preset, file.geography.geolevels) if preset else _own_steps(table, families)
    geolevels = geolevels_after(file.geography.geolevels, steps)
    _refuse_repeated(families, (*file.geography.geolevels, *geolevels))
    _refuse_unknown(file.outputs.entities, families, "[outputs] entities")
    return SpineInput(
        original=file.geography.geolevels,
        entities=table.entities,
        geocode=table.geocode,
        families=columns,
        steps=steps,
        preset=table.preset,
        overlapping=tuple(table.overlapping.items()),
        regroup=_regroup(table.regroup, families, geolevels, steps),
        bypassing=_bypassing(table, preset, file.privacy.mechanism),
        most_children=table.most_children,
    )


def _columns(table: SpineTable, preset: SpinePreset | None) -> tuple[str, ...]:
    """The columns of families: those that the preset needs and the file does not name, then those it names."""
    needed = () if preset is None else preset.families
    return (*(name for name in needed if name not in table.families), *table.families)


def _own_steps(table: SpineTable, families: Sequence[str]) -> tuple[Step, ...]:
    return tuple(_step(item, families) for item in table.steps)


def _preset_steps(table: SpineTable, preset: SpinePreset, geolevels: Sequence[str]) -> tuple[Step, ...]:
    if preset.geolevels != tuple(geolevels):
        raise ConfigError(
            f"spine preset '{preset.name}' starts from {', '.join(preset.geolevels)}; [geography] has "
            f"{', '.join(geolevels)}. Give the geolevels the names of the preset, or write out steps of your own.",
            code="unknown-geolevel",
        )
    if table.parts is None:
        return preset.steps
    if not any(isinstance(step, Branch) for step in preset.steps):
        raise ConfigError(
            f"[spine] parts is given, but spine preset '{preset.name}' has no step of kind branch. Leave parts out.",
            code="unknown-geolevel",
        )
    return tuple(
        replace(step, parts=table.parts) if isinstance(step, Branch) else step for step in preset.steps
    )


def _regroup(
    table: RegroupTable | None, families: Sequence[str], geolevels: Sequence[str], steps: Sequence[Step]
) -> Regroup | None:
    if table is None:
        return None
    unknown = [name for name in (table.geolevel, *table.aim) if name not in (*families, *geolevels)]
    if unknown or table.geolevel not in geolevels:
        raise ConfigError(
            f"[spine.regroup] names {', '.join(unknown or [table.geolevel])}; geolevels of the spine are "
            f"{', '.join(geolevels)}, families {', '.join(families) or 'none'}. Use these names.",
            code="unknown-entity",
        )
    asked = Regroup(
        table.geolevel,
        FanOutLimit(table.cutoff, table.at_most),
        tuple(table.aim.items()),
        Measure(table.measure),
        table.most_loss,
        Reference(table.reference),
        tuple(table.may_worsen),
    )
    return with_protected(asked, steps)


def _bypassing(table: SpineTable, preset: SpinePreset | None, mechanism: str) -> BypassRule | None:
    """The rule by which geounits are bypassed, which is that of the mechanism; None for no bypassing.

    If the file does not say whether to bypass, the preset decides.

    Raises:
        ConfigError: a limit on bypassing is given where nothing is bypassed.
    """
    bypasses = table.bypass if table.bypass is not None else preset is not None and preset.bypasses
    if not bypasses and table.most_children is not None:
        raise ConfigError(
            f"[spine] most_children is {table.most_children}, but no geounit is bypassed. Add bypass = true, or leave "
            "most_children out.",
            code="spine-step",
        )
    return bypass_rule(Mechanism(mechanism)) if bypasses else None


def require_whole(name: str, original: Sequence[str], after: Sequence[str], where: str) -> None:
    """Refuse a name that is no geolevel of the geography, or is one that the steps do not leave on the spine.

    This cannot check whether the steps cut geounits of the geolevel: that is known only when the geography is read.

    Raises:
        ConfigError: the name is no geolevel, or the steps remove or make this geolevel.
    """
    if name in original and name in after:
        return
    if name in original or name in after:
        what = "removed by the steps of [spine]" if name in original else "made by the steps of [spine]"
        on_both = [level for level in original if level in after]
        raise ConfigError(
            f"{where} names geolevel '{name}', which is {what}. Only geolevels of [geography] that the spine keeps "
            f"can be named here: {', '.join(on_both)}.",
            code="not-on-spine",
        )
    raise ConfigError(
        f"{where} names geolevel '{name}', which does not exist. The geolevels are: {', '.join(original)}.",
        code="unknown-geolevel",
    )


def _step(item: StepTable, families: Sequence[str]) -> Step:
    named = [item.family] if isinstance(item, Branch) else item.families
    _refuse_unknown(named, families, f"a step of kind {item.kind} in [[spine.steps]]")
    if isinstance(item, Branch | CutByEntities):
        return item
    limit = FanOutLimit(item.cutoff, item.at_most)
    if isinstance(item, GroupByMembershipTable):
        return GroupByMembership(tuple(item.families), item.geolevel, item.children, limit)
    return GroupByDistance(
        tuple(item.families), item.geolevel, item.children, limit, item.remainders, item.gains_first
    )


def _refuse_unknown(names: Sequence[str], families: Sequence[str], where: str) -> None:
    unknown = [name for name in names if name not in families]
    if unknown:
        raise ConfigError(
            f"{where} names {', '.join(unknown)}, which is not an entity family of [spine]. Its families are: "
            f"{', '.join(families) or 'none'}. Add the column to [spine] families.",
            code="unknown-entity",
        )


def _refuse_repeated(families: Sequence[str], geolevels: Sequence[str]) -> None:
    repeated = [
        name for number, name in enumerate(families) if name in families[:number] or name in geolevels
    ]
    if repeated:
        raise ConfigError(
            f"[spine] families names {', '.join(repeated)}, which is given twice or is also the name of a geolevel. "
            "Tables are found by these names, so each name must mean one thing. Rename the column.",
            code="name-twice",
        )
