"""Exact answers on a face, compiled: one small dense system a child, coupled by the prices of the cells.

The numpy twin and specification is `tallyveil.estimation.active_set`, which says what a face and its compliance
are. Here a child's system [[H, A'], [A, -compliance]] is solved through H's own inverse G on the free cells, the
product W = A G and the small matrix M = W A' + compliance: errors e (gradient) and m (rows) are answered by

    price of rows p = (m - W (e + price of cells)) / M,        dx = G (e + price of cells) + W' p,

and the prices of the cells by the Schur complement, the sum over children of G - W' W / M. From one face to the
next, G is brought up to date: a few cells that come or go change it by a matrix of rank one each, and rows do not
change it at all.
"""

import numpy as np
from numba import njit

from tallyveil.kernels.cholesky import cholesky, invert, solve_cholesky
from tallyveil.kernels.compiled import part, written_out
from tallyveil.kernels.family_inverse import Factors, grown, make_room, update_inverses
from tallyveil.kernels.family_program import Booleans, Floats, Integers, Program
from tallyveil.kernels.vectors import add_scaled, copy_stretch


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
        before: Factors of another face of this program; changed in place.
        changed: Children whose face, or whose rows' compliance, is not the one before. [C]
    Returns:
        False where a system is singular; the factors, which are `before` unless something has outgrown it.
    """
    n_children, n_cells = free.shape
    after = before if make_room(free, before, changed) else grown(program, free, before)
    largest, most_rows = int(np.int64(0)), int(np.int64(0))
    for c in range(n_children):
        largest = max(largest, after.cells_of[c + 1] - after.cells_of[c])
        most_rows = max(most_rows, program.child_rows[c + 1] - program.child_rows[c])
    if not update_inverses(program, free, after, changed, largest):
        return False, after
    if most_rows > 0 and not _bind(program, side, after, changed, row_compliance, most_rows):
        return False, after
    if not program.has_sums:
        return True, after
    schur = after.schur
    schur[:] = 0.0
    _add_schur(after, np.empty((most_rows + 1, largest)), schur)
    for i in range(n_cells):
        schur[i, i] = schur[i, i] * (1.0 + cell_compliance) if schur[i, i] > 0.0 else 1.0
    return cholesky(schur, n_cells), after


@written_out
def _bind(
    program: Program, side: Integers, after: Factors, changed: Booleans, compliance: float, most: int
) -> bool:
    """W and 1 / M of changed children's binding rows."""
    small, scratch, small_inverse = np.empty((most, most)), np.empty((most, most)), np.empty((most, most))
    rows, weighted, inverse, cells = after.rows, after.weighted, after.inverse, after.cells
    bound_label, row_bound, row_label = program.bound_label, program.row_bound, program.row_label
    for c in range(changed.size):
        first, m = program.child_rows[c], 0
        if not changed[c] or first == program.child_rows[c + 1]:
            continue
        for t in range(first, program.child_rows[c + 1]):
            if side[program.child_row[t]] != 0:
                rows[first + m] = program.child_row[t]
                m += 1
        after.n_rows[c] = m
        begin, f, width = after.cells_of[c], after.n_free[c], after.cells_of[c + 1] - after.cells_of[c]
        for k in range(m):
            bound, label = row_bound[rows[first + k]], row_label[rows[first + k]]
            place = after.weighted_of[c] + k * width
            for b in range(f):
                weighted[place + b] = 0.0
            for a in range(f):
                if bound_label[bound, cells[begin + a]] == label:
                    add_scaled(weighted, place, 1.0, inverse, after.inverse_of[c] + a * width, f)
        for k in range(m):
            bound, label = row_bound[rows[first + k]], row_label[rows[first + k]]
            for t in range(k + 1):
                total, place = 0.0, after.weighted_of[c] + t * width
                for a in range(f):
                    if bound_label[bound, cells[begin + a]] == label:
                        total += weighted[place + a]
                small[t, k] = total
            small[k, k] += compliance / program.row_stiffness
        if m == 1 and small[0, 0] > 0.0:
            small_inverse[0, 0] = 1.0 / small[0, 0]
        elif not invert(small, m, scratch, small_inverse):
            return False
        for k in range(m):
            for t in range(m):
                after.bound[after.bound_of[c] + k * m + t] = small_inverse[k, t]
    return True


