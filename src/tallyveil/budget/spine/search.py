"""Searches for good groups in every container of a spine, one container at a time, with the rest fixed.

Problem. A container's children are to be put into groups of limited size so that the weighted sum of all variances
becomes small. With everything else fixed, this sum depends on the container's groups only through a few numbers. They
are the terms of `FixedTerms`: for each child its variance from below and what depends on it, for each entity its slope
and weight, and for the surroundings a precision and a weight.

Steps. The compiled kernel (`kernels.tree.regrouping`) starts from the present groups and does passes. A pass moves
each child to the group where the sum is smallest, then merges pairs of groups. For finest geounits the kernel starts a
second time, from groups of children that are in the same entities, and the better result is kept.

Stopping rule. A start ends when a pass changes nothing, or after `MOST_PASSES` passes.

Worked case of the second start: children of kinds a a a b b with at most two in a group give the groups aa, a, bb.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.spine.surroundings import carried_weights, outside_of
from tallyveil.budget.spine.variance import SpineVariances, entity_parts
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography import EntityFamily, FanOutLimit, Spine
from tallyveil.geography.steps import membership_classes, together

if TYPE_CHECKING:
    from tallyveil.kernels.tree.regrouping import Container

MOST_PASSES = 6
"""Largest number of passes from one start."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedTerms:
    """What the search of all containers needs, laid out so that each container's part is contiguous.

    Attributes:
        below: Variance of every child from its own subtree.
        carried: Weight of every child's variance, including all variances below that depend on it.
        alike: Children with the same number are interchangeable. None treats all children as different.
        begin_child, entry, slope: Entities that touch each child, numbered within its container, and their slopes.
        begin_outer, weight, outside_slope: Entities that touch each container, their weights, and the slopes of their
            parts outside the container.
        outside: For every container: weight of the surroundings, precision from them, own precision, own weight.
    """

    below: Floats
    carried: Floats
    alike: Integers | None
    begin_child: Integers
    entry: Integers
    slope: Floats
    begin_outer: Integers
    weight: Floats
    outside_slope: Floats
    outside: tuple[Floats, Floats, Floats, Floats]

    def container(self, u: int, children: slice, group_precision: float, limit: int) -> "Container":
        """Container u, as the kernel takes it."""
        from tallyveil.kernels.tree.regrouping import Container

        first, last = int(self.begin_child[children.start]), int(self.begin_child[children.stop])
        touching = slice(int(self.begin_outer[u]), int(self.begin_outer[u + 1]))
        n = children.stop - children.start
        alike = np.arange(n) if self.alike is None else _numbered(self.alike[children])
        weight, precision, own_precision, own_weight = (float(column[u]) for column in self.outside)
        below = self.below[children].copy()
        # An exactly published total gets a precision far above all others, because the kernel needs a finite number.
        known = not np.isfinite(own_precision)
        return Container(
            below,
            self.carried[children].copy(),
            alike,
            self.begin_child[children.start : children.stop + 1] - first,
            self.entry[first:last],
            self.slope[first:last],
            self.weight[touching],
            self.outside_slope[touching],
            weight,
            precision,
            1e9 / float(below.min()) if known else own_precision,
            own_weight,
            group_precision,
            limit,
        )


