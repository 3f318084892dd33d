"""One step up the tree: what a geounit's subtree says of it, as a mean rule and a covariance.

Key, for one geounit with children c: S sum of the children's covariances P_c; Z projector on what is known
exactly; U projector on what nothing below informs of; G inverse of S between the two; L own information; J = G + L.
Known exactly are zeros and invariants. R projects on what the geounit's own invariants tell, t are their values.

The estimate given everything below and here is  P h + carry b + pin t  with h = sum of Q'y / variance and b the
sum of the children's estimates. Without invariants and unknown directions carry is I - P L.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.intervals.algebra import BlockAlgebra, information
from tallyveil.intervals.block_linear import (
    inverse_within,
    is_diagonal,
    null_projector,
    pseudo_inverse,
    snapped,
    times,
)
from tallyveil.intervals.model import LevelModel


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """Geounits of one level given everything at and below them; packed blocks, one row a geounit.

    Attributes:
        covariance: P; zero on known and on unknown directions.
        gain: G.
        carry: Factor of the sum of the children's estimates.
        pin: Factor of the invariants' values, or None.
        known: Z.
        unknown: U, or None where everything is informed of.
    """

    covariance: Floats
    gain: Floats
    carry: Floats
    pin: Floats | None
    known: Floats
    unknown: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Below:
    """What the children say of their sum; packed blocks, one row a geounit.

    Attributes:
        spread: S.
        known: Z of the sum.
        unknown: U of the sum, or None.
        unknown_sum: Sum of the children's U, or None.
    """

    spread: Floats
    known: Floats
    unknown: Floats | None
    unknown_sum: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LevelInformation:
    """What the queries of one geolevel tell; packed blocks.

    Attributes:
        queries: Q'Q of each measured query; shape (Q, n_block_entries).
        patterns: The same divided by its trace, class by class, for decisions on rank.
        told: Projector R on what the invariants tell, or None; one row.
        solved: Pseudo-inverse of the sum of the invariants' projectors, or None; one row.
    """

    queries: Floats
    patterns: Floats
    told: Floats | None
    solved: Floats | None


def level_information(algebra: BlockAlgebra, level: LevelModel) -> LevelInformation:
    """Blocks of the queries and invariants of a geolevel."""
    entries = algebra.n_block_entries
    queries = np.array([information(algebra, group) for group in level.measured]).reshape(-1, entries)
    patterns = np.empty(queries.shape)
    for target, view in zip(algebra.views(patterns), algebra.views(queries), strict=True):
        trace = np.trace(view, axis1=-2, axis2=-1)[..., None, None]
        target[:] = view / np.where(trace > 0, trace, 1.0)
    if not level.invariants:
        return LevelInformation(queries, patterns, None, None)
    told = np.sum([information(algebra, one, normalised=True) for one in level.invariants], axis=0)[None]
    solved = pseudo_inverse(algebra, told)
    return LevelInformation(queries, patterns, times(algebra, solved, told), solved)


def nothing_below(algebra: BlockAlgebra, known: Floats) -> Below:
    """A finest geounit: nothing is known of it but zeros."""
    return Below(np.zeros(known.shape), known, algebra.identity(1) - known)


def filter_level(algebra: BlockAlgebra, own: LevelInformation, precisions: Floats, below: Below) -> Filtered:
    """One step up for geounits of one geolevel.

    Args:
        algebra: The algebra.
        own: What the queries of the geolevel tell.
        precisions: 1 / variance of each geounit and query; shape (n, Q).
        below: What the children say.
    """
    eye = algebra.identity(1)
    free = snapped(eye - below.known if below.unknown is None else eye - below.known - below.unknown)
    gain = inverse_within(algebra, _inside(algebra, below), free)
    informed = gain + precisions @ own.queries
    known, pinned = below.known, None
    if own.told is not None:
        pinned = pseudo_inverse(algebra, times(algebra, own.told, eye - below.known))
        known = snapped(known + times(algebra, pinned, own.told, eye - below.known))
    unknown = _still_unknown(algebra, own, precisions, known, below.unknown)
    space = snapped(eye - known if unknown is None else eye - known - unknown)
    covariance = _covariance(algebra, informed, space)
    if own.told is None and below.unknown is None:
        untouched = ~precisions.any(axis=1)
        # a bypassed geounit says exactly what its children say
        covariance[untouched] = below.spread[untouched]
        carry = eye - times(algebra, covariance, precisions @ own.queries)
        return Filtered(covariance, gain, carry, None, known, unknown)
    carry, pin = _rules(algebra, own, below, gain, informed, covariance, pinned)
    return Filtered(covariance, gain, carry, pin, known, unknown)


def _inside(algebra: BlockAlgebra, below: Below) -> Floats:
    """S between the unknown directions."""
    if below.unknown is None:
        return below.spread
    kept = algebra.identity(1) - below.unknown
    return times(algebra, kept, below.spread, kept)


def _covariance(algebra: BlockAlgebra, informed: Floats, space: Floats) -> Floats:
    """Inverse of J on the space of what is neither known nor unknown."""
    if is_diagonal(algebra, space):
        # rows and columns outside drop out
        kept = _outer_mask(algebra, space)
        return inverse_within(algebra, informed * kept, space)
    return inverse_within(algebra, times(algebra, space, informed, space), space)


def _outer_mask(algebra: BlockAlgebra, diagonal: Floats) -> Floats:
    out = np.empty(diagonal.shape)
    for target, view in zip(algebra.views(out), algebra.views(diagonal), strict=True):
        own = np.einsum("...ii->...i", view)
        target[:] = own[..., :, None] * own[..., None, :]
    return out


def _still_unknown(
    algebra: BlockAlgebra,
    own: LevelInformation,
    precisions: Floats,
    known: Floats,
    unknown: Floats | None,
) -> Floats | None:
    """Directions of U that neither the geounit's measurements nor its invariants inform of."""
    if unknown is None:
        return None
    eye = algebra.identity(1)
    informed = (precisions > 0).astype(np.float64) @ own.patterns
    still = snapped(null_projector(algebra, informed + known + eye - unknown))
    return still if np.any(np.abs(still) > 0.5 / algebra.n_cells) else None


