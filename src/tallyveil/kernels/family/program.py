"""A pass's quadratic program as plain arrays, the form in which the compiled solver holds it.

Problem: x[c, i] is the number of persons of child c in merged cell i. Every query sums cells, and its noisy
answers have weight 1 / variance. Minimise the weighted squared distance to all answers,

    sum over children c of  1/2 x_c' H x_c - b_c' x_c,

subject to x >= 0, to the children of every cell summing to the parent's count, and to rows: sums of cells
between bounds. A row sums cells of one child, or the same cells of several children, which are a group. H
sums, over the answers, weight times the outer product of the answer's cells; b is the same sum of weight
times measured value.

Worked case: a child with two cells, whose total is measured as 7 with variance 1/2 and whose first cell as 4
with variance 1. Then H = [[3, 2], [2, 2]] and b = (18, 14), and without other constraints the minimum is
x = (4, 3).

The tests have the same program in numpy (`tests.oracles.block_program`).

Sizes: C children of K kinds, s support cells, g merged cells, p partitions with L answers in all, R rows of b
bounds, each with its own groups of children. A partition is a set of answers that share no cell; its answers
are numbered through all partitions. The groups of a bound are numbered from 0 as they first appear. Usually
every child is a group. A bound on the sum of several children, such as on the two parts of a State, has
larger ones.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import BoolRows, Bools, FloatBlocks, FloatRows, Floats, Int32Rows, IntegerRows, Integers
from tallyveil.kernels.compiled import internal

# The matrix of a kind then has 32 KiB. With twice as many cells it has four times as much.
DENSE_CELLS = 64
"""With more cells than this, H is not stored. Its products go through the answers' sums, which are fewer."""

# 8 MiB in double precision.
MOST_ENTRIES = 2**20
"""H is not stored either where the matrices of all kinds together would have more numbers than this."""


SOFTEST = 2.0**-16
"""A child's gradient is converted to persons by at least this part of its best measured sibling's curvature. The
gradient of a child that nothing measures is only the rounding error of its siblings' gradients."""


class PassArrays(NamedTuple):
    """One pass of a family, on support cells.

    Attributes:
        allowed: [C, s].
        inhabitants: The parent's counts, or ones at a root. [s]
        has_sums: Whether children must sum to the parent.
        labels: Answer of each cell, -1: none. [queries, s]
        widths: Answers of each query. [queries]
        values: Values of the queries in persons, query after query, child after child. [C * widths.sum()]
        weights: 1 / variance; 0: not measured. [queries, C]
        bound_labels: Row of each cell, -1: none. [b, s]
        bound_widths: Rows of each bound in one group. [b]
        bound_groups: Group of each child, numbered from 0 as they first appear. [b, C]
        lower: Bound after bound, group after group; -inf: none. [groups of a bound * its width, summed]
        upper: In the same order; inf: none.
    """

    allowed: BoolRows
    inhabitants: Floats
    has_sums: bool
    # what was measured
    labels: Int32Rows
    widths: Integers
    values: Floats
    weights: FloatRows
    # what must hold
    bound_labels: Int32Rows
    bound_widths: Integers
    bound_groups: IntegerRows
    lower: Floats
    upper: Floats


class Program(NamedTuple):
    """Minimise the sum over children of 1/2 x' H x - b' x under sums, rows and x >= 0.

    Children whose queries have the same variances are of one kind and share H. There is usually one kind.

    Attributes:
        allowed: Where x may be above zero. [C, g]
        has_sums: Whether children must sum to `sums`.
        sums: The parent's counts. [g]
        kind: Kind of each child. [C]
        answers: Answers of each cell, one a partition, numbered through all partitions; -1: none. [g, p]
        weights: Weight of each answer. [K, L]
        targets: Weight times measured value. [C, L]
        ridge: Added to H's diagonal. [K, g]
        curvature: H's diagonal, ridge included. [K, g]
        scale: What converts a gradient to persons: the curvature, or SOFTEST times the largest of any kind. [K, g]
        hessian: H, or empty where there are too many cells, see DENSE_CELLS and MOST_ENTRIES. [K, g, g]
        linear: b, or empty where H is. [C, g]
        row_group: Which group of children a row is of. [R]
        row_bound: Which bound a row comes from. [R]
        row_label: Which label of that bound it sums. [R]
        row_lower: -inf: none. [R]
        row_upper: inf: none. [R]
        has_rows: Whether any row sums cells of a child. [C]
        bound_label: [b, g]
        bound_start: Where a bound begins in `row_number`. [b]
        bound_width: [b]
        bound_group: Group of each child. [b, C]
        bound_members: Children of the largest group. [b]
        row_number: Row of (bound, group, label), -1: it cannot bind. Place is start + group * width + label.
        row_scale: Curvature that converts a row's price to persons: the smallest of `scale`.
        row_stiffness: Curvature in units of which the solver softens rows: the median of H's diagonal.
    """

    # the variables and their sums
    allowed: BoolRows
    has_sums: bool
    sums: Floats
    # the objective: H and b by answers and, where they are small, as matrices
    kind: Integers
    answers: IntegerRows
    weights: FloatRows
    targets: FloatRows
    ridge: FloatRows
    curvature: FloatRows
    scale: FloatRows
    hessian: FloatBlocks
    linear: FloatRows
    # the rows, one after another
    row_group: Integers
    row_bound: Integers
    row_label: Integers
    row_lower: Floats
    row_upper: Floats
    has_rows: Bools
    # from a bound, a child and a cell to the row
    bound_label: IntegerRows
    bound_start: Integers
    bound_width: Integers
    bound_group: IntegerRows
    bound_members: Integers
    row_number: Integers
    # units
    row_scale: float
    row_stiffness: float


class Point(NamedTuple):
    """A point of a program with its prices; arrays are changed in place.

    Attributes:
        x: Persons. [C, g]
        cell_price: Prices of the parent's sums. [g]
        row_price: Prices of rows, positive at a lower bound, negative at an upper one. [R]
    """

    x: FloatRows
    cell_price: Floats
    row_price: Floats


class Answer(NamedTuple):
    """What a pass gave.

    Attributes:
        estimate: Persons, [C, s].
        residual: Largest violation of the optimality conditions, in persons.
        rounds: Rounds of descent and polish it took.
        sweeps: Sweeps of all rounds.
        steps: Faces solved in all rounds.
    """

    estimate: FloatRows
    residual: float
    rounds: int
    sweeps: int
    steps: int


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
