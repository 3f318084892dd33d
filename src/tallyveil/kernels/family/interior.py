"""A close point of a pass whose cells are not all determined, by an interior-point method, compiled.

Problem: the pass's program (`tallyveil.kernels.family.program`) where a ridge makes the answer unique and
rows keep the answers of earlier passes. The ridge is tiny, so counts move far for little: a descent settles
slowly, and the walk from the face of a rough point is long.

Variables: the counts x, which stay above zero; their reduced costs z, which do too; a force u on each answer
of several cells and on each row; a price for each parent's count. They are numbered as in
`tallyveil.kernels.family.answer_system`: H is D + A' W A, and r is the linear term of D. At the optimum

    D x + A'u - price - z = r,  A x - compliance u = values,  sums over children = parent's counts,  x z = 0,

where the values are measured answers and the rows' bounds, and a row's compliance is zero. If the two bounds
of a row differ, its value is a further variable, the held sum h. The distances h - lower and upper - h stay
above zero, as x does. Each bound has a pull, which is for the distance what z is for x. The row's force is
the pull of the upper bound less the pull of the lower one.

Start: the children of a parent share each count equally, and forces and prices follow from these counts.
Everything that must be above zero begins well above it.

Step: Newton's method for the same equations with x z = a little, which becomes less from step to step
(Mehrotra's predictor and corrector). A step is a face with all variables free, on which D has become D + z /
x, so the equations among the answers are the ones that solve it. A row between bounds gives way as if it had
a compliance, 1 / (pull / distance, summed over its bounds). Some rows repeat others. So in the matrix alone
every row has a little more compliance, and the error that this makes is part of the next step's right side.
The method needed 13 to 20 steps when it was tried (November 2026).

Stopping rule: the mean of x z / D is small enough and answers, rows and sums are met; or the steps are used
up or become too short, or a step's equations are singular. The point is only a start for
`tallyveil.kernels.family.polish`, which finds the exact face and certifies the answer.

Worked case: one cell with 3 persons in the parent, two children, D = 1, r = (5, -2). The start is
x = (1.5, 1.5), where the gradients D x - r are -3.5 and 3.5. The price is the smaller gradient, -3.5. The
reduced costs are the gradients less the price, 0 and 7; the first is raised to a little above 0. Without
answers a step solves for the counts and the price alone. The counts go to (3, 0), the price to -2 and the
reduced costs to (0, 4).

Oracle: the tests measure the conditions of optimality in numpy, at the answer that begins here. Every sum
runs in a fixed order, so that every machine gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Uint32s
from tallyveil.kernels.compiled import inlined, internal, njit
from tallyveil.kernels.family.answer_system import (
    AnswerSystem,
    add_forces,
    all_above_zero,
    answers_of,
    factor_blocks,
    list_unknowns,
    own_diagonal,
    pays,
    respond,
    solve_answers,
)
from tallyveil.kernels.family.program import Point, Program
from tallyveil.kernels.vectors import inner, largest_of, set_to

# In units of the middle curvature, so that a family's size does not matter. Smaller ones begin so near an
# edge that the first steps are short; larger ones begin farther from the optimum.
FIRST_COST = 2.0**-7
"""The smallest reduced cost at the start, in persons of the middle curvature."""

# Half as much makes repeated rows twice as nearly singular; twice as much leaves more to correct in the next
# step.
MATRIX_COMPLIANCE = 2.0**-20
"""Compliance of rows in a step's matrix, in units of an answer's own."""


class Inside(NamedTuple):
    """A point between the bounds, or a change of one; arrays are changed in place.

    Attributes:
        x: Counts above zero. [F]
        costs: Their reduced costs, above zero. [F]
        forces: [N]
        price: Of the parent's counts. [g]
        low, high: Distances of rows between bounds from their lower and from their upper bound, above zero; inf where
            there is no such bound. [N]
        up, down: Pulls of their lower and of their upper bound, above zero where there is such a bound. [N]
    """

    x: Floats
    costs: Floats
    forces: Floats
    price: Floats
    low: Floats
    high: Floats
    up: Floats
    down: Floats


class Frame(NamedTuple):
    """What stays the same from step to step.

    Attributes:
        cells: Cells of the variables, child by child. [F]
        cells_of: Where each child's begin. [C + 1]
        diagonal: D. [F]
        linear: r. [F]
        system: Answers and rows, without factors.
        soft: Compliance of answers; 0 for rows. [N]
        values: Measured answers and the bounds of rows that are equalities. [N]
        between: Whether an unknown belongs to a row whose two bounds differ. [N]
        lower: Of such a row; -inf: none. [N]
        upper: inf: none. [N]
        sums: The parent's counts. [g]
    """

    cells: Uint32s
    cells_of: Integers
    diagonal: Floats
    linear: Floats
    system: AnswerSystem
    soft: Floats
    values: Floats
    between: Bools
    lower: Floats
    upper: Floats
    sums: Floats


@inlined
def frame_of(program: Program) -> Frame:
    """The variables, the answers and the rows of a program."""
    several, curvature = own_diagonal(program)
    # without D for every count the method does not apply; an empty frame says so
    most, n = program.allowed.size if all_above_zero(curvature) else 0, 0
    cells, diagonal, linear = np.empty(most, np.uint32), np.empty(most), np.empty(most)
    cells_of = np.zeros(program.allowed.shape[0] + 1, np.int64)
    for c in range(program.allowed.shape[0]):
        for i in range(program.sums.size):
            # a count under a parent's zero is zero: it has no point strictly above, and is no variable
            if program.allowed[c, i] and program.sums[i] > 0 and most > 0:
                cells[n], diagonal[n], linear[n] = i, curvature[program.kind[c], i], 0.0
                for q in range(program.answers.shape[1]):
                    k = program.answers[i, q]
                    if k >= 0 and not several[k]:
                        linear[n] += program.targets[c, k]
                n += 1
        cells_of[c + 1] = n
    # all rows as equalities: which of them bind is what the method finds out
    side = np.full(program.row_group.size, 2, np.int64)
    system = list_unknowns(program, several, side, cells[:n], cells_of, row_softness(program))
    soft, values = _values(program, several, system, cells[:n], cells_of)
    between, lower, upper = _bounds(program, system.row)
    return Frame(
        cells[:n],
        cells_of,
        diagonal[:n],
        linear[:n],
        system,
        soft,
        values,
        between,
        lower,
        upper,
        program.sums,
    )


@internal
def row_softness(program: Program) -> float:
    """Compliance that a row has in the matrix alone."""
    return float(MATRIX_COMPLIANCE / program.row_stiffness)


@internal
def _bounds(program: Program, row: Integers) -> tuple[Bools, Floats, Floats]:
    """`between`, `lower` and `upper` of a frame."""
    between, lower, upper = (
        np.zeros(row.size, np.bool_),
        np.full(row.size, -np.inf),
        np.full(row.size, np.inf),
    )
    for u in range(row.size):
        if row[u] >= 0 and program.row_lower[row[u]] < program.row_upper[row[u]]:
            between[u], lower[u], upper[u] = True, program.row_lower[row[u]], program.row_upper[row[u]]
    return between, lower, upper


@internal
def _values(
    program: Program, several: Bools, system: AnswerSystem, cells: Uint32s, cells_of: Integers
) -> tuple[Floats, Floats]:
    """`soft` and `values` of a frame: unknowns are met in the order in which `list_unknowns` numbers them."""
    soft, values = system.compliance.copy(), np.zeros(system.row.size)
    for u in range(soft.size):
        if system.row[u] >= 0:
            soft[u], values[u] = 0.0, program.row_lower[system.row[u]]
    # Targets carry the weight; times the compliance 1 / weight they are the measured answers again.
    for c in range(cells_of.size - 1):
        for t in range(cells_of[c], cells_of[c + 1]):
            place = system.first[t]
            for q in range(program.answers.shape[1]):
                k = program.answers[cells[t], q]
                if k >= 0 and several[k] and program.weights[program.kind[c], k] > 0.0:
                    # a target is weight times value, and the compliance 1 / weight
                    values[system.unknowns[place]] = program.targets[c, k] * soft[system.unknowns[place]]
                    place += 1
    return soft, values


@internal
def start_inside(program: Program, frame: Frame) -> Inside:
    """Equal parts of the parent's counts, the forces and prices that follow, and reduced costs above zero."""
    cells, n_cells = frame.cells, frame.sums.size
    x, costs, forces = np.empty(cells.size), frame.linear.copy(), np.empty(frame.values.size)
    number, price = np.zeros(n_cells), np.full(n_cells, np.inf)
    for i in cells:
        number[i] += 1.0
    # equal parts are the point farthest from all zeros among those that meet the sums
    for t in range(x.size):
        x[t] = frame.sums[cells[t]] / number[cells[t]]
    answers_of(frame.system, x, forces)
    for u in range(forces.size):
        # weight * (answer - measured value); a row between bounds gets its force from its pulls later
        forces[u] = (forces[u] - frame.values[u]) / frame.soft[u] if frame.soft[u] > 0.0 else 0.0
    for t in range(x.size):
        costs[t] = frame.diagonal[t] * x[t] - frame.linear[t]
    add_forces(frame.system, forces, 1.0, costs)
    for t in range(x.size):
        # The largest price that leaves no reduced cost of the cell below zero.
        price[cells[t]] = min(price[cells[t]], costs[t])
    for i in range(n_cells):
        price[i] = price[i] if price[i] < np.inf else 0.0
    for t in range(x.size):
        # A cost of zero would put the start on the edge, from where no step can leave.
        costs[t] = max(costs[t] - price[cells[t]], FIRST_COST * program.row_stiffness)
    point = Inside(x, costs, forces, price, *no_rows(forces.size))
    _start_rows(frame, point, inner(x, costs) / x.size)
    return point


