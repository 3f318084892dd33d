"""Tables with fixed sums and their prices, and the projection of a point on such tables, compiled.

A *table* belongs to one group of the parent's columns. It has a count for each pair of a column of the group
and a child. The sum over the children is fixed for each column, and the sum over the columns is fixed for
each child. A *label* is an answer of a measured query. It sums columns of one child, and may take columns of
several tables. So the tables depend on each other through labels alone.

A price belongs to a column, a row (a table's child) or a label of a child. The counts x that belong to prices
are

    x = max(0, centre - (prices of its labels + slack * (price of its column + price of its row)) / weight)

in each entry, where the last two prices are stated in persons: slack is the largest weight of the table over
the child's weight, and a price of 1 moves a count of a child with the largest weight by one person. Entries
of a table lie side by side. The *outer* side is the one with more lines; an inner line's entries are a step
apart.

*Projection.* Given a number v for each entry, find the counts x >= 0 with the tables' sums that are nearest
to v. The squared distance of an entry is weighted by its row's weight. The answer is

    x = max(0, v - give * (price of the outer line + price of the inner line)),

where give is the product of both lines' gives: a row's give is its slack, a column's is 1. Variables: the
prices.

Step: for given inner prices, the price of an outer line follows exactly (`kernels.vectors`). What is left is
the dual function of the inner prices. It is concave and smooth, and its gradient is the sum of x minus the
total of each inner line. Two passes move each inner price by itself. Then Newton's method solves the
equations below, with a damping that falls with the gap. A step that does not raise the dual function enough
is shortened. Without the damping Newton's method diverges where the active entries fall into parts that are
not connected.

Stopping rule: no sum of an inner line misses its total by more than the tolerance, or by more than the
rounding errors of its entries: 2^-52 of the largest numbers from which they are made, times the number of
entries above zero. No price comes nearer: if n entries of a line are above zero and its price changes by one
rounding error, its sum changes by n.

Worked case: columns with totals 1 and 1, rows with totals 1 and 1, v = [[1, 0], [1, 1]] by columns. The outer
prices for inner prices of zero are 0 and 1/2, so x = [[1, 0], [1/2, 1/2]], and the rows have the sums 3/2 and
1/2. At the inner prices 1/4 and -1/4 the outer prices are -1/4 and 1/2, and x = [[3/4, 1/4], [1/4, 3/4]] has
all sums. Oracle: PIQP, in the tests.

*Equations of the inner prices*, when the prices of the outer side are eliminated. Entries above zero are
*active*. If the price of an inner line rises by z, an active entry falls by give * z. The prices of the outer
lines then follow, so that their sums stay. The matrix S says how much the sums of the inner lines fall. With
g the gives of one outer line's active entries, S is the sum over the outer lines of diag(g) - g g' / sum(g).
It is positive semidefinite. Each connected part of the active entries leaves one direction in which nothing
changes. A damping d on the diagonal makes S + d I definite. Step: Cholesky's method where the inner side has
at most DENSE_LINES lines, conjugate gradients with the diagonal as preconditioner where it has more. Worked
case: one outer line with two active entries of give 1. S = [[1/2, -1/2], [-1/2, 1/2]]. Oracle: the dense
matrix in numpy, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, FloatRows, Floats, Integers, Uint32s
from tallyveil.kernels.compiled import hot, internal, njit, uncounted
from tallyveil.kernels.vectors import cholesky, simplex_shift, solve_cholesky, weighted_shift


class Tables(NamedTuple):
    """Tables that labels couple. There are P tables, K labels and C children.

    Numbers of children and labels are unsigned, here and in `direction`, since the compiler tests whether an index is
    negative wherever it could be. In the innermost loops that took longer than the additions.

    Attributes:
        column_begin: [P + 1], where each table's columns begin.
        row_begin: [P + 1], where its rows begin.
        entry_begin: [P + 1], where its entries begin.
        upright: [P], whether columns are the outer side. At a root the row is always the outer side.
        child: [rows], child of each row.
        column_total: [columns], in persons. It is empty at a root, where columns are free.
        row_total: [rows], in persons.
        weight: [rows], weight of the square of (count - centre) in every entry of the row; above zero.
        slack: [rows], largest weight of the table's rows over the row's weight; at least 1.
        centre: [entries], counts that the own measurements ask for.
        label_begin: [columns + 1], where each column's labels begin.
        label: [links], labels of the columns.
        label_weight: [K, C], weight of the square of (sum - target); zero where the child is not measured.
        label_target: [K, C], in persons.
    """

    column_begin: Integers
    row_begin: Integers
    entry_begin: Integers
    upright: Bools
    child: Uint32s
    column_total: Floats
    row_total: Floats
    weight: Floats
    slack: Floats
    centre: Floats
    label_begin: Integers
    label: Uint32s
    label_weight: FloatRows
    label_target: FloatRows


class Prices(NamedTuple):
    """Prices of columns, [columns], of rows, [rows], and of labels, [K, C]."""

    column: Floats
    row: Floats
    label: FloatRows


class Strip(NamedTuple):
    """Some children with their rows in every table. What is computed for one strip does not depend on the others.

    Attributes:
        begin, end: [P], the first of these rows in each table, and one past the last.
        child: Numbers of the children.
    """

    begin: Integers
    end: Integers
    child: Integers


@internal
def whole_strip(tables: Tables) -> Strip:
    """The strip with all children."""
    n_tables = tables.upright.size
    return Strip(tables.row_begin[:n_tables], tables.row_begin[1:], np.arange(tables.label_weight.shape[1]))


@internal
def clear_sums(prices: Prices) -> None:
    """Set the prices of columns and rows to zero."""
    for i in range(prices.column.size):
        prices.column[i] = 0.0
    for k in range(prices.row.size):
        prices.row[k] = 0.0


@internal
def label_forces(tables: Tables, price: Floats, force: Floats) -> None:
    """Write for each entry the sum of its labels' prices over its weight, in persons."""
    n_children, price = price.shape[1], uncounted(price)
    total = np.empty(n_children)
    for p in range(tables.upright.size):
        first, base = tables.row_begin[p], tables.entry_begin[p]
        n_rows = tables.row_begin[p + 1] - first
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        # With rows for more than a third of the children, summing for all of them runs along the prices in memory, and
        # is faster than picking children out.
        whole = n_rows * 3 > n_children
        for i in range(n_columns):
            column = tables.column_begin[p] + i
            begin, end = tables.label_begin[column], tables.label_begin[column + 1]
            if whole:
                for c in range(n_children):
                    total[c] = 0.0
                for z in range(begin, end):
                    of_label = price[tables.label[z]]
                    for c in range(n_children):
                        total[c] += of_label[c]
            # few rows: only the children that the table has
            else:
                for k in range(n_rows):
                    c = tables.child[first + k]
                    total[c] = 0.0
                    for z in range(begin, end):
                        total[c] += price[tables.label[z], c]
            if tables.upright[p]:
                for k in range(n_rows):
                    force[base + i * n_rows + k] = total[tables.child[first + k]] / tables.weight[first + k]
            else:
                for k in range(n_rows):
                    force[base + k * n_columns + i] = (
                        total[tables.child[first + k]] / tables.weight[first + k]
                    )


