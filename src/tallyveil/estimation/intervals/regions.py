"""Sums over sets of finest geounits, and their covariances: off-spine entities, districts, geounits, differences.

Problem. Wanted is the covariance of the estimated cells of one region with those of another (or the same).

Steps. From the finest geolevel up, only geounits that are partly in a region are visited. For each such geounit the
step computes the slope of the region's part on the geounit's total, and the covariance of the parts given the total
(`kernels.tree.regions`). A geounit entirely inside both regions needs no visit: its own blocks are used further up. At
the top, the covariance is the covariance given the total plus the slopes' share of the total's covariance.

Stopping rule. There is one step for each geolevel.

Worked case. A parent and its two children are each measured with variance 1. The region is the first child. Given the
parent, its slope is 1/2 and its variance is 1 - 1/2 = 1/2. The parent's variance is 2/3, so the region's variance is
1/2 + 1/4 x 2/3 = 2/3.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import GeographyError
from tallyveil.estimation.intervals.algebra import BlockAlgebra
from tallyveil.estimation.intervals.block_linear import times, transposed
from tallyveil.estimation.intervals.covariance import InnerLevel, TreeCovariance
from tallyveil.geography.spine import Spine
from tallyveil.kernels.tree.regions import Children, Packing, Parents, SetEntries, Slopes, step_up

PARENTS_PER_CALL = 512
"""Parents of one call of the kernel. Most regions touch fewer, and are then done without threads. Twice or half of it
changes time alone, as every parent is done by itself."""


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


def region_of_geounit(spine: Spine, level: int, geounit: int) -> Region:
    """The set of the finest geounits in a geounit."""
    offsets = spine.finest_offsets(level)
    inside = np.arange(offsets[geounit], offsets[geounit + 1], dtype=np.int64)
    return Region(inside, np.ones(len(inside)))


def regions_by_label(spine: Spine, labels: Sequence[str | None] | NDArray[np.str_]) -> dict[str, Region]:
    """For each label, the set of finest geounits that have it. None and "" mean no label.

    Args:
        spine: The hierarchy.
        labels: One for each finest geounit, in the spine's order.
    Raises:
        GeographyError: the number of labels is not the number of finest geounits.
    """
    if len(labels) != spine.n_geounits(spine.finest):
        raise GeographyError(
            f"there are {len(labels)} labels for {spine.n_geounits(spine.finest)} {spine.geolevels[-1]} geounits. "
            "Give one label for each."
        )
    column = np.array([label or "" for label in labels], dtype=np.str_)
    names, number = np.unique(column, return_inverse=True)
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(len(names) + 1))
    return {
        str(name): Region(
            order[starts[i] : starts[i + 1]].astype(np.int64), np.ones(starts[i + 1] - starts[i])
        )
        for i, name in enumerate(names.tolist())
        if name
    }


def _combined(*parts: tuple[Region, float]) -> Region:
    geounits = np.concatenate([region.geounits for region, _ in parts])
    weights = np.concatenate([sign * region.weights for region, sign in parts])
    distinct, number = np.unique(geounits, return_inverse=True)
    sums = np.zeros(len(distinct))
    np.add.at(sums, number, weights)
    # Weights that cancel leave the region, so that a difference of nested sets is the plain set between them.
    return Region(distinct[sums != 0], sums[sums != 0])


def region_covariance(
    covariance: TreeCovariance, region: Region, other: Region, *, workers: int = 1
) -> Floats:
    """Covariance of the estimation errors of two regions' cells: packed blocks, one row, not symmetric in general.

    Args:
        covariance: Covariances of the tree.
        region: A region.
        other: Another region, or the same.
        workers: Number of threads.
    """
    return _sweep(covariance, region, other, workers, unknown=False)


def region_unknown(covariance: TreeCovariance, region: Region, *, workers: int = 1) -> Floats | None:
    """What no measurement informs about in a region's cells, as packed blocks; None if no direction is unknown."""
    if all(level.unknown is None for level in covariance.inner):
        return None
    return _sweep(covariance, region, region, workers, unknown=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Touched:
    """Geounits of one level that a pair of regions touches.

    Attributes:
        geounits: The geounits, increasing.
        place: Row among the slopes, or -1 if each region has one weight on the whole geounit.
        weight, other_weight: These weights of the two regions.
    """

    geounits: Integers
    place: Integers
    weight: Floats
    other_weight: Floats


def _sweep(
    covariance: TreeCovariance, region: Region, other: Region, workers: int, *, unknown: bool
) -> Floats:
    algebra = covariance.algebra
    touched = _both(region, other)
    slopes = Slopes(*(np.zeros((0, algebra.n_block_entries)) for _ in range(3)))
    for level in range(len(covariance.inner) - 1, -1, -1):
        parents = covariance.inner[level]
        if level == len(covariance.inner) - 1:
            rows = covariance.finest.signature[touched.geounits]
            filtered, free = covariance.finest.filtered, covariance.finest.unknown
        else:
            rows, below = touched.geounits, covariance.inner[level + 1]
            filtered, free = below.filtered, None if below.unknown is None else below.unknown.filtered
        # `split` are the parents that are partly inside; whole ones are passed on by weight.
        touched, entries, split = _gather(touched, rows, parents)
        nothing = np.zeros((0, algebra.n_block_entries))
        if unknown:
            filtered = np.zeros(filtered.shape) if free is None else free
            weights = np.zeros(parents.gain.shape) if parents.unknown is None else parents.unknown.weights
            known, above = nothing, Parents(split, weights, nothing, nothing)
        elif free is None or parents.unknown is None:
            known, above = nothing, Parents(split, parents.gain, nothing, nothing)
        else:
            known = free
            above = Parents(split, parents.gain, parents.unknown.slope, parents.unknown.excess)
        children = Children(entries, filtered, known, slopes)
        slopes = _step(algebra, children, above, workers, same=region is other)
    root = covariance.inner[0]
    outer = root.smoothed
    if unknown:
        outer = np.zeros(outer.shape) if root.unknown is None else root.unknown.smoothed
    if not len(touched.geounits):
        return np.zeros((1, algebra.n_block_entries))
    # The whole country has one weight: its own blocks are all there is.
    if touched.place[0] < 0:
        whole: Floats = touched.weight[0] * touched.other_weight[0] * outer
        return whole
    moved = times(algebra, slopes.first, outer, transposed(algebra, slopes.second))
    return slopes.covariance + moved


def _both(region: Region, other: Region) -> _Touched:
    geounits = np.union1d(region.geounits, other.geounits)
    weights = np.zeros((2, len(geounits)))
    for row, part in zip(weights, (region, other), strict=True):
        row[np.searchsorted(geounits, part.geounits)] = part.weights
    return _Touched(geounits, np.full(len(geounits), -1, np.int64), weights[0], weights[1])


def _gather(touched: _Touched, rows: Integers, parents: InnerLevel) -> tuple[_Touched, SetEntries, Integers]:
    """The touched parents; the entries of those that are partly in the regions; and which parents these are."""
    # Geounits rise, and so do their parents: the children of one are a run.
    parent = np.searchsorted(parents.offsets, touched.geounits, side="right") - 1
    starts = np.flatnonzero(np.diff(parent, prepend=-1))
    lengths = np.diff(starts, append=len(parent))
    number = np.repeat(np.arange(len(starts)), lengths)
    # A parent is whole only if its children are whole, with one weight in each region.
    alike = (touched.place < 0) & (touched.weight == touched.weight[starts][number])
    alike &= touched.other_weight == touched.other_weight[starts][number]
    owners = parent[starts]
    whole = lengths == parents.offsets[owners + 1] - parents.offsets[owners]
    if len(starts):
        whole &= np.logical_and.reduceat(alike, starts)
    place = np.where(whole, -1, np.cumsum(~whole) - 1)
    above = _Touched(owners, place, touched.weight[starts], touched.other_weight[starts])
    partly = ~whole[number]
    entries = _entries(
        place[number][partly],
        rows[partly],
        touched.place[partly],
        touched.weight[partly],
        touched.other_weight[partly],
    )
    return above, entries, owners[~whole]


def _entries(
    owner: Integers, rows: Integers, place: Integers, weight: Floats, other_weight: Floats
) -> SetEntries:
    """Entries by owner. Children of one owner with the same blocks and without slopes are merged into one entry."""
    # Children without slopes (-1) come first of their blocks, so that they are neighbours.
    order = np.lexsort((place, rows, owner))
    owner, rows, place, weight, other_weight = (
        owner[order],
        rows[order],
        place[order],
        weight[order],
        other_weight[order],
    )
    new = np.ones(len(owner), dtype=np.bool_)
    # An entry with slopes of its own is never merged.
    new[1:] = (owner[1:] != owner[:-1]) | (rows[1:] != rows[:-1]) | (place[1:] >= 0)
    starts = np.flatnonzero(new)
    n_owners = int(owner[-1]) + 1 if len(owner) else 0
    begin = np.searchsorted(owner[starts], np.arange(n_owners + 1)).astype(np.int64)
    if not len(starts):
        return SetEntries(begin, rows, place, weight, other_weight, weight)
    # The recursion needs the sums of weights of both regions, and of their products.
    sums = (np.add.reduceat(product, starts) for product in (weight, other_weight, weight * other_weight))
    return SetEntries(begin, rows[starts], place[starts], *sums)


def _step(algebra: BlockAlgebra, children: Children, parents: Parents, workers: int, *, same: bool) -> Slopes:
    n = len(parents.rows)
    shape = n, algebra.n_block_entries
    slope, covariance = np.empty(shape), np.empty(shape)
    # A region with itself has one slope; the kernel then writes one array.
    above = Slopes(slope, slope if same else np.empty(shape), covariance)
    packing = Packing(algebra.basis.dims, algebra.basis.blocks)

    def work(first: int) -> None:
        step_up(packing, children, parents, same, first, min(first + PARENTS_PER_CALL, n), above)

    if workers <= 1 or n <= PARENTS_PER_CALL:  # most areas are so small that threads would only cost time
        for first in range(0, n, PARENTS_PER_CALL):
            work(first)
        return above
    with ThreadPoolExecutor(max_workers=workers) as pool:
        list(pool.map(work, range(0, n, PARENTS_PER_CALL)))
    return above
