"""Regions, which are weighted sums over finest geounits, and one pass up the tree for any number of them.

Problem. Wanted are the covariances of the estimated cells of regions: of off-spine entities, districts,
geounits, unions and differences of them.

Variables. s is the slope of a region on a geounit: if the geounit's cells change by x, the region's sum inside
it changes by s x. If the region has all finest geounits of it with one weight w, the geounit is *whole*, and s
is w. P, G, U, X, Y are those of `tallyveil.estimation.intervals.covariance`. All are block-diagonal matrices.

Step. From the finest geolevel up, for every pair of a region and a geounit that is partly in it: T = sum of s P
and Z = sum of s U over the geounit's children. The slope of the geounit is S = T G + Z X. Given the geounit's
cells, the sums of two regions inside it have the covariance

    sum over children of s P s'  -  S T'  +  M Z'  with M = Z Y - T X',

where S and M are the first region's, T and Z the second's. The step above has the term S P S' of the geounit
itself. So the covariance of two regions is a sum over geounits: of w P w' if the geounit is whole for both, of
w P S' or S P w' if for one, and of S L' + M Z' if for none, with L = S P - T. A geounit counts as whole only if the
geounit above it is not: what lies inside a whole geounit is fixed by its cells, and adds nothing.

Stopping rule. There is one step for each geolevel.

Worked case. A parent and its two children are each measured with variance 1. The region is the first child. P is
1 for the child and 2/3 for the parent, and G is 1/2. So T = 1, S = 1/2 and L = 1/2 x 2/3 - 1 = -2/3. The
region's variance is 1 + 1/2 x (-2/3) = 2/3.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import GeographyError
from tallyveil.estimation.intervals.algebra import BlockAlgebra, times, transposed
from tallyveil.estimation.intervals.covariance import TreeCovariance
from tallyveil.geography.spine import Spine

NUMBERS_AT_ONCE = 1 << 23
"""Numbers of an array of blocks that a pass has in memory at once, 64 MiB; a thread has some five such arrays. A single
region may need more. Twice or half of it changes time and memory alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A weighted sum over finest geounits.

    Attributes:
        geounits: Finest geounits, increasing, each once; shape (n,).
        weights: Weight of each, not 0. All weights of a plain set are 1; shape (n,).
    """

    geounits: Integers
    weights: Floats

    def __sub__(self, other: "Region") -> "Region":
        """The difference of two sums."""
        return _combined((self, 1.0), (other, -1.0))

    def __add__(self, other: "Region") -> "Region":
        """The sum of two sums. Geounits in both count twice."""
        return _combined((self, 1.0), (other, 1.0))


def region_of(spine: Spine, geounits: ArrayLike) -> Region:
    """The set of some finest geounits, given by their numbers or as one truth value for each finest geounit.

    Raises:
        GeographyError: a number is out of range or repeated.
    """
    given = np.asarray(geounits)
    n = spine.n_geounits(spine.finest)
    if given.dtype == np.bool_ and given.shape == (n,):
        given = np.flatnonzero(given)
    numbers = np.unique(given.astype(np.int64))
    if (
        given.ndim != 1
        or len(numbers) != len(given)
        or (len(numbers) and (numbers[0] < 0 or numbers[-1] >= n))
    ):
        raise GeographyError(
            f"a region names a {spine.geolevels[-1]} twice, or by a number outside 0 to {n - 1}. Name each once, by "
            f"its number in the spine, or give {n} booleans."
        )
    return Region(numbers, np.ones(len(numbers)))


def _combined(*parts: tuple[Region, float]) -> Region:
    geounits = np.concatenate([region.geounits for region, _ in parts])
    weights = np.concatenate([sign * region.weights for region, sign in parts])
    distinct, number = np.unique(geounits, return_inverse=True)
    sums = np.zeros(len(distinct))
    np.add.at(sums, number, weights)
    # Weights that cancel leave the region, so that a difference of nested sets is the plain set between them.
    return Region(distinct[sums != 0], sums[sums != 0])


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """Pairs of a region and a geounit of one level that is whole, while the geounit above is not.

    Attributes:
        region: Number of the region; rising.
        geounit: The geounit; rising for each region.
        weight: Weight of the region on all of it.
    """

    region: Integers
    geounit: Integers
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """Pairs of a region and a geounit of one level that is partly in it; packed blocks, one row for each pair.

    Attributes:
        region: Number of the region; rising.
        geounit: The geounit; rising for each region.
        slope: S.
        rest: L.
        free: Z, or None if no direction is unknown.
        more: M, or None.
    """

    region: Integers
    geounit: Integers
    slope: Floats
    rest: Floats
    free: Floats | None
    more: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class LevelPairs:
    """What a pass up meets at one level.

    Attributes:
        covariances: Packed blocks P.
        row: Row of each geounit's P; None where each geounit has its own.
        whole: The whole geounits.
        partial: The others; None at the finest geolevel, which has none.
    """

    covariances: Floats
    row: Integers | None
    whole: Whole
    partial: Partial | None

    def rows_of(self, geounits: Integers) -> Integers:
        """Rows of the blocks P of some geounits."""
        return geounits if self.row is None else self.row[geounits]


@dataclass(frozen=True, slots=True, eq=False)
class _Matrices:
    """The matrices of a level: P and U of its geounits, and G, X and Y of their children."""

    p: Floats
    u: Floats | None
    g: Floats
    x: Floats | None
    y: Floats | None


def _known(tree: TreeCovariance) -> list[_Matrices]:
    """The matrices of every level with children, from above the roots down; and P and U of the finest."""
    levels = [
        _Matrices(level.filtered, None, level.gain, None, None)
        if level.unknown is None
        else _Matrices(
            level.filtered, level.unknown.filtered, level.gain, level.unknown.slope, level.unknown.excess
        )
        for level in tree.inner
    ]
    nothing = np.zeros((0, 0))
    return [*levels, _Matrices(tree.finest.filtered, tree.finest.unknown, nothing, None, None)]


def _unknown(tree: TreeCovariance) -> list[_Matrices]:
    """The same for what nothing informs about, which follows the same rule with U for P and W for G."""
    levels = []
    for level in tree.inner:
        if level.unknown is None:
            zeros = np.zeros(level.filtered.shape)
            levels.append(_Matrices(zeros, None, zeros, None, None))
        else:
            levels.append(_Matrices(level.unknown.filtered, None, level.unknown.weights, None, None))
    free = tree.finest.unknown
    zeros, nothing = np.zeros(tree.finest.filtered.shape), np.zeros((0, 0))
    return [*levels, _Matrices(zeros if free is None else free, None, nothing, None, None)]


@dataclass(frozen=True, slots=True, eq=False)
class _Touched:
    """Pairs of a region and a geounit of one level, by region and then by geounit.

    Attributes:
        region, geounit: The pairs.
        weight: Weight of the region on a whole geounit.
        place: Row of the slope of a geounit that is not whole, and -1 of one that is.
    """

    region: Integers
    geounit: Integers
    weight: Floats
    place: Integers


def pass_up(tree: TreeCovariance, regions: Sequence[Region]) -> Iterator[LevelPairs]:
    """What the regions meet at every level: the finest geolevel first, and at last the geounit above the roots."""
    return _pass_up(tree, _known(tree), regions)


def _pass_up(
    tree: TreeCovariance, matrices: Sequence[_Matrices], regions: Sequence[Region]
) -> Iterator[LevelPairs]:
    touched = _finest(regions)
    row: Integers | None = tree.finest.signature
    partial: Partial | None = None
    moved = np.zeros((0, tree.algebra.n_block_entries))
    for level in range(len(tree.inner) - 1, -1, -1):
        children, parents = matrices[level + 1], matrices[level]
        above, run = _parents_of(touched, tree.inner[level].offsets)
        inside = (touched.place < 0) & (above.place[run] >= 0)
        whole = _whole(touched, inside)
        pairs = LevelPairs(children.p, row, whole, partial)
        yield pairs
        number, rows = above.place[run[inside]], pairs.rows_of(whole.geounit)
        split = above.place >= 0
        partial, moved = _partial(
            tree.algebra,
            (children, parents),
            (above.region[split], above.geounit[split]),
            sparse.csr_matrix((whole.weight, (number, rows)), shape=(int(split.sum()), len(children.p))),
            (partial, moved, above.place[run[touched.place >= 0]]),
        )
        touched, row = above, None
    yield LevelPairs(matrices[0].p, None, _whole(touched, touched.place < 0), partial)


def whole_geounits(tree: TreeCovariance, regions: Sequence[Region]) -> Iterator[Whole]:
    """The geounits of every level that are whole, in the order of `pass_up`, without a covariance."""
    touched = _finest(regions)
    for level in reversed(tree.inner):
        above, run = _parents_of(touched, level.offsets)
        yield _whole(touched, (touched.place < 0) & (above.place[run] >= 0))
        touched = above
    yield _whole(touched, touched.place < 0)


def _finest(regions: Sequence[Region]) -> _Touched:
    sizes = [len(region.geounits) for region in regions]
    return _Touched(
        np.repeat(np.arange(len(regions), dtype=np.int64), sizes),
        np.concatenate([np.zeros(0, np.int64), *(region.geounits for region in regions)]),
        np.concatenate([np.zeros(0), *(region.weights for region in regions)]),
        np.full(sum(sizes), -1, np.int64),
    )


def _whole(touched: _Touched, these: NDArray[np.bool_]) -> Whole:
    return Whole(touched.region[these], touched.geounit[these], touched.weight[these])


def _parents_of(touched: _Touched, offsets: Integers) -> tuple[_Touched, Integers]:
    """The pairs of regions and parents, and for each pair below the number of its parent's pair."""
    parent = np.searchsorted(offsets, touched.geounit, side="right") - 1
    new = np.ones(len(parent), np.bool_)
    # Regions and geounits rise, and so do parents: the children of a pair are a run.
    new[1:] = (touched.region[1:] != touched.region[:-1]) | (parent[1:] != parent[:-1])
    starts = np.flatnonzero(new)
    lengths = np.diff(starts, append=len(parent))
    run = np.repeat(np.arange(len(starts)), lengths)
    owners = parent[starts]
    # A parent is whole only if all its children are, with one weight.
    alike = (touched.place < 0) & (touched.weight == touched.weight[starts][run])
    whole = lengths == offsets[owners + 1] - offsets[owners]
    if len(starts):
        whole &= np.logical_and.reduceat(alike, starts)
    place = np.where(whole, -1, np.cumsum(~whole) - 1)
    return _Touched(touched.region[starts], owners, touched.weight[starts], place), run


