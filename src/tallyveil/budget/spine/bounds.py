"""Lower bounds on the variances of areas, over all choices of the groups just above the finest geounits.

Problem. Groups of blocks are chosen by heuristics. Wanted is, for each area, a variance that no other choice of groups
of limited size can fall below.

Steps. Each area is bounded alone. With n of a container's finest geounits on one side of the area, no groups determine
the sum of this side from below better than as few full groups as possible. A group of k has variance k / (q k + p), q
and p being the precisions of a group and of a finest geounit. Each container then has two parts, inside and outside the
area, and the passes of `variance.py` go on from there. docs/proofs/groups.md shows that no group with geounits of both
sides does better.

Several areas share the same groups. If a group contains some finest geounits of an entity and others, the entity
becomes much less exact, since only measurements of finest geounits determine its part of the group. `SharedBounds` adds
up what other areas could gain from such groups, and what this entity would lose.

Worked case. A tract has 30 blocks, 20 of them in a place, and groups of at most 22. With q = 1 and p = 0 the place has
one group of variance 1, and the rest another. Nothing else is measured. So the place has variance 1, as with groups
that are made for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from tallyveil.arrays import Bools, Floats, Integers, Numbers
from tallyveil.budget.spine.variance import SpineVariances, inverse
from tallyveil.errors import BudgetError
from tallyveil.geography.distance_bounds import entities_at_a_time, lowest_limits, members_inside
from tallyveil.geography.entities import EntityFamily, require_same_spine
from tallyveil.geography.steps import FanOutLimit, membership_classes, together


def variance_bounds(
    variances: SpineVariances,
    family: EntityFamily,
    geolevel: str,
    limit: FanOutLimit,
    *,
    single: float | None = None,
) -> Numbers:
    """Least variance that each entity could have with any groups of a geolevel; shape (n_entities,).

    Every choice of the groups is considered that keeps the limit, and all other geounits stay. If nothing is bypassed,
    the bound of an entity is reached by the groups that are best for this entity alone. No groups need reach the mean
    of the bounds of several entities.

    Args:
        variances: Variances on a spine, with the precision of every measurement.
        family: Family of this spine.
        geolevel: Geolevel of the groups, just above the finest.
        limit: Largest number of finest geounits of a group.
        single: Precision of a finest geounit that is alone in its group, if bypassing gives it the group's budget
            (`greatest_precisions`); None if nothing is bypassed.

    Raises:
        BudgetError: geounits of the two finest geolevels have different precisions, as after bypassing, or none.
        GeographyError: the geolevel is not the one above the finest, groups break the limit, or the family belongs to
            another spine.
    """
    spine = variances.spine
    require_same_spine(spine, family)
    within = _lowest(variances, geolevel, limit, single)
    container = spine.finest - 2
    sizes = np.diff(spine.finest_offsets(container))
    chunks = []
    for entities in entities_at_a_time(family, len(sizes)):
        inside = members_inside(spine, family, entities, container)
        parts = (_fullest(part, within.limits, within) for part in (inside, sizes - inside))
        chunks.append(_upward(variances, container, *parts))
    return np.concatenate(chunks) if chunks else np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class SharedBounds:
    """Bounds on the standard deviations of the entities of some families, which share their groups.

    An entity divides a group if it has some of the group's finest geounits and not all.

    Attributes:
        alone: Least standard deviation of each entity, with the groups that are best for it; shape (n_entities,).
        undivided: Its least standard deviation if no entity divides a group in a container that it touches.
        divided: Least variance of an entity that divides groups in one container; h times this in h containers.
        touched: Whether each entity has finest geounits in each container; shape (n_entities, n_containers).
        divisible: Whether it has some of the container's finest geounits and not all; the same shape.
        beside: Whether each entity touches a container that another could divide; shape (n_entities, n_entities), the
            other in the column.
    """

    alone: Floats
    undivided: Floats
    divided: float
    touched: csr_array
    divisible: csr_array
    beside: csr_array

    def least_sum(self, weights: Floats) -> float:
        """A lower bound on the sum of weighted standard deviations, for every choice of the groups
        (docs/proofs/groups.md, Proposition 7).

        Args:
            weights: Weight of each entity, 0 or more.
        """
        return float(weights @ self.undivided) - float(self._losses(weights).clip(min=0).sum())

    def keeps_groups_whole(self, reached: Floats) -> bool:
        """Whether the mean over all entities is greater than on the spine in every choice of groups in which an entity
        divides a group (docs/proofs/groups.md, Corollary 9).

        Args:
            reached: Standard deviation of each entity on the spine.
        """
        losses = self._losses(np.ones(len(reached)))
        most = float(losses.clip(min=0).sum()) or float(losses.max(initial=-np.inf))
        return float(self.undivided.sum()) - most > float(reached.sum())

    def _losses(self, weights: Floats) -> Floats:
        """By how much, at most, the sum falls if each entity divides groups; minus infinity for one that cannot."""
        gain = weights * (self.undivided - self.alone)
        # Most that the others gain if an entity divides groups: in one container, and in all of them.
        of_container = self.touched.T @ gain
        in_one = np.full(len(weights), -np.inf)
        numbers = np.diff(self.divisible.indptr)
        entity_of = np.repeat(np.arange(len(weights)), numbers)
        np.maximum.at(in_one, entity_of, of_container[self.divisible.indices])
        in_one -= gain
        in_all = self.beside.T @ gain - gain
        losses = np.full(len(weights), -np.inf)
        for entity, containers in enumerate(numbers.tolist()):
            if containers == 0:
                continue
            number = np.arange(1, containers + 1)
            gained = np.minimum(number * in_one[entity], in_all[entity])
            if weights[entity] > 0:
                deviation = np.sqrt(np.maximum(self.alone[entity] ** 2, number * self.divided))
                gained = gained - weights[entity] * (deviation - self.undivided[entity])
            losses[entity] = gained.max()
        return losses

    def least_mean(self, part: Bools, reached: Floats) -> float:
        """A lower bound on the mean of some entities, over all choices of groups whose mean over all entities is no
        greater than on the spine (docs/proofs/groups.md, Corollary 8).

        Args:
            part: Which entities the mean is over; at least one.
            reached: Standard deviation of each entity on the spine.
        """
        sums = [
            self.least_sum(part + weight * np.ones(len(part))) - weight * float(reached.sum())
            for weight in _WEIGHTS_OF_ALL
        ]
        return max(float(self.alone[part].sum()), *sums) / int(part.sum())


_WEIGHTS_OF_ALL = (0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""Values of lambda in Corollary 8 of docs/proofs/groups.md. Each gives a valid bound; the greatest is taken."""


