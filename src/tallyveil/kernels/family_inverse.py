"""Inverses of H on each child's free cells, kept from face to face, compiled.

With G the inverse on some cells: taking cell j away gives G - G_j G_j' / G_jj without its row and column j, and
adding a cell with column h of H and u = G h gives [[G + u u' / t, -u / t], [-u' / t, 1 / t]], t = H_ii - h'u.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from tallyveil.kernels.cholesky import invert
from tallyveil.kernels.compiled import part, written_out
from tallyveil.kernels.family_program import Booleans, Floats, Integers, Program
from tallyveil.kernels.vectors import add_scaled, copy_stretch, invert_small, set_to

MOST_UPDATES = 64
"""Changes of rank one after which an inverse is computed anew, which ends the growth of rounding errors."""

CELLS_AN_UPDATE = 6
"""A change of rank one costs what a new inverse costs on this many cells less."""


DEFINITE = 1e-8
"""Part of a cell's curvature that must be left to it for a change of rank one to be exact enough."""


FEW_CELLS = 12
"""Up to so many cells, plain elimination is faster than Cholesky's method; where a ridge makes H ill-conditioned,
it is not exact enough."""


class Factors(NamedTuple):
    """Solved faces of all children, each with room for more free cells than it has.

    Attributes:
        cells: Free cells in ascending order; child c's from cells_of[c] on.
        cells_of: Where children begin; the room of child c is cells_of[c + 1] - cells_of[c]. [C + 1]
        n_free: Free cells, -1: nothing computed. [C]
        n_updates: Changes of rank one since the inverse was computed. [C]
        inverse: G of each child, row after row, each as long as the child has room, from inverse_of[c] on.
        inverse_of: [C + 1]
        rows: Binding rows; child c's from program.child_rows[c] on. [R]
        n_rows: [C]
        weighted: W of each child, likewise, from weighted_of[c] on.
        weighted_of: [C + 1]
        bound: 1 / M of each child, m x m, from bound_of[c] on.
        bound_of: [C + 1]
        schur: Cholesky factor U of the Schur complement U'U; empty at a root. [g, g]
    """

    cells: Integers
    cells_of: Integers
    n_free: Integers
    n_updates: Integers
    inverse: Floats
    inverse_of: Integers
    rows: Integers
    n_rows: Integers
    weighted: Floats
    weighted_of: Integers
    bound: Floats
    bound_of: Integers
    schur: Floats