def _partial(
    algebra: BlockAlgebra,
    matrices: tuple[_Matrices, _Matrices],
    pairs: tuple[Integers, Integers],
    weights: sparse.csr_matrix,
    below: tuple[Partial | None, Floats, Integers],
) -> tuple[Partial, Floats]:
    """The step up.

    Args:
        algebra: The algebra.
        matrices: Those of the children and of the parents.
        pairs: Regions and parents.
        weights: Weights of whole children, added up by pair and by row of the children's P.
        below: The children that are not whole, and for each S P, and its number among the pairs.
    Returns:
        The pairs, and S P of each.
    """
    (children, parents), (region, geounit) = matrices, pairs
    lower, lower_moved, number = below
    together = weights @ children.p
    free = None if children.u is None or parents.x is None else weights @ children.u
    if lower is not None and len(number):
        n = len(number)
        adds = sparse.csr_matrix((np.ones(n), (number, np.arange(n))), shape=(len(region), n))
        together += adds @ lower_moved
        if free is not None and children.u is not None:
            free += adds @ times(algebra, lower.slope, children.u[lower.geounit])
    slope = times(algebra, together, parents.g[geounit])
    more = None
    if free is not None and parents.x is not None and parents.y is not None:
        x = parents.x[geounit]
        slope += times(algebra, free, x)
        more = times(algebra, free, parents.y[geounit]) - times(algebra, together, transposed(algebra, x))
    moved = times(algebra, slope, parents.p[geounit])
    return Partial(region, geounit, slope, moved - together, free, more), moved