@part
def _add_schur(factors: Factors, scratch: Floats, schur: Floats) -> None:
    """Add the upper half of the Schur complement."""
    cells, inverse, weighted, bound = factors.cells, factors.inverse, factors.weighted, factors.bound
    length, last = scratch.shape[1], (scratch.shape[0] - 1) * scratch.shape[1]
    mixed = scratch.reshape(-1)
    for c in range(factors.n_free.size):
        begin, f, m = factors.cells_of[c], factors.n_free[c], factors.n_rows[c]
        place, width = factors.inverse_of[c], factors.cells_of[c + 1] - factors.cells_of[c]
        if m == 0:
            for a in range(f):
                i = cells[begin + a]
                for b in range(a, f):
                    at = np.uint64(place + b)
                    schur[i, np.uint64(cells[np.uint64(begin + b)])] += inverse[at]
                place += width
            continue
        rows_place, bound_place = factors.weighted_of[c], factors.bound_of[c]
        for k in range(m):
            mixed[k * length : k * length + f] = 0.0
            for t in range(m):
                factor = bound[bound_place + k * m + t]
                add_scaled(mixed, k * length, factor, weighted, rows_place + t * width, f)
        for a in range(f):
            i = cells[begin + a]
            copy_stretch(mixed, last + a, inverse, place + a, f - a)
            for k in range(m):
                factor = -weighted[rows_place + k * width + a]
                add_scaled(mixed, last + a, factor, mixed, k * length + a, f - a)
            for b in range(a, f):
                schur[i, np.uint64(cells[np.uint64(begin + b)])] += mixed[np.uint64(last + b)]
            place += width


@written_out
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
    n_children, n_cells = x.shape
    cells, cells_of, n_free = factors.cells, factors.cells_of, factors.n_free
    step, right, price = np.empty(cells.size), np.empty(cells.size), np.empty(row_price.size)
    for c in range(n_children):
        for t in range(cells_of[c], cells_of[c] + n_free[c]):
            right[t] = -costs[c, cells[t]]
    if program.has_sums:
        _answer(program, factors, right, missing_rows, step, price)
        for c in range(n_children):
            for t in range(cells_of[c], cells_of[c] + n_free[c]):
                missing_cells[cells[t]] -= step[t]
        solve_cholesky(factors.schur, missing_cells)
        for i in range(n_cells):
            cell_price[i] += missing_cells[i]
        for c in range(n_children):
            for t in range(cells_of[c], cells_of[c] + n_free[c]):
                right[t] += missing_cells[cells[t]]
    _answer(program, factors, right, missing_rows, step, price)
    for c in range(n_children):
        for t in range(cells_of[c], cells_of[c] + n_free[c]):
            x[c, cells[t]] += step[t]
        first = program.child_rows[c]
        for k in range(first, first + factors.n_rows[c]):
            row_price[factors.rows[k]] += price[k]


@part
def _answer(
    program: Program, factors: Factors, right: Floats, missing_rows: Floats, step: Floats, price: Floats
) -> None:
    """Changes of free cells into `step` and of binding rows' prices into `price`, in the factors' order."""
    cells, inverse, weighted, bound = factors.cells, factors.inverse, factors.weighted, factors.bound
    bound_label, missing = program.bound_label, np.empty(missing_rows.size)
    for c in range(factors.n_free.size):
        begin, f, m = factors.cells_of[c], factors.n_free[c], factors.n_rows[c]
        place, width = factors.inverse_of[c], factors.cells_of[c + 1] - begin
        for b in range(f):
            step[begin + b] = 0.0
        for a in range(f):
            add_scaled(step, begin, right[begin + a], inverse, place, f)
            place += width
        first = program.child_rows[c]
        for k in range(m):
            row = factors.rows[first + k]
            source, label = program.row_bound[row], program.row_label[row]
            missing[k] = missing_rows[row]
            for t in range(begin, begin + f):
                if bound_label[source, cells[t]] == label:
                    missing[k] -= step[t]
        place = factors.bound_of[c]
        for k in range(m):
            price[first + k] = 0.0
            for t in range(m):
                price[first + k] += bound[place + k * m + t] * missing[t]
        for k in range(m):
            add_scaled(step, begin, price[first + k], weighted, factors.weighted_of[c] + k * width, f)