@internal
def no_rows(n: int) -> tuple[Floats, Floats, Floats, Floats]:
    """What rows between bounds have, for a point or a change without such rows."""
    return np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)


@internal
def _start_rows(frame: Frame, point: Inside, product: float) -> None:
    """Distances above zero of rows between bounds, and pulls with this product; forces are the pulls' difference."""
    sums = np.empty(point.forces.size)
    answers_of(frame.system, point.x, sums)
    for u in range(sums.size):
        if frame.between[u]:
            lower, upper = frame.lower[u], frame.upper[u]
            # A quarter keeps both distances above zero, however narrow the row is.
            margin = min(0.25 * (upper - lower), 1.0 + 0.1 * abs(sums[u]))
            most = upper - lower - margin
            point.low[u] = min(max(sums[u] - lower, margin), most)
            point.high[u] = min(max(upper - sums[u], margin), most)
            point.up[u], point.down[u] = product / point.low[u], product / point.high[u]
            # consistent with the pulls from the start: later steps are linear in both and keep it so
            point.forces[u] = point.down[u] - point.up[u]


@internal
def write_point(program: Program, frame: Frame, point: Inside, out: Point) -> None:
    """Write the point as a program's. A count becomes zero if it is not above its reduced cost / D, in persons."""
    for c in range(out.x.shape[0]):
        for i in range(out.x.shape[1]):
            out.x[c, i] = 0.0
        for t in range(frame.cells_of[c], frame.cells_of[c + 1]):
            # as the walk guesses its first face: at the optimum one of the two is zero
            inhabited = point.x[t] > point.costs[t] / frame.diagonal[t]
            out.x[c, frame.cells[t]] = point.x[t] if inhabited else 0.0
    set_to(out.cell_price, point.price)
    for u in range(point.forces.size):
        # a force is what a row does to its cells; as a price it has the opposite sign
        if frame.system.row[u] >= 0:
            out.row_price[frame.system.row[u]] = -point.forces[u]


