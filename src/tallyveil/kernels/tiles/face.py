"""How the counts above zero answer to forces, when the others stay zero and all sums stay fixed, compiled.

Problem: the entries above zero are the *active* ones. A force r on each active entry moves their counts by the z that
minimises the sum of weight/2 * z^2 - r z, among moves that leave all sums of the tables as they are. Variables: the
moves.

Step: an outer line's price is the mean of its forces, weighted by the gives. The prices of the inner lines solve the
equations of `schur` with a tiny damping, factored once for each face. The step is made twice, which removes the error
of the damping.

Worked case: a table of two by two active entries of weight 1, with the force 1 on one of them. All moves of a row or a
column cancel, so the moves are 1/4, -1/4, -1/4, 1/4.

Oracle: the projection by `numpy.linalg`, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.cholesky import cholesky, solve_cholesky
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.tiles.schur import Active, fill_matrix, solve_by_steps
from tallyveil.kernels.tiles.tables import Tables

FACTORED_LINES = 1024
"""Most inner lines whose equations are factored. A factor serves all forces at a point, and there are hundreds."""

DAMPING, PRECISION = 1e-9, 1e-9
"""Of the equations of the inner lines, per outer line, and of their solution by conjugate gradients."""

REPEATS = 1


class Face(NamedTuple):
    """The active entries of all tables.

    Attributes:
        begin: [outer lines + 1], where each outer line's active entries begin. Outer lines are numbered through.
        inner: Inner line of each active entry.
        column, child: Its column and its child.
        outer_begin: [P + 1], first outer line of each table.
        factor_begin: [P + 1], where each table's factor begins; none where the inner side is large or free.
        factors: Cholesky factors.
        ones: As many as any table has lines.
        right: Room for one table's equations.
    """

    begin: Integers
    inner: Int32s
    column: Int32s
    child: Int32s
    outer_begin: Integers
    factor_begin: Integers
    factors: Floats
    ones: Floats
    right: Floats


@internal
def list_face(tables: Tables, x: Floats) -> Face:
    """The face of a point, with the factors of its tables."""
    n_tables, n_active, n_outer, longest = tables.upright.size, 0, 0, 0
    outer_begin, factor_begin = np.zeros(n_tables + 1, np.int64), np.zeros(n_tables + 1, np.int64)
    for p in range(n_tables):
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        n_rows = tables.row_begin[p + 1] - tables.row_begin[p]
        outer, inner = (n_columns, n_rows) if tables.upright[p] else (n_rows, n_columns)
        outer_begin[p + 1] = outer_begin[p] + outer
        dense = inner <= FACTORED_LINES and tables.column_total.size > 0
        factor_begin[p + 1] = factor_begin[p] + (inner * inner if dense else 0)
        n_outer, longest = n_outer + outer, max(longest, inner, outer)
    for e in range(x.size):
        n_active += x[e] > 0.0
    face = Face(
        np.zeros(n_outer + 1, np.int64),
        np.empty(n_active, np.int32),
        np.empty(n_active, np.int32),
        np.empty(n_active, np.int32),
        outer_begin,
        factor_begin,
        np.empty(factor_begin[n_tables]),
        np.ones(longest),
        np.empty(longest),
    )
    _list_entries(tables, x, face)
    for p in range(n_tables):
        n = _inner_lines(tables, p)
        if factor_begin[p + 1] > factor_begin[p]:
            matrix = face.factors[factor_begin[p] : factor_begin[p + 1]].reshape(n, n)
            active = _active(tables, face, p)
            fill_matrix(active, DAMPING * (1 + active.outer_give.size), matrix)
            cholesky(matrix, n)
    return face


@internal
def _inner_lines(tables: Tables, p: int) -> int:
    if tables.upright[p]:
        return int(tables.row_begin[p + 1] - tables.row_begin[p])
    return int(tables.column_begin[p + 1] - tables.column_begin[p])


@internal
def _list_entries(tables: Tables, x: Floats, face: Face) -> None:
    """Fill in the active entries."""
    n_active, outer = int(np.int64(0)), int(np.int64(0))
    for p in range(tables.upright.size):
        n = _inner_lines(tables, p)
        n_outer = face.outer_begin[p + 1] - face.outer_begin[p]
        e = tables.entry_begin[p]
        first_column, first_row = tables.column_begin[p], tables.row_begin[p]
        for o in range(n_outer):
            face.begin[outer] = n_active
            outer += 1
            for j in range(n):
                if x[e] > 0.0:
                    column, row = (o, j) if tables.upright[p] else (j, o)
                    face.inner[n_active] = j
                    face.column[n_active] = first_column + column
                    face.child[n_active] = tables.child[first_row + row]
                    n_active += 1
                e += 1
    face.begin[outer] = n_active


@internal
def _active(tables: Tables, face: Face, p: int) -> Active:
    """The active entries of one table."""
    n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
    slack = tables.slack[tables.row_begin[p] : tables.row_begin[p + 1]]
    outer, inner = (face.ones[:n_columns], slack) if tables.upright[p] else (slack, face.ones[:n_columns])
    return Active(face.begin, face.inner, face.outer_begin[p], outer, inner)


@internal
def answer_forces(tables: Tables, face: Face, force: Floats) -> None:
    """Replace the force on each active entry by the entry's move."""
    for p in range(tables.upright.size):
        active, n = _active(tables, face, p), _inner_lines(tables, p)
        for _ in range(REPEATS if tables.column_total.size else 1):
            right = face.right[:n]
            _take_means(active, force, right)
            if tables.column_total.size == 0:
                break
            if face.factor_begin[p + 1] > face.factor_begin[p]:
                factor = face.factors[face.factor_begin[p] : face.factor_begin[p + 1]].reshape(n, n)
                solve_cholesky(factor, right)
            else:
                solve_by_steps(active, DAMPING * (1 + active.outer_give.size), PRECISION, right)
            _take_prices(active, force, right)
        heaviest = 0.0
        for k in range(tables.row_begin[p], tables.row_begin[p + 1]):
            heaviest = max(heaviest, tables.weight[k])
        for o in range(active.outer_give.size):
            for z in range(active.begin[active.first + o], active.begin[active.first + o + 1]):
                force[z] *= active.outer_give[o] * active.inner_give[active.inner[z]] / heaviest


