"""Make a release from measurements: estimate geolevel by geolevel, then write what follows from the counts.

No record is read here. `tallyveil run` passes the measurements that it draws, and `tallyveil estimate` passes
those that it reads from files. Both give the same counts.

A worker process on another machine does the same work from the public files of the release folder. The run's
own process tells it where the folder is, and the SHA-256 of the public inputs in it. The worker process reads
these, and computes each piece of work from its address alone, as the run's own process does. What depends on
the records, if anything does, comes from the source of noisy answers, which the caller makes.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadpoolctl import threadpool_limits

from tallyveil.arrays import Integers
from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.files.checks import Part
from tallyveil.files.finished import PLAN, PRIVATE
from tallyveil.files.geography import GEOGRAPHY, NAMES, read_hierarchies
from tallyveil.files.histograms import HISTOGRAM, MICRODATA, histogram_path, read_histogram, write_histogram
from tallyveil.files.tables import TABLES
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource
from tallyveil.measurements.names import FOLDER, measurement_name
from tallyveil.measurements.store import (
    StoredMeasurements,
    n_parts,
    write_measured_part,
    write_support_measurements,
)
from tallyveil.plans.estimating import TREE_VALUES
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraint_files import AGREEMENT, BOUNDS, INVARIANTS, TakenOver, read_kept
from tallyveil.postprocess.constraints import ConstraintTable, with_implied_bounds
from tallyveil.postprocess.families.chunk_files import UNSOLVED, ChunkFolders
from tallyveil.postprocess.families.level import (
    FAMILIES,
    FamilyBuilder,
    KeepMeasurements,
    LevelOutcome,
    estimate_level,
    family_chunks,
    n_families,
)
from tallyveil.postprocess.families.tree_values import (
    SWEEP,
    TreeSweep,
    TreeValues,
    prepared_sweep,
    sweep_chunks,
    swept_values,
)
from tallyveil.postprocess.measured import read_constraints
from tallyveil.postprocess.other_releases import RESIDENTS
from tallyveil.postprocess.passes.exact_groups import FirstGroups, first_groups
from tallyveil.postprocess.passes.groups import FixedGroups
from tallyveil.postprocess.publish import (
    CHECKS,
    FinalChecks,
    microdata_chunks,
    publish,
    published_sizes,
    table_chunks,
    write_labels,
)
from tallyveil.runs.executor import Chunks, Executor, Site
from tallyveil.runs.folder import CLUSTER
from tallyveil.runs.observer import Observer, SilentObserver, Stopwatch
from tallyveil.runs.product import Run
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import await_file, made_with_patience

if TYPE_CHECKING:
    from tallyveil.postprocess.passes.driver import TreePasses

MEASURE: Final = "measure"
"""Name in addresses of the writing of noisy answers."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """What the manifest states about an estimation.

    Attributes:
        sizes: Sizes of the published files.
        solver: For each geolevel, how its families were solved.
    """

    sizes: dict[str, Any]
    solver: dict[str, Any]


@dataclass(slots=True)
class Estimation:
    """The work of one process on measurements. Everything that must last is in the run folder.

    Attributes:
        plan: How counts are estimated, and what is written.
        hierarchies: The spine and the areas off the spine.
        allocation: The share of the budget of each geounit.
        source: Source of the noisy answers.
        constraints: Every constraint of the release.
        observer: Receives reports of progress.
        watch: Times the stages.
        tree: The sweep up the spine, if the plan asks for it.
        taken_over: What is taken over from finished releases.
        groups: The groups of the first outer pass before the spend, if the plan has outer passes.
        stored: The measurements of an earlier run, whose files are copied; None for a run that measures.
        records: What each finished stage contributes to the manifest, by its name.
    """

    plan: StatedPlan
    hierarchies: Hierarchies
    allocation: Allocation
    source: MeasurementSource
    constraints: tuple[ConstraintTable, ...]
    observer: Observer
    watch: Stopwatch
    tree: TreeSweep | None = None
    taken_over: TakenOver = field(default_factory=TakenOver)
    groups: FirstGroups | None = None
    stored: StoredMeasurements | None = None
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    _bounding: tuple[ConstraintTable, ...] = field(init=False)
    _values: TreeValues | None = field(init=False, default=None)
    _measured: FixedGroups | None = field(init=False, default=None)
    _parts: list[Part] = field(init=False, default_factory=list)  # of the checks, once the counts are made

    def __post_init__(self) -> None:
        # The groups of outer passes were held to all constraints; nothing else is needed of these.
        self._bounding = (
            () if self.plan.outer else with_implied_bounds(self.constraints, self.spine, self.plan.schema)
        )

    @property
    def spine(self) -> Spine:
        """The spine that is measured."""
        return self.hierarchies.spine

    def write_measurements(self, run: Run) -> None:
        """Write the queries that the plan publishes with all their noisy answers, and the names of all answers."""
        if self.plan.measurements == "none":
            return
        for level, geolevel in enumerate(self.spine.geolevels):
            written = self.plan.written(geolevel, self.spine.n_geounits(level))
            if written:
                self._write_level(run, level, written)
        write_labels(run, self.plan, self.spine)

    def release(self, run: Run) -> Estimated:
        """Estimate every geolevel, and publish what follows from the counts.

        Raises:
            ConstraintError, SolverError: a family cannot be solved.
            StoreError: a file cannot be written or read.
        """
        passes = self._passes()
        # One BLAS thread: with more, the order of summation depends on the machine (docs/decisions/0001).
        with threadpool_limits(limits=1, user_api="blas"):
            # Counts of every geolevel stay in memory from here on; tables and checks need all of them.
            counts = self._by_geolevel(run) if passes is None else passes.release(run)
        publish(run, self.plan, self.hierarchies, counts, partial(self._stage, run))
        # Parts of the checks are cut by sizes of files, which this process knows from its counts.
        self._parts = self.final_checks.parts(counts) if run.executor.is_remote else []
        return Estimated(published_sizes(counts), self._solver() if passes is None else passes.solver())

    def _by_geolevel(self, run: Run) -> list[PublicCounts]:
        """Estimate geolevel by geolevel, each from the one above."""
        counts: list[PublicCounts] = []
        for level in range(self.spine.n_levels):
            counts.append(self._estimate(run, level, counts))
        run.make([UNSOLVED], lambda: None)  # families that stopped an earlier attempt are solved now
        return counts

    def _passes(self) -> "TreePasses | None":
        """The outer passes of the plan, if it has some."""
        if self.groups is None:
            return None
        # Here, since few plans have outer passes.
        from tallyveil.postprocess.passes.driver import TreePasses
        from tallyveil.postprocess.passes.measured_kinds import measured_groups

        # Once in a process, also in a worker process, which asks for the passes of every piece of work.
        if self._measured is None:
            self._measured = measured_groups(self.groups, self.plan, self.allocation, self.source)
        return TreePasses(
            plan=self.plan,
            allocation=self.allocation,
            source=self.source,
            groups=self._measured,
            taken_over=self.taken_over,
            observer=self.observer,
            watch=self.watch,
            records=self.records,
        )

    def _write_level(self, run: Run, level: int, queries: Sequence[str]) -> None:
        """Write a geolevel, one query at a time. A finished query is kept if the run is interrupted."""
        geolevel = self.spine.geolevels[level]
        name = f"measure {geolevel}" if self.stored is None else f"copy measurements of {geolevel}"
        groups = [self.plan.query(query) for query in queries]
        # Answers, not rows: what the observer sees does not depend on how a query is divided into files.
        total = sum(group.size for group in groups) * self.spine.n_geounits(level)
        with self.watch.stage(name, total):
            for group in groups:
                place = measurement_name(geolevel, group.name)
                work = partial(self._write_query, run, geolevel, group)
                run.stage(f"{name} / {group.name}", [place], work)

    def _write_query(self, run: Run, geolevel: str, group: QueryGroup) -> dict[str, Any]:
        # In the folder of an estimate by an earlier version, files name the run of the estimate. They are written anew.
        if self.stored is not None and self.stored.copy(run.path, geolevel, group.name, run.spender):
            self.observer.advanced(group.size * self.spine.n_geounits(self.spine.level_index(geolevel)))
            return {}
        chunks = self._measuring(ChunkFolders(run.path, tags=run.tags), geolevel, group)
        parts = range(n_parts(self.spine, geolevel, group))
        for _, finished in run.executor.completed(chunks, parts):
            self.observer.advanced(finished)
        return {}

    def _measuring(self, folders: ChunkFolders, geolevel: str, group: QueryGroup) -> Chunks[int]:
        """The writing of a query's noisy answers as chunks, one for each part."""

        def write(part: int) -> int:
            root, tags = folders.root(part), folders.tags
            return write_measured_part(root, self.source, self.spine, geolevel, group, part, tags)

        return folders.chunks({"work": MEASURE, "geolevel": geolevel, "query": group.name}, int, write)

    def chunks(self, folders: ChunkFolders, address: JsonObject) -> Chunks[Any]:
        """The work of an address from the files of earlier stages, for a process that does not hold their results.

        Args:
            folders: The release folder, with what the run has written before this work, and where the chunks write.
            address: As in the chunks that the run's own process gives to its executor.
        Raises:
            StoreError: a file of an earlier stage cannot be read.
        """
        if address["work"] in (TABLES, MICRODATA):
            return self._publishing(folders, address["work"])
        if address["work"] == CHECKS:
            return self.final_checks.chunks(folders, address)
        if address["work"] == MEASURE:
            return self._measuring(folders, address["geolevel"], self.plan.query(address["query"]))
        if address["work"] == SWEEP and self.tree is not None:
            return sweep_chunks(self.tree, self.source)[0]
        passes = self._passes()
        if passes is not None:
            return passes.chunks(folders, address)
        level = self.spine.level_index(address["geolevel"])
        above = self._read_counts(folders, level - 1)
        builder = self._builder(level)
        keep = self._keeper(folders, builder)
        if address["work"] == FAMILIES:
            # Sums of the tree come from the file that the run's own process shares; here the sweep is not made again.
            builder = replace(builder, tree=self._shared_values(folders, level))
            chunks = family_chunks(builder, above, keep, folders)[0]
        else:
            # Here, since few plans have a model of the finest geolevel.
            from tallyveil.postprocess.families.block_allocation import BlockAllocation, shared_model

            allocation = BlockAllocation(builder, above, self._read_counts(folders, level - 2))
            chunks = allocation.chunks(shared_model(folders), keep, folders)[0]
        return chunks

    def _publishing(self, folders: ChunkFolders, work: str) -> Chunks[int]:
        """The writing of microdata or tables, from the published counts."""
        if work == MICRODATA:
            finest = self._read_counts(folders, self.spine.finest)
            return microdata_chunks(folders, self.plan, self.spine, finest)[0]
        counts = [self._read_counts(folders, level) for level in range(self.spine.n_levels)]
        return table_chunks(folders, self.plan, self.hierarchies, counts)[0]

    def _read_counts(self, folders: ChunkFolders, level: int) -> PublicCounts:
        return read_histogram(folders.finished, self.spine.geolevels[level], self.plan.schema, self.spine)

    def _builder(self, level: int) -> FamilyBuilder:
        """The families of a geolevel, fitted to their own noisy answers."""
        geolevel = self.spine.geolevels[level]
        return FamilyBuilder(
            plan=self.plan,
            allocation=self.allocation,
            level=level,
            source=self.source,
            constraints=self._bounding,
            queries=tuple(
                layer
                for name in self.plan.strategy.queries(geolevel)
                for layer in self.plan.query(name).layers
            ),
            rounding=tuple(
                tuple(self.plan.query(name) for name in stage)
                for stage in self.plan.estimation_of(geolevel).rounding
            ),
        )

    def _estimate(self, run: Run, level: int, above: Sequence[PublicCounts]) -> PublicCounts:
        geolevel = self.spine.geolevels[level]
        # Files of the support belong to the stage of the counts: both are written by one pass over the chunks.
        places = [f"{HISTOGRAM}/{histogram_path(run.path, geolevel).name}"]
        if self.plan.measurements == "support" and level > 0:
            places += [measurement_name(geolevel, name) for name in self.plan.strategy.queries(geolevel)]
        # What this process has made it need not read back.
        held: list[PublicCounts] = []

        def estimate() -> dict[str, Any]:
            tree = self._tree_values(geolevel, run.executor)
            if tree is not None:
                run.executor.share(_tree_file(level), partial(tree.save, level))
            outcome = self._estimated(run, replace(self._builder(level), tree=tree), above)
            held.append(outcome.counts)
            # Values of a geolevel are needed only while it is estimated, and are the largest arrays of a run.
            if self._values is not None and level < self.spine.finest:
                self._values.forget(level)
            values = {} if tree is None else {"values": tree.name}
            return {"solver": {**outcome.solver, **values}}

        name = f"estimate {geolevel}"
        self.records[name] = run.stage(name, places, estimate)
        return held[0] if held else read_histogram(run.path, geolevel, self.plan.schema, self.spine)

    def _tree_values(self, geolevel: str, executor: Executor) -> TreeValues | None:
        """What the families of a geolevel are fitted to; None for their noisy answers. The sweep is made once."""
        if self.tree is None or self.plan.estimation_of(geolevel).values == "own":
            return None
        # Lazily, so that plans without the tree, and runs resumed after it, make no sweep.
        if self._values is None:
            n_above = sum(self.spine.n_geounits(level) for level in range(self.spine.finest))
            with self.watch.stage(TREE_VALUES, n_above):
                self._values = swept_values(self.tree, self.source, self.observer, executor)
        return self._values

    def _shared_values(self, folders: ChunkFolders, level: int) -> TreeValues | None:
        """As `_tree_values`, from the file in which the run's own process shares them."""
        if self.tree is None or self.plan.estimation_of(self.spine.geolevels[level]).values == "own":
            return None
        values = TreeValues(self.tree.sweep, self.tree.name)
        values.load(level, folders.shared(_tree_file(level)))
        return values

    def _estimated(self, run: Run, builder: FamilyBuilder, above: Sequence[PublicCounts]) -> LevelOutcome:
        folders = ChunkFolders(run.path, tags=run.tags)
        keep = self._keeper(folders, builder)
        allocates = self.plan.allocates and builder.level == self.spine.finest
        # The histogram belongs to the timed stage, for writing it takes a noticeable part of it.
        with self.watch.stage(f"estimate {builder.geolevel}", n_families(builder)):
            if allocates:
                # Here, since few plans have a model of the finest geolevel.
                from tallyveil.postprocess.families.block_allocation import BlockAllocation

                allocation = BlockAllocation(builder, above[-1], above[-2])
                outcome = allocation.estimated(self.observer, run.executor, keep, folders)
            else:
                outcome = estimate_level(
                    builder,
                    above[-1] if above else None,
                    self.observer,
                    executor=run.executor,
                    keep=keep,
                    folders=folders,
                )
            write_histogram(run.path, outcome.counts, self.plan.schema, self.spine, run.tags)
        return outcome

    def _keeper(self, folders: ChunkFolders, builder: FamilyBuilder) -> KeepMeasurements | None:
        """A function that writes the measurements of a chunk under its number; None if the plan publishes none."""
        if self.plan.measurements != "support":
            return None

        def keep(number: int, wanted: FamilyAnswers, values: Integers) -> None:
            variances = builder.variances(int(wanted.child_begin[0]), int(wanted.child_begin[-1]))
            # From inside a chunk, and so from several threads; each chunk writes files of its own number.
            root = folders.root(number)
            write_support_measurements(root, number, wanted, values, variances, self.spine, folders.tags)

        return keep

    def _stage(self, run: Run, name: str, place: str, total: int, work: Callable[[], Iterable[int]]) -> None:
        def timed() -> dict[str, Any]:
            with self.watch.stage(name, total):
                for finished in work():
                    self.observer.advanced(finished)
            return {}

        # Under another name than in earlier versions: a run that one of them began makes its tables in today's form.
        run.stage(f"{name}, a column for each attribute", [place], timed)

    def _solver(self) -> dict[str, Any]:
        """By geolevel, how families were solved."""
        solvers: Iterator[tuple[str, dict[str, Any]]] = (
            (stage.removeprefix("estimate "), record)
            for stage, record in self.records.items()
            if "solver" in record
        )
        return {geolevel: record["solver"] for geolevel, record in solvers}

    @property
    def final_checks(self) -> FinalChecks:
        """What the published files are held to."""
        known = None if self.groups is None else self.groups.known
        return FinalChecks(self.plan, self.hierarchies, self.constraints, self.taken_over, known)

    def check(self, run: Run) -> list[str]:
        """Read the published files back and verify them; returns the names of the checks."""
        final_checks = self.final_checks
        if run.executor.is_remote:
            with self.watch.stage(CHECKS, len(self._parts) + final_checks.has_limits):
                return final_checks.elsewhere(run, self._parts, lambda _: self.observer.advanced(1))
        with self.watch.stage(CHECKS, self.spine.n_levels):
            checks = final_checks.here(run.path, run.executor.threads)
            self.observer.advanced(self.spine.n_levels)
        return checks


