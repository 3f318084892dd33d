"""Block coordinate descent over cells, compiled: the fast way to a close point.

Problem: the pass's program (`tallyveil.kernels.family.program`). Variables: x; a price for each cell's sum; a
price for each row.

Step: take one cell in all children and minimise over it with everything else held. That is a projection onto
a simplex (`tallyveil.kernels.vectors`), weighted where children are of different kinds. It is exact, and the
cell's sum holds to rounding error after every step. Rows enter by an augmented Lagrangian: each row has a
price and a stiffness, and after every sweep over all cells the price becomes the force that the row exerts.

A step at a cell reads the numbers that belong to the cell in all children. The arrays of a sweep therefore
have the children side by side (`Columns`). In a family of many children a processor then reads whole lines of
memory and works on several children at a time.

Stopping rule: a whole sweep changes no variable and no row price by more than a tolerance in persons, or the
sweeps are used up. Between whole sweeps come sweeps over the variables that are not zero.

Worked case: one cell with 3 persons in the parent; two children, measured as 5 and -2 with variance 1. The
step proposes (5, -2), and the projection subtracts 2 from both and clips: x = (3, 0), at price -2. One step
is enough.

Oracle: this descent with enough sweeps ends at the same point as `tallyveil.kernels.family.polish`. No sum is
reassociated and no product is fused with a sum, so that every machine gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Uint32s
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.family.program import Point, Program
from tallyveil.kernels.vectors import simplex_shift, weighted_shift

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


PARTIAL_SWEEPS = 2
"""Sweeps over what is not zero after one over everything."""


TURNED_TOGETHER = 8
"""Children whose numbers are turned together: a line of memory holds as many."""


@internal
def equal_parts(program: Program) -> Point:
    """Every child gets an equal part of each cell it may have; all prices are zero."""
    n_children, n_cells = program.allowed.shape
    x = np.zeros((n_children, n_cells))
    if program.has_sums:
        for i in range(n_cells):
            count = 0
            for c in range(n_children):
                # a cell that no child may have keeps its zeros, and no division by zero is reached
                count += program.allowed[c, i]
            for c in range(n_children):
                if program.allowed[c, i]:
                    # the sum holds from the start, and every later step keeps it
                    x[c, i] = program.sums[i] / count
    return Point(x, np.zeros(n_cells), np.zeros(program.row_group.size))


@internal
def child_excess(program: Program, child: int, x: Floats, excess: Floats) -> None:
    """Weight times (sum - measured value) of one child's answers, from its x of shape (g,)."""
    weights = program.weights[program.kind[child]]
    for k in range(excess.size):
        excess[k] = -program.targets[child, k]
    for i in range(x.size):
        # most counts of a close point are zero
        if x[i] != 0.0:
            for q in range(program.answers.shape[1]):
                answer = program.answers[i, q]
                if answer >= 0:
                    excess[answer] += weights[answer] * x[i]


@internal
def gradient_at(program: Program, excess: Floats, child: int, i: int, x: float) -> float:
    """(H x - b) at one cell of one child, from that child's excess."""
    gradient = float(program.ridge[program.kind[child], i] * x)
    for q in range(program.answers.shape[1]):
        answer = program.answers[i, q]
        if answer >= 0:
            gradient += excess[answer]
    return gradient


@internal
def gradients(program: Program, x: Floats, out: Floats) -> None:
    """H x - b into `out` of shape (C, g). Where H is not held, it is 0 for cells that a child may not have."""
    n_children, n_cells = x.shape
    excess = np.empty(program.weights.shape[1])
    for c in range(n_children):
        if program.hessian.size:
            gradient, hessian = out[c], program.hessian[program.kind[c]]
            for j in range(n_cells):
                gradient[j] = -program.linear[c, j]
            for i in range(n_cells):
                value, row = x[c, i], hessian[i]
                # skipping zeros costs a test and saves a row of H
                if value != 0.0:
                    for j in range(n_cells):
                        gradient[j] += value * row[j]
        else:
            child_excess(program, c, x[c], excess)
            # a count that must stay zero cannot move: nothing reads its gradient
            for i in range(n_cells):
                allowed = program.allowed[c, i]
                out[c, i] = gradient_at(program, excess, c, i, x[c, i]) if allowed else 0.0


