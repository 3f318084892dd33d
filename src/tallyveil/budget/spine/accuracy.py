"""How accurately a spine answers a query for areas: its own geounits, entities, and the geounits of another spine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.spine.affordable import require_affordable
from tallyveil.budget.spine.precision import answer_precisions
from tallyveil.budget.spine.variance import SpineVariances, entity_variances, spine_variances
from tallyveil.budget.strategy import Strategy
from tallyveil.geography import EntityFamily, GeounitShares, Spine
from tallyveil.geography.areas import StatedGeounits, with_sums

Kind = Literal["geolevel", "entities"]


@dataclass(frozen=True, slots=True)
class AreaAccuracy:
    """Standard deviations of one answer over all areas of a kind, in counts.

    Attributes:
        name: The geolevel, or the family of entities.
        kind: Whether the areas are a geolevel or entities.
        areas: Number of areas.
        mean: Mean of their standard deviations.
        median: Median of their standard deviations.
        q90: Their 90th percentile.
        greatest: The largest of them.
    """

    name: str
    kind: Kind
    areas: int
    mean: float
    median: float
    q90: float
    greatest: float


def measured_variances(
    spine: Spine,
    strategy: Strategy,
    summed: Mapping[str, int],
    *,
    shares: GeounitShares | None = None,
    exact: Sequence[str] = (),
    sums: Sequence[StatedGeounits] = (),
) -> SpineVariances:
    """Variances of an answer on a spine under a strategy, after a check that the strategy can pay for the shares.

    Args:
        spine: The spine.
        strategy: What is measured.
        summed: For each query group, the number of answers to sum, as in `precision_of`.
        shares: Share of every geounit. None gives every geounit the share of its geolevel.
        exact: Geolevels at which the answer is published exactly.
        sums: Sums of siblings of which the answer is published exactly. The result has a geolevel for these, too
            (`with_sums`).

    Raises:
        BudgetError: the shares cost more than the strategy's total, or shares or precisions do not fit the spine.
    """
    if shares is not None:
        require_affordable(spine, shares, strategy)
    by_geolevel = answer_precisions(spine, strategy, summed, shares=shares, exact=exact)
    by_name = dict(zip(spine.geolevels, by_geolevel, strict=True))
    whole = with_sums(spine, sums)
    known = (np.full(whole.n_geounits(level), np.inf) for level in range(whole.n_levels))
    return spine_variances(
        whole, [by_name.get(name, of_sums) for name, of_sums in zip(whole.geolevels, known, strict=True)]
    )


def geolevel_accuracies(variances: SpineVariances, spine: Spine | None = None) -> tuple[AreaAccuracy, ...]:
    """Accuracy of a spine's own geounits, root first; the spine is that of the variances, but for exact sums."""
    return tuple(
        _accuracy(name, "geolevel", variances.variance[variances.spine.level_index(name)])
        for name in (spine or variances.spine).geolevels
    )


def family_accuracies(
    variances: SpineVariances, families: Sequence[EntityFamily], kind: Kind = "entities"
) -> tuple[AreaAccuracy, ...]:
    """Accuracy of every family's entities. Families without entities are left out.

    Raises:
        GeographyError: a family belongs to another spine.
    """
    return tuple(
        _accuracy(family.name, kind, entity_variances(variances, family))
        for family in families
        if family.n_entities
    )


def _accuracy(name: str, kind: Kind, variances: NDArray[np.float64]) -> AreaAccuracy:
    deviations = np.sort(np.sqrt(variances))
    n = len(deviations)
    return AreaAccuracy(
        name,
        kind,
        n,
        float(deviations.mean()),
        float(deviations[-(-n // 2) - 1]),
        float(deviations[-(-9 * n // 10) - 1]),
        float(deviations[-1]),
    )