def _tree_file(level: int) -> str:
    """Name of the file with the values of the tree of a geolevel."""
    return f"tree-{level}"


READ: Final = (PLAN, GEOGRAPHY, NAMES, BOUNDS, INVARIANTS, AGREEMENT, RESIDENTS, FOLDER)
"""Files and folders of a release that a worker process reads before its first work."""
SHARED: Final = "shared"
STAGED: Final = "staged"

SourceOf = Callable[[Schema, Hierarchies, Allocation], MeasurementSource]


def described(run: Run) -> JsonObject:
    """What worker processes are told of a run; everybody may know it.

    Args:
        run: The run. Its public inputs, and what it drew on a lattice, are written.
    """
    files = {file.path: file.sha256 for file in run.listed() if file.path.split("/", maxsplit=1)[0] in READ}
    return {"release": str(run.path.absolute()), "tags": run.tags, "files": files}


def estimating_site(run: Run, measurements: Path, digests: Mapping[str, str]) -> Site:
    """How worker processes open a run that estimates counts from published measurements.

    Args:
        run: The run, with its public inputs written.
        measurements: The folder of the measurements; it has the same path on every machine.
        digests: SHA-256 of its files.
    """
    source = {"measurements": str(measurements.absolute()), "digests": dict(digests)}
    # By module and name, so that no function has to travel.
    opener = f"{open_estimate.__module__}:{open_estimate.__name__}"
    return Site(opener, {**described(run), **source}, b"", run.secrets.files_key)


