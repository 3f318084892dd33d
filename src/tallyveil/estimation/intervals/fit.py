"""The estimates: one pass of the measurements up the tree, and one pass of the estimates down the tree.

Rows of noisy answers are streamed, from measurement files or from any source of measurements.

Problem. Wanted are the best linear unbiased estimates of every geounit's cells, from all measurements of the
spine.

Steps. The pass up computes each geounit's estimate given everything at and below it: P h + carry b + pin t
(`tallyveil.estimation.intervals.covariance`). The pass down corrects each level by what its parents learned
elsewhere. For a parent, news is its final estimate minus the sum of its children's estimates, and pull = G
news. Each child's estimate grows by P pull (and by U X news along unknown directions). The finest geounits'
estimates are not stored. Each follows from its own measurements and its parent's pull, so it is computed on
request, from rows that are read a second time.

Stopping rule. Each pass visits every geolevel once.

Worked case. A parent is measured as 5 and its children as 1 and 2, all with variance 1. Up: the parent's
estimate is 2/3 x 5 + 1/3 x 3 = 13/3. Down: news = 13/3 - 3 = 4/3, pull = 1/2 x 4/3 = 2/3. The children become
5/3 and 8/3.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers, Numbers
from tallyveil.errors import ConstraintError, StoreError
from tallyveil.estimation.intervals.covariance import InnerLevel, TreeCovariance
from tallyveil.estimation.intervals.model import LEAST_VARIANCE, LevelModel
from tallyveil.estimation.intervals.questions import cascade_of
from tallyveil.geography.spine import Spine
from tallyveil.kernels.tree.sweep import (
    Cascade,
    NoisyAnswers,
    RowGroups,
    SharedRows,
    add_measured,
    add_products,
    answer_rows,
    finest_rows,
)
from tallyveil.measurements.names import measurement_folder
from tallyveil.measurements.store import other_geography
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.read import published_columns, published_height, read_published

# Far above the rounding of a float (1e-16), far below any difference between two strategies that matters.
SAME_VARIANCE = 1e-9
"""Two variances with a smaller relative difference are equal; writing and reading may change the last digits."""


class AnswerRows(Protocol):
    """Noisy answers of every measured query, with one row for each geounit."""

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start to stop - 1, as integers. The answers of the queries follow one another."""
        ...


class MeasuredLevels(Protocol):
    """What the rows of measurement files must fit: a model, or the levels of one."""

    @property
    def spine(self) -> Spine:
        """The hierarchy."""
        ...

    @property
    def levels(self) -> Sequence[LevelModel]:
        """What is measured at each geolevel, root first."""
        ...