@njit(nogil=True, cache=True)
def no_factors(program: Program, free: Booleans) -> Factors:
    """Nothing solved yet, with room for these free cells and some more."""
    n_children, n_cells = free.shape
    cells_of, inverse_of = np.zeros(n_children + 1, np.int64), np.zeros(n_children + 1, np.int64)
    weighted_of, bound_of = np.zeros(n_children + 1, np.int64), np.zeros(n_children + 1, np.int64)
    for c in range(n_children):
        n, most = 0, 0
        for i in range(n_cells):
            n += free[c, i]
            most += program.allowed[c, i]
        room = min(most, n + 4 + n // 8)
        m = program.child_rows[c + 1] - program.child_rows[c]
        cells_of[c + 1] = cells_of[c] + room
        inverse_of[c + 1] = inverse_of[c] + room * room
        weighted_of[c + 1] = weighted_of[c] + m * room
        bound_of[c + 1] = bound_of[c] + m * m
    return Factors(
        np.empty(cells_of[n_children], np.int64),
        cells_of,
        np.full(n_children, -1, np.int64),
        np.zeros(n_children, np.int64),
        np.empty(inverse_of[n_children]),
        inverse_of,
        np.empty(program.child_row.size, np.int64),
        np.zeros(n_children, np.int64),
        np.empty(weighted_of[n_children]),
        weighted_of,
        np.empty(bound_of[n_children]),
        bound_of,
        np.empty((n_cells, n_cells) if program.has_sums else (0, 0)),
    )


@njit(nogil=True, cache=True)
def make_room(free: Booleans, factors: Factors, changed: Booleans) -> bool:
    """Whether every changed child has room for its free cells."""
    for c in range(free.shape[0]):
        if changed[c]:
            n = 0
            for i in range(free.shape[1]):
                n += free[c, i]
            if n > factors.cells_of[c + 1] - factors.cells_of[c]:
                return False
    return True


@written_out
def grown(program: Program, free: Booleans, before: Factors) -> Factors:
    """The same factors with room for other free cells."""
    wanted = free.copy()
    for c in range(free.shape[0]):
        for t in range(before.cells_of[c], before.cells_of[c] + before.n_free[c]):
            wanted[c, before.cells[t]] = True
    after = no_factors(program, wanted)
    set_to(after.n_free, before.n_free)
    set_to(after.n_updates, before.n_updates)
    set_to(after.rows, before.rows)
    set_to(after.n_rows, before.n_rows)
    set_to(after.bound, before.bound)
    for c in range(free.shape[0]):
        f = max(before.n_free[c], 0)
        old, new = before.cells_of[c + 1] - before.cells_of[c], after.cells_of[c + 1] - after.cells_of[c]
        for b in range(f):
            after.cells[after.cells_of[c] + b] = before.cells[before.cells_of[c] + b]
        _copy_rows(before.inverse, before.inverse_of[c], old, after.inverse, after.inverse_of[c], new, f, f)
        m, start = before.n_rows[c], after.weighted_of[c]
        _copy_rows(before.weighted, before.weighted_of[c], old, after.weighted, start, new, m, f)
    return after


@part
def _copy_rows(
    source: Floats, first: int, width: int, out: Floats, out_first: int, out_width: int, n_rows: int, n: int
) -> None:
    for a in range(n_rows):
        copy_stretch(out, out_first + a * out_width, source, first + a * width, n)


@written_out
def update_inverses(
    program: Program, free: Booleans, factors: Factors, changed: Booleans, largest: int
) -> bool:
    """Bring changed children's inverses to other free cells; False where H is singular on them.

    Args:
        program: The pass's program.
        free: Variables that may be above zero. [C, g]
        factors: Changed in place; with room.
        changed: Children to look at. [C]
        largest: No child has more free cells.
    """
    one, two, three = np.empty((largest, largest)), np.empty((largest, largest)), np.empty((largest, largest))
    hessian, ridge, answers, weights = program.hessian, program.ridge, program.answers, program.weights
    curvature, held = program.curvature, program.hessian.size > 0
    cells, inverse = factors.cells, factors.inverse
    for c in range(free.shape[0]):
        if not changed[c]:
            continue
        first, place = factors.cells_of[c], factors.inverse_of[c]
        width, f, kind = factors.cells_of[c + 1] - first, factors.n_free[c], program.kind[c]
        n_wanted, n_kept = 0, 0
        wanted = free[c]
        for i in range(wanted.size):
            n_wanted += wanted[i]
        for t in range(first, first + f):
            n_kept += wanted[cells[t]]
        n_changes = (f - n_kept) + (n_wanted - n_kept)
        if n_changes == 0 and f >= 0:
            continue
        factors.n_updates[c] += n_changes
        anew = f < 0 or n_changes * CELLS_AN_UPDATE > n_wanted or factors.n_updates[c] > MOST_UPDATES
        a = int(np.int64(0))
        while not anew and a < f:
            if free[c, cells[first + a]]:
                a += 1
            else:
                anew = not inverse[place + a * (width + 1)] > 0.0
                if not anew:
                    _take_away(inverse, place, width, cells, first, f, a, one[0])
                    f -= 1
        a, i = int(np.int64(0)), int(np.int64(0))
        while not anew and i < free.shape[1]:
            if free[c, i]:
                if a == f or cells[first + a] != i:
                    _gather(hessian, ridge, answers, weights, kind, i, cells, first, f, one[0])
                    left = curvature[kind, i]
                    anew = not _add(
                        inverse, place, width, cells, first, f, a, i, left, one[0], two[0], three[0]
                    )
                    f += 1
                a += 1
            i += 1
        if anew:
            f = int(np.int64(0))
            for i in range(free.shape[1]):
                if free[c, i]:
                    cells[first + f] = i
                    f += 1
            factors.n_free[c], factors.n_updates[c] = -1, 0
            if f <= FEW_CELLS and held and (f == 0 or ridge[kind, cells[first]] == 0.0):
                for a in range(f):
                    _gather(hessian, ridge, answers, weights, kind, cells[first + a], cells, first, f, one[0])
                    copy_stretch(inverse, place + a * width, one[0], 0, f)
                if not invert_small(inverse, place, width, f):
                    return False
            else:
                for a in range(f):
                    _gather(hessian, ridge, answers, weights, kind, cells[first + a], cells, first, f, one[a])
                if not invert(one, f, two, three):
                    return False
                for a in range(f):
                    copy_stretch(inverse, place + a * width, three[a], 0, f)
        factors.n_free[c] = f
    return True


@part
def _gather(
    hessian: Floats,
    ridge: Floats,
    answers: Integers,
    weights: Floats,
    kind: int,
    i: int,
    cells: Integers,
    first: int,
    n: int,
    out: Floats,
) -> None:
    """H at row i and n cells' columns, from its row where H is held."""
    if hessian.size > 0:
        for b in range(n):
            out[b] = hessian[kind, i, np.uint64(cells[np.uint64(first + b)])]
        return
    for b in range(n):
        j = cells[first + b]
        total = ridge[kind, i] if i == j else 0.0
        for q in range(answers.shape[1]):
            if answers[i, q] >= 0 and answers[i, q] == answers[j, q]:
                total += weights[kind, answers[i, q]]
        out[b] = total


@part
def _take_away(
    inverse: Floats,
    place: int,
    width: int,
    cells: Integers,
    first: int,
    f: int,
    position: int,
    column: Floats,
) -> None:
    """Remove the free cell at a position."""
    for b in range(f):
        column[b] = inverse[place + position * width + b]
    scale = 1.0 / column[position]
    for a in range(f):
        if a != position:
            factor = column[a] * scale
            old = place + a * width
            new = old if a < position else old - width
            add_scaled(inverse, old, -factor, column, 0, f)
            if old != new:
                copy_stretch(inverse, new, inverse, old, position)
            copy_stretch(inverse, new + position, inverse, old + position + 1, f - position - 1)
    for a in range(position + 1, f):
        cells[first + a - 1] = cells[first + a]


@part
def _add(
    inverse: Floats,
    place: int,
    width: int,
    cells: Integers,
    first: int,
    f: int,
    position: int,
    cell: int,
    curvature: float,
    column: Floats,
    product: Floats,
    scratch: Floats,
) -> bool:
    """Insert a free cell, whose column of H is given, at a position; False where H would look singular."""
    for b in range(f):
        product[b] = 0.0
    for a in range(f):
        add_scaled(product, 0, column[a], inverse, place + a * width, f)
    left = curvature
    for a in range(f):
        left -= column[a] * product[a]
    if not left > DEFINITE * curvature:
        return False
    scale = 1.0 / left
    # from the last row up, each through scratch, so that nothing is overwritten before it is read
    for old in range(f - 1, -1, -1):
        source = place + old * width
        new = source if old < position else source + width
        add_scaled(inverse, source, product[old] * scale, product, 0, f)
        copy_stretch(scratch, 0, inverse, source, f)
        copy_stretch(inverse, new, scratch, 0, position)
        inverse[new + position] = -product[old] * scale
        copy_stretch(inverse, new + position + 1, scratch, position, f - position)
    new = place + position * width
    for b in range(f):
        inverse[new + b if b < position else new + b + 1] = -product[b] * scale
    inverse[new + position] = scale
    for a in range(f, position, -1):
        cells[first + a] = cells[first + a - 1]
    cells[first + position] = cell
    return True
