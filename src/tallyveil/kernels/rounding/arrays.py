"""Arrays that the kernels of the rounding share, and the unit in which estimates are whole numbers."""

from typing import NamedTuple

from tallyveil.arrays import Bools, Integers

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
    lower: Integers
    upper: Integers
    shared: Bools
    groups: Integers


class Network(NamedTuple):
    """What `minimum_cost_flow` takes; see there."""

    tail: Integers
    head: Integers
    capacity: Integers
    costs: Integers
    supply: Integers
    useful: Bools
    begin: Integers
    first_arc: Integers