def open_estimate(description: JsonObject, secret: bytes) -> "OpenedRun":
    """Open a run that estimates counts from published measurements; the secret is empty."""

    def stored(schema: Schema, hierarchies: Hierarchies, allocation: Allocation) -> StoredMeasurements:
        root = Path(description["measurements"])
        # Checked against these digests whenever a part is read.
        return StoredMeasurements(root, allocation.spine, hierarchies.shares, description["digests"])

    return opened_run(description, stored)


@dataclass(slots=True)
class OpenedRun:
    """A run in a worker process. It does one piece of work after the other.

    Attributes:
        estimation: The work of the run, made from its public files.
        folders: Where the work writes.
    """

    estimation: Estimation
    folders: ChunkFolders
    _last: tuple[str, Chunks[Any]] | None = field(default=None)

    def chunks(self, address: JsonObject) -> Chunks[Any]:
        """The work of an address.

        Raises:
            StoreError: a file that it reads is missing or damaged, also after some seconds.
        """
        name = json.dumps(address, sort_keys=True)
        if self._last is None or self._last[0] != name:
            # Before the new work is made: both together may not fit into the memory of a worker process.
            self._last = None  # frees what it holds
            self._last = name, made_with_patience(lambda: self.estimation.chunks(self.folders, address))
        return self._last[1]


