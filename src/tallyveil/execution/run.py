"""The main job: plan, records, spend, then geolevel by geolevel down to a checked release."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tallyveil.accounting.events import NonPrivateEvent
from tallyveil.accounting.ledger import Ledger
from tallyveil.accounting.ledger_lines import Declaration
from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.budget.noise_size import certify_noise
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.measure import Measurer
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.execution.before_spend import refuse_folder, refuse_many_people
from tallyveil.execution.bounds_files import write_bounds
from tallyveil.execution.constraints import ConstraintTable, compile_constraints
from tallyveil.execution.families import FamilyBuilder
from tallyveil.execution.guarantee import guarantee_of
from tallyveil.execution.inputs import read_hierarchies, read_histograms
from tallyveil.execution.interval_model import plan_model
from tallyveil.execution.intervals import add_planned_intervals
from tallyveil.execution.level import KeepMeasurements, estimate_level, n_families, usable_cores
from tallyveil.execution.observer import Observer, SilentObserver
from tallyveil.execution.plan import ReleasePlan
from tallyveil.execution.publish import publish, published_sizes
from tallyveil.execution.resources import predict, sizes_of_spine, warn_small_machine
from tallyveil.execution.run_folder import (
    LEDGER,
    MANIFEST,
    PLAN,
    FolderState,
    RunFolder,
    RunSecrets,
    binding_of,
    folder_state,
)
from tallyveil.execution.run_log import RunLog
from tallyveil.execution.spine_record import check_paths, spine_record
from tallyveil.execution.stopwatch import Stopwatch
from tallyveil.execution.subspace_counts import SubspaceDraw, draw_subspace, prepare_subspace
from tallyveil.execution.subspace_record import drawn_record
from tallyveil.execution.unsolved import UNSOLVED
from tallyveil.execution.warm_up import compile_kernels
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.family_answers import FamilyAnswers, MeasurementSource
from tallyveil.measurements.store import (
    write_measurements,
    write_support_measurements,
)
from tallyveil.noise.source import NoiseSource
from tallyveil.release.checks import check_release
from tallyveil.release.geography import write_geography
from tallyveil.release.histograms import read_histogram, write_histogram
from tallyveil.release.manifest import make_manifest
from tallyveil.storage.paths import file_name
from tallyveil.storage.write import write_json
from tallyveil.universe.counts import Int64Array, PublicCounts


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run left behind.

    Attributes:
        path: The release folder.
        manifest: Content of `manifest.json`.
        already_finished: True when the folder held this release before the run, and nothing was done.
    """

    path: Path
    manifest: dict[str, Any]
    already_finished: bool


def run_release(
    plan: ReleasePlan,
    out: Path,
    *,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    workers: int | None = None,
) -> RunOutcome:
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
    state = folder_state(out)
    if state is FolderState.FOREIGN:
        raise StoreError(
            f"{out} holds files that are no Tallyveil run. Choose a new or empty folder with --out.",
            code="folder-taken",
        )
    if state is FolderState.FINISHED:
        outcome = _already_finished(plan, out)
        add_planned_intervals(plan, out, observer, workers)
        return outcome
    refuse_folder(plan, out)
    run = _Run.prepare(plan, observer or SilentObserver(), workers or usable_cores())
    if state is FolderState.ABSENT:
        refuse_many_people(plan, run.spine, out, run.histograms[0].total)
    with RunFolder(out) as folder:
        run.release(folder, test_key)
    add_planned_intervals(plan, out, observer, workers)
    return RunOutcome(out, json.loads((out / MANIFEST).read_text()), already_finished=False)


def _already_finished(plan: ReleasePlan, out: Path) -> RunOutcome:
    """The finished release of this plan; a run killed while removing its key ends here too."""
    manifest = json.loads((out / MANIFEST).read_text())
    if manifest["plan_digest"] != plan.digest().hex():
        raise StoreError(
            f"{out} holds a finished release of another plan ('{manifest['name']}'). Choose another folder.",
            code="folder-taken",
        )
    with_private = RunFolder(out)
    if with_private.private.exists():
        with with_private:
            with_private.remove_private()
    return RunOutcome(out, manifest, already_finished=True)


