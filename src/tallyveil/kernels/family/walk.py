"""Where the walk from face to face is: the face, the centre of the compliance, the point found on the face.

`tallyveil.kernels.family.polish` explains the walk. Arrays here are changed in place; the small tuples of numbers,
`Softness` and `WalkProgress`, are replaced.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, FloatRows, Floats
from tallyveil.kernels.compiled import inlined, internal
from tallyveil.kernels.family.certificate import reduced_costs
from tallyveil.kernels.family.descent import row_activity
from tallyveil.kernels.family.face import Signs
from tallyveil.kernels.family.program import Point, Program
from tallyveil.kernels.vectors import set_rows, set_to

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
