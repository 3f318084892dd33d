"""Linear algebra on packed blocks, for many geounits at once.

Two kinds of directions need care when blocks are inverted: those that are known exactly, and those that nothing informs
about. Both are represented by projectors. So decisions about ranks never depend on the sizes of variances.

Worked case. The block diag(4, 0) with the space diag(1, 0) has the inverse diag(1/4, 0) on that space.
"""

from collections.abc import Callable

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.estimation.intervals.algebra import BlockAlgebra

RANK_TOLERANCE = 1e-8
"""An eigenvalue of a sum of projectors below this is zero. Such sums depend on sizes of groups, not on variances."""

SPECK = 1e-12
"""Entries of projectors below this are rounding errors of zero."""


def times(algebra: BlockAlgebra, first: Floats, *others: Floats) -> Floats:
    """Products of packed blocks from left to right. A factor with one row is used for all geounits."""
    n = max(len(blocks) for blocks in (first, *others))
    out = np.empty((n, algebra.n_block_entries))
    # Part by part: all blocks of one size are multiplied in one call.
    for target, *factors in zip(
        algebra.views(out), *(algebra.views(blocks) for blocks in (first, *others)), strict=True
    ):
        product = factors[0]
        for factor in factors[1:]:
            product = product @ factor
        target[:] = product
    return out


def transposed(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Each block transposed."""
    return _each(algebra, blocks, lambda view: np.swapaxes(view, -1, -2))


def symmetric(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """The symmetric part of each block, which removes asymmetry due to rounding."""
    return 0.5 * (blocks + transposed(algebra, blocks))


def inverse_within(algebra: BlockAlgebra, blocks: Floats, space: Floats) -> Floats:
    """The inverse of symmetric blocks on a space, and zero outside it.

    Args:
        algebra: The algebra.
        blocks: Packed blocks that are positive definite on the space and zero outside.
        space: Packed projectors on the space.
    """
    out = np.empty(np.broadcast_shapes(blocks.shape, space.shape))
    for target, view, inside in zip(
        algebra.views(out), algebra.views(blocks), algebra.views(space), strict=True
    ):
        eye = np.eye(view.shape[-1])
        rank = np.trace(inside, axis1=-2, axis2=-1)
        size = np.trace(view, axis1=-2, axis2=-1)
        # Traces of projectors are whole numbers: what is above a half is at least one direction.
        some = (rank > 0.5) & (size > 0)  # ranks are integers
        scale = np.where(some, size / np.maximum(rank, 1.0), 1.0)[..., None, None]
        # Directions outside the space get the mean size of those inside: these do not worsen the condition number, and
        # the inverse along them is known.
        filled = np.where(some[..., None, None], view + scale * (eye - inside), eye)
        inverse = np.linalg.inv(filled) - (eye - inside) / scale
        diagonal = np.einsum("...ii->...i", inside)
        outside = np.broadcast_to((diagonal == 0.0) | ~some[..., None], inverse.shape[:-1])
        # If a zero determines a coefficient outright, its row must be exactly zero and not merely small.
        inverse[outside] = 0.0
        np.swapaxes(inverse, -1, -2)[outside] = 0.0
        # An inverse of floats is symmetric up to rounding only, and errors would grow from geolevel to geolevel.
        target[:] = 0.5 * (inverse + np.swapaxes(inverse, -1, -2))
    return out


def null_projector(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Projectors on the null spaces of positive semi-definite blocks that are built from projectors."""

    def project(view: Floats) -> Floats:
        values, vectors = np.linalg.eigh(view)
        # Sums of many projectors have large eigenvalues, whose rounding errors grow with them.
        top = np.maximum(values[..., -1:], 1.0)
        null = np.where(values <= RANK_TOLERANCE * top, 1.0, 0.0)
        projectors: Floats = (vectors * null[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return projectors

    return _each(algebra, blocks, project)


def pseudo_inverse(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Moore-Penrose inverses of blocks built from projectors. Their scale is known, so the cutoff is absolute."""

    def invert(view: Floats) -> Floats:
        left, sizes, right = np.linalg.svd(view)
        nonzero = sizes > RANK_TOLERANCE
        inverse = np.where(nonzero, 1.0 / np.where(nonzero, sizes, 1.0), 0.0)
        inverses: Floats = (np.swapaxes(right, -1, -2) * inverse[..., None, :]) @ np.swapaxes(left, -1, -2)
        return inverses

    return _each(algebra, blocks, invert)


def snapped(blocks: Floats) -> Floats:
    """Projectors without the small rounding errors where they should be zero."""
    return np.where(np.abs(blocks) < SPECK, 0.0, blocks)


def is_diagonal(algebra: BlockAlgebra, blocks: Floats) -> bool:
    """Whether all blocks are diagonal."""
    return all(not np.any(view * (1.0 - np.eye(view.shape[-1]))) for view in algebra.views(blocks))


def _each(algebra: BlockAlgebra, blocks: Floats, work: Callable[[Floats], Floats]) -> Floats:
    out = np.empty(blocks.shape)
    for target, view in zip(algebra.views(out), algebra.views(blocks), strict=True):
        target[:] = work(view)
    return out
