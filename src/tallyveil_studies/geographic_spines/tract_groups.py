"""How far the tract groups of three states are from the best that any tract groups could do.

The paper's tract groups, and groups that make the sum of the distances small, stand beside lower bounds over all tract
groups of the same largest size, with the block groups as they are. For standard deviations there is also a bound over
all tract groups and block groups together.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Bools
from tallyveil.budget.guarantees import cost_parameters
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.spine.bounds import shared_bounds
from tallyveil.budget.spine.higher_groups import with_shared_groups
from tallyveil.budget.spine.variance import TotalMeasures, entity_variances, totals_summed
from tallyveil.budget.strategy import Strategy
from tallyveil.geography.distance_bounds import FreeGroups, joint_distance_bound
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.optimise import Branch, GroupByDistance, GroupByMembership, optimise_spine
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import PRODUCTION_LIMIT, DistanceMeasure, together
from tallyveil.schema.presets import load_preset
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.geographic_spines.bounds import made_up_states
from tallyveil_studies.geographic_spines.rhode_island import spine_and_families

_FAMILIES: Final = ("place", "county_subdivision", "school_district", "tribal_area")
_MEASURES: Final[dict[str, DistanceMeasure]] = {"the paper's": "sorted", "by the sum of distances": "sum"}
_BLOCKS: Final = 30_000
"""Blocks of the made-up country of two states."""

_NOTES: Final = (
    "A bound is a mean that no tract groups of at most int(sqrt(n) + 12) of n tracts reach below; areas share their "
    "groups, and block groups are as they are. The last two columns are over all tract groups and block groups. No "
    "groups make a family's mean standard deviation smaller than its bound, unless they make that over all families "
    "greater.",
    "Tract groups take half of the State's share of the strategy of the redistricting data, with the queries of "
    "tracts. The total of the US is published, and nothing is bypassed.",
    "No noise is drawn. Epsilon at three deltas is for one record, and follows from the whole budget.",
)


def rhode_island_tract_groups(inputs: StudyInputs) -> Findings:
    """Tract groups of Rhode Island, with their bounds.

    Raises:
        MissingDataError: a file is missing.
    """
    rows = _rows("Rhode Island", *spine_and_families(inputs, _FAMILIES))
    return Findings({"rhode-island-tract-groups": pl.DataFrame(rows)}, notes=_NOTES)


def made_up_tract_groups(_: StudyInputs) -> Findings:
    """The same in two made-up states."""
    rows = [row for state in made_up_states(_BLOCKS, _FAMILIES) for row in _rows(*state)]
    return Findings({"tract-groups": pl.DataFrame(rows)}, notes=_NOTES)


def _strategy() -> Strategy:
    strategy = load_strategy_preset("redistricting-us").strategy
    shares = []
    for name, share in strategy.geolevel_shares:
        if name == "Tract":
            of_state = dict(strategy.geolevel_shares)["State"]
            shares.append(("Tract_Group", of_state / 2, strategy.shares_of("Tract")))
        shares.append((name, share * (Fraction(1, 2) if name == "State" else 1), strategy.shares_of(name)))
    return strategy.with_shares(shares)


def _rows(state: str, spine: Spine, families: Sequence[EntityFamily]) -> list[dict[str, object]]:
    strategy = _strategy()
    summed = totals_summed(load_preset("pl94-persons"), strategy)
    parameters = {name: value for name, value in cost_parameters(strategy).items() if name != "geolevel"}
    rows = []
    for groups, measure in _MEASURES.items():
        steps = (
            Branch("tribal_area", "State", "AIAN"),
            GroupByMembership(_FAMILIES, "Block_Group", "Block"),
            GroupByDistance(_FAMILIES, "Tract_Group", "Tract", measure=measure),
        )
        optimised = optimise_spine(spine, families, steps)
        moved = [family.reordered(optimised.rows) for family in families if family.n_entities]
        measures = TotalMeasures(strategy, summed, ("US",)).made_into(spine, optimised)
        for row in _of_spine(optimised.spine, measures, moved):
            rows.append({"state": state, "groups": groups, **row, **parameters})
    return rows


def _of_spine(
    spine: Spine, measures: TotalMeasures, families: Sequence[EntityFamily]
) -> list[dict[str, object]]:
    variances = measures.on(spine)
    reached = np.sqrt(entity_variances(variances, together(families)))
    witness, order = with_shared_groups(variances, families, "Tract_Group", PRODUCTION_LIMIT)
    moved = families if order is None else [family.reordered(order) for family in families]
    tracts, both = (
        shared_bounds(witness, moved, FreeGroups(geolevels, PRODUCTION_LIMIT))
        for geolevels in (("Tract_Group",), ("Tract_Group", "Block_Group"))
    )
    number = np.repeat(np.arange(len(families)), [family.n_entities for family in families])
    parts: list[tuple[str, Bools, Sequence[EntityFamily]]] = [
        (family.name, number == place, [family]) for place, family in enumerate(families)
    ]
    parts.append(("all together", number >= 0, families))
    rows: list[dict[str, object]] = []
    for name, part, of_part in parts:
        areas = int(part.sum())
        distance = sum(int(off_spine_distances(spine, family).distance.sum()) for family in of_part) / areas
        least = joint_distance_bound(spine, of_part, ("Tract_Group",), PRODUCTION_LIMIT) / areas
        deviation = float(reached[part].mean())
        bounds = [bound.least_mean(part, reached) for bound in (tracts, both)]
        rows.append(
            {
                "areas": name,
                "number": areas,
                "distance": distance,
                "least distance": least,
                "gap of the distance": distance / least - 1,
                "standard deviation": deviation,
                "least standard deviation": bounds[0],
                "gap of the standard deviation": deviation / bounds[0] - 1,
                "least with block groups": bounds[1],
                "gap with block groups": deviation / bounds[1] - 1,
            }
        )
    return rows
