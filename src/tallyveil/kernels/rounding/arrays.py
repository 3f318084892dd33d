"""Arrays that the kernels of the rounding share, and the unit in which estimates are whole numbers."""

from typing import NamedTuple

from tallyveil.arrays import Bools, IntegerRows, Integers

# A power of two, so that whole persons are told by exact arithmetic. A unit is a millionth of a person: ten
# times the error of a certified estimate, and small beside any part that decides. Twice or half as many units
# decide differently only within a unit of a tie; published counts depend on it.
ONE = 2**20
"""Units of an estimate in one person."""


class Entries(NamedTuple):
    """Every pair of a child and a cell it may have people in, ordered by child.

    Attributes:
        start: [C + 1], where each child's entries begin.
        cell: [n].
        floor: [n], floor of the estimate, persons.
        part: [n], its fractional part, in units of 2^-20.
    """

    start: Integers
    cell: Integers
    floor: Integers
    part: Integers


class Bounds(NamedTuple):
    """Bounds on the sums of persons by child, or group of children, and answer.

    Attributes:
        offset: [m + 1], where the columns of each query begin; queries without bounds have none.
        lower, upper: [C, columns]; 2^62 or more: no upper bound. In the columns of a shared query, row g is that of
            group g, and the rows after the last group mean nothing.
        shared: [m], whether a query's bounds are on sums over groups.
        groups: [C], the group of each child, numbered from 0 on without gaps.
    """

    offset: Integers
    lower: IntegerRows
    upper: IntegerRows
    shared: Bools
    groups: Integers


class Network(NamedTuple):
    """A network of n nodes and a arcs, and hints where to start.

    Attributes:
        tail, head: [a], nodes of each arc.
        capacity: [a], above zero; flows lie between 0 and it.
        costs: [K, a], cost of one unit, most important first; K at least 1.
        supply: [n], what each node sends out (negative: takes in); sums to zero.
        useful: [a], arcs to try first; the others are priced when these are done.
        begin: [a], a flow to start from: at zero or at capacity on every arc but the first arcs.
        first_arc: [n], an arc with room left that leads from the node to one of smaller number, to start the
            tree with; or -1. Where `begin` does not balance at a node, its first arc must be at zero.
    """

    tail: Integers
    head: Integers
    capacity: Integers
    costs: Integers
    supply: Integers
    useful: Bools
    begin: Integers
    first_arc: Integers