def region_covariances(tree: TreeCovariance, regions: Sequence[Region], *, workers: int = 1) -> Floats:
    """Covariance of the estimation errors of each region's cells: packed blocks, one row for each region."""
    return _own(tree, _known(tree), regions, workers)


def region_unknown(tree: TreeCovariance, regions: Sequence[Region], *, workers: int = 1) -> Floats | None:
    """What no measurement informs about in each region's cells, as packed blocks; None if no direction is unknown."""
    if all(level.unknown is None for level in tree.inner):
        return None
    return _own(tree, _unknown(tree), regions, workers)


def _own(
    tree: TreeCovariance, matrices: Sequence[_Matrices], regions: Sequence[Region], workers: int
) -> Floats:
    """The covariance of each region with itself."""
    out = np.zeros((len(regions), tree.algebra.n_block_entries))

    def work(run: tuple[int, int]) -> None:
        for pairs in _pass_up(tree, matrices, regions[slice(*run)]):
            _add_own(tree.algebra, pairs, out[slice(*run)])

    runs = _runs(tree, regions)
    if workers <= 1 or len(runs) == 1:
        for run in runs:
            work(run)
        return out
    # Runs are cut without regard to the number of threads, and each writes rows of its own.
    with ThreadPoolExecutor(max_workers=workers) as pool:
        list(pool.map(work, runs))
    return out


def _runs(tree: TreeCovariance, regions: Sequence[Region]) -> list[tuple[int, int]]:
    """Consecutive regions whose pairs fit into memory; a region has at most as many pairs as finest geounits."""
    sizes = np.cumsum([len(region.geounits) for region in regions])
    limit = max(1, NUMBERS_AT_ONCE // tree.algebra.n_block_entries)
    cuts = np.flatnonzero(np.diff(sizes // limit)) + 1 if len(regions) else np.zeros(0, np.int64)
    edges = [0, *cuts.tolist(), len(regions)]
    return list(pairwise(edges))


def _add_own(algebra: BlockAlgebra, pairs: LevelPairs, out: Floats) -> None:
    whole, partial, n = pairs.whole, pairs.partial, len(out)
    if len(whole.region):
        places = whole.region, pairs.rows_of(whole.geounit)
        squares = sparse.csr_matrix((whole.weight**2, places), shape=(n, len(pairs.covariances)))
        out += squares @ pairs.covariances
    if partial is not None and len(partial.region):
        terms = times(algebra, partial.slope, transposed(algebra, partial.rest))
        if partial.free is not None and partial.more is not None:
            terms += times(algebra, partial.more, transposed(algebra, partial.free))
        each = np.arange(len(terms))
        out += sparse.csr_matrix((np.ones(len(terms)), (partial.region, each)), shape=(n, len(terms))) @ terms