class StoredRows:
    """Rows from the measurement files of a run that stored all answers. One part of a query is in memory at a time.

    Args:
        root: Release folder.
        model: The model of the measurements. Files of another geography or with another variance are refused.
    """

    def __init__(self, root: Path, model: MeasuredLevels) -> None:
        self._root = root
        self._model = model
        self._spine = model.spine
        self._begins: dict[tuple[int, str], tuple[list[Path], list[int]]] = {}
        self._held: dict[tuple[int, str], tuple[int, Numbers]] = {}

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start to stop - 1, in the smallest integer type that can represent them.

        Raises:
            StoreError: files are missing, do not fit the model, or contain only answers on the support.
        """
        # Nothing is measured at this geolevel, and no file of it exists.
        if not queries:
            return np.zeros((stop - start, 0), np.int16)
        measured = self._measured(level, queries[0])
        if measured is None:
            return self._stored(level, queries, start, stop)
        # Files have rows only for measured geounits. The answers of others have no weight.
        first, last = np.searchsorted(measured, [start, stop]).tolist()
        out = np.zeros((stop - start, sum(group.size for group in queries)), np.int32)
        if last > first:
            out[measured[first:last] - start] = self._stored(level, queries, first, last)
        return narrowed(out)

    def _measured(self, level: int, group: QueryGroup) -> Integers | None:
        """Geounits in which a query of the strategy is measured; None if it is measured in all."""
        level_model = self._model.levels[level]
        if group not in level_model.measured:
            # The query's missing files will cause an error.
            return None
        precisions = level_model.precisions[:, level_model.measured.index(group)]
        measured = np.flatnonzero(precisions)
        return None if len(measured) == len(precisions) else measured

    def _stored(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Rows start to stop - 1 of the files."""
        return np.concatenate([self._query(level, group, start, stop) for group in queries], axis=1)

    def _query(self, level: int, group: QueryGroup, start: int, stop: int) -> Numbers:
        key = level, group.name
        if key not in self._begins:
            self._begins[key] = self._parts(level, group)
        begins = self._begins[key][1]
        pieces, at = [], start
        while at < stop:
            # The part in which the row lies; `begins` ends with the number of rows.
            part = int(np.searchsorted(begins, at, side="right")) - 1
            until = min(stop, begins[part + 1])
            pieces.append(self._part(level, group, part)[at - begins[part] : until - begins[part]])
            at = until
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _parts(self, level: int, group: QueryGroup) -> tuple[list[Path], list[int]]:
        folder = measurement_folder(self._root, self._spine.geolevels[level], group.name)
        parts = sorted(folder.glob("part-*.parquet"))
        if not parts:
            raise StoreError(
                f"there are no measurements of '{group.name}' in {folder}. Ask for a query that was measured, or "
                "restore the folder.",
                code="measurements-missing",
            )
        # Least squares over the whole spine needs every answer. Those on the support were chosen by the counts.
        if "answers" in published_columns(parts[0]):
            raise StoreError(
                f"the measurements in {folder} hold only the answers on the support of the counts published with "
                'them. Intervals need all answers: make the release with measurements = "full".',
                code="measurements-missing",
            )
        heights = [published_height(part) for part in parts]
        begins = np.cumsum([0, *heights]).tolist()
        measured = self._measured(level, group)
        if begins[-1] != (self._spine.n_geounits(level) if measured is None else len(measured)):
            raise other_geography(folder)
        return parts, begins

    def _part(self, level: int, group: QueryGroup, part: int) -> Numbers:
        key = level, group.name
        held = self._held.get(key)
        if held is not None and held[0] == part:
            return held[1]
        # Only one geolevel is read at a time.
        self._held = {other: stored for other, stored in self._held.items() if other[0] == level}
        parts, begins = self._begins[key]
        frame = read_published(parts[part], ["geocode", "values", "variance"])
        geounits = np.arange(begins[part], begins[part + 1], dtype=np.int64)
        measured = self._measured(level, group)
        codes = self._spine.geocodes[level].text[begins[part] : begins[part + 1]]
        if measured is not None:
            geounits = measured[geounits]
            codes = self._spine.geocodes[level].text.gather(geounits)
        values = frame["values"].explode(empty_as_null=False)
        # Order matters, too: rows are used by position.
        if not frame["geocode"].equals(codes) or len(values) != frame.height * group.size:
            raise other_geography(parts[part].parent)
        self._check_variances(level, group, geounits, frame)
        table = narrowed(values.to_numpy()).reshape(frame.height, group.size)
        self._held[key] = part, table
        return table

    def _check_variances(
        self, level: int, group: QueryGroup, geounits: Integers, frame: pl.DataFrame
    ) -> None:
        """Refuse measurements whose variance differs from that of the model."""
        level_model = self._model.levels[level]
        precisions = level_model.precisions_of(geounits)[:, level_model.measured.index(group)]
        variances = np.maximum(frame["variance"].to_numpy(), LEAST_VARIANCE)
        # A relative difference without a division; unmeasured geounits are left out below.
        off = np.abs(variances * precisions - 1.0)
        if bool((off[precisions > 0] > SAME_VARIANCE).any()):
            raise StoreError(
                f"the measurements of '{group.name}' at {level_model.geolevel} in {self._root} have another "
                "variance than the given strategy states. Use the strategy of that release.",
                code="measurements-mismatch",
            )


