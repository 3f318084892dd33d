"""The spine of a release: its steps, then groups chosen by variance, then bypassing."""

from collections.abc import Sequence

from tallyveil.budget.spine.measures import TotalMeasures
from tallyveil.budget.spine.precision import answers_summed, totals_summed
from tallyveil.budget.spine.regroup import Regrouped
from tallyveil.geography.areas import AreaChange
from tallyveil.geography.bypass import bypass
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.optimise import OptimisedSpine, further, optimise_spine
from tallyveil.geography.shares import uniform_shares
from tallyveil.geography.spine import Spine
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.spine_changes import area_changes
from tallyveil.products.topdown.run.spine_groups import choose_groups


def make_spine(
    plan: ReleasePlan, original: Spine, families: Sequence[EntityFamily], others: Sequence[EntityFamily] = ()
) -> tuple[OptimisedSpine, tuple[AreaChange, ...]]:
    """Make the spine of a plan from that of its geography.

    Args:
        plan: The plan, with a `spine`.
        original: The spine of the geography.
        families: Its families of entities, on `original`.
        others: Families of the entity table that the plan does not name; no step can be made for them.
    Returns:
        The spine; and what that changes for every family and geolevel, where measured queries tell totals.

    Raises:
        GeographyError: a step does not fit.
        BudgetError: shares or variances do not fit the spine that the steps make.
    Privacy: public geography only.
    """
    asked = plan.spine
    made = steps = optimise_spine(original, families, asked.steps if asked is not None else ())
    groups: Regrouped | None = None
    aimed: tuple[str, ...] = ()
    measures = total_measures(plan)
    if asked is not None and asked.regroup is not None:
        made, groups = choose_groups(
            asked.regroup, original, steps, (*families, *others), measures.made_into(original, steps)
        )
        aimed = tuple(name for name, _ in asked.regroup.aim)
    if asked is not None and asked.bypassing is not None:
        shares = uniform_shares(made.spine, dict(plan.strategy.geolevel_shares))
        moved, kept = bypass(made.spine, shares, asked.bypassing, most_children=asked.most_children)
        made = further(original, made, moved, kept)
    if not measures.tell_totals():
        return made, ()
    return made, area_changes(original, (*families, *others), measures, steps, made, groups, aimed)


def total_measures(plan: ReleasePlan) -> TotalMeasures:
    """How a plan measures totals, with the geolevels at which an invariant publishes them exactly."""
    total = plan.query("total")
    known = {
        geolevel
        for item in plan.invariants
        if answers_summed(plan.query(item.query), total)
        for geolevel in item.geolevels
    }
    summed = totals_summed(plan.schema, plan.strategy)
    exact = tuple(name for name in plan.geolevels if name in known)
    return TotalMeasures(plan.strategy, summed, exact)
