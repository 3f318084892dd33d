"""The first and the last point of the interior-point method of a pass, compiled.

Problem: `tallyveil.kernels.family.interior` works on points strictly between their bounds, and defines the symbols.
For this method, the module lists a pass's variables, answers and rows (`Frame`), finds the first point (`Inside`), and
writes the last point as a program's point. At the first point, the children of a parent share each count equally, and
forces and prices follow from these counts. Everything that must be above zero begins well above it.

Worked case: one cell with 3 persons in the parent, two children, D = 1, r = (5, -2). The start is x = (1.5, 1.5), where
the gradients D x - r are -3.5 and 3.5. The price is the smaller gradient, -3.5. The reduced costs are the gradients
less the price, 0 and 7; the first is raised to a little above 0.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Uint32s
from tallyveil.kernels.compiled import inlined, internal
from tallyveil.kernels.family.answer_solution import add_forces, answers_of
from tallyveil.kernels.family.answer_system import AnswerSystem, all_above_zero, list_unknowns, own_diagonal
from tallyveil.kernels.family.program import Point, Program
from tallyveil.kernels.vectors import inner, set_to

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