class KeptRows:
    """Rows of another source, stored after the first reading as long as they fit into a given amount of memory."""

    def __init__(self, rows: AnswerRows, largest_bytes: int = 1 << 30) -> None:
        self._rows = rows
        self._left = largest_bytes
        self._kept: dict[tuple[int, int, int], Numbers] = {}

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start to stop - 1. All requests for a level must have the same queries."""
        key = level, start, stop
        if key not in self._kept:
            answers = self._rows.rows(level, queries, start, stop)
            # Handed on without being kept. Smaller requests may still fit later.
            if answers.nbytes > self._left:
                return answers
            self._left -= answers.nbytes
            self._kept[key] = answers
        return self._kept[key]


def narrowed(values: Numbers) -> Numbers:
    """The same integers in two bytes each if they fit, otherwise in four, otherwise in eight."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    # Noisy answers of blocks are small; two bytes instead of eight are a quarter of the memory.
    for kind in (np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind, copy=False)
    return values.astype(np.int64, copy=False)


# With some thousand answers a geounit, a chunk takes some ten MB in two or four bytes each.
FINEST_PER_CHUNK = 2048
"""Number of finest geounits whose answers are in memory at once."""
GEOUNITS_PER_CALL = 64
"""Geounits of one call of a kernel, which holds no lock of Python: enough that a call takes longer than starting it,
and few enough that threads finish together. Twice or half of it changes no number, as every geounit is computed by
itself."""
AGREEMENT = 1e-6
"""Counts by which invariants may differ from zeros and from each other, to allow for rounding of floats."""

InvariantValues = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class TreeEstimate:
    """Unbiased estimates of every geounit, as coefficients in the basis of the algebra.

    Attributes:
        covariance: Their covariances.
        rows: Source of the noisy answers.
        invariants: For each geolevel, the values of its invariants, one query after the other; shape (n_geounits,
            n_answers).
        inner: Estimates of the geounits of each level of `covariance.inner`; shape (n, n_cells).
        pull: The correction that each parent of finest geounits passes down; shape (n, n_cells).
        shift: The correction along directions that are unknown for its children, or None.
    """

    covariance: TreeCovariance
    rows: AnswerRows
    invariants: InvariantValues
    inner: tuple[Floats, ...]
    pull: Floats
    shift: Floats | None


def fit_tree(
    covariance: TreeCovariance,
    rows: AnswerRows,
    invariants: InvariantValues | None = None,
    *,
    workers: int = 1,
) -> TreeEstimate:
    """Generalised least-squares estimates of every geounit from all measurements of the spine.

    Args:
        covariance: Covariances for the model that the measurements follow.
        rows: The noisy answers. They are read once here, and again for answers at the finest geolevel.
        invariants: For each geolevel, the exact answers of `LevelModel.invariants`, one query after the other.
        workers: Number of threads. The estimates do not depend on it.
    Returns:
        Estimates that are linear in the measurements, unbiased, of least variance among such estimates, and additive.
    Raises:
        ConstraintError: invariants are missing, or contradict the zeros or each other.
        StoreError: measurements are missing.
    Source: Ansley and Kohn 1985, for unknown directions carried exactly; here with sums in a tree for steps in time.
    """
    # Before anything is read, because reading is what takes long.
    exact = _checked(covariance, invariants or {})
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        # Sums of children are kept, since news is what their parents learn beyond them.
        sums = [_sum_finest(covariance, rows, exact, pool, workers)]
        estimates: list[Floats] = []
        for level in range(len(covariance.inner) - 1, -1, -1):
            estimates.append(_up(covariance, rows, exact, level, sums[-1], pool))
            if level:
                sums.append(np.add.reduceat(estimates[-1], covariance.inner[level - 1].offsets[:-1], axis=0))
        estimates.reverse()
        sums.reverse()
        pull, shift = _down(covariance, estimates, sums, pool)
    # Contradictory invariants do not fail by themselves: they would give estimates that satisfy neither.
    _check_agreement(covariance, exact, estimates)
    return TreeEstimate(covariance, rows, exact, tuple(estimates), pull, shift)


