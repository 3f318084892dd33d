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
from tallyveil.budget.spine.higher_groups import (
    EntityTree,
    HigherGroups,
    higher_groups,
    only_precision,
    ratio,
)
from tallyveil.budget.spine.variance import SpineVariances, entity_parts, entity_variances, inverse
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.distance_bounds import (
    FreeGroups,
    entities_at_a_time,
    free_groups,
    lowest_groups,
    members_inside,
    require_groups,
)
from tallyveil.geography.entities import EntityFamily, require_same_spine
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import membership_classes, together


def variance_bounds(
    variances: SpineVariances, family: EntityFamily, free: FreeGroups, *, single: float | None = None
) -> Numbers:
    """Least variance that each entity could have with any groups of the free geolevels; shape (n_entities,).

    Every choice of the groups is considered that keeps the limit, and all other geounits stay. If groups just above the
    finest geounits alone are free and nothing is bypassed, the bound of an entity is reached by the groups that are
    best for this entity alone. No groups need reach the mean of the bounds of several entities.

    Args:
        variances: Variances on a spine, with the precision of every measurement.
        family: Family of this spine.
        free: The free groups.
        single: Precision of a finest geounit that is alone in its group, if bypassing gives it the group's budget
            (`greatest_precisions`); None if nothing is bypassed.

    Raises:
        BudgetError: geounits of the two finest geolevels, or free groups, have different precisions, as after
            bypassing, or none.
        GeographyError: a geolevel cannot be one of groups, groups break the limit, or the family belongs to another
            spine.
    """
    spine = variances.spine
    require_same_spine(spine, family)
    higher = _higher(spine, free)
    within = _lowest(variances, free, single) if free.are_lowest(spine) else None
    container = spine.finest - 2
    width = spine.n_geounits(
        container if within is not None or higher is None else spine.level_index(higher) + 1
    )
    chunks = []
    for entities in entities_at_a_time(family, width):
        if within is None:
            tree = _as_given(variances, family, entities, higher)
        else:
            inside = members_inside(spine, family, entities, container)
            outside = np.diff(spine.finest_offsets(container)) - inside
            tree = _upward(
                variances, container, *(_fullest(part, within.limits, within) for part in (inside, outside))
            )
        if higher is None:
            chunks.append(tree.variance)
        else:
            chunks.append(higher_groups(variances, tree, higher, free.limit).alone() ** 2)
    return np.concatenate(chunks) if chunks else np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class SharedBounds:
    """Bounds on the standard deviations of the entities of some families, which share their groups.

    An entity divides a group just above the finest geounits if it has some of the group's finest geounits and not all.

    Attributes:
        alone: Least standard deviation of each entity, with the groups that are best for it; shape (n_entities,).
        undivided: Its least standard deviation if no entity divides a group in a container that it touches; with free
            groups of higher geounits, a number that its bound in `higher` does not exceed.
        divided: Least variance of an entity that divides groups in one container; h times this in h containers.
        touched: Whether each entity has finest geounits in each container; shape (n_entities, n_containers).
        divisible: Whether it has some of the container's finest geounits and not all; the same shape.
        beside: Whether each entity touches a container that another could divide; shape (n_entities, n_entities), the
            other in the column.
        higher: Bounds over all groups of higher geounits, if no entity divides a lower group; None if they are not
            free.
    """

    alone: Floats
    undivided: Floats
    divided: float
    touched: csr_array
    divisible: csr_array
    beside: csr_array
    higher: HigherGroups | None = None

    def least_sum(self, weights: Floats) -> float:
        """A lower bound on the sum of weighted standard deviations, for every choice of the groups
        (docs/proofs/groups.md, Propositions 7 and 13).

        Args:
            weights: Weight of each entity, 0 or more.
        """
        together = self._undivided_sum(weights) - float(self._losses(weights).clip(min=0).sum())
        return max(together, float(weights @ self.alone))

    def _undivided_sum(self, weights: Floats) -> float:
        """The least sum if no entity divides a group of finest geounits."""
        return float(weights @ self.undivided) if self.higher is None else self.higher.least_sum(weights)

    def keeps_groups_whole(self, reached: Floats) -> bool:
        """Whether the mean over all entities is greater than on the spine in every choice of groups in which an entity
        divides a group (docs/proofs/groups.md, Corollary 9).

        Args:
            reached: Standard deviation of each entity on the spine.
        """
        losses = self._losses(np.ones(len(reached)))
        most = float(losses.clip(min=0).sum()) or float(losses.max(initial=-np.inf))
        return self._undivided_sum(np.ones(len(reached))) - most > float(reached.sum())

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
    free: FreeGroups,
    *,
    single: float | None = None,
) -> SharedBounds:
    """Bounds on the standard deviations of the entities of some families, which share any groups of free geolevels.

    Args:
        variances, free, single: As in `variance_bounds`.
        families: Families of this spine, at least one of them with entities.

    Raises:
        BudgetError, GeographyError: as `variance_bounds` does.
    """
    spine, family = variances.spine, together(families)
    alone = np.sqrt(variance_bounds(variances, family, free, single=single))
    higher = _higher(spine, free)
    if not free.are_lowest(spine):
        nowhere = csr_array((family.n_entities, 0))
        none_beside = csr_array((family.n_entities, family.n_entities))
        if higher is None:
            return SharedBounds(alone, alone, np.inf, nowhere, nowhere, none_beside)
        tree = _as_given(variances, family, range(family.n_entities), higher)
        any_groups = higher_groups(variances, tree, higher, free.limit)
        return SharedBounds(alone, any_groups.greatest(), np.inf, nowhere, nowhere, none_beside, any_groups)
    within = _lowest(variances, free, single)
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
    trees, touched, divisible = [], [], []
    for entities in entities_at_a_time(family, len(number)):
        members = family.members[family.offsets[entities.start] : family.offsets[entities.stop]]
        entity = np.repeat(np.arange(len(entities)), family.sizes[entities.start : entities.stop])
        holds = np.zeros((len(entities), len(number)), dtype=np.bool_)
        holds[entity, kind_of.reshape(-1)[members]] = True
        inside = np.add.reduceat(holds * of_kind, begin, axis=1)
        # In a container that an entity does not touch, groups are free.
        has, lacks = (np.logical_or.reduceat(part, begin, axis=1) for part in (holds, ~holds))
        outside = np.where(has, np.add.reduceat(~holds * of_kind, begin, axis=1), undisturbed)
        trees.append(_upward(variances, level, inside, outside))
        touched.append(has)
        divisible.append(has & lacks)
    apart = 1 / (2 * within.finest) if within.finest > 0 else np.inf
    # Most entities touch few containers.
    touches, divides = (csr_array(np.concatenate(part)) for part in (touched, divisible))
    variance = np.concatenate([tree.variance for tree in trees])
    groups = None
    least = np.maximum(np.sqrt(variance), alone)
    if higher is not None:
        slope, below = (
            np.concatenate([getattr(tree, name) for tree in trees]) for name in ("slope", "below")
        )
        groups = higher_groups(variances, EntityTree(level, variance, slope, below), higher, free.limit)
        least = groups.greatest()
    return SharedBounds(alone, least, apart, touches, divides, touches @ divides.T, groups)