# Steps of the method; it took 13 to 20 when it was tried. Three times as many give hard passes room, and a
# failure costs time only, as the descent then begins in its place.
MOST_STEPS = 60

CLOSE_PRODUCT, CLOSE_PERSONS = 1e-9, 1e-6
"""The method ends at this mean product of a count and its reduced cost, both in persons of the own curvature, where
answers and sums are met to so many persons."""

# Newton's steps need few digits: what one misses is part of the next one's right side.
INNER_PART = 2.0**-12
"""An error below this part of the largest entry of a step's right side does not count: `enough` of `solve_answers`."""

# The usual 0.995 of interior-point methods: at 1 a count would be zero, and z / x infinite.
TO_THE_EDGE, SHORTEST = 0.995, 2.0**-20
"""The part of the way to the nearest zero that a step may go; the method ends without a point at a shorter step."""


class Push(NamedTuple):
    """By how much a step shall change each product: of a count and its reduced cost, of a distance and its pull.

    Attributes:
        counts: [F]
        up, down: Of the lower and of the upper bound. [N]
    """

    counts: Floats
    up: Floats
    down: Floats


class Lack(NamedTuple):
    """What is missing at a point.

    Attributes:
        gradient: Of the first equation. [F]
        answers: Persons that answers and rows lack. [N]
        cells: Persons that the parent's counts lack. [g]
    """

    gradient: Floats
    answers: Floats
    cells: Floats


