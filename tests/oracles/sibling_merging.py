"""Slow and obvious specifications of the kernels in `tallyveil.kernels.tree.off_spine_distance`."""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.kernels.tree.off_spine_distance import EntityEntries, Siblings


def merge_siblings_reference(
    siblings: Siblings, entries: EntityEntries, distance: Integers, gains_first: bool
) -> tuple[Integers, int]:
    """Specification of `merge_siblings`: every trial sums all distances from scratch and compares the sorted lists."""
    n = siblings.list_begin.size - 1
    parent_of = np.repeat(np.arange(siblings.limit.size), np.diff(siblings.child_begin)).tolist()
    touches: list[dict[int, tuple[int, int]]] = []
    for c in range(n):
        span = range(int(siblings.list_begin[c]), int(siblings.list_begin[c + 1]))
        touches.append(
            {
                int(siblings.list_entry[i]): (int(siblings.list_inner[i]), int(siblings.list_outer[i]))
                for i in span
            }
        )
    base = _sums_without(siblings, entries)

    def distances(groups: dict[int, list[int]]) -> list[int]:
        inner, outer = list(base[0]), list(base[1])
        for first, members in groups.items():
            for e in siblings.entry[
                siblings.entry_begin[parent_of[first]] : siblings.entry_begin[parent_of[first] + 1]
            ].tolist():
                x = sum(touches[c].get(e, (0, 1))[0] for c in members)
                y = sum(touches[c].get(e, (0, 1))[1] for c in members)
                inner[e] += min(x, y + 1)
                outer[e] += min(y, x + 1)
        total = [0] * distance.size
        for e in from_below(entries.above):
            x, y, over = inner[e], outer[e], int(entries.above[e])
            if over < 0:
                total[int(entries.entity[e])] += min(x, y + 1)
            else:
                inner[over] += min(x, y + 1)
                outer[over] += min(y, x + 1)
        return total

    groups = {c: [c] for c in range(n)}
    current, rounds, changed, strict = distances(groups), 0, True, gains_first
    while changed or strict:
        strict = strict and changed
        changed, rounds = False, rounds + 1
        for p in range(siblings.limit.size):
            span = range(int(siblings.child_begin[p]), int(siblings.child_begin[p + 1]))
            for u in span:
                for v in range(u + 1, span.stop):
                    if u not in groups or v not in groups:
                        continue
                    if len(groups[u]) + len(groups[v]) > siblings.limit[p]:
                        continue
                    trial = {first: members for first, members in groups.items() if first != v}
                    trial[u] = groups[u] + groups[v]
                    tried = distances(trial)
                    new, old = sorted(tried, reverse=True), sorted(current, reverse=True)
                    if new < old or (new == old and not strict):
                        groups, current, changed = trial, tried, True
    group_of = np.empty(n, dtype=np.int64)
    for first, members in groups.items():
        group_of[members] = first
    distance[:] = current
    return group_of, rounds


def _sums_without(siblings: Siblings, entries: EntityEntries) -> tuple[list[int], list[int]]:
    """Sums of every entry less what the entries below it, and the groups at the start, put in."""
    near = np.minimum(entries.inner, entries.outer + 1)
    far = np.minimum(entries.outer, entries.inner + 1)
    inner, outer = entries.inner.copy(), entries.outer.copy()
    has = entries.above >= 0
    np.subtract.at(inner, entries.above[has], near[has])
    np.subtract.at(outer, entries.above[has], far[has])
    inner[siblings.entry] = 0
    outer[siblings.entry] = 0
    return inner.tolist(), outer.tolist()


def from_below(above: Integers) -> list[int]:
    """Entries so that each comes before the one above it."""
    depth = []
    for e in range(above.size):
        d, over = 0, int(above[e])
        while over >= 0:
            d, over = d + 1, int(above[over])
        depth.append(d)
    return sorted(range(above.size), key=lambda e: -depth[e])
