"""Kernels of the variance of entities: carried up the tree, and made small by the choice of groups of siblings.

*Variances*, from one geolevel to the next coarser one. Given the total of a geounit, an entity's part of it
is `slope` times that total plus an error of variance `spread`, which is independent of everything outside the
geounit. Find slope and spread of every geounit. Step, with v for the variance of each child from its own
subtree alone and s for the sum of v over all children:

    slope  = sum of v slope over the children / s
    spread = sum of spread + sum of v (slope of the child - slope)^2 over all children

Worked case: two children with v = 1, one of them in the entity (slope 1, spread 0) and one not (slope 0,
spread 0). Then slope = 1/2 and spread = 1/4 + 1/4 = 1/2. A child that the entity does not touch has slope 0
and spread 0, so only touched geounits are stored. The arrays may be complex: one evaluation with a tiny
imaginary part then gives a derivative to the last digit.

*Grouping.* Group the children of one container (the blocks of a tract, or the tracts of a county) so that a
weighted sum of variances is least, with everything else held fixed. What lies outside the container measures
its total with precision `outside`. Given the total, an entity's part outside is `outside_slope` times the
total plus an error that does not depend on the groups. So the variances are those of a small tree, and the
objective is known exactly, up to a constant, from sums over its groups. For a group of children with
variances v, entity slopes a and weights b:  s = sum v,  x = sum v a,  y = sum v a^2,  t = sum b v^2.  The
group is measured with precision `own`, so its variance from below is 1 / (own + 1 / s). Step: move one child
to the group, or to a new group, where the objective is least; then merge pairs of groups where that lowers
it. Stopping rule: a pass changes nothing, or the passes are used up. Worked case: a group of two children
with v = 1 has s = 2. With own = 1 its variance from below is 1 / (1 + 1/2) = 2/3.

Specifications: `tests.oracles.variance`, and for grouping the objective of every trial from its definition.
"""

from typing import Any, NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers, Numbers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.vectors import set_rows, set_to


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


@internal
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


TOLERANCE = 1e-11
"""Part of an objective by which a change must improve it, so that rounding never makes one."""


class Container(NamedTuple):
    """One container and its children; its entities are numbered from 0.

    Attributes:
        below: [children], variance of each child from its own subtree, finite.
        carried: [children], weight of the variance of each child and of all below it, as it depends on the child's.
        alike: [children], children of the same number are interchangeable.
        begin: [children + 1], where each child's entities start in the next two.
        entity: Entities that touch the child.
        slope: Slope of each.
        weight: [entities], weight of each entity's variance.
        outside_slope: [entities], slope of each entity's part outside on the container's total.
        outside_weight: Weight of all else outside, times the square of its slope on the total.
        outside: Precision of the total from outside; finite.
        precision: Precision of the container's own measurement; finite.
        own_weight: Weight of the container's variance.
        group_precision: Precision of the measurement of each group.
        limit: Most children of a group.
    """

    below: Floats
    carried: Floats
    alike: Integers
    begin: Integers
    entity: Integers
    slope: Floats
    weight: Floats
    outside_slope: Floats
    outside_weight: float
    outside: float
    precision: float
    own_weight: float
    group_precision: float
    limit: int


class _Groups(NamedTuple):
    """Sums over each group of the container; groups without children hold zeros.

    Attributes:
        size: Children of the group.
        sums: s and t.
        x, y: [groups, entities].
    """

    size: Integers
    sums: Floats
    x: Floats
    y: Floats


class _Totals(NamedTuple):
    """Sums over the groups of a container.

    Attributes:
        scalars: s, t and the constant.
        terms: x and y. [2, entities]
    """

    scalars: Floats
    terms: Floats


