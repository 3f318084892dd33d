"""Kernels of off-spine distances: carried up the tree, and kept from growing while siblings are merged.

*Distances*, from one geolevel to the next coarser one. For an entity (any set of geounits of the finest
geolevel) and a geounit, find

    near: the fewest geounits to add or subtract to make the part of the entity that lies in the geounit;
    far:  the same for the rest of the geounit.

Step: with inner for the sum of `near` over the geounit's children and outer for the sum of `far`, near =
min(inner, outer + 1) and far = min(outer, inner + 1): one may add up children, or take the geounit and
subtract. Worked case: a tract of four blocks, three of them in the entity. inner = 3 and outer = 1, so near =
2 (the tract minus a block) and far = 1 (the block). A geounit that an entity does not touch has near 0 and
far 1 (the geounit itself). Only touched geounits are stored, so the cost is that of the touched part of the
tree.

*Merging.* Group the children of every parent, up to a limit of children a group, so that the off-spine
distances of all entities become small. The distances are compared as lists sorted from the greatest down, in
lexicographic order. Step: try to merge two siblings and keep the merger if the list does not become greater.
Of two lists that differ in a few entries only those entries matter: compare how often each value occurs, from
the greatest value down; the list in which a value occurs more often is the greater one. So a trial costs what
the two siblings touch, plus the entities that fill most of their parent. Worked case: the list (3, 2, 2) is
greater than (3, 2, 1), because 2 is the greatest value that the two have a different number of times, and the
first list has it twice.

Specifications: `tests.oracles.off_spine_distance`, and for merging the sums of all distances from scratch for
every trial. Source: Cumings-Menon et al. 2023, Algorithms 1 and 2.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.vectors import set_rows


class TouchedGeounits(NamedTuple):
    """Geounits of one geolevel that entities touch, by entity and, within it, in rising order.

    Attributes:
        begin: [entities + 1], where each entity's entries start.
        geounit: The geounit of each entry.
        inner: Sum of `near` over the geounit's children; 1 at the finest geolevel.
        outer: Sum of `far` over the geounit's children; 0 at the finest geolevel.
    """

    begin: Integers
    geounit: Integers
    inner: Integers
    outer: Integers


@njit(nogil=True, cache=True)
def raise_level(
    touched: TouchedGeounits, parent: Integers, n_children: Integers
) -> tuple[TouchedGeounits, Integers]:
    """One turn of Algorithm 1's loop over geolevels, for all entities at once.

    Args:
        touched: Entries of a geolevel.
        parent: Parent of each geounit of that geolevel; parents of rising geounits never fall.
        n_children: Number of children of each geounit of the geolevel above.
    Returns:
        Entries of the geolevel above; and, for each given entry, the entry above that holds it.
    """
    begin, geounit, inner, outer = touched
    # Room for as many entries above as below: an entry above has at least one below it.
    total = geounit.size
    begin_above = np.zeros(begin.size, dtype=np.int64)
    # `above` is kept so that distances can later be carried from a touched geounit to its parent without a search.
    geounit_above, above = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    inner_above, outer_above = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    n = 0
    # Linear in the entries: each is read once, and entries of one parent lie side by side because parents never
    # fall.
    for entity in range(begin.size - 1):
        # A new entity begins with no parent, so that its first entry never joins the last one of the entity before.
        current = -1
        for i in range(begin[entity], begin[entity + 1]):
            p = parent[geounit[i]]
            if p != current:
                current = p
                geounit_above[n] = p
                inner_above[n] = 0
                outer_above[n] = n_children[p]  # as if every child were untouched
                n += 1
            # The child's `near` and, less the 1 that an untouched child would count, its `far`.
            inner_above[n - 1] += min(inner[i], outer[i] + 1)
            outer_above[n - 1] += min(outer[i], inner[i] + 1) - 1
            above[i] = n - 1
        begin_above[entity + 1] = n
    # Copies: a few entries of a coarse geolevel must not keep alive the arrays of a fine one.
    raised = TouchedGeounits(
        begin_above, geounit_above[:n].copy(), inner_above[:n].copy(), outer_above[:n].copy()
    )
    return raised, above


class EntityEntries(NamedTuple):
    """What entities touch above the groups; entry = one entity in one geounit, all geolevels in one list.

    Attributes:
        inner: Sum of `near` over the geounit's children (see `off_spine_distance`).
        outer: Sum of `far` over the geounit's children.
        above: The entry of the same entity in the geounit above, or -1 at a root.
        entity: The entity of each entry.
    """

    inner: Integers
    outer: Integers
    above: Integers
    entity: Integers


class Siblings(NamedTuple):
    """The geounits to be merged, and what touches them; parents are numbered from 0.

    Attributes:
        child_begin: [parents + 1], where each parent's children start.
        limit: [parents], most children of a group.
        entry_begin: [parents + 1], where each parent's entries start in `entry`.
        entry: Entries of the parents, by parent.
        list_begin: [children + 1], where each child's touching entities start in the next three.
        list_entry: Entry of the entity in the parent, rising within a child.
        list_inner: `near` of the entity in the child.
        list_outer: `far` of it.
    """

    child_begin: Integers
    limit: Integers
    entry_begin: Integers
    entry: Integers
    list_begin: Integers
    list_entry: Integers
    list_inner: Integers
    list_outer: Integers


class _Group(NamedTuple):
    """Merged siblings: where their list of touching entities starts in the pool, how long it is, and their number."""

    start: int
    length: int
    n_siblings: int


class _Difference(NamedTuple):
    """Room to compare two lists of distances.

    Attributes:
        excess: How much oftener the first list holds each value; left at 0.
        values: The values that may occur a different number of times.
    """

    excess: Integers
    values: Integers


@njit(nogil=True, cache=True)
def merge_siblings(
    siblings: Siblings, entries: EntityEntries, distance: Integers, gains_first: bool
) -> tuple[Integers, int]:
    """Merge until a whole round over all parents changes nothing.

    In a round, parents come in order and, in each, pairs of groups in order of their first children; a merged
    group keeps the place of the first of the two and is at once met with all that follow.

    Args:
        siblings: The geounits to be merged.
        entries: What entities touch above; `inner` and `outer` are changed in place.
        distance: [entities], distances at the start; changed in place.
        gains_first: Merge only what makes the distances less until nothing does, then go on as else.
    Returns:
        For each child the first child of its group; and the number of rounds.
    """
    child_begin, limit, entry_begin, entry, list_begin, list_entry, list_inner, list_outer = siblings
    n = list_begin.size - 1
    # n is the number of children of all parents together; a group is named by its first child.
    group_of, n_tracts = np.arange(n), np.ones(n, dtype=np.int64)
    # Lists of groups: a merged list goes to the end of the pool, and the living ones are moved together when
    # it is full. They never hold more than at the start.
    start, length = list_begin[:-1].copy(), list_begin[1:] - list_begin[:-1]
    # Four times the entries: the pool is moved together once in several merges. With half of it, the pool would be
    # moved about three times as often; with twice, half as often. A merged list is at most as long as its two parts
    # together.
    room = 4 * list_entry.size + 16
    pool = np.empty((room, 3), dtype=np.int64)
    used = list_entry.size
    for i in range(used):
        pool[i, 0], pool[i, 1], pool[i, 2] = list_entry[i], list_inner[i], list_outer[i]
    # One row more, so that the array is never empty.
    merged = np.empty((list_entry.size + 1, 5), dtype=np.int64)
    # `mark` holds the number of the last trial that touched an entry. Since trials are counted, it is never
    # cleared.
    full, mark = np.empty(entry.size + 1, dtype=np.int64), np.full(entries.inner.size, -1, dtype=np.int64)
    # Counts by value of the distance, so values must stay below its length: `_most` bounds them for every grouping,
    # and a trial changes a distance of at most that.
    excess = np.zeros(_most(siblings, entries, distance) + 2, dtype=np.int64)
    # At most one pair of values for each entry of a trial.
    difference = _Difference(excess, np.empty(2 * entries.inner.size + 2, dtype=np.int64))
    alive = np.ones(n, dtype=np.bool_)
    # Ends, because every round that changes anything merges groups, of which there are finitely many.
    trial, rounds, changed, strict = 0, 0, True, gains_first
    while changed or strict:
        if not changed:
            strict = False
        changed = False
        rounds += 1
        for p in range(child_begin.size - 1):
            here = entry[entry_begin[p] : entry_begin[p + 1]]
            # Kept for all trials of the parent, and made again after each merge, which changes `outer` of its
            # entries.
            n_full = _filling(here, entries, full)
            for u in range(child_begin[p], child_begin[p + 1]):
                if not alive[u]:
                    continue
                # Each pair once. Later pairs of u see the merged group, because u keeps its place.
                for v in range(u + 1, child_begin[p + 1]):
                    # The limit is on children, not on entities; it is checked first, as it costs nothing.
                    if not alive[v] or n_tracts[u] + n_tracts[v] > limit[p]:
                        continue
                    trial += 1
                    left = _Group(start[u], length[u], n_tracts[u])
                    right = _Group(start[v], length[v], n_tracts[v])
                    n_merged = _merge_lists(pool, left, right, merged)
                    sign = _compare(
                        merged[:n_merged], full[:n_full], entries, distance, mark, trial, difference
                    )
                    if sign > 0 or (strict and sign == 0):
                        continue
                    # Before the lists of full entries are made anew, which read what this changes.
                    _accept(merged[:n_merged], here, entries, distance, mark, trial)
                    n_full = _filling(here, entries, full)
                    alive[v], group_of[v] = False, u
                    n_tracts[u] += n_tracts[v]
                    # Its entries in the pool are garbage from here on, as are those of the old list of u.
                    length[v] = 0
                    # u's old list need not be saved: the merged one is a copy of its own.
                    if used + n_merged > room:
                        length[u] = 0
                        # After it the living lists take at most list_entry.size places, so that the merged one
                        # fits.
                        used = _move_together(pool, start, length, alive)
                    start[u], length[u] = used, n_merged
                    for i in range(n_merged):
                        pool[used + i, 0] = merged[i, 0]
                        pool[used + i, 1] = merged[i, 1]
                        pool[used + i, 2] = merged[i, 2]
                    used += n_merged
                    changed = True
    for u in range(n):
        # Groups are merged into earlier ones, so the chain goes down and ends.
        first = u
        while group_of[first] != first:
            first = group_of[first]
        group_of[u] = first
    return group_of, rounds


@internal
def _most(siblings: Siblings, entries: EntityEntries, distance: Integers) -> int:
    """No grouping gives a greater distance: adding up what every child needs is one way to make an entity."""
    most = np.zeros(distance.size, dtype=np.int64)
    # To add up what every child needs is always possible, so no distance can be greater than this sum.
    for i in range(siblings.list_entry.size):
        most[entries.entity[siblings.list_entry[i]]] += siblings.list_inner[i]
    greatest = 0
    for k in range(distance.size):
        greatest = max(greatest, most[k], distance[k])
    return greatest


@internal
def _filling(here: Integers, entries: EntityEntries, full: Integers) -> int:
    """Entries of a parent whose distances can change when two siblings they do not touch are merged."""
    n = 0
    for e in here:
        # Merging two untouched siblings lowers `outer` by 1. If outer is greater than inner + 1, both minima take
        # `inner`, and neither changes.
        if entries.outer[e] <= entries.inner[e] + 1:
            full[n] = e
            n += 1
    return n


@internal
def _merge_lists(pool: Integers, left: _Group, right: _Group, merged: Integers) -> int:
    """Columns of `merged`: entry, inner, outer, change of the parent's inner, change of its outer."""
    start_u, size_u, n_u = left
    start_v, size_v, n_v = right
    i, j, n = 0, 0, 0
    while i < size_u or j < size_v:
        # 2^62 is above every entry, so an exhausted list never has the smaller one. Both lists rise, as in a merge
        # sort: the time is the sum of their lengths.
        a = pool[start_u + i, 0] if i < size_u else np.int64(1) << 62
        b = pool[start_v + j, 0] if j < size_v else np.int64(1) << 62
        # A group that is not touched counts its children one each on the far side, but itself only once.
        inner_u, outer_u, near_u, far_u = 0, n_u, 0, 1
        inner_v, outer_v, near_v, far_v = 0, n_v, 0, 1
        # Where a == b, both are read: the entity touches the two groups.
        if a <= b:
            inner_u, outer_u = pool[start_u + i, 1], pool[start_u + i, 2]
            near_u, far_u = min(inner_u, outer_u + 1), min(outer_u, inner_u + 1)
            i += 1
        if b <= a:
            inner_v, outer_v = pool[start_v + j, 1], pool[start_v + j, 2]
            near_v, far_v = min(inner_v, outer_v + 1), min(outer_v, inner_v + 1)
            j += 1
        inner, outer = inner_u + inner_v, outer_u + outer_v
        merged[n, 0], merged[n, 1], merged[n, 2] = min(a, b), inner, outer
        # Changes for the parent, which until now has counted the two groups separately.
        merged[n, 3] = min(inner, outer + 1) - near_u - near_v
        merged[n, 4] = min(outer, inner + 1) - far_u - far_v
        n += 1
    return n


