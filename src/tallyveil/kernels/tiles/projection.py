"""Projection of a point on tables with fixed sums, compiled.

Problem: given a number v for each entry, find the counts x >= 0 with the tables' sums that are nearest to v. The
squared distance of an entry is weighted by its row's weight. The answer is

    x = max(0, v - give * (price of the outer line + price of the inner line)),

where give is the product of both lines' gives: a row's give is its slack, a column's is 1. Variables: the prices.

Step: for given inner prices, the price of an outer line follows exactly (`kernels.simplex`). What is left is the dual
function of the inner prices. It is concave and smooth, and its gradient is the sum of x minus the total of each inner
line. Two passes move each inner price by itself. Then Newton's method solves the equations of `schur`, with a damping
that falls with the gap. A step that does not raise the dual function enough is shortened. Without the
damping Newton's method diverges where the active entries fall into parts that are not connected.

Stopping rule: no sum of an inner line misses its total by more than the tolerance, or by more than the rounding errors
of its entries: 2^-52 of the largest numbers from which they are made, times the number of entries above zero. No price
comes nearer: if n entries of a line are above zero and its price changes by one rounding error, its sum changes by n.

Worked case: columns with totals 1 and 1, rows with totals 1 and 1, v = [[1, 0], [1, 1]] by columns. The outer prices
for inner prices of zero are 0 and 1/2, so x = [[1, 0], [1/2, 1/2]], and the rows have the sums 3/2 and 1/2. At the
inner prices 1/4 and -1/4 the outer prices are -1/4 and 1/2, and x = [[3/4, 1/4], [1/4, 3/4]] has all sums.

Oracle: PIQP, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.cholesky import cholesky, solve_cholesky
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.simplex import simplex_shift, weighted_shift
from tallyveil.kernels.tiles.schur import DENSE_LINES, Active, fill_matrix, solve_by_steps
from tallyveil.kernels.tiles.tables import Prices, Tables

ROUNDING = 2.0**-52
"""Rounding errors of an entry, relative to the largest numbers from which it is made. Those of a sum are at most as
many times larger as entries are added."""

ALTERNATIONS = 2
"""Passes that move each inner price by itself, after a step of Newton's method was taken back."""

LEAST_DAMPING, DAMPING = 1e-9, 0.05
"""Damping of Newton's equations: at least, and in units of a gap below one person."""

CG_PRECISION = 1e-3
"""Part of the right side that may be left of Newton's equations where conjugate gradients solve them; the next step of
Newton's method mends it."""

EVEN = 1e-12
"""Near the end, rounding errors hide what a step does to the dual function. A step may lower it by this part if the gap
shrinks."""

FIRST_ALTERNATIONS = 1
"""Such passes before the first step of Newton's method."""

SHORTER, TRIES = 0.35, 6
"""A step that does not help is shortened by this factor, at most so often."""


class Side(NamedTuple):
    """The lines of one side of a table: totals (none where the lines are free), gives and prices."""

    total: Floats
    give: Floats
    price: Floats


class Bench(NamedTuple):
    """Room for the work on one table; what a pass found out about the inner lines.

    Attributes:
        left: [inner lines], an outer line's numbers after the inner prices.
        column: [outer lines], an inner line's numbers after the outer prices.
        drop: give * price of each inner line.
        sums: Sums of x. slope: how fast they fall. energy: parts of the dual function.
        before_step, move: Inner prices before the last step, and the step.
        begin, lines: Active entries, as the inner lines of each outer line.
        matrix: Of the equations.
    """

    left: Floats
    column: Floats
    drop: Floats
    sums: Floats
    slope: Floats
    energy: Floats
    before_step: Floats
    move: Floats
    begin: Integers
    lines: Int32s
    matrix: Floats


@njit(nogil=True, cache=True)
def project(tables: Tables, point: Floats, prices: Prices, x: Floats, tolerance: float, limit: int) -> float:
    """Project a point on all tables, from the prices on. The prices are changed.

    Returns:
        The largest gap of a sum, as a multiple of what is allowed for its table. It is at most 1 on success.
    """
    # one work space for all tables of a component, as long as the largest of them
    bench, ones = _bench(tables)
    worst = 0.0
    for p in range(tables.upright.size):
        first, last = tables.column_begin[p], tables.column_begin[p + 1]
        top, bottom = tables.row_begin[p], tables.row_begin[p + 1]
        begin, end = tables.entry_begin[p], tables.entry_begin[p + 1]
        columns = Side(
            tables.column_total[first:last] if tables.column_total.size else tables.column_total,
            ones[: last - first],
            prices.column[first:last],
        )
        rows = Side(tables.row_total[top:bottom], tables.slack[top:bottom], prices.row[top:bottom])
        # the longer side is outer: its prices are eliminated line by line, and only the shorter one is solved
        # for
        outer, inner = (columns, rows) if tables.upright[p] else (rows, columns)
        gap = _project_table(point[begin:end], outer, inner, bench, x[begin:end], tolerance, limit)
        worst = max(worst, gap)
    return worst


