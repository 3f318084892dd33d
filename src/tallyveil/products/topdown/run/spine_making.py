"""The spine of a release: its steps, groups chosen by variance, bypassing, and what all this changes.

Groups are chosen for the aim of the release file, within limits for everything else. A family or geolevel
that gets less exact is named in a warning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.caps import EXACT_DEVIATION, MOST_LOSS, Reference
from tallyveil.budget.spine.presets import query_shares
from tallyveil.budget.spine.regroup import GIVEN, Regrouped, RegroupingAim, group_by_variance
from tallyveil.budget.spine.variance import (
    SpineVariances,
    TotalMeasures,
    answers_summed,
    entity_variances,
    spine_variances,
    totals_summed,
)
from tallyveil.declared import mapping_of
from tallyveil.errors import GeographyError
from tallyveil.geography.areas import AreaChange, Deviation, Hierarchies, geounits_as_entities, replaced_areas
from tallyveil.geography.build import Reshaped
from tallyveil.geography.bypass import bypass
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.optimise import OptimisedSpine, further, optimise_spine
from tallyveil.geography.spine import Spine, uniform_shares
from tallyveil.plans.inputs import Regroup
from tallyveil.plans.release import ReleasePlan, StatedPlan


def area_changes(
    original: Spine,
    families: Sequence[EntityFamily],
    measures: TotalMeasures,
    steps: OptimisedSpine,
    measured: OptimisedSpine,
    groups: Regrouped | None = None,
    aimed: Sequence[str] = (),
) -> tuple[AreaChange, ...]:
    """Standard deviations of totals on a geography as given, after the steps, and on the spine that is measured.

    Args:
        original: The spine of the geography.
        families: All families that are known, on `original`.
        measures: What is measured, with what is exact on the geography.
        steps: The spine that the steps make.
        measured: The spine that is measured: with groups chosen by variance, and after bypassing.
        groups: How groups were chosen by variance; None where they were not.
        aimed: Families and geolevels that they were chosen for.
    Returns:
        Families of entities first, then the geolevels of the geography, root first.
    """
    # The same measurements on three spines. Rows of the finest geounits differ, so areas are reordered for each.
    given, after, final = (
        measures.on_geography(original),
        measures.made_into(original, steps).on(steps.spine),
        measures.made_into(original, measured).on(measured.spine, measured.shares),
    )

    # The search names a geolevel of the geography "given NAME"; readers know it by NAME.
    unmet = [name.removeprefix(GIVEN) for name in groups.unmet] if groups is not None else []

    def change(name: str, area: EntityFamily, *, is_entity: bool) -> AreaChange:
        return AreaChange(
            name,
            "entities" if is_entity else "geolevel",
            area.n_entities,
            name in aimed,
            _deviation(entity_variances(given, area)),
            _deviation(entity_variances(after, area.reordered(steps.rows))),
            _deviation(entity_variances(final, area.reordered(measured.rows))),
            name in unmet,
        )

    levels = enumerate(original.geolevels)
    return (
        *(change(family.name, family, is_entity=True) for family in families if family.n_entities),
        *(change(name, geounits_as_entities(original, level), is_entity=False) for level, name in levels),
    )


def is_worse(before: float, after: float, loss: Fraction = MOST_LOSS) -> bool:
    """Whether a standard deviation has grown by more than the given part; one that is as good as exact has not."""
    # `not <=` instead of `>`, so that a deviation that is no number counts as worse. 1e-9 is for rounding.
    return after > EXACT_DEVIATION and not after <= before * (1 + float(loss)) + 1e-9


def warnings_of(changes: Iterable[AreaChange]) -> tuple[str, ...]:
    """A sentence for every family and geolevel that a spine makes less exact by more than 5 %, in the aim or not."""
    return tuple(sentence for change in changes for sentence in _warnings(change))


def _warnings(change: AreaChange) -> list[str]:
    lost = []
    # Two references: a step may lose what grouping wins back, and the other way round.
    for place, before in (
        ("the geography as given", change.given.mean),
        ("the spine before its groups were chosen by variance", change.steps.mean),
    ):
        if is_worse(before, change.made.mean):
            lost.append(f"{_value(before)} on {place}")
    sentences = []
    if lost:
        sentences.append(
            f"{change.name}: totals are less exact on this spine, with a mean standard deviation of "
            f"{_value(change.made.mean)} against {' and '.join(lost)}"
        )
    if change.unmet:
        sentences.append(
            f"{change.name}: it loses more than [spine.regroup] most_loss allows; the search found no better groups"
        )
    return sentences


def _value(value: float) -> str:
    return f"{value:,.2f}" if value < np.inf else "infinity"


def _deviation(variances: NDArray[np.float64]) -> Deviation:
    deviations = np.sqrt(variances)
    return Deviation(float(deviations.mean()), float(deviations.max()))


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
            optimised.spine,
            shares,
            asked.bypassing,
            most_children=asked.most_children,
            queries=query_shares(plan.strategy, optimised.spine.geolevels),
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


@dataclass(frozen=True, slots=True, eq=False)
class _Areas:
    """Areas on the spine that the steps made.

    Attributes:
        families: Families of entities; then geolevels of the geography that the spine does not have as they were,
            with names that begin with "given ".
        geolevels: Geolevels of the geography that it has as they were.
    """

    families: tuple[EntityFamily, ...]
    geolevels: tuple[str, ...]


def choose_groups(
    asked: Regroup,
    original: Spine,
    optimised: OptimisedSpine,
    families: Sequence[EntityFamily],
    measures: TotalMeasures,
) -> tuple[OptimisedSpine, Regrouped]:
    """Choose the groups of a geolevel by variance.

    Args:
        asked: What is asked for, with the families of the steps in the aim (`with_protected`).
        original: The spine of the geography.
        optimised: What the steps made of it.
        families: All families that are known, on `original`; those outside the aim are limited.
        measures: What is measured.

    Raises:
        GeographyError: a name that is no family with entities and no geolevel.
        BudgetError: the measured queries do not determine the variances.
    Privacy: public geography only.
    """
    areas = _areas_of(asked, original, optimised, families)
    _refuse_unknown(asked, original, areas)
    precisions = measures.by_geolevel(optimised.spine.geolevels)
    # The search tells families from geolevels by where their names stand.
    named = {family.name for family in areas.families}
    weights = {_name(asked, name): float(weight) for name, weight in asked.aim}
    # A family without entities has no variance, so it makes no difference to the aim.
    empty = {family.name for family in families if not family.n_entities}
    aim = RegroupingAim(
        tuple((name, weight) for name, weight in weights.items() if name in named),
        tuple((name, weight) for name, weight in weights.items() if name not in named and name not in empty),
        asked.measure,
    )
    regrouped = group_by_variance(
        optimised.spine,
        areas.families,
        precisions,
        geolevel=asked.geolevel,
        limit=asked.limit,
        aim=aim,
        limits=_limits(asked, original, optimised, areas, measures, precisions),
    )
    return further(original, optimised, Reshaped(regrouped.spine, regrouped.rows)), regrouped


def _areas_of(
    asked: Regroup, original: Spine, optimised: OptimisedSpine, families: Sequence[EntityFamily]
) -> _Areas:
    replaced = {family.name: family for family in replaced_areas(original, optimised)}
    # The search chooses new geounits for the geolevel of the groups, even where the steps have left it as it was.
    if asked.geolevel in original.geolevels and asked.geolevel not in replaced:
        areas = geounits_as_entities(original, original.level_index(asked.geolevel))
        replaced[asked.geolevel] = areas.reordered(optimised.rows)
    return _Areas(
        (
            *(family.reordered(optimised.rows) for family in families if family.n_entities),
            *(replace(family, name=GIVEN + name) for name, family in replaced.items()),
        ),
        tuple(name for name in original.geolevels if name not in replaced),
    )


def _name(asked: Regroup, name: str) -> str:
    """The search's name for a name in the aim: the geolevel of the groups means its geounits in the geography."""
    return GIVEN + name if name == asked.geolevel else name


