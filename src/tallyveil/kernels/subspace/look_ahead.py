"""Kernels of look-ahead trials of two-way tables: tables of columns, and trials row by row.

Problem: draw integers N in r rows and c columns, with all row and column sums 0, with probability proportional to the
product of L(N_ij). L is symmetric and falls with the distance from 0.

Variables: x_k is what column k still has to receive, from m rows. g_m(x) is a table of positive floats that estimates
how much weight m rows give to a column with the sum x. T is the length of transforms.

Steps of a row: t_k(w) = L(w) g_{m-1}(x_k - w) / g_m(x_k). The row w is taken with probability prod t_k(w_k), if its
sum is 0; otherwise the trial fails. It is drawn cell by cell, by functions s_k(y) of what the cells from k on must add
up to, modulo T:

    s_k(y) >= sum over w of t_k(w) s_{k+1}(y - w),   s_{c+1}(y) = 1 if y = 0, else 0.

The trial goes on with probability s_1(0). Cell k is w with probability t_k(w) s_{k+1}(y - w) / s_k(y); with what
remains of the probability, the trial fails. The factors s cancel. The last row is x. The factors g cancel too: the
trial ends in N with probability prod L(N_ij) / g_r(0)**c, whatever the tables g and the functions s hold.

Cells beyond the reach: t_k is listed for abs(w) <= reach. Every place modulo T gets omega_k besides, an upper bound of
the sum of t_k(w) over all other w. A constant sequence changes only the frequency 0 of a transform, by T omega_k.

Rounding: s_k is a convolution by transforms, plus a bound of all errors (`added_errors`). Decisions compare floats with
a margin, or are reported as open.

Worked case: 2 rows. The first row w is taken with probability prod L(w_k) L(-w_k) / g_2(0)**c, and the second is -w.

Specification: the exact decisions of `tallyveil.subspace.exact.look_ahead_row`.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Words
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.subspace.transform import Roots, product_of_transforms

DONE, FAILED, BROKEN, OPEN = -1, -2, -3, -4
"""What becomes of a row or a trial. In a broken trial s_1(0) is above 1, which the tables rule out. A trial reports an
open row by its number."""

MARGIN = 2.0**-36
"""Relative to s_k: covers the errors of t (2**-45) and of a sum of at most 2**16 products (2**-37). The limit on
the work for tables in `column_tables` bounds the number of products."""

_UNIT = 2.0**-53
_ROUNDED = 1.0 + 2.0**-40


class ColumnTables(NamedTuple):
    """The tables g and what they are made from.

    Attributes:
        weights: [reach + 1], L(w) for w = 0, 1, ..., with relative error below 2**-47.
        beyond: An upper bound of the sum of L(w) over w > reach.
        heads: [n_tables, width], g(x) divided by 2**exponent for x = 0, 1, ...; beyond, the last value holds. They do
            not increase with x.
        steps: [r, c], the factor 2**(exponent of the table before - exponent) of each cell.
        table_of: int64 [r, c], the table of each column for m = 1 .. r rows.
        active: [r, c], whether the cell of the m-th row from below may differ from 0.
    """

    weights: Floats
    beyond: float
    heads: Floats
    steps: Floats
    table_of: Integers
    active: Bools


class Scratch(NamedTuple):
    """Memory of a trial. The number of columns is rounded up to an even number n.

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
def fill_weights(tables: ColumnTables, m: int, x: Integers, scratch: Scratch) -> None:
    """t_k(w) for all cells of the m-th row from below."""
    t, omegas = scratch.t, scratch.omegas
    reach, last = tables.weights.size - 1, tables.heads.shape[1] - 1
    length = t.shape[1]
    t[:] = 0.0
    omegas[:] = 0.0
    for k in range(t.shape[0]):
        if k >= x.size or not tables.active[m - 1, k]:
            t[k, 0] = 1.0
            continue
        before = tables.heads[tables.table_of[m - 2, k]]
        size = abs(x[k])
        scale = tables.steps[m - 1, k] / tables.heads[tables.table_of[m - 1, k], min(size, last)]
        for w in range(-reach, reach + 1):
            t[k, w if w >= 0 else w + length] = (
                tables.weights[abs(w)] * before[min(abs(x[k] - w), last)] * scale
            )
        omegas[k] = length * weight_past_reach(tables, before, size) * scale


@internal
def weight_past_reach(tables: ColumnTables, before: Floats, x: int) -> float:
    """An upper bound of the sum of L(w) g_{m-1}(x - w) over w beyond the reach, for x >= 0."""
    reach, last = tables.weights.size - 1, before.size - 1
    near = before[min(max(0, reach + 1 - x), last)]
    far = before[min(reach + 1 + x, last)]
    bound: float = tables.beyond * (near + far)
    return bound