def _checked(covariance: TreeCovariance, invariants: InvariantValues) -> InvariantValues:
    model = covariance.model
    for number, level in enumerate(model.levels):
        n, width = model.spine.n_geounits(number), sum(group.size for group in level.invariants)
        given = invariants.get(level.geolevel)
        shape = None if given is None else given.shape
        if width and shape != (n, width):
            raise ConstraintError(
                f"the invariants of {level.geolevel} have shape {shape}; wanted ({n}, {width}): the exact answers of "
                f"{', '.join(group.name for group in level.invariants)}, one query after the other.",
                code="invariants-missing",
            )
    return {level.geolevel: invariants[level.geolevel] for level in model.levels if level.invariants}


def chunks_of(
    covariance: TreeCovariance, rows: AnswerRows, wanted: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, int, Numbers]]:
    """Rows of the finest geounits in chunks. The next chunk is read while one is being used.

    Args:
        covariance: Covariances with the finest geounits.
        rows: Source of the answers.
        wanted: Geounits that are needed; chunks without any are omitted; None for all.
    Yields:
        First geounit, one past the last, and their answers.
    """
    model = covariance.model
    level, n = model.spine.finest, len(covariance.finest.signature)
    spans = [(start, min(start + FINEST_PER_CHUNK, n)) for start in range(0, n, FINEST_PER_CHUNK)]
    if wanted is not None:
        spans = [(start, stop) for start, stop in spans if wanted[start:stop].any()]
    # One reader, one chunk ahead: at most two chunks are in memory.
    with ThreadPoolExecutor(max_workers=1) as reader:
        ahead: Future[Numbers] | None = None
        for number, (start, stop) in enumerate(spans):
            reading = ahead or reader.submit(rows.rows, level, model.levels[-1].measured, start, stop)
            if number + 1 < len(spans):
                ahead = reader.submit(rows.rows, level, model.levels[-1].measured, *spans[number + 1])
            yield start, stop, reading.result()


def measured_cascade(covariance: TreeCovariance, level: int) -> Cascade:
    """The cascade of the queries measured at a geolevel."""
    return cascade_of(covariance.model.levels[level].measured, covariance.algebra.n_cells)


def invariant_cascade(covariance: TreeCovariance, level: int) -> Cascade:
    """The cascade that turns the invariants of a geolevel into the smallest cells that satisfy them."""
    return cascade_of(covariance.model.levels[level].invariants, covariance.algebra.n_cells, averaged=True)


def share(pool: ThreadPoolExecutor, n: int, size: int, work: Callable[[int, int], None]) -> None:
    """Call work(first, last) for runs of at most `size` out of n, on the pool's threads."""
    list(pool.map(lambda first: work(first, min(first + size, n)), range(0, n, size)))


def _sum_finest(
    covariance: TreeCovariance,
    rows: AnswerRows,
    exact: InvariantValues,
    pool: ThreadPoolExecutor,
    workers: int,
) -> Floats:
    """For each parent, the sum of its finest geounits' estimates from their own measurements."""
    algebra, finest, parents = covariance.algebra, covariance.finest, covariance.inner[-1].parents
    last = covariance.model.spine.finest
    out = np.zeros((covariance.inner[-1].n, algebra.n_cells))
    cascades = [measured_cascade(covariance, last), invariant_cascade(covariance, last)]
    for start, stop, values in chunks_of(covariance, rows):
        groups = grouped(parents[start:stop], finest.signature[start:stop])
        # Threads add to disjoint parents, so that no lock is needed and the order of additions is fixed.
        cuts = cuts_of(groups.target, workers)
        steps = [(NoisyAnswers(cascades[0], values, finest.precisions), finest.filtered)]
        if finest.pin is not None:
            exact_rows = exact[covariance.model.levels[-1].geolevel][start:stop]
            ones = np.ones((len(finest.pin), len(cascades[1].begin) - 1))
            steps.append((NoisyAnswers(cascades[1], exact_rows, ones), finest.pin))
        for step in steps:

            def work(cut: tuple[int, int], step: tuple[NoisyAnswers, Floats] = step) -> None:
                add_measured(algebra.basis, *step, groups, *cut, out)  # noqa: B023

            list(pool.map(work, cuts))
    return out


