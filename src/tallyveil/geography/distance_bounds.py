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

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.entities import EntityFamily, near_and_far, off_spine_distances, require_same_spine
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import FanOutLimit, group_by_membership, together

_CELLS = 1 << 21
"""Cells of a matrix of entities and geounits that are treated at a time: 16 MiB. The bounds do not depend on it."""


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
    spine: Spine, families: Sequence[EntityFamily], geolevel: str, limit: FanOutLimit
) -> int:
    """Least sum of the distances of all entities of some families, with any groups just above the finest geounits.

    The sum of the bounds of single entities supposes that each could have the groups that are best for it. Here the
    entities of a container share its groups. For an entity in at most half of the children of every geounit above the
    container (rounded up), the distance is the sum over containers. These entities are bounded together, if there are
    at most 12 of them in a container, and all others alone. docs/proofs/groups.md has the bound.

    Args:
        spine: The spine. Its other geolevels are as they are.
        families: Families of this spine.
        geolevel: Geolevel of the groups, just above the finest.
        limit: Largest number of children of a group.

    Raises:
        GeographyError: the geolevel is not the one above the finest, groups of the spine break the limit, or a family
            belongs to another spine.
    """
    family = together(families)
    limits = lowest_limits(spine, geolevel, limit, "the bound on a sum of distances is")
    alone = distance_bounds(spine, family, (geolevel,), limit)
    container = spine.finest - 2
    entity = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    adds_up = _adds_up(spine, family, container)
    # Entries of entities that add up, in the order of their containers.
    chosen = np.flatnonzero(adds_up[entity])
    begin = spine.finest_offsets(container)
    chosen = chosen[np.argsort(spine.ancestors(container)[family.members[chosen]], kind="stable")]
    counts = np.bincount(spine.ancestors(container)[family.members[chosen]], minlength=len(limits))
    ends = np.cumsum(counts)
    total = int(alone[~adds_up].sum())
    for place in np.flatnonzero(counts).tolist():
        entries = chosen[ends[place] - counts[place] : ends[place]]
        entities, row = np.unique(entity[entries], return_inverse=True)
        inside = np.zeros((len(entities), begin[place + 1] - begin[place]), dtype=np.bool_)
        inside[row.reshape(-1), family.members[entries] - begin[place]] = True
        total += _together_in(inside, int(limits[place]))
    return total


def undivided_distances(
    spine: Spine, families: Sequence[EntityFamily], geolevel: str, limit: FanOutLimit
) -> list[Integers]:
    """Least distance of each entity over the groups that no entity of some families divides, for each family.

    All finest geounits of such a group are in the same entities. The choice with the fewest such groups gives all
    entities their least distances at once (docs/proofs/groups.md, Corollary 9).

    Args:
        spine, families, geolevel, limit: As in `joint_distance_bound`.
    """
    children = spine.geolevels[spine.finest]
    fewest = group_by_membership(spine, families, geolevel=geolevel, children=children, limit=limit)
    moved = (family.reordered(fewest.rows) for family in families)
    return [off_spine_distances(fewest.spine, family).distance for family in moved]


def _adds_up(spine: Spine, family: EntityFamily, level: int) -> NDArray[np.bool_]:
    """Whether the distance of each entity is the sum of those of its parts of a geolevel, whatever lies below."""
    adds_up = []
    for entities in entities_at_a_time(family, spine.n_geounits(level)):
        touched = members_inside(spine, family, entities, level) > 0
        sound = np.ones(len(entities), dtype=np.bool_)
        for above in range(level - 1, -1, -1):
            offsets = spine.child_offsets[above]
            number = np.add.reduceat(touched.astype(np.int64), offsets[:-1], axis=1)
            children = np.diff(offsets)
            sound &= np.all((2 * number <= children + 1) | (children == 1), axis=1)
            touched = number > 0
        adds_up.append(sound)
    return np.concatenate(adds_up) if adds_up else np.ones(0, dtype=np.bool_)


_MOST_TOGETHER = 12
"""Entities of one container that are bounded together: all of 2 to this power ways to count it in are tried."""


def _together_in(inside: NDArray[np.bool_], limit: int) -> int:
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


def lowest_limits(spine: Spine, geolevel: str, limit: FanOutLimit, bounds: str) -> Integers:
    """Largest sizes of the groups just above the finest geounits, for each container.

    Args:
        spine, geolevel, limit: As in `free_groups`.
        bounds: What needs them, with its verb, for the error.
    Raises:
        GeographyError: the geolevel is another one, or one of its groups breaks the limit.
    """
    if spine.level_index(geolevel) != spine.finest - 1:
        raise GeographyError(
            f"{bounds} over the groups of the geolevel just above the finest, and {geolevel} is not that geolevel. "
            f"Name {spine.geolevels[spine.finest - 1]}.",
            code="spine-step",
        )
    return free_groups(spine, geolevel, limit)[1]


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


def _of_entities(
    spine: Spine, family: EntityFamily, free: dict[int, tuple[Integers, Integers]], entities: range
) -> Integers:
    near = far = np.zeros((0, 0), dtype=np.int64)
    level = spine.finest
    if level == 0:
        return family.sizes[entities.start : entities.stop]
    while level > 0:
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
    bounds: Integers = near.sum(axis=1)
    return bounds
