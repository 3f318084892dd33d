"""The sweep up the tree: what the measurements in a geounit's subtree say about its cells.

Problem. Wanted is the best linear unbiased estimate of the cells of every geounit, from everything that is
measured in or below it, with the same bits on every machine.

Variables, in the basis of `tallyveil.kernels.tree.sweep`, class by class. x is the estimate of a geounit's
cells. Its covariance is P + kappa D, in the limit of large kappa. D is not zero in the directions about which
no measurement says anything yet. The x, P and D of a geounit's children add up. A geounit's own queries A
have noisy answers y. L is the sum of A'A / variance over them, and h is the sum of A'y / variance.

Steps. A finest geounit begins with P = 0, with D = 1 on the cells that are not known to be zero, and with x =
0. Every other geounit begins with the sums over its children. Each row a of each measured query is learned in
turn. With m = P a, u = D a, F = a'm + variance and f = a'u:

    if f > 0:   P += u u' F / f^2 - (m u' + u m') / f,   D -= u u' / f
    otherwise:  P -= m m' / F

Then x += P (h - L x). After that, exact answers t are learned in the same way with variance 0, and
x += (u / f, or m / F) (t - a'x). A row with f = 0 and F = 0 is known already, and nothing is learned from it.

No matrix is inverted. Zeros, exact answers and what is not measured need no large or small number in their
place. Whether f or F is zero follows from the plan, the spine and public zeros alone. No sum is reassociated,
and no library of linear algebra is called, so every machine gives the same bits. Every geounit's sums are
taken in one fixed order.

Worked case. Two children have variance 1 each, and the geounit is measured with variance 1; there is one
cell. P = 2, m = 2, F = 3, so P becomes 2 - 4/3 = 2/3. The estimate is b + 2/3 (y - b), where b is the sum of
the children's.

*Query by query.* The blocks of the full covariances can be too large. Then each answer is estimated from the
answers of the same query alone. For each answer of each query, v is the estimate and s its variance; s is
infinity where nothing is known, and zero where the answer is known exactly. Over children both add up. A
geounit's own noisy answer y with variance r gives v += s / (s + r) (y - v) and s = s r / (s + r); if s is
infinity, v = y and s = r. An exact answer t gives v = t and s = 0. If all geounits of a geolevel have equally
many children and the same precisions, and if nothing is known to be zero, least squares of these estimates
with the weights 1 / s is the best estimate of the cells. Otherwise the estimates are unbiased, and their
variance is larger than the least one. Worked case: two children have variance 1 each and the geounit is
measured with variance 1: s = 2, so that v moves by 2/3 of the difference and s becomes 2/3.

*Sums of listed answers*, in whole numbers, lead into a sweep and out of it. Worked case: two geounits of one
group have the answers 3 and 4 to a query of one answer. The group has the sum 7.

Source: Koopman and Durbin 2000 (exact treatment of what is not known, one measurement after the other).
Oracles: dense generalised least squares, and the filtering of `tallyveil.estimation.intervals.covariance`;
every answer by itself with exact fractions; sums by numpy, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.tree.sweep import Basis, Cascade, apply_blocks, reflect, spread_to_cells
from tallyveil.kernels.vectors import inner

LOOSE = 1e-9
"""A row a is learned from D if a'D a is more than this fraction of a'a. Less is a rounding error of zero. D is a sum of
projectors, so the fraction does not depend on any unit."""

KNOWN, FROM_LOOSE, FROM_SPREAD = 0, 1, 2
"""Where the gain of a row comes from."""


class BlockRows(NamedTuple):
    """The rows of some queries in the blocks of each class.

    Attributes:
        begin: Where the rows of each query and class begin in `entries`; shape (Q, K).
        counts: Number of these rows; shape (Q, K).
        entries: Row after row, each as long as the block is wide.
    """

    begin: Integers
    counts: Integers
    entries: Floats


class Learned(NamedTuple):
    """What the geounits of a geolevel are told.

    Attributes:
        cascade: The measured queries.
        rows: Their rows.
        information: A'A of each query, packed; shape (Q, n_block_entries).
        exact: The invariants; their answers are divided among their cells.
        exact_rows: Their rows.
        least: A variance below this is a rounding error of zero.
    """

    cascade: Cascade
    rows: BlockRows
    information: Floats
    exact: Cascade
    exact_rows: BlockRows
    least: float


class Told(NamedTuple):
    """Answers of the geounits of one geolevel; one row a geounit.

    Attributes:
        values: Noisy answers, one query after the other.
        precisions: 1 / variance of each query, or one row for all geounits; 0: not measured.
        exact: Answers of the invariants, one query after the other.
    """

    values: Integers
    precisions: Floats
    exact: Integers


class ChildSums(NamedTuple):
    """Sums over the children of some geounits, which become the geounits' own; one row a geounit.

    Attributes:
        estimates: x; coefficients, shape (n, n_cells).
        spread: P; packed blocks, shape (n, n_block_entries).
        loose: D; in the same form, without a row where no direction is loose.
    """

    estimates: Floats
    spread: Floats
    loose: Floats


class SweepScratch(NamedTuple):
    """Work space: m and u of a row, packed blocks, coefficients, cells, and answers with one place more."""

    m: Floats
    u: Floats
    blocks: Floats
    h: Floats
    cells: Floats
    work: Floats


@internal
def _scratch(basis: Basis, cascade: Cascade) -> SweepScratch:
    # The widest block bounds m and u. One scratch serves one call of a kernel; it is not shared by threads.
    largest, n_cells = 0, basis.order.size
    for d in basis.dims:
        largest = max(largest, d)
    return SweepScratch(
        np.empty(largest),
        np.empty(largest),
        np.empty(basis.blocks[basis.dims.size]),
        np.empty(n_cells),
        np.empty(n_cells),
        np.empty(cascade.scale.size + 1),
    )


@internal
def _times(matrix: Floats, d: int, row: Floats, start: float, out: Floats) -> float:
    """A block times a row, into `out`. Returns `start` plus the inner product of the row with the result."""
    # f or F of the module's description: the caller's start is the variance, so that no sum is reassociated later.
    total = start
    for i in range(d):
        value = 0.0
        for j in range(d):
            value += matrix[i * d + j] * row[j]
        out[i] = value
        total += row[i] * value
    return total


@internal
def _learn(
    spread: Floats, loose: Floats, d: int, row: Floats, variance: float, least: float, scratch: SweepScratch
) -> tuple[int, float]:
    """Learn one row in one block. Returns where its gain comes from, and what m or u is divided by."""
    # `spread` and `loose` are written in place; m and u are taken from them before, so that each entry is read
    # while it is still the old one.
    m, u = scratch.m, scratch.u
    total, length = _times(spread, d, row, variance, m), inner(row, row)
    # Of no size where all directions are known, and then D costs nothing.
    if loose.size:
        free = _times(loose, d, row, 0.0, u)
        # The choice decides the form of the step, and both forms differ by far. It is the same on every machine,
        # because `free` comes from operations in one order.
        if free > LOOSE * length:
            # The formula is symmetric in i and j bit for bit, as sums and products of two commute. So P and D stay
            # symmetric without a copy of one half.
            for i in range(d):
                for j in range(d):
                    product = u[i] * u[j]
                    spread[i * d + j] += product * total / (free * free) - (m[i] * u[j] + u[i] * m[j]) / free
                    loose[i * d + j] -= product / free
            return FROM_LOOSE, free
    # F = variance: a'P a is 0, or too small to be seen beside the variance. An exact row has variance 0, where a
    # rounding error must not be taken for uncertainty; dividing by it would blow up x.
    if total == variance or total <= least * length:
        return KNOWN, 1.0
    # The step of a Kalman filter with one measurement: P never grows, and no matrix is inverted.
    for i in range(d):
        for j in range(d):
            spread[i * d + j] -= m[i] * m[j] / total
    return FROM_SPREAD, total


@njit(nogil=True, cache=True)
def learn_measured(basis: Basis, learned: Learned, precisions: Floats, spread: Floats, loose: Floats) -> None:
    """Learn the measured queries of one geounit: P and D alone.

    Args:
        basis: The basis.
        learned: What is measured.
        precisions: 1 / variance of each query; 0: not measured. [Q]
        spread: P, packed; changed.
        loose: D, packed, or of no size; changed.
    """
    # Blocks are independent, so the classes may be taken one after the other, each with all its queries.
    rows, scratch = learned.rows, _scratch(basis, learned.cascade)
    for k in range(basis.dims.size):
        d, place, end = basis.dims[k], basis.blocks[k], basis.blocks[k + 1]
        product = spread[place:end]
        free = loose[place:end] if loose.size else loose
        for q in range(precisions.size):
            # Precision 0 is no measurement. As a variance it would be infinite, and infinity times zero is no
            # number.
            if precisions[q] > 0.0:
                for r in range(rows.counts[q, k]):
                    at = rows.begin[q, k] + r * d
                    # Rows of a query that are equal in all copies of a block are learned once: P and D are the same
                    # for each copy.
                    _learn(product, free, d, rows.entries[at : at + d], 1.0 / precisions[q], 0.0, scratch)


@njit(nogil=True, cache=True)
def learn_exact(
    basis: Basis, learned: Learned, answers: Integers, spread: Floats, loose: Floats, x: Floats
) -> None:
    """Learn the exact answers of one geounit.

    Args:
        basis: The basis.
        learned: What is exact.
        answers: The answers, one query after the other.
        spread: P, packed; changed.
        loose: D, packed, or of no size; changed.
        x: Coefficients; changed.
    """
    # One query at a time, because each changes P and x for the next.
    cascade, rows = learned.exact, learned.exact_rows
    scratch, weights = _scratch(basis, cascade), np.zeros(cascade.begin.size - 1)
    particular = scratch.h
    for q in range(weights.size):
        # Picks one query: the adjoint of its answers is a table of cells with these answers, a particular solution
        # whose rows in each block are what the row must give.
        weights[q] = 1.0
        spread_to_cells(cascade, weights, answers, scratch.work, scratch.cells)
        weights[q] = 0.0
        reflect(basis, scratch.cells)
        for j in range(particular.size):
            particular[j] = scratch.cells[basis.order[j]]
        for k in range(basis.dims.size):
            d, place, end = basis.dims[k], basis.blocks[k], basis.blocks[k + 1]
            product = spread[place:end]
            free = loose[place:end] if loose.size else loose
            first, mult = basis.coefficients[k], basis.mults[k]
            for r in range(rows.counts[q, k]):
                row = rows.entries[rows.begin[q, k] + r * d : rows.begin[q, k] + (r + 1) * d]
                source, total = _learn(product, free, d, row, 0.0, learned.least, scratch)
                # A row that is known already says nothing new; its answer is not looked at.
                if source != KNOWN:
                    gain = scratch.u if source == FROM_LOOSE else scratch.m
                    # The gain is the same for all copies of the block; what is missed is each copy's own.
                    for c in range(first, first + mult):
                        # Innovation of one copy: t - a'x, summed in the order of the rows.
                        missed = 0.0
                        for i in range(d):
                            missed += row[i] * (particular[c + i * mult] - x[c + i * mult])
                        for i in range(d):
                            x[c + i * mult] += gain[i] / total * missed


@internal
def _weigh(
    basis: Basis, learned: Learned, answers: Integers, precisions: Floats, scratch: SweepScratch
) -> None:
    """h, into the scratch."""
    # h = Q'(precision y) in coefficients. Answers are whole numbers and exact as floats.
    h, cells = scratch.h, scratch.cells
    spread_to_cells(learned.cascade, precisions, answers, scratch.work, cells)
    reflect(basis, cells)
    for j in range(h.size):
        h[j] = cells[basis.order[j]]


@internal
def _inform(learned: Learned, precisions: Floats, blocks: Floats) -> None:
    """-L, into packed blocks."""
    # The sign is part of it, so that `apply_blocks`, which only adds, gives h - L x.
    blocks[:] = 0.0
    for q in range(precisions.size):
        if precisions[q] > 0.0:
            for e in range(blocks.size):
                blocks[e] -= precisions[q] * learned.information[q, e]


@njit(nogil=True, cache=True)
def learn_level(basis: Basis, learned: Learned, told: Told, sums: ChildSums, first: int, last: int) -> None:
    """Turn the sums over the children of geounits first..last into the geounits' own estimates.

    Args:
        basis: The basis.
        learned: What the geolevel is told.
        told: The answers.
        sums: Sums over the children; changed.
        first: First geounit.
        last: One past the last.
    """
    # Geounits are independent here; each range is a task of a thread, and each row is written by one of them.
    scratch, alike = _scratch(basis, learned.cascade), told.precisions.shape[0] == 1
    for g in range(first, last):
        product = told.precisions[0 if alike else g]
        # L of equal precisions is made once for the range.
        if g == first or not alike:
            _inform(learned, product, scratch.blocks)
        # Views: the sums over the children become the geounit's own estimate without a copy.
        spread = sums.spread[g]
        loose = sums.loose[g] if sums.loose.shape[0] else sums.loose[:0].ravel()
        x = sums.estimates[g]
        # P first, then x += P (h - L x) with the new P: this is the estimate after all rows at once, and costs one
        # product.
        learn_measured(basis, learned, product, spread, loose)
        _weigh(basis, learned, told.values[g], product, scratch)
        # h is changed to h - L x before x is, so x is still the sum of the children's.
        apply_blocks(basis, scratch.blocks, x, scratch.h)
        apply_blocks(basis, spread, scratch.h, x)
        # Last, so that invariants hold to rounding whatever the noise says.
        if told.exact.shape[1]:
            learn_exact(basis, learned, told.exact[g], spread, loose, x)


class Alike(NamedTuple):
    """Finest geounits of one parent with the same precisions and zeros, as one group. G groups, ordered by parent.

    Attributes:
        begin: Groups of each parent. [parents + 1]
        signature: Signature of each group. [G]
        number: How many geounits it has. [G]
        values: Sum of their noisy answers. [G, answers]
        exact: Sum of their exact answers. [G, exact answers]
    """

    begin: Integers
    signature: Integers
    number: Integers
    values: Integers
    exact: Integers


class Signatures(NamedTuple):
    """What finest geounits with the same precisions and zeros have in common; one row a signature.

    Attributes:
        precisions: 1 / variance of each query.
        spread: P once the noisy answers are learned, packed.
        loose: D at that point.
        settled: P once the exact answers are learned, too.
        left: D at that point.
    """

    precisions: Floats
    spread: Floats
    loose: Floats
    settled: Floats
    left: Floats


@njit(nogil=True, cache=True)
def add_finest(
    basis: Basis,
    learned: Learned,
    signatures: Signatures,
    alike: Alike,
    sums: ChildSums,
    first: int,
    last: int,
) -> None:
    """Add the finest geounits of parents first..last to the parents' sums.

    The noisy answers of a group are added up as whole numbers, so the order of its geounits does not matter.
    """
    # Each parent's sums are written by the call that has the parent. Groups are taken in their given order, so the
    # bits do not depend on threads.
    scratch, x = _scratch(basis, learned.cascade), np.empty(basis.order.size)
    for p in range(first, last):
        for g in range(alike.begin[p], alike.begin[p + 1]):
            s, number = alike.signature[g], alike.number[g]
            # P and D of a finest geounit follow from its precisions and zeros alone, so signatures hold them ready;
            # only x needs the answers. It is linear in them, so the sum of the answers gives the sum of the
            # estimates.
            x[:] = 0.0
            _weigh(basis, learned, alike.values[g], signatures.precisions[s], scratch)
            apply_blocks(basis, signatures.spread[s], scratch.h, x)
            # Copies, because learning changes P and D, and the signature's must serve the next group. Exact sums
            # give the sum of the exact estimates for the same reason as above.
            if alike.exact.shape[1]:
                spread, loose = signatures.spread[s].copy(), signatures.loose[s].copy()
                learn_exact(basis, learned, alike.exact[g], spread, loose, x)
            for j in range(x.size):
                sums.estimates[p, j] += x[j]
            for e in range(scratch.blocks.size):
                # Independent geounits: covariances add up.
                sums.spread[p, e] += number * signatures.settled[s, e]
            if sums.loose.shape[0]:
                for e in range(scratch.blocks.size):
                    sums.loose[p, e] += number * signatures.left[s, e]


@njit(nogil=True, cache=True)
def add_children(children: ChildSums, parent: Integers, sums: ChildSums) -> None:
    """Add geounits to the sums of their parents, one after the other.

    Args:
        children: The geounits.
        parent: Row of each geounit's parent in `sums`.
        sums: Changed.
    """
    # In the order of the children and not in parallel: two children of one parent add to one row.
    for c in range(parent.size):
        p = parent[c]
        for j in range(children.estimates.shape[1]):
            sums.estimates[p, j] += children.estimates[c, j]
        for e in range(children.spread.shape[1]):
            sums.spread[p, e] += children.spread[c, e]
        if sums.loose.shape[0]:
            for e in range(children.spread.shape[1]):
                sums.loose[p, e] += children.loose[c, e]


@njit(nogil=True, cache=True)
def cell_estimates(basis: Basis, estimates: Floats, first: int, last: int, out: Floats) -> None:
    """Cells of geounits first..last, from their coefficients."""
    cells = np.empty(basis.order.size)
    for g in range(first, last):
        for j in range(cells.size):
            cells[basis.order[j]] = estimates[g, j]
        reflect(basis, cells)
        for j in range(cells.size):
            out[g, j] = cells[j]


class AnswerPlaces(NamedTuple):
    """Where the answers of U queries are in the rows of one geolevel.

    Attributes:
        begin: Where each query begins in a row of estimates. [U + 1]
        query: Number of the query among those measured at the geolevel, -1: none. [U]
        measured: Where it begins in a row of noisy answers. [U]
        exact: Where it begins in a row of exact answers, -1: it is not exact. [U]
    """

    begin: Integers
    query: Integers
    measured: Integers
    exact: Integers


@njit(nogil=True, cache=True)
def add_finest_answers(
    places: AnswerPlaces, variances: Floats, alike: Alike, sums: ChildSums, first: int, last: int
) -> None:
    """Add the finest geounits of parents first..last to the parents' sums.

    Args:
        places: Of the finest geolevel.
        variances: Variance of each answer of one geounit, from its noisy answer and zeros; one row a kind.
        alike: Groups of geounits of one kind.
        sums: Changed.
        first: First parent.
        last: One past the last.
    """
    for p in range(first, last):
        for g in range(alike.begin[p], alike.begin[p + 1]):
            # Geounits of one kind have equal variances, so the group's is `number` times one geounit's, without a
            # loop over them.
            kind, number = alike.signature[g], alike.number[g]
            for u in range(places.query.size):
                for k in range(places.begin[u + 1] - places.begin[u]):
                    at = places.begin[u] + k
                    variance = variances[kind, at]
                    # Variance 0 is a known zero: it adds nothing to the estimate and nothing to the variance.
                    if variance > 0.0:
                        # An exact answer wins over a noisy one of the same query. Its variance is 0, so that only
                        # the estimate grows.
                        if places.exact[u] >= 0:
                            sums.estimates[p, at] += alike.exact[g, places.exact[u] + k]
                        elif places.query[u] >= 0 and variance < np.inf:
                            sums.estimates[p, at] += alike.values[g, places.measured[u] + k]
                            sums.spread[p, at] += number * variance
                        # Neither measured nor exact: from here on the sum is unknown, whatever the other children
                        # say.
                        else:
                            sums.spread[p, at] = np.inf


@njit(nogil=True, cache=True)
def learn_answers(
    places: AnswerPlaces, told: Told, sums: ChildSums, first: int, last: int, out: Floats
) -> None:
    """Turn the sums over the children of geounits first..last into the geounits' own estimates.

    Args:
        places: Of their geolevel.
        told: The answers.
        sums: Changed.
        first: First geounit.
        last: One past the last.
        out: Estimates of the answers that the geolevel measures, as in a row of noisy answers.
    """
    for g in range(first, last):
        # One row if all geounits of the geolevel have the same precisions, which is the common case.
        precisions = told.precisions[g if told.precisions.shape[0] > 1 else 0]
        v, s = sums.estimates[g], sums.spread[g]
        for u in range(places.query.size):
            q, begin = places.query[u], places.begin[u]
            for k in range(places.begin[u + 1] - begin):
                at = begin + k
                # Set, not moved: what the children said of an answer that is known exactly is dropped.
                if places.exact[u] >= 0:
                    v[at], s[at] = told.exact[g, places.exact[u] + k], 0.0
                # s = 0 means known already: a measurement could only move it by 0.
                elif q >= 0 and precisions[q] > 0.0 and s[at] > 0.0:
                    y, r = told.values[g, places.measured[u] + k], 1.0 / precisions[q]
                    # The limit of the rule below for large s, stated by itself since infinity / infinity is not a
                    # number.
                    if s[at] == np.inf:
                        v[at], s[at] = y, r
                    else:
                        # Written by differences: v moves by a part of y - v, which keeps digits where both are
                        # large and close.
                        part = s[at] / (s[at] + r)
                        v[at] += part * (y - v[at])
                        # s r / (s + r), from the same quotient.
                        s[at] = part * r
                if q >= 0:
                    out[g, places.measured[u] + k] = v[at]


@njit(nogil=True, cache=True)
def add_answers(
    answers: Integers,
    begin: Integers,
    child_begin: Integers,
    group: Integers,
    values: Integers,
    query_begin: Integers,
    out: Integers,
) -> None:
    """Add the listed answers of geounits to the sums of their groups, as whole numbers.

    Args:
        answers: Answer numbers, by query, then by run of geounits.
        begin: Where those of each query and run begin. [Q, runs + 1]
        child_begin: First geounit of each run, counted from the first of all. [runs + 1]
        group: Row of each geounit in `out`.
        values: Noisy answers, by query, run, geounit and answer.
        query_begin: Where each query begins in a row of `out`. [Q]
        out: Changed.
    """
    # `values` is read once, front to back: the loops are in the order in which the draws were listed.
    place = 0
    # Whole numbers, so the sums are the same in any order, and chunks may be added by themselves.
    for q in range(begin.shape[0]):
        for f in range(child_begin.size - 1):
            for child in range(child_begin[f], child_begin[f + 1]):
                # A view of the row: nothing is copied, and two children of one group add to the same sums.
                sums = out[group[child]]
                for k in range(begin[q, f], begin[q, f + 1]):
                    sums[query_begin[q] + answers[k]] += values[place]
                    place += 1


@njit(nogil=True, cache=True)
def family_answers(
    answers: Integers,
    begin: Integers,
    child_begin: Integers,
    answer_of_cell: Int32s,
    n_answers: int,
    units: Integers,
    values: Integers,
) -> None:
    """The listed answers of one query, summed from cells.

    Args:
        answers: Answers of the chunk.
        begin: Where those of each family begin, for this query. [F + 1]
        child_begin: First child of each family, counted from the first row of `units`. [F + 1]
        answer_of_cell: Answer of each cell of the schema, -1: none.
        n_answers: Answers of the query.
        units: Cells of every geounit in units of the grid. [children, cells]
        values: Output, in the layout of `FamilyAnswers`.
    """
    # All answers of one geounit, of which only the listed ones are wanted. To sum the cells once is cheaper than to
    # search the cells of each listed answer.
    full = np.empty(n_answers, np.int64)
    place = 0
    for f in range(child_begin.size - 1):
        # A family without listed answers costs nothing, not even its children's cells.
        if begin[f + 1] > begin[f]:
            for child in range(child_begin[f], child_begin[f + 1]):
                full[:] = 0
                for cell in range(answer_of_cell.size):
                    if answer_of_cell[cell] >= 0:
                        full[answer_of_cell[cell]] += units[child, cell]
                for k in range(begin[f], begin[f + 1]):
                    values[place] = full[answers[k]]
                    place += 1
