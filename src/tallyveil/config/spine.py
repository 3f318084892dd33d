"""The spine of a release file: its steps, and the names they leave."""

from collections.abc import Sequence
from pathlib import Path

from tallyveil.config.models import BranchTable, GroupByMembershipTable, ReleaseFile, SpineTable, StepTable
from tallyveil.errors import ConfigError
from tallyveil.execution.plan import SpineInput
from tallyveil.geography.fan_out import FanOutLimit
from tallyveil.geography.optimise import Branch, GroupByDistance, GroupByMembership, Step, geolevels_after


def spine_of(file: ReleaseFile, folder: Path) -> SpineInput | None:
    """The entities and steps a release file names; None where it has no [spine].

    Raises:
        ConfigError: a step or an output names no family, or a name stands for two things.
        GeographyError: a step names a geolevel that is not there.
    """
    table = file.spine
    if table is None:
        _refuse_unknown(file.outputs.entities, (), "[outputs] entities")
        return None
    steps = tuple(_step(item, table) for item in table.steps)
    _refuse_repeated(
        table.families, (*file.geography.geolevels, *geolevels_after(file.geography.geolevels, steps))
    )
    _refuse_unknown(file.outputs.entities, table.families, "[outputs] entities")
    return SpineInput(folder / table.entities, table.geocode, tuple(table.families), steps)


def whole_geolevel(name: str, original: Sequence[str], made: Sequence[str], where: str) -> str:
    """The name, once it is a geolevel of the geography that the steps have not removed.

    Raises:
        ConfigError: it is none. Whether its geounits are cut is known only when the geography is read.
    """
    if name in original and name in made:
        return name
    if name in original or name in made:
        what = "removed by the steps of [spine]" if name in original else "made by the steps of [spine]"
        kept = [level for level in original if level in made]
        raise ConfigError(
            f"{where} names geolevel '{name}', which is {what}; it can be stated for geolevels of [geography] that "
            f"the spine keeps: {', '.join(kept)}.",
            code="not-on-spine",
        )
    raise ConfigError(
        f"{where} names geolevel '{name}'; the geolevels are: {', '.join(original)}.", code="unknown-geolevel"
    )


def _step(item: StepTable, table: SpineTable) -> Step:
    named = [item.family] if isinstance(item, BranchTable) else item.families
    _refuse_unknown(named, table.families, f"a step of kind {item.kind} in [[spine.steps]]")
    if isinstance(item, BranchTable):
        entities = tuple(item.entities) if item.entities is not None else None
        return Branch(item.family, item.geolevel, item.name, entities, item.parts)
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
            f"{where} names {', '.join(unknown)}, no family of [spine]; its families are: "
            f"{', '.join(families) or 'none'}. Add the column to [spine] families.",
            code="unknown-entity",
        )


def _refuse_repeated(families: Sequence[str], geolevels: Sequence[str]) -> None:
    taken = [name for number, name in enumerate(families) if name in families[:number] or name in geolevels]
    if taken:
        raise ConfigError(
            f"[spine] families names {', '.join(taken)}, which stands twice or is the name of a geolevel. Tables are "
            "found by these names, so each must stand for one thing: rename the column.",
            code="name-twice",
        )