def shared_bounds(
    variances: SpineVariances,
    families: Sequence[EntityFamily],
    geolevel: str,
    limit: FanOutLimit,
    *,
    single: float | None = None,
) -> SharedBounds:
    """Bounds on the standard deviations of the entities of some families, which share any groups of a geolevel.

    Args:
        variances, geolevel, limit, single: As in `variance_bounds`.
        families: Families of this spine, at least one of them with entities.

    Raises:
        BudgetError, GeographyError: as `variance_bounds` does.
    """
    spine, family = variances.spine, together(families)
    alone = np.sqrt(variance_bounds(variances, family, geolevel, limit, single=single))
    within = _lowest(variances, geolevel, limit, single)
    level = spine.finest - 2
    container = spine.ancestors(level)
    # Geounits of a kind are in one container and in the same entities. Kinds are sorted by their containers.
    alike = membership_classes(spine, [family], spine.finest)
    _, first, kind_of, number = np.unique(
        container * (int(alike.max()) + 1) + alike, return_index=True, return_inverse=True, return_counts=True
    )
    begin = np.searchsorted(container[first], np.arange(spine.n_geounits(level)))
    of_kind = _fullest(number, within.limits[container[first]], within)
    undisturbed = _fullest(np.diff(spine.finest_offsets(level)), within.limits, within)
    undivided, touched, divisible = [], [], []
    for entities in entities_at_a_time(family, len(number)):
        members = family.members[family.offsets[entities.start] : family.offsets[entities.stop]]
        entity = np.repeat(np.arange(len(entities)), family.sizes[entities.start : entities.stop])
        holds = np.zeros((len(entities), len(number)), dtype=np.bool_)
        holds[entity, kind_of.reshape(-1)[members]] = True
        inside = np.add.reduceat(holds * of_kind, begin, axis=1)
        # In a container that an entity does not touch, groups are free.
        has, lacks = (np.logical_or.reduceat(part, begin, axis=1) for part in (holds, ~holds))
        outside = np.where(has, np.add.reduceat(~holds * of_kind, begin, axis=1), undisturbed)
        undivided.append(_upward(variances, level, inside, outside))
        touched.append(has)
        divisible.append(has & lacks)
    least = np.maximum(np.sqrt(np.concatenate(undivided)), alone)
    apart = 1 / (2 * within.finest) if within.finest > 0 else np.inf
    # Most entities touch few containers.
    touches, divides = (csr_array(np.concatenate(part)) for part in (touched, divisible))
    return SharedBounds(alone, least, apart, touches, divides, touches @ divides.T)


@dataclass(frozen=True, slots=True, eq=False)
class _Lowest:
    """What groups just above the finest geounits are: their largest size in each container, and the precisions."""

    limits: Integers
    group: float
    finest: float
    single: float


def _lowest(variances: SpineVariances, geolevel: str, limit: FanOutLimit, single: float | None) -> _Lowest:
    spine = variances.spine
    limits = lowest_limits(spine, geolevel, limit, "bounds on variances are")
    group, finest = (_only(variances, level) for level in (spine.finest - 1, spine.finest))
    if group + finest == 0:
        raise BudgetError(
            f"neither {geolevel} nor {spine.geolevels[-1]} has a measurement that tells totals, so that no groups "
            "determine them. Measure a query that does, such as 'total'."
        )
    return _Lowest(limits, group, finest, max(single or 0.0, group + finest))


def _only(variances: SpineVariances, level: int) -> float:
    """The precision of all geounits of a geolevel."""
    precisions = variances.precisions[level]
    if bool(np.any(precisions != precisions[0])):
        raise BudgetError(
            f"geounits of {variances.spine.geolevels[level]} have different shares of the budget, as bypassing makes "
            "them. The bound holds for equal shares: build the spine with --no-bypass."
        )
    return float(precisions[0].real)


def _fullest(number: Integers, limits: Integers, within: _Lowest) -> Numbers:
    """Least variance of the sum of some finest geounits from their groups: full groups, and one for the rest."""

    alone = 1 / within.single

    def of_group(size: Integers) -> Numbers:
        several = size / (within.group * np.maximum(size, 1) + within.finest)
        return np.where(size > 1, several, np.where(size > 0, alone, 0))

    full, rest = (number // limits) * of_group(limits), number % limits
    # After bypassing, finest geounits that are alone in their groups can have a greater precision.
    least: Numbers = np.minimum(full + np.minimum(of_group(rest), rest * alone), number * alone)
    return least


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
