"""Lower bounds on the variances of areas, over all choices of the groups just above the finest geounits.

Problem. Groups of blocks are chosen by heuristics. Wanted is, for each area, a variance that no other choice of groups
of limited size can fall below.

Steps. Each area is bounded alone. With n of a container's finest geounits on one side of the area, no groups determine
the sum of this side from below better than as few full groups as possible. A group of k has variance k / (q k + p), q
and p being the precisions of a group and of a finest geounit. Each container then has two parts, inside and outside the
area, and the passes of `variance.py` go on from there. docs/proofs/groups.md shows that no group with geounits of both
sides does better.

Worked case. A tract has 30 blocks, 20 of them in a place, and groups of at most 22. With q = 1 and p = 0 the place has
one group of variance 1, and the rest another. Nothing else is measured. So the place has variance 1, as with groups
that are made for it.
"""

import numpy as np

from tallyveil.arrays import Integers, Numbers
from tallyveil.budget.spine.variance import SpineVariances, inverse
from tallyveil.errors import BudgetError
from tallyveil.geography.distance_bounds import entities_at_a_time, lowest_limits, members_inside
from tallyveil.geography.entities import EntityFamily, require_same_spine
from tallyveil.geography.steps import FanOutLimit


def variance_bounds(
    variances: SpineVariances, family: EntityFamily, geolevel: str, limit: FanOutLimit
) -> Numbers:
    """Least variance that each entity could have with any groups of a geolevel; shape (n_entities,).

    Every choice of the groups is considered that keeps the limit, and all other geounits stay. The bound of an entity
    is reached by the groups that are best for this entity alone. So the bound of a mean may be out of reach.

    Args:
        variances: Variances on a spine, with the precision of every measurement.
        family: Family of this spine.
        geolevel: Geolevel of the groups, just above the finest.
        limit: Largest number of finest geounits of a group.

    Raises:
        BudgetError: geounits of the two finest geolevels have different precisions, as after bypassing, or none.
        GeographyError: the geolevel is not the one above the finest, groups break the limit, or the family belongs to
            another spine.
    """
    spine = variances.spine
    require_same_spine(spine, family)
    limits = lowest_limits(spine, geolevel, limit, "bounds on variances are")
    group, finest = (_only(variances, level) for level in (spine.finest - 1, spine.finest))
    if group + finest == 0:
        raise BudgetError(
            f"neither {geolevel} nor {spine.geolevels[-1]} has a measurement that tells totals, so that no groups "
            "determine them. Measure a query that does, such as 'total'."
        )
    container = spine.finest - 2
    sizes = np.diff(spine.finest_offsets(container))
    chunks = []
    for entities in entities_at_a_time(family, len(sizes)):
        inside = members_inside(spine, family, entities, container)
        within = (_fullest(part, limits, group, finest) for part in (inside, sizes - inside))
        chunks.append(_upward(variances, container, *within))
    return np.concatenate(chunks) if chunks else np.zeros(0)


def _only(variances: SpineVariances, level: int) -> float:
    """The precision of all geounits of a geolevel."""
    precisions = variances.precisions[level]
    if bool(np.any(precisions != precisions[0])):
        raise BudgetError(
            f"geounits of {variances.spine.geolevels[level]} have different shares of the budget, as bypassing makes "
            "them. The bound holds for equal shares: build the spine with --no-bypass."
        )
    return float(precisions[0].real)


def _fullest(number: Integers, limits: Integers, group: float, finest: float) -> Numbers:
    """Least variance of the sum of some finest geounits from their groups: full groups, and one for the rest."""

    def of_group(size: Integers) -> Numbers:
        return np.where(size > 0, size / (group * np.maximum(size, 1) + finest), 0)

    return (number // limits) * of_group(limits) + of_group(number % limits)


def _upward(variances: SpineVariances, level: int, inside: Numbers, outside: Numbers) -> Numbers:
    """Variances of entities from those of their part and of the rest of every container, as in `variance.py`."""
    spine = variances.spine
    total = inside + outside
    slope, spread = _ratio(inside, total), _ratio(inside * outside, total)
    below = inverse(variances.precisions[level] + inverse(total))
    while level > 0:
        level -= 1
        starts, parent = spine.child_offsets[level][:-1], spine.parents(level + 1)
        total = np.add.reduceat(below, starts, axis=1)
        above = _ratio(np.add.reduceat(below * slope, starts, axis=1), total)
        spread = np.add.reduceat(spread + below * (slope - above[:, parent]) ** 2, starts, axis=1)
        slope, below = above, inverse(variances.precisions[level] + inverse(total))
    summed: Numbers = (spread + slope**2 * below).sum(axis=1)
    return summed


def _ratio(part: Numbers, whole: Numbers) -> Numbers:
    # A whole that is known exactly has parts that are known exactly: nothing is left to be divided.
    ratio: Numbers = np.where(whole > 0, part / np.where(whole > 0, whole, 1), 0)
    return ratio
