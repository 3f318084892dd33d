"""The proximal primal-dual active-set method, compiled: from a close point to the certified optimum.

Problem: the pass's program (`tallyveil.kernels.family.program`), a convex quadratic program with x >= 0, sums
over children, and rows between bounds.

Variables: a face says which x are free, which are zero, and on which side each row binds. On a face the
optimum solves linear equations. A little compliance keeps the equations regular where rows repeat one
another: row sum = bound - compliance * (row price - the centre's row price). The centre is the last point
that was accepted. Arrays of a walk from face to face are changed in place; its small tuples of numbers,
`Softness` and `WalkProgress`, are replaced.

Steps:
- Soft. Rows have much compliance. The face is solved roughly, signs that come out wrong are swapped, and the
  new face is solved, until no sign is wrong by much. A strong penalty from the start would drop a row from
  the active set too early.
- Stiff. Near the optimum the compliance is made about a thousand times smaller, so that two or three
  solutions settle the rows' prices. If many signs are then wrong, rows were stiff too early, and the walk
  goes back to the face of the soft rows.
- Refine. Once nothing is wrong, the face is solved exactly. Each answer becomes the next centre, which makes
  the compliance's own error vanish.

Swaps: a free variable is wrong where it is negative, and a zero variable where its reduced cost is negative.
A binding row is wrong where its price has the wrong sign, and a loose row where its sum is beyond a bound.
All are measured in persons. What is wrong by more than a tolerance is swapped.

Certificate: with s for the curvature that converts a gradient to persons, a variable violates the optimality
conditions by |x - max(0, x - reduced cost / s)|, a cell by what its children lack to the parent's count, and
a row by |sum - clip(sum - price / s, between its bounds)|. The residual is the largest of these.

Stopping rule: the residual is at rounding error; or it is at most CERTIFIED_PERSONS and no longer falls; or
it is at most that in a quick walk; or the steps are used up.

Worked case: two children share a parent's 3 persons in one cell; both are measured with variance 1, as 5 and
-2. Minimise 1/2 (x1 - 5)^2 + 1/2 (x2 + 2)^2 with x1 + x2 = 3 and x >= 0. The face with both free gives
x = (5, -2), so that x2 has the wrong sign. The face without x2 gives x = (3, 0) at price -2; the reduced cost
of x2 is 2 + 2 = 4, which is not negative, so nothing is wrong and the answer is exact. For the certificate,
x = 2 with reduced cost 0.5 at curvature 1 violates by half a person, and x = 0 with reduced cost 4 does not.

Kernels of a family call each other through pointers. One kernel with the code of all of them would take
longer to compile than all of them by themselves, and two processes could not share the work.

Oracle: `tests.oracles.active_set.polish` solves the same problem in numpy with dense factors and without the
three steps. It is independent of this module: only the optimum is the same, not the way to it. Specification
of the certificate: `tests.oracles.block_program.residual_persons`, and `tests.oracles.certificate`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, FloatRows, Floats, Int32Rows, Int32s, Integers
from tallyveil.kernels.compiled import inlined, internal, njit, pointers
from tallyveil.kernels.family.descent import gradients, row_activity
from tallyveil.kernels.family.face import BY_ANSWERS, Face, Signs
from tallyveil.kernels.family.program import Answer, PassArrays, Point, Program, children_of
from tallyveil.kernels.rounding.network_simplex import Bounds, Entries
from tallyveil.kernels.vectors import set_rows, set_to

# A tenth of the 2^-20 persons to which estimates are snapped before they are rounded, and far above the
# rounding errors of double precision at the counts of a family.
CERTIFIED_PERSONS = 1e-7
"""A point no further from its optimality conditions is certified."""


@internal
def reduced_costs(program: Program, x: Floats, cell_price: Floats, row_price: Floats, costs: Floats) -> None:
    """Gradient of the Lagrangian into `costs` of shape (C, g)."""
    n_children, n_cells = x.shape
    gradients(program, x, costs)
    for c in range(n_children):
        # prices of sums enter every child alike; at a root there are none, and the costs are the plain
        # gradient
        if program.has_sums:
            for i in range(n_cells):
                costs[c, i] -= cell_price[i]
    for row in range(row_price.size):
        # most rows do not bind, and one that does costs a pass over its cells
        if row_price[row] != 0.0:
            bound, group, label = program.row_bound[row], program.row_group[row], program.row_label[row]
            labels, groups = program.bound_label[bound], program.bound_group[bound]
            first, last = children_of(program, bound, group)
            for c in range(first, last):
                # the range of a group of several children holds others too, see `children_of`
                if groups[c] == group:
                    child_costs = costs[c]
                    for i in range(n_cells):
                        if labels[i] == label:
                            child_costs[i] -= row_price[row]


@internal
def residual(program: Program, x: Floats, cell_price: Floats, row_price: Floats) -> tuple[float, float]:
    """Largest violation of the optimality conditions in persons; specification: `tests.oracles.block_program`.

    Returns:
        Of all conditions; of sums and rows alone.
    """
    costs, activity = np.empty(x.shape), np.empty(row_price.size)
    reduced_costs(program, x, cell_price, row_price, costs)
    row_activity(program, x, activity)
    return violation(program, x, costs, activity, row_price)


@internal
def violation(
    program: Program, x: Floats, costs: Floats, activity: Floats, row_price: Floats
) -> tuple[float, float]:
    """`residual` of a point whose reduced costs and row sums are known."""
    n_children, n_cells = x.shape
    worst = 0.0
    for c in range(n_children):
        for i in range(n_cells):
            if program.allowed[c, i]:
                # The natural residual: zero if and only if x >= 0, cost >= 0 and their product is zero; it
                # needs no guess of the face.
                step = x[c, i] - max(0.0, x[c, i] - costs[c, i] / program.scale[program.kind[c], i])
                worst = _larger(worst, abs(step))
    unmet = 0.0
    # every cell is looked at, also one that no child may have: its people would be missing
    if program.has_sums:
        for i in range(n_cells):
            total = 0.0
            for c in range(n_children):
                total += x[c, i]
            # No curvature here: a sum is missed in persons already.
            unmet = _larger(unmet, abs(total - program.sums[i]))
    for row in range(row_price.size):
        shifted = activity[row] - row_price[row] / program.row_scale
        # the same residual for a row: its price may pull only where the sum is at the bound
        moved = min(max(shifted, program.row_lower[row]), program.row_upper[row])
        unmet = _larger(unmet, abs(activity[row] - moved))
    return _larger(worst, unmet), unmet


@internal
def _larger(worst: float, value: float) -> float:
    """The larger of two numbers; a value that is not a number counts as infinite."""
    # False for a value that is not a number, so that no such point can be certified.
    if value <= worst:
        return worst
    return value if value < np.inf else np.inf


@njit(nogil=True, cache=True)
def squared_deviation(
    labels: Int32s, widths: Integers, values: Floats, weights: Floats, estimate: Floats
) -> float:
    """Sum over queries of weight * (Q x - y)^2, over the answers that hold a cell; arrays as in `PassArrays`."""
    n_children, n_cells = estimate.shape
    total, place = 0.0, 0
    for q in range(widths.size):
        width = widths[q]
        reached = np.zeros(width, np.bool_)
        # an answer that no cell of the support counts in does not depend on the estimate, and is left out
        for i in range(n_cells):
            if labels[q, i] >= 0:
                reached[labels[q, i]] = True
        answers = np.empty(width)
        for c in range(n_children):
            for k in range(width):
                answers[k] = -values[place + k]
            for i in range(n_cells):
                # summed up cell by cell in place of a product with a matrix: each cell counts in one answer
                # of a query at most
                if labels[q, i] >= 0:
                    answers[labels[q, i]] += estimate[c, i]
            for k in range(width):
                if reached[k]:
                    total += weights[q, c] * answers[k] * answers[k]
            place += width
    return total


# Errors in persons below which nothing counts, however small the counts: ten thousand times below what is
# certified.
EXACT_PERSONS = 1e-11
ROUNDING = 4e-15
"""The rounding error of a count at best, as a part of the largest count."""

ENOUGH, ENOUGH_PERSONS = 4e-14, 1e-9
"""Errors that are small enough: this part of the largest count, as long sums lose digits, but never more persons."""

STIFFER, STIFFEST = 2.0**-10, 2.0**-30
"""Factor by which the rows' compliance is reduced once their face is found, and the smallest compliance."""

