"""One step up the tree: what the measurements in a geounit's subtree say about it.

Problem. The children's estimates, given their own subtrees, and their covariances are known. Wanted are the geounit's
estimate and its covariance, given everything at and below it.

Variables. For a geounit with children c: b is the sum of the children's estimates and S the sum of their covariances
P_c. Z is the projector on what is known exactly (zeros and invariants), and U on what nothing below informs about. G is
the inverse of S on the remaining directions. L is the information of the geounit's own measurements, the sum of
Q'Q / variance, and h is the sum of Q'y / variance. J = G + L. R projects on what the geounit's own invariants
determine, and t are their values.

Steps. On the directions that are neither known nor unknown, the covariance P is the inverse of J. The estimate is
P h + carry b + pin t. Without invariants and unknown directions, carry is P G = I - P L.

Worked case. Two children have variance 1 each, and the geounit is measured with variance 1; there is one cell. S = 2,
G = 1/2, L = 1, J = 3/2. So P = 2/3 and carry = 1/3: the estimate is 2/3 y + 1/3 b.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.estimation.intervals.algebra import BlockAlgebra, information
from tallyveil.estimation.intervals.block_linear import (
    inverse_within,
    is_diagonal,
    null_projector,
    pseudo_inverse,
    snapped,
    times,
)
from tallyveil.estimation.intervals.model import LevelModel


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """Geounits of one level, given everything at and below them; packed blocks, one row for each geounit.

    Attributes:
        covariance: P; zero on known and on unknown directions.
        gain: G.
        carry: Factor on the sum of the children's estimates.
        pin: Factor on the invariants' values, or None.
        known: Z.
        unknown: U, or None if no direction is unknown.
    """

    covariance: Floats
    gain: Floats
    carry: Floats
    pin: Floats | None
    known: Floats
    unknown: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Below:
    """What the children say about their sum; packed blocks, one row for each geounit.

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
    """What the queries of one geolevel determine; packed blocks.

    Attributes:
        queries: Q'Q of each measured query; shape (Q, n_block_entries).
        patterns: The same, divided by its trace in each class, for decisions about ranks.
        told: Projector R on what the invariants determine, or None; one row.
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
        # Divided by the trace, so that ranks do not depend on how many cells a query sums.
        trace = np.trace(view, axis1=-2, axis2=-1)[..., None, None]
        target[:] = view / np.where(trace > 0, trace, 1.0)
    if not level.invariants:
        return LevelInformation(queries, patterns, None, None)
    told = np.sum(
        [information(algebra, invariant, normalised=True) for invariant in level.invariants], axis=0
    )[None]
    solved = pseudo_inverse(algebra, told)
    return LevelInformation(queries, patterns, times(algebra, solved, told), solved)


def nothing_below(algebra: BlockAlgebra, known: Floats) -> Below:
    """A finest geounit before its measurements: only zeros are known about it."""
    return Below(np.zeros(known.shape), known, algebra.identity(1) - known)


def filter_level(
    algebra: BlockAlgebra, facts: LevelInformation, precisions: Floats, below: Below
) -> Filtered:
    """One step up, for geounits of one geolevel.

    Args:
        algebra: The algebra.
        facts: What the queries of the geolevel determine.
        precisions: 1 / variance for each geounit and query; shape (n, Q).
        below: What the children say.
    """
    eye = algebra.identity(1)
    free = snapped(eye - below.known if below.unknown is None else eye - below.known - below.unknown)
    # Sums of children inform only where they are neither exact nor unknown.
    gain = inverse_within(algebra, _inside(algebra, below), free)
    informed = gain + precisions @ facts.queries
    known, pinned = below.known, None
    if facts.told is not None:
        pinned = pseudo_inverse(algebra, times(algebra, facts.told, eye - below.known))
        # Invariants add what they determine beyond the zeros and the children.
        known = snapped(known + times(algebra, pinned, facts.told, eye - below.known))
    unknown = _still_unknown(algebra, facts, precisions, known, below.unknown)
    space = snapped(eye - known if unknown is None else eye - known - unknown)
    covariance = _covariance(algebra, informed, space)
    if facts.told is None and below.unknown is None:
        untouched = ~precisions.any(axis=1)
        # A bypassed geounit is known exactly as well as its children.
        # Copied, because inverting twice would change the last bits.
        covariance[untouched] = below.spread[untouched]
        carry = eye - times(algebra, covariance, precisions @ facts.queries)
        return Filtered(covariance, gain, carry, None, known, unknown)
    carry, pin = _rules(algebra, facts, below, gain, informed, covariance, pinned)
    return Filtered(covariance, gain, carry, pin, known, unknown)


def _inside(algebra: BlockAlgebra, below: Below) -> Floats:
    """S, restricted to the directions that are not unknown."""
    if below.unknown is None:
        return below.spread
    rest = algebra.identity(1) - below.unknown
    return times(algebra, rest, below.spread, rest)


def _covariance(algebra: BlockAlgebra, informed: Floats, space: Floats) -> Floats:
    """Inverse of J on the space of what is neither known nor unknown."""
    if is_diagonal(algebra, space):
        # Here the projection only sets rows and columns outside the space to zero.
        mask = _outer_mask(algebra, space)
        return inverse_within(algebra, informed * mask, space)
    return inverse_within(algebra, times(algebra, space, informed, space), space)


def _outer_mask(algebra: BlockAlgebra, diagonal: Floats) -> Floats:
    out = np.empty(diagonal.shape)
    for target, view in zip(algebra.views(out), algebra.views(diagonal), strict=True):
        entries = np.einsum("...ii->...i", view)
        target[:] = entries[..., :, None] * entries[..., None, :]
    return out


def _still_unknown(
    algebra: BlockAlgebra,
    facts: LevelInformation,
    precisions: Floats,
    known: Floats,
    unknown: Floats | None,
) -> Floats | None:
    """The directions of U about which neither the geounit's measurements nor its invariants inform."""
    if unknown is None:
        return None
    eye = algebra.identity(1)
    informed = (precisions > 0).astype(np.float64) @ facts.patterns
    still = snapped(null_projector(algebra, informed + known + eye - unknown))
    # A projector that is not zero has an entry of at least 1 / dim, so half of that separates rounding errors.
    return still if np.any(np.abs(still) > 0.5 / algebra.n_cells) else None