def _rules(
    algebra: BlockAlgebra,
    own: LevelInformation,
    below: Below,
    gain: Floats,
    informed: Floats,
    covariance: Floats,
    pinned: Floats | None,
) -> tuple[Floats, Floats | None]:
    """Carry and pin with invariants or unknown directions."""
    eye = algebra.identity(1)
    rest = eye - times(algebra, covariance, informed)
    kept = rest if pinned is None or own.told is None else rest - times(algebra, rest, pinned, own.told)
    carry = times(algebra, covariance, gain) + kept
    if below.unknown is not None:
        carry = times(algebra, carry, eye - below.unknown)
    if pinned is None or own.solved is None:
        return carry, None
    return carry, times(algebra, rest, pinned, own.solved)


def sum_below(
    algebra: BlockAlgebra, n_children: Floats, spread: Floats, known: Floats, unknown: Floats | None
) -> Below:
    """What children say of their sum, from sums over them.

    Args:
        algebra: The algebra.
        n_children: Children of each geounit; shape (n,).
        spread: Sum of the children's covariances.
        known: Sum of their projectors on what is known.
        unknown: Sum of their projectors on what is unknown, or None.
    """
    eye = algebra.identity(1)
    if is_diagonal(algebra, known):
        both = (known > n_children[:, None] - 0.5).astype(
            np.float64
        )  # a projector that is diagonal holds 0 or 1
    else:
        both = snapped(null_projector(algebra, n_children[:, None] * eye - known))
    if unknown is None:
        return Below(spread, both, None)
    either = snapped(eye - null_projector(algebra, unknown))
    return Below(spread, both, either if np.abs(either).max() > 0.5 / algebra.n_cells else None, unknown)
