"""The job of `tallyveil estimate`: a release from published measurements, anywhere, without the records."""

from dataclasses import dataclass, replace
from pathlib import Path

from tallyveil.measurements.store import drawn_name
from tallyveil.plan.estimating import EstimationPlan, GeolevelEstimation
from tallyveil.postprocess.estimation import Estimation
from tallyveil.postprocess.intervals import add_planned_intervals
from tallyveil.postprocess.lattice_measurements import drawn_items, read_drawn, write_drawn
from tallyveil.postprocess.level import usable_cores
from tallyveil.postprocess.measured import Measured
from tallyveil.postprocess.public_inputs import TOKEN, write_public_inputs
from tallyveil.postprocess.warm_up import compile_kernels
from tallyveil.release.estimated import require_own_kind
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest_files import written_manifest
from tallyveil.run.key_file import binding_of
from tallyveil.run.log import RunLog
from tallyveil.run.observer import Observer
from tallyveil.run.once import run_product
from tallyveil.run.product import Job, Outcome, Run, Work
from tallyveil.run.stopwatch import Stopwatch
from tallyveil.storage.json_files import JsonObject, digest_of
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
    plan = measured.plan if estimation is None else replace(measured.plan, estimation=estimation)
    product = Estimate(measured, plan, workers or usable_cores())
    outcome = run_product(product, out, observer=observer)
    require_own_kind(out, outcome.manifest, ReleaseKind.TOPDOWN, measured.estimated_from)
    add_planned_intervals(plan.intervals, out, observer, workers)
    return replace(outcome, manifest=written_manifest(out))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The release that is estimated from some measurements; `workers` threads estimate."""

    measured: Measured
    plan: EstimationPlan
    workers: int
    kind = ReleaseKind.TOPDOWN

    @property
    def stated(self) -> JsonObject:
        """Content of `plan.json`: the plan of the measurements, estimated as is now asked."""
        estimation = {level: item.to_mapping() for level, item in self.plan.estimation}
        return {**self.measured.manifest.body["plan"], "estimation": estimation}

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return digest_of(self.stated).hex()

    def refuse(self, out: Path) -> None:
        """Refuse a folder in which the measurements are; raises StoreError."""
        refuse_inputs(out, [self.measured.root])

    def read(self, out: Path, observer: Observer) -> Work:
        """Nothing is left to read: the measurements are open. Kernels are compiled."""
        watch, measured = Stopwatch(observer), self.measured
        with watch.stage("compile kernels"):
            compile_kernels()
        estimation = Estimation(
            plan=self.plan,
            hierarchies=measured.hierarchies,
            allocation=measured.allocation,
            source=measured.source,
            constraints=measured.constraints,
            observer=observer,
            watch=watch,
            workers=self.workers,
            writing="copy measurements of",
        )
        return _Work(self, estimation)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """One process's work on a release that is estimated from measurements."""

    product: Estimate
    estimation: Estimation

    def job(self) -> Job:
        """What the run is bound to: the files of the measurements, and how they are estimated."""
        measured, digest = self.product.measured, self.product.plan_digest
        return Job(
            kind=self.product.kind,
            plan_digest=digest,
            whole_plan=bytes.fromhex(digest),
            binding=binding_of(b"estimate", measured.digest()),
            declaration=measured.declaration,
            event=measured.spend.event,
            privacy=measured.manifest.privacy,
            description=measured.spend.description,
            token=TOKEN,
            earlier=measured.earlier,
        )

    def release(self, run: Run) -> JsonObject:
        """Copy what is public, estimate, publish; returns the body of the manifest."""
        measured, stated, watch = self.product.measured, self.product.stated, self.estimation.watch
        log = RunLog(run.path)
        log.write("resumed" if run.resumed else "started", run=run.run_id, protected=run.secrets.protected)
        watch.on_finish(lambda stage: log.write("stage finished", **stage))
        write_public_inputs(run, stated, measured.hierarchies, measured.constraints)
        self._write_drawn(run)
        self.estimation.write_measurements(run)
        estimated = self.estimation.release(run)
        return {
            **measured.manifest.body,
            "plan": stated,
            "estimated_from": measured.estimated_from,
            **estimated,
        }

    def check(self, run: Run) -> list[str]:
        """Read the published files back and verify them."""
        checks = self.estimation.check(run)
        RunLog(run.path).write("finished", run=run.run_id)
        return checks

    def performance(self) -> list[JsonObject]:
        """Seconds and memory of every stage."""
        return self.estimation.timed(("compile kernels",))

    def _write_drawn(self, run: Run) -> None:
        """Copy the counts that were drawn on a lattice."""
        measured, schema = self.product.measured, self.product.plan.schema
        items, spine = drawn_items(self.product.stated), measured.hierarchies.spine

        def write() -> None:
            for item in items:
                noisy = read_drawn(measured.root, item, schema, spine)
                write_drawn(run.path, item, schema, spine, noisy, run.tags)

        run.make([drawn_name(item.geolevel, item.query) for item in items], write)