@internal
def label_sums(tables: Tables, x: Floats, sums: Floats, strip: Strip) -> None:
    """Write the sum of each label in each child of a strip. The additions of a sum have one order, in every strip."""
    for label in range(sums.shape[0]):
        # cleared before entries are added, since labels reach over several tables
        for c in strip.child:
            sums[label, c] = 0.0
    for p in range(tables.upright.size):
        first, base = tables.row_begin[p], tables.entry_begin[p]
        n_rows = tables.row_begin[p + 1] - first
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        along, across = (n_rows, 1) if tables.upright[p] else (1, n_columns)
        # a column's labels are the same for every child, so they are looked up once
        for i in range(n_columns):
            column = tables.column_begin[p] + i
            begin, end = tables.label_begin[column], tables.label_begin[column + 1]
            for k in range(strip.begin[p] - first, strip.end[p] - first):
                value = x[base + i * along + k * across]
                # most entries are zero at the optimum
                if value != 0.0:
                    c = tables.child[first + k]
                    for z in range(begin, end):
                        sums[tables.label[z], c] += value


# Above this, a matrix would take 800 KB and its factorisation 11 million products, where conjugate gradients
# do fewer. Half or twice as many lines move tables between the two.
DENSE_LINES = 320
"""Most inner lines whose equations are a dense matrix."""