STIFFEST_AMONG_ANSWERS = 2.0**-20
"""The same where a face is solved among the answers, whose equations lose the digits that D is smaller than H."""

SOFTER, SOFTEST = 64.0, 1.0
"""Factor by which compliance grows where rounding errors make a face's equations singular, and where that ends."""

NEAR_PERSONS, NEARER = 4e-3, 0.125
"""Residual at which soft rows count as settled, and its factor after rows were made stiff too early."""


class Walk(NamedTuple):
    """The walk's arrays, and what counts as exact.

    Attributes:
        signs: The face.
        centre: Compliance pulls the rows' prices towards this point's.
        point: The point found on the face.
        costs: The point's reduced costs. [C, g]
        activity: The point's row sums. [R]
        settled: The face on which soft rows last settled.
        exact: Persons below which an error does not count.
        tolerance: Persons by which a reduced cost or a row must be wrong to be swapped.
    """

    signs: Signs
    centre: Point
    point: Point
    costs: FloatRows
    activity: Floats
    settled: Signs
    exact: float
    tolerance: float


class Swaps(NamedTuple):
    """How many steps a walk may make, and how they swap.

    Attributes:
        full: Steps that swap everything that is wrong.
        single: Later steps, which swap only what is most wrong.
        renewed: Whether full swaps begin again after each face on which nothing is wrong.
        quick: Whether each face is solved more exactly than the last one, and the first certified answer is enough.
    """

    full: int
    single: int
    renewed: bool
    quick: bool


