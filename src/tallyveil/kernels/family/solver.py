"""One pass of one family, compiled from measurements to certified answer.

Problem: the pass's program (`tallyveil.kernels.family.program`), after cells are merged. Step: a round, which is a
descent to a close point (`descent`) and a walk from face to face to the exact optimum (`polish`). Where a ridge and
rows meet, the first round begins from an interior-point method's point instead (`interior`).

Stopping rule: the point's residual is at most CERTIFIED_PERSONS, or ROUNDS rounds were made. Later rounds have more
sweeps, a smaller tolerance and more steps; almost every family needs one round.

Oracle: `tests.oracles.least_squares`, which shares no code with this one.
"""

from typing import Annotated

import numpy as np
from numba.experimental import structref

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.compiled import (
    Holder,
    all_compiled,
    compiled,
    held,
    inlined,
    internal,
    njit,
    numba_type,
)
from tallyveil.kernels.family.descent import descend, equal_parts
from tallyveil.kernels.family.face import BY_ANSWERS, BY_DIAGONAL, BY_INVERSES, DENSE_ROWS, list_face
from tallyveil.kernels.family.face_solution import solve_face
from tallyveil.kernels.family.interior import approach
from tallyveil.kernels.family.polish import (
    CERTIFIED_PERSONS,
    Faces,
    FamilyKernels,
    PassParts,
    Swaps,
    polish,
    residual,
)
from tallyveil.kernels.family.program import Answer, PassArrays, Point, Program
from tallyveil.kernels.family.reduction import reduce_arrays
from tallyveil.kernels.rounding.flow import round_by_flow
from tallyveil.kernels.vectors import set_rows, set_to

DONE_PERSONS, DONE_WITH_ROWS = 1.0, 0.1
"""Persons by which a sweep may still move a count when the first descent stops, without and with rows. Most of the face
is right then. Rows' prices settle more slowly. Half as much costs sweeps, twice as much steps of the walk; each of
these constants trades one for the other, and the certified answer is the same."""

STIFFNESS = 0.1
"""Curvature of a broken row in the descent, in medians of H's diagonal. It is below 1 so that a broken row bends a
sweep less than the measurements do. Stiffer rows are met sooner, but counts then move less in a sweep; softer rows need
more sweeps until their prices are right."""

ROW_COMPLIANCE = 2.0**-3
"""Persons by which a row gives way in the soft steps of the walk, for a price that moves a count of median curvature by
one person. The walk makes rows stiff once their face is found. Stiffer ones drop out of the active set before their
prices are right; softer ones find a face that the stiff rows then leave again."""

FULL_SWAPS = 8
"""Steps of a walk that swap every wrong sign at once. Where they have not settled by then, they often go round in a
circle, which more of them do not leave. With half as many, walks that are merely long begin their slow steps too
early."""

SINGLE_SWAPS = 42
"""Steps after these, which swap fewer and fewer signs and so end a circle. They are doubled in each later round. The
sum of both, 50, bounds the time of a family; a walk that has not ended by then mostly began at a point too far away,
for which another descent is cheaper."""

SINGLE_SWAPS_OF_LONG_WALKS = 1000
"""The same in the first round where a row sums cells of several children. Such rows bind children's carried answers to
each other. Their prices are far from right at first, and each move of the prices changes many variables. Full swaps
therefore begin again after each face that settles. Walks may be long as well where faces are solved among the answers:
there are many variables, and steps are cheap. It bounds time only: twice as many would serve walks that no family has
needed."""

# The text below is about all three.
SWEEPS = 30
# Counts from which a pass is large in this sense: children times merged cells.
MANY_VARIABLES = 1000
MORE_SWEEPS = 60
"""Most sweeps of the first descent; and where a pass has MANY_VARIABLES counts or more, as a face of so many variables
costs more than a sweep over them. Each later round has five times as many. Fewer leave more to the walk, more are
mostly not used: the descent stops by itself at DONE_PERSONS."""

# In the place of STIFFNESS, in the descent before a quick walk.
SOFTER_STIFFNESS = 2.0**-5
QUICK_COMPLIANCE, QUICK_SWAPS = 2.0**-6, 12
"""Where there are more children than cells and more than DENSE_ROWS rows, all of them on single children, a quick walk
is tried first. It begins with stiffer rows and makes at most FULL_SWAPS + QUICK_SWAPS steps. The rows of a child depend
little on those of its many siblings, so that few steps find the face. But if nearly all rows bind, the sums leave the
rows' prices little room. Rows that are stiffer still would then change sides by hundreds. A row of such a family sums
many free cells, and the first descent settles faster with SOFTER_STIFFNESS. A quick walk that fails costs its steps,
and the usual walk follows."""