@internal
def _bench(tables: Tables) -> tuple[Bench, Floats]:
    """Room for the largest table, and ones for its lines."""
    n_inner, n_outer, n_entries = int(np.int64(0)), int(np.int64(0)), int(np.int64(0))
    dense = int(np.int64(0))
    for p in range(tables.upright.size):
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        n_rows = tables.row_begin[p + 1] - tables.row_begin[p]
        inner, outer = (n_rows, n_columns) if tables.upright[p] else (n_columns, n_rows)
        n_inner, n_outer, n_entries = (
            max(n_inner, inner),
            max(n_outer, outer),
            max(n_entries, n_rows * n_columns),
        )
        # only tables that are solved densely need a matrix, and at a root columns are free and need none
        if inner <= DENSE_LINES and tables.column_total.size:
            dense = max(dense, inner)
    bench = Bench(
        np.empty(n_inner),
        np.empty(n_outer),
        np.empty(n_inner),
        np.empty(n_inner),
        np.empty(n_inner),
        np.empty(n_inner),
        np.empty(n_inner),
        np.empty(n_inner),
        np.zeros(n_outer + 1, np.int64),
        np.empty(n_entries if tables.column_total.size else 0, np.int32),
        np.empty((dense, dense)),
    )
    return bench, np.ones(max(n_inner, n_outer))


@internal
def _project_table(
    point: Floats, outer: Side, inner: Side, bench: Bench, x: Floats, tolerance: float, limit: int
) -> float:
    """Project on one table. Returns the largest gap of an inner line's sum, as a multiple of what is allowed."""
    n = inner.price.size
    price, before_step, move = inner.price, bench.before_step, bench.move
    # with gives of 1 the inner steps are plain projections onto a simplex
    uniform = True
    for j in range(n):
        uniform &= inner.give[j] == 1.0
    gap, before, value_before, allowed = np.inf, np.inf, -np.inf, tolerance
    step, slope, tries, waiting, damping = 1.0, 0.0, 0, FIRST_ALTERNATIONS, LEAST_DAMPING
    newton, back = False, False
    for _ in range(limit):
        # Outer sums are exact after each pass, so that only inner sums can miss.
        gap, value, size = _pass(point, outer, inner, bench, uniform)
        allowed = max(tolerance, ROUNDING * size)
        if gap <= allowed:
            break
        # Armijo's rule for the dual function. Where rounding errors hide that, a gap that shrinks is enough.
        helps = value >= value_before + 1e-4 * step * slope
        helps |= gap <= 0.9 * before and value >= value_before - EVEN * abs(value)
        # a step of `_alternate` is exact in each price and cannot lower the dual function, so it is never
        # taken back
        if newton and not back and not helps:
            tries += 1
            back = tries > TRIES
            step = 0.0 if back else step * SHORTER
            for j in range(n):
                price[j] = before_step[j] + step * move[j]
            # the last accepted prices and the same move, shorter: no new equations
            continue
        if back:
            waiting, damping, back = ALTERNATIONS, 10.0 * damping, False  # and more careful steps from now on
        # an accepted step: from here on the reference is this pass
        before, value_before, tries, step = gap, value, 0, 1.0
        lonely = False
        for j in range(n):
            before_step[j] = price[j]
            lonely |= bench.slope[j] == 0.0
        # A line without an entry above zero has no slope, so that Newton's equations say nothing about its price.
        newton = waiting == 0 and not lonely
        if newton:
            slope = _newton_step(point, outer, inner, bench, max(damping, DAMPING * min(1.0, gap)))
        else:
            # before Newton's method begins, and wherever its step was taken back in full
            waiting = max(waiting - 1, 0)
            _alternate(point, outer, inner, bench)
    _write(point, outer, inner, bench, x)
    return gap / allowed


