"""Sweeps over a spine in the basis of blocks: answers to estimates and back.

*The basis.* Counts of one geounit become coefficients in which every measurement is a few small blocks. A
reflection turns the levels of one atom of one attribute into their normalised sum and contrasts. It is its
own inverse. A cascade hands answers of coarse queries on to finer ones, and in the end to cells, so that the
adjoint of eleven queries costs little more than that of the finest query. Worked case: the reflection of two
levels with counts (3, 1) gives (4, 2) / sqrt(2): the normalised sum, and the contrast. Reflecting again gives
(3, 1).

*The sweeps.* In this basis the normal equations of a whole spine are small blocks, so that an estimate is a
sum over geounits of block times the coefficients of Q'(weight y). The kernels compute such sums and their
adjoints. Every geounit's sums are taken in one fixed order, so the result does not depend on how the work is
divided.

Specifications: `tests.oracles.transform`, which uses the definitions and takes every query straight to the
cells; `tests.oracles.sweep`.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers, Numbers
from tallyveil.kernels.compiled import internal, njit


class Basis(NamedTuple):
    """The orthonormal basis of the cells of a schema.

    Attributes:
        axis_size: Levels of the attribute of each reflection; shape (R,).
        inner: Cells between neighbouring levels of that attribute; shape (R,).
        begin: Where the levels of each reflection begin among `levels`; shape (R + 1,).
        levels: Levels of the reflected atoms, the one that becomes the sum first.
        order: Cell whose place holds each coefficient; shape (n_cells,).
        dims: Size of the blocks of each class; shape (K,).
        mults: How often each block is repeated on the diagonal; shape (K,).
        coefficients: Where each class begins among the coefficients, as a (dim, mult) array; shape (K + 1,).
        blocks: Where each class begins among the packed blocks; shape (K + 1,).
    """

    axis_size: Integers
    inner: Integers
    begin: Integers
    levels: Integers
    order: Integers
    dims: Integers
    mults: Integers
    coefficients: Integers
    blocks: Integers


class Cascade(NamedTuple):
    """How answers of several query groups reach the cells.

    Attributes:
        begin: Where the answers of each query begin in a row of answers; shape (Q + 1,).
        scale: Factor of every answer; shape (n_answers,).
        source: Query that each edge hands on; shape (E,).
        target: Query that takes it, -1 for the cells; shape (E,).
        map_begin: Where the map of each edge begins; shape (E + 1,).
        maps: Answer (place in the row) of the source for each answer of the target; `n_answers` for none.
    """

    begin: Integers
    scale: Floats
    source: Integers
    target: Integers
    map_begin: Integers
    maps: Int32s


@njit(nogil=True, cache=True)
def reflect(basis: Basis, cells: Floats) -> None:
    """Reflect one geounit's cells in place; doing it twice does nothing."""
    n_cells = len(cells)
    for r in range(len(basis.axis_size)):
        # Reflections of different atoms or attributes commute in exact arithmetic. Their order is fixed here all
        # the same, because rounding does not.
        levels = basis.levels[basis.begin[r] : basis.begin[r + 1]]
        inner = basis.inner[r]
        span = basis.axis_size[r] * inner
        # A Householder reflection, which maps the normalised vector of ones to the first unit vector. One level
        # gives root = 1, and 1 - root = 0: atoms of a single level are no reflections and never come here.
        root = 1.0 / np.sqrt(len(levels))
        pull = root / (1.0 - root)
        # Time: n cells for each attribute, and no matrix is stored.
        for outer in range(0, n_cells, span):
            # Neighbours in memory, where four sums side by side pay.
            if inner == 1:
                _reflect_run(cells, outer, levels, root, pull)
            else:
                for i in range(outer, outer + inner):
                    # The sum goes where the first level was; the others become contrasts, in place.
                    first = i + levels[0] * inner
                    total = cells[first]
                    for k in range(1, len(levels)):
                        total += cells[i + levels[k] * inner]
                    total *= root
                    # The reflection subtracts one multiple of one vector, which is the same shift for all levels
                    # but the first.
                    shift = pull * (cells[first] - total)
                    for k in range(1, len(levels)):
                        cells[i + levels[k] * inner] += shift
                    cells[first] = total


@internal
def _reflect_run(cells: Floats, outer: int, levels: Integers, root: float, pull: float) -> None:
    """One reflection along neighbouring cells; four sums side by side, always the same four."""
    n = len(levels)
    # Four sums break the chain of additions. Their number is part of the result: another number would round
    # otherwise.
    a = b = c = d = 0.0
    k = 0
    while k + 4 <= n:
        a += cells[outer + levels[k]]
        b += cells[outer + levels[k + 1]]
        c += cells[outer + levels[k + 2]]
        d += cells[outer + levels[k + 3]]
        k += 4
    # The rest goes to the first sum, always.
    while k < n:
        a += cells[outer + levels[k]]
        k += 1
    first = outer + levels[0]
    total = ((a + b) + (c + d)) * root
    shift = pull * (cells[first] - total)
    for k in range(1, n):
        cells[outer + levels[k]] += shift
    cells[first] = total