@njit(nogil=True, cache=True)
def regroup(container: Container, group_of: Integers, passes: int) -> tuple[float, float]:
    """Change the groups of a container's children while that lowers the objective.

    In a pass, every child in turn goes where the objective is least (another group, or a new one), then pairs of
    groups are merged, first with first, where that lowers it.

    Args:
        container: The container.
        group_of: [children], group of each child, numbers below the number of children; changed in place.
        passes: Most passes.
    Returns:
        The objective at the start and at the end, both less the same constant.
    """
    # At most as many groups as children. Group numbers are places and are not renumbered; an empty one is size 0.
    n, k = container.below.size, container.weight.size
    # Memory grows with children times entities, time with passes times children times groups times entities.
    size = np.zeros(n, dtype=np.int64)
    sums = np.zeros((n, 2))
    x, y = np.zeros((n, k)), np.zeros((n, k))
    for c in range(n):
        g = group_of[c]
        size[g] += 1
        _add(container, c, 1.0, sums[g], x[g], y[g])
    groups = _Groups(size, sums, x, y)
    scalars, terms = np.zeros(3), np.zeros((2, k))
    totals = _Totals(scalars, terms)
    for g in range(n):
        if size[g] > 0:
            _contribute(container, sums[g], x[g], y[g], 1.0, scalars, terms)
    # Both values lack the same constant, so only their difference has a meaning.
    start = _objective(container, scalars, terms)
    current = start
    room, new_sums = np.zeros(3), np.zeros((2, 2))
    new_x, new_y, new_terms = np.zeros((2, k)), np.zeros((2, k)), np.zeros((2, k))
    # Of each kind of child, the number of changes and the group at its last trial in vain. As long as neither has
    # changed, another child of the kind in this group would fail for the same reasons.
    failed_at, failed_in = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    changes = 0
    for _ in range(passes):
        # Counted, not compared by value: a pass ends the search exactly if it made no change.
        before = changes
        for c in range(n):
            g, kind = group_of[c], container.alike[c]
            if failed_at[kind] == changes and failed_in[kind] == g:
                continue
            # A change must win by more than rounding errors. Without the margin, two equal groupings could
            # alternate for ever, and machines could differ in what they choose. A child alone in its group need not
            # try a new one.
            best, chosen, tried_new = current - TOLERANCE * abs(current), -1, size[g] == 1
            for h in range(n):
                # All empty groups are alike: one of them is tried, the first.
                if h == g or size[h] >= container.limit or (size[h] == 0 and tried_new):
                    continue
                tried_new = tried_new or size[h] == 0
                # A trial takes the two old groups out of the totals and puts the two new ones in: it costs the
                # entities, not all groups and children. Its rounding errors end with the trial.
                set_to(room, scalars)
                set_rows(new_terms, terms)
                _contribute(container, sums[g], x[g], y[g], -1.0, room, new_terms)
                if size[h] > 0:
                    _contribute(container, sums[h], x[h], y[h], -1.0, room, new_terms)
                for place, group in enumerate((g, h)):
                    set_to(new_sums[place], sums[group])
                    set_to(new_x[place], x[group])
                    set_to(new_y[place], y[group])
                _add(container, c, -1.0, new_sums[0], new_x[0], new_y[0])
                _add(container, c, 1.0, new_sums[1], new_x[1], new_y[1])
                # The group that the child leaves may end empty; then it has nothing to contribute.
                if size[g] > 1:
                    _contribute(container, new_sums[0], new_x[0], new_y[0], 1.0, room, new_terms)
                _contribute(container, new_sums[1], new_x[1], new_y[1], 1.0, room, new_terms)
                value = _objective(container, room, new_terms)
                # Strictly better, so that of equal places the first one is taken.
                if value < best:
                    best, chosen = value, h
            if chosen < 0:
                failed_at[kind], failed_in[kind] = changes, g
                continue
            # The child goes to the best of all places, not to the first better one.
            group_of[c] = chosen
            changes += 1
            current = _afresh(container, group_of, groups, g, chosen, totals)
        # Merging is a second kind of step: single moves cannot join two groups if every first move makes things
        # worse.
        for g in range(n):
            for h in range(g + 1, n):
                if size[g] == 0 or size[h] == 0 or size[g] + size[h] > container.limit:
                    continue
                set_to(room, scalars)
                set_rows(new_terms, terms)
                _contribute(container, sums[g], x[g], y[g], -1.0, room, new_terms)
                _contribute(container, sums[h], x[h], y[h], -1.0, room, new_terms)
                _set_to_sum(new_sums[0], sums[g], sums[h])
                _set_to_sum(new_x[0], x[g], x[h])
                _set_to_sum(new_y[0], y[g], y[h])
                _contribute(container, new_sums[0], new_x[0], new_y[0], 1.0, room, new_terms)
                # The first pair that helps is merged at once; later pairs see the result.
                if _objective(container, room, new_terms) < current - TOLERANCE * abs(current):
                    # h ends empty, and its number is free for a new group.
                    for c in range(n):
                        if group_of[c] == h:
                            group_of[c] = g
                    changes += 1
                    current = _afresh(container, group_of, groups, g, h, totals)
        if changes == before:
            break
    return start, current


