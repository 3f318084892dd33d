"""The spine of a release: its steps, then groups chosen by variance, then bypassing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tallyveil.budget.spine.measures import TotalMeasures
from tallyveil.budget.spine.precision import answers_summed, totals_summed
from tallyveil.budget.spine.regroup import Regrouped
from tallyveil.declared import mapping_of
from tallyveil.geography.areas import AreaChange, Deviation, Hierarchies
from tallyveil.geography.bypass import bypass
from tallyveil.geography.distance import off_spine_distances
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.optimise import OptimisedSpine, further, optimise_spine
from tallyveil.geography.shares import uniform_shares
from tallyveil.geography.spine import Spine
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.spine_changes import area_changes, warnings_of
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
    optimised = steps = optimise_spine(original, families, asked.steps if asked is not None else ())
    groups: Regrouped | None = None
    aimed: tuple[str, ...] = ()
    measures = total_measures(plan)
    if asked is not None and asked.regroup is not None:
        # Groups before bypassing: the search assumes that geounits of a geolevel have the same precision.
        optimised, groups = choose_groups(
            asked.regroup, original, steps, (*families, *others), measures.made_into(original, steps)
        )
        aimed = tuple(name for name, _ in asked.regroup.aim)
    if asked is not None and asked.bypassing is not None:
        shares = uniform_shares(optimised.spine, dict(plan.strategy.geolevel_shares))
        moved, moved_shares = bypass(
            optimised.spine, shares, asked.bypassing, most_children=asked.most_children
        )
        optimised = further(original, optimised, moved, moved_shares)
    # Without a query that tells totals, deviations are unknown, and the manifest says nothing of them.
    if not measures.tell_totals():
        return optimised, ()
    return optimised, area_changes(original, (*families, *others), measures, steps, optimised, groups, aimed)


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


def spine_record(plan: ReleasePlan, hierarchies: Hierarchies) -> dict[str, Any] | None:
    """How the spine was made and what that changed, as plain data; None for a geography used as it is.

    Returns:
        `steps`; geounits and children of `original` and `made` by geolevel; `replaced`, the geolevels of the
        original that the spine does not have as they were; off-spine `distances` of every entity family and replaced
        geolevel on both; `deviations`, the standard deviations of totals of every kind of area, also of families that
        the plan does not name; `warnings` of those that the spine makes less exact; `preset`, `regroup` and
        `bypassing` where the plan has them, the last with geounits measured and not measured, and their shares, by
        geolevel.
    Privacy: computed from public geography only.
    """
    if plan.spine is None:
        return None
    asked = mapping_of(plan.spine)
    areas = (*hierarchies.families, *hierarchies.replaced)
    return {
        **{key: value for key, value in asked.items() if key in ("steps", "preset", "regroup")},
        "original": _levels(hierarchies.original),
        "made": _levels(hierarchies.spine),
        "replaced": list(hierarchies.replaced_names),
        "distances": {area.name: _distances(hierarchies, area) for area in areas},
        "deviations": change_records(hierarchies.changes),
        "warnings": list(warnings_of(hierarchies.changes)),
        **({"bypassing": _bypassed(asked["bypassing"], hierarchies)} if "bypassing" in asked else {}),
    }


def change_records(changes: Sequence[AreaChange]) -> list[dict[str, Any]]:
    """What a spine changes for every kind of area, as plain data; a deviation that nothing tells is null."""
    return [
        {
            "name": change.name,
            "kind": change.kind,
            "areas": change.areas,
            "aimed": change.aimed,
            "unmet": change.unmet,
            "given": _rounded(change.given),
            "steps": _rounded(change.steps),
            "made": _rounded(change.made),
        }
        for change in changes
    ]


def changes_record(changes: Sequence[AreaChange]) -> dict[str, Any]:
    """The same under `spine`, with its warnings; nothing where no step changes the spine."""
    if not changes:
        return {}
    return {"spine": {"deviations": change_records(changes), "warnings": list(warnings_of(changes))}}


def _rounded(deviation: Deviation) -> dict[str, float | None]:
    return {name: round(value, 4) if value < np.inf else None for name, value in deviation._asdict().items()}


def _bypassed(rule: str, hierarchies: Hierarchies) -> dict[str, Any]:
    """Which geounits are measured, and with which share."""
    spine, shares = hierarchies.spine, hierarchies.shares
    if shares is None:
        return {"rule": rule, "geolevels": []}
    measured = [int(shares.measured(level).sum()) for level in range(spine.n_levels)]
    return {
        "rule": rule,
        "geolevels": [
            {
                "geolevel": name,
                "measured": measured[level],
                "not_measured": spine.n_geounits(level) - measured[level],
                "shares": {str(share): count for share, count in shares.tally(level).items()},
            }
            for level, name in enumerate(spine.geolevels)
        ],
    }


def _levels(spine: Spine) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for level, name in enumerate(spine.geolevels):
        record: dict[str, Any] = {"geolevel": name, "geounits": spine.n_geounits(level)}
        if level < spine.finest:
            children = np.diff(spine.child_offsets[level])
            record |= {
                "children_mean": round(float(children.mean()), 2),
                "children_most": int(children.max()),
                "single_children": int((children == 1).sum()),
            }
        records.append(record)
    return records


def _distances(hierarchies: Hierarchies, area: EntityFamily) -> dict[str, Any]:
    after = off_spine_distances(hierarchies.spine, area)
    record: dict[str, Any] = {"entities": area.n_entities}
    if hierarchies.original is not hierarchies.spine:
        # Distances are compared on the same finest geounits, whose order on the original spine is another one.
        rows = hierarchies.spine.locate(
            hierarchies.spine.finest, hierarchies.original.geocodes[hierarchies.original.finest].text
        )
        before = off_spine_distances(hierarchies.original, area.reordered(rows))
        record |= {"original_mean": round(before.mean, 2), "original_most": before.maximum}
    return record | {"mean": round(after.mean, 2), "most": after.maximum}
