"""Groups of children whose sum a bound is on, compiled.

A bound divides the children into groups, numbered from 0 as they first appear. Usually every child is a group. A bound
on the sum of several children, such as on the two parts of a State, has larger ones.
"""

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.program import Program


@internal
def children_of(program: Program, bound: int, group: int) -> tuple[int, int]:
    """A range that holds all children of a group; where it has several, the range holds others too."""
    # groups are numbered as they first appear, so that a group of one has its child's number
    if program.bound_members[bound] == 1:
        return group, group + 1
    return 0, program.bound_group.shape[1]


@internal
def group_sizes(groups: Integers) -> Integers:
    """How many children each group has."""
    # numbers have no gaps, so the largest one tells how many there are
    n = 0
    for group in groups:
        n = max(n, group + 1)
    sizes = np.zeros(n, np.int64)
    for group in groups:
        sizes[group] += 1
    return sizes


@internal
def allowed_in_groups(allowed: Bools, groups: Integers, sizes: Integers) -> Bools:
    """Whether some child of each group may have each cell. [groups, g]"""
    if sizes.size == groups.size:  # every child is a group, and groups are numbered as children are
        return allowed
    reachable = np.zeros((sizes.size, allowed.shape[1]), np.bool_)
    for c in range(groups.size):
        for i in range(allowed.shape[1]):
            reachable[groups[c], i] |= allowed[c, i]
    return reachable


@internal
def capacities(labels: Integers, width: int, allowed: Bools, has_sums: bool, sums: Floats) -> Floats:
    """The most that each row of a group can hold, given the parent's counts of the cells that it may have."""
    # at a root nothing is given, and every upper bound may bind
    capacity = np.full(width, 0.0 if has_sums else np.inf)
    if has_sums:
        for i in range(labels.size):
            if labels[i] >= 0 and allowed[i]:
                capacity[labels[i]] += sums[i]
    return capacity


@internal
def each_alone(n_bounds: int, n_children: int) -> Integers:
    """The groups of bounds on single children. [b, C]"""
    groups = np.empty((n_bounds, n_children), np.int64)
    for c in range(n_children):
        groups[:, c] = c
    return groups
