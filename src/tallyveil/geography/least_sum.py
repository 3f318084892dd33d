"""Groups of siblings that make the sum of off-spine distances small.

Problem. The children of a geounit, such as the tracts of a county, are to be put into groups of limited size. Wanted
are groups for which the distances of all entities, added up, are small.

Steps. Each entity has a distance for its part of each child (near) and for the rest of the child (far). A group that is
counted in as a whole gains for an entity wherever far is less than near. So children with the same entities of this
kind start in one group, cut into the fewest even parts. Then single children and whole groups are moved to the group
where the sum falls most. The sum is that of the entities' parts of the parent; their distances follow from it.

Stopping rule. Rounds over all children and all groups are repeated until a round moves nothing. Each move lowers the
sum, so there is an end. The result is a local optimum; `distance_bounds` says how far it can be from the best.

Worked case. Tracts 1 and 2 are one entity, tracts 3 and 4 another. The start has two groups, and each entity has
distance 1. Every move raises a distance, so this is the end.
"""

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.geography.entities import near_and_far


def least_sum(near: Integers, far: Integers, limit: int) -> Integers:
    """Group of each child of a geounit; shape (n_children,).

    Args:
        near: Distance of each entity's part of each child; shape (n_entities, n_children).
        far: Distance of the rest of each child; the same shape.
        limit: Largest number of children in a group.
    """
    search = _Search(near, far, limit)
    while search.round():
        pass
    return search.group


class _Search:
    """Groups of children, with what each makes of every entity. A group without children has 0 everywhere."""

    def __init__(self, near: Integers, far: Integers, limit: int) -> None:
        self._near, self._far, self._limit = near, far, limit
        self.group = _alike(near > far, limit)
        n = near.shape[1]
        self._size = np.bincount(self.group, minlength=n)
        self._inner, self._outer = np.zeros_like(near), np.zeros_like(far)
        for total, part in ((self._inner, near), (self._outer, far)):
            np.add.at(total.T, self.group, part.T)

    def round(self) -> bool:
        """Try to move every child and every group once; whether any moved."""
        n = len(self.group)
        moved = [self._move(np.array([child])) for child in range(n)]
        moved += [self._move(np.flatnonzero(self.group == number)) for number in range(n)]
        return any(moved)

    def _move(self, children: Integers) -> bool:
        """Move children of one group to the group where the sum falls most, if it falls anywhere."""
        if len(children) == 0:
            return False
        source = int(self.group[children[0]])
        fits = (self._size > 0) & (self._size + len(children) <= self._limit)
        # Of the groups without children one is enough, and for a whole group none: it would only change its number.
        empty = np.flatnonzero(self._size == 0)[: int(self._size[source] > len(children))]
        targets = np.concatenate([np.flatnonzero(fits), empty])
        targets = targets[targets != source]
        if len(targets) == 0:
            return False
        part = (self._near[:, children].sum(axis=1), self._far[:, children].sum(axis=1))
        near, far = near_and_far(self._inner, self._outer)
        left = near_and_far(self._inner[:, source] - part[0], self._outer[:, source] - part[1])
        joined = near_and_far(
            self._inner[:, targets] + part[0][:, None], self._outer[:, targets] + part[1][:, None]
        )
        changed = (
            (whole.sum(axis=1) - whole[:, source] + rest)[:, None] - whole[:, targets] + new
            for whole, rest, new in zip((near, far), left, joined, strict=True)
        )
        sums = near_and_far(*changed)[0].sum(axis=0)
        best = int(sums.argmin())
        if sums[best] >= near_and_far(near.sum(axis=1), far.sum(axis=1))[0].sum():
            return False
        target = int(targets[best])
        for total, moved in ((self._inner, part[0]), (self._outer, part[1])):
            total[:, source] -= moved
            total[:, target] += moved
        self._size[source] -= len(children)
        self._size[target] += len(children)
        self.group[children] = target
        return True


def _alike(gains: NDArray[np.bool_], limit: int) -> Integers:
    """Groups of children that gain for the same entities, cut into the fewest parts of nearly equal size."""
    _, kind = np.unique(gains.T, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    group = np.zeros(len(kind), dtype=np.int64)
    n_groups = 0
    for number in range(int(kind.max(initial=-1)) + 1):
        children = np.flatnonzero(kind == number)
        parts = -(-len(children) // limit)
        group[children] = n_groups + np.arange(len(children)) * parts // len(children)
        n_groups += parts
    return group
