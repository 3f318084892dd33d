"""The sweeps over the data: rows of noisy answers up to estimates, and estimates down to answers.

In the basis of `tallyveil.kernels.tree.transform` the normal equations of a whole spine are small blocks, so that an
estimate is a sum over geounits of block times the coefficients of Q'(weight y). These kernels compute such sums and
their adjoints.

Every geounit's sums are taken in one fixed order, so the result does not depend on how the work is divided.
Specifications: `tests.oracles.sweep`.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers, Numbers
from tallyveil.kernels.compiled import njit
from tallyveil.kernels.tree.transform import (
    Basis,
    Cascade,
    apply_blocks,
    collect_from_cells,
    reflect,
    spread_to_cells,
)


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
