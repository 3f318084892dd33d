"""What the rest of a spine means for one geounit: the terms that stay fixed while its inside is changed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.spine.variance import SpineVariances

if TYPE_CHECKING:
    from tallyveil.kernels.tree.variance import Parts


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """For every geounit of a geolevel, what lies outside it.

    Given a geounit's total, the part of an entity outside the geounit is estimated as slope x the geounit's total, plus
    an error that is independent of the measurements inside the geounit.

    Attributes:
        precision: Precision with which all outside measurements tell the geounit's total; shape (n_geounits,).
        weight: Sum of weight times squared slope on the total, over everything outside that does not touch it.
        outside_slope: For every entry of the geolevel (an entity in a geounit), the slope of its part outside.
    """

    precision: Floats
    weight: Floats
    outside_slope: Floats


def carried_weights(found: SpineVariances, weights: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """For every geounit, by how much the weighted sum of variances in its subtree grows with its own variance."""
    carried = [weights[-1]]
    for level in range(found.spine.finest - 1, -1, -1):
        total = found.family(level).total
        shares = np.add.reduceat(
            carried[0] * found.below[level + 1] ** 2, found.spine.child_offsets[level][:-1]
        )
        carried.insert(0, weights[level] + _over(shares, total**2))
    return tuple(carried)


def outside_of(
    found: SpineVariances,
    levels: "tuple[tuple[Parts, Integers | None], ...]",
    entity_weights: Floats,
    weights: tuple[Floats, ...],
    level: int,
) -> Surroundings:
    """Go down from the roots to a geolevel.

    Args:
        found: Variances; all finite.
        levels: As `entity_parts` gives them.
        entity_weights: Weight of each entity's variance.
        weights: For each geolevel, weight of each geounit's variance.
        level: The geolevel wanted.
    """
    carried = carried_weights(found, weights)
    n_roots = found.spine.n_geounits(0)
    here = Surroundings(np.zeros(n_roots), np.zeros(n_roots), np.zeros(len(levels[0][0].geounit)))
    for upper in range(level):
        entries, above = levels[upper + 1]
        if above is None:
            break
        here = _down(found, levels[upper][0], entries, above, entity_weights, (weights, carried), upper, here)
    return here


def _down(
    found: SpineVariances,
    parents: "Parts",
    children: "Parts",
    above: Integers,
    entity_weights: Floats,
    weighing: tuple[tuple[Floats, ...], tuple[Floats, ...]],
    level: int,
    here: Surroundings,
) -> Surroundings:
    """From the parents of a geolevel to their children.

    With pi the precision of the parent's total from its own measurement and from outside, and d = 1 + pi times
    the variance of the siblings' sum: the child's total moves the parent's by 1 / d and each sibling's by -pi v / d.
    """
    family = found.family(level)
    weights, carried = weighing
    pi = found.precisions[level] + here.precision
    known = np.isinf(pi)
    finite = np.where(known, 1.0, pi)
    v = found.below[level + 1]
    siblings = np.maximum(family.total[family.parent] - v, 0.0)
    # Where the parent is known exactly, divide through by pi first: 1 becomes 0, and pi becomes 1.
    one = np.where(known, 0.0, 1.0)
    d = one[family.parent] + finite[family.parent] * siblings
    precision = np.where(d > 0, finite[family.parent] / np.where(d > 0, d, 1.0), np.inf)
    moved = (
        one[parents.geounit] * here.outside_slope
        - finite[parents.geounit] * parents.slope * family.total[parents.geounit]
    )
    child = children.geounit
    own = finite[family.parent[child]] * children.slope * v[child]
    outside_slope = _over(moved[above] + own, d[child])
    entity = np.repeat(np.arange(len(children.begin) - 1), np.diff(children.begin))
    entity_above = np.repeat(np.arange(len(parents.begin) - 1), np.diff(parents.begin))
    touching = np.bincount(parents.geounit, entity_weights[entity_above] * moved**2, minlength=len(pi))
    touched_here = np.bincount(child, entity_weights[entity] * moved[above] ** 2, minlength=len(v))
    share = carried[level + 1] * v**2
    shares = np.add.reduceat(share, found.spine.child_offsets[level][:-1])
    from_outside = one**2 * (here.weight + weights[level])
    outside = from_outside[family.parent] + np.maximum(touching[family.parent] - touched_here, 0.0)
    outside += finite[family.parent] ** 2 * np.maximum(shares[family.parent] - share, 0.0)
    return Surroundings(precision, _over(outside, d**2), outside_slope)


def _over(numerator: Floats, denominator: Floats) -> Floats:
    found: Floats = np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), 0.0)
    return found
