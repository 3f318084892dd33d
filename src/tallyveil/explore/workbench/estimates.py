"""What the workbench needs for exact standard deviations of estimates: a spine, and the covariances on it.

The spine is that of the public geography, if it may be opened. Otherwise it is a *regular* one, in which every geounit
of a geolevel has the same number of children. The page computes its covariances from one geounit of each geolevel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from tallyveil.errors import ConfigError
from tallyveil.explore.district import write_planned_district
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine, geocodes_of
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.sizes import GEOUNITS_PER_PARENT, sizes_of_blocks
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject

MOST_CODES: Final = 200_000
"""Most geounits of a geolevel whose geocodes a page gets, so that a reader can choose one."""
MOST_ANSWERS: Final = 20_000
"""Most answers of a query whose estimates are shown."""
MOST_LABELS: Final = 200
"""Most answers of a query that are shown one by one for an area."""


@dataclass(frozen=True, slots=True)
class WorkbenchAreas:
    """What is known of areas.

    Attributes:
        hierarchies: The spine of the public geography; None for a regular spine.
        families: Families of entities to choose from.
        blocks: Number of finest geounits of a regular spine; None for numbers of children like those of the census.
    """

    hierarchies: Hierarchies | None = None
    families: tuple[EntityFamily, ...] = ()
    blocks: int | None = None


def write_estimates(
    site: Path, plan: ReleasePlan, areas: WorkbenchAreas, queries: Sequence[str] | None
) -> JsonObject:
    """Write the covariances, and say what was written.

    Args:
        site: Folder of the site.
        plan: The plan. With the geography, its public bounds are opened; its records never are.
        areas: The spine and the entities.
        queries: Queries to show; None for the plan's tables and all measured queries.
    Returns:
        `spine` and `why`, one of which is None (`app/workbench/state.js`, `GivenPlan`).
    """
    why = _why_not(plan)
    if why is not None:
        return {"spine": None, "why": why}
    groups = _groups(plan, queries)
    hierarchies = areas.hierarchies
    if hierarchies is None:
        # One geounit a geolevel stands for all; bounds are of real geounits, and are left out.
        plan, hierarchies = replace(plan, bounds=()), _single(plan)
    rows = np.arange(hierarchies.spine.n_geounits(hierarchies.spine.finest))
    why = write_planned_district(site, plan, hierarchies, groups, rows)
    if why is not None:
        return {"spine": None, "why": why}
    regular = areas.hierarchies is None
    spine: JsonObject = {
        "kind": "regular" if regular else "geography",
        "levels": list(hierarchies.spine.geolevels),
        "shown": list(hierarchies.known_levels),
        "children": _children(plan, areas.blocks) if regular else [],
        "numbers": [hierarchies.spine.n_geounits(level) for level in range(hierarchies.spine.n_levels)],
        "codes": [] if regular else _codes(hierarchies),
        "families": [_family(family) for family in areas.families],
        "labels": {group.name: list(group.labels()) for group in groups if group.size <= MOST_LABELS},
    }
    return {"spine": spine, "why": None}


def _why_not(plan: ReleasePlan) -> str | None:
    if plan.spine is not None and (plan.spine.bypassing is not None or plan.spine.regroup is not None):
        return (
            "The steps of [spine] choose geounits by the variances of the strategy, so every change of a share makes "
            "another spine. Expected errors of estimates are not offered here. `tallyveil plan --families` shows them "
            "for the downloaded file."
        )
    if plan.spine is not None and plan.spine.changes:
        return (
            "The spine of this release is made by steps from its geography. Expected errors of estimates are not "
            "offered here. `tallyveil plan --families` shows them for the downloaded file."
        )
    return None


def _groups(plan: ReleasePlan, queries: Sequence[str] | None) -> list[QueryGroup]:
    """The queries that are shown.

    Raises:
        ConfigError: there is none.
    """
    strategy = plan.strategy
    # Tables first, because a reader looks for what is published.
    every = queries or (
        *plan.tables,
        *(query for level in strategy.geolevels for query in strategy.queries(level)),
    )
    groups = [plan.query(name) for name in dict.fromkeys(every)]
    shown = [group for group in groups if group.size <= MOST_ANSWERS]
    if not shown:
        raise ConfigError(
            f"every query of the plan has more than {MOST_ANSWERS:,} answers. Name smaller ones with --queries.",
            code="bad-flag",
        )
    return shown


def _single(plan: ReleasePlan) -> Hierarchies:
    """A spine with one geounit at each geolevel."""
    levels = plan.geolevels
    offsets = tuple(np.array([0, 1], np.int64) for _ in levels[1:])
    spine = Spine(levels, tuple(geocodes_of(["0"], level) for level in levels), offsets)
    return Hierarchies(spine, spine)


def _children(plan: ReleasePlan, blocks: int | None) -> list[int]:
    """Number of children of a geounit of each geolevel, root first."""
    n = len(plan.geolevels)
    if blocks is not None:
        numbers = sizes_of_blocks(n, blocks).geounits
        # At least one child, also where a small country has fewer blocks than the usual tree has levels.
        return [max(1, round(below / above)) for above, below in pairwise(numbers)]
    last = len(GEOUNITS_PER_PARENT) - 1
    return [round(GEOUNITS_PER_PARENT[min(step, last)]) for step in reversed(range(n - 1))]


def _codes(hierarchies: Hierarchies) -> list[list[str] | None]:
    return [
        [str(code) for code in hierarchies.spine.geocodes[level]]
        # A list that nobody can choose from would only make the page heavy.
        if hierarchies.spine.n_geounits(level) <= MOST_CODES
        else None
        for level in range(hierarchies.spine.n_levels)
    ]


def _family(family: EntityFamily) -> JsonObject:
    members = [family.members_of(entity).tolist() for entity in range(family.n_entities)]
    return {"name": family.name, "codes": list(family.codes), "members": members}
