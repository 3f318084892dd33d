"""Slow and obvious specifications of the kernels in `tallyveil.kernels.tree.sweep`."""

import numpy as np
from tests.oracles.transform import (
    apply_blocks_reference,
    collect_from_cells_reference,
    reflect_reference,
    spread_to_cells_reference,
)

from tallyveil.arrays import Floats
from tallyveil.kernels.tree.sweep import Basis, Cascade, NoisyAnswers, RowGroups, SharedRows


def add_measured_reference(
    basis: Basis,
    answers: NoisyAnswers,
    blocks: Floats,
    groups: RowGroups,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Specification of `add_measured`: every row by itself."""
    cascade, values, weights = answers
    work, cells = np.empty(len(cascade.scale) + 1), np.empty(len(basis.order))
    for g in range(first, last):
        for r in range(int(groups.begin[g]), int(groups.begin[g + 1])):
            own = int(groups.blocks[g])
            row = groups.factors[r] * values[groups.order[r]]
            spread_to_cells_reference(cascade, weights[own], row, work, cells)
            reflect_reference(basis, cells)
            apply_blocks_reference(basis, blocks[own], cells[basis.order], out[groups.target[g]])


def add_products_reference(
    basis: Basis,
    blocks: SharedRows,
    x: SharedRows,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Specification of `add_products`."""
    for i in range(first, last):
        apply_blocks_reference(basis, blocks.rows[blocks.row_of[i]], x.rows[x.row_of[i]], out[i])


def answer_rows_reference(
    basis: Basis, cascade: Cascade, x: Floats, first: int, last: int, out: Floats
) -> None:
    """Specification of `answer_rows`."""
    for i in range(first, last):
        cells = np.empty(len(basis.order))
        cells[basis.order] = x[i]
        reflect_reference(basis, cells)
        collect_from_cells_reference(cascade, cells, out[i])


def finest_rows_reference(
    basis: Basis,
    answers: NoisyAnswers,
    blocks: SharedRows,
    pull: SharedRows,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Specification of `finest_rows`."""
    cascade, values, weights = answers
    work, cells = np.empty(len(cascade.scale) + 1), np.empty(len(basis.order))
    for i in range(first, last):
        own = blocks.row_of[i]
        spread_to_cells_reference(cascade, weights[own], values[i], work, cells)
        reflect_reference(basis, cells)
        x = cells[basis.order] + pull.rows[pull.row_of[i]]
        apply_blocks_reference(basis, blocks.rows[own], x, out[i])