class Softness(NamedTuple):
    """Compliance of rows, in units of an answer's own.

    Attributes:
        compliance: Now.
        soft: Where the search for a face begins again.
        stiffest: The smallest that this program's rounding errors allow.
        near: Residual in persons at which rows may become stiff.
    """

    compliance: float
    soft: float
    stiffest: float
    near: float


class WalkProgress(NamedTuple):
    """How good the answers of settled faces were.

    Attributes:
        best: Residual of the best answer, in persons; inf: none yet.
        best_unmet: The part of it in sums and rows.
        last: Residual of the last answer; inf: the face has changed since.
        last_unmet: The part of it in sums and rows.
        stride: How far beyond the answer the centre's prices moved, in steps; 1: to the answer.
    """

    best: float
    best_unmet: float
    last: float
    last_unmet: float
    stride: float


@inlined
def begin_walk(program: Program, start: Point) -> Walk:
    """The face that a close point suggests, with the point as centre."""
    costs, activity = np.empty(start.x.shape), np.empty(start.row_price.size)
    reduced_costs(program, start.x, start.cell_price, start.row_price, costs)
    row_activity(program, start.x, activity)
    signs = _guess(program, start, costs, activity)
    free_a_child(program, signs.free, start.x)
    largest = _largest(start.x)
    return Walk(
        signs,
        Point(start.x.copy(), start.cell_price.copy(), start.row_price.copy()),
        Point(start.x.copy(), start.cell_price.copy(), start.row_price.copy()),
        costs,
        activity,
        Signs(signs.free.copy(), signs.side.copy()),
        # 1e-11 up to 250 persons, then 4e-14 of the largest count, 1e-9 from 25,000 on, and rounding from
        # 250,000 on
        float(max(EXACT_PERSONS, ROUNDING * largest, min(ENOUGH * largest, ENOUGH_PERSONS))),
        # looser than `exact`, so that a sign within the error of a solution is not swapped back and forth
        1e-9 + 1e-13 * largest,
    )


@internal
def _largest(x: Floats) -> float:
    largest = -np.inf
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            largest = x[c, i] if x[c, i] > largest else largest
    return largest


@internal
def _guess(program: Program, start: Point, costs: Floats, activity: Floats) -> Signs:
    """A variable is free where it is larger than its reduced cost, both in persons; a row binds likewise."""
    # at the optimum one of the two is zero; near it, the larger one in persons is the one that is not
    x, row_price = start.x, start.row_price
    free = np.zeros(x.shape, np.bool_)
    for c in range(x.shape[0]):
        scale = program.scale[program.kind[c]]
        for i in range(x.shape[1]):
            # At the optimum one of the two is zero, so the larger one tells which even where both are rough.
            free[c, i] = program.allowed[c, i] and x[c, i] > costs[c, i] / scale[i]
    side = np.zeros(row_price.size, np.int64)
    for row in range(row_price.size):
        price = row_price[row] / program.row_scale
        if program.row_lower[row] == program.row_upper[row]:
            # both bounds are one number: the row binds whatever the sign of its price
            side[row] = 2
        elif -price > abs(program.row_upper[row] - activity[row]):
            side[row] = 1
        elif price > abs(activity[row] - program.row_lower[row]):
            side[row] = -1
    return Signs(free, side)


