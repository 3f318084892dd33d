"""Estimates of every geounit above the finest geolevel from everything that is measured in or below it.

These estimates are the first half of `tallyveil.intervals.fit`: a sweep up the spine, without the sweep down. They
are kept apart because released counts depend on them. Their kernels give the same bits on every machine, for every
number of threads, and for every order in which subtrees are done (`tallyveil.kernels.tree.upward`). Memory holds some
subtrees at a time, never a whole geolevel.

Worked case. A parent is measured as 5 and its children as 1 and 2, all with variance 1. The estimate of the parent is
2/3 x 5 + 1/3 x 3 = 13/3.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.intervals.algebra import BlockAlgebra, information, zero_blocks
from tallyveil.intervals.axis import factor_rows
from tallyveil.intervals.cascade import cascade_of
from tallyveil.intervals.fit import share
from tallyveil.intervals.model import LevelModel, TreeModel
from tallyveil.kernels.tree.upward import (
    LOOSE,
    Alike,
    BlockRows,
    Learned,
    Signatures,
    Sums,
    add_answers,
    add_children,
    add_finest,
    cell_estimates,
    learn_exact,
    learn_level,
    learn_measured,
)
from tallyveil.measurements.family_answers import FamilyAnswers, MeasurementSource
from tallyveil.universe.query_group import QueryGroup

GEOUNITS_AT_ONCE, CELLS_AT_ONCE = 256, 1 << 20
"""Most geounits of each geolevel above the finest, and most of their cells, whose estimates are in memory at once."""

FINEST_AT_ONCE, ANSWERS_AT_ONCE = 2048, 1 << 23
"""Most finest geounits, and most of their noisy answers, that a thread has in memory at once."""

GEOUNITS_PER_CALL = 32

LEAST_VARIANCE = 1e-7
"""Part of the smallest variance of a measurement below which a variance is a rounding error of zero."""

Receive = Callable[[int, int, Floats], None]
"""Takes the number of a geolevel, a first geounit, and the estimated cells of it and of those that follow it."""


@dataclass(frozen=True, slots=True, eq=False)
class Upward:
    """What the sweep needs besides the measurements.

    Attributes:
        model: Spine, precisions, zeros and invariants.
        levels: What the geounits of each geolevel are told, root first.
        signatures: What finest geounits with the same precisions and zeros have in common.
        signature: Signature of each finest geounit.
        asked: For each signature, the numbers of the answers of each query that are not known to be zero.
        has_loose: Whether the finest measurements leave a direction of a finest geounit undetermined.
    """

    model: TreeModel
    levels: tuple[Learned, ...]
    signatures: Signatures
    signature: Integers
    asked: tuple[tuple[Integers, ...], ...]
    has_loose: bool

    @property
    def algebra(self) -> BlockAlgebra:
        """The algebra of the blocks."""
        return self.model.algebra


def upward_of(model: TreeModel) -> Upward:
    """Prepare the sweep of a model. No measurement is read."""
    highest = max(float(level.precisions.max(initial=0.0)) for level in model.levels)
    least = LEAST_VARIANCE / highest if highest else 0.0
    levels = tuple(_learned(model.algebra, level, least) for level in model.levels)
    finest = model.levels[-1]
    rows, row = np.unique(finest.precisions, axis=0, return_inverse=True)
    row = np.broadcast_to(row.reshape(-1), (len(model.zero_pattern),)) if len(rows) == 1 else row.reshape(-1)
    pairs, signature = np.unique(row * len(model.zero_patterns) + model.zero_pattern, return_inverse=True)
    precisions = rows[pairs // len(model.zero_patterns)]
    zeros = model.zero_patterns[pairs % len(model.zero_patterns)]
    signatures = _signatures(model.algebra, levels[-1], precisions, zeros)
    return Upward(
        model,
        levels,
        signatures,
        signature.reshape(-1).astype(np.int64),
        tuple(_asked(finest.measured, ~own, used) for own, used in zip(zeros, precisions, strict=True)),
        bool(np.abs(signatures.left).max(initial=0.0) > LOOSE),
    )


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
            for own, kind in zip(factors, kinds, strict=True):
                rows = np.asarray(np.kron(rows, own[kind]), np.float64)
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
    for own, blocks, free in zip(precisions, spread, loose, strict=True):
        learn_measured(algebra.basis, learned, own, blocks, free)
    settled, left = spread.copy(), loose.copy()
    nothing = np.zeros(len(learned.exact.scale), np.int64)
    if nothing.size:
        for blocks, free in zip(settled, left, strict=True):
            learn_exact(algebra.basis, learned, nothing, blocks, free, np.zeros(algebra.n_cells))
    return Signatures(np.ascontiguousarray(precisions), spread, loose, settled, left)


def _asked(groups: Sequence[QueryGroup], free: NDArray[np.bool_], precisions: Floats) -> tuple[Integers, ...]:
    """The answers of each query that have a free cell; none of a geounit that is not measured."""
    cells = np.flatnonzero(free) if precisions.any() else np.zeros(0, np.int64)
    found = [np.unique(group.answers_of(cells)) for group in groups]
    return tuple(own[own >= 0].astype(np.int64) for own in found)


def sweep_up(
    upward: Upward,
    source: MeasurementSource,
    exact: Mapping[str, Integers],
    receive: Receive,
    *,
    workers: int = 1,
) -> None:
    """Estimate every geounit above the finest geolevel from what is measured in or below it.

    Args:
        upward: The prepared sweep.
        source: The noisy answers. Each is asked for once.
        exact: For each geolevel with invariants, their answers, one query after the other.
        receive: Takes the estimates, subtree by subtree. The geounits of a geolevel come in order.
        workers: Number of threads. The estimates do not depend on it.
    """
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        sweep = _Sweep(upward, source, exact, receive, pool, max(1, workers))
        for first, last in _pieces(0, upward.model.spine.n_geounits(0), sweep.at_once):
            if upward.model.spine.n_levels > 1:
                sweep.rise(0, first, last)


def _pieces(first: int, last: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, last)) for start in range(first, last, size)]


@dataclass(frozen=True, slots=True, eq=False)
class _Sweep:
    """One sweep up a spine."""

    upward: Upward
    source: MeasurementSource
    exact: Mapping[str, Integers]
    receive: Receive
    pool: ThreadPoolExecutor
    workers: int

    @property
    def at_once(self) -> int:
        """Number of geounits of a geolevel above the finest that are done together."""
        return max(1, min(GEOUNITS_AT_ONCE, CELLS_AT_ONCE // self.upward.algebra.n_cells))

    def rise(self, level: int, first: int, last: int) -> Sums:
        """Estimates of geounits first..last of a geolevel above the finest, after those of all geounits below them."""
        spine = self.upward.model.spine
        sums, offsets = self._nothing(last - first), spine.child_offsets[level]
        begin, end = int(offsets[first]), int(offsets[last])
        parent = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
        if level + 1 == spine.finest:
            self._add_finest(begin, end, parent, sums)
        else:
            for start, stop in _pieces(begin, end, self.at_once):
                add_children(self.rise(level + 1, start, stop), parent[start - begin : stop - begin], sums)
        self._learn(level, first, last, sums)
        return sums

    def _nothing(self, n: int) -> Sums:
        algebra = self.upward.algebra
        loose = np.zeros((n if self.upward.has_loose else 0, algebra.n_block_entries))
        return Sums(np.zeros((n, algebra.n_cells)), np.zeros((n, algebra.n_block_entries)), loose)

    def _add_finest(self, begin: int, end: int, parent: Integers, sums: Sums) -> None:
        """Add the finest geounits begin..end to the sums of their parents."""
        upward, n_signatures = self.upward, len(self.upward.asked)
        finest = upward.model.spine.finest
        signature = upward.signature[begin:end]
        pairs, group, number = np.unique(
            parent * n_signatures + signature, return_inverse=True, return_counts=True
        )
        group = group.reshape(-1)
        alike = Alike(
            np.searchsorted(pairs, np.arange(len(sums.estimates) + 1) * n_signatures),
            pairs % n_signatures,
            number.astype(np.int64),
            self._summed(finest, begin, signature, upward.asked, group),
            self._exact_sums(finest, begin, end, group, len(pairs)),
        )

        def work(first: int, last: int) -> None:
            add_finest(upward.algebra.basis, upward.levels[-1], upward.signatures, alike, sums, first, last)

        share(self.pool, len(sums.estimates), GEOUNITS_PER_CALL, work)

    def _learn(self, level: int, first: int, last: int, sums: Sums) -> None:
        """Turn sums over children into the estimates of geounits first..last, and hand their cells on."""
        model, n = self.upward.model, last - first
        own, basis = model.levels[level], self.upward.algebra.basis
        precisions = own.precisions if len(own.precisions) == 1 else own.precisions[first:last]
        measured = np.broadcast_to(precisions.any(axis=1).astype(np.int64), (n,))
        free: NDArray[np.bool_] = np.logical_not(model.zero_patterns.all(axis=0))
        asked = tuple(_asked(own.measured, free, np.array([used])) for used in (0.0, 1.0))
        values = self._summed(level, first, measured, asked, np.arange(n))
        exact = self._exact_sums(level, first, last, np.arange(n), n)
        cells = np.empty(sums.estimates.shape)

        def work(start: int, stop: int) -> None:
            learn_level(basis, self.upward.levels[level], values, precisions, exact, sums, start, stop)
            cell_estimates(basis, sums.estimates, start, stop, cells)

        share(self.pool, n, GEOUNITS_PER_CALL, work)
        self.receive(level, first, cells)

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
        model = self.upward.model
        own, geolevel = model.levels[level].measured, model.spine.geolevels[level]
        begin = np.cumsum([0, *(query.size for query in own)]).astype(np.int64)
        out = np.zeros((int(group.max(initial=-1)) + 1, int(begin[-1])), np.int64)

        def work(piece: tuple[int, int]) -> tuple[int, Integers]:
            start, stop = piece
            wanted = _wanted(geolevel, own, first + start, kind[start:stop], asked)
            least = int(group[start:stop].min())
            rows = group[start:stop] - least
            found = np.zeros((int(rows.max()) + 1, out.shape[1]), np.int64)
            values = self.source.measure_families(wanted)
            runs = wanted.child_begin - (first + start)
            add_answers(wanted.answers, wanted.begin, runs, rows, values, begin[:-1], found)
            return least, found

        at_once = max(1, min(FINEST_AT_ONCE, ANSWERS_AT_ONCE // max(1, out.shape[1])))
        pieces = _pieces(0, len(kind), at_once)
        for some in (pieces[k : k + self.workers] for k in range(0, len(pieces), self.workers)):
            for least, found in self.pool.map(work, some):
                out[least : least + len(found)] += found
        return out

    def _exact_sums(self, level: int, first: int, last: int, group: Integers, n_groups: int) -> Integers:
        """Exact answers, summed over the geounits of each group."""
        own = self.upward.model.levels[level]
        out = np.zeros((n_groups, sum(query.size for query in own.invariants)), np.int64)
        if out.shape[1]:
            np.add.at(out, group, self.exact[own.geolevel][first:last])
        return out


def _wanted(
    geolevel: str,
    queries: Sequence[QueryGroup],
    first: int,
    kind: Integers,
    asked: Sequence[tuple[Integers, ...]],
) -> FamilyAnswers:
    """The answers to ask for, with each run of geounits of one kind as a family."""
    starts = np.flatnonzero(np.append(True, kind[1:] != kind[:-1]))
    child_begin = first + np.append(starts, len(kind)).astype(np.int64)
    kinds = kind[starts]
    widths = np.ascontiguousarray(np.array([[len(own) for own in one] for one in asked], np.int64)[kinds].T)
    ends = np.cumsum(widths.reshape(-1)).reshape(widths.shape)
    n_values = widths * np.diff(child_begin)
    value_ends = np.cumsum(n_values.reshape(-1)).reshape(widths.shape)
    return FamilyAnswers(
        geolevel,
        tuple(queries),
        child_begin,
        np.concatenate([np.zeros(0, np.int64), *_listed(len(queries), kinds, asked)]),
        np.concatenate([ends[:, :1] - widths[:, :1], ends], axis=1),
        np.zeros((len(queries), 0), np.int32),
        np.concatenate([value_ends[:, :1] - n_values[:, :1], value_ends], axis=1),
    )


def _listed(n_queries: int, kinds: Integers, asked: Sequence[tuple[Integers, ...]]) -> Iterator[Integers]:
    for query in range(n_queries):
        for kind in kinds.tolist():
            yield asked[kind][query]