@njit(nogil=True, cache=True)
def spread_to_cells(cascade: Cascade, weights: Floats, values: Numbers, work: Floats, cells: Floats) -> None:
    """Sum over queries of weight times the adjoint of the (scaled) answers, into cells, which are overwritten.

    Args:
        cascade: The queries.
        weights: Factor of each query; shape (Q,).
        values: One row of answers; shape (n_answers,).
        work: Scratch; shape (n_answers + 1,).
        cells: Output; shape (n_cells,).
    """
    # Place n of `work` is the answer of nothing: maps point there for cells that a query leaves out, and it holds
    # 0.
    begin, n = cascade.begin, len(cascade.scale)
    for q in range(len(weights)):
        weight = weights[q]
        for j in range(begin[q], begin[q + 1]):
            work[j] = weight * cascade.scale[j] * values[j]
    work[n] = 0.0
    cells[:] = 0.0
    # Edges are ordered so that a query has taken all that coarser ones hand on before it hands on itself.
    for e in range(len(cascade.source)):
        answers = cascade.maps[cascade.map_begin[e] : cascade.map_begin[e + 1]]
        # The edges to the cells: each has one entry a cell.
        if cascade.target[e] < 0:
            for j in range(len(answers)):
                cells[j] += work[answers[j]]
        else:
            taking = begin[cascade.target[e]]
            for j in range(len(answers)):
                work[taking + j] += work[answers[j]]


@njit(nogil=True, cache=True)
def collect_from_cells(cascade: Cascade, cells: Floats, answers: Floats) -> None:
    """Answers of the cascade's queries from cells: each finer query's answers add up to a coarser one's.

    Args:
        cascade: The queries; their scale is not used.
        cells: Shape (n_cells,).
        answers: Output; shape (n_answers + 1,); the last place gathers what no query asks for.
    """
    # The adjoint of `spread_to_cells`: the same edges backwards, with gathering in the place of handing out.
    answers[:] = 0.0
    # Backwards, so that finer answers are complete before coarser ones add them up.
    for e in range(len(cascade.source) - 1, -1, -1):
        places = cascade.maps[cascade.map_begin[e] : cascade.map_begin[e + 1]]
        if cascade.target[e] < 0:
            for j in range(len(places)):
                answers[places[j]] += cells[j]
        else:
            finer = cascade.begin[cascade.target[e]]
            for j in range(len(places)):
                answers[places[j]] += answers[finer + j]


def straight_answers(cascade: Cascade, query: int) -> Integers:
    """Place in a row of answers that each cell counts in, by following the edges; -1 for none."""
    n = len(cascade.scale)
    # Each query hands on by one edge, so the way from it to the cells is a single path.
    edge = int(np.flatnonzero(cascade.source == query)[0])
    places = cascade.maps[cascade.map_begin[edge] : cascade.map_begin[edge + 1]].astype(np.int64)
    target = int(cascade.target[edge])
    if target >= 0:
        finer = straight_answers(cascade, target)
        # The maximum only keeps the index legal for places that the condition leaves out.
        places = np.where(finer >= 0, places[np.maximum(finer - cascade.begin[target], 0)], n)
    return np.where(places < n, places, -1)


@njit(nogil=True, cache=True)
def apply_blocks(basis: Basis, blocks: Floats, x: Floats, out: Floats) -> None:
    """out += blocks x, for one geounit's packed blocks and coefficients."""
    for k in range(len(basis.dims)):
        # A block is stored once and applied to each of its `mult` copies: this is where the basis saves its time.
        d, mult = basis.dims[k], basis.mults[k]
        start, place = basis.coefficients[k], basis.blocks[k]
        for i in range(d):
            row = out[start + i * mult : start + (i + 1) * mult]
            # Four columns of the block at a time, so that a row of the output is read and written a quarter as
            # often. The sum of the four products has a fixed order; to change four to eight would change bits.
            j = 0
            while j + 4 <= d:
                m0, m1 = blocks[place + i * d + j], blocks[place + i * d + j + 1]
                m2, m3 = blocks[place + i * d + j + 2], blocks[place + i * d + j + 3]
                j += 4
                if m0 == 0.0 and m1 == 0.0 and m2 == 0.0 and m3 == 0.0:
                    continue  # where zeros are known most of a block is zero
                # j has moved on already: these are the four columns before it.
                x0 = x[start + (j - 4) * mult : start + (j - 3) * mult]
                x1 = x[start + (j - 3) * mult : start + (j - 2) * mult]
                x2 = x[start + (j - 2) * mult : start + (j - 1) * mult]
                x3 = x[start + (j - 1) * mult : start + j * mult]
                for m in range(mult):
                    row[m] += m0 * x0[m] + m1 * x1[m] + m2 * x2[m] + m3 * x3[m]
            # At most three columns are left.
            while j < d:
                m0 = blocks[place + i * d + j]
                x0 = x[start + j * mult : start + (j + 1) * mult]
                for m in range(mult):
                    row[m] += m0 * x0[m]
                j += 1


