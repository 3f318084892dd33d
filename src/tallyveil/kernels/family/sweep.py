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
from tallyveil.kernels.compiled import inlined, internal
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.simplex import simplex_shift, weighted_shift

MANY = 8
"""Where at least one in so many children may have a cell, the slopes of all children are found: this needs no list of
the children, so that a processor works on several of them at a time."""


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


class Blocks(NamedTuple):
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
def sweep(program: Program, point: Columns, blocks: Blocks, scratch: Scratch) -> float:
    """Minimise over every cell in turn; returns the largest move in persons."""
    sums, has_sums, curvatures = program.sums, program.has_sums, program.curvature
    proposal, slack, per_slope = scratch.proposal, scratch.slack, scratch.per_slope
    alike, largest = per_slope.size == 1, 0.0
    for i in range(sums.size):
        members = blocks.members[blocks.starts[i] : blocks.starts[i + 1]]
        bounds = blocks.bounds[blocks.bound_starts[i] : blocks.bound_starts[i + 1]]
        n = members.size
        if n == 0:
            continue
        # a row that m children share resists their common move m times as much as a move of one of them
        resisting = 0
        for b in bounds:
            resisting += program.bound_members[b]
        for z in range(per_slope.size):
            per_slope[z] = 1.0 / (curvatures[z, i] + point.stiffness * resisting)
        _propose(program, point, i, members, bounds, scratch)
        shift = 0.0
        if has_sums and alike:
            shift = simplex_shift(proposal, n, sums[i], -point.cell_price[i] * per_slope[0])
            point.cell_price[i] = -(curvatures[0, i] + point.stiffness * resisting) * shift
        elif has_sums:
            point.cell_price[i] = -weighted_shift(proposal, slack, n, sums[i], -point.cell_price[i])
            for k in range(n):
                proposal[k] += point.cell_price[i] * slack[k]
        largest = max(largest, _move(program, point, i, members, bounds, scratch, shift))
    return largest


@inlined
def _propose(
    program: Program, point: Columns, i: int, members: Uint32s, bounds: Integers, scratch: Scratch
) -> None:
    """Where each member's count of a cell would go by itself, and its slack where these differ."""
    kind, ridge, own, n = program.kind, program.ridge, point.x[i], members.size
    slope, proposal, slack, per_slope, _, _ = scratch
    # the slope is the gradient of the Lagrangian without the cell's price
    if point.gradient.size > 0:
        for k in range(n):
            slope[members[k]] = point.gradient[members[k], i]
    elif MANY * n < own.size:
        for k in range(n):
            slope[members[k]] = ridge[kind[members[k]], i] * own[members[k]]
        for q in range(program.answers.shape[1]):
            if program.answers[i, q] >= 0:
                excess = point.excess[program.answers[i, q]]
                for k in range(n):
                    slope[members[k]] += excess[members[k]]
    else:
        for c in range(own.size):
            slope[c] = ridge[kind[c], i] * own[c]
        for q in range(program.answers.shape[1]):
            if program.answers[i, q] >= 0:
                excess = point.excess[program.answers[i, q]]
                for c in range(own.size):
                    slope[c] += excess[c]
    for b in bounds:
        groups, width = program.bound_group[b], program.bound_width[b]
        against = point.against[program.bound_start[b] + program.bound_label[b, i] :]
        for k in range(n):
            slope[members[k]] += against[np.uint64(groups[members[k]] * width)]
    if per_slope.size == 1:
        for k in range(n):
            proposal[k] = own[members[k]] - slope[members[k]] * per_slope[0]
    else:
        for k in range(n):
            slack[k] = per_slope[kind[members[k]]]
            proposal[k] = own[members[k]] - slope[members[k]] * slack[k]


@inlined
def _move(
    program: Program,
    point: Columns,
    i: int,
    members: Uint32s,
    bounds: Integers,
    scratch: Scratch,
    shift: float,
) -> float:
    """Move the members' counts of a cell and what depends on them; returns the largest move."""
    own, kind, proposal, moved, change = (
        point.x[i],
        program.kind,
        scratch.proposal,
        scratch.moved,
        scratch.change,
    )
    n, largest = 0, 0.0
    for k in range(members.size):
        goal = max(proposal[k] - shift, 0.0)
        by = goal - own[members[k]]
        if by != 0.0:
            own[members[k]] = goal
            largest = max(largest, abs(by))
            moved[n], change[n] = members[k], by
            n += 1
    if point.gradient.size > 0:
        for k in range(n):
            gradient, row = point.gradient[moved[k]], program.hessian[kind[moved[k]], i]
            for j in range(row.size):
                gradient[j] += change[k] * row[j]
    else:
        for q in range(program.answers.shape[1]):
            answer = program.answers[i, q]
            if answer >= 0:
                excess = point.excess[answer]
                for k in range(n):
                    excess[moved[k]] += program.weights[kind[moved[k]], answer] * change[k]
    for b in bounds:
        groups, width = program.bound_group[b], program.bound_width[b]
        first = program.bound_start[b] + program.bound_label[b, i]
        for k in range(n):
            place = first + groups[moved[k]] * width
            row = program.row_number[place]
            if row >= 0:
                point.activity[row] += change[k]
                price, held = point.row_price[row], point.activity[row]
                lower, upper = program.row_lower[row], program.row_upper[row]
                point.against[place] = -row_force(price, held, lower, upper, point.stiffness)
    return largest


@internal
def row_force(price: float, held: float, lower: float, upper: float, stiffness: float) -> float:
    """What a row's price would be now: zero inside its bounds."""
    short = price + stiffness * (lower - held)
    over = price + stiffness * (upper - held)
    return float(max(short, 0.0) + min(over, 0.0))
