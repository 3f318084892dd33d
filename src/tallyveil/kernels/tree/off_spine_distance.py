"""Kernel that carries off-spine distances from one geolevel to the next coarser one.

Problem: for an entity (any set of geounits of the finest geolevel) and a geounit, find

    near: the fewest geounits to add or subtract to make the part of the entity that lies in the geounit;
    far:  the same for the rest of the geounit.

Step: with inner for the sum of `near` over the geounit's children and outer for the sum of `far`, near = min(inner,
outer + 1) and far = min(outer, inner + 1): one may add up children, or take the geounit and subtract.

Worked case: a tract of four blocks, three of them in the entity. inner = 3 and outer = 1, so near = 2 (the tract
minus a block) and far = 1 (the block).

A geounit that an entity does not touch has near 0 and far 1 (the geounit itself). Only touched geounits are stored,
so the cost is that of the touched part of the tree.

Specification: `tests.oracles.off_spine_distance`. Source: Cumings-Menon et al. 2023, Algorithm 1.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.kernels.compiled import njit


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
