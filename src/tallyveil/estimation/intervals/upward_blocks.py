"""The sweep up the spine with full precision: every geounit's estimate uses the covariances of all its cells.

Covariances are small blocks (`tallyveil.estimation.intervals.algebra`). This way of sweeping is taken where the
blocks are small enough; `tallyveil.estimation.intervals.upward_queries` is the other one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Int32s
from tallyveil.estimation.intervals.algebra import BlockAlgebra, information, zero_blocks
from tallyveil.estimation.intervals.axis import factor_rows
from tallyveil.estimation.intervals.cascade import cascade_of
from tallyveil.estimation.intervals.model import LevelModel, TreeModel
from tallyveil.estimation.intervals.upward import FinestKinds, finest_kinds
from tallyveil.kernels.tree.upward import (
    LOOSE,
    Alike,
    BlockRows,
    ChildSums,
    Learned,
    Signatures,
    Told,
    add_finest,
    cell_estimates,
    learn_exact,
    learn_level,
    learn_measured,
)
from tallyveil.measurements.answers import answer_tables
from tallyveil.schema.query_group import QueryGroup


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