# Whole rows cost the inner lines whatever is active, and the others cost the active entries with an index
# each.
SPARSE = 12
"""An outer line has few active entries if these are at most one in so many of the inner lines."""

# Half as many would leave most directions unfinished; twice as many cost time where the caller's next step
# mends anyway.
CG_STEPS = 400
"""Most steps of conjugate gradients. What is left makes the next step of Newton's method less exact."""


class Active(NamedTuple):
    """Active entries of the outer lines of a table.

    Attributes:
        begin: Where each outer line's active entries begin.
        inner: Their inner lines, rising within an outer line.
        first: Number of the table's first outer line in `begin`.
        outer_give, inner_give: [outer lines], [inner lines], above zero.
    """

    begin: Integers
    inner: Uint32s
    first: int
    outer_give: Floats
    inner_give: Floats


@internal
def fill_matrix(active: Active, damping: float, matrix: Floats) -> None:
    """Write the upper half of S + damping I."""
    n, matrix = active.inner_give.size, uncounted(matrix)
    # a damping on the diagonal makes a definite matrix, and only the upper half is filled
    for j in range(n):
        row = matrix[j]
        for k in range(j, n):
            row[k] = 0.0
        row[j] = damping
    give, inner, line = active.inner_give, active.inner, np.zeros(n)
    for o in range(active.outer_give.size):
        # an outer line with one active entry is still, as its total holds it
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        if end - begin < 2:
            continue
        # in the gives of the inner lines, since the outer line's own is a common factor
        total = 0.0
        for z in range(begin, end):
            total += give[inner[z]]
        outer = active.outer_give[o]
        share = outer / total
        for z in range(begin, end):
            matrix[inner[z], inner[z]] += outer * give[inner[z]]
        if (end - begin) * SPARSE > n:
            _subtract_whole_rows(active, begin, end, share, matrix, line)
            continue
        for z in range(begin, end):
            row, factor = matrix[inner[z]], share * give[inner[z]]
            for y in range(z, end):
                row[inner[y]] -= factor * give[inner[y]]


@hot
def _subtract_whole_rows(
    active: Active, begin: int, end: int, share: float, matrix: Floats, line: Floats
) -> None:
    """Subtract the products of one outer line's gives, also those with the zeros of entries that are not active.

    This gives the same bits as to leave the zeros out. Where many entries are active, whole rows are faster. `line` is
    all zeros before and after.
    """
    give, inner = active.inner_give, active.inner
    matrix, line = uncounted(matrix), uncounted(line)
    for z in range(begin, end):
        line[inner[z]] = give[inner[z]]
    for z in range(begin, end):
        # slices, since the compiler checks every index of which it does not know that it is not negative
        row, rest, factor = matrix[inner[z]][inner[z] :], line[inner[z] :], share * give[inner[z]]
        for k in range(rest.size):
            row[k] -= factor * rest[k]
    for z in range(begin, end):
        line[inner[z]] = 0.0


@internal
def apply_matrix(active: Active, damping: float, vector: Floats, out: Floats) -> None:
    """out = (S + damping I) vector."""
    give, inner = active.inner_give, active.inner
    # S + damping I, as in `fill_matrix`, without storing it: two passes over the active entries
    for j in range(vector.size):
        out[j] = damping * vector[j]
    for o in range(active.outer_give.size):
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        total, mean = 0.0, 0.0
        for z in range(begin, end):
            total += give[inner[z]]
            # the mean of the outer line, whose price moves so that the line's sum stays
            mean += give[inner[z]] * vector[inner[z]]
        if end - begin < 2:
            continue
        mean /= total
        for z in range(begin, end):
            out[inner[z]] += active.outer_give[o] * give[inner[z]] * (vector[inner[z]] - mean)


