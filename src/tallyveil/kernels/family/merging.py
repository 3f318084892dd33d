"""Merging the cells of a pass that nothing tells apart, compiled.

Problem: two cells belong together if every query and every bound gives them the same label and the same children may
have people in both. Find the groups. Step: begin with one group and split the groups by one labelling after another.
It ends when all labellings have been used or every cell is alone.

Worked case: labels (0, 0, 1, 1) of one query and (0, 0, 0, 1) of another give the groups {0, 1}, {2}, {3}.

Specification: `tests.oracles.reduction`.
"""

import numpy as np

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.kernels.compiled import internal


@internal
def merge_cells(
    allowed: Bools, labels: Int32s, widths: Integers, bound_labels: Int32s, bound_widths: Integers
) -> tuple[Integers, Integers]:
    """Group cells that no label and no child tells apart, in order of appearance.

    Returns:
        Group of each cell, [s], and the first cell of each group.
    """
    n_cells = allowed.shape[1]
    # a query that tells all cells apart settles it at once
    for q in range(labels.shape[0]):
        if _separates_all(labels[q], widths[q]):
            return np.arange(n_cells), np.arange(n_cells)
    group = np.zeros(n_cells, np.int64)
    n_groups = min(n_cells, 1)
    for q in range(labels.shape[0]):
        n_groups = _refine(group, n_groups, labels[q], widths[q])
    for b in range(bound_labels.shape[0]):
        n_groups = _refine(group, n_groups, bound_labels[b], bound_widths[b])
    pattern = np.empty(n_cells, np.int32)
    # children are looked at only until every cell is alone
    for c in range(allowed.shape[0]):
        if n_groups == n_cells:
            break
        for i in range(n_cells):
            pattern[i] = allowed[c, i]
        n_groups = _refine(group, n_groups, pattern, int(np.int64(2)))
    # numbered by first appearance, so that the program does not depend on the order in which labels split the
    # cells
    number = np.full(n_groups, -1, np.int64)
    first = np.empty(n_groups, np.int64)
    n = 0
    for i in range(n_cells):
        if number[group[i]] < 0:
            number[group[i]] = n
            first[n] = i
            n += 1
        group[i] = number[group[i]]
    return group, first


@internal
def _separates_all(labels: Int32s, width: int) -> bool:
    seen = np.zeros(width, np.bool_)
    for label in labels:
        if label < 0 or seen[label]:
            return False
        seen[label] = True
    return labels.size > 0


@internal
def _refine(group: Integers, n_groups: int, labels: Int32s, width: int) -> int:
    """Split groups by label, in place; returns how many there are."""
    n_cells = group.size
    start = np.zeros(n_groups + 1, np.int64)
    # a counting sort by group: a labelling costs s + width and not s * groups
    for i in range(n_cells):
        start[group[i] + 1] += 1
    for k in range(n_groups):
        start[k + 1] += start[k]
    order = np.empty(n_cells, np.int64)
    for i in range(n_cells):
        order[start[group[i]]] = i
        start[group[i]] += 1
    # start[k] is now where group k ends
    number = np.full(width + 1, -1, np.int64)
    n, begin = 0, 0
    for k in range(n_groups):
        for t in range(begin, start[k]):
            i = order[t]
            # label + 1, so that cells in no answer are a class like the others
            if number[labels[i] + 1] < 0:
                number[labels[i] + 1] = n
                n += 1
            group[i] = number[labels[i] + 1]
        # set back member by member: the cost is the group's and not the labelling's
        for t in range(begin, start[k]):
            number[labels[order[t]] + 1] = -1
        begin = start[k]
    return n