@internal
def free_a_child(program: Program, free: Bools, x: Floats) -> None:
    """Free the largest variable of every inhabited cell that has no free variable, so that its sum can be met."""
    if not program.has_sums:
        return
    for i in range(free.shape[1]):
        if program.sums[i] > 0:
            # ties go to the first child, on every machine
            best, any_free = -1, False
            for c in range(free.shape[0]):
                any_free |= free[c, i]
                if program.allowed[c, i] and (best < 0 or x[c, i] > x[best, i]):
                    best = c
            if not any_free and best >= 0:
                free[best, i] = True


@internal
def start_on_face(walk: Walk) -> bool:
    """Put the centre's point on the face, by zeros where the face has them; whether the centre was on it."""
    free, side = walk.signs
    # a price of a loose row and a count of a zero variable are what may be off the face
    x, cell_price, row_price = walk.centre
    face_x, face_cell_price, face_row_price = walk.point
    set_to(face_cell_price, cell_price)
    moved = False
    for c in range(free.shape[0]):
        for i in range(free.shape[1]):
            # costs and row sums of the centre hold for the start only if no count and no price was cut off
            moved |= x[c, i] != 0.0 and not free[c, i]
            face_x[c, i] = x[c, i] if free[c, i] else 0.0
    for row in range(side.size):
        moved |= row_price[row] != 0.0 and side[row] == 0
        face_row_price[row] = row_price[row] if side[row] != 0 else 0.0
    return not moved


@internal
def centre_on_point(walk: Walk, stride: float) -> None:
    """Move the centre to the point; its prices by this many times the way there."""
    set_rows(walk.centre.x, walk.point.x)
    _stride(stride, walk.point.cell_price, walk.centre.cell_price)
    _stride(stride, walk.point.row_price, walk.centre.row_price)


@internal
def _stride(stride: float, point: Floats, centre: Floats) -> None:
    # no arithmetic at stride 1: the centre becomes the point to the last bit, which `polish` relies on
    if stride == 1.0:
        set_to(centre, point)
        return
    for i in range(centre.size):
        centre[i] += stride * (point[i] - centre[i])


@internal
def clip(x: Floats, positive: Floats) -> bool:
    """Copy x into `positive` with zeros for its negative entries; whether there were any."""
    clipped = False
    for c in range(x.shape[0]):
        # no early end: the copy must be complete
        for i in range(x.shape[1]):
            clipped |= x[c, i] < 0.0
            positive[c, i] = max(x[c, i], 0.0)
    return clipped


@internal
def stiffen(walk: Walk, softness: Softness) -> Softness:
    """Less compliance, after the face of the soft rows is kept."""
    set_rows(walk.settled.free, walk.signs.free)
    set_to(walk.settled.side, walk.signs.side)
    # never below what rounding has shown to be singular
    return Softness(
        max(softness.compliance * STIFFER, softness.stiffest), softness.soft, softness.stiffest, softness.near
    )


@pointers
class Faces(NamedTuple):
    """What `tallyveil.kernels.family.polish` calls.

    Attributes:
        list_face: The equations of a face (`tallyveil.kernels.family.face`).
        solve_face: Their solution (`tallyveil.kernels.family.face_solution`).
    """

    list_face: Callable[[Program, Signs, float, int], tuple[bool, Face]]
    solve_face: Callable[[Program, Face, Walk, float, bool], None]


@pointers
class PassParts(NamedTuple):
    """What `tallyveil.kernels.family.solver` calls.

    Attributes:
        reduce_arrays: From a pass to its program.
        approach: The interior-point method.
        descend: The descent over cells.
        polish: The walk from face to face.
        faces: What the walk calls.
    """

    reduce_arrays: Callable[[PassArrays], tuple[Program, Integers, Floats]]
    approach: Callable[[Program, Point], bool]
    descend: Callable[[Program, Point, float, int, float], int]
    polish: Callable[[Program, Point, float, int, Swaps, Faces], tuple[float, int]]
    faces: Faces


