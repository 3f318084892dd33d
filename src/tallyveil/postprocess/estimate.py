"""The job of `tallyveil estimate`: make a release from published measurements, without the records."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tallyveil.declared import mapping_of
from tallyveil.errors import StoreError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.manifest import ReleaseKind
from tallyveil.measurements.names import drawn_name
from tallyveil.plans.estimating import GeolevelEstimation
from tallyveil.plans.fitting import refuse_allocation, refuse_drawn_counts
from tallyveil.plans.guarantee import privacy_of
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.estimation import Estimation, estimating_site
from tallyveil.postprocess.families.lattice_measurements import write_drawn
from tallyveil.postprocess.families.tree_values import prepared_sweep
from tallyveil.postprocess.intervals.job import PlannedIntervals
from tallyveil.postprocess.measured import Measured, write_public_inputs
from tallyveil.postprocess.passes.exact_groups import FirstGroups, first_groups
from tallyveil.postprocess.publish import write_package
from tallyveil.postprocess.warm_up import compile_kernels, compile_tables
from tallyveil.runs.executor import Executors, Threads
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run, Work
from tallyveil.runs.status import Progress
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.outputs import refuse_inputs, refuse_output_inside
from tallyveil.storage.system import usable_cores

LevelEstimation = tuple[tuple[str, GeolevelEstimation], ...]


def estimate_release(
    measured: Measured,
    out: Path,
    estimation: LevelEstimation | None = None,
    *,
    observer: Observer | None = None,
    workers: int | None = None,
    executors: Executors | None = None,
) -> Outcome:
    """Make a release from measurements, or resume an interrupted one.

    Args:
        measured: The measurements, opened.
        out: Release folder: absent, empty, or with an unfinished estimate from the same measurements and settings.
        estimation: How each geolevel is estimated; None for what the plan of the measurements says.
        observer: Receives reports of progress.
        workers: Threads to estimate with; None for one a core. The release does not depend on it.
        executors: What does chunks of the work; None for these threads. The release does not depend on it.
    Raises:
        ConfigError, SchemaError: the values of the tree are asked for, and cannot be computed.
        StoreError: the folder cannot be used, or a file cannot be read or written.
        ConstraintError, SolverError: a family cannot be solved.
    Privacy: post-processing. No record is read and nothing is spent.
    """
    plan = measured.plan if estimation is None else replace(measured.plan, estimation=estimation)
    # Before anything is written: counts drawn on a lattice allow only some ways of estimating.
    refuse_drawn_counts(plan)
    refuse_allocation(plan)
    product = Estimate(measured, plan)
    progress = Progress.of(observer)
    executors = executors or Threads(workers or usable_cores())
    last = PlannedIntervals(plan.intervals, measured.estimated_from, progress, workers, executors)
    return run_product(product, out, observer=progress, last=last, draws=False, executors=executors)


def _refuse_understated(measured: Measured, privacy: JsonObject) -> None:
    """Refuse measurements whose manifest states a smaller epsilon than their noise has.

    Another version may have proved another upper bound. What it proved is never below what is proved here from below.
    """
    stated = measured.manifest.privacy["exact"]["epsilon"]["upper"]
    least = privacy["exact"]["epsilon"]["lower"]
    # Proved bounds of two versions may differ, so only a stated upper bound below our lower bound shows a change.
    if stated < least:
        raise StoreError(
            f"{measured.root / MANIFEST} states epsilon <= {stated!r}, and the ledger beside it shows a spend whose "
            f"epsilon is at least {least!r}. The manifest was changed after the run. Restore the folder from a copy.",
            code="release-damaged",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A release from measurements."""

    measured: Measured
    plan: StatedPlan

    @property
    def stated(self) -> JsonObject:
        """The plan that is written: that of the measurements, with the estimation that is now asked for."""
        # Only the estimation may differ from the plan that was measured; all else is what the ledger paid for.
        estimation = {level: mapping_of(item) for level, item in self.plan.estimation}
        return {**self.measured.manifest.body["plan"], "estimation": estimation}

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return digest_of(self.stated).hex()

    def spend(self) -> None:
        """Nothing: the measurements are paid for."""

    def refuse(self, out: Path) -> None:
        """Refuse an output folder that contains the measurements or is inside their folder; raises StoreError."""
        root = self.measured.root
        refuse_inputs(out, [root])
        refuse_output_inside(out, root)

    def read(self, out: Path, observer: Observer) -> Work:
        """The work; the measurements are open already."""
        watch = Stopwatch(observer)
        with watch.stage("compile kernels"):
            if self.plan.outer:
                compile_tables()
            else:
                compile_kernels(sweeps=self.plan.uses_tree, allocates=self.plan.allocates)
        measured = self.measured
        privacy = privacy_of(
            measured.plan, measured.allocation, imported="imported" in measured.manifest.body
        )
        _refuse_understated(measured, privacy)
        estimation = Estimation(
            plan=self.plan,
            hierarchies=measured.hierarchies,
            allocation=measured.allocation,
            source=measured.source,
            constraints=measured.constraints,
            observer=observer,
            watch=watch,
            tree=prepared_sweep(self.plan, measured.hierarchies, measured.constraints),
            taken_over=measured.taken_over,
            groups=self._groups(),
            stored=measured.source,
        )
        return _Estimate(measured, self.plan, self.stated, privacy, estimation)

    def _groups(self) -> FirstGroups | None:
        """The groups of the first outer pass, if the plan has outer passes."""
        if not self.plan.outer:
            return None
        measured = self.measured
        return first_groups(self.plan, measured.constraints, measured.taken_over, measured.hierarchies.spine)