INVERTED_CELLS = 200
"""With more cells, a pass whose faces are solved among the answers is never given to dense inverses.
An inverse costs the cube of a child's free cells, and 8 bytes for each pair of these: 320 kB a child here."""

ROUNDS = 4
"""Most rounds of descent and polish; nearly every family takes one. What four do not certify goes to the fallback
(`tallyveil.estimation.least_squares`), so that more rounds would only delay it."""

FALLBACK_COMPLIANCES = (ROW_COMPLIANCE, 2.0**-8, 2.0**-16)
"""Softness of rows in the walks from an interior point, one after another. From there the face is nearly right, so that
stiffer rows are worth a try where soft ones do not settle."""

PARTS = PassParts(reduce_arrays, approach, descend, polish, Faces(list_face, solve_face))
"""The kernels that the solver calls through pointers."""


@njit(nogil=True, cache=True)
def solve_by_parts(arrays: PassArrays, parts: PassParts) -> Answer:
    """One pass, with the kernels that it calls."""
    # kernels that it calls come by pointer, so that this one compiles by itself
    program, group, share = parts.reduce_arrays(arrays)
    point = equal_parts(program)
    worst, rounds, sweeps, steps = solve_program(program, point, parts)
    n_children, n_cells = arrays.allowed.shape
    estimate = np.empty((n_children, n_cells))
    # merged cells are alike for every query: the parent's proportions are what the ridge would give them
    for c in range(n_children):
        for i in range(n_cells):
            estimate[c, i] = point.x[c, group[i]] * share[i]
    return Answer(estimate, worst, rounds, sweeps, steps)


KERNELS = FamilyKernels(solve_by_parts, PARTS, round_by_flow)
"""The kernels that those of a chunk and of a pass call through pointers."""

HeldKernels = Annotated[Holder, FamilyKernels]
_HOLDER_TYPE = numba_type(HeldKernels)


@njit(nogil=True, cache=True)
def hold(kernels: FamilyKernels) -> HeldKernels:
    """Put the kernels into a holder, so that numba looks their types up once and not at each call."""
    holder = structref.new(_HOLDER_TYPE)  # type: ignore[call-arg, var-annotated]
    holder.kernels = kernels
    return holder


def solve_pass(arrays: PassArrays) -> Answer:
    """Reduce, descend, polish and certify one pass; see `tallyveil.estimation.least_squares` for the ladder."""
    answer: Answer = compiled(solve_held)(arrays, held(hold, KERNELS))
    return answer


@njit(nogil=True, cache=True)
def solve_held(arrays: PassArrays, holder: HeldKernels) -> Answer:
    """Kernel of `solve_pass`."""
    kernels: FamilyKernels = holder.kernels
    return kernels.solve(arrays, kernels.parts)


def reduce_pass(arrays: PassArrays) -> tuple[Program, Integers, Floats]:
    """The program of a pass on merged cells; the merged cell of each support cell, and its share of the count."""
    reduced: tuple[Program, Integers, Floats] = compiled(reduce_arrays)(arrays)
    return reduced


def polish_point(program: Program, start: Point) -> tuple[Floats, float]:
    """Walk from a close point to the exact optimum, in every manner that may certify it.

    Args:
        program: A reduced pass.
        start: The point; it is not changed.
    Returns:
        The best counts found, shape (C, g), and their residual in persons. They are the start's where no walk gives
        better ones.
    """
    walk, faces = compiled(polish), all_compiled(PARTS).faces
    best, least = start.x, float(compiled(residual_of)(program, start))
    # Dense inverses of many cells cost more memory and time than a family is worth.
    inverses = (BY_INVERSES,) if program.sums.size <= INVERTED_CELLS else ()
    for compliance in FALLBACK_COMPLIANCES:
        for manner in (BY_DIAGONAL, BY_ANSWERS, *inverses):
            if least <= CERTIFIED_PERSONS:
                return best, least
            point = Point(start.x.copy(), start.cell_price.copy(), start.row_price.copy())
            swaps = Swaps(FULL_SWAPS, SINGLE_SWAPS_OF_LONG_WALKS, False, False)
            error, _ = walk(program, point, compliance, manner, swaps, faces)
            if error < least:
                best, least = point.x, float(error)
    return best, least