@pointers
class FamilyKernels(NamedTuple):
    """What `tallyveil.kernels.family.chunk` calls.

    Attributes:
        solve: The solver of a pass.
        parts: What the solver calls.
        round_up: The rounding of a family (`tallyveil.kernels.rounding.flow`).
    """

    solve: Callable[[PassArrays, PassParts], Answer]
    parts: PassParts
    round_up: Callable[[Int32Rows, Integers, Bools, Bounds, Entries, Integers], tuple[int, Integers]]


@internal
def swap(program: Program, walk: Walk, tolerance: float, exact: float, compliance: float, manner: int) -> int:
    """Swap the variables and rows that are wrong at the walk's point; returns how many were wrong.

    Args:
        program: The pass's program.
        walk: The face, its point, and the centre; the face is changed in place.
        tolerance: Persons by which a zero variable must be wrong, and by which a binding row may be.
        exact: Persons by which a free variable or a loose row must be wrong.
        compliance: Of rows, in units of an answer's own.
        manner: 0 swaps everything, 1 every variable but only the worst row of each child or group of children, 2 only
            the worst of all. Several rows of a child may all push its counts the same way. Swapping them all at once
            can then overshoot again and again.
    """
    free, side, x = walk.signs.free, walk.signs.side, walk.point.x
    costs, activity, centre_row = walk.costs, walk.activity, walk.centre.row_price
    n_wrong, n_children, worst_child, worst_cell = 0, free.shape[0], 0, 0
    # in manner 1 there is a worst row for each group, in manner 2 one for all, at 0
    worst, worst_side = np.full(n_children, -np.inf), np.empty(n_children, np.int64)
    worst_row = np.full(n_children, -1, np.int64)
    for c in range(n_children):
        scale = program.scale[program.kind[c]]
        for i in range(free.shape[1]):
            if program.allowed[c, i]:
                # persons in both cases: so variables compare with each other, and with rows
                wrong = -x[c, i] if free[c, i] else -costs[c, i] / scale[i]
                # what stays free is clipped at zero, which must not cost accuracy
                if wrong > (exact if free[c, i] else tolerance):
                    n_wrong += 1
                    # strictly more, so that the first of equals is taken on every machine
                    if manner == 2 and wrong > worst[0]:
                        worst[0], worst_child, worst_cell = wrong, c, i
                    if manner < 2:
                        free[c, i] = not free[c, i]
    # from units of an answer's own to the objective's
    softness = compliance / program.row_stiffness
    for row in range(side.size):
        # a binding row keeps its side within the tolerance, a loose one changes only beyond it
        margin = -tolerance * program.row_scale * softness if side[row] != 0 else exact
        # a row binds where its price would have the right sign; in persons, the last price shifts the bound
        shift = centre_row[row] * softness
        lower, upper = program.row_lower[row], program.row_upper[row]
        new_side, wrong = _side(lower, upper, side[row], activity[row], shift, margin)
        if new_side != side[row]:
            n_wrong += 1
            # groups of a bound on single children are the children
            among = program.row_group[row] if manner == 1 else 0
            if wrong > worst[among]:
                worst[among], worst_row[among], worst_side[among] = wrong, row, new_side
            if manner == 0:
                side[row] = new_side
    if manner > 0 and n_wrong > 0:
        for among in range(n_children):
            if worst_row[among] >= 0:
                side[worst_row[among]] = worst_side[among]
        # a row that is wrong goes before a variable
        if manner == 2 and worst_row[0] < 0:
            free[worst_child, worst_cell] = not free[worst_child, worst_cell]
    return n_wrong


@internal
def _side(
    lower: float, upper: float, side: int, activity: float, shift: float, margin: float
) -> tuple[int, float]:
    """Which side a row should bind on, and by how many persons it is wrong where that is new."""
    if lower == upper:
        return 2, 0.0
    # short and over are distances to the bounds after the shift; only one can be above zero, as lower < upper
    short, over = lower + shift - activity, activity - shift - upper
    wanted = 1 if over > margin else (-1 if short > margin else 0)
    # a bound that held and is now wrong: the amount by which it is on the inner side
    if side == -1:
        return wanted, -short
    if side == 1:
        return wanted, -over
    return wanted, max(short, over)


ROUGH_PERSONS, ROUGH_SIGN = 1e-3, 10.0
"""How exactly a face is solved at first, and by how many times as many persons a sign must be wrong to be swapped."""

