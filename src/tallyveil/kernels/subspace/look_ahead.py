"""Kernels of look-ahead trials of two-way tables: transforms, tables of columns, and trials row by row.

Problem: draw integers N in r rows and c columns, with all row and column sums 0, with probability
proportional to the product of L(N_ij). L is symmetric and falls with the distance from 0. It may be another
function for every cell, and cells may be fixed at 0.

Variables: x_k is what column k still has to receive, from m rows. g_m(x) is a table of positive floats that
estimates how much weight m rows give to a column with the sum x. T is the length of transforms. The number of
cells of the row that are not fixed is n.

Steps of a row: t_k(w) = L(w) g_{m-1}(x_k - w) / g_m(x_k). The row w is taken with probability prod t_k(w_k),
if its sum is 0; otherwise the trial fails. It is drawn cell by cell, by functions s_k(y) of what the cells
from k on must add up to, modulo T:

    s_k(y) >= sum over w of t_k(w) s_{k+1}(y - w),   s_{n+1}(y) = 1 if y = 0, else 0.

The trial goes on with probability s_1(0). Cell k is w with probability t_k(w) s_{k+1}(y - w) / s_k(y); with
what remains of the probability, the trial fails. The factors s cancel. The factors g cancel too: the trial
ends in N with probability prod L(N_ij) / prod g_r(0), whatever the tables g and the functions s hold.

The lowest cell of a column that is not fixed is *forced*: it must be x_k, and t_k is 1 there and 0 elsewhere.
All cells of the last row are fixed or forced. If all cells of a row are, the row is x if x adds up to 0 over
its cells.

Cells beyond the reach: t_k is listed for abs(w) <= reach. Every place modulo T gets omega_k besides, an upper
bound of the sum of t_k(w) over all other w. A constant sequence changes only the frequency 0 of a transform,
by T omega_k.

Rounding: s_k is a convolution by transforms, plus a bound of all errors (`added_errors`). Decisions compare
floats with a margin, or are reported as open.

Worked case: 2 rows. The first row w is taken with probability prod L(w_k) L(-w_k) / g_2(0)**c, and the second
is -w. Specification: the exact decisions of `tallyveil.subspace`, in balls.

*The tables g.* A trial needs numbers g_m(x) for which the rows that it can take have probabilities that add
up to at most 1. The closer to 1, the more trials succeed. A cell has an exponent p. The numbers 1 / p of the
cells of a row that are neither fixed nor forced add up to at most 1. The first table of a column is L, and
g_m(x) is the norm ((1/T) sum over f of abs(F(f))**p)**(1/p) of the transform F of the sequence w -> L(w)
g_{m-1}(x - w) modulo T, rounded up. By Hoelder's inequality the rows' probabilities then add up to at most 1.
Worked case: two cells with p = 2. The norm is the root of the sum of squares of the sequence. A row is (w,
-w), and the sum of t_1(w) t_2(-w) over w is at most 1 by Cauchy's and Schwarz's inequality. Proof:
`docs/proofs/integer-subspace.md`, section 5.

*Transforms* have a power-of-two length T. Their computed values must not depend on the machine, and their
errors must have a proved bound. `forward` turns a sequence into its transform, in bit-reversed order.
`backward` takes this order and gives the sequence back, times T. Each of the log2 T stages adds and subtracts
two numbers and multiplies by a root of unity. Only IEEE additions and multiplications are used, in a fixed
order. Bound: let u = 2**-53. Each output is a sum over the inputs, each times a product of roots. A stage
multiplies the error factor of every term by at most 1 + 6 u: the complex multiplication has 2.83 u (Higham
2002, Lemma 3.5), the root 2 u, the addition u. So an output is off by at most 6 log2(T) u (1 + 1e-9) times
the sum of the inputs' absolute values. Worked case: T = 2 has one stage: (a, b) becomes (a + b, a - b), which
is its own inverse up to the factor 2. The tests compare with numpy's transforms.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers, Words
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.vectors import set_to


class Roots(NamedTuple):
    """What a transform of length T needs.

    Attributes:
        cosines, sines: [T], at half + j the root exp(-2 pi i j / (2 half)), for each power of two `half` below T.
        mirror: int64 [T], for each place in bit-reversed order the place of the opposite frequency.
    """

    cosines: Floats
    sines: Floats
    mirror: Integers


@internal
def forward(real: Floats, imaginary: Floats, roots: Roots) -> None:
    """The transform of complex numbers, in place and in bit-reversed order."""
    # Decimation in frequency: the order of output is bit-reversed and is left so, as products do not care.
    half = real.size // 2
    while half >= 1:
        # One fixed order of operations; a library's transform would choose its own for each machine.
        for start in range(0, real.size, 2 * half):
            for j in range(half):
                a, b = start + j, start + j + half
                # Sum and difference first, then the root: the bound of 6 u for each stage counts these three
                # operations.
                x, y = real[a] - real[b], imaginary[a] - imaginary[b]
                real[a] += real[b]
                imaginary[a] += imaginary[b]
                real[b] = x * roots.cosines[half + j] - y * roots.sines[half + j]
                imaginary[b] = x * roots.sines[half + j] + y * roots.cosines[half + j]
        half //= 2


@internal
def backward(real: Floats, imaginary: Floats, roots: Roots) -> None:
    """The inverse of `forward`, times T, in place."""
    # The same stages backwards with conjugate roots: the input is in the order that `forward` leaves.
    half = 1
    while half < real.size:
        for start in range(0, real.size, 2 * half):
            for j in range(half):
                a, b = start + j, start + j + half
                # The difference of signs against `forward` is the conjugate.
                x = real[b] * roots.cosines[half + j] + imaginary[b] * roots.sines[half + j]
                y = imaginary[b] * roots.cosines[half + j] - real[b] * roots.sines[half + j]
                real[b] = real[a] - x
                imaginary[b] = imaginary[a] - y
                real[a] += x
                imaginary[a] += y
        half *= 2


@internal
def product_of_transforms(
    sequences: Floats, constants: Floats, roots: Roots, real: Floats, imaginary: Floats, spare: Floats
) -> None:
    """Convolutions of real sequences: row k becomes the convolution of the rows from k on, modulo T.

    Args:
        sequences: [n, T]; n is even.
        constants: [n], T times a number that is added to every place of the sequence. It changes frequency 0 alone.
        roots: For the length T.
        real: [n, T], gets the convolutions.
        imaginary: [n, T], scratch.
        spare: [2, T], scratch.
    """
    # Time: n transforms of length T log T, instead of n products of T^2.
    n, length = sequences.shape
    for k in range(0, n, 2):
        # Two real sequences in one complex transform: the parts are told apart by their symmetry.
        set_to(spare[0], sequences[k])
        set_to(spare[1], sequences[k + 1])
        # The transform of a real sequence is symmetric under f -> -f, so the even and the odd part of the complex
        # one are the two sequences'.
        forward(spare[0], spare[1], roots)
        for j in range(length):
            # The place of -f in bit-reversed order, from a table: frequencies 0 and T / 2 are their own mirrors.
            i = roots.mirror[j]
            real[k, j] = 0.5 * (spare[0, j] + spare[0, i])
            imaginary[k, j] = 0.5 * (spare[1, j] - spare[1, i])
            real[k + 1, j] = 0.5 * (spare[1, j] + spare[1, i])
            imaginary[k + 1, j] = 0.5 * (spare[0, i] - spare[0, j])
        # A constant sequence has no frequency but 0; bit reversal leaves 0 in its place.
        real[k, 0] += constants[k]
        real[k + 1, 0] += constants[k + 1]
    # From the last sequence on, each product takes the one after it as it is by then: convolutions of all tails for
    # n products.
    for k in range(n - 2, -1, -1):
        for j in range(length):
            x = real[k, j] * real[k + 1, j] - imaginary[k, j] * imaginary[k + 1, j]
            imaginary[k, j] = real[k, j] * imaginary[k + 1, j] + imaginary[k, j] * real[k + 1, j]
            real[k, j] = x
    # A power of two: dividing by it is exact, and adds nothing to the bound.
    unit = 1.0 / length
    # The way back of two at a time: a + i b, of which the real part is the first convolution and the imaginary part
    # the second.
    for k in range(0, n, 2):
        for j in range(length):
            spare[0, j] = real[k, j] - imaginary[k + 1, j]
            spare[1, j] = imaginary[k, j] + real[k + 1, j]
        backward(spare[0], spare[1], roots)
        for j in range(length):
            real[k, j] = spare[0, j] * unit
            real[k + 1, j] = spare[1, j] * unit


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


LEAST_INFLATION = 2.0**-26
"""The share by which g is larger than the norm computed in floats, at least. It covers the errors of the norm, which
are below 2**-28. `inflations` in `column_tables` adds what the errors of s_1(0) need, so that s_1(0) is at most 1."""


class AddedCell(NamedTuple):
    """A cell that makes a table from the one before: its law and the exponent p = 2 power / 2**halvings >= 1.

    Attributes:
        law: Number of its law.
        power: A positive integer.
        halvings: 0 to 5.
    """

    law: int
    power: int
    halvings: int


@internal
def _power(base: float, exponent: int) -> float:
    # By squaring, in one order: a library's pow differs from machine to machine in the last digit.
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@internal
def _root(value: float, n: int) -> float:
    """The n-th root of 0 < value <= 1, by Newton's method from above; only IEEE operations."""
    # From above the iterates fall until rounding stops them: at most a few dozen steps, and the end is the same on
    # every machine, since there are only IEEE operations. The result is off by a few units in the last place, which
    # LEAST_INFLATION covers.
    y = 1.0
    while True:
        z = y - (y - value / _power(y, n - 1)) / n
        if z >= y:
            return y
        y = z


