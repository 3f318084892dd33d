"""Values of geounits above the finest geolevel that use everything measured below them: `[estimation] values = "tree"`.

A family's children are fitted to values of the measured queries. With `values = "own"`, the values are the children's
own noisy answers. With "tree", they are the answers of each child's best linear unbiased estimate from all that is
measured in or below it (`tallyveil.estimation.intervals.upward`). Everything else about a family stays as it is.

Each estimated cell is rounded to a multiple of 2^-16 persons. The answers are sums of these multiples, so they are
exact, and the values do not depend on what else is asked for. A sweep that goes query by query estimates answers and
not cells. Its answers are then rounded in the same way.

A sweep is work in chunks: each sweeps some subtrees, and the run's own process what is above them. The sums that a
subtree passes on, and its estimates, do not depend on who computes them (`tallyveil.estimation.intervals.upward`).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Integers, NarrowArray
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.estimation.intervals.algebra import LARGEST_BLOCK
from tallyveil.estimation.intervals.model import TreeModel, model_of_strategy, n_zero_patterns
from tallyveil.estimation.intervals.upward import (
    Done,
    Sweep,
    block_sweep,
    joined_sums,
    query_sweep,
    subtrees_of,
    sweep_subtrees,
    sweep_up,
)
from tallyveil.geography.areas import Hierarchies
from tallyveil.kernels.tree.upward import ChildSums, family_answers
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraints import ConstraintTable, zeros_of
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.runs.executor import Chunks, Executor, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import narrow
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.archives import read_archive, write_archive

SWEEP: Final = "sweep"
"""Name of the work in addresses."""

GRID: Final = 1 << 16
"""Cells are rounded to multiples of 1 / GRID persons."""

MOST_PATTERN_NUMBERS: Final = 1 << 21
"""Most numbers over all distinct patterns of public zeros: cells, and for full precision entries of blocks.

