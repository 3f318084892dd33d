"""Estimates and exact variances of any question about any geounit, or about any set of finest geounits.

Variances need no data. They follow from the strategy, the spine and public facts. If the measurements do not
determine an answer, its variance is infinite and its estimate is not-a-number.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.covariance import TreeCovariance, smoothed_children, unknown_children
from tallyveil.estimation.intervals.fit import (
    FINEST_PER_CHUNK,
    TreeEstimate,
    chunks_of,
    cuts_of,
    finest_coefficients,
    grouped,
    invariant_cascade,
    measured_cascade,
)
from tallyveil.estimation.intervals.questions import Questions
from tallyveil.estimation.intervals.regions import (
    Region,
    Whole,
    region_covariances,
    region_unknown,
    whole_geounits,
)
from tallyveil.geography.spine import Spine
from tallyveil.kernels.tree.sweep import NoisyAnswers, RowGroups, SharedRows, add_measured, add_products

PAIRS_AT_ONCE = 1024
"""Pairs of a parent and a signature, and geounits above the finest geolevel, that are treated together. With some
hundred numbers of blocks each, they take a few MB. Twice or half of it changes time and memory a little, and no
answer."""
NUMBERS_AT_ONCE = 1 << 23
"""Numbers of blocks, and of cells, of regions that are in memory at once, 64 MiB each. Twice or half of it changes time
and memory alone."""


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
    """Variances of questions about regions, without a measurement; shape (regions, questions)."""
    out = np.empty((len(regions), questions.n))
    step = max(1, NUMBERS_AT_ONCE // covariance.algebra.n_block_entries)
    for start in range(0, len(regions), step):
        run = slice(start, start + step)
        out[run] = questions.variances(region_covariances(covariance, regions[run], workers=workers))
        unknown = region_unknown(covariance, regions[run], workers=workers)
        if unknown is not None:
            out[run][questions.unknown(unknown)] = np.inf
    return without_rounding(covariance, out)


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
    values = np.empty(variances.shape)
    # Neighbours together, so that each part of the measurements is read for few regions at a time.
    order = np.argsort(
        [region.geounits[0] if len(region.geounits) else 0 for region in regions], kind="stable"
    )
    step = max(1, NUMBERS_AT_ONCE // estimate.covariance.algebra.n_cells)
    for start in range(0, len(order), step):
        some = order[start : start + step]
        cells = region_coefficients(estimate, [regions[number] for number in some], workers=workers)
        values[some] = questions.answers(cells)
    values[np.isinf(variances)] = np.nan
    return Answers(values, variances)


def region_coefficients(estimate: TreeEstimate, regions: Sequence[Region], *, workers: int = 1) -> Floats:
    """Estimates of the cells of regions, in the basis; shape (regions, n_cells)."""
    out = np.zeros((len(regions), estimate.covariance.algebra.n_cells))
    finest, *inner = whole_geounits(estimate.covariance, regions)
    # Whole geounits are answered from stored estimates, so that only the edges of regions are read again.
    for level, whole in zip(reversed(estimate.inner), inner, strict=True):
        shape = len(out), len(level)
        out += sparse.csr_matrix((whole.weight, (whole.region, whole.geounit)), shape=shape) @ level
    _add_handed_down(estimate, finest, out)
    _add_measured(estimate, finest, workers, out)
    return out


def _add_handed_down(estimate: TreeEstimate, whole: Whole, out: Floats) -> None:
    """Add the corrections that single finest geounits receive from their parents."""
    covariance, finest = estimate.covariance, estimate.covariance.finest
    n_signatures, parents = len(finest.filtered), covariance.inner[-1].parents
    # Corrections of a region's geounits with the same blocks add up first: one product for each signature, and not for
    # each geounit.
    pairs, number = np.unique(
        whole.region * n_signatures + finest.signature[whole.geounit], return_inverse=True
    )
    weights = sparse.csr_matrix(
        (whole.weight, (number, parents[whole.geounit])), shape=(len(pairs), covariance.inner[-1].n)
    )
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        run = slice(start, start + PAIRS_AT_ONCE)
        region, signature = np.divmod(pairs[run], n_signatures)
        each = np.arange(len(region))
        products = np.zeros((len(region), out.shape[1]))
        for blocks, handed in ((finest.filtered, estimate.pull), (finest.unknown, estimate.shift)):
            if blocks is not None and handed is not None:
                shared = SharedRows(blocks, signature), SharedRows(weights[run] @ handed, each)
                add_products(covariance.algebra.basis, *shared, 0, len(region), products)
        np.add.at(out, region, products)


def _add_measured(estimate: TreeEstimate, whole: Whole, workers: int, out: Floats) -> None:
    """Add what single finest geounits' own measurements and invariants say."""
    covariance, finest = estimate.covariance, estimate.covariance.finest
    last, basis = covariance.model.spine.finest, covariance.algebra.basis
    wanted = np.zeros(len(finest.signature), dtype=np.bool_)
    wanted[whole.geounit] = True
    order = np.argsort(whole.geounit, kind="stable")
    geounits = whole.geounit[order]
    cascade, pinned = measured_cascade(covariance, last), invariant_cascade(covariance, last)
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        for start, stop, values in chunks_of(covariance, estimate.rows, wanted):
            part = order[slice(*np.searchsorted(geounits, [start, stop]).tolist())]
            inside = whole.geounit[part]
            groups = grouped(whole.region[part], finest.signature[inside], whole.weight[part])
            # Rows of a chunk are counted from its start.
            here = groups._replace(order=(inside - start)[groups.order])
            steps = [(NoisyAnswers(cascade, values, finest.precisions), finest.filtered, here)]
            if finest.pin is not None:
                exact = estimate.invariants[covariance.model.levels[-1].geolevel]
                ones = np.ones((len(finest.pin), len(pinned.begin) - 1))
                # Invariants are held for all geounits, not for a chunk.
                steps.append(
                    (
                        NoisyAnswers(pinned, exact, ones),
                        finest.pin,
                        groups._replace(order=inside[groups.order]),
                    )
                )
            for step in steps:

                def work(cut: tuple[int, int], step: tuple[NoisyAnswers, Floats, RowGroups] = step) -> None:
                    add_measured(basis, *step, *cut, out)

                # Threads share no row of `out`: each region is added by one of them.
                list(pool.map(work, cuts_of(groups.target, workers)))
