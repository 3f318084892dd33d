"""How far the groups of three states are from the best that any groups could do.

The paper calls its steps heuristics. Here their off-spine distances and standard deviations stand beside lower bounds
over all groups of the same largest size, for Rhode Island and two made-up states.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tallyveil.budget.guarantees import cost_parameters
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.spine.bounds import shared_bounds, variance_bounds
from tallyveil.budget.spine.presets import load_spine_preset
from tallyveil.budget.spine.variance import TotalMeasures, entity_variances, totals_summed
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.distance_bounds import FreeGroups, joint_distance_bound, undivided
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.optimise import GroupByDistance, Step, optimise_spine
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import PRODUCTION_LIMIT
from tallyveil.geography.tables import entities_from_columns
from tallyveil.schema.presets import load_preset
from tallyveil.synthetic.country import make_entities, make_geography
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.geographic_spines.rhode_island import GEOLEVELS, spine_and_families

_PRESET: Final = load_spine_preset("redistricting-units-us")
"""Branch and block groups by tribal area, minor civil division and place."""

_STRATEGY: Final = load_strategy_preset("redistricting-us").strategy
_SUMMED: Final = totals_summed(load_preset("pl94-persons"), _STRATEGY)
_BLOCKS: Final = 30_000
"""Blocks of the made-up country of two states."""

_SEED: Final = 3
_SHARED: Final = "shared standard deviation"
_SHARED_DISTANCE: Final = "shared distance"
"""Names of the columns with the least means of a family over groups that are as exact for all families."""

_NOTES: Final = (
    "A bound is a mean over the areas of a family that no groups of at most int(sqrt(n) + 12) of n blocks reach below; "
    "all geounits above the block groups stay. The least distances of a family let its areas share groups; the least "
    "standard deviations suppose for each area the groups that are best for it. No groups make a family's mean "
    "smaller than its shared bound, unless they make the mean standard deviation over all families greater.",
    f"Groups are made for the families of {_PRESET.name}: tribal areas, minor civil divisions and places. The standard "
    "deviations are of totals, in persons, with the strategy of the redistricting data, the total of the US published, "
    "and nothing bypassed.",
    "No noise is drawn. Epsilon at three deltas is for one record, and follows from the whole budget.",
)


def rhode_island_groups(inputs: StudyInputs) -> Findings:
    """Distances and standard deviations in Rhode Island, with their bounds.

    Raises:
        MissingDataError: a file is missing.
    """
    rows = _rows("Rhode Island", *spine_and_families(inputs, _PRESET.families))
    return Findings({"rhode-island-groups": pl.DataFrame(rows)}, notes=_NOTES)


def made_up_groups(_: StudyInputs) -> Findings:
    """The same in two made-up states."""
    rows = [row for state in made_up_states(_BLOCKS, _PRESET.families) for row in _rows(*state)]
    return Findings({"groups": pl.DataFrame(rows)}, notes=_NOTES)


def made_up_states(blocks: int, families: Sequence[str]) -> Iterator[tuple[str, Spine, list[EntityFamily]]]:
    """The two states of a made-up country: a name, the spine, and families of entities."""
    geography = make_geography(blocks, np.random.Generator(np.random.PCG64(_SEED)), 2)
    entities = pl.concat(make_entities(geography, _SEED))
    for state in geography["state"].unique(maintain_order=True):
        table = geography.filter(pl.col("state") == state).join(entities, on="geocode", maintain_order="left")
        named = {name: table[name.lower()] for name in GEOLEVELS[1:-1]}
        root = pl.repeat("US", table.height, dtype=pl.String, eager=True)
        spine = spine_from_columns({"US": root, **named, "Block": table["geocode"]}, GEOLEVELS)
        columns = {"geocode": table["geocode"], **{name: table[name] for name in families}}
        yield f"made-up state {state}", spine, list(entities_from_columns(spine, columns, families))


def _rows(state: str, spine: Spine, families: Sequence[EntityFamily]) -> list[dict[str, object]]:
    branch, paper = _PRESET.steps
    by_sum = GroupByDistance(
        _PRESET.families, "Block_Group", "Block", PRODUCTION_LIMIT, remainders=False, measure="sum"
    )
    return [
        {"state": state, "groups": name, **row}
        for name, step in (("the paper's", paper), ("by the sum of distances", by_sum))
        for row in _of_spine(spine, families, (branch, step))
    ]


def _of_spine(
    spine: Spine, families: Sequence[EntityFamily], steps: Sequence[Step]
) -> list[dict[str, object]]:
    optimised = optimise_spine(spine, families, steps)
    moved = [family.reordered(optimised.rows) for family in families if family.n_entities]
    measures = TotalMeasures(_STRATEGY, _SUMMED, ("US",)).made_into(spine, optimised)
    variances = measures.on(optimised.spine)
    groups = optimised.spine.geolevels[-2]
    free = FreeGroups((groups,), PRODUCTION_LIMIT)
    parameters = {name: value for name, value in cost_parameters(_STRATEGY).items() if name != "geolevel"}
    parts = [
        {
            "distance": off_spine_distances(optimised.spine, family).distance,
            "standard deviation": np.sqrt(entity_variances(variances, family)),
            "least standard deviation": np.sqrt(variance_bounds(variances, family, free)),
        }
        for family in moved
    ]
    shared = shared_bounds(variances, moved, free)
    together = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    number = np.repeat(np.arange(len(moved)), [family.n_entities for family in moved])
    # No smaller distances are reached without a greater mean of the standard deviations of all areas.
    whole = shared.keeps_groups_whole(together["standard deviation"])
    fewest = undivided(optimised.spine, moved, PRODUCTION_LIMIT)
    least = [off_spine_distances(fewest[0], family).distance for family in fewest[1]] if whole else None
    rows = []
    for place, family in enumerate(moved):
        means: dict[str, float | None] = {name: float(values.mean()) for name, values in parts[place].items()}
        means[_SHARED] = shared.least_mean(number == place, together["standard deviation"])
        means["least distance"] = _least_distance(optimised.spine, [family], groups)
        means[_SHARED_DISTANCE] = float(least[place].mean()) if least else None
        rows.append(_row(family.name, family.n_entities, means))
    means = {name: float(values.mean()) for name, values in together.items()}
    means[_SHARED] = shared.least_sum(np.ones(len(number))) / len(number)
    means["least distance"] = _least_distance(optimised.spine, moved, groups)
    means[_SHARED_DISTANCE] = float(np.concatenate(least).mean()) if least else None
    areas = len(number)
    return [{**row, **parameters} for row in (*rows, _row("all together", areas, means))]


def _least_distance(spine: Spine, families: Sequence[EntityFamily], groups: str) -> float:
    """A mean distance that no groups reach below, for entities that share them."""
    areas = sum(family.n_entities for family in families)
    return joint_distance_bound(spine, families, (groups,), PRODUCTION_LIMIT) / areas


def _row(name: str, areas: int, means: Mapping[str, float | None]) -> dict[str, object]:
    def gap(reached: str, least: str) -> float | None:
        mean, bound = means[reached], means[least]
        return None if mean is None or bound is None else mean / bound - 1

    return {
        "areas": name,
        "number": areas,
        **means,
        "gap of the distance": gap("distance", "least distance"),
        "gap of the standard deviation": gap("standard deviation", "least standard deviation"),
        "shared gap of the distance": gap("distance", _SHARED_DISTANCE),
        "shared gap of the standard deviation": gap("standard deviation", _SHARED),
    }