@internal
def _change(e: int, d_inner: int, d_outer: int, entries: EntityEntries) -> int:
    """Change of an entity's distance when its sums in an entry change."""
    while True:
        # Up the tree until nothing changes or the root is reached. The root's `near` is the distance.
        inner, outer = entries.inner[e], entries.outer[e]
        d_near = min(inner + d_inner, outer + d_outer + 1) - min(inner, outer + 1)
        d_far = min(outer + d_outer, inner + d_inner + 1) - min(outer, inner + 1)
        if entries.above[e] < 0:
            return int(d_near)
        if d_near == 0 and d_far == 0:
            return 0
        e, d_inner, d_outer = entries.above[e], d_near, d_far


@internal
def _compare(
    merged: Integers,
    full: Integers,
    entries: EntityEntries,
    distance: Integers,
    mark: Integers,
    trial: int,
    difference: _Difference,
) -> int:
    """Above 0 if the sorted distances would be greater, below 0 if less, 0 if equal."""
    # Every entry of the trial is looked at once: the merged ones, and of the full ones those that are not among
    # them.
    excess, values = difference
    n = 0
    for i in range(merged.shape[0] + full.size):
        if i < merged.shape[0]:
            e, d_inner, d_outer = merged[i, 0], merged[i, 3], merged[i, 4]
            mark[e] = trial
        else:
            # An entity that touches neither sibling: its far side has one geounit less.
            e, d_inner, d_outer = full[i - merged.shape[0]], 0, -1
            if mark[e] == trial:
                continue
        d = _change(e, d_inner, d_outer, entries)
        # One entity has one entry in a parent, so no entity is counted twice here.
        if d != 0:
            old = distance[entries.entity[e]]
            excess[old] -= 1
            excess[old + d] += 1
            values[n], values[n + 1] = old, old + d
            n += 2
    greatest = -1
    # The greatest value that occurs a different number of times decides; a sorted list is never made.
    for i in range(n):
        if excess[values[i]] != 0:
            greatest = max(greatest, values[i])
    sign = excess[greatest] if greatest >= 0 else 0
    # Only what was touched is cleared. To clear the whole array would cost more than the trial.
    for i in range(n):
        excess[values[i]] = 0
    return int(sign)