@njit(nogil=True, cache=True)
def approach(program: Program, out: Point) -> bool:
    """Move a point to a close one; False, and no change, where that is not found.

    Args:
        program: A pass with sums over children, in which every variable has D.
        out: Receives counts, prices of sums and prices of rows.
    """
    frame = frame_of(program)
    # not every variable has D, or dense inverses would cost less than blocks among the answers
    if frame.cells.size == 0 or not pays(frame.system, frame.cells_of, frame.sums.size):
        return False
    point = start_inside(program, frame)
    n, n_unknowns, n_cells = frame.cells.size, frame.values.size, frame.sums.size
    lack = Lack(np.empty(n), np.empty(n_unknowns), np.empty(n_cells))
    push = Push(np.empty(n), np.empty(n_unknowns), np.empty(n_unknowns))
    give, stiffness = np.empty(n), np.empty(n_cells)
    # Mehrotra 1992, for a convex quadratic program. Each step solves twice with the same factors: the
    # predictor asks for products of zero, the corrector for the mean product that the predictor says can be
    # reached.
    for _ in range(MOST_STEPS):
        near = _measure(frame, point, lack)
        if near <= CLOSE_PRODUCT and max(largest_of(lack.answers), largest_of(lack.cells)) <= CLOSE_PERSONS:
            write_point(program, frame, point, out)
            return True
        # D + z / x and the rows' compliances change at each step, so factors do too
        _give(program, frame, point, give, stiffness)
        ok, system = factor_blocks(frame.system, frame.cells, frame.cells_of, give, stiffness)
        if not ok:
            return False
        # Predictor: straight for the optimum, to see how far the bounds let it go.
        _push_to_zero(frame, point, push)
        change = _step(frame, system, point, lack, give, stiffness, push)
        mean = _mean_product(frame, point, change, 0.0)
        after = _mean_product(frame, point, change, _longest_step(frame, point, change, 1.0))
        # Mehrotra's rule: centre little where the predictor went far, and much where bounds stopped it at
        # once. The factored blocks are used twice, so that the corrector costs no second factorisation.
        _correct_push(frame, change, mean * (after / mean) ** 3, push)
        change = _step(frame, system, point, lack, give, stiffness, push)
        length = _longest_step(frame, point, change, TO_THE_EDGE)
        # The point has run into a bound. The descent is a surer start than more steps of this size.
        if length < SHORTEST:
            return False
        _move(point, change, length)
    return False