@internal
def row_activity(program: Program, x: Floats, activity: Floats) -> None:
    """Sums of all rows at x of shape (C, g)."""
    # summed child by child, in a fixed order
    activity[:] = 0.0
    if activity.size == 0:
        return
    for c in range(x.shape[0]):
        if not program.has_rows[c]:
            continue
        for b in range(program.bound_label.shape[0]):
            place = program.bound_start[b] + program.bound_group[b, c] * program.bound_width[b]
            labels = program.bound_label[b]
            for i in range(x.shape[1]):
                if x[c, i] != 0.0 and labels[i] >= 0:
                    row = program.row_number[place + labels[i]]
                    if row >= 0:
                        activity[row] += x[c, i]


@njit(nogil=True, cache=True)
def descend(program: Program, point: Point, stiffness: float, n_sweeps: int, tolerance: float) -> int:
    """Sweep over all cells until nothing moves by more than the tolerance.

    Most variables are zero and stay zero. So between sweeps over everything come sweeps over what is not zero.

    Args:
        program: The pass's program.
        point: Where to begin; changed in place.
        stiffness: Curvature of a broken row, in the objective's units.
        n_sweeps: Most sweeps.
        tolerance: Persons.
    Returns:
        Sweeps made.
    """
    # Turned once here and once at the end, in place of at every step. From here on, the children of a cell
    # are neighbours.
    columns = _columns(program, point, stiffness)
    starts, members = _members(program)
    bound_starts, bounds = _bounds_of_cells(program)
    every = CellBlocks(starts, members, bound_starts, bounds)
    # room for all members; `_not_zero` fills it anew after each whole sweep
    some = CellBlocks(
        np.zeros(starts.size, np.int64), np.empty(members.size, np.uint32), bound_starts, bounds
    )
    n_children = program.allowed.shape[0]
    scratch = Scratch(
        np.empty(n_children),
        np.empty(n_children),
        np.empty(n_children),
        np.empty(program.curvature.shape[0]),
        np.empty(n_children, np.uint32),
        np.empty(n_children),
    )
    sweeps, n_partial, moving = 0, 0, True
    while moving and sweeps < n_sweeps:
        partial = n_partial > 0
        moved = sweep(program, columns, some if partial else every, scratch)
        # Prices count as moves: a sweep can be at rest while a broken row still pulls harder each time.
        moved = max(moved, _update_prices(program, columns))
        sweeps += 1
        if moved <= tolerance:
            # A partial sweep at rest proves nothing about the zeros, so one over everything decides.
            moving, n_partial = partial, 0
        elif partial:
            n_partial -= 1
        else:
            n_partial = PARTIAL_SWEEPS
            # counts only leave zero in a whole sweep, so the list is good until the next one
            _not_zero(columns.x, every, some)
    _turn_back(columns.x, point.x)
    return sweeps


@internal
def _columns(program: Program, point: Point, stiffness: float) -> Columns:
    """The point with the children side by side, and what follows from it."""
    n_children, n_cells = point.x.shape
    # the gradients are kept up to date where H is held, else the answers' excesses
    n_answers = 0 if program.hessian.size > 0 else program.weights.shape[1]
    x, excess = np.empty((n_cells, n_children)), np.empty((n_answers, n_children))
    rows = np.empty((TURNED_TOGETHER, n_answers))
    for first in range(0, n_children, TURNED_TOGETHER):
        last = min(first + TURNED_TOGETHER, n_children)
        # a block of children at a time, so that both sides of the turn use whole lines of memory
        for i in range(n_cells):
            for c in range(first, last):
                x[i, c] = point.x[c, i]
        if n_answers > 0:
            for c in range(first, last):
                child_excess(program, c, point.x[c], rows[c - first])
        for k in range(n_answers):
            for c in range(first, last):
                excess[k, c] = rows[c - first, k]
    gradient = np.empty((0, 0))
    if n_answers == 0:
        gradient = np.empty((n_children, n_cells))
        gradients(program, point.x, gradient)
    activity = np.empty(program.row_group.size)
    row_activity(program, point.x, activity)
    columns = Columns(
        x,
        point.cell_price,
        point.row_price,
        gradient,
        excess,
        activity,
        np.zeros(program.row_number.size),
        stiffness,
    )
    # places without a row keep 0, so that the sweep adds them without a test
    for row in range(activity.size):
        columns.against[_row_place(program, row)] = -_force(program, columns, row)
    return columns


