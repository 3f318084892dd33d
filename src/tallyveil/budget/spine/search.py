"""Search the groups of every container of a spine, one at a time, with all else held fixed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.spine.surroundings import carried_weights, outside_of
from tallyveil.budget.spine.variance import SpineVariances, entity_parts
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography import EntityFamily, FanOutLimit, Spine
from tallyveil.geography.block_groups import membership_classes
from tallyveil.geography.tract_groups import together

if TYPE_CHECKING:
    from tallyveil.kernels.tree.regrouping import Container

MOST_PASSES = 6


@dataclass(frozen=True, slots=True, eq=False)
class FixedTerms:
    """What the search of all containers needs, laid out so that each container's part is in a row.

    Attributes:
        below, carried: Variance of every child from below, and the weight it carries.
        alike: Which children are interchangeable; None where none are taken to be.
        begin_child, entry, slope: The entities that touch each child, numbered within its container, and slopes.
        begin_outer, weight, outside_slope: The entities that touch each container: their weight, and the slope of
            their part outside the container.
        outside: Weight and precision from outside, own precision and own weight of every container.
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
        """One container for the kernel."""
        from tallyveil.kernels.tree.regrouping import Container

        first, last = int(self.begin_child[children.start]), int(self.begin_child[children.stop])
        touching = slice(int(self.begin_outer[u]), int(self.begin_outer[u + 1]))
        n = children.stop - children.start
        alike = np.arange(n) if self.alike is None else _numbered(self.alike[children])
        weight, precision, own, own_weight = (float(one[u]) for one in self.outside)
        below = self.below[children].copy()
        # A total that is published exactly: a precision far above any other stands for it.
        known = not np.isfinite(own)
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
            1e9 / float(below.min()) if known else own,
            own_weight,
            group_precision,
            limit,
        )


def fixed_terms(
    found: SpineVariances, families: Sequence[EntityFamily], weights: Mapping[str, Floats], level: int
) -> FixedTerms:
    """Lay out what stays fixed while the groups of a geolevel change.

    Args:
        found: Variances on the spine.
        families: Families of the spine, named in `weights`.
        weights: Weight of every single variance, by family and by geolevel.
        level: Geolevel of the groups.

    Raises:
        BudgetError: some variance cannot be told.
    """
    spine = found.spine
    if any(not np.all(np.isfinite(one)) for one in found.below):
        raise BudgetError(
            "some geounit's answer cannot be told from what is measured. Measure the finest geolevel."
        )
    everything = together(families) if families else _nothing(spine)
    entity_weights = np.concatenate([np.zeros(0), *(weights[family.name] for family in families)])
    by_level = tuple(
        np.asarray(weights.get(name, np.zeros(spine.n_geounits(i)))) for i, name in enumerate(spine.geolevels)
    )
    levels = entity_parts(found, everything)
    out = outside_of(found, levels, entity_weights, by_level, level - 1)
    outer, (children, up), own = levels[level - 1][0], levels[level + 1], levels[level][1]
    if own is None or up is None:
        raise GeographyError("groups need a geolevel above them.")
    order = np.argsort(outer.geounit, kind="stable")
    begin_outer = _begin(outer.geounit, spine.n_geounits(level - 1))
    local = np.empty(len(order), dtype=np.int64)
    local[order] = np.arange(len(order)) - begin_outer[outer.geounit[order]]
    entity = np.repeat(np.arange(len(outer.begin) - 1), np.diff(outer.begin))
    by_child = np.argsort(children.geounit, kind="stable")
    return FixedTerms(
        found.below[level + 1],
        carried_weights(found, by_level)[level + 1],
        membership_classes(spine, families, level + 1) if level + 1 == spine.finest else None,
        _begin(children.geounit, spine.n_geounits(level + 1)),
        local[own[up]][by_child],
        children.slope[by_child],
        begin_outer,
        entity_weights[entity[order]],
        out.outside_slope[order],
        (out.weight, out.precision, found.precisions[level - 1], by_level[level - 1]),
    )


def search_containers(
    found: SpineVariances,
    families: Sequence[EntityFamily],
    weights: Mapping[str, Floats],
    level: int,
    limit: FanOutLimit,
    group_precision: float,
    *,
    from_classes: bool = True,
) -> tuple[Integers, Floats]:
    """Search every container's groups, all else held fixed.

    Args:
        found, families, weights, level: As in `fixed_terms`.
        limit: Most children of a group.
        group_precision: Precision of a group's own measurement.
        from_classes: Also start from finest geounits grouped by the entities they are in.
    Returns:
        Group of every child in its container, numbered from 0 there; and by how much each container's groups
        lower the weighted sum.
    """
    spine = found.spine
    fixed = fixed_terms(found, families, weights, level)
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
    """The best groups found for one container, from those it has and from classes of children that are alike."""
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
    """Children of a kind together, in the fewest even parts that keep the limit."""
    order = np.argsort(alike, kind="stable")
    size = np.bincount(alike)
    rank = np.empty(len(alike), dtype=np.int64)
    rank[order] = np.arange(len(alike)) - np.repeat(np.cumsum(size) - size, size)
    parts = -(-size // limit)
    return _numbered(alike * len(alike) + rank * parts[alike] // size[alike])


def _numbered(labels: Integers) -> Integers:
    found: Integers = np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)
    return found


def _nothing(spine: Spine) -> EntityFamily:
    none = np.zeros(0, dtype=np.int64)
    return EntityFamily("none", (), np.zeros(1, dtype=np.int64), none, spine.n_geounits(spine.finest))


def _begin(labels: Integers, n: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n))]).astype(np.int64)
