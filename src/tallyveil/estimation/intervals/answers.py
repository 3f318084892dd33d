"""Estimates and exact variances of any question about any geounit, or about any set of finest geounits.

Variances need no data. They follow from the strategy, the spine and public facts. If the measurements do not
determine an answer, its variance is infinite and its estimate is not-a-number.

*Regions* are sums over sets of finest geounits: off-spine entities, districts, geounits, differences. Wanted
is the covariance of the estimated cells of one region with those of another (or the same). Steps: from the
finest geolevel up, only geounits that are partly in a region are visited. For each such geounit the step
computes the slope of the region's part on the geounit's total, and the covariance of the parts given the
total (`tallyveil.kernels.tree.sweep`). A geounit entirely inside both regions needs no visit: its own blocks
are used further up. At the top, the covariance is the covariance given the total plus the slopes' share of
the total's covariance. Stopping rule: there is one step for each geolevel. Worked case: a parent and its two
children are each measured with variance 1. The region is the first child. Given the parent, its slope is 1/2
and its variance is 1 - 1/2 = 1/2. The parent's variance is 2/3, so the region's variance is 1/2 + 1/4 x 2/3 =
2/3.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import GeographyError
from tallyveil.estimation.intervals.algebra import BlockAlgebra, gram, times, transposed
from tallyveil.estimation.intervals.covariance import (
    InnerLevel,
    TreeCovariance,
    smoothed_children,
    unknown_children,
)
from tallyveil.estimation.intervals.fit import (
    FINEST_PER_CHUNK,
    TreeEstimate,
    chunks_of,
    finest_coefficients,
    grouped,
    invariant_cascade,
    measured_cascade,
)
from tallyveil.estimation.intervals.questions import Questions
from tallyveil.geography.spine import Spine
from tallyveil.kernels.tree.sweep import (
    Children,
    NoisyAnswers,
    Packing,
    Parents,
    SetEntries,
    SharedRows,
    Slopes,
    add_measured,
    add_products,
    step_up,
)

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


PAIRS_AT_ONCE = 1024
"""Pairs of a parent and a signature, and geounits above the finest geolevel, that are treated together. With some
hundred numbers of blocks each, they take a few MB. Twice or half of it changes time and memory a little, and no
answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Estimates of several questions about several geounits or regions.

    Attributes:
        estimates: Unbiased, in counts. They may be negative or fractional, and are NaN if not determined.
        variances: Variances of the estimates under the privacy noise alone, in squared counts; inf if not determined.
    """

    estimates: Floats
    variances: Floats

    @property
    def standard_errors(self) -> Floats:
        """Square roots of the variances, in counts."""
        return np.sqrt(self.variances)


def level_variances(covariance: TreeCovariance, level: int, questions: Questions) -> Floats:
    """Variances of questions about every geounit of a geolevel; shape (n_geounits, questions)."""
    table, row = _distinct_variances(covariance, level, questions)
    variances: Floats = table[row]
    return variances


def without_rounding(covariance: TreeCovariance, variances: Floats) -> Floats:
    """Variances with zeros for answers that are known exactly, instead of the rounding errors of zero."""
    variances[variances < covariance.model.rounding] = 0.0
    return variances


def _distinct_variances(
    covariance: TreeCovariance, level: int, questions: Questions
) -> tuple[Floats, Integers]:
    """Variances, with one row for all geounits that have the same ones; and the row of each geounit."""
    if level < covariance.model.spine.finest:
        inner = covariance.inner[level + 1]
        out = questions.variances(inner.smoothed)
        if inner.unknown is not None:
            # After the finite part: P is zero along unknown directions, so that variances there would look like zero.
            out[questions.unknown(inner.unknown.smoothed)] = np.inf
        return without_rounding(covariance, out), np.arange(len(out), dtype=np.int64)
    above, finest = covariance.inner[-1], covariance.finest
    n_signatures = len(finest.filtered)
    # A finest geounit's covariance depends on its parent and its signature only: siblings share most rows.
    pairs, pair = np.unique(above.parents * n_signatures + finest.signature, return_inverse=True)
    out = np.empty((len(pairs), questions.n))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        run = slice(start, start + PAIRS_AT_ONCE)
        parents, signature = np.divmod(pairs[run], n_signatures)
        unknown = None if finest.unknown is None else finest.unknown[signature]
        blocks = smoothed_children(covariance.algebra, above, parents, finest.filtered[signature], unknown)
        out[run] = questions.variances(blocks)
        lasting = unknown_children(covariance.algebra, above, parents, unknown)
        if lasting is not None:
            out[run][questions.unknown(lasting)] = np.inf
    return without_rounding(covariance, out), pair.reshape(-1)


def level_answers(estimate: TreeEstimate, level: int, questions: Questions, *, workers: int = 1) -> Answers:
    """Estimates and variances of questions about every geounit of a geolevel.

    Args:
        estimate: The fitted tree.
        level: Number of the geolevel. At the finest geolevel, the measurements are read again.
        questions: The questions.
        workers: Number of threads.
    Returns:
        Arrays of shape (n_geounits, questions).
    """
    runs = [run for _, _, run in LevelAnswers.of(estimate, level, questions).stream(workers=workers)]
    return Answers(
        np.concatenate([run.estimates for run in runs]), np.concatenate([run.variances for run in runs])
    )


def at_once_of(spine: Spine, level: int) -> int:
    """How many geounits of a geolevel are answered together."""
    return FINEST_PER_CHUNK if level == spine.finest else PAIRS_AT_ONCE


@dataclass(frozen=True, slots=True, eq=False)
class LevelAnswers:
    """The answers of one geolevel, of which some or all are computed at a time.

    Attributes:
        estimate: The fitted tree.
        level: Number of the geolevel.
        questions: The questions.
        table: Variances, with one row for all geounits that have the same ones.
        row: The row of each geounit.
    """

    estimate: TreeEstimate
    level: int
    questions: Questions
    table: Floats
    row: Integers

    @classmethod
    def of(cls, estimate: TreeEstimate, level: int, questions: Questions) -> "LevelAnswers":
        """Compute the variances of a geolevel."""
        return cls(estimate, level, questions, *_distinct_variances(estimate.covariance, level, questions))

    @property
    def at_once(self) -> int:
        """How many geounits are yielded together."""
        return at_once_of(self.estimate.covariance.model.spine, self.level)

    def stream(
        self, within: tuple[int, int] | None = None, *, workers: int = 1
    ) -> Iterator[tuple[int, int, Answers]]:
        """Answers of geounits, `at_once` together, so that memory is limited.

        Args:
            within: The first geounit, a multiple of `at_once`, and one past the last; None for all.
            workers: Number of threads.
        Yields:
            First geounit, one past the last, and their answers in shape (geounits, questions).
        """
        with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
            for start, stop, coefficients in self._coefficients(within or (0, len(self.row)), pool):
                values = self.questions.answers(coefficients, pool)
                variances = self.table[self.row[start:stop]]
                # A number that is not determined must not look like an estimate.
                values[np.isinf(variances)] = np.nan
                yield start, stop, Answers(values, variances)

    def _coefficients(
        self, within: tuple[int, int], pool: ThreadPoolExecutor
    ) -> Iterator[tuple[int, int, Floats]]:
        estimate, covariance = self.estimate, self.estimate.covariance
        if self.level == covariance.model.spine.finest:
            wanted = np.zeros(len(self.row), dtype=np.bool_)
            # Chunks without wanted geounits are not read.
            wanted[within[0] : within[1]] = True
            for start, stop, rows in chunks_of(covariance, estimate.rows, wanted):
                yield start, stop, finest_coefficients(estimate, start, stop, rows, pool)
            return
        whole = estimate.inner[self.level + 1]
        for start in range(*within, self.at_once):
            stop = min(start + self.at_once, len(whole))
            yield start, stop, whole[start:stop]


def region_variances(
    covariance: TreeCovariance, regions: Sequence[Region], questions: Questions, *, workers: int = 1
) -> Floats:
    """Variances of questions about regions; shape (regions, questions)."""
    out = np.empty((len(regions), questions.n))
    for row, region in zip(out, regions, strict=True):
        row[:] = questions.variances(region_covariance(covariance, region, region, workers=workers))[0]
        unknown = region_unknown(covariance, region, workers=workers)
        if unknown is not None:
            row[questions.unknown(unknown)[0]] = np.inf
    return without_rounding(covariance, out)


def answer_covariance(
    covariance: TreeCovariance, asked: tuple[Region, Questions], other: tuple[Region, Questions]
) -> Floats:
    """Covariances between the estimates of questions about two regions; shape (questions of the first, of the other).

    Args:
        covariance: Covariances of the tree.
        asked: A region and the questions about it.
        other: Another region and its questions.
    Returns:
        In squared counts; NaN if one of the two answers is not determined.
    """
    blocks = region_covariance(covariance, asked[0], other[0])[0]
    left, right = asked[1].rows(), other[1].rows()
    out = np.empty((len(left), len(right)))
    # Row by row: the Gram blocks of all pairs of questions would not fit into memory at once.
    for row, query in zip(out, left, strict=True):
        row[:] = gram(covariance.algebra, np.broadcast_to(query, right.shape), right) @ blocks
    for axis, (region, questions) in enumerate((asked, other)):
        unknown = region_unknown(covariance, region)
        if unknown is not None:
            np.moveaxis(out, axis, 0)[questions.unknown(unknown)[0]] = np.nan
    return out


def region_answers(
    estimate: TreeEstimate, regions: Sequence[Region], questions: Questions, *, workers: int = 1
) -> Answers:
    """Estimates and variances of questions about regions. Geounits that are partly in regions are read once.

    Args:
        estimate: The fitted tree.
        regions: Sets of finest geounits. The difference of two regions is a region too.
        questions: The questions.
        workers: Number of threads.
    Returns:
        Arrays of shape (regions, questions).
    """
    variances = region_variances(estimate.covariance, regions, questions, workers=workers)
    values = questions.answers(region_coefficients(estimate, regions, workers=workers))
    values[np.isinf(variances)] = np.nan
    return Answers(values, variances)


def region_coefficients(estimate: TreeEstimate, regions: Sequence[Region], *, workers: int = 1) -> Floats:
    """Estimates of the cells of regions, in the basis; shape (regions, n_cells)."""
    covariance = estimate.covariance
    n_finest = len(covariance.finest.signature)
    out = np.zeros((len(regions), covariance.algebra.n_cells))
    rests = []
    wanted = np.zeros(n_finest, dtype=np.bool_)
    for row, region in zip(out, regions, strict=True):
        # Whole geounits are answered from stored estimates, so that only the region's edge is read again.
        rest = _add_whole(estimate, region, row)
        wanted[rest.geounits] = True
        _add_handed_down(estimate, rest, row)
        rests.append(rest)
    # Each region's range of finest geounits, to skip those that a chunk cannot concern.
    first = np.array([rest.geounits[0] if len(rest.geounits) else n_finest for rest in rests])
    last = np.array([rest.geounits[-1] if len(rest.geounits) else -1 for rest in rests])
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        for start, stop, values in chunks_of(covariance, estimate.rows, wanted):

            def work(number: int, start: int = start, stop: int = stop) -> None:
                inside = slice(*np.searchsorted(rests[number].geounits, [start, stop]))
                part = Region(rests[number].geounits[inside], rests[number].weights[inside])
                if len(part.geounits):
                    _add_rows_of(estimate, part, start, values, out[number : number + 1])  # noqa: B023

            # Threads share no row of `out`: each region is added by one of them.
            list(pool.map(work, np.flatnonzero((first < stop) & (last >= start)).tolist()))
    return out


def _add_whole(estimate: TreeEstimate, region: Region, out: Floats) -> Region:
    """Add the coarsest geounits that lie entirely in a region. Returns the rest of the region."""
    covariance = estimate.covariance
    geounits, weights = region.geounits, region.weights
    taken = np.zeros(len(geounits), dtype=np.bool_)
    spine = covariance.model.spine
    for level in range(spine.finest):
        offsets = spine.finest_offsets(level)
        # From the root down, so that every geounit is taken at the coarsest geolevel that lies inside.
        left = np.flatnonzero(~taken)
        owner = np.searchsorted(offsets, geounits[left], side="right") - 1
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        if not len(starts):
            break
        owners, lengths = owner[starts], np.diff(starts, append=len(owner))
        first = weights[left][starts]
        # A geounit counts as whole only if all its finest geounits have one weight.
        alike = np.logical_and.reduceat(weights[left] == np.repeat(first, lengths), starts)
        whole = alike & (lengths == offsets[owners + 1] - offsets[owners])
        # inner[0] is the geounit above the roots, hence the shift by one.
        out += first[whole] @ estimate.inner[level + 1][owners[whole]]
        taken[left[np.repeat(whole, lengths)]] = True
    return Region(geounits[~taken], weights[~taken])


def _add_handed_down(estimate: TreeEstimate, rest: Region, out: Floats) -> None:
    """Add the corrections that single finest geounits receive from their parents."""
    covariance, finest = estimate.covariance, estimate.covariance.finest
    parents = covariance.inner[-1].parents[rest.geounits]
    signatures, number = np.unique(finest.signature[rest.geounits], return_inverse=True)
    shape = len(signatures), covariance.inner[-1].n
    # Corrections of geounits with the same blocks add up first: one product for each signature, not for each geounit.
    weights = sparse.csr_matrix((rest.weights, (number, parents)), shape=shape)
    target = np.zeros(len(signatures), np.int64)
    _add_all(estimate, SharedRows(finest.filtered, signatures), weights @ estimate.pull, target, out)
    if finest.unknown is not None and estimate.shift is not None:
        _add_all(estimate, SharedRows(finest.unknown, signatures), weights @ estimate.shift, target, out)


def _add_all(estimate: TreeEstimate, blocks: SharedRows, x: Floats, target: Integers, out: Floats) -> None:
    products = np.zeros(x.shape)
    basis = estimate.covariance.algebra.basis
    each = np.arange(len(x), dtype=np.int64)
    add_products(basis, blocks, SharedRows(x, each), 0, len(x), products)
    np.add.at(out[None], target, products)


def _add_rows_of(estimate: TreeEstimate, part: Region, start: int, values: np.ndarray, out: Floats) -> None:
    """Add the contribution of single finest geounits' own measurements and invariants."""
    covariance, finest = estimate.covariance, estimate.covariance.finest
    last = covariance.model.spine.finest
    signature = finest.signature[part.geounits]
    groups = grouped(np.zeros(len(signature), np.int64), signature, part.weights)
    # Rows of a chunk are counted from its start.
    groups = groups._replace(order=(part.geounits - start)[groups.order])
    basis, n = covariance.algebra.basis, len(groups.target)
    cascade = measured_cascade(covariance, last)
    answers = NoisyAnswers(cascade, values, finest.precisions)
    add_measured(basis, answers, finest.filtered, groups, 0, n, out)
    if finest.pin is not None:
        exact = estimate.invariants[covariance.model.levels[-1].geolevel]
        # Invariants are held for all geounits, not for a chunk, so rows are counted from 0 again.
        groups = groups._replace(order=groups.order + start)
        pinned = invariant_cascade(covariance, last)
        ones = np.ones((len(finest.pin), len(pinned.begin) - 1))
        add_measured(basis, NoisyAnswers(pinned, exact, ones), finest.pin, groups, 0, n, out)