@njit(nogil=True, cache=True)
def next_head(
    tables: ColumnTables,
    roots: Roots,
    cell: AddedCell,
    inflation: float,
    before: Floats,
    scratch: TrialScratch,
    out: Floats,
) -> None:
    """The table g_m from g_{m-1}, in the units of g_{m-1}.

    By Hoelder's inequality, the weights of rows with sum 0 add up to at most 1 if g_m(x) is at least the norm of the
    transform of the sequence L(w) g_{m-1}(x - w). An upper bound of this sequence's sum over all w beyond the reach is
    added to every place of it. For x beyond the table, g_{m-1}(x - w) is written as the last value of the table plus an
    excess. The norm is then at most the sum of two numbers: the last value times the norm of L, and the sum of L(w)
    times the excess. The second number is largest for the first x beyond the table.

    Args:
        tables: Of which the weights are used.
        roots: Of transforms.
        cell: The cell of the m-th row.
        inflation: Factor by which g is larger than the norm.
        before: [width], g_{m-1}, which does not increase.
        scratch: Memory.
        out: [width], filled in; it does not increase.
    """
    # The cell's law and its reach; `before` holds the flat end of the earlier table.
    weights, reach = tables.weights[cell.law], tables.reaches[cell.law]
    last, length = before.size - 1, roots.mirror.size
    # Two places x at a time, as two real sequences fit into one complex transform.
    t, omegas = scratch.t, scratch.omegas
    for first in range(0, last + 1, 2):
        for k in range(2):
            # The last pair may have a place beyond the table; it is computed and not stored.
            x = first + k
            t[k, :] = 0.0
            for w in range(-reach, reach + 1):
                # Each |w| <= reach has a place of its own modulo T, as T exceeds twice the reach.
                t[k, w if w >= 0 else w + length] = weights[abs(w)] * before[min(abs(x - w), last)]
            # Rows with cells beyond the reach have weight too: without this bound the proof would miss them.
            omegas[k] = length * weight_past_reach(tables, cell.law, before, x)
        norms = _norms(t, omegas, roots, cell, scratch.spare)
        for k in range(min(2, last + 1 - first)):
            # Larger than the norm, so that s_1(0) stays below 1 with the errors that it contains.
            out[first + k] = norms[k] * inflation
    # For all x beyond the table at once: Minkowski's inequality parts the sequence into a flat one and an excess.
    flat = before[last]
    total = length * tables.beyond[cell.law] * (before[0] + flat)
    t[:] = 0.0
    omegas[:] = 0.0
    # The flat part has the weights of the law; the excess is largest at last + 1, since g does not increase.
    for w in range(-reach, reach + 1):
        t[:, w if w >= 0 else w + length] = weights[abs(w)]
        total += weights[abs(w)] * (before[min(last + 1 - w, last)] - flat)
    total += _norms(t, omegas, roots, cell, scratch.spare)[0] * flat
    # The last entry stands for itself and for all x beyond, so it takes the larger of the two bounds.
    out[last] = max(out[last], total * inflation)
    # From the end on, so that the table does not increase; raising an entry is always allowed.
    for x in range(last - 1, -1, -1):
        out[x] = max(out[x], out[x + 1])