@njit(nogil=True, cache=True)
def residual_of(program: Program, point: Point) -> float:
    """Largest violation of the optimality conditions at a point, in persons."""
    worst, _ = residual(program, point.x, point.cell_price, point.row_price)
    return worst


@inlined
def solve_program(program: Program, close: Point, parts: PassParts) -> tuple[float, int, int, int]:
    """Rounds of descent and polish until one is certified; the close point becomes the best one found.

    Returns:
        Residual in persons, rounds, sweeps, steps.
    """
    # sweeps cost less than large faces do
    planned = SWEEPS if program.allowed.size < MANY_VARIABLES else MORE_SWEEPS
    # prices of rows settle more slowly than counts, so that the descent must go closer
    done = DONE_WITH_ROWS if program.row_group.size > 0 else DONE_PERSONS
    grouped = False
    for members in program.bound_members:
        grouped |= members > 1
    # a ridge means that H is nearly singular: its diagonal is then no good approximation of it
    ridged = _ridged(program)
    # where H is small enough to be held, its inverses are cheap
    manner = BY_DIAGONAL if not ridged else (BY_INVERSES if program.hessian.size > 0 else BY_ANSWERS)
    many = _many_children(program) and manner == BY_DIAGONAL and not grouped
    # the interior-point method is for sums over children, which a root does not have
    begin_inside = ridged and program.has_sums and program.row_group.size > 0
    sweeps, steps = 0, 0
    best, best_x = np.inf, close.x
    for attempt in range(ROUNDS):
        # Each round begins where the last one's descent ended, and goes 10,000 times closer.
        quick = many and attempt == 0
        stiffness = (SOFTER_STIFFNESS if quick else STIFFNESS) * program.row_stiffness
        if attempt > 0 or not begin_inside or not parts.approach(program, close):
            sweeps += parts.descend(program, close, stiffness, planned, done * 1e-4**attempt)
        # The walk changes its point even where it fails; the next round begins at the descent's own.
        error, point = np.inf, _copied(close)
        if quick:
            swaps = Swaps(FULL_SWAPS, QUICK_SWAPS, grouped, True)
            error, walked = parts.polish(program, point, QUICK_COMPLIANCE, manner, swaps, parts.faces)
            steps += walked
        # also where the walk found nothing, as its residual is inf then
        if error > CERTIFIED_PERSONS:
            # The quick walk has moved the point, even where it found nothing.
            _set_point(point, close)
            long = attempt == 0 and (grouped or manner == BY_ANSWERS)
            single_swaps = SINGLE_SWAPS_OF_LONG_WALKS if long else SINGLE_SWAPS << attempt
            swaps = Swaps(FULL_SWAPS, single_swaps, grouped, False)
            error, walked = parts.polish(program, point, ROW_COMPLIANCE, manner, swaps, parts.faces)
            steps += walked
        # faces among the answers stay cheap in longer walks; inverses of many cells do not
        among = manner == BY_ANSWERS and (attempt < ROUNDS - 2 or program.sums.size > INVERTED_CELLS)
        manner = BY_ANSWERS if among else BY_INVERSES
        # kept over rounds: a later walk may end at a worse point
        if error < best:
            best, best_x = error, point.x
        if best <= CERTIFIED_PERSONS:
            _set_point(close, point)
            return best, attempt + 1, sweeps, steps
        planned *= 5
    # Nothing is certified: the better one of the last descent and of the best walk, for the caller to judge.
    # also an uncertified answer says how far it is, so that the caller can compare it with others
    plain, _ = residual(program, close.x, close.cell_price, close.row_price)
    if best < plain:
        set_rows(close.x, best_x)
    return min(best, plain), ROUNDS, sweeps, steps


@internal
def _copied(point: Point) -> Point:
    return Point(point.x.copy(), point.cell_price.copy(), point.row_price.copy())


@internal
def _set_point(out: Point, source: Point) -> None:
    set_rows(out.x, source.x)
    set_to(out.cell_price, source.cell_price)
    set_to(out.row_price, source.row_price)


@internal
def _many_children(program: Program) -> bool:
    """Whether there are many rows, and more children than cells."""
    n_children, n_cells = program.allowed.shape
    return n_children > n_cells and program.row_group.size > DENSE_ROWS


@internal
def _ridged(program: Program) -> bool:
    """Whether a ridge makes the answer unique, so that H is nearly singular."""
    ridged = False
    for z in range(program.ridge.shape[0]):
        for i in range(program.ridge.shape[1]):
            ridged |= program.ridge[z, i] > 0.0
    return ridged