A sweep keeps some arrays of this size. The 2020 schema and all types of facilities have an eighth of it. Where bounds
would give more cells, their zeros are not used; where blocks would have more entries, the sweep goes query by query.
"""


@dataclass(frozen=True, slots=True, eq=False)
class TreeSweep:
    """A prepared sweep up the spine.

    Attributes:
        sweep: The way of sweeping, with the model of all measurements and public zeros.
        exact: For each geolevel with invariants in the model, their answers, one query after the other.
        name: What manifests call it.
    """

    sweep: Sweep
    exact: Mapping[str, Integers]
    name: str


def prepared_sweep(
    plan: StatedPlan, hierarchies: Hierarchies, constraints: Sequence[ConstraintTable]
) -> TreeSweep | None:
    """The sweep that a plan asks for, before any measurement; None if every geolevel keeps its own values.

    Queries and public zeros decide whether the sweep has full precision or goes query by query, and whether it uses the
    zeros of bounds (`MOST_PATTERN_NUMBERS`). The estimates are unbiased with or without them.

    Args:
        plan: How the release is estimated.
        hierarchies: The spine, and the share of the budget of each geounit.
        constraints: Invariants and public bounds.
    """
    if not plan.uses_tree:
        return None
    spine = hierarchies.spine
    invariants: dict[int, list[ConstraintTable]] = {}
    for table in constraints:
        if table.is_exact and table.of_geounits >= 0:
            invariants.setdefault(table.of_geounits, []).append(table)
    zeros = [zeros_of(table, spine) for table in constraints if not table.is_exact]
    # The number of patterns is bounded before the model is built, whose arrays have this size.
    leave = n_zero_patterns(spine, zeros) > max(1, MOST_PATTERN_NUMBERS // plan.schema.size)
    named = {
        spine.geolevels[level]: [table.query.name for table in tables] for level, tables in invariants.items()
    }
    model_for = partial(
        model_of_strategy,
        plan.schema,
        spine,
        plan.strategy,
        shares=hierarchies.shares,
        invariants=named,
        zeros=() if leave else zeros,
    )
    sweep = _sweep_of(model_for)
    exact = {
        spine.geolevels[level]: np.concatenate(
            [table.bounds_of(level, 0, spine.n_geounits(level))[0] for table in tables], axis=1
        )
        for level, tables in invariants.items()
    }
    return TreeSweep(sweep, exact, f"{sweep.name}, without the zeros of bounds" if leave else sweep.name)


def _sweep_of(model_for: Callable[..., TreeModel]) -> Sweep:
    """The sweep with full precision if its blocks are small and few, else query by query."""
    try:
        model = model_for(largest_block=LARGEST_BLOCK)
    # Blocks that are too large are refused by the model; query by query there are none.
    except (SchemaError, ConstraintError):
        return query_sweep(model_for(largest_block=sys.maxsize))
    if len(model.zero_patterns) * model.algebra.n_block_entries > MOST_PATTERN_NUMBERS:
        return query_sweep(model)
    return block_sweep(model)


class TreeValues:
    """Estimates of every geounit above the finest geolevel, in multiples of 1 / GRID persons.

    The estimates are of cells or, where the sweep goes query by query, of the answers that a geolevel measures.
    """

    def __init__(self, sweep: Sweep, name: str) -> None:
        self.sweep, self.name = sweep, name
        self._spine = sweep.model.spine
        self._first: list[list[int]] = [[] for _ in range(self._spine.finest)]
        self._kept: list[list[NarrowArray]] = [[] for _ in range(self._spine.finest)]

    def keep(self, level: int, first: int, results: Floats) -> None:
        """Round and keep the estimates of some geounits. The geounits of a geolevel come in order."""
        self._first[level].append(first)
        # Rounded before anything is summed: sums of multiples of 2**-16 are exact in int64, so any order gives the
        # same.
        self._kept[level].append(narrow(np.rint(results * GRID).astype(np.int64)))

    def pieces(self) -> dict[tuple[int, int], NarrowArray]:
        """The estimates by geolevel and first geounit, in order, as they were kept."""
        # Geounits of a geolevel come in order, so places are found by bisection.
        return {
            (level, first): estimates
            for level, firsts in enumerate(self._first)
            for first, estimates in zip(firsts, self._kept[level], strict=True)
        }

    def take(self, level: int, first: int, estimates: NarrowArray) -> None:
        """Take over estimates that another process has kept. The geounits of a geolevel come in order."""
        self._first[level].append(first)
        self._kept[level].append(estimates)

    def forget(self, level: int) -> None:
        """Free the memory of a geolevel that is estimated."""
        self._kept[level].clear()
        self._first[level].clear()

    def save(self, level: int, path: Path) -> None:
        """Write the estimates of a geolevel, for another process that has the same sweep."""
        pieces = zip(self._first[level], self._kept[level], strict=True)
        write_archive(path, {}, {str(first): estimates for first, estimates in pieces})

    def load(self, level: int, path: Path) -> None:
        """Take over the estimates of a geolevel that another process has written; raises StoreError."""
        for first, estimates in read_archive(path).arrays.items():
            self.take(level, int(first), estimates)

    def units(self, level: int, start: int, stop: int) -> Integers:
        """Estimates of geounits start to stop - 1 in multiples of 1 / GRID persons; a row for each geounit."""
        firsts = np.array(self._first[level])
        # Pieces are as the sweep handed them out; the range asked for may begin within one.
        begin = int(np.searchsorted(firsts, start, side="right")) - 1
        end = int(np.searchsorted(firsts, stop, side="left"))
        pieces = np.concatenate(self._kept[level][begin:end]).astype(np.int64)
        return pieces[start - int(firsts[begin]) : stop - int(firsts[begin])]

    def answers(self, geolevel: str, group: QueryGroup, start: int, stop: int, answers: Integers) -> Floats:
        """Listed answers of geounits start to stop - 1 in persons; shape (stop - start, len(answers))."""
        level, run = self._spine.level_index(geolevel), np.array([0, stop - start], np.int64)
        begin = np.array([0, len(answers)], np.int64)
        values = self._answers(level, group, answers, begin, run, self.units(level, start, stop))
        return values.reshape(stop - start, len(answers))

    def families(self, wanted: FamilyAnswers) -> Floats:
        """The answers that families need, in persons: a flat array in the layout of `wanted`."""
        level, child_begin = self._spine.level_index(wanted.geolevel), wanted.child_begin
        units = self.units(level, int(child_begin[0]), int(child_begin[-1]))
        runs = child_begin - child_begin[0]
        values = (
            self._answers(level, group, wanted.answers, wanted.begin[q], runs, units)
            for q, group in enumerate(wanted.queries)
        )
        return np.concatenate([np.zeros(0), *values])

    def _answers(
        self,
        level: int,
        group: QueryGroup,
        answers: Integers,
        begin: Integers,
        runs: Integers,
        units: Integers,
    ) -> Floats:
        """Listed answers of one query, in the layout of `FamilyAnswers`; `units` are the children's estimates."""
        out = np.empty(int((np.diff(begin) * np.diff(runs)).sum()), np.int64)
        family_answers(answers, begin, runs, self.sweep.table(level, group), group.size, units, out)
        # 2**16 is a power of two, so the division is exact for sums below 2**53 units.
        return out / GRID


