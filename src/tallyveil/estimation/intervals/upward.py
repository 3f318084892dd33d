"""Estimates of every geounit above the finest geolevel from everything that is measured in or below it.

These estimates are the first half of `tallyveil.estimation.intervals.fit`: a sweep up the spine, without the
sweep down. They are kept apart because released counts depend on them. Their kernels give the same bits on
every machine, for every number of threads, and for every order in which subtrees are done
(`tallyveil.kernels.tree.upward`). Memory holds some subtrees at a time, never a whole geolevel.

There are two ways to sweep. With full precision (`block_sweep`), every geounit's estimate uses the
covariances of all its cells, which are small blocks (`tallyveil.estimation.intervals.algebra`). This way is
taken where the blocks are small enough. Otherwise, every query is estimated from its own answers in and below
a geounit (`query_sweep`). These estimates are unbiased. They are less accurate than the others where public
zeros differ between geounits, or where a query is measured at some geolevels only.

Worked case. A parent is measured as 5 and its children as 1 and 2, all with variance 1. The estimate of the
parent is 2/3 x 5 + 1/3 x 3 = 13/3.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.estimation.intervals.algebra import BlockAlgebra, factor_rows, information, zero_blocks
from tallyveil.estimation.intervals.fit import share
from tallyveil.estimation.intervals.model import LevelModel, TreeModel
from tallyveil.estimation.intervals.questions import cascade_of
from tallyveil.kernels.tree.upward import (
    LOOSE,
    Alike,
    AnswerPlaces,
    BlockRows,
    ChildSums,
    Learned,
    Signatures,
    Told,
    add_answers,
    add_children,
    add_finest,
    add_finest_answers,
    cell_estimates,
    learn_answers,
    learn_exact,
    learn_level,
    learn_measured,
)
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource, answer_tables
from tallyveil.schema.query_group import QueryGroup

GEOUNITS_AT_ONCE, NUMBERS_AT_ONCE = 256, 1 << 20
"""Most geounits of each geolevel above the finest, and most numbers in their sums, that are in memory at once."""

FINEST_AT_ONCE, ANSWERS_AT_ONCE = 2048, 1 << 22
"""Most finest geounits, and most of their noisy answers, that a thread has in memory at once.

