"""Kernels of look-ahead trials of two-way tables: tables of columns, and trials row by row.

Problem: draw integers N in r rows and c columns, with all row and column sums 0, with probability proportional to the
product of L(N_ij). L is symmetric and falls with the distance from 0. It may be another function for every cell, and
cells may be fixed at 0.

Variables: x_k is what column k still has to receive, from m rows. g_m(x) is a table of positive floats that estimates
how much weight m rows give to a column with the sum x. T is the length of transforms. The number of cells of the row
that are not fixed is n.

Steps of a row: t_k(w) = L(w) g_{m-1}(x_k - w) / g_m(x_k). The row w is taken with probability prod t_k(w_k), if its
sum is 0; otherwise the trial fails. It is drawn cell by cell, by functions s_k(y) of what the cells from k on must add
up to, modulo T:

    s_k(y) >= sum over w of t_k(w) s_{k+1}(y - w),   s_{n+1}(y) = 1 if y = 0, else 0.

The trial goes on with probability s_1(0). Cell k is w with probability t_k(w) s_{k+1}(y - w) / s_k(y); with what
remains of the probability, the trial fails. The factors s cancel. The factors g cancel too: the trial ends in N with
probability prod L(N_ij) / prod g_r(0), whatever the tables g and the functions s hold.

The lowest cell of a column that is not fixed is *forced*: it must be x_k, and t_k is 1 there and 0 elsewhere. All cells
of the last row are fixed or forced. If all cells of a row are, the row is x if x adds up to 0 over its cells.

Cells beyond the reach: t_k is listed for abs(w) <= reach. Every place modulo T gets omega_k besides, an upper bound of
the sum of t_k(w) over all other w. A constant sequence changes only the frequency 0 of a transform, by T omega_k.

Rounding: s_k is a convolution by transforms, plus a bound of all errors (`added_errors`). Decisions compare floats with
a margin, or are reported as open.

Worked case: 2 rows. The first row w is taken with probability prod L(w_k) L(-w_k) / g_2(0)**c, and the second is -w.

Specification: the exact decisions of `tallyveil.subspace.exact.look_ahead`.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers, Words
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.subspace.transform import Roots, product_of_transforms

DONE, FAILED, BROKEN, OPEN = -1, -2, -3, -4
"""What becomes of a row or a trial. In a broken trial s_1(0) is above 1, which the tables rule out. A trial reports an
open row by its number."""

MARGIN = 2.0**-36
"""Relative to s_k: covers the errors of t (2**-45) and of a sum of at most 2**16 products (2**-37). The limit on
the work for tables in `column_tables` bounds the number of products."""

# Half a unit in the last place of 1: the relative error of one operation, and the digits of a word as a float.
_UNIT = 2.0**-53
# Covers the roundings of a bound itself: each of its few dozen operations errs by 2^-53, which 2^-40 exceeds
# thousands of times. Half or twice of it would do as well.
_ROUNDED = 1.0 + 2.0**-40


class ColumnTables(NamedTuple):
    """The tables g and what they are made from.

    Attributes:
        weights: [n_laws, reach + 1], L(w) for w = 0, 1, ..., with relative error below 2**-47, of each law of a cell.
        reaches: int64 [n_laws], the largest w of each law that `weights` holds.
        beyond: [n_laws], an upper bound of the sum of L(w) over w beyond the reach.
        heads: [n_tables, width], g(x) divided by 2**exponent for x = 0, 1, ...; beyond, the last value holds. They do
            not increase with x.
        steps: [r, c], the factor 2**(exponent of the table before - exponent) of each cell.
        table_of: int64 [r, c], the table of each column for m = 1 .. r rows; -1 if all cells of these rows are fixed.
        law_of: int64 [r, c], the law of each cell of the m-th row from below; -1 if it is fixed at 0.
        cells: int64 [r, c], the columns of the cells of each row that are not fixed, and then others.
        counts: int64 [r], their number.
    """

    weights: Floats
    reaches: Integers
    beyond: Floats
    heads: Floats
    steps: Floats
    table_of: Integers
    law_of: Integers
    cells: Integers
    counts: Integers


class TrialScratch(NamedTuple):
    """Memory of a trial. The number of columns is rounded up to an even number n.

    A row uses the first places of it, one for each of its cells that is not fixed, rounded up to an even number.

    Attributes:
        t: [n, T], the weights of one row.
        s: [n, T], their look-ahead functions.
        imaginary: [n, T], of transforms.
        spare: [2, T], of transforms.
        omegas: [n], an upper bound of the sum of t_k(w) over w beyond the reach, times T.
        totals: [n], the sum of t_k and omega_k over all places.
        added: [n], what is added to each convolution.
    """

    t: Floats
    s: Floats
    imaginary: Floats
    spare: Floats
    omegas: Floats
    totals: Floats
    added: Floats


@internal
def is_forced(tables: ColumnTables, m: int, k: int) -> bool:
    """Whether the cell of the m-th row from below in column k, which is not fixed, must be x_k."""
    # `table_of` of the rows below is -1 where they are all fixed: then this cell is the lowest of its column.
    return m == 1 or tables.table_of[m - 2, k] < 0


@internal
def has_freedom(tables: ColumnTables, m: int) -> bool:
    """Whether some cell of the m-th row from below is neither fixed nor forced."""
    # A forced row needs no transform, so that it is asked before one is made.
    n = 0
    for place in range(tables.counts[m - 1]):
        n += not is_forced(tables, m, tables.cells[m - 1, place])
    return n > 0


@internal
def fill_weights(tables: ColumnTables, m: int, x: Integers, scratch: TrialScratch) -> int:
    """t_k(w) for the cells of the m-th row from below that are not fixed; returns their number, rounded up to even."""
    t, omegas = scratch.t, scratch.omegas
    # T is a power of two, so that & (length - 1) is modulo T for negative numbers too.
    length, last = t.shape[1], tables.heads.shape[1] - 1
    count = tables.counts[m - 1]
    even: int = count + count % 2
    # The sequence that makes the number even is a 1 at 0: the convolution with it changes nothing.
    for place in range(even):
        t[place, :] = 0.0
        omegas[place] = 0.0
        if place == count:
            t[place, 0] = 1.0
            continue
        k = tables.cells[m - 1, place]
        if is_forced(tables, m, k):
            # x_k may lie beyond T: the place modulo T is enough for t, and `_row` looks at x_k itself.
            t[place, x[k] & (length - 1)] = 1.0
            continue
        law, before = tables.law_of[m - 1, k], tables.heads[tables.table_of[m - 2, k]]
        # Tables are even in x, so one half is stored.
        size, reach = abs(x[k]), tables.reaches[law]
        weights = tables.weights[law]
        # Tables have exponents of their own, so that heads are of the size of 1; `steps` is the exact power of two
        # between two of them. One division for each cell, not one for each w.
        scale = tables.steps[m - 1, k] / tables.heads[tables.table_of[m - 1, k], min(size, last)]
        for w in range(-reach, reach + 1):
            t[place, w if w >= 0 else w + length] = weights[abs(w)] * before[min(abs(x[k] - w), last)] * scale
        # Times T, because it is the transform's frequency 0 that it is added to.
        omegas[place] = length * weight_past_reach(tables, law, before, size) * scale
    return even


@internal
def weight_past_reach(tables: ColumnTables, law: int, before: Floats, x: int) -> float:
    """An upper bound of the sum of L(w) g_{m-1}(x - w) over w beyond the reach, for x >= 0."""
    reach, last = tables.reaches[law], before.size - 1
    # g does not increase, so beyond the reach it is at most its value at the nearest point, on either side of x.
    near = before[min(max(0, reach + 1 - x), last)]
    far = before[min(reach + 1 + x, last)]
    bound: float = tables.beyond[law] * (near + far)
    return bound


@internal
def fill_look_ahead(roots: Roots, scratch: TrialScratch, n: int) -> None:
    """s_k from t_k at the first n places: the convolution, not below 0, plus a bound of its errors."""
    t, s, added = scratch.t[:n], scratch.s[:n], scratch.added
    # s_k may be any numbers that are large enough: the law does not depend on them, only the chance that a trial
    # succeeds.
    product_of_transforms(t, scratch.omegas, roots, s, scratch.imaginary, scratch.spare)
    for k in range(n):
        # More than the rounding of a sum of up to 2^39 terms could take away.
        scratch.totals[k] = 1.0001 * (sum_of(t[k]) + scratch.omegas[k])
    added_errors(scratch.totals[:n], t.shape[1], added)
    for k in range(n):
        for j in range(t.shape[1]):
            # A negative value is a rounding error of a convolution that is 0 or more. The bound is added in any
            # case.
            s[k, j] = max(s[k, j], 0.0) + added[k]


@njit(nogil=True, cache=True)
def added_errors(totals: Floats, length: int, added: Floats) -> float:
    """What must be added to each computed convolution, so that s has the property that trials need.

    Let n_k be the total of t_k, N_k = n_k ... n_c, u = 2**-53, and k, k + 1 the two sequences of one complex transform.
    The spectrum of sequence k is off by at most u (6 log2 T + 2) (n_k + n_{k+1}), and a complex product by 2.83 u of
    its size. N_k bounds the spectrum of the convolution from k on. So this spectrum is off by at most u R_k N_k with

        R_k = R_{k+1} + (6 log2 T + 2) (n_k + n_{k+1}) / n_k + 4,

    and both computed convolutions of the pair are off by at most

        err = u (R_k N_k + R_{k+1} N_{k+1} + (6 log2 T + 2) (N_k + N_{k+1})).

    Then e_k = err_k + 2**-44 N_k + n_k (err_{k+1} + e_{k+1}) covers that, the errors of t, and what was added to
    s_{k+1}. All of these grow with every n_k.

    Args:
        totals: [n], upper bounds of n_k.
        length: T.
        added: [n], filled in with e_k.
    Returns:
        err_1 + e_1: s_1(0) is at most so much above the convolution without errors.
    """
    # log2 T.
    stages = 0
    while 1 << stages < length:
        stages += 1
    # 6 u for each stage (`transform`), and 2 u for telling two sequences apart.
    of_transform = 6.0 * stages + 2.0
    norm_after, ratio_after, raised_after = 1.0, 0.0, 0.0
    # In pairs from the last, as `product_of_transforms` goes: the two sequences of a pair share the error of their
    # transform.
    for k in range(totals.size - 2, -1, -2):
        both = totals[k] + totals[k + 1]
        norm_second = totals[k + 1] * norm_after
        ratio_second = ratio_after + of_transform * both / totals[k + 1] + 4.0
        norm_first = totals[k] * norm_second
        ratio_first = ratio_second + of_transform * both / totals[k] + 4.0
        error = (
            norm_first * ratio_first + norm_second * ratio_second + of_transform * (norm_first + norm_second)
        )
        # 1.01 covers terms of second order in u.
        error *= 1.01 * _UNIT
        # 2^-44 covers the errors of t, below 2^-45 of each.
        added[k + 1] = _ROUNDED * (error + 2.0**-44 * norm_second + totals[k + 1] * raised_after)
        added[k] = _ROUNDED * (error + 2.0**-44 * norm_first + totals[k] * (error + added[k + 1]))
        norm_after, ratio_after, raised_after = norm_first, ratio_first, error + added[k]
    return raised_after


@internal
def sum_of(values: Floats) -> float:
    """The sum from the first to the last: one order for every machine."""
    total = 0.0
    for value in values:
        total += value
    return total


@internal
def _first_digits(word: np.uint64, shift: np.uint64) -> float:
    return np.float64((word >> shift) << shift >> np.uint64(11)) * _UNIT


@internal
def _below(word: np.uint64, shift: np.uint64, value: float, total: float) -> int:
    """Whether a uniform number times the total is below a value: 1 yes, 0 no, -1 open."""
    # The uniform number lies in [uniform, uniform + width). Yes and no are said only where they hold for all of it
    # and for every error within the margin.
    width = max(_UNIT, 2.0 ** (np.float64(shift) - 64.0))
    uniform = _first_digits(word, shift)
    if (uniform + width + MARGIN) * total <= value:
        return 1
    if (uniform - MARGIN) * total >= value:
        return 0
    return -1


@internal
def _cell(word: np.uint64, shift: np.uint64, y: int, k: int, scratch: TrialScratch, reach: int) -> int:
    """The outcome of one cell but the last, or reach + 1 if the decision is open."""
    # Outcomes are visited as 0, 1, -1, 2, -2, .... The order in which the probabilities are cumulated is part of
    # the draw and must stay.
    t, after = scratch.t[k], scratch.s[k + 1]
    mask = t.size - 1
    total = scratch.s[k, y & mask]
    width = max(_UNIT, 2.0 ** (np.float64(shift) - 64.0))
    uniform = _first_digits(word, shift)
    # Cumulated floats must pass the least value less the margin before an outcome is thought of.
    low = (uniform - MARGIN) * total
    cumulated = t[0] * after[y & mask]
    w = 0
    while cumulated <= low:
        # From 0 to 1, -1, 2, -2 and so on.
        w = -w if w > 0 else 1 - w
        # The rest of the probability belongs to failure or to values beyond the reach; floats do not tell them
        # apart.
        if w > reach:
            return reach + 1
        cumulated += t[w & mask] * after[(y - w) & mask]
    # The outcome is certain if the cumulated sum lies above the whole interval. Otherwise balls decide.
    if cumulated >= (uniform + width + MARGIN) * total:
        return w
    return reach + 1


@internal
def _reach_of(tables: ColumnTables, m: int, place: int) -> int:
    reach: int = tables.reaches[tables.law_of[m - 1, tables.cells[m - 1, place]]]
    return reach


@internal
def _row(
    words: Words,
    shift: np.uint64,
    tables: ColumnTables,
    m: int,
    left: Integers,
    row: Integers,
    scratch: TrialScratch,
) -> int:
    """Draw the m-th row from below, given its t and s: DONE, FAILED, or OPEN if floats do not decide."""
    # Word 0 is the decision to go on, word 1 + place that of a cell, word n that of the last: fixed places, used or
    # not.
    n, cells = tables.counts[m - 1], tables.cells[m - 1]
    # A forced cell whose value is beyond the reach has no weight in the tables; its decision needs the law itself.
    for place in range(n):
        if is_forced(tables, m, cells[place]) and abs(left[cells[place]]) > _reach_of(tables, m, place):
            return OPEN
    # s_1(0) is at most 1 by the tables, and is checked before.
    below = _below(words[0], shift, scratch.s[0, 0], 1.0)
    # What the cells from here on must add up to: the row's sum is 0.
    y = 0
    place = 0
    while below == 1 and place < n - 1:
        reach = _reach_of(tables, m, place)
        w = _cell(words[1 + place], shift, y, place, scratch, reach)
        if w > reach:
            return OPEN
        row[cells[place]] = w
        y -= w
        place += 1
    # The last cell is what remains. It may agree with y modulo T only: the ratio of t to s decides, with true
    # weights.
    if below == 1:
        if abs(y) > _reach_of(tables, m, n - 1):
            return OPEN
        # s of the last place is t plus its bound, so that this ratio is a little below 1 for a right cell.
        index = y & (scratch.t.shape[1] - 1)
        row[cells[n - 1]] = y
        below = _below(words[n], shift, scratch.t[n - 1, index], scratch.s[n - 1, index])
    if below < 0:
        return OPEN
    return DONE if below == 1 else FAILED


@internal
def _forced_row(tables: ColumnTables, m: int, left: Integers, row: Integers) -> int:
    """A row whose cells are all fixed or forced: DONE, FAILED, or OPEN if a cell lies beyond the reach."""
    # Nothing is random: the row is what its columns still want. Its sum is checked in whole numbers.
    total = 0
    status = DONE
    for place in range(tables.counts[m - 1]):
        k = tables.cells[m - 1, place]
        row[k] = left[k]
        total += left[k]
        if abs(left[k]) > _reach_of(tables, m, place):
            status = OPEN
    return status if total == 0 else FAILED


@njit(nogil=True, cache=True)
def draw_rows(
    words: Words,
    shift: np.uint64,
    tables: ColumnTables,
    roots: Roots,
    left: Integers,
    rows: Integers,
    scratch: TrialScratch,
) -> int:
    """Draw the rows of a trial from the first that is wanted.

    Args:
        words: uint64 [1 + (r - 1) (c + 1)], the uniform numbers: for each row one to go on and one for each cell; one
            for the last row.
        shift: Digits of every word to ignore, from below, at most 63; 0 but for tests.
        tables: The tables g.
        roots: Of transforms.
        left: int64 [c], what the columns have still to receive; changed.
        rows: int64 [r + 1, c]; rows[r, 0] is the first row that is wanted. It and those after it are filled in, where
            cells are not fixed.
        scratch: Memory. If a decision is open it holds the functions of that row.
    Returns:
        DONE, FAILED, BROKEN, or the row in which a decision is open.
    """
    r, c = rows.shape[0] - 1, rows.shape[1]
    # Rows before the first wanted one are decided already, and `left` lacks them: a trial goes on where it was
    # left.
    for i in range(rows[r, 0], r):
        # Tables count rows from below.
        m = r - i
        if has_freedom(tables, m):
            fill_look_ahead(roots, scratch, fill_weights(tables, m, left, scratch))
            # Ruled out by the proof; checked because a probability above 1 would bend the law without any other
            # sign.
            if scratch.s[0, 0] > 1.0:
                return BROKEN
            # Each row has c + 1 words of its own, whatever the rows before have used.
            status = _row(words[i * (c + 1) :], shift, tables, m, left, rows[i], scratch)
        else:
            status = _forced_row(tables, m, left, rows[i])
        if status == OPEN:
            return i
        if status == FAILED:
            return FAILED
        left -= rows[i]
    return DONE
