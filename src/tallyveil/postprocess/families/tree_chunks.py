"""A sweep up the spine by several processes: each sweeps some subtrees, and the run's own process what is above them.

The sums that a subtree passes on, and its estimates, do not depend on who computes them
(`tallyveil.estimation.intervals.upward`).
"""

from dataclasses import dataclass
from typing import Final

from tallyveil.arrays import NarrowArray
from tallyveil.estimation.intervals.upward import Done, joined_sums, subtrees_of, sweep_subtrees, sweep_up
from tallyveil.kernels.tree.upward import Sums
from tallyveil.measurements.family_answers import MeasurementSource
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.tree_values import TreeSweep, TreeValues
from tallyveil.runs.executor import Chunks, Executor, gathered
from tallyveil.runs.observer import Observer
from tallyveil.storage.archives import Archived

SWEEP: Final = "sweep"
"""Name of the work in addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class _Swept:
    """What the sweep of some subtrees gives.

    Attributes:
        number: Of the chunk.
        sums: What the roots of the subtrees pass on.
        kept: The rounded estimates of a geolevel from a first geounit on, by both.
    """

    number: int
    sums: Sums
    kept: dict[tuple[int, int], NarrowArray]


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
        return _Swept(number, sums, values.pieces())

    return Chunks({"work": SWEEP}, work, folders.writing(_archived), folders.reading(_swept_in)), level, spans


def swept_values(
    tree: TreeSweep, source: MeasurementSource, observer: Observer, executor: Executor
) -> TreeValues:
    """As `TreeSweep.values`, by other processes.

    Args:
        tree: The sweep.
        source: The noisy answers.
        observer: Is told how many geounits above the finest are done.
        executor: Does the subtrees.
    """
    chunks, level, spans = sweep_chunks(tree, source)
    values = TreeValues(tree.sweep, tree.name)
    numbers = range(len(spans))
    swept = gathered(
        executor, chunks, numbers, lambda number: observer.advanced(_n_geounits(tree, level, spans[number]))
    )
    for one in swept:
        for (own, first), kept in one.kept.items():
            values.take(own, first, kept)
    done = Done(level, joined_sums([one.sums for one in swept]))
    sweep_up(tree.sweep, source, tree.exact, values.keep, done=done)
    observer.advanced(sum(tree.sweep.model.spine.n_geounits(one) for one in range(level)))
    return values


def _n_geounits(tree: TreeSweep, level: int, span: tuple[int, int]) -> int:
    """Number of geounits above the finest geolevel in some subtrees."""
    spine = tree.sweep.model.spine
    first, last = span
    total = 0
    for own in range(level, spine.finest):
        total += last - first
        first, last = int(spine.child_offsets[own][first]), int(spine.child_offsets[own][last])
    return total


def _archived(swept: _Swept) -> tuple[int, Archived]:
    sums = {f"sums-{name}": part for name, part in swept.sums._asdict().items()}
    kept = {f"kept-{level}-{first}": own for (level, first), own in swept.kept.items()}
    return swept.number, Archived({"number": swept.number}, {**sums, **kept})


def _swept_in(content: Archived) -> _Swept:
    sums = Sums(*(content.arrays[f"sums-{name}"] for name in Sums._fields))
    kept = {}
    for name, own in content.arrays.items():
        if name.startswith("kept-"):
            _, level, first = name.split("-")
            kept[int(level), int(first)] = own
    return _Swept(content.record["number"], sums, kept)