Sums of answers over the finest geounits of some parents are as many, too.
"""

GEOUNITS_PER_CALL = 32
"""Geounits of one call of a kernel, which holds no lock of Python. It is fewer than the geounits that are in memory at
once, so that all threads have work. Twice or half of it changes no bit."""

SUBTREES = 256
"""About the number of parts in which processes do a sweep."""

Receive = Callable[[int, int, Floats], None]
"""Takes the number of a geolevel, a first geounit, and the results of it and of those that follow it."""


@dataclass(frozen=True, slots=True, eq=False)
class FinestKinds:
    """Kinds of finest geounits. Those of a kind have the same precisions and zeros.

    Attributes:
        kind: Kind of each finest geounit.
        precisions: 1 / variance of each query, one row a kind.
        zeros: Cells that are zero, one row a kind.
        asked: For each kind, the numbers of the answers of each query that are not known to be zero.
    """

    kind: Integers
    precisions: Floats
    zeros: NDArray[np.bool_]
    asked: tuple[tuple[Integers, ...], ...]


class Sweep(Protocol):
    """A way of sweeping up a spine, prepared for a model."""

    @property
    def name(self) -> str:
        """What manifests call it."""
        ...

    @property
    def model(self) -> TreeModel:
        """Spine, precisions, zeros and invariants."""
        ...

    @property
    def finest(self) -> FinestKinds:
        """The kinds of finest geounits."""
        ...

    def width(self, level: int) -> int:
        """Number of results that a geounit of a geolevel has."""
        ...

    def table(self, level: int, group: QueryGroup) -> Int32s:
        """The answer of a measured query in which each result counts; -1 for none."""
        ...

    def nothing(self, n: int) -> ChildSums:
        """Sums over no children, of n geounits."""
        ...

    def add_finest(self, alike: Alike, sums: ChildSums, first: int, last: int) -> None:
        """Add the finest geounits of parents first..last."""
        ...

    def learn(self, level: int, told: Told, sums: ChildSums, span: tuple[int, int], out: Floats) -> None:
        """Turn sums over the children of the geounits of a span into their own, and write their results."""
        ...


def finest_kinds(model: TreeModel) -> FinestKinds:
    """The kinds of a model's finest geounits."""
    finest = model.levels[-1]
    rows, row = np.unique(finest.precisions, axis=0, return_inverse=True)
    row = np.broadcast_to(row.reshape(-1), (len(model.zero_pattern),)) if len(rows) == 1 else row.reshape(-1)
    pairs, kind = np.unique(row * len(model.zero_patterns) + model.zero_pattern, return_inverse=True)
    precisions = np.ascontiguousarray(rows[pairs // len(model.zero_patterns)])
    zeros = model.zero_patterns[pairs % len(model.zero_patterns)]
    asked = tuple(
        _asked(finest.measured, ~empty, used) for empty, used in zip(zeros, precisions, strict=True)
    )
    return FinestKinds(kind.reshape(-1).astype(np.int64), precisions, zeros, asked)


def _asked(groups: Sequence[QueryGroup], free: NDArray[np.bool_], precisions: Floats) -> tuple[Integers, ...]:
    """The answers of each query that have a free cell; none of a geounit that is not measured."""
    cells = np.flatnonzero(free) if precisions.any() else np.zeros(0, np.int64)
    answers = [np.unique(group.answers_of(cells)) for group in groups]
    return tuple(numbers[numbers >= 0].astype(np.int64) for numbers in answers)


def sweep_up(
    sweep: Sweep,
    source: MeasurementSource,
    exact: Mapping[str, Integers],
    receive: Receive,
    *,
    workers: int = 1,
    done: "Done | None" = None,
) -> None:
    """Estimate every geounit above the finest geolevel from what is measured in or below it.

    Args:
        sweep: The prepared sweep.
        source: The noisy answers. Each is asked for once.
        exact: For each geolevel with invariants, their answers, one query after the other.
        receive: Takes the estimates, subtree by subtree. The geounits of a geolevel come in order.
        workers: Number of threads. The estimates do not depend on it.
        done: What `sweep_subtrees` has done already, of all geounits of a geolevel; None for nothing.
    """
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        ascent = _Ascent(sweep, source, exact, receive, pool, max(1, workers), done)
        for first, last in _pieces(0, sweep.model.spine.n_geounits(0), ascent.at_once):
            # Nothing lies above the finest geolevel otherwise.
            if sweep.model.spine.n_levels > 1:
                ascent.rise(0, first, last)


def sweep_subtrees(
    sweep: Sweep,
    source: MeasurementSource,
    exact: Mapping[str, Integers],
    receive: Receive,
    subtrees: tuple[int, int, int],
) -> ChildSums:
    """The part of `sweep_up` in and below some geounits, on one thread.

    Args:
        sweep, source, exact, receive: As for `sweep_up`.
        subtrees: Number of a geolevel above the finest, the first geounit, and one past the last.
    Returns:
        What the geounits pass on to their parents.
    """
    # One thread: the process itself is one of many.
    with ThreadPoolExecutor(max_workers=1) as pool:
        level, first, last = subtrees
        ascent = _Ascent(sweep, source, exact, receive, pool, 1, None)
        pieces = [ascent.rise(level, *piece) for piece in _pieces(first, last, ascent.at_once)]
    return joined_sums(pieces)


def joined_sums(pieces: Sequence[ChildSums]) -> ChildSums:
    """The sums of consecutive geounits, one after the other."""
    return ChildSums(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def subtrees_of(sweep: Sweep) -> tuple[int, list[tuple[int, int]]]:
    """How a sweep is divided among processes: a geolevel above the finest, and runs of its geounits.

    The geolevel is the first with `SUBTREES` geounits, or else the last above the finest. Each run has about the same
    number of finest geounits. Nothing of this changes an estimate.
    """
    spine = sweep.model.spine
    level = next(
        (number for number in range(spine.finest) if spine.n_geounits(number) >= SUBTREES),
        max(0, spine.finest - 1),
    )
    ends = spine.finest_offsets(level)
    # Finest geounits of a run; what takes time is proportional to them.
    limit = max(int(ends[-1]) // SUBTREES, 1)
    run = (ends[:-1] - ends[0]) // limit
    # A geounit is never cut: runs end where the number of the run changes.
    cuts = np.flatnonzero(np.diff(run)) + 1
    return level, list(pairwise([0, *cuts.tolist(), spine.n_geounits(level)]))


def _pieces(first: int, last: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, last)) for start in range(first, last, size)]


class Done(NamedTuple):
    """What was done before: all geounits of a geolevel, and what they pass on to their parents."""

    level: int
    sums: ChildSums


@dataclass(frozen=True, slots=True, eq=False)
class _Ascent:
    """One sweep up a spine, under way."""

    sweep: Sweep
    source: MeasurementSource
    exact: Mapping[str, Integers]
    receive: Receive
    pool: ThreadPoolExecutor
    workers: int
    done: Done | None

    @property
    def at_once(self) -> int:
        """Number of geounits of a geolevel above the finest that are done together."""
        # Numbers in the sums of one geounit, which depend on the way of sweeping.
        numbers = sum(part.size for part in self.sweep.nothing(1))
        return max(1, min(GEOUNITS_AT_ONCE, NUMBERS_AT_ONCE // numbers))

    def rise(self, level: int, first: int, last: int) -> ChildSums:
        """Estimates of geounits first..last of a geolevel above the finest, after those of all geounits below them."""
        # Other processes have done all that lies below.
        if self.done is not None and self.done.level == level:
            return ChildSums(*(part[first:last] if len(part) else part for part in self.done.sums))
        spine = self.sweep.model.spine
        sums, offsets = self.sweep.nothing(last - first), spine.child_offsets[level]
        begin, end = int(offsets[first]), int(offsets[last])
        if level + 1 == spine.finest:
            for start, stop in self._parents_at_once(offsets[first : last + 1]):
                parents = ChildSums(*(part[start:stop] for part in sums))
                self._add_finest(offsets[first + start : first + stop + 1], parents)
        else:
            parent = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
            # Depth first: the children of a piece are done, added to their parents and dropped before the next.
            for start, stop in _pieces(begin, end, self.at_once):
                add_children(self.rise(level + 1, start, stop), parent[start - begin : stop - begin], sums)
        self._learn(level, first, last, sums)
        return sums

    def _parents_at_once(self, offsets: Integers) -> list[tuple[int, int]]:
        """Runs of parents whose finest geounits have few enough sums of answers; `offsets` are their children."""
        width = sum(group.size for group in self.sweep.model.levels[-1].measured)
        # A parent has at most as many sums as children, and as kinds.
        groups = np.minimum(np.diff(offsets), len(self.sweep.finest.asked))
        run = (np.cumsum(groups) - groups) // max(1, ANSWERS_AT_ONCE // max(1, width))
        cuts = np.flatnonzero(np.diff(run)) + 1
        return list(pairwise([0, *cuts.tolist(), len(groups)]))

    def _add_finest(self, offsets: Integers, sums: ChildSums) -> None:
        """Add finest geounits to the sums of their parents, whose first children and last end are `offsets`."""
        finest, level = self.sweep.finest, self.sweep.model.spine.finest
        begin, end = int(offsets[0]), int(offsets[-1])
        parent = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        kind, n_kinds = finest.kind[begin:end], len(finest.asked)
        # Finest geounits of one parent and one kind weigh alike, so their answers are added first as whole numbers,
        # exactly.
        pairs, group, number = np.unique(parent * n_kinds + kind, return_inverse=True, return_counts=True)
        group = group.reshape(-1)
        alike = Alike(
            np.searchsorted(pairs, np.arange(len(sums.estimates) + 1) * n_kinds),
            pairs % n_kinds,
            number.astype(np.int64),
            self._summed(level, begin, kind, finest.asked, group),
            self._exact_sums(level, begin, end, group, len(pairs)),
        )

        def work(first: int, last: int) -> None:
            self.sweep.add_finest(alike, sums, first, last)

        share(self.pool, len(sums.estimates), GEOUNITS_PER_CALL, work)

    def _learn(self, level: int, first: int, last: int, sums: ChildSums) -> None:
        """Turn sums over children into the estimates of geounits first..last, and hand the results on."""
        model, n = self.sweep.model, last - first
        level_model = model.levels[level]
        precisions = (
            level_model.precisions if len(level_model.precisions) == 1 else level_model.precisions[first:last]
        )
        # Kind 0: not measured, asks for nothing. Kind 1: measured.
        measured = np.broadcast_to(precisions.any(axis=1).astype(np.int64), (n,))
        free: NDArray[np.bool_] = np.logical_not(model.zero_patterns.all(axis=0))
        asked = tuple(_asked(level_model.measured, free, np.array([used])) for used in (0.0, 1.0))
        each = np.arange(n)
        values = self._summed(level, first, measured, asked, each)
        told = Told(values, precisions, self._exact_sums(level, first, last, each, n))
        out = np.empty((n, self.sweep.width(level)))

        def work(start: int, stop: int) -> None:
            self.sweep.learn(level, told, sums, (start, stop), out)

        share(self.pool, n, GEOUNITS_PER_CALL, work)
        self.receive(level, first, out)

    def _summed(
        self,
        level: int,
        first: int,
        kind: Integers,
        asked: Sequence[tuple[Integers, ...]],
        group: Integers,
    ) -> Integers:
        """Noisy answers, summed over the geounits of each group.

        Args:
            level: Number of the geolevel.
            first: First geounit.
            kind: For each geounit, the row of `asked` with the answers to ask for.
            asked: Numbers of the answers of each query.
            group: Group of each geounit; rising within what a thread does.
        """
        model = self.sweep.model
        queries, geolevel = model.levels[level].measured, model.spine.geolevels[level]
        begin = np.cumsum([0, *(query.size for query in queries)]).astype(np.int64)
        # int64: sums of whole numbers are exact, so that neither threads nor pieces change them.
        out = np.zeros((int(group.max(initial=-1)) + 1, int(begin[-1])), np.int64)

        def work(piece: tuple[int, int]) -> tuple[int, Integers]:
            start, stop = piece
            wanted = _wanted(geolevel, queries, first + start, kind[start:stop], asked)
            least = int(group[start:stop].min())
            rows = group[start:stop] - least
            # Each thread sums into its own array; groups at the edges of two pieces are added together below.
            sums = np.zeros((int(rows.max()) + 1, out.shape[1]), np.int64)
            values = self.source.measure_families(wanted)
            runs = wanted.child_begin - (first + start)
            add_answers(wanted.answers, wanted.begin, runs, rows, values, begin[:-1], sums)
            return least, sums

        at_once = max(1, min(FINEST_AT_ONCE, ANSWERS_AT_ONCE // max(1, out.shape[1])))
        pieces = _pieces(0, len(kind), at_once)
        # As many pieces at a time as threads: otherwise the results of all of them would wait in memory.
        for some in (pieces[k : k + self.workers] for k in range(0, len(pieces), self.workers)):
            for least, sums in self.pool.map(work, some):
                out[least : least + len(sums)] += sums
        return out

    def _exact_sums(self, level: int, first: int, last: int, group: Integers, n_groups: int) -> Integers:
        """Exact answers, summed over the geounits of each group."""
        level_model = self.sweep.model.levels[level]
        out = np.zeros((n_groups, sum(query.size for query in level_model.invariants)), np.int64)
        if out.shape[1]:
            np.add.at(out, group, self.exact[level_model.geolevel][first:last])
        return out


def _wanted(
    geolevel: str,
    queries: Sequence[QueryGroup],
    first: int,
    kind: Integers,
    asked: Sequence[tuple[Integers, ...]],
) -> FamilyAnswers:
    """The answers to ask for, with each run of geounits of one kind as a family."""
    # Consecutive geounits of one kind ask for the same answers, and are one request.
    starts = np.flatnonzero(np.append(True, kind[1:] != kind[:-1]))
    child_begin = first + np.append(starts, len(kind)).astype(np.int64)
    kinds = kind[starts]
    lists = [_listed([answers[q] for answers in asked], kinds) for q in range(len(queries))]
    widths = np.array([width for _, width in lists], np.int64).reshape(len(queries), len(kinds))
    n_values = widths * np.diff(child_begin)
    return FamilyAnswers(
        geolevel,
        tuple(queries),
        child_begin,
        np.concatenate([np.zeros(0, np.int64), *(answers for answers, _ in lists)]),
        _begins(widths),
        np.zeros((len(queries), 0), np.int32),
        _begins(n_values),
    )


def _listed(asked: Sequence[Integers], kinds: Integers) -> tuple[Integers, Integers]:
    """The answers of one query for each run of geounits, one run after the other, and their number in each run."""
    width = np.array([len(answers) for answers in asked], np.int64)
    begin = np.cumsum(width) - width
    every = np.concatenate([np.zeros(0, np.int64), *asked])
    runs = width[kinds]
    # Position within each run, for runs of different lengths without a loop.
    place = np.arange(int(runs.sum())) - np.repeat(np.cumsum(runs) - runs, runs)
    return every[np.repeat(begin[kinds], runs) + place], runs


def _begins(lengths: Integers) -> Integers:
    """Where each stretch begins, query by query, and where the last one of each query ends."""
    ends = np.cumsum(lengths.reshape(-1)).reshape(lengths.shape)
    return np.concatenate([ends[:, :1] - lengths[:, :1], ends], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class BlockSweep:
    """What the sweep needs besides the measurements.

    Attributes:
        model: Spine, precisions, zeros and invariants.
        finest: The kinds of finest geounits.
        levels: What the geounits of each geolevel are told, root first.
        signatures: What finest geounits of one kind have in common.
        has_loose: Whether the finest measurements leave a direction of a finest geounit undetermined.
    """

    model: TreeModel
    finest: FinestKinds
    levels: tuple[Learned, ...]
    signatures: Signatures
    has_loose: bool

    name = "full"

    def width(self, level: int) -> int:
        """Number of cells, which the results have for every geolevel."""
        return self.model.schema.size

    def table(self, level: int, group: QueryGroup) -> Int32s:
        """The answer of a query in which each cell counts; -1 for none."""
        cells: Int32s = answer_tables([group], self.model.schema.size)[0]
        return cells

    def nothing(self, n: int) -> ChildSums:
        """Sums over no children."""
        entries = self.model.algebra.n_block_entries
        # Without undetermined directions these blocks would be zeros as large as the covariances.
        loose = np.zeros((n if self.has_loose else 0, entries))
        return ChildSums(np.zeros((n, self.model.schema.size)), np.zeros((n, entries)), loose)

    def add_finest(self, alike: Alike, sums: ChildSums, first: int, last: int) -> None:
        """Add the finest geounits of parents first..last."""
        basis = self.model.algebra.basis
        add_finest(basis, self.levels[-1], self.signatures, alike, sums, first, last)

    def learn(self, level: int, told: Told, sums: ChildSums, span: tuple[int, int], out: Floats) -> None:
        """Turn sums over children into estimates, and write their cells."""
        basis = self.model.algebra.basis
        learn_level(basis, self.levels[level], told, sums, *span)
        cell_estimates(basis, sums.estimates, *span, out)


def block_sweep(model: TreeModel) -> BlockSweep:
    """Prepare the sweep of a model. No measurement is read."""
    levels = tuple(_learned(model.algebra, level, model.rounding) for level in model.levels)
    finest = finest_kinds(model)
    signatures = _signatures(model.algebra, levels[-1], finest.precisions, finest.zeros)
    has_loose = bool(np.abs(signatures.left).max(initial=0.0) > LOOSE)
    return BlockSweep(model, finest, levels, signatures, has_loose)


def _learned(algebra: BlockAlgebra, level: LevelModel, least: float) -> Learned:
    blocks = [information(algebra, group) for group in level.measured]
    return Learned(
        cascade_of(level.measured, algebra.n_cells),
        block_rows(algebra, level.measured),
        np.array(blocks, dtype=np.float64).reshape(-1, algebra.n_block_entries),
        cascade_of(level.invariants, algebra.n_cells, averaged=True),
        block_rows(algebra, level.invariants),
        least,
    )


def block_rows(algebra: BlockAlgebra, groups: Sequence[QueryGroup]) -> BlockRows:
    """The rows of queries in each class: products over attributes of the rows of their factors."""
    begin, count, entries, place = [], [], [], 0
    for group in groups:
        factors = [
            factor_rows(axis, factor) for axis, factor in zip(algebra.axes, group.factors, strict=True)
        ]
        for kinds in algebra.classes:
            rows: Floats = np.ones((1, 1))
            for by_kind, kind in zip(factors, kinds, strict=True):
                # A query that is blind to a kind has no row of it, and the product then has none.
                rows = np.asarray(np.kron(rows, by_kind[kind]), np.float64)
            begin.append(place)
            count.append(len(rows))
            entries.append(rows.ravel())
            place += rows.size
    shape = len(groups), len(algebra.classes)
    return BlockRows(
        np.array(begin, np.int64).reshape(shape),
        np.array(count, np.int64).reshape(shape),
        np.concatenate([np.zeros(0), *entries]),
    )


def _signatures(
    algebra: BlockAlgebra, learned: Learned, precisions: Floats, zeros: NDArray[np.bool_]
) -> Signatures:
    loose = algebra.identity(len(zeros)) - zero_blocks(algebra, zeros)
    spread = np.zeros(loose.shape)
    for row, blocks, free in zip(precisions, spread, loose, strict=True):
        # Works in place on the rows of `spread` and `loose`.
        learn_measured(algebra.basis, learned, row, blocks, free)
    # Both states are needed: before and after the exact answers are learnt.
    settled, left = spread.copy(), loose.copy()
    nothing = np.zeros(len(learned.exact.scale), np.int64)
    if nothing.size:
        for blocks, free in zip(settled, left, strict=True):
            learn_exact(algebra.basis, learned, nothing, blocks, free, np.zeros(algebra.n_cells))
    return Signatures(np.ascontiguousarray(precisions), spread, loose, settled, left)


@dataclass(frozen=True, slots=True, eq=False)
class QuerySweep:
    """What the sweep needs besides the measurements.

    Attributes:
        model: Spine, precisions, zeros and invariants. Its algebra is not used.
        finest: The kinds of finest geounits.
        places: For each geolevel, where the answers of each query are.
        variances: Variance of each answer of a finest geounit, one row a kind.
    """

    model: TreeModel
    finest: FinestKinds
    places: tuple[AnswerPlaces, ...]
    variances: Floats

    name = "query by query"

    def width(self, level: int) -> int:
        """Number of answers that a geolevel measures."""
        return sum(group.size for group in self.model.levels[level].measured)

    def table(self, level: int, group: QueryGroup) -> Int32s:
        """For each answer that the geolevel measures, its number in a query; -1 if it belongs to another query."""
        numbers = np.full(self.width(level), -1, np.int32)
        begin = 0
        for query in self.model.levels[level].measured:
            if query.factors == group.factors:
                numbers[begin : begin + group.size] = np.arange(group.size)
            begin += query.size
        return numbers

    def nothing(self, n: int) -> ChildSums:
        """Sums over no children."""
        shape = n, int(self.places[0].begin[-1])
        # Variances answer by answer take the place of blocks, and there are no undetermined directions.
        return ChildSums(np.zeros(shape), np.zeros(shape), np.zeros((0, shape[1])))

    def add_finest(self, alike: Alike, sums: ChildSums, first: int, last: int) -> None:
        """Add the finest geounits of parents first..last."""
        add_finest_answers(self.places[-1], self.variances, alike, sums, first, last)

    def learn(self, level: int, told: Told, sums: ChildSums, span: tuple[int, int], out: Floats) -> None:
        """Turn sums over children into estimates, and write those that the geolevel measures."""
        learn_answers(self.places[level], told, sums, *span, out)


def query_sweep(model: TreeModel) -> QuerySweep:
    """Prepare the sweep of a model. No measurement is read."""
    # Each query once, in the order in which the geolevels name it: an answer has one place at all geolevels.
    queries = list(
        {
            group.factors: group for level in model.levels for group in (*level.measured, *level.invariants)
        }.values()
    )
    finest = finest_kinds(model)
    places = tuple(_places(queries, level.measured, level.invariants) for level in model.levels)
    return QuerySweep(model, finest, places, _variances(queries, places[-1], finest))


def _places(
    queries: Sequence[QueryGroup], measured: Sequence[QueryGroup], exact: Sequence[QueryGroup]
) -> AnswerPlaces:
    numbers = {group.factors: number for number, group in enumerate(measured)}
    measured_at, exact_at = _group_begins(measured), _group_begins(exact)
    return AnswerPlaces(
        np.cumsum([0, *(group.size for group in queries)]).astype(np.int64),
        np.array([numbers.get(group.factors, -1) for group in queries], np.int64),
        np.array([measured_at.get(group.factors, 0) for group in queries], np.int64),
        np.array([exact_at.get(group.factors, -1) for group in queries], np.int64),
    )


def _group_begins(groups: Sequence[QueryGroup]) -> dict[object, int]:
    ends = np.cumsum([0, *(group.size for group in groups)]).tolist()
    return {group.factors: begin for group, begin in zip(groups, ends, strict=False)}


def _variances(queries: Sequence[QueryGroup], places: AnswerPlaces, finest: FinestKinds) -> Floats:
    """Variance of each answer of a finest geounit of each kind: zero where all of its cells are zero."""
    # Infinite until something is measured.
    variances = np.full((len(finest.precisions), int(places.begin[-1])), np.inf)
    for u, group in enumerate(queries):
        columns = variances[:, places.begin[u] : places.begin[u + 1]]
        if places.query[u] >= 0:
            precisions = finest.precisions[:, places.query[u]]
            columns[precisions > 0] = 1.0 / precisions[precisions > 0, None]
        for row, zeros in zip(columns, finest.zeros, strict=True):
            reached: Integers = group.answers_of(np.flatnonzero(~zeros))
            empty = np.ones(group.size, np.bool_)
            empty[reached[reached >= 0]] = False
            # Known to be zero without noise, whether it is measured or not.
            row[empty] = 0.0
    return variances
