"""One sweep of the descent over cells, compiled.

Problem: `tallyveil.kernels.family.descent` says what is minimised. Step: for each cell, where each child's count would
go by itself, the projection of these counts on the parent's count, and what the moves change.

A step at a cell reads the numbers that belong to the cell in all children. The arrays here therefore have the children
side by side (`Columns`). In a family of many children a processor then reads whole lines of memory and works on several
children at a time.

Worked case: see `tallyveil.kernels.family.descent`. Every sum runs in a fixed order, so that every machine gives the
same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers, Uint32s
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.simplex import simplex_shift, weighted_shift

FEW, MANY = 32, 8
"""The sweep computes the slopes of all children, answer by answer, if a family has at least FEW children and at least
one in MANY of them may have the cell. This way needs no list of children, so a processor works on several at a time.
Otherwise the sweep computes the slopes of only those children that may have the cell."""


class Columns(NamedTuple):
    """The descent's current point with the children side by side; arrays are changed in place.

    Attributes:
        x: [g, C].
        cell_price: Prices of the parent's sums. [g]
        row_price: Positive at a lower bound, negative at an upper one. [R]
        gradient: H x - b, where H is held; else empty. [C, g]
        excess: Weight times (sum of x - measured value), where H is not held; else empty. [L, C]
        activity: Sums of the rows. [R]
        against: The rows' forces with the opposite sign, in the order of `row_number`; 0 where there is no row.
        stiffness: Curvature of a broken row, in the objective's units.
    """

    x: Floats
    cell_price: Floats
    row_price: Floats
    gradient: Floats
    excess: Floats
    activity: Floats
    against: Floats
    stiffness: float


class CellBlocks(NamedTuple):
    """What the step at a cell involves.

    Attributes:
        starts: Where each cell's children begin in `members`. [g + 1]
        members: Children that may have the cell.
        bound_starts: Where each cell's bounds begin in `bounds`. [g + 1]
        bounds: Bounds that have a row through the cell in some child.
    """

    starts: Integers
    members: Uint32s
    bound_starts: Integers
    bounds: Integers


class Scratch(NamedTuple):
    """Scratch of one step.

    Attributes:
        slope: Slopes of all children. [C]
        proposal: Where each member's x would go by itself. [C]
        slack: Persons by which it answers one unit of price. [C]
        per_slope: The same of each kind. [K]
        moved: Members whose x changes. [C]
        change: Their changes. [C]
    """

    slope: Floats
    proposal: Floats
    slack: Floats
    per_slope: Floats
    moved: Uint32s
    change: Floats


@internal
def sweep(program: Program, point: Columns, blocks: CellBlocks, scratch: Scratch) -> float:
    """Minimise over every cell in turn; returns the largest move in persons."""
    # Block coordinate descent whose block is one cell in all children. No answer sums two children, so that H is
    # diagonal within a block and the step is a projection onto a simplex. It is exact without rows; these enter
    # by an upper bound of their curvature.
    # names for the arrays of the inner loops: taking an array out of a tuple there costs time
    kind, answers, weights, ridge = program.kind, program.answers, program.weights, program.ridge
    sums, has_sums, hessian, curvatures = program.sums, program.has_sums, program.hessian, program.curvature
    bound_label, bound_start, bound_width = program.bound_label, program.bound_start, program.bound_width
    bound_group, bound_members, row_number = program.bound_group, program.bound_members, program.row_number
    row_lower, row_upper = program.row_lower, program.row_upper
    x, cell_price, row_price, gradient, excess, activity, against, stiffness = point
    starts, members, bound_starts, bounds = blocks
    slope, proposal, slack, per_slope, moved, change = scratch
    dense, alike, n_partitions, n_children = (
        gradient.size > 0,
        per_slope.size == 1,
        answers.shape[1],
        x.shape[1],
    )
    largest = 0.0
    for i in range(sums.size):
        # cells that no child may have, or where a partial sweep has nothing to do
        begin, n = starts[i], starts[i + 1] - starts[i]
        if n == 0:
            continue
        first_bound, last_bound = bound_starts[i], bound_starts[i + 1]
        # a row that m children share resists their common move m times as much as a move of one of them
        resisting = 0
        for t in range(first_bound, last_bound):
            resisting += bound_members[bounds[t]]
        # along the block, a row resists by its stiffness at most times its members: the step cannot overshoot
        for z in range(per_slope.size):
            per_slope[z] = 1.0 / (curvatures[z, i] + stiffness * resisting)
        # the slope is the gradient of the Lagrangian without the cell's price
        if dense:
            for k in range(n):
                c = np.uint64(members[np.uint64(begin + k)])
                slope[c] = gradient[c, i]
        elif n_children < FEW or MANY * n < n_children:
            for k in range(n):
                c = np.uint64(members[np.uint64(begin + k)])
                total = ridge[kind[c], i] * x[i, c]
                for q in range(n_partitions):
                    if answers[i, q] >= 0:
                        total += excess[np.uint64(answers[i, q]), c]
                slope[c] = total
        else:
            for child in range(n_children):
                slope[child] = ridge[kind[child], i] * x[i, child]
            for q in range(n_partitions):
                if answers[i, q] >= 0:
                    for child in range(n_children):
                        slope[child] += excess[np.uint64(answers[i, q]), child]
        # rows pull with their forces at this point, which are kept up to date below
        for t in range(first_bound, last_bound):
            b = bounds[t]
            place = bound_start[b] + bound_label[b, i]
            for k in range(n):
                c = np.uint64(members[np.uint64(begin + k)])
                slope[c] += against[np.uint64(place + bound_group[b, c] * bound_width[b])]
        for k in range(n):
            c = np.uint64(members[np.uint64(begin + k)])
            # the unconstrained minimum of each child by itself
            slack[k] = per_slope[kind[c]]
            proposal[k] = x[i, c] - slope[c] * slack[k]
        shift = 0.0
        if has_sums and alike:
            # begun at the price of the last sweep, which is mostly near
            shift = simplex_shift(proposal, n, sums[i], -cell_price[i] * per_slope[0])
            cell_price[i] = -(curvatures[0, i] + stiffness * resisting) * shift
        # children of different kinds answer a price differently: the simplex is weighted then
        elif has_sums:
            cell_price[i] = -weighted_shift(proposal, slack, n, sums[i], -cell_price[i])
            for k in range(n):
                proposal[k] += cell_price[i] * slack[k]
        n_moved = 0
        # most counts do not move, and cost nothing from here on
        for k in range(n):
            c = np.uint64(members[np.uint64(begin + k)])
            goal = max(proposal[k] - shift, 0.0)
            by = goal - x[i, c]
            if by != 0.0:
                x[i, c] = goal
                largest = max(largest, abs(by))
                moved[n_moved], change[n_moved] = c, by
                n_moved += 1
        # whatever follows from x is updated by the change alone; the descent computes it anew from x when it
        # begins
        if dense:
            for k in range(n_moved):
                c = np.uint64(moved[k])
                like, by = kind[c], change[k]
                for j in range(sums.size):
                    gradient[c, j] += by * hessian[like, i, j]
        # child by child or answer by answer: the same sums in the same order for each answer and child
        elif n_children < FEW:
            for k in range(n_moved):
                c = np.uint64(moved[k])
                for q in range(n_partitions):
                    if answers[i, q] >= 0:
                        answer = np.uint64(answers[i, q])
                        excess[answer, c] += weights[kind[c], answer] * change[k]
        else:
            for q in range(n_partitions):
                if answers[i, q] >= 0:
                    answer = np.uint64(answers[i, q])
                    for k in range(n_moved):
                        c = np.uint64(moved[k])
                        excess[answer, c] += weights[kind[c], answer] * change[k]
        for t in range(first_bound, last_bound):
            b = bounds[t]
            for k in range(n_moved):
                c = np.uint64(moved[k])
                place = bound_start[b] + bound_group[b, c] * bound_width[b] + bound_label[b, i]
                row = row_number[place]
                if row >= 0:
                    activity[row] += change[k]
                    lower, upper = row_lower[row], row_upper[row]
                    # at once and not after the sweep: the next cell already feels the row
                    against[place] = -row_force(row_price[row], activity[row], lower, upper, stiffness)
    return largest


@internal
def row_force(price: float, held: float, lower: float, upper: float, stiffness: float) -> float:
    """What a row's price would be now: zero inside its bounds."""
    # the multiplier and the penalty, cut to the sign that a bound may have
    short = price + stiffness * (lower - held)
    over = price + stiffness * (upper - held)
    return float(max(short, 0.0) + min(over, 0.0))