@internal
def _take_means(active: Active, force: Floats, right: Floats) -> None:
    """Subtract each outer line's weighted mean, and sum what is left, times the gives, over the inner lines."""
    give = active.inner_give
    for j in range(right.size):
        right[j] = 0.0
    for o in range(active.outer_give.size):
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        lines, own = active.inner[begin:end], force[begin:end]
        total, mean = 0.0, 0.0
        for z in range(own.size):
            total += give[lines[z]]
            mean += give[lines[z]] * own[z]
        if own.size:
            mean /= total
            for z in range(own.size):
                own[z] -= mean
                right[lines[z]] += active.outer_give[o] * give[lines[z]] * own[z]


@internal
def _take_prices(active: Active, force: Floats, price: Floats) -> None:
    """Subtract the inner lines' prices, less their weighted mean over each outer line."""
    give = active.inner_give
    for o in range(active.outer_give.size):
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        lines, own = active.inner[begin:end], force[begin:end]
        total, mean = 0.0, 0.0
        for z in range(own.size):
            total += give[lines[z]]
            mean += give[lines[z]] * price[lines[z]]
        if own.size:
            mean /= total
            for z in range(own.size):
                own[z] -= price[lines[z]] - mean


@internal
def active_forces(tables: Tables, face: Face, price: Floats, force: Floats) -> None:
    """Write for each active entry the sum of its labels' prices. Those of a label lie side by side, child by child."""
    rows = price.reshape(tables.label_weight.shape)
    for p in range(tables.upright.size):
        for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
            begin, end = face.begin[outer], face.begin[outer + 1]
            own, child = force[begin:end], face.child[begin:end]
            for z in range(own.size):
                own[z] = 0.0
            if tables.upright[p] and begin < end:  # entries of one column, which have the same labels
                column = face.column[begin]
                for link in range(tables.label_begin[column], tables.label_begin[column + 1]):
                    row = rows[tables.label[link]]
                    for z in range(own.size):
                        own[z] += row[child[z]]
                continue
            for z in range(own.size):
                column, total = face.column[begin + z], 0.0
                for link in range(tables.label_begin[column], tables.label_begin[column + 1]):
                    total += rows[tables.label[link], child[z]]
                own[z] = total


@internal
def active_sums(tables: Tables, face: Face, force: Floats, sums: Floats) -> None:
    """Write the sum of each label in each child over the active entries."""
    rows = sums.reshape(tables.label_weight.shape)
    for j in range(sums.size):
        sums[j] = 0.0
    for p in range(tables.upright.size):
        for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
            begin, end = face.begin[outer], face.begin[outer + 1]
            own, child = force[begin:end], face.child[begin:end]
            if tables.upright[p] and begin < end:
                column = face.column[begin]
                for link in range(tables.label_begin[column], tables.label_begin[column + 1]):
                    row = rows[tables.label[link]]
                    for z in range(own.size):
                        row[child[z]] += own[z]
                continue
            for z in range(own.size):
                column = face.column[begin + z]
                for link in range(tables.label_begin[column], tables.label_begin[column + 1]):
                    rows[tables.label[link], child[z]] += own[z]
