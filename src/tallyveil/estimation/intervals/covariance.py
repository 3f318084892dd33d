"""Covariances of the estimates of every geounit, from the model alone. No measurement is read.

Problem. Wanted is the covariance V of each geounit's best linear unbiased estimate from all measurements of
the spine. A pass up the tree computes P, a pass down computes V. Each visits every geolevel once.

*One step up* (`filter_level`): what the measurements in a geounit's subtree say about it. The children's
estimates, given their own subtrees, and their covariances are known. Wanted are the geounit's estimate and
its covariance, given everything at and below it. For a geounit with children c: b is the sum of the
children's estimates and S the sum of their covariances P_c. Z is the projector on what is known exactly
(zeros and invariants), and U on what nothing below informs about. G is the inverse of S on the remaining
directions. L is the information of the geounit's own measurements, the sum of Q'Q / variance, and h is the
sum of Q'y / variance. J = G + L. R projects on what the geounit's own invariants determine, and t are their
values. On the directions that are neither known nor unknown, the covariance P is the inverse of J. The
estimate is P h + carry b + pin t. Without invariants and unknown directions, carry is P G = I - P L.

*Down.* For a child: P is its covariance given what is at and below it, and U the projector on its unknown
directions. For a parent: S is the sum of its children's P, G the inverse of S, W the pseudo-inverse of the
sum of its children's U, X = W (I - S G) and Y = W (S - S G S) W. X and Y distribute a parent's error over
children with unknown directions. If the parent's estimate changes by x, a child's estimate changes by (P G +
U X) x. Given the parent, the errors of two children have the covariance [same child] P - P G P - U X P - P X'
U + U Y U, with the P and U of each. Adding the effect of the parent's error gives V. Without unknown
directions, V = P + P (G V' G - G) P, where V' is the V of the parent.

Worked case. A parent and its two children are each measured with variance 1, and there is one cell. Each
child has P = 1, so S = 2, G = 1/2, L = 1 and J = 3/2. So the parent has P = 2/3 and carry = 1/3: its estimate
is 2/3 y + 1/3 b. The parent has V' = 2/3. A child has V = 1 + (1/4 x 2/3 - 1/2) = 2/3.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.algebra import (
    BlockAlgebra,
    information,
    inverse_within,
    is_diagonal,
    null_projector,
    pseudo_inverse,
    snapped,
    symmetric,
    times,
    transposed,
    zero_blocks,
)
from tallyveil.estimation.intervals.model import LevelModel, TreeModel


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


# With 300 entries each, the blocks of 512 geounits take 1.2 MB. Twice or half of it changes time alone.
ROWS = 512
"""Number of geounits treated at once, so that their blocks fit into a core's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """Directions of some geounits that no measurement informs about; packed blocks, one row for each geounit.

    Attributes:
        filtered: U of each geounit, given what is at and below it.
        weights: W of each geounit's children.
        slope: X.
        excess: Y.
        smoothed: The projector on what remains unknown given all measurements.
    """

    filtered: Floats
    weights: Floats
    slope: Floats
    excess: Floats
    smoothed: Floats


@dataclass(frozen=True, slots=True, eq=False)
class InnerLevel:
    """Geounits with children; packed blocks, one row for each geounit.

    Attributes:
        offsets: The children of geounit g are `offsets[g]:offsets[g + 1]` of the level below.
        filtered: P.
        gain: G.
        carry: See `Filtered`.
        pin: See `Filtered`; None without invariants.
        smoothed: V.
        unknown: None if no direction is unknown at and below this level.
    """

    offsets: Integers
    filtered: Floats
    gain: Floats
    carry: Floats
    pin: Floats | None
    smoothed: Floats
    unknown: Unknown | None

    @property
    def n(self) -> int:
        """Number of geounits."""
        return len(self.offsets) - 1

    @property
    def parents(self) -> Integers:
        """Parent of each geounit of the level below."""
        return np.repeat(np.arange(self.n, dtype=np.int64), np.diff(self.offsets))


@dataclass(frozen=True, slots=True, eq=False)
class FinestLevel:
    """Finest geounits by signature. Geounits with the same precisions and zeros share their blocks.

    Attributes:
        signature: Signature of each geounit; shape (n,).
        precisions: Precisions of each signature; shape (n_signatures, Q).
        filtered: P of each signature.
        pin: See `Filtered`; None without invariants.
        unknown: U of each signature, or None.
    """

    signature: Integers
    precisions: Floats
    filtered: Floats
    pin: Floats | None
    unknown: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class TreeCovariance:
    """Covariances of a whole spine.

    Attributes:
        model: The model that they follow from.
        inner: Levels with children. The first is one geounit above all roots, of which nothing is known, so
            `inner[i + 1]` holds the geounits of geolevel i.
        finest: The finest geolevel.
    """

    model: TreeModel
    inner: tuple[InnerLevel, ...]
    finest: FinestLevel

    @property
    def algebra(self) -> BlockAlgebra:
        """The algebra of the blocks."""
        return self.model.algebra


def tree_covariance(model: TreeModel, *, workers: int = 1) -> TreeCovariance:
    """Covariances of the generalised least-squares estimates of everything, before any data is opened.

    Args:
        model: Spine, precisions, zeros and invariants.
        workers: Number of threads. The covariances do not depend on it.
    """
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        return _tree_covariance(model, pool)


def _tree_covariance(model: TreeModel, pool: ThreadPoolExecutor) -> TreeCovariance:
    finest, known = _finest(model)
    # One geounit above the roots: several roots need no case of their own then.
    offsets = [np.array([0, model.spine.n_geounits(0)], np.int64), *model.spine.child_offsets]
    filtered: list[Filtered] = []
    belows: list[Below] = []
    # From the finest geolevel up, because P of a parent needs the sum of its children's.
    for level in range(len(offsets) - 1, -1, -1):
        if not filtered:
            below = _sum_finest(model.algebra, offsets[level], finest, known)
        else:
            below = _sum_inner(model.algebra, offsets[level], filtered[-1])
        filtered.append(_filter(model, level, below, pool))
        belows.append(below)
    inner: list[InnerLevel] = []
    # Down again: V of a level needs V of the one above, which is the last that was made.
    for level, (geounits, below) in enumerate(zip(reversed(filtered), reversed(belows), strict=True)):
        above = inner[-1] if inner else None
        children = filtered[-2 - level].unknown if level + 1 < len(filtered) else finest.unknown
        inner.append(
            _smooth(
                model.algebra, offsets[level], geounits, below, above, pool, has_unknown=children is not None
            )
        )
    return TreeCovariance(model, tuple(inner), finest)


def _finest(model: TreeModel) -> tuple[FinestLevel, Floats]:
    level = model.levels[-1]
    # Finest geounits with the same precisions and zeros have the same P: one row of blocks stands for all of them.
    rows, row = np.unique(level.precisions, axis=0, return_inverse=True)
    row = np.broadcast_to(row.reshape(-1), (len(model.zero_pattern),)) if len(rows) == 1 else row.reshape(-1)
    pairs, signature = np.unique(row * len(model.zero_patterns) + model.zero_pattern, return_inverse=True)
    precisions = rows[pairs // len(model.zero_patterns)]
    zeros = model.zero_patterns[pairs % len(model.zero_patterns)]
    below = nothing_below(model.algebra, zero_blocks(model.algebra, zeros))
    filtered = filter_level(model.algebra, level_information(model.algebra, level), precisions, below)
    finest = FinestLevel(
        signature.reshape(-1).astype(np.int64),
        precisions,
        filtered.covariance,
        filtered.pin,
        filtered.unknown,
    )
    return finest, filtered.known


def _sum_finest(algebra: BlockAlgebra, offsets: Integers, finest: FinestLevel, known: Floats) -> Below:
    n = len(finest.signature)
    # Children of one parent are consecutive, so that their signatures are the columns of its row as they stand.
    counts = sparse.csr_matrix((np.ones(n), finest.signature, offsets), shape=(len(offsets) - 1, len(known)))
    unknown = None if finest.unknown is None else counts @ finest.unknown
    return sum_below(
        algebra, np.diff(offsets).astype(float), counts @ finest.filtered, counts @ known, unknown
    )


def _sum_inner(algebra: BlockAlgebra, offsets: Integers, children: Filtered) -> Below:
    # reduceat needs every parent to have a child, which a spine guarantees.
    first = offsets[:-1]
    unknown = None if children.unknown is None else np.add.reduceat(children.unknown, first, axis=0)
    return sum_below(
        algebra,
        np.diff(offsets).astype(float),
        np.add.reduceat(children.covariance, first, axis=0),
        np.add.reduceat(children.known, first, axis=0),
        unknown,
    )


def _filter(model: TreeModel, level: int, below: Below, pool: ThreadPoolExecutor) -> Filtered:
    """Filter inner level number `level`. Level 0 is the single geounit above the roots."""
    n = len(below.spread)
    if level == 0:
        # Above the roots nothing is measured; an empty level makes the same formulas hold.
        nothing = level_information(model.algebra, LevelModel("", (), np.zeros((1, 0)), ()))
        return filter_level(model.algebra, nothing, np.zeros((n, 0)), below)
    facts = level_information(model.algebra, model.levels[level - 1])
    precisions = model.levels[level - 1].precisions_of(np.arange(n, dtype=np.int64))

    def work(start: int) -> Filtered:
        rows = slice(start, start + ROWS)
        return filter_level(model.algebra, facts, precisions[rows], _rows(below, start, start + ROWS))

    # Runs have a fixed size and are joined in order: the result does not depend on the number of threads.
    runs = list(pool.map(work, range(0, n, ROWS)))
    return _joined(runs, (n, model.algebra.n_block_entries))


def _rows(below: Below, start: int, stop: int) -> Below:
    unknown = None if below.unknown is None else below.unknown[start:stop]
    return Below(below.spread[start:stop], below.known[start:stop], unknown)


def _joined(runs: list[Filtered], shape: tuple[int, int]) -> Filtered:
    pin = None if runs[0].pin is None else np.concatenate([run.pin for run in runs if run.pin is not None])
    unknown = None
    # A run without unknown directions has None; joined with others, it has zeros.
    if any(run.unknown is not None for run in runs):
        whole = [np.zeros(run.covariance.shape) if run.unknown is None else run.unknown for run in runs]
        unknown = np.concatenate(whole)
    known = [np.broadcast_to(run.known, run.covariance.shape) for run in runs]
    covariance, gain, carry = (
        np.concatenate([getattr(run, name) for run in runs]).reshape(shape)
        for name in ("covariance", "gain", "carry")
    )
    return Filtered(covariance, gain, carry, pin, np.concatenate(known), unknown)


def _smooth(
    algebra: BlockAlgebra,
    offsets: Integers,
    filtered: Filtered,
    below: Below,
    above: InnerLevel | None,
    pool: ThreadPoolExecutor,
    *,
    has_unknown: bool,
) -> InnerLevel:
    """V of a level, from that of the level above."""
    if above is None:
        smoothed = filtered.covariance
        lasting = filtered.unknown
    else:
        smoothed = np.empty(filtered.covariance.shape)
        _smooth_rows(algebra, above, filtered, smoothed, pool)
        lasting = unknown_children(algebra, above, above.parents, filtered.unknown)
    pieces = None
    if has_unknown:
        pieces = _unknown(algebra, filtered, below, lasting)
    return InnerLevel(
        offsets, filtered.covariance, filtered.gain, filtered.carry, filtered.pin, smoothed, pieces
    )


def _smooth_rows(
    algebra: BlockAlgebra, above: InnerLevel, filtered: Filtered, smoothed: Floats, pool: ThreadPoolExecutor
) -> None:
    parents = above.parents

    def work(start: int) -> None:
        rows = slice(start, start + ROWS)
        unknown = None if filtered.unknown is None else filtered.unknown[rows]
        smoothed[rows] = smoothed_children(algebra, above, parents[rows], filtered.covariance[rows], unknown)

    list(pool.map(work, range(0, len(smoothed), ROWS)))


def smoothed_children(
    algebra: BlockAlgebra, above: InnerLevel, parents: Integers, filtered: Floats, unknown: Floats | None
) -> Floats:
    """V of children, given all measurements.

    Args:
        algebra: The algebra.
        above: The level of their parents.
        parents: Parent of each child.
        filtered: P of each child.
        unknown: U of each child, or None.
    """
    gain, outer = above.gain[parents], above.smoothed[parents]
    if unknown is None or above.unknown is None:
        # G V' G - G: what the parent's final estimate takes away from the child's variance.
        drop = times(algebra, gain, outer, gain) - gain
        return symmetric(algebra, filtered + times(algebra, filtered, drop, filtered))
    slope, excess = above.unknown.slope[parents], above.unknown.excess[parents]
    # P G + U X, by which a child moves with its parent.
    moves = times(algebra, filtered, gain) + times(algebra, unknown, slope)
    shared = times(algebra, unknown, slope, filtered)
    # The variance given the parent, with the cross terms of P and U in both orders.
    conditional = (
        filtered
        - times(algebra, filtered, gain, filtered)
        - shared
        - transposed(algebra, shared)
        + times(algebra, unknown, excess, unknown)
    )
    return symmetric(algebra, conditional + times(algebra, moves, outer, transposed(algebra, moves)))


def unknown_children(
    algebra: BlockAlgebra, above: InnerLevel, parents: Integers, unknown: Floats | None
) -> Floats | None:
    """What remains unknown of children given all measurements, by the same rule with U for P and W for G."""
    if unknown is None or above.unknown is None:
        return None
    weights, outer = above.unknown.weights[parents], above.unknown.smoothed[parents]
    drop = times(algebra, weights, outer, weights) - weights
    return symmetric(algebra, unknown + times(algebra, unknown, drop, unknown))


def _unknown(algebra: BlockAlgebra, filtered: Filtered, below: Below, lasting: Floats | None) -> Unknown:
    shape = filtered.covariance.shape
    nothing = np.zeros(shape)
    raw = below.unknown_sum if below.unknown_sum is not None else nothing
    # W spreads an unknown sum over the children evenly along their unknown directions.
    weights = pseudo_inverse(algebra, raw)
    eye = algebra.identity(1)
    rest = times(algebra, below.spread, filtered.gain)
    slope = times(algebra, weights, eye - rest)
    excess = times(algebra, weights, below.spread - times(algebra, rest, below.spread), weights)
    return Unknown(
        filtered=nothing if filtered.unknown is None else filtered.unknown,
        weights=weights,
        slope=slope,
        excess=excess,
        smoothed=nothing if lasting is None else lasting,
    )