@internal
def _turn_back(columns: Floats, x: Floats) -> None:
    """Counts with the children side by side, [g, C], into counts child by child, [C, g]."""
    for first in range(0, x.shape[0], TURNED_TOGETHER):
        last = min(first + TURNED_TOGETHER, x.shape[0])
        for i in range(x.shape[1]):
            for c in range(first, last):
                x[c, i] = columns[i, c]


@internal
def _row_place(program: Program, row: int) -> int:
    """Where a row is in `row_number`."""
    b = program.row_bound[row]
    return int(
        program.bound_start[b] + program.row_group[row] * program.bound_width[b] + program.row_label[row]
    )


@internal
def _force(program: Program, columns: Columns, row: int) -> float:
    """What a row's price would be now."""
    return row_force(
        columns.row_price[row],
        columns.activity[row],
        program.row_lower[row],
        program.row_upper[row],
        columns.stiffness,
    )


@internal
def _update_prices(program: Program, columns: Columns) -> float:
    """Make the rows' forces their prices; returns the largest change in persons."""
    moved = 0.0
    for row in range(columns.row_price.size):
        price = _force(program, columns, row)
        # a force over the stiffness is the persons by which the row is broken
        moved = max(moved, abs(price - columns.row_price[row]) / columns.stiffness)
        columns.row_price[row] = price
        columns.against[_row_place(program, row)] = -_force(program, columns, row)
    return moved


@internal
def _members(program: Program) -> tuple[Integers, Uint32s]:
    """Children that may have each cell: starts of shape (g + 1,), and the children."""
    n_children, n_cells = program.allowed.shape
    starts = np.zeros(n_cells + 1, np.int64)
    members = np.empty(program.allowed.size, np.uint32)
    n = 0
    for i in range(n_cells):
        # a cell without people stays zero in all children, and no sweep looks at it
        if program.sums[i] > 0 or not program.has_sums:
            for c in range(n_children):
                if program.allowed[c, i]:
                    members[n] = c
                    n += 1
        starts[i + 1] = n
    return starts, members


@internal
def _not_zero(x: Floats, every: CellBlocks, some: CellBlocks) -> None:
    """The members whose variable is not zero, from x of shape (g, C)."""
    starts, members = every.starts, every.members
    some_starts, some_members = some.starts, some.members
    n = 0
    # in the order of `every`, so that both kinds of sweep add up in the same order
    for i in range(starts.size - 1):
        for t in range(starts[i], starts[i + 1]):
            if x[i, members[t]] > 0.0:
                some_members[n] = members[t]
                n += 1
        some_starts[i + 1] = n


@internal
def _bounds_of_cells(program: Program) -> tuple[Integers, Integers]:
    """Bounds that have a row through each cell in some child: starts of shape (g + 1,), and the bounds."""
    n_cells = program.allowed.shape[1]
    n_bounds = program.bound_label.shape[0]
    starts = np.zeros(n_cells + 1, np.int64)
    bounds = np.empty(n_bounds * n_cells, np.int64)
    used = _bounds_in_use(program)
    n = 0
    # a bound that binds no child at a cell costs the sweep nothing there
    for i in range(n_cells):
        for b in range(n_bounds):
            label = program.bound_label[b, i]
            if label >= 0 and used[b, label]:
                bounds[n] = b
                n += 1
        starts[i + 1] = n
    return starts, bounds


@internal
def _bounds_in_use(program: Program) -> Bools:
    """Whether a label of a bound has a row in some child, [b, labels]."""
    n_bounds = program.bound_label.shape[0]
    most = 0
    for b in range(n_bounds):
        most = max(most, program.bound_width[b])
    used = np.zeros((n_bounds, most), np.bool_)
    for r in range(program.row_group.size):
        used[program.row_bound[r], program.row_label[r]] = True
    return used
