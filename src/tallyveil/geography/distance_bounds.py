"""Lower bounds on off-spine distances, over all choices of the groups of a spine.

Problem. Groups of blocks and groups of tracts are chosen by heuristics. Wanted is a distance that no other choice can
fall below, so that the rest that a better search could gain is known.

Steps. Each entity is bounded alone, as if every group could be chosen for it. Geolevels are visited from the finest
up, as in the computation of distances. A container's children are put into groups. Of each child, near is the distance
of the entity's part, and far that of the rest. A child with far = near - 1 saves 1 if its group is counted in as a
whole, and counting a group in costs 1. So k such children in groups of at most m save k - ceil(k / m) together.
docs/proofs/groups.md shows that no partition saves more.

Worked case. A tract of 100 blocks has groups of at most 22. An entity holds 40 of its blocks: 2 groups, and no fewer,
since each group adds at most 22 blocks. The rest needs 3 groups. So near = min(2, 1 + 3) = 2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.entities import EntityFamily, near_and_far, require_same_spine
from tallyveil.geography.group_savings import UNIT, most_saved
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import FanOutLimit, group_by_membership, together

_CELLS = 1 << 21
"""Cells of a matrix of entities and geounits that are treated at a time: 16 MiB. The bounds do not depend on it."""


@dataclass(frozen=True, slots=True)
class FreeGroups:
    """Geolevels whose groups might be chosen otherwise, for bounds on what any choice could reach.

    Attributes:
        geolevels: Geolevels of a spine that consist of groups.
        limit: Largest number of children of a group.
    """

    geolevels: tuple[str, ...]
    limit: FanOutLimit

    def are_lowest(self, spine: Spine) -> bool:
        """Whether the groups just above the finest geounits of a spine are among them."""
        return lowest_groups(spine) in self.geolevels

    def higher(self, spine: Spine) -> tuple[str, ...]:
        """The geolevels whose groups are made of higher geounits than the finest."""
        return tuple(name for name in self.geolevels if name != lowest_groups(spine))


def lowest_groups(spine: Spine) -> str:
    """The geolevel just above the finest."""
    return spine.geolevels[max(spine.finest - 1, 0)]


_Free: TypeAlias = Mapping[int, tuple[Integers, Integers]]
"""Levels whose groups are free; each with where the children of its containers begin, and the largest sizes."""


def distance_bounds(
    spine: Spine, family: EntityFamily, grouped: Sequence[str], limit: FanOutLimit
) -> Integers:
    """Least distance that each entity could have with any groups of some geolevels; shape (n_entities,).

    Every choice of the groups is considered that keeps the limit, and all other geounits stay. The bound of an entity
    is reached by the groups that are best for this entity alone. So the bound of a mean may be out of reach.

    Args:
        spine: The spine. Its other geolevels are as they are.
        family: Family of this spine.
        grouped: Geolevels whose groups are free. Between two of them lies another geolevel.
        limit: Largest number of children of a group.

    Raises:
        GeographyError: a geolevel cannot be one of groups, groups of the spine break the limit, or the family belongs
            to another spine.
    """
    require_same_spine(spine, family)
    require_groups(spine, grouped)
    free = {spine.level_index(name): free_groups(spine, name, limit) for name in grouped}
    chunks = [
        _of_entities(spine, family, free, entities)
        for entities in entities_at_a_time(family, max(map(len, spine.geocodes[:-1]), default=1))
    ]
    return np.concatenate(chunks) if chunks else np.zeros(0, dtype=np.int64)


def joint_distance_bound(
    spine: Spine, families: Sequence[EntityFamily], grouped: Sequence[str], limit: FanOutLimit
) -> int:
    """Least sum of the distances of all entities of some families, with any groups of some geolevels.

    The sum of the bounds of single entities supposes that each could have the groups that are best for it. Here the
    entities of a container share its groups of the highest of these geolevels. The distance of an entity is the sum
    over containers if, at every geounit above them, the containers that it does not touch outweigh those that it does.
    These entities are bounded together, unless there are too many of them in a container, and all others alone.
    docs/proofs/groups.md has the bounds.

    Args:
        spine: The spine. Its other geolevels are as they are.
        families: Families of this spine.
        grouped: Geolevels whose groups are free. Between two of them lies another geolevel.
        limit: Largest number of children of a group.

    Raises:
        GeographyError: as `distance_bounds` does.
    """
    family = together(families)
    alone = distance_bounds(spine, family, grouped, limit)
    free = {spine.level_index(name): free_groups(spine, name, limit) for name in grouped}
    highest = min(free, default=spine.finest)
    if highest == spine.finest:
        return int(alone.sum())
    container = highest - 1
    adds_up = _adds_up(spine, family, container)
    children, limits = free.pop(highest)
    if highest == spine.finest - 1:
        least = _lowest_together(spine, family, adds_up, limits)
    else:
        least = _higher_together(spine, family, adds_up, free, (container, children, limits))
    return least + int(alone[~adds_up].sum())


def _lowest_together(spine: Spine, family: EntityFamily, adds_up: Bools, limits: Integers) -> int:
    """Least sum of the distances of the entities that add up, with any groups just above the finest geounits."""
    container = spine.finest - 2
    entity = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    # Entries of entities that add up, in the order of their containers.
    chosen = np.flatnonzero(adds_up[entity])
    begin = spine.finest_offsets(container)
    chosen = chosen[np.argsort(spine.ancestors(container)[family.members[chosen]], kind="stable")]
    counts = np.bincount(spine.ancestors(container)[family.members[chosen]], minlength=len(limits))
    ends = np.cumsum(counts)
    total = 0
    for place in np.flatnonzero(counts).tolist():
        entries = chosen[ends[place] - counts[place] : ends[place]]
        entities, row = np.unique(entity[entries], return_inverse=True)
        inside = np.zeros((len(entities), begin[place + 1] - begin[place]), dtype=np.bool_)
        inside[row.reshape(-1), family.members[entries] - begin[place]] = True
        total += _together_in(inside, int(limits[place]))
    return total


def _higher_together(
    spine: Spine,
    family: EntityFamily,
    adds_up: Bools,
    free: _Free,
    groups: tuple[int, Integers, Integers],
) -> int:
    """Least sum of the distances of the entities that add up, with any groups of a geolevel of higher geounits.

    Args:
        spine, family, adds_up: As above.
        free: Lower geolevels whose groups are free, too.
        groups: Level of the containers, where the children of each begin, and the largest size of its groups.
    """
    container, children, limits = groups
    near, far = (
        np.concatenate(part)
        for part in zip(
            *(
                tuple(
                    part.astype(np.int32)
                    for part in _near_and_far(spine, family, free, entities, container + 2)
                )
                for entities in entities_at_a_time(family, spine.n_geounits(container + 2))
            ),
            strict=True,
        )
    )
    total = 0
    for place, limit in enumerate(limits.tolist()):
        of_children = slice(children[place], children[place + 1])
        touching = adds_up & (near[:, of_children] > 0).any(axis=1)
        total += _shared_in(near[touching, of_children], far[touching, of_children], limit)
    return total


def _shared_in(near: Integers, far: Integers, limit: int) -> int:
    """Least sum of the distances of the parts that some entities have of one container of higher geounits.

    Args:
        near, far: Distance of each entity's part of each child, and of the rest; shape (n_entities, n_children).
        limit: Largest number of children of a group.
    """
    counts = (near - far).astype(np.int64)
    inside, outside = (np.count_nonzero(counts == sign, axis=1) for sign in (1, -1))
    # Without groups; with the groups that are best for the entity; and the least if the container is counted in.
    ungrouped = near.sum(axis=1)
    grouped = ungrouped - (inside - -(-inside // limit))
    counted_in = 1 + far.sum(axis=1) - (outside - -(-outside // limit))
    least, most = np.minimum(grouped, counted_in), np.minimum(ungrouped, counted_in)
    # The distance is at least the smaller of two numbers, and so on a chord: what groups save has a weight up to 1.
    gains = np.flatnonzero(most > least)
    weights = -(-UNIT * (most - least)[gains] // (ungrouped - grouped)[gains])
    saved = most_saved(counts[gains], weights, limit)
    alone = int(least.sum())
    return alone if saved is None else max(alone, int(most.sum()) - saved // UNIT)


def undivided(
    spine: Spine, families: Sequence[EntityFamily], limit: FanOutLimit
) -> tuple[Spine, list[EntityFamily]]:
    """The spine with the fewest groups just above the finest geounits that no entity of some families divides.

    All finest geounits of such a group are in the same entities. No other such groups give an entity a smaller
    distance (docs/proofs/groups.md, Corollary 9).

    Args:
        spine: The spine. Its other geolevels are as they are.
        families: Families of this spine.
        limit: Largest number of children of a group.

    Returns:
        The spine, and the families on it.
    """
    fewest = group_by_membership(
        spine, families, geolevel=lowest_groups(spine), children=spine.geolevels[-1], limit=limit
    )
    return fewest.spine, [family.reordered(fewest.rows) for family in families]


def _adds_up(spine: Spine, family: EntityFamily, level: int) -> Bools:
    """Whether the distance of each entity is the sum of those of its parts of a geolevel, whatever lies below."""
    adds_up = []
    for entities in entities_at_a_time(family, spine.n_geounits(level)):
        # A number that far - near is at least: of a part that the entity does not touch it is 1.
        excess = np.where(members_inside(spine, family, entities, level) > 0, -1, 1)
        sound = np.ones(len(entities), dtype=np.bool_)
        for above in range(level - 1, -1, -1):
            excess = np.add.reduceat(excess, spine.child_offsets[above][:-1], axis=1)
            sound &= np.all(excess >= -1, axis=1)
            excess = excess.clip(-1, 1)
        adds_up.append(sound)
    return np.concatenate(adds_up) if adds_up else np.ones(0, dtype=np.bool_)


_MOST_TOGETHER = 12
"""Entities of one container that are bounded together: all of 2 to this power ways to count it in are tried."""


def _together_in(inside: Bools, limit: int) -> int:
    """Least sum of the distances of the parts that some entities have of one container; docs/proofs/groups.md."""
    part = inside.sum(axis=1)
    rest = inside.shape[1] - part
    alone = int(np.minimum(-(-part // limit), 1 - (-rest // limit)).sum())
    if len(inside) > _MOST_TOGETHER:
        return alone
    kinds, size = np.unique(inside.T, axis=0, return_counts=True)
    counted_in = np.array(list(product((False, True), repeat=len(inside))))
    # For each way to count the container in: the entities for which a kind of finest geounits is still wrong.
    wrong = (counted_in[:, None, :] != kinds[None]).sum(axis=2)
    full, left = size // limit, size % limit
    cost = np.minimum(wrong * full + np.minimum(wrong, left), size)
    return max(alone, int((counted_in.sum(axis=1) + cost.sum(axis=1)).min()))


def require_groups(spine: Spine, grouped: Sequence[str]) -> None:
    """Refuse geolevels whose groups cannot be free together, whatever the groups are; raises GeographyError."""
    levels = [spine.level_index(name) for name in grouped]
    for level, name in zip(levels, grouped, strict=True):
        if level in (0, spine.finest):
            raise GeographyError(
                f"{name} is the first or the finest geolevel of the spine, whose geounits are no groups. Name one of "
                f"{', '.join(spine.geolevels[1:-1]) or 'the geolevels between them, of which there are none'}.",
                code="spine-step",
            )
    if any(level - 1 in levels for level in levels):
        raise GeographyError(
            f"geolevels {', '.join(grouped)} are to have free groups, and one of them lies directly above another. "
            "Name only one of the two.",
            code="spine-step",
        )


def free_groups(spine: Spine, geolevel: str, limit: FanOutLimit) -> tuple[Integers, Integers]:
    """The children that the groups of a geolevel divide among themselves.

    Returns:
        For each container of groups, where its children begin in the geolevel below the groups; shape
        (n_containers + 1,). And the largest number of children of a group, for each container.

    Raises:
        GeographyError: the geolevel is the root or the finest, or one of its groups breaks the limit.
    """
    require_groups(spine, [geolevel])
    level = spine.level_index(geolevel)
    children = spine.child_offsets[level][spine.child_offsets[level - 1]]
    limits = limit.limits(np.diff(children))
    over = int(np.max(np.diff(spine.child_offsets[level]) - limits[spine.parents(level)]))
    if over > 0:
        raise GeographyError(
            f"a group of {geolevel} has {over} children more than the limit of {limit.cutoff} above the square root "
            "allows, so the bound would not hold for this spine. Give the cutoff that the groups were made with, or a "
            "larger one.",
            code="fan-out-limit",
        )
    return children, limits


def entities_at_a_time(family: EntityFamily, n: int) -> Iterator[range]:
    """The entities of a family in runs, so that a matrix of them and n geounits stays small."""
    step = max(_CELLS // n, 1)
    return (range(at, min(at + step, family.n_entities)) for at in range(0, family.n_entities, step))


def members_inside(spine: Spine, family: EntityFamily, entities: range, level: int) -> Integers:
    """Number of finest geounits of each entity in each geounit of a geolevel; shape (n_entities, n_geounits)."""
    n = spine.n_geounits(level)
    members = family.members[family.offsets[entities.start] : family.offsets[entities.stop]]
    entity = np.repeat(np.arange(len(entities), dtype=np.int64), family.sizes[entities.start : entities.stop])
    key = entity * n + spine.ancestors(level)[members]
    return np.bincount(key, minlength=len(entities) * n).reshape(len(entities), n)


def _of_entities(spine: Spine, family: EntityFamily, free: _Free, entities: range) -> Integers:
    bounds: Integers = _near_and_far(spine, family, free, entities, 0)[0].sum(axis=1)
    return bounds


def _near_and_far(
    spine: Spine, family: EntityFamily, free: _Free, entities: range, top: int
) -> tuple[Integers, Integers]:
    """Least distance of each entity's part of each geounit of a level, and of the rest of it."""
    level = spine.finest
    near = (
        members_inside(spine, family, entities, level) if level == top else np.zeros((0, 0), dtype=np.int64)
    )
    far = 1 - near
    while level > top:
        groups = free.get(level - 1)
        container = level - 1 if groups is None else level - 2
        if level == spine.finest:
            # A finest geounit is wholly inside (near 1, far 0) or wholly outside, so that counting is enough.
            inside = members_inside(spine, family, entities, container)
            outside = np.diff(spine.finest_offsets(container)) - inside
            sums = gains = (inside, outside)
        else:
            starts = (spine.child_offsets[container] if groups is None else groups[0])[:-1]
            sums = (np.add.reduceat(near, starts, axis=1), np.add.reduceat(far, starts, axis=1))
            gains = (
                np.add.reduceat((near > far).astype(np.int64), starts, axis=1),
                np.add.reduceat((far > near).astype(np.int64), starts, axis=1),
            )
        inner, outer = sums
        if groups is not None:
            inner, outer = (
                total - (gain - -(-gain // groups[1])) for total, gain in zip(sums, gains, strict=True)
            )
        near, far = near_and_far(inner, outer)
        level = container
    return near, far
