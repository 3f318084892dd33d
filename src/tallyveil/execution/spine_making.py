"""The spine of a release: its steps, then groups chosen by variance, then bypassing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tallyveil.budget.precision import answers_summed, precision_of, totals_summed
from tallyveil.budget.regroup import GIVEN, Aim, group_by_variance
from tallyveil.budget.spine_accuracy import geounits_as_entities
from tallyveil.errors import BudgetError
from tallyveil.execution.plan import Regroup, ReleasePlan
from tallyveil.geography.bypass import bypass
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.optimise import OptimisedSpine, further, optimise_spine
from tallyveil.geography.reshape import Reshaped
from tallyveil.geography.shares import uniform_shares
from tallyveil.geography.spine import Spine

AS_GOOD_AS_EXACT = 1e9
"""Times the greatest precision of a measurement: stands for a total below the roots that is published exactly."""


def make_spine(plan: ReleasePlan, original: Spine, families: Sequence[EntityFamily]) -> OptimisedSpine:
    """Make the spine of a plan from that of its geography.

    Args:
        plan: The plan, with a `spine`.
        original: The spine of the geography.
        families: Its families of entities, on `original`.

    Raises:
        GeographyError: a step does not fit.
        BudgetError: shares or variances do not fit the spine that the steps make.
    Privacy: public geography only.
    """
    asked = plan.spine
    made = optimise_spine(original, families, asked.steps if asked is not None else ())
    if asked is not None and asked.regroup is not None:
        made = _regrouped(plan, asked.regroup, original, families, made)
    if asked is not None and asked.bypassing is not None:
        shares = uniform_shares(made.spine, dict(plan.strategy.geolevel_shares))
        moved, kept = bypass(made.spine, shares, asked.bypassing)
        made = further(original, made, moved, kept)
    return made


def _regrouped(
    plan: ReleasePlan,
    asked: Regroup,
    original: Spine,
    families: Sequence[EntityFamily],
    made: OptimisedSpine,
) -> OptimisedSpine:
    given = GIVEN + asked.geolevel
    if asked.geolevel in dict(asked.aim) and asked.geolevel in original.geolevels:
        areas = geounits_as_entities(original, original.level_index(asked.geolevel))
        families = (*families, replace(areas, name=given))
    named = {family.name for family in families}
    weights = {given if name == asked.geolevel else name: float(weight) for name, weight in asked.aim}
    aim = Aim(
        tuple((name, weight) for name, weight in weights.items() if name in named),
        tuple((name, weight) for name, weight in weights.items() if name not in named),
        asked.measure,
    )
    found = group_by_variance(
        made.spine,
        [family.reordered(made.rows) for family in families],
        _precisions(plan),
        geolevel=asked.geolevel,
        limit=asked.limit,
        aim=aim,
    )
    return further(original, made, Reshaped(found.spine, found.rows))


def _precisions(plan: ReleasePlan) -> Mapping[str, float]:
    """Precision with which the total of a geounit is measured, by geolevel; or as good as exact."""
    summed = totals_summed(plan.schema, plan.strategy)
    total = plan.query("total")
    known = {
        geolevel
        for item in plan.invariants
        if answers_summed(plan.schema, plan.query(item.query), total)
        for geolevel in item.geolevels
    }
    found = {
        geolevel: float(precision_of(plan.strategy, geolevel, share, summed))
        for geolevel, share in plan.strategy.geolevel_shares
    }
    greatest = max(found.values())
    if greatest <= 0:
        raise BudgetError(
            "groups are to be chosen by the variance of totals, and no measured query tells a total. Measure one, such "
            "as 'total', or leave [spine.regroup] out."
        )
    for number, geolevel in enumerate(plan.geolevels):
        if geolevel in known:
            found[geolevel] = AS_GOOD_AS_EXACT * greatest if number else np.inf
    return found