@internal
def _accept(
    merged: Integers, here: Integers, entries: EntityEntries, distance: Integers, mark: Integers, trial: int
) -> None:
    for i in range(merged.shape[0]):
        _apply(merged[i, 0], merged[i, 3], merged[i, 4], entries, distance)
    # Here all entries, not only the full ones: `outer` of the others must fall too, so that later trials see it.
    for e in here:
        if mark[e] != trial:
            _apply(e, 0, -1, entries, distance)


@internal
def _apply(e: int, d_inner: int, d_outer: int, entries: EntityEntries, distance: Integers) -> None:
    """Carry a change of an entry's sums up to the root."""
    # Sums above are changed as far up as they differ, which keeps every `inner` and `outer` of the tree true.
    while d_inner != 0 or d_outer != 0:
        inner, outer = entries.inner[e], entries.outer[e]
        d_near = min(inner + d_inner, outer + d_outer + 1) - min(inner, outer + 1)
        d_far = min(outer + d_outer, inner + d_inner + 1) - min(outer, inner + 1)
        entries.inner[e], entries.outer[e] = inner + d_inner, outer + d_outer
        if entries.above[e] < 0:
            distance[entries.entity[e]] += d_near
            return
        e, d_inner, d_outer = entries.above[e], d_near, d_far


@internal
def _move_together(pool: Integers, start: Integers, length: Integers, alive: npt.NDArray[np.bool_]) -> int:
    """Copy the lists of living groups to the front of the pool; returns how much they take."""
    # A copy, because lists in the pool are not in the order of their groups and could overwrite each other.
    room, n = 0, 0
    for u in range(start.size):
        room += length[u] if alive[u] else 0
    atoms = np.empty((room, 3), dtype=np.int64)
    for u in range(start.size):
        if alive[u]:
            for i in range(length[u]):
                atoms[n + i, 0] = pool[start[u] + i, 0]
                atoms[n + i, 1] = pool[start[u] + i, 1]
                atoms[n + i, 2] = pool[start[u] + i, 2]
            start[u] = n
            n += length[u]
    set_rows(pool, atoms)
    return n