@dataclass(slots=True)
class _Run:
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

    @classmethod
    def prepare(cls, plan: ReleasePlan, observer: Observer, workers: int) -> "_Run":
        """Read and check every input; nothing is written."""
        watch = Stopwatch(observer)
        with watch.stage("read geography"):
            hierarchies = read_hierarchies(plan)
            spine = hierarchies.spine
            allocation = allocation_of(plan.strategy, spine, hierarchies.shares)
            paths = check_paths(allocation)
            certify_noise(allocation, plan.schema)
            guarantee = guarantee_of(plan, allocation)  # not every event can be accounted for
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

    def release(self, folder: RunFolder, test_key: bytes | None) -> None:
        """Spend, measure, estimate, publish, check."""
        resumed = (folder.path / LEDGER).exists()
        secrets = self._spend(folder, test_key)
        log = RunLog(folder.path)
        log.write("resumed" if resumed else "started", run=secrets.run_id, private=secrets.private)
        self.watch.on_finish(lambda stage: log.write("stage finished", **stage))
        tags = secrets.file_tags()
        noise = NoiseSource(secrets.noise_key)
        measurer = Measurer(self.histograms, self.plan.schema, self.allocation, noise)
        drawing = self.plan.schema, self.spine, self.histograms, secrets.noise_key
        self.constraints += draw_subspace(self.subspace, *drawing, folder.path, tags)
        counts: list[PublicCounts] = []
        for level in range(self.spine.n_levels):
            # of a root's families the support is every cell, so that what is kept of it is everything
            if self.plan.measurements == "full" or (self.plan.measurements == "support" and level == 0):
                self._measure(folder, level, measurer, tags)
            counts.append(self._estimate(folder, level, measurer, counts[-1] if counts else None, tags))
        publish(folder.path, self.plan, self.hierarchies, counts, tags, partial(self._stage, folder))
        manifest = self._manifest(folder, secrets, counts)
        log.write("finished", run=secrets.run_id)
        write_json(folder.path / MANIFEST, manifest)
        folder.remove_private()

    def _spend(self, folder: RunFolder, test_key: bytes | None) -> RunSecrets:
        """Take or make the key, and write the spend into the ledger before the first draw."""
        binding = binding_of(
            self.records_digest,
            self.geography_digest,
            self.plan.measuring_digest(),
            *(table.digest() for table in self.constraints),
        )
        fresh = not (folder.path / LEDGER).exists()
        try:
            secrets = folder.secrets(binding, self._published_digest(), test_key)
            self._enter_ledger(folder.path / LEDGER, secrets)
        except TallyveilError:
            if fresh:
                (folder.path / LEDGER).unlink(missing_ok=True)
                folder.abandon()
            raise
        write_json(folder.path / PLAN, self.plan.to_mapping())
        write_geography(folder.path, self.hierarchies, secrets.file_tags())
        for number, (bounds, table) in enumerate(zip(self.plan.bounds, self._bounds(), strict=True)):
            write_bounds(folder.path, number, bounds, table, self.spine, secrets.file_tags())
        return secrets

    def _published_digest(self) -> bytes:
        """Digest of the plan and of the areas beside the spine: those change what is written, but not the noise."""
        families = [family.digest() for family in self.hierarchies.families]
        return binding_of(self.plan.digest(), *families) if families else self.plan.digest()

    def _bounds(self) -> tuple[ConstraintTable, ...]:
        """The public ones among the constraints."""
        first = len(self.plan.invariants)
        return self.constraints[first : first + len(self.plan.bounds)]

    def _enter_ledger(self, path: Path, secrets: RunSecrets) -> None:
        strategy = self.plan.strategy
        declaration = Declaration(strategy.budget_unit, self.plan.declared, strategy.neighbours)
        with Ledger(path, declaration, secrets.run_id) as ledger:
            if not secrets.private:
                ledger.declassify(
                    NonPrivateEvent("insecure test key: anybody can recompute the noise"),
                    description="run with an insecure test key",
                    token=f"{secrets.run_id} test key",
                )
            event = self.plan.event(self.allocation.event())
            ledger.spend(event, description=f"release {self.plan.name}", token=f"{secrets.run_id} release")

    def _measure(
        self, folder: RunFolder, level: int, source: MeasurementSource, tags: dict[str, str]
    ) -> None:
        geolevel = self.spine.geolevels[level]
        name = f"measure {geolevel}"
        if folder.checkpoint(_stage_file(name)) is not None:
            return
        groups = [self.plan.query(query) for query in self.plan.strategy.queries(geolevel)]
        total = sum(group.size for group in groups) * self.spine.n_geounits(level)
        with self.watch.stage(name, total):
            for group in groups:
                for finished in write_measurements(folder.path, source, self.spine, geolevel, group, tags):
                    self.observer.advanced(finished)
        folder.finish_stage(_stage_file(name), {"performance": self.watch.stages[-1]})

    def _estimate(
        self,
        folder: RunFolder,
        level: int,
        source: MeasurementSource,
        above: PublicCounts | None,
        tags: dict[str, str],
    ) -> PublicCounts:
        geolevel = self.spine.geolevels[level]
        name = f"estimate {geolevel}"
        if folder.checkpoint(_stage_file(name)) is not None:
            return read_histogram(folder.path, geolevel, self.plan.schema, self.spine)
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
        with self.watch.stage(name, n_families(builder)):
            keep = None if self.plan.measurements != "support" else self._keeper(folder, builder, tags)
            outcome = estimate_level(
                builder,
                above,
                self.observer,
                workers=self.workers,
                keep=keep,
                unsolved=folder.path / UNSOLVED,
            )
            write_histogram(folder.path, outcome.counts, self.plan.schema, self.spine, tags)
        folder.finish_stage(
            _stage_file(name), {"performance": self.watch.stages[-1], "solver": outcome.solver}
        )
        return outcome.counts

    def _keeper(self, folder: RunFolder, builder: FamilyBuilder, tags: dict[str, str]) -> KeepMeasurements:
        """Writes the measurements of a chunk, under the chunk's number."""

        def keep(number: int, wanted: FamilyAnswers, values: Int64Array) -> None:
            variances = builder.variances(int(wanted.child_begin[0]), int(wanted.child_begin[-1]))
            write_support_measurements(folder.path, number, wanted, values, variances, self.spine, tags)

        return keep

    def _stage(self, folder: RunFolder, name: str, total: int, work: Callable[[], Iterable[int]]) -> None:
        if folder.checkpoint(_stage_file(name)) is not None:
            return
        with self.watch.stage(name, total):
            for finished in work():
                self.observer.advanced(finished)
        folder.finish_stage(_stage_file(name), {"performance": self.watch.stages[-1]})

    def _manifest(self, folder: RunFolder, secrets: RunSecrets, counts: list[PublicCounts]) -> dict[str, Any]:
        with self.watch.stage("checks", len(counts)):
            checks = check_release(
                folder.path,
                self.plan.schema,
                self.spine,
                self.plan.tables,
                [(table.name, table.query, table.lower, table.upper) for table in self.constraints],
                microdata=self.plan.microdata,
                areas=(*self.hierarchies.replaced, *map(self.hierarchies.family, self.plan.entities)),
            )
            self.observer.advanced(len(counts))
        stored = {
            stage: record
            for stage in _stage_names(self.spine)
            if (record := folder.checkpoint(_stage_file(stage))) is not None
        }
        performance = {item["stage"]: item for item in self.watch.stages}
        performance |= {stage: record["performance"] for stage, record in stored.items()}
        return make_manifest(
            root=folder.path,
            plan=self.plan.to_mapping(),
            plan_digest=self.plan.digest().hex(),
            privacy={**self.guarantee, "paths": self.paths},
            event=self.plan.event(self.allocation.event()).to_mapping(),
            run_id=secrets.run_id,
            private=secrets.private,
            input_commitment=secrets.commitment(self.records_digest),
            geography_digest=self.geography_digest.hex(),
            spine=spine_record(self.plan, self.hierarchies),
            drawn=[drawn_record(self.plan, draw) for draw in self.subspace],
            sizes=published_sizes(counts),
            solver={
                stage.removeprefix("estimate "): record["solver"]
                for stage, record in stored.items()
                if "solver" in record
            },
            checks=checks,
            stages=[performance[stage] for stage in _timed_stages(self.spine) if stage in performance],
        )


def _stage_names(spine: Spine) -> list[str]:
    """Stages that are kept when a run is interrupted after them."""
    by_level = [name for level in spine.geolevels for name in (f"measure {level}", f"estimate {level}")]
    return [*by_level, "microdata", "tables"]


def _timed_stages(spine: Spine) -> list[str]:
    return [
        "compile kernels",
        "read geography",
        "read records",
        "compile constraints",
        *_stage_names(spine),
        "checks",
    ]


def _stage_file(name: str) -> str:
    return file_name(name)
