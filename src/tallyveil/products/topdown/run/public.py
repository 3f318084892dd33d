"""The public inputs of a plan, read and checked before any record is opened: for a run, and for a plan of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.budget.noise_size import certify_noise
from tallyveil.geography.areas import Hierarchies
from tallyveil.plans.record import impossible_levels
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraints import (
    ConstraintTable,
    bounds_table,
    geounits_without_room,
    refuse_conflicts,
)
from tallyveil.postprocess.intervals.areas import entity_families, read_entity_table
from tallyveil.postprocess.intervals.expected_deviations import AreaDeviations, expected_deviations
from tallyveil.products.topdown.run.inputs import read_hierarchies


@dataclass(frozen=True, slots=True)
class PublicInputs:
    """The public inputs of a release.

    Attributes:
        hierarchies: The spine that is measured, the original one, and the areas off the spine.
        allocation: The share of the budget of each geounit.
        bounds: The public bounds, in the order of the plan.
        warnings: What is allowed and is seldom meant, in sentences.
    """

    hierarchies: Hierarchies
    allocation: Allocation
    bounds: tuple[ConstraintTable, ...]
    warnings: tuple[str, ...]


def read_public(plan: ReleasePlan) -> PublicInputs:
    """Read the geography, the entities and the bounds of a plan, and refuse what can mean nothing.

    Raises:
        GeographyError, StoreError, ConfigError: as `read_hierarchies` raises them.
        BudgetError: shares or variances do not fit the spine, or noise is too large.
        ConstraintError: bounds do not fit the geography, contradict each other or the structural zeros, or leave room
            for nobody.
    """
    hierarchies = read_hierarchies(plan)
    spine = hierarchies.spine
    allocation = allocation_of(plan.strategy, spine, hierarchies.shares)
    # Noise that cannot be drawn or is too large for the estimates is refused while no record is open.
    certify_noise(allocation, plan.schema)
    bounds = tuple(bounds_table(plan, item, hierarchies) for item in plan.bounds)
    # Only bounds are known here. They are compared with the invariants once the records give these.
    refuse_conflicts(bounds, spine, plan.schema)
    warnings = (*impossible_levels(plan.schema), *_empty_areas(plan, hierarchies, bounds))
    return PublicInputs(hierarchies, allocation, bounds, warnings)


def _empty_areas(
    plan: ReleasePlan, hierarchies: Hierarchies, bounds: tuple[ConstraintTable, ...]
) -> Iterator[str]:
    """Geounits above the finest geolevel in which no record can be, and families without entities.

    A finest geounit without room is common, such as a block without housing units.
    """
    spine = hierarchies.spine
    # The finest geolevel, the last, is left out.
    for level, empty in enumerate(geounits_without_room(bounds, spine, plan.schema)[:-1]):
        if empty.any():
            shown = spine.geocodes[level][int(empty.argmax())]
            yield (
                f"the public bounds leave no room for any {plan.schema.unit.one} in {int(empty.sum()):,} of "
                f"{len(empty):,} geounits of {spine.geolevels[level]}, such as '{shown}'. If that is not meant, "
                "correct the bounds."
            )
    for family in hierarchies.families:
        if not family.n_entities:
            yield (
                f"the family {family.name} has no entities, because no finest geounit names one. Its tables will have "
                "no rows. If that is not meant, correct the table of entities."
            )


def deviations_of(
    loaded: ReleasePlan, path: Path | None, families: list[str], queries: list[str] | None
) -> list[AreaDeviations]:
    """Standard deviations for geounits and entities. Opens the geography, the public bounds and the entity table.

    Args:
        loaded: The plan.
        path: Table of entities; None for the table that [spine] of the release file names.
        families: Families of entities to include.
        queries: Queries to include; None for those of the plan's tables.
    """

    hierarchies = read_hierarchies(loaded)
    if path is None:
        areas = [hierarchies.family(name) for name in families]
    else:
        areas = entity_families(hierarchies.spine, read_entity_table(path, families), families)
    return expected_deviations(loaded, hierarchies, areas, queries=queries)
