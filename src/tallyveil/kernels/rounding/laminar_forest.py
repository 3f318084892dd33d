"""Kernel that orders nested sets of cells by inclusion.

Problem: the answers of some queries sum sets of cells. If any two of the sets are nested or disjoint, find for each
set the smallest set that holds it; otherwise say that two sets cross.

Step: place the sets in order of falling size. A set whose cells do not all have the same smallest set so far crosses
another set.

Worked case: the sets {0, 1, 2}, {0, 1} and {2} are nested; the first holds the other two. The sets {0, 1} and {1, 2}
cross.

Oracle: the tests compare Python's sets two by two.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Int32s, Integers
from tallyveil.kernels.compiled import internal, njit


class Forest(NamedTuple):
    """The different sets of cells that the answers of some queries sum, larger sets first.

    Attributes:
        above: [sets], the smallest other set that holds this one, or -1.
        deepest: [s], the smallest set that holds each cell, or -1.
        set_of: [m, width], the set of each query and answer, or -1 where no cell is in it.
    """

    above: Integers
    deepest: Integers
    set_of: Integers


@njit(nogil=True, cache=True)
def laminar_forest(labels: Int32s) -> tuple[bool, Forest]:
    """Order the sets of all queries by inclusion.

    Sets are placed in order of falling size. A set whose cells do not all have the same smallest set so far
    crosses one of these, for that one is not smaller and holds some of the cells but not all.

    Args:
        labels: [m, s], the answer each cell is in, by query; -1: none.
    Returns:
        Whether all sets are nested or disjoint, two by two; and the forest, which is void if they are not.
    """
    size, cells, begin = _sets_of_queries(labels)
    (m, width), s = size.shape, labels.shape[1]
    above, measure = np.empty(m * width, dtype=np.int64), np.empty(m * width, dtype=np.int64)
    deepest, set_of = np.full(s, -1, dtype=np.int64), np.full((m, width), -1, dtype=np.int64)
    n_sets = 0
    # Larger sets first: each set need only be compared with the smallest sets that hold its cells, not with
    # all.
    for j in _falling(size, s):
        q, k = j // width, j % width
        # sizes fall, so that only empty sets follow
        if size[q, k] == 0:
            break
        members = cells[q, begin[q, k] : begin[q, k] + size[q, k]]
        over = deepest[members[0]]
        for i in members:
            # Step R1 of the proof: one of the two smallest sets then crosses this one.
            if deepest[i] != over:
                return False, Forest(above[:n_sets], deepest, set_of)
        # Equal size and all cells inside: the same set, asked for by another query. One node serves both.
        if over >= 0 and measure[over] == size[q, k]:
            set_of[q, k] = over
            continue
        above[n_sets], measure[n_sets], set_of[q, k] = over, size[q, k], n_sets
        # the cells' smallest set is now this one; later sets are not larger
        for i in members:
            deepest[i] = n_sets
        n_sets += 1
    return True, Forest(above[:n_sets], deepest, set_of)


@internal
def _sets_of_queries(labels: Int32s) -> tuple[Integers, Integers, Integers]:
    """Size of every answer's set, [m, width]; each query's cells by answer, [m, s]; where each answer's begin."""
    m, s = labels.shape
    width = 1
    for q in range(m):
        # -1 is no answer, and leaves the width at 1 where a query has none
        for i in range(s):
            width = max(width, labels[q, i] + 1)
    size = np.zeros((m, width), dtype=np.int64)
    for q in range(m):
        for i in range(s):
            if labels[q, i] >= 0:
                size[q, labels[q, i]] += 1
    cells, begin = np.empty((m, s), dtype=np.int64), np.zeros((m, width), dtype=np.int64)
    for q in range(m):
        for k in range(1, width):
            begin[q, k] = begin[q, k - 1] + size[q, k - 1]
        # a counting sort, which keeps cells in rising order within an answer
        place = begin[q].copy()
        for i in range(s):
            k = labels[q, i]
            if k >= 0:
                cells[q, place[k]] = i
                place[k] += 1
    return size, cells, begin


@internal
def _falling(size: Integers, largest: int) -> Integers:
    """Flat positions in order of falling size, equal sizes in order of position (a counting sort)."""
    flat = size.reshape(-1)
    place = np.zeros(largest + 2, dtype=np.int64)
    # a counting sort is linear, and keeps equal sizes in order, so that ties are broken alike everywhere
    for value in flat:
        place[largest - value + 1] += 1
    for k in range(1, place.size):
        place[k] += place[k - 1]
    order = np.empty(flat.size, dtype=np.int64)
    for j in range(flat.size):
        order[place[largest - flat[j]]] = j
        place[largest - flat[j]] += 1
    return order
