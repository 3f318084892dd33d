"""Kernel that carries the variance of entities from one geolevel to the next coarser one.

Problem: given the total of a geounit, an entity's part of it is `slope` times that total plus an error of variance
`spread`, which is independent of everything outside the geounit. Find slope and spread of every geounit.

Step, one geolevel up, with v for the variance of each child from its own subtree alone and s for the sum of v over
all children:

    slope  = sum of v slope over the children / s
    spread = sum of spread + sum of v (slope of the child - slope)^2 over all children

Worked case: two children with v = 1, one of them in the entity (slope 1, spread 0) and one not (slope 0, spread 0).
Then slope = 1/2 and spread = 1/4 + 1/4 = 1/2.

A child that the entity does not touch has slope 0 and spread 0, so only touched geounits are stored. The arrays may
be complex: one evaluation with a tiny imaginary part then gives a derivative to the last digit.

Specification: `tests.oracles.variance`.
"""

from typing import Any, NamedTuple

import numpy as np

from tallyveil.arrays import Integers, Numbers
from tallyveil.kernels.compiled import njit


class EntityParts(NamedTuple):
    """Geounits of one geolevel that entities touch, by entity and, within it, in rising order.

    Attributes:
        begin: [entities + 1], where each entity's entries start.
        geounit: The geounit of each entry.
        slope: What the entity's part of it gains when the geounit's total grows by one; 1 at the finest geolevel.
        spread: Variance of that part when the total is known; 0 at the finest geolevel.
    """

    begin: Integers
    geounit: Integers
    slope: Numbers
    spread: Numbers


class ChildVariances(NamedTuple):
    """The children of every geounit of a geolevel, as far as variances are concerned.

    Attributes:
        parent: Parent of each child; never falls.
        below: [children], variance of each from its own subtree; infinite where that tells nothing.
        total: [parents], sum of `below` over the children where it is finite.
        unknown: [parents], number of children where it is not.
        children: [parents], number of children.
    """

    parent: Integers
    below: Numbers
    total: Numbers
    unknown: Integers
    children: Integers


@njit(nogil=True, cache=True)
def raise_parts(parts: EntityParts, family: ChildVariances) -> tuple[EntityParts, Integers]:
    """One geolevel up, for all entities at once.

    Returns:
        Entries of the geolevel above; and, for each given entry, the entry above that holds it.
    """
    begin, geounit, slope, spread = parts
    parent, below, total, unknown, children = family
    # At most as many entries above as below; linear in them.
    size = geounit.size
    begin_above = np.zeros(begin.size, dtype=np.int64)
    geounit_above, above = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    # Of the same type as given: complex where a derivative is taken.
    slope_above, spread_above = np.empty_like(slope), np.empty_like(spread)
    n = 0
    for entity in range(begin.size - 1):
        i = begin[entity]
        while i < begin[entity + 1]:
            # Children of one parent lie side by side, as entries rise within an entity and parents never fall.
            p = parent[geounit[i]]
            j = i
            while j < begin[entity + 1] and parent[geounit[j]] == p:
                above[j] = n
                j += 1
            geounit_above[n] = p
            slope_above[n], spread_above[n] = _slope_and_spread(
                geounit[i:j], slope[i:j], spread[i:j], below, total[p], unknown[p], children[p]
            )
            n += 1
            i = j
        begin_above[entity + 1] = n
    # Copies, so that a few entries of a coarse geolevel do not keep the arrays of a fine one alive.
    raised = EntityParts(
        begin_above, geounit_above[:n].copy(), slope_above[:n].copy(), spread_above[:n].copy()
    )
    return raised, above


@njit(nogil=True, cache=True)
def _slope_and_spread(
    geounit: Integers,
    slope: Numbers,
    spread: Numbers,
    below: Numbers,
    total: Any,
    unknown: int,
    children: int,
) -> tuple[Any, Any]:
    """Slope and spread of one entity in one geounit, from its entries among the children."""
    # A zero of the given type, so that one source serves floats and complex numbers.
    zero = slope[0] * 0
    mean, touched, n_unknown = zero, zero, 0
    first = zero
    alike, whole = True, geounit.size == children
    # Infinity is asked of the real part: the imaginary part is the tiny step of a derivative.
    for i in range(geounit.size):
        whole = whole and slope[i] == slope[0]
        v = below[geounit[i]]
        if not np.isfinite(v.real):
            if n_unknown == 0:
                first = slope[i]
            elif slope[i].real != first.real:
                alike = False
            n_unknown += 1
        elif unknown == 0:
            mean += v * slope[i]
            touched += v
    # All children touched with one slope: weights cannot matter, and the rounding of a mean would leave a spread.
    if whole:
        mean = slope[0]  # exactly, so that what is known exactly has no spread
    elif unknown > 0:
        # Children known only through their sum share it alike; the others are known without it.
        if 0 < n_unknown < unknown and first.real != 0:
            alike = False
        # Weights go to the unknown children alone, since their variance exceeds all others' in the limit.
        mean = first if n_unknown == unknown else zero
    elif total.real > 0:
        mean = mean / total
    # All children are known exactly, so that no mean adds spread. With equal shares the slope lies between theirs.
    else:
        for i in range(geounit.size):
            mean += slope[i] / children
    # By squares of differences, not as a difference of squares, which would lose digits and could become negative.
    answer = zero
    for i in range(geounit.size):
        answer += spread[i]
        v = below[geounit[i]]
        if np.isfinite(v.real):
            answer += v * (slope[i] - mean) ** 2
            if unknown > 0:
                touched += v
    # Untouched children have slope 0. Rounding can leave a tiny rest where all are touched, hence the two tests.
    rest = total - touched
    if geounit.size < children and rest.real > 0:
        answer += rest * mean**2
    # Unknown children with different slopes: the total does not tell how they share it, and nothing bounds the
    # error.
    if not alike:
        answer = zero + np.inf
    return mean, answer
