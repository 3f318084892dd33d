"""Tract groups: the tracts of a county, grouped so that the sorted off-spine distances never grow.

Problem. The children of each parent (the tracts of a county) are to be put into groups of limited size, without making
entities harder to obtain from geounits. Groups are compared by the vector of the distances of
all entities, sorted from the largest down; vectors are compared lexicographically.

Steps (greedy). Each child starts as its own group. Parents are visited in the spine's order. In a parent, pairs of
groups are visited in the order of their first children. Two groups are merged if the limit allows it and the vector
does not become larger. A merged group keeps the position of the first of the two, and the visit continues from there.

Stopping rule. Rounds over all parents are repeated until a round merges nothing. With `gains_first`, rounds that only
accept a smaller vector come first.

Worked case. A county has tracts 1, 2, 3, and the only entity is tracts 1 and 2, with distance 2 (the two tracts, or the
county minus tract 3). Merging 1 and 2 gives distance 1, so the vector becomes smaller and the merge is accepted.
Merging this group with 3 would raise the distance to 2 again, so it is refused.
"""

from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.block_groups import group_levels, insert_groups
from tallyveil.geography.distance import near_and_far, touched_levels
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.fan_out import FanOutLimit
from tallyveil.geography.respine import Reshaped, draft_levels, first_appearance, respine
from tallyveil.geography.spine import Spine


def group_by_distance(
    spine: Spine,
    families: Sequence[EntityFamily],
    *,
    geolevel: str,
    children: str,
    limit: FanOutLimit,
    gains_first: bool = False,
) -> Reshaped:
    """Group siblings greedily while the off-spine distances, sorted from the largest down, do not grow.

    The head of this module describes the method.

    Args:
        spine: The spine to change.
        families: Families of this spine. The distances of all their entities are compared together.
        geolevel: Name of the geolevel of groups. If it is the geolevel just above the children, it is replaced.
            Otherwise it is inserted above them.
        children: Geolevel whose geounits are grouped, such as the tracts. It must not be the finest.
        limit: Largest number of children in a group. Its n is the number of children of the parent.
        gains_first: If true, first make only merges that lower the sorted distances, until there are none, and then
            continue as above. The paper merges groups that leave the distances equal as soon as it meets them, which
            can fill groups that would gain from a later merge.

    Raises:
        GeographyError: a geolevel is unknown, no geolevel can contain the groups, there is no entity, or a family
            belongs to another spine.
    Source: Cumings-Menon et al. 2023, Algorithm 2.
    """
    child_level, outer_level = group_levels(spine, geolevel, children)
    if sum(family.n_entities for family in families) == 0:
        raise GeographyError(
            f"groups of {children} are chosen by the off-spine distances of entities, and there are none. Give an "
            "entity family.",
            code="spine-step",
        )
    without = spine
    # The geolevel is there already: its geounits are taken out first, so that groups are made from the children alone.
    if outer_level == child_level - 2:
        drafts = draft_levels(spine)
        taken = respine(spine, [*drafts[: outer_level + 1], *drafts[child_level:]])[0]
        without, families = taken.spine, [family.reordered(taken.rows) for family in families]
        child_level -= 1
        group_of, container_of_group = _group_of(without, families, child_level, limit, gains_first)
        inserted = insert_groups(without, geolevel, child_level, outer_level, group_of, container_of_group)
        # Two reorderings one after the other: the rows of the insertion are those of the spine without the old groups.
        return Reshaped(inserted.spine, taken.rows[inserted.rows])
    group_of, container_of_group = _group_of(without, families, child_level, limit, gains_first)
    return insert_groups(without, geolevel, child_level, outer_level, group_of, container_of_group)


def _group_of(
    spine: Spine, families: Sequence[EntityFamily], level: int, limit: FanOutLimit, gains_first: bool
) -> tuple[Integers, Integers]:
    """Group of every geounit of a level, and parent of each group."""
    # Inside the function, because importing the kernel compiles or loads it, which most commands never need.
    from tallyveil.kernels.tree.sibling_merging import EntityEntries, Siblings, merge_siblings

    family = together(families)
    # An entry is a pair of an entity and a geounit that it touches; all others are no cost and are not stored.
    levels = touched_levels(spine, family)
    # One list of the entries of all geolevels above the children, the roots' entries first.
    # Merging changes counts on the way up to the roots. One list lets the kernel follow one index from entry to entry.
    sizes = [len(levels[upper][0].geounit) for upper in range(level)]
    base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    above = [np.full(sizes[0], -1, dtype=np.int64)]
    above += [base[upper - 1] + _above(levels[upper][1]) for upper in range(1, level)]
    entity = [_entity_of(levels[upper][0].begin) for upper in range(level)]
    entries = EntityEntries(
        np.concatenate([levels[upper][0].inner for upper in range(level)]),
        np.concatenate([levels[upper][0].outer for upper in range(level)]),
        np.concatenate(above),
        np.concatenate(entity),
    )
    parents, children = levels[level - 1][0], levels[level][0]
    near, far = near_and_far(children)
    parent_entry = base[level - 1] + _above(levels[level][1])
    # The kernel walks the entries of a child, then those of a parent: both are sorted once, here.
    by_child = np.lexsort((parent_entry, children.geounit))
    by_parent = np.argsort(parents.geounit, kind="stable")
    # A copy: to the compiler a read-only array is another type, and would be compiled a second time.
    child_begin = spine.child_offsets[level - 1].copy()
    siblings = Siblings(
        child_begin,
        limit.limits(np.diff(child_begin)),
        _begin(parents.geounit, spine.n_geounits(level - 1)),
        base[level - 1] + by_parent,
        _begin(children.geounit, spine.n_geounits(level)),
        parent_entry[by_child],
        near[by_child],
        far[by_child],
    )
    # At the start every child is its own group, so that the distance is the one before any merge.
    near_root, _ = near_and_far(levels[0][0])
    distance = np.zeros(family.n_entities, dtype=np.int64)
    np.add.at(distance, entity[0], near_root)
    first_child, _ = merge_siblings(siblings, entries, distance, gains_first)
    group, first = first_appearance(first_child)
    return group, spine.parents(level)[first]


def together(families: Sequence[EntityFamily]) -> EntityFamily:
    # One family, because the vector that is compared holds the distances of all families' entities.
    """All entities as one family, with numbers as names, because the names do not matter here."""
    width = len(str(sum(family.n_entities for family in families)))
    codes = tuple(f"{number:0{width}}" for number in range(sum(family.n_entities for family in families)))
    sizes = np.concatenate([family.sizes for family in families])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    members = np.concatenate([family.members for family in families])
    return EntityFamily("all", codes, offsets, members, families[0].n_finest)


def _above(above: Integers | None) -> Integers:
    if above is None:
        raise GeographyError("roots have no geolevel above them. Give a geolevel below the root.")
    return above


def _entity_of(begin: Integers) -> Integers:
    return np.repeat(np.arange(len(begin) - 1, dtype=np.int64), np.diff(begin))


def _begin(labels: Integers, n: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n))]).astype(np.int64)