def _refuse_unknown(asked: Regroup, original: Spine, areas: _Areas) -> None:
    known = [family.name for family in areas.families if not family.name.startswith(GIVEN)]
    unknown = [name for name in asked.may_worsen if name not in (*known, *original.geolevels)]
    if unknown:
        raise GeographyError(
            f"groups chosen by variance may worsen {', '.join(unknown)}. Wanted entity families, of which there are "
            f"{', '.join(known) or 'none'}, or geolevels of the geography: {', '.join(original.geolevels)}.",
            code="unknown-entity",
        )


def _limits(
    asked: Regroup,
    original: Spine,
    optimised: OptimisedSpine,
    areas: _Areas,
    measures: TotalMeasures,
    precisions: Mapping[str, float],
) -> dict[str, float]:
    """Greatest mean standard deviation of every family and geolevel outside the aim."""
    free = {form for name in (*dict(asked.aim), *asked.may_worsen) for form in (name, GIVEN + name)}
    families = [family for family in areas.families if family.name not in free]
    levels = [name for name in areas.geolevels if name not in free]
    if asked.reference is Reference.GEOGRAPHY:
        reference = measures.on_geography(original)
        back = np.argsort(optimised.rows)
        # Families are on the optimised spine; the reference is the geography, whose rows are in the other order.
        families = [family.reordered(back) for family in families]
    else:
        reference = _with_precisions(optimised.spine, precisions)
    variances = {family.name: entity_variances(reference, family) for family in families}
    variances |= {name: reference.variance[reference.spine.level_index(name)] for name in levels}
    means = {name: float(np.sqrt(variance).mean()) for name, variance in variances.items()}
    factor = 1 + float(asked.most_loss)
    # A mean that is as good as exact, or infinite, gives no limit that the search could work with.
    return {name: mean * factor for name, mean in means.items() if EXACT_DEVIATION < mean < np.inf}


def _with_precisions(spine: Spine, precisions: Mapping[str, float]) -> SpineVariances:
    return spine_variances(
        spine,
        [np.full(spine.n_geounits(level), precisions[name]) for level, name in enumerate(spine.geolevels)],
    )


def spine_record(plan: StatedPlan, hierarchies: Hierarchies) -> dict[str, Any] | None:
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