def fixed_terms(
    variances: SpineVariances, families: Sequence[EntityFamily], weights: Mapping[str, Floats], level: int
) -> FixedTerms:
    """Compute everything that remains fixed while the groups of a geolevel change.

    Args:
        variances: Variances on the spine.
        families: Families of the spine, named in `weights`.
        weights: Weight of every single variance, by family and by geolevel.
        level: Level of the groups.

    Raises:
        BudgetError: some variance cannot be estimated.
        GeographyError: there is no geolevel above the groups.
    """
    spine = variances.spine
    if any(not np.all(np.isfinite(below)) for below in variances.below):
        raise BudgetError(
            "the measurements do not determine the answer of some geounit, so its variance is infinite. Measure the "
            "finest geolevel."
        )
    everything = together(families) if families else _nothing(spine)
    entity_weights = np.concatenate([np.zeros(0), *(weights[family.name] for family in families)])
    by_level = tuple(
        np.asarray(weights.get(name, np.zeros(spine.n_geounits(i)))) for i, name in enumerate(spine.geolevels)
    )
    levels = entity_parts(variances, everything)
    out = outside_of(variances, levels, entity_weights, by_level, level - 1)
    outer, (children, up), own_precision = levels[level - 1][0], levels[level + 1], levels[level][1]
    if own_precision is None or up is None:
        raise GeographyError(
            "groups of geounits need a geolevel above them, and this is the root. Name a geolevel below the root."
        )
    order = np.argsort(outer.geounit, kind="stable")
    begin_outer = _begin(outer.geounit, spine.n_geounits(level - 1))
    local = np.empty(len(order), dtype=np.int64)
    local[order] = np.arange(len(order)) - begin_outer[outer.geounit[order]]
    entity = np.repeat(np.arange(len(outer.begin) - 1), np.diff(outer.begin))
    by_child = np.argsort(children.geounit, kind="stable")
    return FixedTerms(
        variances.below[level + 1],
        carried_weights(variances, by_level)[level + 1],
        membership_classes(spine, families, level + 1) if level + 1 == spine.finest else None,
        _begin(children.geounit, spine.n_geounits(level + 1)),
        local[own_precision[up]][by_child],
        children.slope[by_child],
        begin_outer,
        entity_weights[entity[order]],
        out.outside_slope[order],
        (out.weight, out.precision, variances.precisions[level - 1], by_level[level - 1]),
    )


def search_containers(
    variances: SpineVariances,
    families: Sequence[EntityFamily],
    weights: Mapping[str, Floats],
    level: int,
    limit: FanOutLimit,
    group_precision: float,
    *,
    from_classes: bool = True,
) -> tuple[Integers, Floats]:
    """Search for good groups in every container, with everything else fixed.

    Args:
        found, families, weights, level: As in `fixed_terms`.
        limit: Largest number of children in a group.
        group_precision: Precision of a group's own measurement.
        from_classes: Whether to start also from finest geounits grouped by the entities that contain them.
    Returns:
        For every child, its group within its container, numbered from 0. For every container, the amount by which its
        new groups lower the weighted sum.
    """
    spine = variances.spine
    fixed = fixed_terms(variances, families, weights, level)
    by_class = from_classes and fixed.alike is not None
    first_child = spine.child_offsets[level][spine.child_offsets[level - 1]]
    parent = spine.parents(level + 1)
    group_of = np.empty(len(parent), dtype=np.int64)
    gains = np.zeros(spine.n_geounits(level - 1))
    for u in range(len(gains)):
        children = slice(int(first_child[u]), int(first_child[u + 1]))
        here = parent[children] - parent[children.start]
        group_of[children] = here
        if len(here) > 1 and np.isfinite(fixed.outside[1][u]):
            container = fixed.container(u, children, float(group_precision), limit.limit(len(here)))
            group_of[children], gains[u] = _searched(container, here, by_class)
    return group_of, gains


def _searched(container: "Container", here: Integers, by_class: bool) -> tuple[Integers, float]:
    """The best groups found for one container, from its present groups and from classes of alike children."""
    from tallyveil.kernels.tree.regrouping import regroup

    best = here.copy()
    start, least = regroup(container, best, MOST_PASSES)
    if by_class:
        other = _classes(container.alike, container.limit)
        _, value = regroup(container, other, MOST_PASSES)
        if value < least - abs(least) * 1e-11:
            best, least = other, value
    return best, start - least


def _classes(alike: Integers, limit: int) -> Integers:
    """Groups of alike children, split into as few nearly equal parts as the limit allows."""
    order = np.argsort(alike, kind="stable")
    size = np.bincount(alike)
    rank = np.empty(len(alike), dtype=np.int64)
    rank[order] = np.arange(len(alike)) - np.repeat(np.cumsum(size) - size, size)
    parts = -(-size // limit)
    return _numbered(alike * len(alike) + rank * parts[alike] // size[alike])


def _numbered(labels: Integers) -> Integers:
    numbers: Integers = np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)
    return numbers


def _nothing(spine: Spine) -> EntityFamily:
    none = np.zeros(0, dtype=np.int64)
    return EntityFamily("none", (), np.zeros(1, dtype=np.int64), none, spine.n_geounits(spine.finest))


def _begin(labels: Integers, n: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n))]).astype(np.int64)