def grouped(target: Integers, blocks: Integers, factors: Floats | None = None) -> RowGroups:
    """Rows grouped by their target and by the blocks that they share."""
    # Rows with the same parent and the same blocks: their answers are added first, and multiplied once.
    order = np.lexsort((blocks, target))
    target, blocks = target[order], blocks[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (target[1:] != target[:-1]) | (blocks[1:] != blocks[:-1])
    starts = np.flatnonzero(new)
    given = np.ones(len(order)) if factors is None else factors[order]
    return RowGroups(order, np.append(starts, len(order)), given, blocks[starts], target[starts])


def cuts_of(target: Integers, workers: int) -> list[tuple[int, int]]:
    """Runs of groups, one for each thread, such that no target is in two runs."""
    edges = {0, len(target)}
    for worker in range(1, workers):
        at = len(target) * worker // workers
        # Moved back to where a parent begins.
        edges.add(int(np.searchsorted(target, target[at], side="left")) if len(target) else 0)
    ends = sorted(edges)
    return list(pairwise(ends))


def _up(
    covariance: TreeCovariance,
    rows: AnswerRows,
    exact: InvariantValues,
    level: int,
    below: Floats,
    pool: ThreadPoolExecutor,
) -> Floats:
    """Estimates of an inner level, given everything at and below it."""
    inner, algebra = covariance.inner[level], covariance.algebra
    everyone = np.arange(inner.n, dtype=np.int64)
    out = np.zeros((inner.n, algebra.n_cells))
    # carry b first, then P h and pin t are added to it.
    _multiply(covariance, SharedRows(inner.carry, everyone), SharedRows(below, everyone), out, pool)
    if level:
        _add_own(covariance, rows, level, out, pool)
    if inner.pin is not None:
        level_model = covariance.model.levels[level - 1]
        cascade, ones = (
            invariant_cascade(covariance, level - 1),
            np.ones((inner.n, len(level_model.invariants))),
        )
        _add_rows(covariance, NoisyAnswers(cascade, exact[level_model.geolevel], ones), inner.pin, out, pool)
    return out


def _add_own(
    covariance: TreeCovariance, rows: AnswerRows, level: int, out: Floats, pool: ThreadPoolExecutor
) -> None:
    """Add what the geounits' own measurements say."""
    inner, level_model = covariance.inner[level], covariance.model.levels[level - 1]
    cascade = measured_cascade(covariance, level - 1)
    for start in range(0, inner.n, FINEST_PER_CHUNK):
        run = np.arange(start, min(start + FINEST_PER_CHUNK, inner.n), dtype=np.int64)
        values = rows.rows(level - 1, level_model.measured, start, start + len(run))
        # A precision of 0 silences geounits that were not measured, whose values mean nothing.
        answers = NoisyAnswers(cascade, values, level_model.precisions_of(run))
        _add_rows(covariance, answers, inner.filtered[run], out[run[0] :], pool)


def _add_rows(
    covariance: TreeCovariance, answers: NoisyAnswers, blocks: Floats, out: Floats, pool: ThreadPoolExecutor
) -> None:
    n = len(answers.values)
    each = np.arange(n, dtype=np.int64)
    groups = RowGroups(each, np.arange(n + 1, dtype=np.int64), np.ones(n), each, each)
    basis = covariance.algebra.basis

    def work(first: int, last: int) -> None:
        add_measured(basis, answers, blocks, groups, first, last, out)

    share(pool, n, GEOUNITS_PER_CALL, work)


def _multiply(
    covariance: TreeCovariance, blocks: SharedRows, x: SharedRows, out: Floats, pool: ThreadPoolExecutor
) -> None:
    basis = covariance.algebra.basis

    def work(first: int, last: int) -> None:
        add_products(basis, blocks, x, first, last, out)

    share(pool, len(out), GEOUNITS_PER_CALL, work)


def _down(
    covariance: TreeCovariance, estimates: list[Floats], sums: list[Floats], pool: ThreadPoolExecutor
) -> tuple[Floats, Floats | None]:
    """Correct each level by what its parents learned elsewhere, in place. Returns the finest level's corrections."""
    pull, shift = np.zeros(0), None
    for level, inner in enumerate(covariance.inner):
        # In place: at the finest inner level these arrays are the largest of all.
        news = np.subtract(estimates[level], sums[level], out=sums[level])
        pull, shift = _handed_down(covariance, inner, news, pool)
        # Freed at once; nothing needs it again.
        sums[level] = np.zeros(0)
        if level + 1 < len(covariance.inner):
            children = covariance.inner[level + 1]
            everyone, parents = np.arange(children.n, dtype=np.int64), inner.parents
            filtered, handed = SharedRows(children.filtered, everyone), SharedRows(pull, parents)
            _multiply(covariance, filtered, handed, estimates[level + 1], pool)
            if shift is not None and children.unknown is not None:
                unknown, handed = SharedRows(children.unknown.filtered, everyone), SharedRows(shift, parents)
                _multiply(covariance, unknown, handed, estimates[level + 1], pool)
    return pull, shift


def _handed_down(
    covariance: TreeCovariance, inner: InnerLevel, news: Floats, pool: ThreadPoolExecutor
) -> tuple[Floats, Floats | None]:
    everyone = np.arange(inner.n, dtype=np.int64)
    learned = SharedRows(news, everyone)
    pull = np.zeros(news.shape)
    _multiply(covariance, SharedRows(inner.gain, everyone), learned, pull, pool)
    if inner.unknown is None:
        return pull, None
    shift = np.zeros(news.shape)
    _multiply(covariance, SharedRows(inner.unknown.slope, everyone), learned, shift, pool)
    return pull, shift


def finest_coefficients(
    estimate: TreeEstimate, start: int, stop: int, values: Numbers, pool: ThreadPoolExecutor
) -> Floats:
    """Estimates of finest geounits start to stop - 1 from their rows of answers; shape (stop - start, n_cells)."""
    covariance = estimate.covariance
    finest, basis = covariance.finest, covariance.algebra.basis
    out = np.zeros((stop - start, covariance.algebra.n_cells))
    cascade = measured_cascade(covariance, covariance.model.spine.finest)
    answers = NoisyAnswers(cascade, values, finest.precisions)
    signature, parents = finest.signature[start:stop], covariance.inner[-1].parents[start:stop]

    filtered, pull = SharedRows(finest.filtered, signature), SharedRows(estimate.pull, parents)

    def work(first: int, last: int) -> None:
        finest_rows(basis, answers, filtered, pull, first, last, out)

    share(pool, stop - start, GEOUNITS_PER_CALL, work)
    if finest.unknown is not None and estimate.shift is not None:
        unknown, shift = SharedRows(finest.unknown, signature), SharedRows(estimate.shift, parents)
        _multiply(covariance, unknown, shift, out, pool)
    if finest.pin is not None:
        pinned = invariant_cascade(covariance, covariance.model.spine.finest)
        exact = estimate.invariants[covariance.model.levels[-1].geolevel][start:stop]
        ones = np.ones((len(exact), len(pinned.begin) - 1))
        _add_rows(covariance, NoisyAnswers(pinned, exact, ones), finest.pin[signature], out, pool)
    return out


def _check_agreement(covariance: TreeCovariance, exact: InvariantValues, estimates: list[Floats]) -> None:
    """Refuse invariants that the estimates above the finest geolevel do not satisfy, because no estimates can."""
    spine = covariance.model.spine
    for level, level_model in enumerate(covariance.model.levels[:-1]):
        if not level_model.invariants:
            continue
        geolevel, cascade = level_model.geolevel, invariant_cascade(covariance, level)
        answers = np.zeros((spine.n_geounits(level), len(cascade.scale) + 1))
        answer_rows(covariance.algebra.basis, cascade, estimates[level + 1], 0, len(answers), answers)
        # The last column collects cells that no answer counts.
        off = np.abs(answers[:, :-1] - exact[geolevel]).max(axis=1)
        # Relative to the counts, because floats are.
        if (off > AGREEMENT * (1.0 + np.abs(exact[geolevel]).max(axis=1))).any():
            place = int(np.argmax(off))
            raise ConstraintError(
                f"{geolevel} '{spine.geocodes[level][place]}': the invariants contradict the zeros, or they "
                "contradict the invariants of the geounits inside it. Correct one of them.",
                code="constraints-conflict",
            )
