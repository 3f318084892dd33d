"""Exact standard deviations for the geounits and entities of a plan, before its records are opened."""

from pathlib import Path

from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.intervals.areas import entity_families, read_entity_table
from tallyveil.postprocess.intervals.expected_deviations import AreaDeviations, expected_deviations
from tallyveil.products.topdown.run.inputs import read_hierarchies


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
        found = [hierarchies.family(name) for name in families]
    else:
        found = entity_families(hierarchies.spine, read_entity_table(path, families), families)
    return expected_deviations(loaded, hierarchies, found, queries=queries)