@internal
def _measure(frame: Frame, point: Inside, lack: Lack) -> float:
    """What is missing at a point, into `lack`; returns the mean of x z / D."""
    cells, near = frame.cells, 0.0
    answers_of(frame.system, point.x, lack.answers)
    for u in range(lack.answers.size):
        # a row has no compliance here, unlike in the matrix, whose error is so mended step by step
        wanted = _held(frame, point, u) if frame.between[u] else frame.values[u]
        lack.answers[u] = wanted + frame.soft[u] * point.forces[u] - lack.answers[u]
    set_to(lack.cells, frame.sums)
    reached = np.zeros(frame.sums.size, np.bool_)
    # cells without a variable have no people, and lack nothing
    for t in range(cells.size):
        lack.cells[cells[t]] -= point.x[t]
        reached[cells[t]] = True
        near += point.x[t] * point.costs[t] / frame.diagonal[t]
        lack.gradient[t] = (
            frame.linear[t] - frame.diagonal[t] * point.x[t] + point.price[cells[t]] + point.costs[t]
        )
    for i in range(reached.size):
        # a cell without variables has no equation that could meet its sum
        lack.cells[i] = lack.cells[i] if reached[i] else 0.0
    add_forces(frame.system, point.forces, -1.0, lack.gradient)
    return near / cells.size


@internal
def _held(frame: Frame, point: Inside, u: int) -> float:
    """The sum of a row between bounds that its distances stand for."""
    return float(
        frame.lower[u] + point.low[u] if frame.lower[u] > -np.inf else frame.upper[u] - point.high[u]
    )


@internal
def _give(program: Program, frame: Frame, point: Inside, give: Floats, stiffness: Floats) -> None:
    """1 / (D + z / x), and 1 / its sum over a cell's children; the compliances of rows into the frame's system."""
    # z / x is large where a count goes to zero, so that such counts hardly move, and small where it stays
    for i in range(stiffness.size):
        stiffness[i] = 0.0
    for t in range(give.size):
        # x and z stay above zero (TO_THE_EDGE), so that z / x is finite and the sum is above D
        give[t] = 1.0 / (frame.diagonal[t] + point.costs[t] / point.x[t])
        stiffness[frame.cells[t]] += give[t]
    for i in range(stiffness.size):
        stiffness[i] = 1.0 / stiffness[i] if stiffness[i] > 0.0 else 0.0
    # the sums of compliances follow from those of the rows between bounds, which change at each step
    compliance, common, shared = frame.system.compliance, frame.system.common, frame.system.shared
    for k in range(shared.size):
        shared[k] = 0.0
    for u in range(compliance.size):
        if frame.between[u]:
            # the extra compliance of the matrix is in no equation: it keeps repeated rows from a singular
            # block
            compliance[u] = row_softness(program) + 1.0 / _stiffness_of_row(point, u)
        if common[u] >= 0:
            shared[common[u]] += compliance[u]
    for k in range(shared.size):
        shared[k] = 1.0 / shared[k]


@internal
def _stiffness_of_row(point: Inside, u: int) -> float:
    """How much force a change of the sum of a row between bounds brings about."""
    # both bounds resist: their stiffnesses add up
    return float(point.up[u] / point.low[u] + point.down[u] / point.high[u])


@internal
def _force_of_push(point: Inside, push: Push, u: int) -> float:
    """The force that the wanted products of such a row alone bring about."""
    return float(push.down[u] / point.high[u] - push.up[u] / point.low[u])


@internal
def _push_to_zero(frame: Frame, point: Inside, push: Push) -> None:
    """All products to zero."""
    for t in range(push.counts.size):
        push.counts[t] = -point.x[t] * point.costs[t]
    for u in range(push.up.size):
        if frame.between[u]:
            # a bound that is not there has a pull of 0 and a distance of inf, whose product would be NaN
            push.up[u] = -point.up[u] * point.low[u] if frame.lower[u] > -np.inf else 0.0
            push.down[u] = -point.down[u] * point.high[u] if frame.upper[u] < np.inf else 0.0


@internal
def _correct_push(frame: Frame, change: Inside, centre: float, push: Push) -> None:
    """All products to the same number, after what a change would add to them in second order."""
    for t in range(push.counts.size):
        # The predictor left the product at dx dz, since it dropped this term of second order.
        push.counts[t] += centre - change.x[t] * change.costs[t]
    for u in range(push.up.size):
        if frame.between[u]:
            push.up[u] += centre - change.low[u] * change.up[u]
            push.down[u] += centre - change.high[u] * change.down[u]


