"""Counts that agree with published counts of people: limits at every leaf, and splits that keep them.

Some counts y are a part of other counts n that are already published for every finest geounit (leaf) b: householders
among persons, persons who live alone among householders. Each leaf also has limits on the sum of its y. So 0 <= y_b(c)
<= n_b(c) for every cell c, and lower_b <= sum over c of y_b(c) <= upper_b.

*Splits.* A child's counts can be split among its leaves if and only if there is such a flow: from each cell c of the
child, at most n_b(c) to each leaf b, and from leaf b between lower_b and upper_b out of the network. Bounds on the
child's own counts are not enough: two leaves with n = (1, 1, 0, 0) and (0, 0, 1, 1) and one householder each allow no
y = (1, 1, 0, 0). Where the limits are those of a coarser geolevel, its geounits are the leaves. Below it, each child
is its own leaf. So the leaves of all children are in the flow of the parent (a *leaf lift*). The parent's y_p(c) leave
cell c, pass a node (child, c), and go on to the leaves of the child; the flow through the node is the child's y(c).
All numbers are whole, so there is a whole optimum (`tallyveil.kernels.rounding.network_simplex`), and whoever splits
the child next has a solution. The cost of y(c) is its squared distance from a target over the target's variance, exact
at the distances 0, 1, 2, 4, 8, ... from the target rounded down, and linear in between. The sum of a child's y may
have a target, too, at one more node.

*Limits* of the occupied units of a block with H household people, A of them adults, in HU housing units, all public.
They leave room at every leaf for all later splits, and no more is asked of them, since noise makes blocks that no
census has: there are occupied units if and only if there are household people; at most HU and at most A (one, where
all are minors); and no household needs to be larger than 15, unless there are too few units.

*Sizes* of households are found one by one, the largest first, which stands for itself and all larger ones; it holds at
most two people beyond it on average, unless there are too few households. Some households have a size that is known
before. All others can have any size from the smallest open one up. At every step the limits are those numbers of
households with which the open sizes can still add up, and no others. Worked case: 12 people live in 4 households of
two or more, 4 people beyond two in each. A household of size 7 takes 5 of these, so there is none. One may have size
6, and then the others have size 2. Source: docs/proofs/agreement.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import ConstraintError, SolverError
from tallyveil.kernels.rounding.network_simplex import (
    INFEASIBLE,
    OPTIMAL,
    Network,
    minimum_cost_flow,
    proves_least_cost,
)

# Powers of two: 83 points, which reach 2^40 persons from the target, far above the largest count of a release (2^32).
_STEPS = np.concatenate([-(2 ** np.arange(41)[::-1]), [0], 2 ** np.arange(41)])
"""Distances from the target, rounded down, at which the cost is exact."""

MOST_DECISIVE = 4
"""Columns that may decide whether leaves are merged; 2 to this power sets of them are looked at."""

_FINEST_UNIT = 2.0**20
"""Whole units of cost in one squared standard deviation, where the costs stay small enough."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """The finest geounits below some children, or those with limits, and how many of each cell's counts they can take.

    Attributes:
        child: Child of each leaf, shape (B,), in increasing order.
        lower: Smallest sum of a leaf's counts, shape (B,).
        upper: Largest sum of a leaf's counts, shape (B,).
        leaf: Leaf of each entry, shape (n,), in increasing order.
        column: Column of each entry, shape (n,).
        capacity: Largest count of the leaf in the column, shape (n,).
    """

    child: Integers
    lower: Integers
    upper: Integers
    leaf: Integers
    column: Integers
    capacity: Integers


@dataclass(frozen=True, slots=True)
class Totals:
    """Targets of the sums of the children's counts.

    Attributes:
        target: Shape (C,).
        variance: Variance of each, above zero; shape (C,).
    """

    target: Floats
    variance: Floats


@dataclass(frozen=True, slots=True)
class LiftedSplit:
    """A parent's counts, to be split among C children on s columns.

    Attributes:
        where: The family in words, for messages.
        parent_counts: The parent's counts, shape (s,); None at a root, whose columns are free.
        target: What the children's counts should be near, shape (C, s).
        variance: Variance of each target, above zero, shape (C, s).
        leaves: What the finest geounits can take.
        totals: What the sum of each child's counts should be near, if something is known of it.
    """

    where: str
    parent_counts: Integers | None
    target: Floats
    variance: Floats
    leaves: Leaves
    totals: Totals | None = None


def split_with_lift(problem: LiftedSplit) -> Integers:
    """Split a parent's counts so that each child's counts can be split among its leaves.

    Args:
        problem: The family.
    Returns:
        Counts of the children, shape (C, s): at every cell they sum to the parent's count.
    Raises:
        ConstraintError: the leaves cannot take the parent's counts.
        SolverError: the flow could not be proved optimal.
    """
    # Merging first makes the network smaller, and exactly the same counts of the children stay possible.
    problem = replace(problem, leaves=merged_leaves(problem.leaves, problem.target.shape[1]))
    nodes = _Nodes.of(problem)
    costed, pair = _costed_arcs(problem, nodes)
    net = _network(problem, nodes, costed)
    status, flow, potentials = minimum_cost_flow(net)
    if status == INFEASIBLE:
        raise ConstraintError(
            f"{problem.where}: its counts cannot be split among its finest geounits within their limits. The limits of "
            "the published files contradict each other.",
            code="lift-infeasible",
        )
    # The proof uses the potentials alone and shares no step with the method that found the flow.
    if status != OPTIMAL or not proves_least_cost(
        net.tail, net.head, net.capacity, net.costs, net.supply, flow, potentials
    ):
        raise SolverError(
            f"{problem.where}: no flow was proved to cost least; this is a defect of the split, please report it with "
            "the plan"
        )
    counts = np.zeros(problem.target.size, dtype=np.int64)
    # A pair has one arc for each linear piece of its cost; its count is the sum of their flows.
    np.add.at(counts, nodes.pairs[pair], flow[: pair.size])
    return counts.reshape(problem.target.shape)


def merged_leaves(leaves: Leaves, n_columns: int) -> Leaves:
    """Leaves of which some are merged, so that exactly the same sums of a child's counts are possible.

    What a leaf can take from a set of columns is the smaller one of its upper limit and of its capacities in these
    columns. Leaves are merged if, for every set of columns, the smaller one is the same for all of them, and likewise
    with the lower limit (docs/proofs/agreement.md). In most blocks, nearly all householders can be of few cells.

    Args:
        leaves: The leaves.
        n_columns: Number of columns.
    """
    kinds = _kinds(leaves)
    # Only leaves of one child may be merged, because each child's counts are split on by themselves.
    _, first, place = np.unique(
        np.column_stack([leaves.child, kinds]), axis=0, return_index=True, return_inverse=True
    )
    place = place.reshape(-1)
    lower, upper = np.zeros((2, first.size), dtype=np.int64)
    np.add.at(lower, place, leaves.lower)
    np.add.at(upper, place, leaves.upper)
    # Capacities of merged leaves in the same column add up.
    entry, where = np.unique(place[leaves.leaf] * n_columns + leaves.column, return_inverse=True)
    capacity = np.zeros(entry.size, dtype=np.int64)
    np.add.at(capacity, where, leaves.capacity)
    return Leaves(leaves.child[first], lower, upper, entry // n_columns, entry % n_columns, capacity)


def _kinds(leaves: Leaves) -> Integers:
    """What leaves must have in common to be merged, a row for each.

    A row has the numbers of the few columns that decide whether the capacities of a set of columns reach a limit, and
    which sets of these do. As few columns as possible are tried. A leaf with which this fails has a row of its own.
    """
    n_leaves = leaves.child.size
    # By leaf, and the largest capacity first: the columns that may decide are the first few of each leaf.
    order = np.lexsort((-leaves.capacity, leaves.leaf))
    rank = np.arange(order.size) - np.searchsorted(leaves.leaf, leaves.leaf)
    column = np.full((n_leaves, MOST_DECISIVE), -1, dtype=np.int64)
    largest = np.zeros((n_leaves, MOST_DECISIVE), dtype=np.int64)
    inside = rank < MOST_DECISIVE
    leaf, chosen = leaves.leaf[inside], order[inside]
    column[leaf, rank[inside]], largest[leaf, rank[inside]] = leaves.column[chosen], leaves.capacity[chosen]
    others = np.bincount(leaves.leaf, leaves.capacity, n_leaves).astype(np.int64)
    kinds = np.full((n_leaves, MOST_DECISIVE + 2), -1, dtype=np.int64)
    # Numbers below zero that no column has, one for each leaf: until a leaf is settled, it is like no other.
    kinds[:, 0], left = np.arange(n_leaves) - n_leaves - 1, np.ones(n_leaves, dtype=np.bool_)
    for n_decisive in range(MOST_DECISIVE + 1):
        by_column = np.argsort(column[:, :n_decisive], axis=1)
        names, sizes = (
            np.take_along_axis(table[:, :n_decisive], by_column, 1) for table in (column, largest)
        )
        sets = np.arange(2**n_decisive)
        # Bit k of a set's number says whether it has the k-th decisive column.
        sums = sizes @ (sets >> np.arange(n_decisive)[:, None] & 1)
        rest = others - sizes.sum(axis=1)
        reached = [sums >= limit[:, None] for limit in (leaves.lower, leaves.upper)]
        decided = [
            # A set decides by itself if it reaches the limit, or if not even all other columns with it pass the limit.
            (full | (sums + rest[:, None] <= limit[:, None])).all(axis=1)
            for full, limit in zip(reached, (leaves.lower, leaves.upper), strict=True)
        ]
        new = left & decided[0] & decided[1]
        kinds[new] = -1
        kinds[new, :n_decisive] = names[new]
        for place, full in enumerate(reached):
            # At most 2^4 sets, so that their truth values are one number of 16 bits.
            kinds[new, MOST_DECISIVE + place] = full[new] @ (1 << sets)
        left &= ~new
    return kinds


@dataclass(frozen=True, slots=True)
class _Nodes:
    """How the nodes are numbered.

    Node 0 takes in what leaves the leaves. Then come the leaves; a node for each pair of a child and a column that
    some leaf of the child has; the columns; at a root, the source of everything; and, if the sums of the children have
    targets, the children.

    Attributes:
        place: Of each entry of the leaves, the pair of its child and column, child * s + column.
        most: Largest count of each pair of a child and a column, shape (C * s,).
        pairs: Those that may be above zero.
        pair_node: Node of each pair; 0 where the count must be zero.
        first_column: Node of column 0.
        source: Node of the source, at a root.
        child: Node that takes in what leaves the leaves of each child, shape (C,).
        size: Number of nodes.
    """

    place: Integers
    most: Integers
    pairs: Integers
    pair_node: Integers
    first_column: int
    source: int
    child: Integers
    size: int

    @classmethod
    def of(cls, problem: LiftedSplit) -> _Nodes:
        """The nodes of a family."""
        leaves, (n_children, n_columns) = problem.leaves, problem.target.shape
        place = leaves.child[leaves.leaf] * n_columns + leaves.column
        most = np.zeros(n_children * n_columns, dtype=np.int64)
        # No leaf takes more of one column than its upper limit, whatever its capacity says.
        np.add.at(most, place, np.minimum(leaves.capacity, leaves.upper[leaves.leaf]))
        if problem.parent_counts is not None:
            most = np.minimum(most.reshape(n_children, -1), problem.parent_counts).reshape(-1)
        # A pair that must be zero has no node.
        pairs = np.flatnonzero(most)
        pair_node = np.zeros(most.size, dtype=np.int64)
        pair_node[pairs] = 1 + leaves.child.size + np.arange(pairs.size)
        first_column = 1 + leaves.child.size + pairs.size
        source = first_column + n_columns
        size = source + (problem.parent_counts is None)
        child = np.zeros(n_children, dtype=np.int64)
        if problem.totals is not None:
            child, size = size + np.arange(n_children), size + n_children
        return cls(place, most, pairs, pair_node, first_column, source, child, size)


@dataclass(frozen=True, slots=True)
class _LiftArcs:
    """Arcs of one kind: their two nodes, their capacity, and the cost of one unit."""

    tail: Integers
    head: Integers
    capacity: Integers
    cost: Integers


def _network(problem: LiftedSplit, nodes: _Nodes, costed: _LiftArcs) -> Network:
    """The flow of a family; its costed arcs come first."""
    leaves, n_leaves = problem.leaves, problem.leaves.child.size
    # Arcs that could carry nothing are left out.
    used = np.flatnonzero((nodes.most[nodes.place] > 0) & (leaves.capacity > 0))
    leaf_node = 1 + np.arange(n_leaves)
    into = _free(nodes.pair_node[nodes.place[used]], 1 + leaves.leaf[used], leaves.capacity[used])
    out = _free(leaf_node, nodes.child[leaves.child], leaves.upper - leaves.lower)
    parts = [costed, into, out]
    supply = np.zeros(nodes.size, dtype=np.int64)
    # The lower limit is taken in at the leaf itself, and only what exceeds it goes on: so capacities start at zero.
    supply[leaf_node] = -leaves.lower
    columns = nodes.first_column + np.arange(problem.target.shape[1])
    if problem.parent_counts is not None:
        supply[columns] = problem.parent_counts
    else:
        source, total = np.array([nodes.source]), int(leaves.upper.sum())
        supply[source] = total
        # What the leaves do not take goes from the source to node 0 by an arc of its own.
        parts.append(_free(source, source * 0, np.array([total - int(leaves.lower.sum())])))
        parts.append(_free(np.repeat(source, columns.size), columns, np.full(columns.size, total)))
    # Supplies must sum to zero; node 0 takes whatever is not taken before it.
    supply[0] = -int(supply.sum())
    n_arcs = sum(part.tail.size for part in parts)
    return Network(
        np.concatenate([part.tail for part in parts]),
        np.concatenate([part.head for part in parts]),
        np.concatenate([part.capacity for part in parts]),
        np.concatenate([part.cost for part in parts])[None, :],
        supply,
        np.ones(n_arcs, dtype=np.bool_),
        np.zeros(n_arcs, dtype=np.int64),
        np.full(supply.size, -1, dtype=np.int64),
    )


def _free(tail: Integers, head: Integers, capacity: Integers) -> _LiftArcs:
    """Arcs that cost nothing."""
    return _LiftArcs(tail, head, capacity.astype(np.int64), np.zeros(tail.size, dtype=np.int64))


def _costed_arcs(problem: LiftedSplit, nodes: _Nodes) -> tuple[_LiftArcs, Integers]:
    """The arcs that cost something, one for each linear piece of a cost: first those of pairs. And the pair of each."""
    target, variance = (array.reshape(-1)[nodes.pairs] for array in (problem.target, problem.variance))
    pair, into_pair = _pieces(target, variance, nodes.most[nodes.pairs])
    column = nodes.first_column + nodes.pairs[pair] % problem.target.shape[1]
    ends = [(column, nodes.pair_node[nodes.pairs[pair]])]
    pieces = [into_pair]
    if problem.totals is not None:
        leaves = problem.leaves
        least, most = np.zeros((2, len(nodes.child)), dtype=np.int64)
        np.add.at(least, leaves.child, leaves.lower)
        np.add.at(most, leaves.child, leaves.upper)
        # What every leaf takes anyway does not pass the node of its child.
        child, out = _pieces(problem.totals.target - least, problem.totals.variance, most - least)
        ends.append((nodes.child[child], child * 0))
        pieces.append(out)
    tail, head = (np.concatenate(side) for side in zip(*ends, strict=True))
    capacity, slope = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return _LiftArcs(tail, head, capacity, _whole(slope, nodes.size)), pair


def _pieces(target: Floats, variance: Floats, most: Integers) -> tuple[Integers, tuple[Integers, Floats]]:
    """The linear pieces of the costs of some counts: which count each belongs to, and its length and slope."""
    # Pieces begin at a whole number near the target, where the cost must be exact.
    nearest = np.clip(np.floor(target), 0, most).astype(np.int64)
    ends = np.clip(nearest[:, None] + _STEPS, 0, most[:, None])
    # The clipped steps may end inside; the outermost pieces reach both ends of what is possible.
    ends[:, 0], ends[:, -1] = 0, most
    number, piece = np.nonzero(ends[:, 1:] > ends[:, :-1])
    begin, end = ends[number, piece], ends[number, piece + 1]
    return number, (end - begin, (begin + end - 2 * target[number]) / variance[number])


def _whole(slope: Floats, n_nodes: int) -> Integers:
    """Slopes as whole numbers that the flow can add up; their order is kept."""
    largest = float(np.abs(slope).max(initial=1.0))
    # A potential is a sum of at most n_nodes costs. Below 2^57 in total, int64 holds sums and differences of them.
    unit = min(_FINEST_UNIT, 2.0**57 / (n_nodes + 2) / largest)
    # Rounding is monotone: pieces of one count keep rising slopes, so that its cost stays convex.
    return np.rint(slope * unit).astype(np.int64)


USUAL_LARGEST = 15
"""Size that a household must exceed only where there are too few units."""

MOST_BEYOND: Final = 2
"""People beyond the largest size that households of this size may have on average, where there are enough of them. With
more, State counts of smaller sizes would be less exact (docs/dhc.md)."""


def occupied_limits(people: Integers, adults: Integers, housing_units: Integers) -> tuple[Integers, Integers]:
    """Least and largest number of occupied units.

    Args:
        people: Published household people of each block.
        adults: Published household people of 18 or more.
        housing_units: Housing units of each block.
    Returns:
        Two arrays of the same shape; the first is nowhere above the second.
    Raises:
        ConstraintError: a block has household people and no housing unit.
    """
    settled = people > 0
    homeless = settled & (housing_units == 0)
    if bool(homeless.any()):
        raise ConstraintError(
            f"{int(homeless.sum())} finest geounit(s) have published household people and no housing unit. Publish the "
            "persons with an upper bound of 0 on household people where there is no housing unit.",
            code="people-without-units",
        )
    upper = np.where(settled, np.minimum(housing_units, np.maximum(adults, 1)), 0)
    largest = np.maximum(USUAL_LARGEST, divided_up(people, upper, settled))
    return divided_up(people, largest, settled), upper


def alone_limits(people: Integers, occupied: Integers) -> tuple[Integers, Integers]:
    """Least and largest number of people who live alone.

    Those who are not householders must fit into the other households. Each of these has at least one of them, and at
    most 14, or as few as possible where there are too few households.

    Args:
        people: Published household people of each block.
        occupied: Occupied units, one for each householder; above zero and at most `people` where there are people.
    Returns:
        Two arrays of the same shape; the first is nowhere above the second.
    """
    others = people - occupied
    settled = others > 0
    largest = np.maximum(USUAL_LARGEST, divided_up(people, occupied, settled))
    needed = divided_up(others, largest - 1, settled)
    return np.maximum(occupied - others, 0), occupied - needed


def divided_up(parts: Integers, by: Integers, where: Bools) -> Integers:
    """Quotients rounded up, and 0 elsewhere."""
    return np.where(where, -(-parts // np.maximum(by, 1)), 0)


@dataclass(frozen=True, slots=True, eq=False)
class SizedHouseholds:
    """Households of some places, and the people who live in them.

    Attributes:
        people: People in all households of each place, shape (G,).
        known: Households known to have one person, two, and so on; shape (G, Z). The last size is open.
        unknown: Households whose size is not known, shape (G,).
        smallest: The smallest size that these can have.
    """

    people: Integers
    known: Integers
    unknown: Integers
    smallest: int

    @property
    def left(self) -> Integers:
        """People who are left if each household is as small as it can be."""
        sizes = np.arange(1, self.known.shape[1] + 1)
        held: Integers = self.people - self.known @ sizes - self.smallest * self.unknown
        return held

    def possible(self) -> Bools:
        """Where sizes can add up to the people, if no known size is above the smallest unknown one."""
        fits: Bools = (self.left == 0) | ((self.left > 0) & (self.unknown > 0))
        return fits


def size_limits(homes: SizedHouseholds, size: int) -> tuple[Integers, Integers]:
    """Least and largest number of households of the largest size that is not known yet.

    Args:
        homes: The households. Those whose size is not known can have any size from the smallest up to `size`.
        size: This size, above the smallest.
    Returns:
        Two arrays of the shape (G,). The first is nowhere above the second, if sizes can add up.
    """
    known, smallest, open_size = homes.known, homes.smallest, homes.known.shape[1]
    # Households of at least the smallest unknown size, known and unknown: only these can take people beyond it.
    large = homes.unknown + known[:, smallest - 1 :].sum(axis=1)
    in_large = homes.people - known[:, : smallest - 1] @ np.arange(1, smallest)
    largest = np.maximum(open_size + MOST_BEYOND, divided_up(in_large, large, large > 0))
    # What households of the open size can take beyond it, and what smaller households can take.
    beyond = known[:, -1] * (largest - open_size)
    smaller = (size - 1 - smallest) * homes.unknown
    # One more household of this size instead of the size below takes so many people more.
    more = largest - size + 1 if size == open_size else np.ones_like(largest)
    lacking = homes.left - beyond - smaller
    lower = divided_up(lacking, more, lacking > 0)
    upper = np.minimum(homes.unknown, homes.left // (size - smallest))
    return lower, upper
