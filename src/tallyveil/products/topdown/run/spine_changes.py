"""What a spine changes for every family and geolevel, and a warning for each that gets less exact."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.caps import EXACT_DEVIATION, MOST_LOSS
from tallyveil.budget.spine.regroup import GIVEN, Regrouped
from tallyveil.budget.spine.variance import TotalMeasures, entity_variances
from tallyveil.geography.areas import AreaChange, Deviation, geounits_as_entities
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.optimise import OptimisedSpine
from tallyveil.geography.spine import Spine


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
