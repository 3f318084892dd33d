"""Groups of a spine chosen by variance: for the aim of the release file, within limits for everything else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil.budget.caps import EXACT_DEVIATION, Reference
from tallyveil.budget.spine.measures import TotalMeasures
from tallyveil.budget.spine.regroup import GIVEN, Regrouped, RegroupingAim, group_by_variance
from tallyveil.budget.spine.variance import SpineVariances, entity_variances, spine_variances
from tallyveil.errors import GeographyError
from tallyveil.geography.areas import geounits_as_entities, replaced_areas
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.optimise import OptimisedSpine, further
from tallyveil.geography.respine import Reshaped
from tallyveil.geography.spine import Spine
from tallyveil.plans.inputs import Regroup


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
