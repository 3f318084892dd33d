"""Linear algebra on packed blocks, many geounits at once. Spaces that are known exactly, or not known at all,
are carried as projectors, so that no decision on rank depends on a variance.
"""

from collections.abc import Callable

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.intervals.algebra import BlockAlgebra

RANK_TOLERANCE = 1e-8
"""Below this, an eigenvalue of a sum of projectors is zero: they are made of group sizes, not of variances."""

SPECK = 1e-12


def times(algebra: BlockAlgebra, one: Floats, *others: Floats) -> Floats:
    """Products of packed blocks from left to right; a factor of one row serves all."""
    n = max(len(blocks) for blocks in (one, *others))
    out = np.empty((n, algebra.n_block_entries))
    for target, *factors in zip(
        algebra.views(out), *(algebra.views(blocks) for blocks in (one, *others)), strict=True
    ):
        made = factors[0]
        for factor in factors[1:]:
            made = made @ factor
        target[:] = made
    return out


def transposed(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Each block transposed."""
    return _each(algebra, blocks, lambda view: np.swapaxes(view, -1, -2))


def symmetric(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """The symmetric part, which rounding has left."""
    return 0.5 * (blocks + transposed(algebra, blocks))


def inverse_within(algebra: BlockAlgebra, blocks: Floats, space: Floats) -> Floats:
    """Inverse of symmetric blocks on a space, zero outside it.

    Args:
        algebra: The algebra.
        blocks: Positive definite on the space, zero outside; packed.
        space: Projector on the space; packed.
    """
    out = np.empty(np.broadcast_shapes(blocks.shape, space.shape))
    for target, view, kept in zip(
        algebra.views(out), algebra.views(blocks), algebra.views(space), strict=True
    ):
        eye = np.eye(view.shape[-1])
        rank = np.trace(kept, axis1=-2, axis2=-1)
        size = np.trace(view, axis1=-2, axis2=-1)
        some = (rank > 0.5) & (size > 0)  # ranks are whole numbers
        scale = np.where(some, size / np.maximum(rank, 1.0), 1.0)[..., None, None]
        filled = np.where(some[..., None, None], view + scale * (eye - kept), eye)
        inverse = np.linalg.inv(filled) - (eye - kept) / scale
        diagonal = np.einsum("...ii->...i", kept)
        outside = np.broadcast_to((diagonal == 0.0) | ~some[..., None], inverse.shape[:-1])
        # where a zero fixes a coefficient outright, its row is zero and not merely small
        inverse[outside] = 0.0
        np.swapaxes(inverse, -1, -2)[outside] = 0.0
        target[:] = 0.5 * (inverse + np.swapaxes(inverse, -1, -2))
    return out


def null_projector(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Projectors on the null spaces of positive semi-definite blocks built from projectors."""

    def one(view: Floats) -> Floats:
        values, vectors = np.linalg.eigh(view)
        top = np.maximum(values[..., -1:], 1.0)
        null = np.where(values <= RANK_TOLERANCE * top, 1.0, 0.0)
        made: Floats = (vectors * null[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return made

    return _each(algebra, blocks, one)


def pseudo_inverse(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Moore-Penrose inverses of blocks built from projectors, whose sizes are known: the cut is absolute."""

    def one(view: Floats) -> Floats:
        left, sizes, right = np.linalg.svd(view)
        kept = sizes > RANK_TOLERANCE
        inverse = np.where(kept, 1.0 / np.where(kept, sizes, 1.0), 0.0)
        made: Floats = (np.swapaxes(right, -1, -2) * inverse[..., None, :]) @ np.swapaxes(left, -1, -2)
        return made

    return _each(algebra, blocks, one)


def snapped(blocks: Floats) -> Floats:
    """Projectors without the specks that rounding has left where they are zero."""
    return np.where(np.abs(blocks) < SPECK, 0.0, blocks)


def is_diagonal(algebra: BlockAlgebra, blocks: Floats) -> bool:
    """Whether no block has anything off its diagonal."""
    return all(not np.any(view * (1.0 - np.eye(view.shape[-1]))) for view in algebra.views(blocks))


def _each(algebra: BlockAlgebra, blocks: Floats, work: Callable[[Floats], Floats]) -> Floats:
    out = np.empty(blocks.shape)
    for target, view in zip(algebra.views(out), algebra.views(blocks), strict=True):
        target[:] = work(view)
    return out
