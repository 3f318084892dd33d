"""Slow and obvious specifications of the kernels in `tallyveil.kernels.tree.sweep`."""

import numpy as np

from tallyveil.arrays import Floats, Numbers
from tallyveil.kernels.tree.sweep import Basis, Cascade, straight_answers


def reflect_reference(basis: Basis, cells: Floats) -> None:
    """Specification of `reflect`: each reflection I - 2 w w' / w'w with w = first unit vector - normalised ones."""
    for r, size in enumerate(basis.axis_size):
        levels = basis.levels[basis.begin[r] : basis.begin[r + 1]]
        w = np.zeros(int(size))
        w[levels] = -1 / np.sqrt(len(levels))
        w[levels[0]] += 1
        mirror = np.eye(int(size)) - 2 * np.outer(w, w) / (w @ w)
        table = cells.reshape(-1, int(size), int(basis.inner[r]))
        cells[:] = np.einsum("ij,ojk->oik", mirror, table).ravel()


def spread_to_cells_reference(
    cascade: Cascade, weights: Floats, values: Numbers, work: Floats, cells: Floats
) -> None:
    """Specification of `spread_to_cells`: every query straight to the cells. `work` is left alone."""
    cells[:] = 0
    for q in range(len(weights)):
        answers = straight_answers(cascade, q)
        kept = answers >= 0
        cells[kept] += weights[q] * (cascade.scale * values)[answers[kept]]


def collect_from_cells_reference(cascade: Cascade, cells: Floats, answers: Floats) -> None:
    """Specification of `collect_from_cells`: every query straight from the cells."""
    answers[:] = 0
    for q in range(len(cascade.begin) - 1):
        places = straight_answers(cascade, q)
        np.add.at(answers, places[places >= 0], cells[places >= 0])


def apply_blocks_reference(basis: Basis, blocks: Floats, x: Floats, out: Floats) -> None:
    """Specification of `apply_blocks`: one small matrix product a class."""
    for k, d in enumerate(basis.dims):
        own = slice(int(basis.coefficients[k]), int(basis.coefficients[k + 1]))
        matrix = blocks[basis.blocks[k] : basis.blocks[k + 1]].reshape(d, d)
        out[own] += (matrix @ x[own].reshape(d, -1)).ravel()
