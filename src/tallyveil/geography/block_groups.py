"""Optimised block groups: the blocks of a tract, grouped by the entities that contain them."""

from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.distance import require_same_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.fan_out import FanOutLimit
from tallyveil.geography.respine import (
    DraftLevel,
    Reshaped,
    draft_level,
    draft_levels,
    first_appearance,
    numbered_codes,
    respine,
)
from tallyveil.geography.spine import Spine


def group_by_membership(
    spine: Spine,
    families: Sequence[EntityFamily],
    *,
    geolevel: str,
    children: str,
    limit: FanOutLimit,
) -> Reshaped:
    """Group siblings that are in the same entities, and make the groups a geolevel.

    The container is the geounit above the groups (a tract). Its children (blocks) that are in the same entities of all
    families form a group. A group above the limit is divided, in the spine's order, into the smallest sufficient number
    of parts, of nearly equal sizes. Groups are numbered by their first child; their geocode is the container's, a dot
    and this number. If children are not finest geounits, a child that lies entirely in an entity is distinguished from
    one that lies partly in it.

    Args:
        spine: The spine to change.
        families: Families of this spine.
        geolevel: Name of the geolevel of groups. If it is the geolevel just above the children, it is replaced.
            Otherwise it is inserted above them.
        children: Geolevel whose geounits are grouped, such as the blocks.
        limit: Largest number of children in a group. Its n is the number of children in the container.

    Raises:
        GeographyError: a geolevel is unknown, no geolevel can contain the groups, or a family belongs to another spine.
    Source: Cumings-Menon et al. 2023, section 4 and Algorithm 2.
    """
    child_level, outer_level = group_levels(spine, geolevel, children)
    for family in families:
        require_same_spine(spine, family)
    outer_of_finest = spine.ancestors(outer_level)
    firsts = spine.finest_offsets(child_level)[:-1]
    container_of = outer_of_finest[firsts]
    alike = membership_classes(spine, families, child_level)
    group_of, container_of_group = _groups(container_of, alike, limit)
    return insert_groups(spine, geolevel, child_level, outer_level, group_of, container_of_group)


def group_levels(spine: Spine, geolevel: str, children: str) -> tuple[int, int]:
    """Level of the children, and level of the containers of the groups.

    Raises:
        GeographyError: the geolevel is unknown, or there is no geolevel above to contain the groups.
    """
    child_level = spine.level_index(children)
    # Only the geolevel just above the children can give way: below any other there are geounits that refer to it.
    replaces = child_level > 0 and spine.geolevels[child_level - 1] == geolevel
    if geolevel in spine.geolevels and not replaces:
        raise GeographyError(
            f"groups of {children} are to form geolevel {geolevel}, which the spine has elsewhere "
            f"({', '.join(spine.geolevels)}). Name the geolevel just above {children}, or a new one.",
            code="spine-step",
        )
    outer_level = child_level - 2 if replaces else child_level - 1
    if outer_level < 0:
        raise GeographyError(
            f"groups of {children} as geolevel {geolevel} have no geolevel above to lie in: the geolevels of the "
            f"spine are {', '.join(spine.geolevels)}. Group a lower geolevel, or add a root above.",
            code="spine-step",
        )
    return child_level, outer_level


def insert_groups(
    spine: Spine,
    geolevel: str,
    child_level: int,
    outer_level: int,
    group_of: Integers,
    container_of_group: Integers,
) -> Reshaped:
    """The spine with groups of children as a geolevel, in place of any geolevel between container and children.

    Args:
        spine: The spine to change.
        geolevel: Name of the geolevel of groups.
        child_level: Level of the children.
        outer_level: Level of the containers, one or two above the children.
        group_of: Group of each child.
        container_of_group: Container of each group; must not decrease.
    """
    outer = draft_level(spine, outer_level)
    codes = numbered_codes(outer.codes, container_of_group)
    groups = DraftLevel(geolevel, codes, group_of[spine.ancestors(child_level)])
    drafts = draft_levels(spine)
    return respine(spine, [*drafts[: outer_level + 1], groups, *drafts[child_level:]])[0]


def membership_classes(spine: Spine, families: Sequence[EntityFamily], level: int) -> Integers:
    """A number for each geounit of a geolevel. Two geounits have equal numbers if they lie in the same entities.

    All geounits start in one class. Each entity in turn divides the classes into the part inside it and the rest. So
    the time is proportional to the number of members of the entities, also if entities overlap.
    """
    ancestors, size = spine.ancestors(level), np.diff(spine.finest_offsets(level))
    number = np.zeros(spine.n_geounits(level), dtype=np.int64)
    n_classes = 1
    for family in families:
        for entity in range(family.n_entities):
            members = family.members_of(entity)
            touched, n_inside = members, None
            # Only a finest geounit is wholly inside or wholly outside; others may also lie partly in an entity.
            if level != spine.finest:
                touched, n_inside = np.unique(ancestors[members], return_counts=True)
            parts = [touched] if n_inside is None else [touched, touched[n_inside == size[touched]]]
            for part in parts:
                old, inverse = np.unique(number[part], return_inverse=True)
                # The part gets new classes by its old ones, so that all other geounits keep their numbers.
                number[part] = n_classes + inverse.reshape(-1)
                n_classes += len(old)
    return number


def _groups(container_of: Integers, alike: Integers, limit: FanOutLimit) -> tuple[Integers, Integers]:
    """Group of every child, and container of each group. Groups are numbered by container, then by first child."""
    n = len(container_of)
    limits = limit.limits(np.bincount(container_of, minlength=1))
    # Number the classes within their container first, so that each class lies in one container.
    keys = container_of * (int(alike.max(initial=0)) + 1) + alike
    number, first = first_appearance(keys)
    size = np.bincount(number, minlength=len(first))
    # The smallest sufficient number of parts, rounded up; sizes then differ by at most one.
    parts = -(-size // limits[container_of[first]])
    order = np.argsort(number, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(size)[:-1]])
    # Rank of each child within its class, in the spine's order, so that parts are runs of neighbours.
    rank[order] = np.arange(n, dtype=np.int64) - np.repeat(starts, size)
    # rank * parts // size deals 0..size-1 out to the parts in runs of nearly equal length.
    part = rank * parts[number] // size[number]
    group, first_child = first_appearance(number * (int(parts.max(initial=1))) + part)
    return group, container_of[first_child]
