"""Compile the estimator's kernels in a step of a run, so that the time of compiling is reported.

The kernel of a chunk calls the solver of a pass and the rounding through pointers, and the solver calls its parts so.
None of them needs the compiled code of another. If nothing is on disk, as many processes as there are cores, at most
`PROCESSES`, compile a share of them each. This process then finds all of them on disk.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.intervals.model import LevelModel, model_of_levels
from tallyveil.estimation.intervals.upward import block_sweep, query_sweep
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
    TileProblem,
)
from tallyveil.geography.build import spine_from_columns
from tallyveil.kernels.compiled import compiled, on_disk
from tallyveil.kernels.family.answers import SparseCounts, add_counts
from tallyveil.kernels.family.chunk import Chunk, Rules, estimate_chunk, estimate_families
from tallyveil.kernels.family.descent import descend
from tallyveil.kernels.family.face import list_face
from tallyveil.kernels.family.face_solution import solve_face
from tallyveil.kernels.family.interior import approach
from tallyveil.kernels.family.polish import polish
from tallyveil.kernels.family.reduction import reduce_arrays
from tallyveil.kernels.family.solver import solve_by_parts, solve_held
from tallyveil.kernels.rounding.flow import round_by_flow
from tallyveil.measurements.answers import FamilyAnswers, NoisyMeasurements, answer_tables, answers_on_support
from tallyveil.postprocess.families.tree_values import TreeSweep, swept_values
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import SilentObserver
from tallyveil.schema.presets import load_preset
from tallyveil.storage.system import usable_cores

# Noisy answers of two children: the total of each, then two cells of each.
NOISY = np.array([2, 4, 2, 0, 1, 3])
# Counts of the parent in the two cells; with them the smallest family uses all parts of a solver.
PARENT = np.array([3, 4])

PROCESSES = 4
"""Most processes that compile at once. Each of them imports this package and compiles what several kernels have in
common for itself, which takes about 3 s of processor time. With 2, a machine with many cores waits half as long again;
with 8, the largest kernel alone takes as long as the others together."""

COLLECTIONS = 1000
"""Of new objects alone, between two of somewhat older ones, while kernels are compiled."""


def compile_kernels(*, sweeps: bool = False, allocates: bool = False) -> None:
    """Compile or load the kernels, by estimating a tiny family once as part of a chunk and once by itself.

    Compiled code is kept on disk, so later runs only load it.

    Args:
        sweeps: Whether the kernels of the sweeps up a spine are needed as well.
        allocates: Whether those of a model of the finest geolevel are.
    """
    with _rare_collections():
        n_processes = min(usable_cores(), PROCESSES)
        # Only where nothing is on disk: otherwise the other processes would load for seconds what this one loads too.
        if not on_disk(estimate_families) and n_processes > 1:
            numbers = [number for number, work in enumerate(WORK) if sweeps or work is not compile_sweep]
            with (
                TemporaryDirectory(prefix="tallyveil-") as taken,
                _other_processes(n_processes, taken, numbers),
            ):
                compile_share(taken, numbers)
        # After the shares: this process now finds on disk what the others compiled, and compiles what is lacking.
        estimate_chunk(*smallest_chunk())
        estimate_family(smallest_family())
        if sweeps:
            compile_sweep()
        if allocates:
            compile_allocation()


def compile_allocation() -> None:
    """Compile or load the kernels of a model of the finest geolevel, by a family of two blocks and two cells."""
    # Here, since few plans have such a model.
    from tallyveil.estimation.allocation.model import families_of, grid_of, kinds_of
    from tallyveil.estimation.allocation.prior import Sample, learned
    from tallyveil.kernels.allocation.flow import share_out
    from tallyveil.kernels.allocation.law import Answers, Noise, block_laws, likelihoods

    schema = load_preset("race-age")
    kinds, noise, values = kinds_of(schema), Noise(1.0, 2, 6), np.ones((2, schema.size), np.int64)
    parent = values[:1]
    families = families_of(kinds, parent, parent, np.array([2]))
    sample = Sample(values, np.zeros(2, np.int64), families)
    model = learned(sample, noise, lambda concentration: grid_of(kinds, parent[0], 2, concentration))
    table, _ = likelihoods(values[0, :1], noise, model.grid)
    laws = block_laws(
        Answers(values, np.zeros_like(values), table, noise), 0, families, model.prior, model.grid
    )
    share_out(laws, parent[0])


def compile_share(taken: str, numbers: Sequence[int]) -> None:
    """Do the work with these numbers that no other process has begun, in this order.

    Args:
        taken: A folder in which a folder stands for each number whose work has begun.
        numbers: Numbers of works.
    """
    for number in numbers:
        # A folder can be made once, so the work is done once.
        try:
            Path(taken, str(number)).mkdir()
        except FileExistsError:
            continue
        WORK[number]()


def compile_tables() -> None:
    """Compile or load the kernels of outer passes, by estimating the smallest table on one thread and on two."""
    # Here, since few plans have outer passes.
    from tallyveil.estimation.tiles import chunk_of_one, estimate_tiles
    from tallyveil.kernels.tiles.on_threads import Crew, solve_family

    table = smallest_table()
    estimate_tiles(table)
    # Whether a family is large enough for several threads is known only after the spend. The tolerance is so small that
    # Newton's method takes a step, which calls the other kernels. Components are shared by threads, or taken whole.
    with Crew(2) as crew:
        solve_family(chunk_of_one(table), 1e-6, crew, shared=0)
        solve_family(chunk_of_one(table), 1e-6, crew)


def smallest_table() -> TileProblem:
    """A parent with two children and three columns in one group.

    A measured sum of two columns gives Newton's method prices of labels to find. One column for each answer would not.
    """
    cells, pair = np.arange(3, dtype=np.int32), np.array([0, 0, 1], dtype=np.int32)
    return TileProblem(
        geocode="1",
        geolevel="above",
        children=("11", "12"),
        columns=np.arange(3, dtype=np.int64),
        parent_counts=np.array([3, 4, 2]),
        group=np.zeros(3, dtype=np.int32),
        fixed=np.array([[5], [4]]),
        measured=(
            MeasuredQuery("detailed", cells, np.array([[2.0, 3.0, 1.0], [1.0, 0.0, 3.0]]), np.ones(2)),
            MeasuredQuery("pair", pair, np.array([[4.0, 3.0], [1.0, 0.0]]), np.ones(2)),
        ),
        chain=(cells,),
        chain_weights=np.ones(1),
    )


@cache
def compile_sweep() -> None:
    """Make the smallest sweeps up a spine, so that their kernels are compiled before anything is spent."""
    schema, columns = load_preset("race-age"), {"above": ["1"], "finest": ["1"]}
    queries = (schema.query("total"), schema.query("detailed"))
    spine = spine_from_columns(columns, list(columns))
    levels = [LevelModel(name, queries, np.ones((1, 2)), queries[:1]) for name in columns]
    model, exact = model_of_levels(schema, spine, levels), dict.fromkeys(columns, np.zeros((1, 1), np.int64))
    for sweep in (block_sweep(model), query_sweep(model)):
        tree = TreeSweep(sweep, exact, sweep.name)
        values = swept_values(tree, _Nothing(), SilentObserver(), Threads())
        values.answers("above", queries[0], 0, 1, np.arange(1))


class _Nothing:
    """A source of measurements that are all zero."""

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Integers
    ) -> NoisyMeasurements:
        values = np.zeros((stop - start, len(answers)), np.int64)
        return NoisyMeasurements(geolevel, query, start, answers, values, np.ones(stop - start))

    def measure_families(self, wanted: FamilyAnswers) -> Integers:
        return np.zeros(wanted.n_values, np.int64)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Python rarely looks through all its objects for ones in circles. It would take an eighth of compiling."""
    # The youngest objects are still looked through, so memory stays bounded.
    youngest, younger, old = gc.get_threshold()
    gc.set_threshold(youngest, COLLECTIONS, COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(youngest, younger, old)


@contextmanager
def _other_processes(n_processes: int, taken: str, numbers: Sequence[int]) -> Iterator[None]:
    """Processes that compile together with this one. They end before this one goes on."""
    others = [
        subprocess.Popen(
            # Every second process begins at the other end, so that processes meet late and neighbours stay together.
            [sys.executable, "-P", "-m", __name__, taken, *map(str, numbers[:: -1 if process % 2 else 1])],
            # The same search path, so that the same installation is compiled, also when it is not installed.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for process in range(1, n_processes)
    ]
    try:
        yield
        # How they end does not matter: this process then compiles what is not on disk, and reports what fails.
        for other in others:
            other.wait()
    finally:
        for other in others:
            other.kill()
            other.wait()


def smallest_chunk() -> tuple[Rules, Chunk]:
    """The family of `smallest_family` as a chunk."""
    schema = load_preset("race-age")
    queries = [schema.query("total"), schema.query("detailed")]
    tables = answer_tables(queries, schema.size)
    sizes = np.array([group.size for group in queries], dtype=np.int64)
    child_begin = np.array([0, 2])
    wanted = answers_on_support(
        "", queries, child_begin, np.array([0, 2]), np.array([0, 1]), np.zeros(1, dtype=np.bool_)
    )
    wanted.addresses(0)
    values = NOISY.copy()
    nobody = np.zeros(0, dtype=np.int64)
    add_counts(
        wanted.answers,
        wanted.begin[0],
        child_begin,
        tables[0],
        1,
        SparseCounts(np.zeros(3, dtype=np.int64), nobody, nobody),
        values,
    )
    rules = Rules(
        pass_queries=np.eye(2, dtype=np.bool_),
        slack=np.array([0.1, 0.0]),
        bound_answers=tables[:1],
        bound_sizes=sizes[:1],
        round_answers=tables,
        round_sizes=sizes,
        stage=np.arange(2),
        nearest=np.zeros(2, dtype=np.bool_),
    )
    chunk = Chunk(
        offsets=np.array([0, 2]),
        cells=np.array([0, 1]),
        counts=PARENT.copy(),
        child_begin=child_begin,
        columns=wanted.columns,
        widths=wanted.widths,
        value_begin=wanted.value_begin,
        values=values.astype(np.float64),
        weights=np.array([[1.0, 1.0], [0.5, 0.5]]),
        lower=np.array([[1], [0]]),
        upper=np.array([[9], [UNBOUNDED]]),
    )
    return rules, chunk


def smallest_family() -> FamilyProblem:
    """A family of two children and two cells, with a constraint and two passes."""
    cells, both = np.array([0, 1], dtype=np.int32), np.zeros(2, dtype=np.int32)
    return FamilyProblem(
        geocode="",
        geolevel="",
        children=("", ""),
        support=np.arange(2),
        parent_counts=PARENT,
        measured=(
            MeasuredQuery("total", both, NOISY[:2, None], np.ones(2)),
            MeasuredQuery("detailed", cells, NOISY[2:].reshape(2, 2), np.full(2, 2.0)),
        ),
        constraints=(LinearConstraint("one", both, np.array([[1], [0]]), np.array([[9], [UNBOUNDED]])),),
        passes=(EstimationPass(("total",), 0.1), EstimationPass(("detailed",))),
        rounding=(RoundingStage((("total", both),)), RoundingStage((("detailed", cells),))),
    )


WORK: tuple[Callable[[], object], ...] = (
    partial(compiled, approach),
    partial(compiled, solve_face),
    partial(compiled, list_face),
    partial(compiled, polish),
    partial(compiled, descend),
    partial(compiled, solve_by_parts),
    partial(compiled, solve_held),
    smallest_chunk,
    partial(compiled, reduce_arrays),
    partial(compiled, estimate_families),
    compile_sweep,
    partial(compiled, round_by_flow),
)
"""What the processes share. Neighbours have functions in common, which one process compiles once for both. The longest
are at the ends, where processes begin, and the shortest where they meet, so that none waits long for another."""

if __name__ == "__main__":
    with _rare_collections():
        compile_share(sys.argv[1], [int(number) for number in sys.argv[2:]])
