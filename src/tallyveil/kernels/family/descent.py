"""Block coordinate descent over cells, compiled: the fast way to a close point.

Problem: the pass's program (`tallyveil.kernels.family.program`). Variables: x; a price for each cell's sum; a price
for each row.

Step: take one cell in all children and minimise over it with everything else held. That is a projection onto a
simplex (`tallyveil.kernels.simplex`), weighted where children are of different kinds. It is exact, and the cell's sum
holds to rounding error after every step. Rows enter by an augmented Lagrangian: each row has a price and a
stiffness, and after every sweep over all cells the price becomes the force that the row exerts.

Stopping rule: a whole sweep changes no variable and no row price by more than a tolerance in persons, or the sweeps
are used up. Between whole sweeps come sweeps over the variables that are not zero.

Worked case: one cell with 3 persons in the parent; two children, measured as 5 and -2 with variance 1. The step
proposes (5, -2), and the projection subtracts 2 from both and clips: x = (3, 0), at price -2. One step is enough.

Oracle: this descent with enough sweeps ends at the same point as `tallyveil.kernels.family.polish`.

No sum is reassociated and no product is fused with a sum, so that every machine gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.kernels.compiled import inlined, internal, njit
from tallyveil.kernels.family.program import Program
from tallyveil.kernels.simplex import simplex_shift, weighted_shift

PARTIAL_SWEEPS = 2
"""Sweeps over what is not zero after one over everything."""


class State(NamedTuple):
    """The descent's current point; arrays are changed in place.

    Attributes:
        x: [C, g].
        cell_price: Prices of the parent's sums. [g]
        row_price: Positive at a lower bound, negative at an upper one. [R]
        gradient: H x - b, where H is held; else empty. [C, g]
        excess: Weight times (sum of x - measured value), where H is not held; else empty. [C, L]
        activity: Sums of the rows. [R]
    """

    x: Floats
    cell_price: Floats
    row_price: Floats
    gradient: Floats
    excess: Floats
    activity: Floats


class Blocks(NamedTuple):
    """What the step at a cell involves.

    Attributes:
        starts: Where each cell's children begin in `members`. [g + 1]
        members: Children that may have the cell.
        bound_starts: Where each cell's bounds begin in `bounds`. [g + 1]
        bounds: Bounds that have a row through the cell in some child.
    """

    starts: Integers
    members: Integers
    bound_starts: Integers
    bounds: Integers


class Scratch(NamedTuple):
    """Scratch of one step.

    Attributes:
        proposal: Where each member's x would go by itself. [C]
        slack: Persons by which it answers one unit of price. [C]
        per_slope: The same of each kind. [K]
    """

    proposal: Floats
    slack: Floats
    per_slope: Floats


@njit(nogil=True, cache=True)
def new_state(program: Program) -> State:
    """Every child gets an equal part of each cell it may have; all prices are zero."""
    n_children, n_cells = program.allowed.shape
    x = np.zeros((n_children, n_cells))
    if program.has_sums:
        for i in range(n_cells):
            count = 0
            for c in range(n_children):
                count += program.allowed[c, i]
            for c in range(n_children):
                if program.allowed[c, i]:
                    x[c, i] = program.sums[i] / count
    dense = program.hessian.size > 0
    return State(
        x,
        np.zeros(n_cells),
        np.zeros(program.row_group.size),
        np.empty((n_children, n_cells) if dense else (0, 0)),
        np.empty((0, 0) if dense else program.targets.shape),
        np.empty(program.row_group.size),
    )


@internal
def child_excess(program: Program, child: int, x: Floats, excess: Floats) -> None:
    """Weight times (sum - measured value) of one child's answers, from its x of shape (g,)."""
    weights = program.weights[program.kind[child]]
    for k in range(excess.size):
        excess[k] = -program.targets[child, k]
    for i in range(x.size):
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
    """H x - b into `out` of shape (C, g)."""
    n_children, n_cells = x.shape
    excess = np.empty(program.weights.shape[1])
    for c in range(n_children):
        if program.hessian.size:
            own, hessian = out[c], program.hessian[program.kind[c]]
            for j in range(n_cells):
                own[j] = -program.linear[c, j]
            for i in range(n_cells):
                value, row = x[c, i], hessian[i]
                if value != 0.0:
                    for j in range(n_cells):
                        own[j] += value * row[j]
        else:
            child_excess(program, c, x[c], excess)
            for i in range(n_cells):
                out[c, i] = gradient_at(program, excess, c, i, x[c, i])


