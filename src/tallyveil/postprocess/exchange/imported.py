"""The job of `tallyveil measurements import`: make a folder of measurements from files that others published."""

from dataclasses import dataclass
from pathlib import Path

from tallyveil.accounting.events import TEST_KEY
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry, whole_ledger
from tallyveil.errors import StoreError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.measurements.layouts.census_2020.answers import copy_answers
from tallyveil.measurements.store import measurement_name
from tallyveil.plans.guarantee import privacy_of
from tallyveil.postprocess.exchange.opened import PublishedMeasurements
from tallyveil.postprocess.public_inputs import check_public_inputs, write_public_inputs
from tallyveil.postprocess.publish import write_labels
from tallyveil.runs.earlier import Earlier, public_secrets
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.log import RunLog
from tallyveil.runs.observer import Observer
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run, Work
from tallyveil.runs.stopwatch import Stopwatch
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import refuse_inputs, refuse_output_inside

_TOKEN = "release"


def import_measurements(
    published: PublishedMeasurements, out: Path, *, observer: Observer | None = None
) -> Outcome:
    """Make a folder of measurements from published files, or resume an interrupted import.

    The folder is one that `postprocess.measured.open_measurements` opens, as if `tallyveil measure` had made it.

    Args:
        published: The files, opened.
        out: Folder of the measurements: absent, empty, or with an unfinished import of the same files.
        observer: Receives reports of progress.
    Raises:
        SchemaError: noisy answers are incomplete or damaged.
        StoreError: the folder cannot be used, or a file cannot be read or written.
    Privacy: post-processing of published measurements. The ledger of the folder shows what measuring has cost.
    """
    outcome = run_product(Import(published), out, observer=observer, draws=False)
    # The same plan can be imported from other files; the digests of the files tell the two apart.
    if outcome.manifest.body.get("imported") != published.imported:
        raise StoreError(
            f"{out} holds finished measurements on the same plan from other files. Choose another folder.",
            code="folder-taken",
        )
    return outcome


@dataclass(frozen=True, slots=True, eq=False)
class Import:
    """Measurements that are made from published files."""

    published: PublishedMeasurements

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return self.published.plan.digest().hex()

    def refuse(self, out: Path) -> None:
        """Refuse an output folder that contains an input or is inside the folder of the files; raises StoreError."""
        root = self.published.files.root
        refuse_inputs(out, [root, *self.published.inputs])
        refuse_output_inside(out, root)

    def read(self, out: Path, observer: Observer) -> Work:
        """The work; the files are open already."""
        published = self.published
        privacy = privacy_of(published.plan.terms, published.settings.allocation)
        return _Import(published, privacy, observer, Stopwatch(observer))


@dataclass(frozen=True, slots=True, eq=False)
class _Import:
    """The work of one process on an import."""

    published: PublishedMeasurements
    privacy: JsonObject
    observer: Observer
    watch: Stopwatch

    def job(self) -> Job:
        """The files that identify the import, and the ledger of a run that would have drawn them."""
        published = self.published
        plan = published.plan
        event = plan.event(published.settings.allocation.event())
        declaration = Declaration(plan.strategy.budget_unit, plan.declared, plan.strategy.neighbours)
        binding, whole_plan = binding_of(b"import", published.digest()), plan.digest()
        protected = published.files.protected
        # The folder's own name stands for the run of the publisher, which is not known.
        run = public_secrets(Earlier("", b"", protected), binding, whole_plan).run_id
        # The cost is computed here from the event, and not taken from the publisher.
        cost = declaration.cost_of(event)
        description = f"measurements of {plan.name}, published by others and imported"
        # A test key of the publisher is entered as in a run of ours, so that the mark follows every estimate.
        acts = [] if protected else [_test_key(run)]
        spend = LedgerEntry(len(acts) + 1, "spend", event, cost, description, f"{run} {_TOKEN}", run)
        ledger = whole_ledger(declaration, [*acts, spend], run)
        return Job(
            kind=ReleaseKind.MEASUREMENTS,
            plan_digest=whole_plan.hex(),
            whole_plan=whole_plan,
            binding=binding,
            declaration=declaration,
            event=event,
            privacy=self.privacy,
            description=description,
            token=_TOKEN,
            earlier=Earlier(run, ledger, protected),
        )

    def release(self, run: Run) -> JsonObject:
        """Copy what was published; returns the body of the manifest."""
        published = self.published
        plan = published.plan
        log = RunLog(run.path)
        log.write("resumed" if run.resumed else "started", run=run.run_id, protected=run.secrets.protected)
        self.watch.on_finish(lambda stage: log.write("stage finished", **stage))
        write_public_inputs(run, plan.to_mapping(), published.hierarchies, published.constraints)
        for level in range(published.source.spine.n_levels):
            self._copy(run, level)
        write_labels(run, plan.estimating, published.source.spine)
        return {
            "name": plan.name,
            "plan": plan.to_mapping(),
            "inputs": {"geography_sha256": published.source.spine.digest().hex()},
            "imported": published.imported,
        }

    def check(self, run: Run) -> list[str]:
        """Look at the source once more, and compare the public files with what was written."""
        # Copying takes hours, and the files may have changed meanwhile.
        self.published.files.require_unchanged()
        plan = self.published.plan
        spine, constraints = self.published.source.spine, self.published.constraints
        checks = [check_public_inputs(run.path, plan.to_mapping(), plan.schema, spine, constraints)]
        RunLog(run.path).write("finished", run=run.run_id)
        return checks

    def performance(self) -> list[JsonObject]:
        """Seconds and memory of the stages of this process."""
        return self.watch.stages

    def _copy(self, run: Run, level: int) -> None:
        """Copy the noisy answers of a geolevel. A finished geolevel is kept if the import is interrupted."""
        published = self.published
        geolevel = published.source.spine.geolevels[level]
        queries = published.plan.strategy.queries(geolevel)
        measured = int(published.source.measured[level].sum())
        total = measured * sum(published.plan.query(query).size for query in queries)

        def copy() -> JsonObject:
            with self.watch.stage(f"import {geolevel}", total):
                for done in copy_answers(
                    published.files,
                    published.source,
                    published.settings,
                    published.plan.schema,
                    level,
                    run.path,
                    run.tags,
                ):
                    self.observer.advanced(done)
            return {}

        run.stage(f"import {geolevel}", [measurement_name(geolevel, query) for query in queries], copy)


def _test_key(run: str) -> LedgerEntry:
    """The act of a run with a test key, in the words of such a run."""
    return LedgerEntry(
        1, "declassify", TEST_KEY, None, "run with an insecure test key", f"{run} test key", run
    )
