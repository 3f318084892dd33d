"""Exact answers on a face, compiled: one small dense system a child, coupled by the prices of the cells.

The numpy twin and specification is `tallyveil.estimation.active_set`, which says what a face and its compliance
are. Here a child's system [[H, A'], [A, -compliance]] is solved through H's own inverse G and the small matrix
M = A G A' + compliance: with K = G A' / M and P = G - K A G, errors e (gradient) and m (rows) are answered by

    dx = P (e + price of cells) + K m,        price of rows = m / M - K' (e + price of cells),

and the prices of the cells by the Schur complement, the sum over children of P. A child whose face has not
changed keeps its P, K and 1 / M.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from tallyveil.kernels.cholesky import cholesky, invert, solve_cholesky
from tallyveil.kernels.family_program import Booleans, Floats, Integers, Program


class Factors(NamedTuple):
    """Solved faces of all children, one after another.

    Attributes:
        cells: Free cells, child after child; cells_of[c] : cells_of[c + 1] are child c's.
        cells_of: [C + 1]
        rows: Binding rows, likewise.
        rows_of: [C + 1]
        free: P of each child, f x f, from free_of[c] on.
        free_of: [C + 1]
        mixed: K of each child, m x f (row after row of A), from mixed_of[c] on.
        mixed_of: [C + 1]
        bound: 1 / M of each child, m x m, from bound_of[c] on.
        bound_of: [C + 1]
        schur: Cholesky factor U of the Schur complement U'U; empty at a root. [g, g]
    """

    cells: Integers
    cells_of: Integers
    rows: Integers
    rows_of: Integers
    free: Floats
    free_of: Integers
    mixed: Floats
    mixed_of: Integers
    bound: Floats
    bound_of: Integers
    schur: Floats


@njit(nogil=True, cache=True)
def no_factors(program: Program) -> Factors:
    """Nothing solved yet."""
    n = program.allowed.shape[0] + 1
    none, empty = np.zeros(0, np.int64), np.zeros(0)
    start = np.zeros(n, np.int64)
    return Factors(none, start, none, start, empty, start, empty, start, empty, start, np.zeros((0, 0)))


@njit(nogil=True, cache=True)
def factor_face(
    program: Program,
    free: Booleans,
    side: Integers,
    row_compliance: float,
    cell_compliance: float,
    before: Factors,
    changed: Booleans,
) -> tuple[bool, Factors]:
    """Solve every child's system on a face, and the Schur complement.

    Args:
        program: The pass's program.
        free: Variables that may be above zero. [C, g]
        side: -1: a row binds below, 1: above, 2: it is an equality, 0: it does not bind. [R]
        row_compliance: See `tallyveil.estimation.active_set`.
        cell_compliance: Likewise, of the cells' sums.
        before: Factors of the face before this one.
        changed: Children whose face is not the one before. [C]
    Returns:
        False where a system is singular; the factors.
    """
    after = _layout(program, free, side)
    n_children, n_cells = free.shape
    largest = 0
    for c in range(n_children):
        f = after.cells_of[c + 1] - after.cells_of[c]
        largest = max(largest, f, after.rows_of[c + 1] - after.rows_of[c])
    one, two, three = np.empty((largest, largest)), np.empty((largest, largest)), np.empty((largest, largest))
    schur, dense = after.schur, program.hessian.size > 0
    for c in range(n_children):
        if not changed[c]:
            _keep(before.free, before.free_of, after.free, after.free_of, c)
            _keep(before.mixed, before.mixed_of, after.mixed, after.mixed_of, c)
            _keep(before.bound, before.bound_of, after.bound, after.bound_of, c)
        else:
            first, f = after.cells_of[c], after.cells_of[c + 1] - after.cells_of[c]
            if dense:
                _gather_hessian(program.hessian, after.cells, first, f, one)
            else:
                _build_hessian(program.ridge, program.answers, program.weights, after.cells, first, f, one)
            if not invert(one, f, two, three):
                return False, after
            place = after.free_of[c]
            for a in range(f):
                for b in range(f):
                    after.free[place + b] = three[a, b]
                place += f
            if after.rows_of[c + 1] > after.rows_of[c] and not _project(
                program, after, c, row_compliance, three
            ):
                return False, after
        if program.has_sums:
            first, last, place = after.cells_of[c], after.cells_of[c + 1], after.free_of[c]
            for a in range(first, last):
                for b in range(first, last):
                    schur[after.cells[a], after.cells[b]] += after.free[place]
                    place += 1
    if not program.has_sums:
        return True, after
    for i in range(n_cells):
        schur[i, i] = schur[i, i] * (1.0 + cell_compliance) if schur[i, i] > 0.0 else 1.0
    return cholesky(schur, n_cells), after


@njit(nogil=True, cache=True)
def _layout(program: Program, free: Booleans, side: Integers) -> Factors:
    """Where everything goes; contents not filled in, except cells and rows."""
    n_children, n_cells = free.shape
    cells_of, rows_of = np.zeros(n_children + 1, np.int64), np.zeros(n_children + 1, np.int64)
    free_of, mixed_of = np.zeros(n_children + 1, np.int64), np.zeros(n_children + 1, np.int64)
    bound_of = np.zeros(n_children + 1, np.int64)
    cells, rows = np.empty(free.size, np.int64), np.empty(side.size, np.int64)
    n, n_rows = 0, 0
    for c in range(n_children):
        for i in range(n_cells):
            if free[c, i]:
                cells[n] = i
                n += 1
        for t in range(program.child_rows[c], program.child_rows[c + 1]):
            if side[program.child_row[t]] != 0:
                rows[n_rows] = program.child_row[t]
                n_rows += 1
        f, m = n - cells_of[c], n_rows - rows_of[c]
        cells_of[c + 1], rows_of[c + 1] = n, n_rows
        free_of[c + 1] = free_of[c] + f * f
        mixed_of[c + 1] = mixed_of[c] + m * f
        bound_of[c + 1] = bound_of[c] + m * m
    return Factors(
        cells[:n].copy(),
        cells_of,
        rows[:n_rows].copy(),
        rows_of,
        np.empty(free_of[n_children]),
        free_of,
        np.empty(mixed_of[n_children]),
        mixed_of,
        np.empty(bound_of[n_children]),
        bound_of,
        np.zeros((n_cells, n_cells) if program.has_sums else (0, 0)),
    )


@njit(nogil=True, cache=True)
def _keep(before: Floats, before_of: Integers, after: Floats, after_of: Integers, child: int) -> None:
    after[after_of[child] : after_of[child + 1]] = before[before_of[child] : before_of[child + 1]]


@njit(nogil=True, cache=True)
def _gather_hessian(hessian: Floats, cells: Integers, first: int, n: int, out: Floats) -> None:
    """Upper half of H on the n free cells from `first` on."""
    for a in range(n):
        for b in range(a, n):
            out[a, b] = hessian[cells[first + a], cells[first + b]]


@njit(nogil=True, cache=True)
def _build_hessian(
    ridge: Floats, answers: Integers, weights: Floats, cells: Integers, first: int, n: int, out: Floats
) -> None:
    """`_gather_hessian` where H is not held."""
    for a in range(n):
        i = cells[first + a]
        for b in range(a, n):
            j = cells[first + b]
            total = ridge[i] if a == b else 0.0
            for q in range(answers.shape[1]):
                if answers[i, q] >= 0 and answers[i, q] == answers[j, q]:
                    total += weights[answers[i, q]]
            out[a, b] = total


@njit(nogil=True, cache=True)
def _project(program: Program, after: Factors, child: int, compliance: float, inverse: Floats) -> bool:
    """K and 1 / M of one child with rows, and P in place of G, which is `inverse`."""
    cells = after.cells[after.cells_of[child] : after.cells_of[child + 1]]
    rows = after.rows[after.rows_of[child] : after.rows_of[child + 1]]
    f, m = cells.size, rows.size
    projected = after.free[after.free_of[child] : after.free_of[child + 1]].reshape((f, f))
    mixed = after.mixed[after.mixed_of[child] : after.mixed_of[child + 1]].reshape((m, f))
    weighted = np.zeros((m, f))
    small, scratch, small_inverse = np.zeros((m, m)), np.empty((m, m)), np.empty((m, m))
    for k in range(m):
        labels, label = program.bound_label[program.row_bound[rows[k]]], program.row_label[rows[k]]
        for a in range(f):
            if labels[cells[a]] == label:
                for b in range(f):
                    weighted[k, b] += inverse[a, b]
    for k in range(m):
        labels, label = program.bound_label[program.row_bound[rows[k]]], program.row_label[rows[k]]
        for a in range(f):
            if labels[cells[a]] == label:
                for t in range(m):
                    small[k, t] += weighted[t, a]
        small[k, k] += compliance / program.row_stiffness
    if not invert(small, m, scratch, small_inverse):
        return False
    bound, place = after.bound, after.bound_of[child]
    for k in range(m):
        for t in range(m):
            bound[place + k * m + t] = small_inverse[k, t]
        for b in range(f):
            mixed[k, b] = 0.0
        for t in range(m):
            factor = small_inverse[k, t]
            for b in range(f):
                mixed[k, b] += factor * weighted[t, b]
    for k in range(m):
        for a in range(f):
            factor = weighted[k, a]
            if factor != 0.0:
                for b in range(f):
                    projected[a, b] -= factor * mixed[k, b]
    return True


@njit(nogil=True, cache=True)
def correct(
    program: Program,
    factors: Factors,
    costs: Floats,
    missing_rows: Floats,
    missing_cells: Floats,
    x: Floats,
    cell_price: Floats,
    row_price: Floats,
) -> None:
    """Solve the face's equations for these errors and add the answer in place.

    Args:
        program: The pass's program.
        factors: Of the face.
        costs: The Lagrangian's gradient; read where free. [C, g]
        missing_rows: Persons that binding rows lack. [R]
        missing_cells: Persons that cells lack; changed. [g]
        x: [C, g], changed where free.
        cell_price: [g], changed.
        row_price: [R], changed where binding.
    """
    n_children = x.shape[0]
    step = np.zeros(factors.cells.size)
    for c in range(n_children):
        first, last = factors.cells_of[c], factors.cells_of[c + 1]
        f, place = last - first, factors.free_of[c]
        for a in range(f):
            value = -costs[c, factors.cells[first + a]]
            for b in range(f):
                step[first + b] += value * factors.free[place + b]
            place += f
        place = factors.mixed_of[c]
        for t in range(factors.rows_of[c], factors.rows_of[c + 1]):
            value = missing_rows[factors.rows[t]]
            for b in range(f):
                step[first + b] += value * factors.mixed[place + b]
            place += f
        for a in range(f):
            missing_cells[factors.cells[first + a]] -= step[first + a]
    if program.has_sums:
        solve_cholesky(factors.schur, missing_cells)
        for i in range(cell_price.size):
            cell_price[i] += missing_cells[i]
    for c in range(n_children):
        first, last = factors.cells_of[c], factors.cells_of[c + 1]
        f, place = last - first, factors.free_of[c]
        for a in range(f if program.has_sums else 0):
            value = missing_cells[factors.cells[first + a]]
            for b in range(f):
                step[first + b] += value * factors.free[place + b]
            place += f
        for a in range(f):
            x[c, factors.cells[first + a]] += step[first + a]
        _correct_rows(program.has_sums, factors, c, costs, missing_rows, missing_cells, row_price)


@njit(nogil=True, cache=True)
def _correct_rows(
    has_sums: bool,
    factors: Factors,
    child: int,
    costs: Floats,
    missing_rows: Floats,
    cell_step: Floats,
    row_price: Floats,
) -> None:
    """Add one child's change of row prices, m / M - K' (e + change of cell prices)."""
    first, n_rows = factors.rows_of[child], factors.rows_of[child + 1] - factors.rows_of[child]
    place, small = factors.mixed_of[child], factors.bound_of[child]
    for k in range(n_rows):
        change = 0.0
        for t in range(n_rows):
            change += factors.bound[small + k * n_rows + t] * missing_rows[factors.rows[first + t]]
        for a in range(factors.cells_of[child], factors.cells_of[child + 1]):
            i = factors.cells[a]
            change -= factors.mixed[place] * ((cell_step[i] if has_sums else 0.0) - costs[child, i])
            place += 1
        row_price[factors.rows[first + k]] += change