@njit(nogil=True, cache=True)
def norm_of_weights(weights: Floats, roots: Roots, cell: AddedCell) -> float:
    """The norm of the transform of weights of w = 0, 1, ..., which are the same for -w."""
    # The same sequence twice, since a transform takes two; the first norm is returned.
    length = roots.mirror.size
    t = np.zeros((2, length))
    for w in range(weights.size):
        t[:, w] = weights[w]
        t[:, -w] = weights[w]
    return _norms(t, np.zeros(2), roots, cell, np.zeros((2, length)))[0]


@internal
def _norms(t: Floats, omegas: Floats, roots: Roots, cell: AddedCell, spare: Floats) -> tuple[float, float]:
    # Powers need numbers up to 1, so that no power overflows: each sequence is divided by its sum, which bounds its
    # transform, and the norm is multiplied by it in the end.
    length = roots.mirror.size
    # All terms are 0 or more, so the sum is frequency 0 and the largest of the transform.
    tops = sum_of(t[0]) + omegas[0], sum_of(t[1]) + omegas[1]
    for k in range(2):
        for j in range(length):
            spare[k, j] = t[k, j] / tops[k]
    forward(spare[0], spare[1], roots)
    # Frequency 0 is the sum itself, omega included: exactly 1 after the division.
    spare[0, 0] = 1.0
    spare[1, 0] = 1.0
    first, second = 0.0, 0.0
    # Even and odd part of the complex transform, as in `product_of_transforms`; only absolute values are needed.
    for j in range(length):
        i = roots.mirror[j]
        a, b = 0.5 * (spare[0, j] + spare[0, i]), 0.5 * (spare[1, j] - spare[1, i])
        first += _absolute_power(a * a + b * b, cell)
        a, b = 0.5 * (spare[1, j] + spare[1, i]), 0.5 * (spare[0, i] - spare[0, j])
        second += _absolute_power(a * a + b * b, cell)
    return tops[0] * _mean_root(first / length, cell), tops[1] * _mean_root(second / length, cell)


@internal
def _absolute_power(square: float, cell: AddedCell) -> float:
    """The power p of a number, from its square."""
    # p = 2 power / 2^halvings of the absolute value is `power` / 2^halvings of its square: square roots and
    # products alone, no exp and no log.
    for _ in range(cell.halvings):
        square = np.sqrt(square)
    return _power(square, cell.power)


@internal
def _mean_root(mean: float, cell: AddedCell) -> float:
    """The p-th root of a mean of powers of numbers up to 1."""
    # min: rounding may lift the mean of numbers up to 1 above 1 by a unit, and `_root` wants at most 1.
    return _root(_power(min(mean, 1.0), 1 << cell.halvings), 2 * cell.power)