class NoisyAnswers(NamedTuple):
    """Noisy answers to some queries.

    Attributes:
        cascade: The queries whose answers are in a row.
        values: Rows of answers; shape (n_rows, n_answers).
        weights: Factor of every query, one row a set of blocks.
    """

    cascade: Cascade
    values: Numbers
    weights: Floats


class SharedRows(NamedTuple):
    """Rows that several geounits share.

    Attributes:
        rows: The rows: packed blocks, or coefficients.
        row_of: Row of each geounit.
    """

    rows: Floats
    row_of: Integers


class RowGroups(NamedTuple):
    """Rows of answers that are summed before anything else, because they share their blocks.

    Attributes:
        order: Rows, group after group.
        begin: Rows of group g are `order[begin[g]:begin[g + 1]]`.
        factors: Factor of each row in `order`.
        blocks: Row of each group's weights and blocks.
        target: Where each group adds to.
    """

    order: Integers
    begin: Integers
    factors: Floats
    blocks: Integers
    target: Integers


@njit(nogil=True, cache=True)
def add_measured(
    basis: Basis,
    answers: NoisyAnswers,
    blocks: Floats,
    groups: RowGroups,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """out[target] += blocks times coefficients of the sum of Q'(weight y), for groups first..last.

    Args:
        basis: The basis.
        answers: Noisy answers.
        blocks: Packed blocks.
        groups: Which rows are summed, and where they go.
        first: First group.
        last: One past the last.
        out: Coefficients; shape (n_targets, n_cells).
    """
    # Rows of one group share blocks, so their answers are summed first: one product with the blocks for the group
    # instead of one for each row. The map is linear, so nothing but rounding depends on it.
    cascade, values, weights = answers
    n_answers, n_cells = len(cascade.scale), len(basis.order)
    total, work = np.empty(n_answers), np.empty(n_answers + 1)
    cells, x = np.empty(n_cells), np.empty(n_cells)
    for g in range(first, last):
        # Always in the order of `groups.order`, whichever thread takes the group: same order, same bits.
        total[:] = 0.0
        for r in range(groups.begin[g], groups.begin[g + 1]):
            row = values[groups.order[r]]
            factor = groups.factors[r]
            # Whole numbers become floats here, exactly, as they are far below 2^53.
            for j in range(n_answers):
                total[j] += factor * row[j]
        block = groups.blocks[g]
        spread_to_cells(cascade, weights[block], total, work, cells)
        # The basis is orthonormal and its reflections are their own inverses, so the way to coefficients and back
        # is the same kernel, and no factor is needed.
        reflect(basis, cells)
        for j in range(n_cells):
            x[j] = cells[basis.order[j]]
        # Adds to the target. Groups with one target must be in one range: two threads may not add to one row.
        apply_blocks(basis, blocks[block], x, out[groups.target[g]])


@njit(nogil=True, cache=True)
def add_products(
    basis: Basis,
    blocks: SharedRows,
    x: SharedRows,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """out[i] += blocks times x, of geounit i, for rows first..last of coefficients."""
    # Rows are found by number, so that a thousand geounits with one signature keep one set of blocks.
    matrices, matrix_of = blocks
    vectors, vector_of = x
    for i in range(first, last):
        apply_blocks(basis, matrices[matrix_of[i]], vectors[vector_of[i]], out[i])


@njit(nogil=True, cache=True)
def answer_rows(basis: Basis, cascade: Cascade, x: Floats, first: int, last: int, out: Floats) -> None:
    """NoisyAnswers of queries from rows first..last of coefficients; out has one place more than answers."""
    # Room of the call, not of the module: several threads run this kernel at the same time.
    cells = np.empty(len(basis.order))
    for i in range(first, last):
        # Coefficients lie by class, cells in the order of the schema; `order` is a permutation, so all cells are
        # written.
        for j in range(len(cells)):
            cells[basis.order[j]] = x[i, j]
        reflect(basis, cells)
        collect_from_cells(cascade, cells, out[i])


@njit(nogil=True, cache=True)
def finest_rows(
    basis: Basis,
    answers: NoisyAnswers,
    blocks: SharedRows,
    pull: SharedRows,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Coefficients of finest geounits first..last: out += blocks (coefficients of Q'(weight y) + pull).

    Args:
        basis: The basis.
        answers: Noisy answers, one row a geounit; weights as for `blocks`.
        blocks: Packed blocks, one row a signature.
        pull: What the rest of the tree adds, one row a parent.
        first: First geounit.
        last: One past the last.
        out: Coefficients, one row a geounit.
    """
    cascade, values, weights = answers
    matrices, signature = blocks
    pulls, parent = pull
    # The same as `add_measured` for one row a geounit, with what the rest of the tree adds before the blocks are
    # applied: one product instead of two.
    n_cells = len(basis.order)
    work = np.empty(len(cascade.scale) + 1)
    cells, x = np.empty(n_cells), np.empty(n_cells)
    for i in range(first, last):
        spread_to_cells(cascade, weights[signature[i]], values[i], work, cells)
        reflect(basis, cells)
        block = pulls[parent[i]]
        for j in range(n_cells):
            x[j] = cells[basis.order[j]] + block[j]
        apply_blocks(basis, matrices[signature[i]], x, out[i])
