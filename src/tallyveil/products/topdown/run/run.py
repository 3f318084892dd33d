"""The main job: read plan and records, spend, estimate geolevel by geolevel from the root down, check the release."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.accounting.ledger.book import Spend
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.budget.allocation import Allocation
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.measure import Measurer
from tallyveil.errors import ConfigError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import require_own_kind
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.names import drawn_name
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.estimation import Estimation
from tallyveil.postprocess.families.tree_values import TreeSweep
from tallyveil.postprocess.intervals.job import PlannedIntervals
from tallyveil.postprocess.measured import check_public_inputs, write_public_inputs
from tallyveil.postprocess.passes.exact_groups import FirstGroups
from tallyveil.postprocess.publish import write_package
from tallyveil.postprocess.warm_up import compile_kernels, compile_tables
from tallyveil.products.topdown.run.before_spend import refuse_folder, refuse_many_people
from tallyveil.products.topdown.run.on_worker import measuring_site
from tallyveil.products.topdown.run.preparation import prepare, read_inputs
from tallyveil.products.topdown.run.spine_making import spine_record
from tallyveil.runs.executor import Executors, Threads
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run, Work
from tallyveil.runs.status import Progress
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.system import usable_cores

if TYPE_CHECKING:
    from tallyveil.plans.lattice_draws import SubspaceDraw

"""Stages before the spend, as the manifest lists them."""


def run_release(
    plan: ReleasePlan,
    out: Path,
    *,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    workers: int | None = None,
    executors: Executors | None = None,
    book: Path | None = None,
) -> Outcome:
    """Make a release, or resume an interrupted one.

    Args:
        plan: Plan of the release.
        out: Release folder. It does not exist, is empty, or holds an unfinished run of the same plan and inputs.
        test_key: Key for tests; the run then protects nobody. None for a key from the operating system.
        observer: Receives reports of progress.
        workers: Number of threads; None for one per core. The release does not depend on it.
        executors: What does chunks of the work; None for these threads. The release does not depend on it.
        book: The book of the register, into which the spend is entered; None for none.
    Raises:
        TallyveilError: see the exception tree. Nothing is spent before inputs, constraints and disk are checked.
    Privacy: spends `plan.spent` once, however often the run is interrupted and resumed.
    """
    product = TopDownProduct(plan, protected=test_key is None)
    progress = Progress.of(observer)
    executors = executors or Threads(workers or usable_cores())
    # Intervals come after the manifest, under the same lock: they add to a finished release and spend nothing.
    last = PlannedIntervals(plan.intervals, None, progress, workers, executors)
    return run_product(
        product, out, test_key=test_key, observer=progress, last=last, executors=executors, book=book
    )


def measure_release(
    plan: ReleasePlan,
    out: Path,
    *,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    workers: int | None = None,
    executors: Executors | None = None,
    book: Path | None = None,
) -> Outcome:
    """Draw and write only the noisy measurements of a release, or resume such a run.

    The folder then holds all that `postprocess.estimate` needs to make the release, and nothing confidential.

    Args:
        plan: Plan of the release. It must ask for all measurements.
        out: Folder of the measurements. It does not exist, is empty, or holds an unfinished run of the same plan and
            inputs.
        test_key, observer, workers, executors, book: As in `run_release`.
    Raises:
        ConfigError: the plan does not write all measurements, so no release could be estimated from them.
        TallyveilError: as `run_release`.
    Privacy: spends `plan.spent` once, exactly as `run_release` does. Estimating spends nothing more.
    """
    if plan.measurements != "full":
        raise ConfigError(
            f'[outputs] measurements is "{plan.measurements}". `tallyveil measure` must write every noisy answer, '
            "because it is known only after estimation which of them lie on the support of the published counts. "
            'Set it to "full", or make the whole release with `tallyveil run`. Nothing was read or spent.',
            code="measure-full",
        )
    product = TopDownProduct(plan, protected=test_key is None, measuring_alone=True)
    executors = executors or Threads(workers or usable_cores())
    outcome = run_product(product, out, test_key=test_key, observer=observer, executors=executors, book=book)
    require_own_kind(out, outcome.manifest, ReleaseKind.MEASUREMENTS)
    return outcome


@dataclass(frozen=True, slots=True)
class TopDownProduct:
    """The release of a plan, geolevel by geolevel.

    Attributes:
        plan: Plan of the release.
        protected: Whether the release shall protect people: no test key was given.
        measuring_alone: Whether the run stops after the measurements.
    """

    plan: ReleasePlan
    protected: bool
    measuring_alone: bool = False

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return self.plan.digest().hex()

    @property
    def description(self) -> str:
        """What is made, in words."""
        return f"{'measurements of' if self.measuring_alone else 'release'} {self.plan.name}"

    def spend(self) -> Spend:
        """What the release will cost; bypassing geounits, which the spine decides, does not change it."""
        return Spend(self.plan.event(), self.plan.neighbours, self.description)

    def refuse(self, out: Path) -> None:
        """Refuse an output folder that the release cannot use; raises StoreError."""
        refuse_folder(self.plan, out)

    def read(self, out: Path, observer: Observer) -> Work:
        """Read and check every input, and whether the folder can hold the release; nothing is written."""
        work = _Release.with_inputs(self, observer)
        refuse_many_people(self.plan, work.spine, out, work.histograms[0].total)
        return work


@dataclass(slots=True)
class _Release:
    """The work of one process on a run. Everything that must last is in the run folder."""

    plan: ReleasePlan
    observer: Observer
    watch: Stopwatch
    hierarchies: Hierarchies
    allocation: Allocation
    histograms: tuple[ConfidentialHistogram, ...]
    constraints: tuple[ConstraintTable, ...]
    counts_of_others: TakenOver
    taken: dict[str, list[JsonObject]]
    groups: FirstGroups | None
    subspace: tuple["SubspaceDraw", ...]
    geography_digest: bytes
    privacy: dict[str, Any]
    tree: TreeSweep | None
    measuring_alone: bool
    description: str
    records_digest: bytes = field(repr=False)  # would confirm a guess of the records
    estimation: Estimation | None = None  # once the measurements are drawn

    @classmethod
    def with_inputs(cls, product: TopDownProduct, observer: Observer) -> "_Release":
        """Read and check every input; nothing is written."""
        plan, watch = product.plan, Stopwatch(observer)
        inputs = read_inputs(plan, observer, watch, protected=product.protected)
        prepared = prepare(plan, inputs, watch)
        # Takes a minute on the first run; bad inputs have been reported before.
        with watch.stage("compile kernels"):
            if plan.outer:
                compile_tables()
            else:
                compile_kernels(sweeps=prepared.tree is not None, allocates=plan.allocates)
        return cls(
            plan,
            observer,
            watch,
            inputs.public.hierarchies,
            inputs.public.allocation,
            inputs.histograms,
            prepared.constraints,
            inputs.counts_of_others,
            inputs.taken,
            prepared.groups,
            prepared.subspace,
            geography_digest=inputs.public.hierarchies.spine.digest(),
            privacy=inputs.privacy,
            tree=prepared.tree,
            measuring_alone=product.measuring_alone,
            description=product.description,
            records_digest=inputs.records_digest,
        )

    @property
    def spine(self) -> Spine:
        """The spine that is measured."""
        return self.hierarchies.spine

    def job(self) -> Job:
        """The inputs that identify the run, and what it spends. Measuring alone draws the same noise."""
        strategy, published, alone = self.plan.strategy, self._published_digest(), self.measuring_alone
        return Job(
            kind=ReleaseKind.MEASUREMENTS if alone else ReleaseKind.TOPDOWN,
            plan_digest=self.plan.digest().hex(),
            whole_plan=binding_of(b"measurements", published) if alone else published,
            # All that a noisy answer or an exact count depends on. Were it not bound to the key, a resumed run could
            # add the same noise to other counts, and the difference of the two would be exact.
            binding=binding_of(
                self.records_digest,
                self.geography_digest,
                self.plan.measuring_digest(),
                *(table.digest() for table in self.constraints),
                *self.counts_of_others.digests(),
            ),
            declaration=Declaration(strategy.budget_unit, self.plan.declared, strategy.neighbours),
            event=self.plan.event(self.allocation.event()),
            privacy=self.privacy,
            description=self.description,
            token="release",
        )

    def release(self, run: Run) -> JsonObject:
        """Measure, and estimate and publish unless the run stops there; returns the body of the manifest."""
        self.estimation = self._measure(run)
        if self.measuring_alone:
            return self._stated(run)
        estimated = self.estimation.release(run)
        write_package(run, self.plan.to_mapping())
        return {**self._stated(run), "sizes": estimated.sizes, "solver": estimated.solver}

    def check(self, run: Run) -> list[str]:
        """Read the published files back and verify them."""
        if self.measuring_alone or self.estimation is None:
            plan, constraints = self.plan.to_mapping(), self.constraints
            return [
                check_public_inputs(
                    run.path, plan, self.plan.schema, self.spine, constraints, self.counts_of_others
                )
            ]
        return self.estimation.check(run)

    def _measure(self, run: Run) -> Estimation:
        """Draw all noise that the plan writes in full, and publish the measurements with the public inputs.

        Returns:
            The estimation that continues from here. Measurements that are not written are drawn when it needs them.
        """
        write_public_inputs(
            run, self.plan.to_mapping(), self.hierarchies, self.constraints, self.counts_of_others
        )
        # Public inputs are written without the drawn counts, which stand in measurements/ and are read back from there.
        self.constraints += self._draw(run)
        # A closure, called only by executors in other processes: threads never write the encrypted counts.
        run.executor.serve(partial(measuring_site, run, self.histograms))
        estimation = Estimation(
            plan=self.plan,
            hierarchies=self.hierarchies,
            allocation=self.allocation,
            source=Measurer(
                self.histograms, self.plan.schema, self.allocation, NoiseSource(run.secrets.noise_key)
            ),
            constraints=self.constraints,
            observer=self.observer,
            watch=self.watch,
            tree=self.tree,
            taken_over=self.counts_of_others,
            groups=self.groups,
        )
        estimation.write_measurements(run)
        return estimation

    def _draw(self, run: Run) -> tuple[ConstraintTable, ...]:
        """Draw the integer-subspace counts; from here on they are constraints."""
        if not self.subspace:
            return ()
        from tallyveil.products.topdown.run.lattice_counts import draw_subspace

        drawing = self.plan.schema, self.spine, self.histograms, run.secrets.noise_key
        places = [drawn_name(draw.item.geolevel, draw.item.query) for draw in self.subspace]
        return run.make(places, lambda: draw_subspace(self.subspace, *drawing, run.path, run.tags))

    def _published_digest(self) -> bytes:
        """Digest of the plan, of areas off the spine, names and geometry: they change files, not the noise."""
        # These change what is tabulated, not the noise. So they are in the digest of the plan and not in the binding.
        besides = [family.digest() for family in self.hierarchies.families]
        if self.hierarchies.names is not None:
            besides.append(digest_of(self.hierarchies.names.to_dict(as_series=False)))
        if self.hierarchies.geometry is not None:
            besides.append(self.hierarchies.geometry.digest())
        return binding_of(self.plan.digest(), *besides) if besides else self.plan.digest()

    def _stated(self, run: Run) -> JsonObject:
        """The part of the manifest that describes the plan and the inputs."""
        spine = spine_record(self.plan, self.hierarchies)
        drawn = _drawn_records(self.plan, self.subspace)
        return {
            "name": self.plan.name,
            "plan": self.plan.to_mapping(),
            "inputs": {
                # A plain hash could confirm a guess of the records. The key of this one is removed when the run ends.
                "records_keyed_hash": run.secrets.commitment(self.records_digest),
                "geography_sha256": self.geography_digest.hex(),
            },
            **({} if spine is None else {"spine": spine}),
            **({"drawn": drawn} if drawn else {}),
            **self.taken,
        }


def _drawn_records(plan: ReleasePlan, subspace: "tuple[SubspaceDraw, ...]") -> list[JsonObject]:
    """What the manifest says of each draw on a lattice."""
    if not subspace:
        return []
    from tallyveil.products.topdown.run.lattice_counts import drawn_record

    return [drawn_record(plan, draw) for draw in subspace]