@dataclass(frozen=True, slots=True, eq=False)
class _Estimate:
    """The work of one process on a release that is estimated from measurements."""

    measured: Measured
    plan: StatedPlan
    stated: JsonObject
    privacy: JsonObject
    estimation: Estimation

    def job(self) -> Job:
        """The inputs that identify the run: the files of the measurements, and how counts are estimated from them."""
        digest = digest_of(self.stated)
        return Job(
            kind=ReleaseKind.TOPDOWN,
            plan_digest=digest.hex(),
            whole_plan=digest,
            # No records are bound in: the run draws nothing, and its inputs are the published files alone.
            binding=binding_of(b"estimate", self.measured.digest()),
            declaration=self.measured.declaration,
            event=self.measured.spend.event,
            privacy=self.privacy,
            description=self.measured.spend.description,
            token="release",
            earlier=self.measured.earlier,
        )

    def release(self, run: Run) -> JsonObject:
        """Copy the public files, estimate and publish; returns the body of the manifest."""
        body, estimation = self.measured.manifest.body, self.estimation
        measured = self.measured
        write_public_inputs(run, self.stated, measured.hierarchies, measured.constraints, measured.taken_over)
        self._write_drawn(run)
        # Worker processes open the public files, so they are told of the run only when these are written.
        run.executor.serve(partial(estimating_site, run, measured.root, measured.manifest.digests))
        estimation.write_measurements(run)
        estimated = estimation.release(run)
        write_package(run, self.stated)
        return {
            "name": body["name"],
            "plan": self.stated,
            "inputs": body["inputs"],
            "estimated_from": self.measured.estimated_from,
            **{
                name: body[name]
                for name in ("spine", "drawn", "agreement", "residents", "imported")
                if name in body
            },
            "sizes": estimated.sizes,
            "solver": estimated.solver,
        }

    def check(self, run: Run) -> list[str]:
        """Read the published files back and verify them."""
        return self.estimation.check(run)

    def _write_drawn(self, run: Run) -> None:
        """Copy the counts that were drawn on a lattice."""
        schema, spine = self.plan.schema, self.measured.hierarchies.spine
        items = self.measured.plan.subspace
        # Their constraints come last, and hold the counts as they were read and checked.
        # Taken from the end, because `read_constraints` puts them last.
        drawn = self.measured.constraints[len(self.measured.constraints) - len(items) :]

        def write() -> None:
            for item, table in zip(items, drawn, strict=True):
                level = spine.level_index(item.geolevel)
                noisy, _ = table.bounds_of(level, 0, spine.n_geounits(level))
                write_drawn(run.path, item, schema, spine, noisy, run.tags)

        run.make([drawn_name(item.geolevel, item.query) for item in items], write)