@njit(nogil=True, cache=True)
def row_activity(program: Program, x: Floats, activity: Floats) -> None:
    """Sums of all rows at x of shape (C, g)."""
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


@inlined
def refresh(program: Program, state: State) -> None:
    """Recompute the arrays that the descent updates by increments."""
    row_activity(program, state.x, state.activity)
    if state.excess.size:
        for c in range(state.x.shape[0]):
            child_excess(program, c, state.x[c], state.excess[c])
    else:
        gradients(program, state.x, state.gradient)


@njit(nogil=True, cache=True)
def descend(program: Program, state: State, stiffness: float, n_sweeps: int, tolerance: float) -> int:
    """Sweep over all cells until nothing moves by more than the tolerance.

    Most variables are zero and stay zero. So between sweeps over everything come sweeps over what is not zero.

    Args:
        program: The pass's program.
        state: Where to begin; changed in place.
        stiffness: Curvature of a broken row, in the objective's units.
        n_sweeps: Most sweeps.
        tolerance: Persons.
    Returns:
        Sweeps made.
    """
    refresh(program, state)
    starts, members = _members(program)
    bound_starts, bounds = _bounds_of_cells(program)
    every = Blocks(starts, members, bound_starts, bounds)
    some = Blocks(np.zeros(starts.size, np.int64), np.empty(members.size, np.int64), bound_starts, bounds)
    n_children = program.allowed.shape[0]
    scratch = Scratch(np.empty(n_children), np.empty(n_children), np.empty(program.curvature.shape[0]))
    n_partial = 0
    for sweep in range(n_sweeps):
        partial = n_partial > 0
        moved = _sweep(program, state, some if partial else every, scratch, stiffness)
        moved = max(moved, _update_prices(program, state, stiffness))
        if moved <= tolerance:
            if not partial:
                return sweep + 1
            n_partial = 0
        elif partial:
            n_partial -= 1
        else:
            n_partial = PARTIAL_SWEEPS
            _not_zero(state.x, every, some)
    return n_sweeps


