"""What the rest of a spine means for one geounit: the terms that remain fixed while its inside is changed.

Problem. The groups inside a geounit (the container) are to be changed. Every variance of the spine then changes through
the container's total only. Wanted are the few numbers that describe the measurements outside the container.

Variables. For a geounit at some level: v is its variance from the measurements in its own subtree; pi is the precision
of its parent's total from the parent's own measurement and from outside the parent; s is the sum of v over the
geounit's siblings; d = 1 + pi s.

Steps. The recursion goes from the roots down to the wanted geolevel.
- The outside measurements determine the geounit's total with precision pi / d.
- If the geounit's total is given and grows by 1, the parent's total moves by 1 / d and the total of a sibling with
  variance v' moves by -pi v' / d.
- Adding these moves gives each entity's slope outside the geounit, and the weighted sum of squared slopes.

Stopping rule. There is one step for each geolevel above the wanted one.

Worked case. A root and its two children are each measured with variance 1. For one child, pi = 1, s = 1 and d = 2. Its
sibling and the root determine its total with precision 1/2: the root's measurement minus the sibling's has variance 2.
Together with its own measurement, the child's variance is 1 / (1 + 1/2) = 2/3.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.spine.variance import SpineVariances

if TYPE_CHECKING:
    from tallyveil.kernels.tree.variance import EntityParts


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """For every geounit of a geolevel, what the measurements outside it contribute.

    Given a geounit's total, the part of an entity outside the geounit is estimated as slope x the geounit's total, plus
    an error that is independent of the measurements inside the geounit.

    Attributes:
        precision: Precision with which all measurements outside determine the geounit's total; shape (n_geounits,).
        weight: Sum of weight times squared slope on the total, over all variances outside except those of entities that
            touch the geounit.
        outside_slope: For every entry of the geolevel (an entity in a geounit), the slope of the entity's part outside.
    """

    precision: Floats
    weight: Floats
    outside_slope: Floats


class _Weights(NamedTuple):
    """Weights of the variances whose sum is wanted.

    Attributes:
        geounits: For each geolevel, weight of each geounit's variance.
        carried: For each geolevel, weight of each geounit's variance and of all below it, from `carried_weights`.
        entities: Weight of each entity's variance.
    """

    geounits: tuple[Floats, ...]
    carried: tuple[Floats, ...]
    entities: Floats


def carried_weights(variances: SpineVariances, weights: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """For every geounit, how much the weighted sum of variances in its subtree grows with its own variance."""
    carried = [weights[-1]]
    for level in range(variances.spine.finest - 1, -1, -1):
        total = variances.family(level).total
        shares = np.add.reduceat(
            carried[0] * variances.below[level + 1] ** 2, variances.spine.child_offsets[level][:-1]
        )
        carried.insert(0, weights[level] + _over(shares, total**2))
    return tuple(carried)


def outside_of(
    variances: SpineVariances,
    levels: "tuple[tuple[EntityParts, Integers | None], ...]",
    entity_weights: Floats,
    weights: tuple[Floats, ...],
    level: int,
) -> Surroundings:
    """Go down from the roots to a geolevel and describe the surroundings of its geounits.

    Args:
        variances: Variances; all must be finite.
        levels: The entries of the entities at each geolevel, from `entity_parts`.
        entity_weights: Weight of each entity's variance.
        weights: For each geolevel, weight of each geounit's variance.
        level: The wanted geolevel.
    """
    weighing = _Weights(weights, carried_weights(variances, weights), entity_weights)
    n_roots = variances.spine.n_geounits(0)
    here = Surroundings(np.zeros(n_roots), np.zeros(n_roots), np.zeros(len(levels[0][0].geounit)))
    for upper in range(level):
        entries, above = levels[upper + 1]
        if above is None:
            break
        here = _down(variances, levels[upper][0], entries, above, weighing, upper, here)
    return here


def _down(
    variances: SpineVariances,
    parents: "EntityParts",
    children: "EntityParts",
    above: Integers,
    weighing: _Weights,
    level: int,
    here: Surroundings,
) -> Surroundings:
    """One step of the recursion in the head of this module: from the parents of a geolevel to their children."""
    family = variances.family(level)
    weights, carried, entity_weights = weighing
    pi = variances.precisions[level] + here.precision
    known = np.isinf(pi)
    finite = np.where(known, 1.0, pi)
    v = variances.below[level + 1]
    siblings = np.maximum(family.total[family.parent] - v, 0.0)
    # For an exactly known parent, pi is infinite. Dividing everything by pi replaces 1 by 0 and pi by 1.
    finite_share = np.where(known, 0.0, 1.0)
    d = finite_share[family.parent] + finite[family.parent] * siblings
    precision = np.where(d > 0, finite[family.parent] / np.where(d > 0, d, 1.0), np.inf)
    moved = (
        finite_share[parents.geounit] * here.outside_slope
        - finite[parents.geounit] * parents.slope * family.total[parents.geounit]
    )
    child = children.geounit
    passed_down = finite[family.parent[child]] * children.slope * v[child]
    outside_slope = _over(moved[above] + passed_down, d[child])
    entity = np.repeat(np.arange(len(children.begin) - 1), np.diff(children.begin))
    entity_above = np.repeat(np.arange(len(parents.begin) - 1), np.diff(parents.begin))
    touching = np.bincount(parents.geounit, entity_weights[entity_above] * moved**2, minlength=len(pi))
    touched_here = np.bincount(child, entity_weights[entity] * moved[above] ** 2, minlength=len(v))
    share = carried[level + 1] * v**2
    shares = np.add.reduceat(share, variances.spine.child_offsets[level][:-1])
    from_outside = finite_share**2 * (here.weight + weights[level])
    outside = from_outside[family.parent] + np.maximum(touching[family.parent] - touched_here, 0.0)
    outside += finite[family.parent] ** 2 * np.maximum(shares[family.parent] - share, 0.0)
    return Surroundings(precision, _over(outside, d**2), outside_slope)


def _over(numerator: Floats, denominator: Floats) -> Floats:
    quotient: Floats = np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), 0.0)
    return quotient
