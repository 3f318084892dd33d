"""The job of `tallyveil estimate`: a release from published measurements, anywhere, without the records."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tallyveil.measurements.store import drawn_name
from tallyveil.plan.estimating import EstimationPlan, GeolevelEstimation
from tallyveil.postprocess.estimation import Estimation
from tallyveil.postprocess.intervals import add_planned_intervals
from tallyveil.postprocess.lattice_measurements import drawn_items, read_drawn, write_drawn
from tallyveil.postprocess.level import usable_cores
from tallyveil.postprocess.measured import Measured
from tallyveil.postprocess.public_inputs import write_public_inputs
from tallyveil.postprocess.warm_up import compile_kernels
from tallyveil.release.estimated import require_own_kind
from tallyveil.release.manifest import ReleaseKind, make_manifest, written_manifest
from tallyveil.run.key_file import binding_of
from tallyveil.run.log import RunLog
from tallyveil.run.observer import Observer, SilentObserver
from tallyveil.run.once import Job, Outcome, Run, finished_before, run_once
from tallyveil.run.stopwatch import Stopwatch
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.outputs import refuse_inputs

LevelEstimation = tuple[tuple[str, GeolevelEstimation], ...]


def estimate_release(
    measured: Measured,
    out: Path,
    estimation: LevelEstimation | None = None,
    *,
    observer: Observer | None = None,
    workers: int | None = None,
) -> Outcome:
    """Make a release of measurements, or go on with one that was interrupted.

    Args:
        measured: The measurements, opened.
        out: Release folder; absent, empty, or holding an unfinished estimate of these measurements with these settings.
        estimation: How each geolevel is estimated; None for what the plan of the measurements says.
        observer: Told of progress.
        workers: Threads to estimate with; None for one a core. The release does not depend on it.
    Raises:
        StoreError: the folder cannot be used, or a file cannot be read or written.
        ConstraintError, SolverError: a family cannot be solved.
    Privacy: post-processing. No record is read and nothing is spent.
    """
    refuse_inputs(out, [measured.root])
    plan = measured.plan if estimation is None else replace(measured.plan, estimation=estimation)
    work = _Estimate.of(measured, plan, observer or SilentObserver(), workers or usable_cores())
    outcome = finished_before(out, work.plan_digest)
    if outcome is None:
        with work.watch.stage("compile kernels"):
            compile_kernels()
        outcome = run_once(out, work.job(), work.release)
    require_own_kind(out, outcome.manifest, ReleaseKind.TOPDOWN, measured.estimated_from)
    add_planned_intervals(plan.intervals, out, observer, workers)
    return replace(outcome, manifest=written_manifest(out))


@dataclass(frozen=True, slots=True, eq=False)
class _Estimate:
    """One process's work on a release that is estimated from measurements."""

    measured: Measured
    plan: EstimationPlan
    stated: dict[str, Any]
    observer: Observer
    watch: Stopwatch
    workers: int

    @classmethod
    def of(cls, measured: Measured, plan: EstimationPlan, observer: Observer, workers: int) -> "_Estimate":
        """The work, with the plan that it writes: that of the measurements, estimated as is now asked."""
        estimation = {level: item.to_mapping() for level, item in plan.estimation}
        stated = {**measured.manifest["plan"], "estimation": estimation}
        return cls(measured, plan, stated, observer, Stopwatch(observer), workers)

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return digest_of(self.stated).hex()

    def job(self) -> Job:
        """What the run is bound to: the files of the measurements, and how they are estimated."""
        return Job(
            plan_digest=self.plan_digest,
            whole_plan=bytes.fromhex(self.plan_digest),
            binding=binding_of(b"estimate", self.measured.digest()),
            declaration=self.measured.declaration,
            event=self.measured.spend.event,
            description=self.measured.spend.description,
            token="release",
            earlier=self.measured.earlier,
        )

    def release(self, run: Run) -> dict[str, Any]:
        """Copy what is public, estimate, publish, check; returns the manifest."""
        measured = self.measured
        log = RunLog(run.path)
        log.write("resumed" if run.resumed else "started", run=run.run_id, protected=run.secrets.protected)
        self.watch.on_finish(lambda stage: log.write("stage finished", **stage))
        write_public_inputs(run, self.stated, measured.hierarchies, measured.constraints)
        self._write_drawn(run)
        estimation = Estimation(
            plan=self.plan,
            hierarchies=measured.hierarchies,
            allocation=measured.allocation,
            source=measured.source,
            constraints=measured.constraints,
            observer=self.observer,
            watch=self.watch,
            workers=self.workers,
            writing="copy measurements of",
        )
        estimation.write_measurements(run)
        estimated = estimation.release(run)
        manifest = make_manifest(
            root=run.path,
            files=run.files(),
            plan=self.stated,
            plan_digest=self.plan_digest,
            privacy=measured.manifest["privacy"],
            event=measured.manifest["event"],
            run_id=run.run_id,
            protected=run.secrets.protected,
            inputs=measured.manifest["inputs"],
            spine=measured.manifest.get("spine"),
            drawn=measured.manifest.get("drawn", ()),
            estimated_from=measured.estimated_from,
            sizes=estimated.sizes,
            solver=estimated.solver,
            checks=estimated.checks,
            stages=estimation.timed(("compile kernels",)),
        )
        log.write("finished", run=run.run_id)
        return manifest

    def _write_drawn(self, run: Run) -> None:
        """Copy the counts that were drawn on a lattice."""
        schema, spine = self.plan.schema, self.measured.hierarchies.spine
        items = drawn_items(self.stated)

        def write() -> None:
            for item in items:
                noisy = read_drawn(self.measured.root, item, schema, spine)
                write_drawn(run.path, item, schema, spine, noisy, run.tags)

        run.make([drawn_name(item.geolevel, item.query) for item in items], write)