@dataclass(frozen=True, slots=True, eq=False)
class _Swept:
    """What the sweep of some subtrees gives.

    Attributes:
        sums: What the roots of the subtrees pass on.
        pieces: The rounded estimates of a geolevel from a first geounit on, by both.
    """

    sums: ChildSums
    pieces: dict[tuple[int, int], NarrowArray]


def sweep_chunks(
    tree: TreeSweep, source: MeasurementSource
) -> tuple[Chunks[_Swept], int, list[tuple[int, int]]]:
    """The lower part of a sweep as chunks that any process of the run can do.

    Returns:
        The chunks, the geolevel of the roots of the subtrees, and the roots of each chunk.
    """
    level, spans = subtrees_of(tree.sweep)
    folders = ChunkFolders(None)  # a chunk writes nothing but its result

    def work(number: int) -> _Swept:
        values = TreeValues(tree.sweep, tree.name)
        sums = sweep_subtrees(tree.sweep, source, tree.exact, values.keep, (level, *spans[number]))
        return _Swept(sums, values.pieces())

    return folders.chunks({"work": SWEEP}, _Swept, work), level, spans


def swept_values(
    tree: TreeSweep, source: MeasurementSource, observer: Observer, executor: Executor
) -> TreeValues:
    """Estimates of all geounits above the finest geolevel; they do not depend on the executor.

    Threads share one sweep, which holds the sums of a few subtrees at a time. Other processes sweep a subtree each, so
    that the sums of all of them are held at once.

    Args:
        tree: The sweep.
        source: The noisy answers.
        observer: Is told how many geounits above the finest are done.
        executor: Does the subtrees, or says how many threads do.
    """
    values = TreeValues(tree.sweep, tree.name)
    if not executor.is_remote:

        def receive(level: int, first: int, results: Floats) -> None:
            values.keep(level, first, results)
            observer.advanced(len(results))

        sweep_up(tree.sweep, source, tree.exact, receive, workers=executor.threads)
        return values
    # Chunks on other machines hold the sums of all subtrees at once; threads need only a few at a time.
    chunks, level, spans = sweep_chunks(tree, source)
    numbers = range(len(spans))
    swept = gathered(
        executor, chunks, numbers, lambda number: observer.advanced(_n_geounits(tree, level, spans[number]))
    )
    for subtrees in swept:
        for (geolevel, first), estimates in subtrees.pieces.items():
            values.take(geolevel, first, estimates)
    done = Done(level, joined_sums([subtrees.sums for subtrees in swept]))
    # What is above the roots of the subtrees is small, and done here.
    sweep_up(tree.sweep, source, tree.exact, values.keep, done=done)
    observer.advanced(sum(tree.sweep.model.spine.n_geounits(above) for above in range(level)))
    return values


def _n_geounits(tree: TreeSweep, level: int, span: tuple[int, int]) -> int:
    """Number of geounits above the finest geolevel in some subtrees."""
    spine = tree.sweep.model.spine
    first, last = span
    total = 0
    for below in range(level, spine.finest):
        total += last - first
        first, last = int(spine.child_offsets[below][first]), int(spine.child_offsets[below][last])
    return total
