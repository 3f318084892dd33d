"""Kernel that rounds one table by one minimum-cost flow.

Problem: whole numbers in place of the estimates of a table, with the same sums. Nested *sets* of columns, coarse to
fine, should keep their estimated sums in each child: the weighted sum of |whole sum - estimated sum| over sets and
children is to be least. Variables: the whole number in each entry.

Step: persons flow from a column through the finest set that holds the column to ever coarser sets, then to the child's
row, and from there to node 0. A set's deviation is convex and linear between whole numbers, so it is the cost of up to
three parallel arcs. A set with one open entry needs no node: its cost is added to the entry's arc. The first network
has an arc for each entry that is not whole already, and lets it go down or up. Where this network has no flow, which
only happens if the estimates miss their sums, the second network lets every entry take any whole number. It always has
a flow, since every column meets every child (docs/proofs/tiles.md). The network simplex method solves both, and
potentials in whole numbers prove the answer.

Worked case: two columns with totals 1 and 1, two children with totals 1 and 1, estimates [[0.4, 0.6], [0.6, 0.4]].
Every set has one column. The rounding is [[0, 1], [1, 0]], and its deviation is 4 * 0.4.

Oracle: HiGHS's solver of linear programs, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Int32Rows, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.rounding.network_simplex import (
    ONE,
    OPTIMAL,
    Entries,
    Network,
    first_flow,
    minimum_cost_flow,
    proves_least_cost,
)

WHOLE, NEIGHBOURS, ANY_WHOLE, FAILED = 0, 1, 2, 3
"""How a table was rounded: the estimates were whole; down or up; to any whole numbers; not at all (a defect)."""


class Estimates(NamedTuple):
    """A table of estimates. Entry (i, k) of column i and row k is at i * along + k * across.

    Attributes:
        value: The estimates, persons.
        along, across: Steps.
        column_total: [columns], whole numbers; empty at a root, where columns are free.
        row_total: [rows], whole numbers.
    """

    value: Floats
    along: int
    across: int
    column_total: Floats
    row_total: Floats


class Nest(NamedTuple):
    """Nested sets of a table's columns. R levels, coarse to fine.

    Attributes:
        number: [R, columns], each column's set among those of its level; from 0 on.
        size: [R], sets of each level.
        weight: [R], weight of a person of deviation; a whole number.
    """

    number: Int32Rows
    size: Integers
    weight: Integers


class _TableSets(NamedTuple):
    """Sets of every child: those of level r begin at offset[r], size[r] of them for each child.

    live: open entries. target: sum of what they want above their bases, in units. weight: with that of the sets that
    share the node. node: number, or -1 where the set has none. above: [R, largest size], the set of the level before
    that holds a set.
    """

    offset: Integers
    live: Integers
    target: Integers
    weight: Integers
    node: Integers
    above: Integers


class _TableLeftover(NamedTuple):
    """What is to be given out above the bases, by column (one entry at a root) and by row.

    base: [entries]; part: [entries], what the estimate has above the base, in units; open: [entries], whether an entry
    can get any of it.
    """

    base: Integers
    part: Integers
    open: Bools
    columns: Integers
    rows: Integers


@njit(nogil=True, cache=True)
def round_table(table: Estimates, nest: Nest, whole: Integers) -> int:
    """Round a table.

    Args:
        table: The estimates.
        nest: The sets.
        whole: Filled with the whole numbers, in the order of the estimates.
    Returns:
        WHOLE, NEIGHBOURS, ANY_WHOLE or FAILED.
    """
    # First among the two whole numbers next to each estimate, then among all: only the second always has a solution.
    for attempt in range(2):
        left, feasible = _leftover(table, attempt == 1)
        if not feasible:
            continue
        # persons to be given out above the bases; none where every estimate is whole
        rest = 0
        for k in range(left.rows.size):
            rest += left.rows[k]
        n_rows = left.rows.size
        for i in range(nest.number.shape[1]):
            for k in range(n_rows):
                whole[i * table.along + k * table.across] = left.base[i * n_rows + k]
        if rest == 0:
            return WHOLE
        net, tail_of, n_inner, out = _network(nest, left, attempt == 1)
        if attempt == 0:
            # the first flow supposes entries that take 0 or 1; the second network begins with artificial arcs
            _begin(net, n_inner, out, left, tail_of)
        status, flow, potentials = minimum_cost_flow(net)
        if status != OPTIMAL:
            continue
        # The potentials prove in whole numbers that no flow costs less; without the proof nothing is published.
        if not proves_least_cost(net.tail, net.head, net.capacity, net.costs, net.supply, flow, potentials):
            return FAILED
        # every entry's arc carries 0 or 1 in the first network, any whole number in the second
        for a in range(tail_of.size):
            i, k = tail_of[a] // n_rows, tail_of[a] % n_rows
            whole[i * table.along + k * table.across] += flow[a]
        return ANY_WHOLE if attempt == 1 else NEIGHBOURS
    return FAILED


@internal
def _leftover(table: Estimates, anything: bool) -> tuple[_TableLeftover, bool]:
    """Bases and what is left above them; whether nothing left is negative. `anything`: all bases are zero."""
    n_rows = table.row_total.size
    n_columns = table.value.size // n_rows
    n, free = table.value.size, table.column_total.size == 0
    left = _TableLeftover(
        np.zeros(n, np.int64),
        np.empty(n, np.int64),
        np.ones(n, np.bool_),
        np.zeros(1 if free else n_columns, np.int64),
        np.empty(n_rows, np.int64),
    )
    for k in range(n_rows):
        # totals are whole numbers stored as real ones
        left.rows[k] = np.int64(np.rint(table.row_total[k]))
        left.columns[0] += left.rows[k] if free else 0
    for i in range(table.column_total.size):
        left.columns[i] = np.int64(np.rint(table.column_total[i]))
    for i in range(n_columns):
        for k in range(n_rows):
            value = table.value[i * table.along + k * table.across]
            units = np.int64(np.rint(max(value, 0.0) * ONE))
            # Within one unit (2^-20 persons) of a whole number the estimate is that number: the rest is rounding error.
            if units % ONE <= 1:
                units -= units % ONE
            elif units % ONE == ONE - 1:
                units += 1
            e = i * n_rows + k
            # the second network asks for whole numbers from 0 on, so the estimate itself is the part
            if anything:
                left.part[e] = units
                continue
            left.base[e], left.part[e] = units // ONE, units % ONE
            left.rows[k] -= left.base[e]
            left.columns[0 if free else i] -= left.base[e]
    feasible = True
    for i in range(left.columns.size):
        feasible &= left.columns[i] >= 0
    for k in range(n_rows):
        feasible &= left.rows[k] >= 0
    for i in range(n_columns):
        for k in range(n_rows):
            e = i * n_rows + k
            # An arc with nothing at one of its ends carries nothing.
            giving = left.columns[0 if free else i] > 0 and left.rows[k] > 0
            left.open[e] = giving and (anything or left.part[e] > 0)
    return left, feasible


@internal
def _sets_of(nest: Nest, left: _TableLeftover) -> _TableSets:
    """Count and sum the open entries of all sets, and let sets with the same entries share a node.

    A set that holds all open entries of its child has a fixed sum, so it needs no node either.
    """
    n_levels, n_columns, n_rows = nest.size.size, nest.number.shape[1], left.rows.size
    largest = 1
    offset = np.zeros(n_levels + 1, np.int64)
    for r in range(n_levels):
        offset[r + 1] = offset[r] + nest.size[r] * n_rows
        largest = max(largest, nest.size[r])
    n = offset[n_levels]
    sets = _TableSets(
        offset,
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.empty(n, np.int64),
        np.full(n, -1, np.int64),
        np.zeros((n_levels, largest), np.int64),
    )
    of_row = np.zeros(n_rows, np.int64)
    for i in range(n_columns):
        for r in range(1, n_levels):
            sets.above[r, nest.number[r, i]] = nest.number[r - 1, i]
        for k in range(n_rows):
            if left.open[i * n_rows + k]:
                of_row[k] += 1
                for r in range(n_levels):
                    z = offset[r] + k * nest.size[r] + nest.number[r, i]
                    sets.live[z] += 1
                    sets.target[z] += left.part[i * n_rows + k]
    for r in range(n_levels):
        for z in range(offset[r], offset[r + 1]):
            sets.weight[z] = nest.weight[r]
    # From fine to coarse. A set of one open entry needs no node: its deviation is that of the entry (a toll).
    for back in range(n_levels):
        r = n_levels - 1 - back
        for k in range(n_rows):
            for j in range(nest.size[r]):
                z = offset[r] + k * nest.size[r] + j
                if sets.live[z] < 2:
                    continue
                if r == 0:
                    # a set with all open entries of its child has a fixed sum, which costs the same whatever
                    # the flow
                    sets.node[z] = -1 if sets.live[z] == of_row[k] else 0
                    continue
                y = offset[r - 1] + k * nest.size[r - 1] + sets.above[r, j]
                # the set above holds the same entries: one node pays for both
                if sets.live[y] == sets.live[z]:
                    sets.weight[y] += sets.weight[z]
                else:
                    sets.node[z] = 0
    return sets


@internal
def _network(nest: Nest, left: _TableLeftover, anything: bool) -> tuple[Network, Integers, int, Integers]:
    """The network; the entry of each of its first arcs; its nodes that are not columns; where their arcs begin.

    Node 0 gives out what is left where columns are free. The rows come next, then sets, coarse ones first, then
    columns.
    """
    n_rows, n_levels, n_columns = left.rows.size, nest.size.size, nest.number.shape[1]
    free = left.columns.size < n_columns or n_columns == 1
    sets = _sets_of(nest, left)
    n_nodes = 1 + n_rows
    for z in range(sets.node.size):
        if sets.node[z] == 0:
            sets.node[z] = n_nodes
            n_nodes += 1
    n_inner, n_open = n_nodes, 0
    # columns need nodes only where they have totals
    n_nodes += 0 if free else n_columns
    for e in range(left.open.size):
        n_open += left.open[e]
    # A convex cost of pieces: below the target, across it, above it. An entry that takes 0 or 1 has one piece.
    pieces = 3 if anything else 1
    most = n_open * pieces + 3 * (n_inner - 1 - n_rows)
    net = Network(
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty((1, most), np.int64),
        np.zeros(n_nodes, np.int64),
        np.ones(most, np.bool_),
        np.zeros(most, np.int64),
        np.full(n_nodes, -1, np.int64),
    )
    for k in range(n_rows):
        # a row takes what its total leaves, which makes the supplies sum to zero with the columns
        net.supply[1 + k] = -left.rows[k]
    if free:
        net.supply[0] = left.columns[0]
    else:
        for i in range(n_columns):
            net.supply[n_inner + i] = left.columns[i]
    entry, a = np.empty(n_open * pieces, np.int64), int(np.int64(0))
    for i in range(n_columns):
        for k in range(n_rows):
            e = i * n_rows + k
            if not left.open[e]:
                continue
            # The arc leads to the finest set that has a node, and pays for all sets of this entry alone.
            toll, head = int(np.int64(0)), -1
            for back in range(n_levels):
                r = n_levels - 1 - back
                z = sets.offset[r] + k * nest.size[r] + nest.number[r, i]
                toll += sets.weight[z] if sets.live[z] == 1 else 0
                head = sets.node[z] if head < 0 else head
            head = 1 + k if head < 0 else head
            before = a
            most_of_it = min(left.columns[0 if free else i], left.rows[k]) if anything else 1
            a = _add_pieces(net, a, 0 if free else n_inner + i, head, left.part[e], toll, most_of_it)
            for b in range(before, a):
                entry[b] = e
    # arcs of entries are the first ones, so that their flows can be told from those of sets
    n_entries = a
    out = np.zeros(n_inner, np.int64)
    for r in range(n_levels):
        for k in range(n_rows):
            for j in range(nest.size[r]):
                z = sets.offset[r] + k * nest.size[r] + j
                if sets.node[z] >= 0:
                    # ... and a set's arc to the next coarser one that has a node, or to the row
                    head, set_above = -1, j
                    for back in range(r):
                        set_above = sets.above[r - back, set_above]
                        y = sets.offset[r - back - 1] + k * nest.size[r - back - 1] + set_above
                        head = sets.node[y] if head < 0 else head
                    head = 1 + k if head < 0 else head
                    out[sets.node[z]] = a
                    capacity = left.rows[k] if anything else min(sets.live[z], left.rows[k])
                    a = _add_pieces(net, a, sets.node[z], head, sets.target[z], sets.weight[z], capacity)
    trimmed = Network(
        net.tail[:a],
        net.head[:a],
        net.capacity[:a],
        net.costs[:, :a].copy(),
        net.supply,
        net.useful[:a],
        net.begin[:a],
        net.first_arc,
    )
    return trimmed, entry[:n_entries], n_inner, out


@internal
def _add_pieces(net: Network, a: int, tail: int, head: int, target: int, weight: int, capacity: int) -> int:
    """Add the arcs below the target, across it and above it. Returns the number of the next arc."""
    reached, whole, part = int(np.int64(0)), target // ONE, target % ONE
    for piece in range(3):
        until = whole if piece == 0 else (whole + 1 if piece == 1 else capacity)
        until = min(until, capacity)
        if until > reached:
            net.tail[a], net.head[a], net.capacity[a] = tail, head, until - reached
            # The cost of one person more, in units: it falls below the target and rises above it. Where the target
            # lies between two whole numbers, the step across it changes the deviation from part to ONE - part.
            slope = -ONE if piece == 0 else (ONE - 2 * part if piece == 1 else ONE)
            net.costs[0, a] = weight * slope
            reached = until
            a += 1
    return a


@internal
def _begin(net: Network, n_inner: int, out: Integers, left: _TableLeftover, entry: Integers) -> None:
    """Begin with each column's largest parts; see `kernels.rounding.network_simplex`."""
    # parts by arc, as `first_flow` takes them
    part, arc_of = np.empty(entry.size, np.int64), np.empty(entry.size, np.int64)
    for a in range(entry.size):
        part[a], arc_of[a] = left.part[entry[a]], a
    nothing = np.zeros(0, np.int64)
    first_flow(net, out, n_inner, Entries(nothing, nothing, nothing, part), arc_of)