SHARPER, SHARP_PERSONS = 0.1, 1e-7
"""In a quick walk, the part of the last tolerance to which the next face is solved, and where that ends."""

FEW_WRONG = 3
"""With more wrong signs than this after stiffening, rows were made stiff too early."""

STUCK = 0.95
"""A residual that falls by less than to this part of the last one no longer falls."""

SEARCH, REFINE, SETTLE = 0, 1, 2
"""What the next solution is: a rough one, soft or stiff; an exact one from the rough one on the same face; an exact one
from the centre."""


@njit(nogil=True, cache=True)
def polish(
    program: Program,
    start: Point,
    row_compliance: float,
    manner: int,
    swaps: Swaps,
    faces: Faces,
) -> tuple[float, int]:
    """Walk from face to face until one settles.

    Args:
        program: The pass's program.
        start: A close point, whose face is the first guess. It becomes the answer; or, if no face settled, the last
            face's point, which is still closer where most of the face was right.
        row_compliance: Compliance of soft rows, in units of an answer's own.
        manner: How faces are solved, see `tallyveil.kernels.family.face.list_face`.
        swaps: How many steps to make, and how they swap.
        faces: The kernels that list and solve a face.
    Returns:
        The answer's residual in persons, or inf where no face settled; steps made.
    """
    walk = begin_walk(program, start)
    stiffest = STIFFEST_AMONG_ANSWERS if manner == BY_ANSWERS else STIFFEST
    softness = Softness(row_compliance, row_compliance, stiffest, NEAR_PERSONS)
    progress = WalkProgress(np.inf, np.inf, np.inf, np.inf, 1.0)
    # without rows there is no compliance to soften, so the first solution may be exact
    stage, known, listed = SEARCH if walk.signs.side.size > 0 else SETTLE, True, False
    step, since, rough = int(np.int64(0)), int(np.int64(0)), ROUGH_PERSONS
    while step < swaps.full + swaps.single:
        # factors are most of the work; they stay good while neither face nor compliance changes
        if not listed:
            ok, face, softness = _list_regular(program, walk, softness, manner, faces)
            if not ok:
                # singular even with the softest rows: the best answer so far, if any
                return progress.best, step
        if stage != REFINE:
            # a centre that is off the face is moved onto it, and its costs are no longer known
            known = start_on_face(walk) and known
        faces.solve_face(program, face, walk, rough if stage == SEARCH else walk.exact, known)
        # A rough solution must not swap what its own error may have made wrong, hence ten times the
        # tolerance.
        tolerance = ROUGH_SIGN * rough if stage == SEARCH else walk.tolerance
        exact = ROUGH_SIGN * rough if stage == SEARCH else walk.exact
        n_wrong = swap(program, walk, tolerance, exact, softness.compliance, _manner(since, swaps.full))
        step += 1
        # counts steps since the last settled face, where the walk's rules say so
        since = 0 if swaps.renewed and n_wrong == 0 else since + 1
        before, rough = softness.compliance, max(SHARPER * rough, SHARP_PERSONS) if swaps.quick else rough
        if n_wrong > 0:
            stage, softness = _turn(program, walk, softness, n_wrong)
            # what was found stays; that it no longer falls is judged anew on every face
            progress = WalkProgress(progress.best, progress.best_unmet, np.inf, np.inf, 1.0)
        elif stage == SEARCH:
            stage, softness = _leave_search(program, face, walk, softness)
        else:
            progress, done = _judge(program, walk, start, progress)
            if done or (swaps.quick and progress.best <= CERTIFIED_PERSONS):
                return progress.best, step
            # A proximal step: the compliance then pulls towards the new prices and its own error becomes
            # smaller.
            centre_on_point(walk, progress.stride)
            settles = progress.stride == 1.0 and progress.last <= softness.near
            if settles and softness.compliance > softness.stiffest and face.rows.size > 0:
                # soft rows find the face, stiff ones their prices
                softness = stiffen(walk, softness)
            stage = SETTLE
        # at stride 1 the centre is the point, whose costs and row sums are known
        known = n_wrong == 0 and progress.stride == 1.0
        # with another compliance the equations are other ones even on the same face
        listed = n_wrong == 0 and softness.compliance == before
    if progress.best == np.inf:
        # no answer: the last face's point is still the better start for another round
        clip(walk.point.x, start.x)
        set_to(start.cell_price, walk.point.cell_price)
        set_to(start.row_price, walk.point.row_price)
    return progress.best, step