@internal
def _afresh(
    container: Container, group_of: Integers, groups: _Groups, g: int, h: int, totals: _Totals
) -> float:
    """Sum two changed groups and the container from scratch, because differences would gather rounding errors."""
    # Sums of the two groups in the order of their children: they do not depend on the moves that led here.
    size, sums, x, y = groups
    scalars, terms = totals
    for group in (g, h):
        size[group] = 0
        sums[group], x[group], y[group] = 0.0, 0.0, 0.0
    for c in range(group_of.size):
        group = group_of[c]
        if group in (g, h):
            size[group] += 1
            _add(container, c, 1.0, sums[group], x[group], y[group])
    # The totals of the container are summed anew over all groups as well, in the order of their numbers.
    scalars[:] = 0.0
    terms[:] = 0.0
    for group in range(size.size):
        if size[group] > 0:
            _contribute(container, sums[group], x[group], y[group], 1.0, scalars, terms)
    return float(_objective(container, scalars, terms))


@internal
def _set_to_sum(out: Floats, first: Floats, second: Floats) -> None:
    for i in range(out.size):
        out[i] = first[i] + second[i]


@internal
def _add(container: Container, c: int, sign: float, sums: Floats, x: Floats, y: Floats) -> None:
    # Finite by agreement: a child about which nothing is known cannot be compared.
    v = container.below[c]
    sums[0] += sign * v
    sums[1] += sign * container.carried[c] * v * v
    for i in range(container.begin[c], container.begin[c + 1]):
        # Only the entities that touch the child; slope 0 of all others adds nothing.
        x[container.entity[i]] += sign * v * container.slope[i]
        y[container.entity[i]] += sign * v * container.slope[i] ** 2


@internal
def _contribute(
    container: Container, sums: Floats, x: Floats, y: Floats, sign: float, scalars: Floats, terms: Floats
) -> None:
    """Add a group's part of the container's sums, or take it away."""
    s, t = sums[0], sums[1]
    if s <= 0.0:
        return  # children known exactly: nothing of the group is uncertain
    # Precisions add: that of the sum of the children, 1 / s, and of the group's own measurement.
    v = 1.0 / (container.group_precision + 1.0 / s)
    # A child's variance after the group is known is v_c - v_c^2 / s + (v_c / s)^2 v, so its weight enters by t /
    # s^2 and t / s.
    carried = t / (s * s)
    scalars[0] += sign * v
    scalars[1] += sign * carried * v * v
    scalars[2] += sign * (carried * v - t / s)
    for k in range(x.size):
        # y is 0 where the entity touches no child of the group that has a variance: then x is 0 too.
        if y[k] != 0.0:
            a = x[k] / s
            terms[0, k] += sign * v * a
            terms[1, k] += sign * (y[k] - x[k] * a + v * a * a)


@internal
def _objective(container: Container, scalars: Floats, terms: Floats) -> float:
    # The same formulas one storey higher, with groups in the place of children.
    s, t = scalars[0], scalars[1]
    if s <= 0.0:
        return 0.0
    # What lies outside measures the total too, as if it were one more measurement.
    variance = 1.0 / (container.precision + 1.0 / s + container.outside)
    total = scalars[2] - t / s + (container.outside_weight + container.own_weight + t / (s * s)) * variance
    for k in range(container.weight.size):
        # The slope of the entity on the container's total; the part outside goes with its own slope, and both hang
        # on the same total, hence the square of their sum.
        a = terms[0, k] / s
        total += container.weight[k] * (
            terms[1, k] - terms[0, k] * a + (a + container.outside_slope[k]) ** 2 * variance
        )
    return float(total)