def _rules(
    algebra: BlockAlgebra,
    facts: LevelInformation,
    below: Below,
    gain: Floats,
    informed: Floats,
    covariance: Floats,
    pinned: Floats | None,
) -> tuple[Floats, Floats | None]:
    """Carry and pin, if there are invariants or unknown directions."""
    eye = algebra.identity(1)
    rest = eye - times(algebra, covariance, informed)
    carried = (
        rest if pinned is None or facts.told is None else rest - times(algebra, rest, pinned, facts.told)
    )
    # What is known exactly of the children's sum is carried on unchanged.
    carry = times(algebra, covariance, gain) + carried
    if below.unknown is not None:
        carry = times(algebra, carry, eye - below.unknown)
    if pinned is None or facts.solved is None:
        return carry, None
    return carry, times(algebra, rest, pinned, facts.solved)


def sum_below(
    algebra: BlockAlgebra, n_children: Floats, spread: Floats, known: Floats, unknown: Floats | None
) -> Below:
    """What children say about their sum, from sums over the children.

    Args:
        algebra: The algebra.
        n_children: Number of children of each geounit; shape (n,).
        spread: Sum of the children's covariances.
        known: Sum of their projectors on what is known.
        unknown: Sum of their projectors on what is unknown, or None.
    """
    eye = algebra.identity(1)
    if is_diagonal(algebra, known):
        # The sum is known exactly where all children are: the count of projectors then reaches their number.
        both = (known > n_children[:, None] - 0.5).astype(
            np.float64
        )  # a diagonal projector has entries 0 and 1
    else:
        both = snapped(null_projector(algebra, n_children[:, None] * eye - known))
    if unknown is None:
        return Below(spread, both, None)
    # The sum is unknown where any child is.
    either = snapped(eye - null_projector(algebra, unknown))
    return Below(spread, both, either if np.abs(either).max() > 0.5 / algebra.n_cells else None, unknown)