@inlined
def _list_regular(
    program: Program, walk: Walk, softness: Softness, manner: int, faces: Faces
) -> tuple[bool, Face, Softness]:
    """The face's equations, with more compliance where rounding errors make them singular.

    Returns:
        False where even the softest rows leave them singular; the face; the compliance used.
    """
    compliance, soft, stiffest = softness.compliance, softness.soft, softness.stiffest
    # Cholesky's method fails at a pivot that rounding has made negative; a softer row adds to it
    while True:
        ok, face = faces.list_face(program, walk.signs, compliance, manner)
        if ok or compliance > SOFTEST:
            return ok, face, Softness(compliance, soft, stiffest, softness.near)
        compliance *= SOFTER
        # no face of this program is then solved with stiffer rows, which would fail again
        stiffest, soft = compliance, max(soft, compliance)


@internal
def _manner(since: int, full_swaps: int) -> int:
    """How to swap after so many steps, see `swap`: in full, then more and more gently."""
    return 0 if since < full_swaps else (1 if since < 3 * full_swaps else 2)


@inlined
def _turn(program: Program, walk: Walk, softness: Softness, n_wrong: int) -> tuple[int, Softness]:
    """Go on with the next face, by soft rows again; returns the stage."""
    near, stage = softness.near, SEARCH
    # a few wrong signs are the usual correction of a face; many mean another face
    if softness.compliance < softness.soft and n_wrong > FEW_WRONG:
        # rows were stiff too early: back to where soft ones had settled
        set_rows(walk.signs.free, walk.settled.free)
        set_to(walk.signs.side, walk.settled.side)
        # the residual must become an eighth of what was asked for, so that the same mistake is not made for
        # ever
        near *= NEARER
        stage = SETTLE
    else:
        set_rows(walk.centre.x, walk.point.x)
    # whatever was swapped, every inhabited cell needs a free variable to meet its sum
    free_a_child(program, walk.signs.free, walk.centre.x)
    return stage, Softness(softness.soft, softness.soft, softness.stiffest, near)


@inlined
def _leave_search(program: Program, face: Face, walk: Walk, softness: Softness) -> tuple[int, Softness]:
    """Where nothing is wrong by much: once more with stiff rows if they were soft, else on to exact answers."""
    # costs and sums are those of the point, so that judging it costs no product with H
    now, _ = violation(program, walk.point.x, walk.costs, walk.activity, walk.point.row_price)
    # where rounding errors allow nothing stiffer than the soft rows, they are not solved again
    soft = softness.stiffest < softness.compliance == softness.soft
    if soft and face.rows.size > 0 and now <= softness.near:
        centre_on_point(walk, 1.0)
        return SEARCH, stiffen(walk, softness)
    return REFINE, softness


@inlined
def _judge(program: Program, walk: Walk, answer: Point, progress: WalkProgress) -> tuple[WalkProgress, bool]:
    """Measure a settled face's point and keep it if it is the best; whether it is good enough to end the walk."""
    # negative counts of a free variable are within rounding; what is published has none, so the clipped point
    # is the one to judge
    point, positive = walk.point, walk.centre.x
    if clip(point.x, positive):
        now, unmet = residual(program, positive, point.cell_price, point.row_price)
    else:
        now, unmet = violation(program, point.x, walk.costs, walk.activity, point.row_price)
    # the best answer of all faces and not the last one
    best, best_unmet = progress.best, progress.best_unmet
    # rounding of the prices bounds `now` from below; sums and rows can be met better than that
    if now < best or (now <= CERTIFIED_PERSONS and unmet < best_unmet):
        best, best_unmet = now, unmet
        set_rows(answer.x, positive)
        set_to(answer.cell_price, point.cell_price)
        set_to(answer.row_price, point.row_price)
    falls = now <= STUCK * progress.last or walk.exact < unmet <= STUCK * progress.last_unmet
    # certified and at rounding error, or certified and no better than the last one: more steps give nothing
    done = now <= min(walk.exact, CERTIFIED_PERSONS) or (not falls and now <= CERTIFIED_PERSONS)
    # if no counts meet this face's rows, prices must move, ever faster, until the face changes
    stride = 1.0 if falls else 2.0 * progress.stride
    return WalkProgress(best, best_unmet, now, unmet, stride), done