@internal
def solve_by_steps(active: Active, damping: float, precision: float, right: Floats) -> None:
    """Replace `right` by (S + damping I)^-1 right, up to a relative residual, by conjugate gradients."""
    # Preconditioned conjugate gradients (Hestenes and Stiefel 1952), with the diagonal as the preconditioner.
    n = right.size
    diagonal, solution, product = np.full(n, damping), np.zeros(n), np.empty(n)
    give, inner = active.inner_give, active.inner
    # the diagonal of S, by the same formula as in `fill_matrix`
    for o in range(active.outer_give.size):
        begin, end = active.begin[active.first + o], active.begin[active.first + o + 1]
        total = 0.0
        for z in range(begin, end):
            total += give[inner[z]]
        if end - begin >= 2:
            for z in range(begin, end):
                give_of_line = give[inner[z]]
                # a single active entry adds nothing, as its own mean is the whole move
                diagonal[inner[z]] += active.outer_give[o] * give_of_line * (1.0 - give_of_line / total)
    direction, energy = np.empty(n), 0.0
    for j in range(n):
        direction[j] = right[j] / diagonal[j]
        energy += right[j] * direction[j]
    enough = precision * precision * energy
    # the residual is measured with the preconditioner, whose product is at hand
    for _ in range(CG_STEPS):
        # a right side of zero has a solution of zero, and would divide by zero below
        if energy <= enough or energy == 0.0:
            break
        apply_matrix(active, damping, direction, product)
        curvature = 0.0
        for j in range(n):
            curvature += direction[j] * product[j]
        step, before = energy / curvature, energy
        energy = 0.0
        for j in range(n):
            solution[j] += step * direction[j]
            right[j] -= step * product[j]
            energy += right[j] * right[j] / diagonal[j]
        for j in range(n):
            direction[j] = right[j] / diagonal[j] + energy / before * direction[j]
    for j in range(n):
        right[j] = solution[j]


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
    lines: Uint32s
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
        np.empty(n_entries if tables.column_total.size else 0, np.uint32),
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
    gap, before, value_before, allowed = np.inf, np.inf, -np.inf, tolerance
    step, slope, tries, waiting, damping = 1.0, 0.0, 0, FIRST_ALTERNATIONS, LEAST_DAMPING
    newton, back = False, False
    for _ in range(limit):
        # Outer sums are exact after each pass, so that only inner sums can miss.
        gap, value, size = _pass(point, outer, inner, bench)
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
def _all_ones(give: Floats) -> bool:
    """Whether all gives are 1: projections of lines are then plain projections on a simplex."""
    ones = True
    for j in range(give.size):
        ones &= give[j] == 1.0
    return ones


@internal
def _pass(point: Floats, outer: Side, inner: Side, bench: Bench) -> tuple[float, float, float]:
    """Find the outer prices.

    Returns:
        The largest gap of an inner line, the dual function up to a constant, and the largest numbers that are added up
        times the most entries of an inner line above zero.
    """
    n = inner.price.size
    uniform = _all_ones(inner.give)
    # names of arrays outside of the loops over entries
    left, drop, sums = uncounted(bench.left), uncounted(bench.drop), uncounted(bench.sums)
    slope, energy = uncounted(bench.slope), uncounted(bench.energy)
    give, point, size = inner.give, uncounted(point), 0.0
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
    uniform = _all_ones(outer.give)
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
    n, n_active, point = inner.price.size, int(np.int64(0)), uncounted(point)
    unit, lines, drop = _all_ones(inner.give) and _all_ones(outer.give), bench.lines, bench.drop
    for o in range(outer.price.size):
        bench.begin[o] = n_active
        give_of_line, shift = outer.give[o], outer.price[o] * outer.give[o]
        row, whole = point[o * n : (o + 1) * n], n if unit else int(np.int64(0))
        for j in range(whole):
            lines[n_active] = j  # overwritten unless the entry is active
            n_active += row[j] - drop[j] > shift
        for j in range(whole, n):
            lines[n_active] = j
            n_active += row[j] - give_of_line * drop[j] - shift * inner.give[j] > 0.0
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