@internal
def _sweep(program: Program, state: State, blocks: Blocks, scratch: Scratch, stiffness: float) -> float:
    """Minimise over every cell in turn; returns the largest move in persons."""
    # names for the arrays of the inner loops
    kind, answers, weights, ridge = program.kind, program.answers, program.weights, program.ridge
    sums, has_sums, hessian, curvatures = program.sums, program.has_sums, program.hessian, program.curvature
    bound_label, bound_start = program.bound_label, program.bound_start
    bound_width, row_number = program.bound_width, program.row_number
    bound_group, bound_members = program.bound_group, program.bound_members
    row_lower, row_upper = program.row_lower, program.row_upper
    x, cell_price, row_price, gradient, excess, activity = state
    starts, members, bound_starts, bounds = blocks
    proposal, slack, per_slope = scratch
    dense, alike = gradient.size > 0, per_slope.size == 1
    n_partitions = answers.shape[1]
    largest = 0.0
    for i in range(sums.size):
        begin, n = starts[i], starts[i + 1] - starts[i]
        if n == 0:
            continue
        first_bound, last_bound = bound_starts[i], bound_starts[i + 1]
        # a row that m children share resists their common move m times as much as a move of one of them
        resisting = 0
        for t in range(first_bound, last_bound):
            resisting += bound_members[bounds[t]]
        curvature = curvatures[0, i] + stiffness * resisting
        for z in range(per_slope.size):
            per_slope[z] = 1.0 / (curvatures[z, i] + stiffness * resisting)
        for k in range(n):
            c = np.uint64(members[np.uint64(begin + k)])
            like = np.uint64(kind[c])
            if dense:
                slope = gradient[c, i]
            else:
                slope = ridge[like, i] * x[c, i]
                for q in range(n_partitions):
                    answer = answers[i, q]
                    if answer >= 0:
                        slope += excess[c, np.uint64(answer)]
            for t in range(first_bound, last_bound):
                b = bounds[t]
                own = bound_start[b] + bound_group[b, c] * bound_width[b]
                row = row_number[own + bound_label[b, i]]
                if row >= 0:
                    slope -= _force(row_price, activity, row_lower, row_upper, row, stiffness)
            proposal[k] = x[c, i] - slope * per_slope[like]
            slack[k] = per_slope[like]
        shift = 0.0
        if has_sums and alike:
            shift = simplex_shift(proposal, n, sums[i], -cell_price[i] * per_slope[0])
            cell_price[i] = -curvature * shift
        elif has_sums:
            cell_price[i] = -weighted_shift(proposal, slack, n, sums[i], -cell_price[i])
            for k in range(n):
                proposal[k] += cell_price[i] * slack[k]
        for k in range(n):
            c = np.uint64(members[np.uint64(begin + k)])
            like = np.uint64(kind[c])
            moved = max(proposal[k] - shift, 0.0)
            change = moved - x[c, i]
            if change == 0.0:
                continue
            x[c, i] = moved
            largest = max(largest, abs(change))
            if dense:
                for j in range(sums.size):
                    gradient[c, j] += change * hessian[like, i, j]
            else:
                for q in range(n_partitions):
                    answer = answers[i, q]
                    if answer >= 0:
                        excess[c, np.uint64(answer)] += weights[like, np.uint64(answer)] * change
            for t in range(first_bound, last_bound):
                b = bounds[t]
                own = bound_start[b] + bound_group[b, c] * bound_width[b]
                row = row_number[own + bound_label[b, i]]
                if row >= 0:
                    activity[row] += change
    return largest


@internal
def _force(
    row_price: Floats,
    activity: Floats,
    row_lower: Floats,
    row_upper: Floats,
    row: int,
    stiffness: float,
) -> float:
    """What a row's price would be now: zero inside its bounds."""
    price, held = row_price[row], activity[row]
    short = price + stiffness * (row_lower[row] - held)
    over = price + stiffness * (row_upper[row] - held)
    return float(max(short, 0.0) + min(over, 0.0))


@internal
def _update_prices(program: Program, state: State, stiffness: float) -> float:
    """Make the rows' forces their prices; returns the largest change in persons."""
    moved = 0.0
    for row in range(state.row_price.size):
        price = _force(state.row_price, state.activity, program.row_lower, program.row_upper, row, stiffness)
        moved = max(moved, abs(price - state.row_price[row]) / stiffness)
        state.row_price[row] = price
    return moved


@internal
def _members(program: Program) -> tuple[Integers, Integers]:
    """Children that may have each cell: starts of shape (g + 1,), and the children."""
    n_children, n_cells = program.allowed.shape
    starts = np.zeros(n_cells + 1, np.int64)
    members = np.empty(program.allowed.size, np.int64)
    n = 0
    for i in range(n_cells):
        if program.sums[i] > 0 or not program.has_sums:
            for c in range(n_children):
                if program.allowed[c, i]:
                    members[n] = c
                    n += 1
        starts[i + 1] = n
    return starts, members


@internal
def _not_zero(x: Floats, every: Blocks, some: Blocks) -> None:
    """The members whose variable is not zero."""
    starts, members = every.starts, every.members
    some_starts, some_members = some.starts, some.members
    n = 0
    for i in range(starts.size - 1):
        for t in range(starts[i], starts[i + 1]):
            if x[members[t], i] > 0.0:
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
