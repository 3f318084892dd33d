"""The main job: plan, records, spend, then geolevel by geolevel down to a checked release."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.budget.noise_size import certify_noise
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.measure import Measurer
from tallyveil.execution.topdown.before_spend import refuse_folder, refuse_many_people
from tallyveil.execution.topdown.inputs import read_hierarchies, read_histograms
from tallyveil.execution.topdown.lattice_counts import draw_subspace
from tallyveil.execution.topdown.lattice_record import drawn_record
from tallyveil.execution.topdown.spine_changes import warnings_of
from tallyveil.execution.topdown.spine_record import check_paths, spine_record
from tallyveil.execution.topdown.true_constraints import compile_constraints
from tallyveil.execution.topdown.warm_up import compile_kernels
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.family_answers import FamilyAnswers, MeasurementSource
from tallyveil.measurements.store import (
    drawn_name,
    measurement_name,
    write_measurements,
    write_support_measurements,
)
from tallyveil.noise.source import NoiseSource
from tallyveil.plan.guarantee import guarantee_of
from tallyveil.plan.lattice_draws import SubspaceDraw, prepare_subspace
from tallyveil.plan.release import ReleasePlan
from tallyveil.plan.resources import predict, sizes_of_spine, warn_small_machine
from tallyveil.postprocess.bounds_files import BOUNDS, write_bounds
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.families import FamilyBuilder
from tallyveil.postprocess.interval_model import plan_model
from tallyveil.postprocess.intervals import add_planned_intervals
from tallyveil.postprocess.level import (
    KeepMeasurements,
    LevelOutcome,
    estimate_level,
    n_families,
    usable_cores,
)
from tallyveil.postprocess.publish import publish, published_sizes
from tallyveil.postprocess.unsolved import UNSOLVED
from tallyveil.release.checks import check_release
from tallyveil.release.geography import GEOGRAPHY, write_geography
from tallyveil.release.histograms import HISTOGRAM, histogram_path, read_histogram, write_histogram
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest_files import written_manifest
from tallyveil.run.folder import PLAN, FolderState, folder_state
from tallyveil.run.key_file import binding_of
from tallyveil.run.log import RunLog
from tallyveil.run.observer import Observer
from tallyveil.run.once import run_product
from tallyveil.run.product import Job, Outcome, Run, Work
from tallyveil.run.stopwatch import Stopwatch
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import write_json
from tallyveil.universe.counts import Int64Array, PublicCounts
from tallyveil.universe.query_group import QueryGroup


def run_release(
    plan: ReleasePlan,
    out: Path,
    *,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    workers: int | None = None,
) -> Outcome:
    """Make a release, or go on with one that was interrupted.

    Args:
        plan: What to do.
        out: Release folder; absent, empty, or holding an unfinished run of this very plan and input.
        test_key: Key of a run that protects nobody, for tests; None for a key from the operating system.
        observer: Told of progress.
        workers: Threads to estimate with; None for one a core. The release does not depend on it.
    Raises:
        TallyveilError: see the exception tree; nothing is spent before inputs, constraints and disk are checked.
    Privacy: spends `plan.spent` once, however often the run is interrupted and taken up again.
    """
    product = TopDown(plan, workers or usable_cores())
    outcome = run_product(product, out, test_key=test_key, observer=observer)
    add_planned_intervals(plan, out, observer, workers)
    return replace(outcome, manifest=written_manifest(out))


@dataclass(frozen=True, slots=True)
class TopDown:
    """The release of a plan, geolevel by geolevel; `workers` threads estimate, and the counts do not depend on them."""

    plan: ReleasePlan
    workers: int
    kind = ReleaseKind.TOPDOWN

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return self.plan.digest().hex()

    def refuse(self, out: Path) -> None:
        """Refuse an output folder that the release cannot use; raises StoreError."""
        refuse_folder(self.plan, out)

    def read(self, out: Path, observer: Observer) -> Work:
        """Read and check every input; nothing is written."""
        work = _Release.prepare(self.plan, observer, self.workers)
        if folder_state(out) is FolderState.ABSENT:
            refuse_many_people(self.plan, work.spine, out, work.histograms[0].total)
        return work


@dataclass(slots=True)
class _Release:
    """One process's work on a run; everything lasting is in the run folder."""

    plan: ReleasePlan
    observer: Observer
    watch: Stopwatch
    hierarchies: Hierarchies
    allocation: Allocation
    paths: str
    histograms: tuple[ConfidentialHistogram, ...]
    constraints: tuple[ConstraintTable, ...]
    workers: int
    subspace: tuple[SubspaceDraw, ...]
    geography_digest: bytes
    guarantee: dict[str, Any]
    records_digest: bytes = field(repr=False)  # would confirm a guess of the records
    records: dict[str, dict[str, Any]] = field(default_factory=dict)  # what finished stages tell the manifest
    counts: list[PublicCounts] = field(default_factory=list)

    @classmethod
    def prepare(cls, plan: ReleasePlan, observer: Observer, workers: int) -> "_Release":
        """Read and check every input; nothing is written."""
        watch = Stopwatch(observer)
        with watch.stage("read geography"):
            hierarchies = read_hierarchies(plan)
            spine = hierarchies.spine
            allocation = allocation_of(plan.strategy, spine, hierarchies.shares)
            paths = check_paths(allocation)
            certify_noise(allocation, plan.schema)
            guarantee = guarantee_of(plan, allocation)  # not every event can be accounted for
        for sentence in warnings_of(hierarchies.changes):
            observer.warned(sentence)
        warning = warn_small_machine(predict(plan, sizes_of_spine(spine)))
        if warning is not None:
            observer.warned(warning)
        with watch.stage("read records"):
            histograms = read_histograms(plan, spine)
        with watch.stage("compile constraints"):
            constraints = compile_constraints(plan, spine, histograms)
            if plan.intervals is not None:  # refuses zeros that intervals could not keep
                plan_model(plan, spine)
            subspace = prepare_subspace(plan, spine)
        with watch.stage("compile kernels"):  # a minute on the first run of all; bad input is told before it
            compile_kernels()
        return cls(
            plan,
            observer,
            watch,
            hierarchies,
            allocation,
            paths,
            histograms,
            constraints,
            workers,
            subspace,
            geography_digest=spine.digest(),
            guarantee=guarantee,
            records_digest=histograms[-1].digest(),
        )

    @property
    def spine(self) -> Spine:
        """The spine that is measured."""
        return self.hierarchies.spine

    def job(self) -> Job:
        """What the run is bound to, and what it spends."""
        strategy = self.plan.strategy
        return Job(
            kind=ReleaseKind.TOPDOWN,
            plan_digest=self.plan.digest().hex(),
            whole_plan=self._published_digest(),
            binding=binding_of(
                self.records_digest,
                self.geography_digest,
                self.plan.measuring_digest(),
                *(table.digest() for table in self.constraints),
            ),
            declaration=Declaration(strategy.budget_unit, self.plan.declared, strategy.neighbours),
            event=self.plan.event(self.allocation.event()),
            privacy={**self.guarantee, "paths": self.paths},
            description=f"release {self.plan.name}",
            token="release",
        )

    def release(self, run: Run) -> JsonObject:
        """Measure, estimate, publish; returns the body of the manifest."""
        log = RunLog(run.path)
        log.write("resumed" if run.resumed else "started", run=run.run_id, protected=run.secrets.protected)
        self.watch.on_finish(lambda stage: log.write("stage finished", **stage))
        self._write_inputs(run)
        noise = NoiseSource(run.secrets.noise_key)
        measurer = Measurer(self.histograms, self.plan.schema, self.allocation, noise)
        self._draw(run)
        for level in range(self.spine.n_levels):
            # of a root's families the support is every cell, so that what is kept of it is everything
            if self.plan.measurements == "full" or (self.plan.measurements == "support" and level == 0):
                self._measure(run, level, measurer)
            above = self.counts[-1] if self.counts else None
            self.counts.append(self._estimate(run, level, measurer, above))
        run.make([UNSOLVED], lambda: None)  # families that stopped an earlier try are solved now
        publish(run, self.plan, self.hierarchies, self.counts, partial(self._stage, run))
        return self._body(run)

    def check(self, run: Run) -> list[str]:
        """Read the published files back and verify them."""
        with self.watch.stage("checks", len(self.counts)):
            checks = check_release(
                run.path,
                self.plan.schema,
                self.spine,
                self.plan.tables,
                [(table.name, table.query, table.lower, table.upper) for table in self.constraints],
                microdata=self.plan.microdata,
                areas=(*self.hierarchies.replaced, *map(self.hierarchies.family, self.plan.entities)),
            )
            self.observer.advanced(len(self.counts))
        RunLog(run.path).write("finished", run=run.run_id)
        return checks

    def performance(self) -> list[JsonObject]:
        """Seconds and memory of every stage, also of those that an earlier process did."""
        performance = {item["stage"]: item for item in self.watch.stages}
        performance |= {stage: record["performance"] for stage, record in self.records.items()}
        return [performance[stage] for stage in _timed_stages(self.spine) if stage in performance]

    def _write_inputs(self, run: Run) -> None:
        """Publish the plan and what is public of the inputs."""

        def write() -> None:
            write_json(run.path / PLAN, self.plan.to_mapping())
            write_geography(run.path, self.hierarchies, run.tags)
            for number, (bounds, table) in enumerate(zip(self.plan.bounds, self._bounds(), strict=True)):
                write_bounds(run.path, number, bounds, table, self.spine, run.tags)

        run.make([PLAN, GEOGRAPHY, BOUNDS], write)

    def _draw(self, run: Run) -> None:
        """Draw the counts that stay fixed; from here on they are constraints."""
        drawing = self.plan.schema, self.spine, self.histograms, run.secrets.noise_key
        places = [drawn_name(draw.item.geolevel, draw.item.query) for draw in self.subspace]
        drawn = run.make(places, lambda: draw_subspace(self.subspace, *drawing, run.path, run.tags))
        self.constraints += drawn

    def _published_digest(self) -> bytes:
        """Digest of the plan and of the areas beside the spine: those change what is written, but not the noise."""
        families = [family.digest() for family in self.hierarchies.families]
        return binding_of(self.plan.digest(), *families) if families else self.plan.digest()

    def _bounds(self) -> tuple[ConstraintTable, ...]:
        """The public ones among the constraints."""
        first = len(self.plan.invariants)
        return self.constraints[first : first + len(self.plan.bounds)]

    def _measure(self, run: Run, level: int, source: MeasurementSource) -> None:
        """Measure a geolevel, a query at a time: each is kept by itself when the run is interrupted."""
        geolevel = self.spine.geolevels[level]
        groups = [self.plan.query(query) for query in self.plan.strategy.queries(geolevel)]
        total = sum(group.size for group in groups) * self.spine.n_geounits(level)
        with self.watch.stage(f"measure {geolevel}", total):
            for group in groups:
                place = measurement_name(geolevel, group.name)
                work = partial(self._write_measurements, run, geolevel, group, source)
                run.stage(f"measure {geolevel} / {group.name}", [place], work)

    def _write_measurements(
        self, run: Run, geolevel: str, group: QueryGroup, source: MeasurementSource
    ) -> dict[str, Any]:
        for finished in write_measurements(run.path, source, self.spine, geolevel, group, run.tags):
            self.observer.advanced(finished)
        return {}

    def _estimate(
        self, run: Run, level: int, source: MeasurementSource, above: PublicCounts | None
    ) -> PublicCounts:
        geolevel = self.spine.geolevels[level]
        builder = FamilyBuilder(
            plan=self.plan,
            allocation=self.allocation,
            level=level,
            source=source,
            constraints=self.constraints,
            queries=tuple(self.plan.query(name) for name in self.plan.strategy.queries(geolevel)),
            rounding=tuple(
                tuple(self.plan.query(name) for name in stage)
                for stage in self.plan.estimation_of(geolevel).rounding
            ),
        )
        places = [f"{HISTOGRAM}/{histogram_path(run.path, geolevel).name}"]
        if self.plan.measurements == "support" and level > 0:
            places += [measurement_name(geolevel, group.name) for group in builder.queries]
        made: list[PublicCounts] = []  # what is made here need not be read back

        def estimate() -> dict[str, Any]:
            outcome = self._estimated(run, builder, above)
            made.append(outcome.counts)
            return {"performance": self.watch.stages[-1], "solver": outcome.solver}

        name = f"estimate {geolevel}"
        self.records[name] = run.stage(name, places, estimate)
        return made[0] if made else read_histogram(run.path, geolevel, self.plan.schema, self.spine)

    def _estimated(self, run: Run, builder: FamilyBuilder, above: PublicCounts | None) -> LevelOutcome:
        with self.watch.stage(f"estimate {builder.geolevel}", n_families(builder)):
            keep = None if self.plan.measurements != "support" else self._keeper(run, builder)
            outcome = estimate_level(
                builder,
                above,
                self.observer,
                workers=self.workers,
                keep=keep,
                unsolved=run.path / UNSOLVED,
            )
            write_histogram(run.path, outcome.counts, self.plan.schema, self.spine, run.tags)
        return outcome

    def _keeper(self, run: Run, builder: FamilyBuilder) -> KeepMeasurements:
        """Writes the measurements of a chunk, under the chunk's number."""
        tags = run.tags

        def keep(number: int, wanted: FamilyAnswers, values: Int64Array) -> None:
            variances = builder.variances(int(wanted.child_begin[0]), int(wanted.child_begin[-1]))
            write_support_measurements(run.path, number, wanted, values, variances, self.spine, tags)

        return keep

    def _stage(self, run: Run, name: str, place: str, total: int, work: Callable[[], Iterable[int]]) -> None:
        def timed() -> dict[str, Any]:
            with self.watch.stage(name, total):
                for finished in work():
                    self.observer.advanced(finished)
            return {"performance": self.watch.stages[-1]}

        self.records[name] = run.stage(name, [place], timed)

    def _body(self, run: Run) -> JsonObject:
        """What only this product says in the manifest."""
        spine = spine_record(self.plan, self.hierarchies)
        drawn = [drawn_record(self.plan, draw) for draw in self.subspace]
        return {
            "name": self.plan.name,
            "plan": self.plan.to_mapping(),
            "inputs": {
                # A plain hash would confirm a guess of the records; the key of this one is gone when the run ends.
                "records_keyed_hash": run.secrets.commitment(self.records_digest),
                "geography_sha256": self.geography_digest.hex(),
            },
            **({} if spine is None else {"spine": spine}),
            **({"drawn": drawn} if drawn else {}),
            "sizes": published_sizes(self.counts),
            "solver": {
                stage.removeprefix("estimate "): record["solver"]
                for stage, record in self.records.items()
                if "solver" in record
            },
        }


def _timed_stages(spine: Spine) -> list[str]:
    by_level = [name for level in spine.geolevels for name in (f"measure {level}", f"estimate {level}")]
    read = ["compile kernels", "read geography", "read records", "compile constraints"]
    return [*read, *by_level, "microdata", "tables", "checks"]