@internal
def _pass(point: Floats, outer: Side, inner: Side, bench: Bench, uniform: bool) -> tuple[float, float, float]:
    """Find the outer prices.

    Returns:
        The largest gap of an inner line, the dual function up to a constant, and the largest numbers that are added up
        times the most entries of an inner line above zero.
    """
    n = inner.price.size
    # names of arrays outside of the loops over entries
    left, drop, sums, slope, energy = bench.left, bench.drop, bench.sums, bench.slope, bench.energy
    give, size = inner.give, 0.0
    for j in range(n):
        drop[j] = give[j] * inner.price[j]
        sums[j], slope[j], energy[j] = 0.0, 0.0, 0.0
    for o in range(outer.price.size):
        give_of_line, row = outer.give[o], point[o * n : (o + 1) * n]
        for j in range(n):
            # every entry of an outer line at once: the line's price is then found exactly
            left[j] = row[j] - give_of_line * drop[j]
        start = give_of_line * outer.price[o]
        if uniform:
            shift = simplex_shift(left, n, outer.total[o], start)
        else:
            shift = weighted_shift(left, give, n, outer.total[o], start)
        # prices of the last pass are where the next search starts
        outer.price[o] = shift / give_of_line
        size = max(size, abs(shift) + outer.total[o])
        for j in range(n):
            value = left[j] - shift * give[j]
            value = value if value > 0.0 else 0.0
            sums[j] += value
            slope[j] += give_of_line if value > 0.0 else 0.0
            # x * (x / 2 - v): the dual function's part of the entry, without the constant
            energy[j] += value * (0.5 * value - row[j]) / give_of_line
    # at a root inner lines have no totals, and the outer prices are the answer
    if inner.total.size == 0:
        return 0.0, 0.0, size
    gap, total, moved, most = 0.0, 0.0, 0.0, 1.0
    for j in range(n):
        # how many entries of the line are above zero, or at most that
        most = max(most, min(slope[j], float(outer.price.size)))  # gives are at least 1
        slope[j] *= give[j]
        gap, moved = max(gap, abs(sums[j] - inner.total[j])), max(moved, abs(drop[j]) + inner.total[j])
        # the linear part of the dual function: what the sums have too much
        total += energy[j] / give[j] + inner.price[j] * (sums[j] - inner.total[j])
    return gap, total, (size + moved) * most


@internal
def _alternate(point: Floats, outer: Side, inner: Side, bench: Bench) -> None:
    """Find each inner price for the outer prices of the last pass."""
    # one inner line after another, with the outer prices of the last pass: coordinate ascent
    n, n_outer = inner.price.size, outer.price.size
    uniform = True
    for o in range(n_outer):
        uniform &= outer.give[o] == 1.0
    for j in range(n):
        give_of_line = inner.give[j]
        for o in range(n_outer):
            bench.column[o] = point[o * n + j] - outer.give[o] * give_of_line * outer.price[o]
        if uniform:
            shift = simplex_shift(bench.column, n_outer, inner.total[j], give_of_line * inner.price[j])
        else:
            shift = weighted_shift(
                bench.column, outer.give, n_outer, inner.total[j], give_of_line * inner.price[j]
            )
        inner.price[j] = shift / give_of_line


@internal
def _newton_step(point: Floats, outer: Side, inner: Side, bench: Bench, damping: float) -> float:
    """Move the inner prices by Newton's method. Returns how fast the dual function rises at first."""
    # counted while it is listed, since the number of active entries is only known now
    n, n_active = inner.price.size, int(np.int64(0))
    for o in range(outer.price.size):
        bench.begin[o] = n_active
        give_of_line, shift = outer.give[o], outer.price[o] * outer.give[o]
        row = point[o * n : (o + 1) * n]
        for j in range(n):
            bench.lines[n_active] = j  # overwritten unless the entry is active
            n_active += row[j] - give_of_line * bench.drop[j] - shift * inner.give[j] > 0.0
    bench.begin[outer.price.size] = n_active
    active = Active(bench.begin, bench.lines, 0, outer.give, inner.give)
    move = bench.move[:n]
    for j in range(n):
        move[j] = bench.sums[j] - inner.total[j]
    if n <= DENSE_LINES:
        fill_matrix(active, damping, bench.matrix)
        cholesky(bench.matrix, n)
        solve_cholesky(bench.matrix, move)
    else:
        solve_by_steps(active, damping, CG_PRECISION, move)
    slope = 0.0
    for j in range(n):
        # the directional derivative at the last point, for Armijo's rule
        slope += move[j] * (bench.sums[j] - inner.total[j])
        inner.price[j] += move[j]
    return slope


@internal
def _write(point: Floats, outer: Side, inner: Side, bench: Bench, x: Floats) -> None:
    """The counts that belong to the prices of the last pass."""
    # entries follow from the prices, and are never stored by the passes before
    n = inner.price.size
    for o in range(outer.price.size):
        give_of_line, shift = outer.give[o], outer.price[o] * outer.give[o]
        for j in range(n):
            value = point[o * n + j] - give_of_line * bench.drop[j] - shift * inner.give[j]
            x[o * n + j] = value if value > 0.0 else 0.0