@dataclass(frozen=True, slots=True, eq=False)
class _Lowest:
    """What groups just above the finest geounits are: their largest size in each container, and the precisions."""

    limits: Integers
    group: float
    finest: float
    single: float


def _lowest(variances: SpineVariances, free: FreeGroups, single: float | None) -> _Lowest:
    spine = variances.spine
    limits = free_groups(spine, lowest_groups(spine), free.limit)[1]
    group, finest = (only_precision(variances, level) for level in (spine.finest - 1, spine.finest))
    if group + finest == 0:
        raise BudgetError(
            f"neither {lowest_groups(spine)} nor {spine.geolevels[-1]} has a measurement that tells totals, so that no "
            "groups determine them. Measure a query that does, such as 'total'."
        )
    return _Lowest(limits, group, finest, max(single or 0.0, group + finest))


def _higher(spine: Spine, free: FreeGroups) -> str | None:
    """The only free geolevel of groups of higher geounits; None if there is none."""
    require_groups(spine, free.geolevels)
    higher = free.higher(spine)
    if len(higher) > 1:
        raise GeographyError(
            f"bounds on variances are over the groups just above the finest geounits and of one more geolevel, and the "
            f"groups of {', '.join(higher)} are to be free. Name one of them.",
            code="spine-step",
        )
    return higher[0] if higher else None


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


def _upward(variances: SpineVariances, level: int, inside: Numbers, outside: Numbers) -> EntityTree:
    """Entities from the variances of their part and of the rest of every container, as in `variance.py`."""
    spine = variances.spine
    total = inside + outside
    slope, spread = ratio(inside, total), ratio(inside * outside, total)
    below = inverse(variances.precisions[level] + inverse(total))
    slopes, belows = slope, below
    for above in range(level - 1, -1, -1):
        starts, parent = spine.child_offsets[above][:-1], spine.parents(above + 1)
        total = np.add.reduceat(below, starts, axis=1)
        mean = ratio(np.add.reduceat(below * slope, starts, axis=1), total)
        spread = np.add.reduceat(spread + below * (slope - mean[:, parent]) ** 2, starts, axis=1)
        slope, below = mean, inverse(variances.precisions[above] + inverse(total))
    return EntityTree(level, (spread + slope**2 * below).sum(axis=1), slopes, belows)


def _as_given(
    variances: SpineVariances, family: EntityFamily, entities: range, higher: str | None
) -> EntityTree:
    """Entities on a spine as it is, at the geounits below its groups of a geolevel."""
    level = 0 if higher is None else variances.spine.level_index(higher) + 1
    begin, end = family.offsets[entities.start], family.offsets[entities.stop]
    part = EntityFamily(
        family.name,
        family.codes[entities.start : entities.stop],
        family.offsets[entities.start : entities.stop + 1] - begin,
        family.members[begin:end],
        family.n_finest,
    )
    touched = entity_parts(variances, part)[level][0]
    slope = np.zeros((len(entities), variances.spine.n_geounits(level)))
    slope[np.repeat(np.arange(len(entities)), np.diff(touched.begin)), touched.geounit] = touched.slope
    return EntityTree(level, entity_variances(variances, part), slope, variances.below[level][None])