@internal
def _mean_product(frame: Frame, point: Inside, change: Inside, length: float) -> float:
    """Mean of all products after a part of a change."""
    # bounds that are not there do not count in the mean
    total, n = 0.0, point.x.size
    for t in range(n):
        total += (point.x[t] + length * change.x[t]) * (point.costs[t] + length * change.costs[t])
    for u in range(point.low.size):
        if frame.between[u]:
            if frame.lower[u] > -np.inf:
                total += (point.low[u] + length * change.low[u]) * (point.up[u] + length * change.up[u])
                n += 1
            if frame.upper[u] < np.inf:
                total += (point.high[u] + length * change.high[u]) * (point.down[u] + length * change.down[u])
                n += 1
    return total / n


@internal
def _step(
    frame: Frame,
    system: AnswerSystem,
    point: Inside,
    lack: Lack,
    give: Floats,
    stiffness: Floats,
    push: Push,
) -> Inside:
    """Newton's change of a point that changes each product as wanted, up to what is left of second order."""
    n, n_unknowns = give.size, lack.answers.size
    step, price, left = np.empty(n), np.empty(stiffness.size), np.empty(n_unknowns)
    for t in range(n):
        # z is eliminated: its change is (push - z dx) / x, which puts push / x here and z / x into the
        # diagonal
        step[t] = lack.gradient[t] + push.counts[t] / point.x[t]
    costs = step.copy()
    respond(frame.cells, give, stiffness, lack.cells, costs, price)
    answers_of(system, costs, left)
    for u in range(n_unknowns):
        left[u] -= lack.answers[u]
        if frame.between[u]:
            # the held sum is eliminated: what its pulls want moves it by force / stiffness
            left[u] += _force_of_push(point, push, u) / _stiffness_of_row(point, u)
    _, forces = solve_answers(system, frame.cells, give, stiffness, left, INNER_PART * largest_of(left))
    add_forces(system, forces, -1.0, step)
    respond(frame.cells, give, stiffness, lack.cells, step, price)
    for t in range(n):
        # from x dz + z dx = push, whatever error the forces have
        costs[t] = (push.counts[t] - point.costs[t] * step[t]) / point.x[t]
    for i in range(price.size):
        # `respond` states prices as parts of the gradient that the step leaves
        price[i] = -price[i]
    change = Inside(step, costs, forces, price, *no_rows(n_unknowns))
    for u in range(n_unknowns):
        if frame.between[u]:
            moved = (forces[u] - _force_of_push(point, push, u)) / _stiffness_of_row(point, u)
            # both distances move by the same persons, so that they keep standing for one held sum
            change.low[u], change.high[u] = moved, -moved
            change.up[u] = (push.up[u] - point.up[u] * moved) / point.low[u]
            change.down[u] = (push.down[u] + point.down[u] * moved) / point.high[u]
    return change


@internal
def _longest_step(frame: Frame, point: Inside, change: Inside, part: float) -> float:
    """The longest step, at most 1, that goes at most this part of the way to the nearest zero."""
    # One length for counts, prices and distances: H couples them, so separate lengths would break the first
    # equation.
    length = 1.0
    for t in range(point.x.size):
        length = _at_most(length, part, point.x[t], change.x[t])
        length = _at_most(length, part, point.costs[t], change.costs[t])
    for u in range(point.low.size):
        if frame.between[u]:
            length = _at_most(length, part, point.low[u], change.low[u])
            length = _at_most(length, part, point.high[u], change.high[u])
            length = _at_most(length, part, point.up[u], change.up[u])
            length = _at_most(length, part, point.down[u], change.down[u])
    return length


@internal
def _at_most(length: float, part: float, value: float, change: float) -> float:
    return float(min(length, -part * value / change)) if change < 0.0 else length


@internal
def _move(point: Inside, change: Inside, length: float) -> None:
    _add(change.x, length, point.x)
    _add(change.costs, length, point.costs)
    _add(change.forces, length, point.forces)
    _add(change.price, length, point.price)
    _add(change.low, length, point.low)
    _add(change.high, length, point.high)
    _add(change.up, length, point.up)
    _add(change.down, length, point.down)


@internal
def _add(values: Floats, factor: float, out: Floats) -> None:
    for i in range(values.size):
        out[i] += factor * values[i]