@internal
def fill_look_ahead(roots: Roots, scratch: Scratch) -> None:
    """s_k from t_k: the convolution, not below 0, plus a bound of its errors."""
    t, s, added = scratch.t, scratch.s, scratch.added
    product_of_transforms(t, scratch.omegas, roots, s, scratch.imaginary, scratch.spare)
    for k in range(t.shape[0]):
        scratch.totals[k] = 1.0001 * (sum_of(t[k]) + scratch.omegas[k])
    added_errors(scratch.totals, t.shape[1], added)
    for k in range(t.shape[0]):
        for j in range(t.shape[1]):
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
    stages = 0
    while 1 << stages < length:
        stages += 1
    one = 6.0 * stages + 2.0
    norm_after, ratio_after, raised_after = 1.0, 0.0, 0.0
    for k in range(totals.size - 2, -1, -2):
        both = totals[k] + totals[k + 1]
        norm_second = totals[k + 1] * norm_after
        ratio_second = ratio_after + one * both / totals[k + 1] + 4.0
        norm_first = totals[k] * norm_second
        ratio_first = ratio_second + one * both / totals[k] + 4.0
        error = norm_first * ratio_first + norm_second * ratio_second + one * (norm_first + norm_second)
        error *= 1.01 * _UNIT
        added[k + 1] = _ROUNDED * (error + 2.0**-44 * norm_second + totals[k + 1] * raised_after)
        added[k] = _ROUNDED * (error + 2.0**-44 * norm_first + totals[k] * (error + added[k + 1]))
        norm_after, ratio_after, raised_after = norm_first, ratio_first, error + added[k]
    return raised_after


@internal
def sum_of(values: Floats) -> float:
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
    width = max(_UNIT, 2.0 ** (np.float64(shift) - 64.0))
    uniform = _first_digits(word, shift)
    if (uniform + width + MARGIN) * total <= value:
        return 1
    if (uniform - MARGIN) * total >= value:
        return 0
    return -1


@internal
def _cell(word: np.uint64, shift: np.uint64, y: int, k: int, scratch: Scratch, reach: int) -> int:
    """The outcome of one cell but the last, or reach + 1 if the decision is open."""
    t, after = scratch.t[k], scratch.s[k + 1]
    mask = t.size - 1
    total = scratch.s[k, y & mask]
    width = max(_UNIT, 2.0 ** (np.float64(shift) - 64.0))
    uniform = _first_digits(word, shift)
    low = (uniform - MARGIN) * total
    cumulated = t[0] * after[y & mask]
    w = 0
    while cumulated <= low:
        w = -w if w > 0 else 1 - w
        if w > reach:
            return reach + 1
        cumulated += t[w & mask] * after[(y - w) & mask]
    if cumulated >= (uniform + width + MARGIN) * total:
        return w
    return reach + 1


@internal
def _row(words: Words, shift: np.uint64, reach: int, row: Integers, scratch: Scratch) -> int:
    """Draw one row, given its t and s: DONE, FAILED, or OPEN if floats do not decide."""
    c = row.size
    below = _below(words[0], shift, scratch.s[0, 0], 1.0)
    y = 0
    k = 0
    while below == 1 and k < c - 1:
        w = _cell(words[1 + k], shift, y, k, scratch, reach)
        if w > reach:
            return OPEN
        row[k] = w
        y -= w
        k += 1
    if below == 1:
        if abs(y) > reach:
            return OPEN
        place = y & (scratch.t.shape[1] - 1)
        row[c - 1] = y
        below = _below(words[c], shift, scratch.t[c - 1, place], scratch.s[c - 1, place])
    if below < 0:
        return OPEN
    return DONE if below == 1 else FAILED


@njit(nogil=True, cache=True)
def draw_rows(
    words: Words,
    shift: np.uint64,
    tables: ColumnTables,
    roots: Roots,
    left: Integers,
    rows: Integers,
    scratch: Scratch,
) -> int:
    """Draw the rows of a trial from the first that is wanted, down to the last but one.

    Args:
        words: uint64 [1 + (r - 1) (c + 1)], the uniform numbers: for each row one to go on and one for each cell.
        shift: Digits of every word to ignore, from below, at most 63; 0 but for tests.
        tables: The tables g.
        roots: Of transforms.
        left: int64 [c], what the columns have still to receive; changed.
        rows: int64 [r + 1, c]; rows[r, 0] is the first row that is wanted. It and those after it are filled in.
        scratch: Memory. If a decision is open it holds the functions of that row.
    Returns:
        DONE, FAILED, BROKEN, or the row in which a decision is open.
    """
    r, c = rows.shape[0] - 1, rows.shape[1]
    reach = tables.weights.size - 1
    for i in range(rows[r, 0], r - 1):
        fill_weights(tables, r - i, left, scratch)
        fill_look_ahead(roots, scratch)
        if scratch.s[0, 0] > 1.0:
            return BROKEN
        status = _row(words[i * (c + 1) :], shift, reach, rows[i], scratch)
        if status == OPEN:
            return i
        if status == FAILED:
            return FAILED
        left -= rows[i]
    rows[r - 1] = left
    return DONE


@njit(nogil=True, cache=True)
def look_ahead_of(tables: ColumnTables, roots: Roots, m: int, left: Integers, scratch: Scratch) -> None:
    """The functions t and s of one row, for tests and for decisions in balls."""
    fill_weights(tables, m, left, scratch)
    fill_look_ahead(roots, scratch)