def opened_run(description: JsonObject, source_of: SourceOf) -> OpenedRun:
    """Open a run from the public files of its folder.

    Args:
        description: As `described`.
        source_of: Makes the source of noisy answers.
    Raises:
        StoreError: a file is missing, or is not what the run wrote.
    """
    root = Path(description["release"])
    # Another machine may see files of a shared file system late, so each is waited for.
    for name, digest in description["files"].items():
        await_file(root / name, digest)
    plan = json.loads((root / PLAN).read_text(encoding="utf-8"))
    # The same reading and the same checks as in the run's own process, so that both make the same work.
    stated = stated_plan(root / PLAN, plan)
    hierarchies = read_hierarchies(root)
    spine, schema = hierarchies.spine, stated.schema
    allocation = allocation_of(stated.strategy, spine, hierarchies.shares)
    constraints = read_constraints(root, plan, schema, hierarchies)
    taken_over = read_kept(root, plan, schema, spine)
    outer = stated.outer
    estimation = Estimation(
        plan=stated,
        hierarchies=hierarchies,
        allocation=allocation,
        source=source_of(schema, hierarchies, allocation),
        constraints=constraints,
        observer=SilentObserver(),
        watch=Stopwatch(SilentObserver()),
        tree=prepared_sweep(stated, hierarchies, constraints),
        taken_over=taken_over,
        groups=first_groups(stated, constraints, taken_over, spine) if outer else None,
    )
    private = root / PRIVATE / CLUSTER
    # Inside the private folder: staged files are not yet files of the release.
    (private / STAGED).mkdir(mode=0o700, parents=True, exist_ok=True)
    # A folder for each process, since two may do the same chunk.
    staged = Path(tempfile.mkdtemp(dir=private / STAGED))
    return OpenedRun(estimation, ChunkFolders(root, staged, description["tags"], private / SHARED))
