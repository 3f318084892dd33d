"""The proximal primal-dual active-set method, compiled: from a close point to the exact optimum.

Problem: the pass's program (`tallyveil.kernels.family.program`), a convex quadratic program with x >= 0, sums over
children, and rows between bounds.

Variables: a face says which x are free, which are zero, and on which side each row binds. On a face the optimum
solves linear equations. A little compliance keeps the equations regular where rows repeat one another:
row sum = bound - compliance * (row price - the centre's row price). The centre is the last point that was accepted.

Steps:
- Soft. Rows have much compliance. The face is solved roughly, signs that come out wrong are swapped, and the new face
  is solved, until no sign is wrong by much. A strong penalty from the start would drop a row from the active set too
  early.
- Stiff. Near the optimum the compliance is made about a thousand times smaller, so that two or three solutions
  settle the rows' prices. If many signs are then wrong, rows were stiff too early, and the walk goes back to the face
  of the soft rows.
- Refine. Once nothing is wrong, the face is solved exactly. Each answer becomes the next centre, which makes the
  compliance's own error vanish.

Stopping rule: the residual of the optimality conditions, in persons, is at rounding error; or it is at most
CERTIFIED_PERSONS and no longer falls; or it is at most that in a quick walk; or the steps are used up.

Worked case: two children share a parent's 3 persons in one cell; both are measured with variance 1, as 5 and -2.
Minimise 1/2 (x1 - 5)^2 + 1/2 (x2 + 2)^2 with x1 + x2 = 3 and x >= 0. The face with both free gives x = (5, -2), so
that x2 has the wrong sign. The face without x2 gives x = (3, 0) at price -2; the reduced cost of x2 is 2 + 2 = 4, which
is not negative, so nothing is wrong and the answer is exact.

Oracle: `tests.oracles.active_set.polish` solves the same problem in numpy with dense factors and without the
three steps. It is independent of this module: only the optimum is the same, not the way to it.
"""

import numpy as np

from tallyveil.kernels.compiled import inlined, internal, njit
from tallyveil.kernels.family.certificate import CERTIFIED_PERSONS, residual, violation
from tallyveil.kernels.family.face import BY_ANSWERS, Face
from tallyveil.kernels.family.parts import Faces
from tallyveil.kernels.family.program import Point, Program
from tallyveil.kernels.family.swap import swap
from tallyveil.kernels.family.walk import (
    NEAR_PERSONS,
    NEARER,
    SOFTER,
    SOFTEST,
    STIFFEST,
    STIFFEST_AMONG_ANSWERS,
    Softness,
    Swaps,
    Walk,
    WalkProgress,
    begin_walk,
    centre_on_point,
    clip,
    free_a_child,
    start_on_face,
    stiffen,
)
from tallyveil.kernels.vectors import set_rows, set_to

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
