"""The release of one table with exact invariants: plan, table, spend, noise, checks on the written file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tallyveil
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.arrays import Integers
from tallyveil.confidential.subspace_table import (
    ConfidentialTable,
    check_stated_totals,
    keeps_invariants,
    read_confidential_table,
    release_table,
)
from tallyveil.errors import ConfigError, SolverError
from tallyveil.execution.topdown.lattice_record import noise_record
from tallyveil.plan.table import SubspacePlan
from tallyveil.release.manifest import MANIFEST_FORMAT, protection
from tallyveil.run.folder import PLAN
from tallyveil.run.key_file import binding_of
from tallyveil.run.observer import Observer, SilentObserver
from tallyveil.run.once import Job, Run, finished_before, run_once
from tallyveil.run.stopwatch import Stopwatch
from tallyveil.storage.outputs import refuse_inputs
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.storage.write import TEMPORARY_SUFFIX, write_file, write_json, write_parquet
from tallyveil.subspace.nearest import require_pairs
from tallyveil.subspace.noise_plan import NoisePlan, guarantee_record, plan_noise
from tallyveil.subspace.table import cell_labels

TABLE = "table.parquet"
TABLE_CSV = "table.csv"
DRAWS = "draws.parquet"


@dataclass(frozen=True, slots=True)
class SubspaceOutcome:
    """What a release left behind.

    Attributes:
        path: The folder.
        manifest: Content of `manifest.json`.
        noise: What drew the noise; None where the folder was finished before.
        already_finished: True when the folder held this release, and nothing was done.
    """

    path: Path
    manifest: dict[str, Any]
    noise: NoisePlan | None
    already_finished: bool


def noise_of(plan: SubspacePlan, observer: Observer | None = None) -> NoisePlan:
    """How the noise of a plan is drawn; without data.

    Raises:
        BudgetError: no two tables that agree on the invariants are as near as the plan's distance.
    """
    lattice = plan.lattice()
    require_pairs(lattice, plan.law, plan.distance)
    return plan_noise(lattice, plan.law, plan.wish, plan.chain, observer)


def run_subspace(
    plan: SubspacePlan,
    out: Path,
    *,
    draws: int = 0,
    test_key: bytes | None = None,
    observer: Observer | None = None,
) -> SubspaceOutcome:
    """Release one table, or go on with a release that was interrupted.

    Args:
        plan: What to do.
        out: Folder; absent, empty, or holding an unfinished run of this very plan and table.
        draws: More noise vectors to write, for simulations; only with a test key.
        test_key: Key of a release that protects nobody, for tests; None for a key from the operating system.
        observer: Told of progress.
    Raises:
        TallyveilError: nothing is spent before plan, chain and table are checked.
    Privacy: spends `plan.cost` once, however often the run is interrupted and taken up again.
    """
    if draws and test_key is None:
        raise ConfigError(
            f"{draws} repeated draws were asked for without a test key. Every draw of a real run would have to be paid "
            "for, and the noise of none of them may be shown; for a simulation give --insecure-test-key TEXT.",
            code="subspace-draws",
        )
    digest = plan.digest().hex()
    outcome = finished_before(out, digest)
    if outcome is not None:
        return SubspaceOutcome(out, outcome.manifest, None, already_finished=True)
    refuse_inputs(out, [plan.table.path])
    refuse_long_paths(out, [DRAWS, "diagnostics/total-variation.csv"], TEMPORARY_SUFFIX)
    watch = Stopwatch(observer or SilentObserver())
    noise = noise_of(plan, observer)
    guarantee = guarantee_record(noise, plan.distance, plan.delta, plan.neighbours)
    with watch.stage("read table"):
        columns = dict(plan.table.columns)
        table = read_confidential_table(
            plan.table.path, count=plan.table.count, columns=columns, schema=plan.schema
        )
        check_stated_totals(table, plan.constraints)
    job = Job(
        plan_digest=digest,
        whole_plan=plan.digest(),
        binding=binding_of(table.digest(), plan.digest()),
        declaration=Declaration(plan.budget_unit, plan.declared, plan.neighbours),
        event=plan.event(noise),
        description=plan.description(noise),
        token="release",
        test_key=test_key,
    )
    work = _Work(plan, noise, guarantee, table, draws, watch)
    outcome = run_once(out, job, work.release)
    return SubspaceOutcome(
        out, outcome.manifest, None if outcome.already_finished else noise, outcome.already_finished
    )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Work:
    """Everything checked, and nothing drawn. Holds the confidential table."""

    plan: SubspacePlan
    noise: NoisePlan
    guarantee: dict[str, object]
    table: ConfidentialTable
    draws: int
    watch: Stopwatch

    def __repr__(self) -> str:
        return "_Work(<redacted>)"

    def release(self, run: Run) -> dict[str, Any]:
        """Draw, write, check; returns the manifest."""
        plan, noise, system = self.plan, self.noise, self.plan.constraints.system
        run.make([PLAN], lambda: write_json(run.path / PLAN, plan.to_mapping()))

        def write_table() -> dict[str, Any]:
            vector = noise.draw(run.secrets.noise_key, range(1))[0]
            _write_table(run.path, plan, release_table(self.table, vector, system), run.tags)
            return {}

        def write_draws() -> dict[str, Any]:
            if self.draws:
                _write_draws(run, plan, noise, self.draws)
            return {}

        with self.watch.stage("draw and write"):
            run.stage("table", [TABLE, TABLE_CSV], write_table)
            run.stage(f"{self.draws} draws", [DRAWS], write_draws)
        with self.watch.stage("checks"):
            checks = _checks(run.path, plan, noise, self.table)
        return self._manifest(run, checks)

    def _manifest(self, run: Run, checks: list[str]) -> dict[str, Any]:
        digests, plan = run.files(), self.plan
        return {
            "format": MANIFEST_FORMAT,
            "kind": "integer-subspace",
            "name": plan.name,
            "run": run.run_id,
            **protection(protected=run.secrets.protected),
            "plan": {**plan.to_mapping(), "spent": str(run.spent)},
            "plan_digest": plan.digest().hex(),
            "privacy": self.guarantee,
            "event": plan.event(self.noise).to_mapping(),
            "noise": noise_record(self.noise),
            "inputs": {"table_keyed_hash": run.secrets.commitment(self.table.digest())},
            "checks": [{"check": check, "passed": True} for check in checks],
            "files": [
                {"path": path, "bytes": (run.path / path).stat().st_size, "sha256": digests[path]}
                for path in (TABLE, TABLE_CSV, DRAWS)
                if path in digests
            ],
            "versions": {"tallyveil": tallyveil.__version__},
            "performance": self.watch.stages,
        }


def _frame(plan: SubspacePlan, values: Integers, name: str) -> pl.DataFrame:
    labels = cell_labels(plan.schema)
    columns = {a: [label[a] for label in labels] for a in plan.schema.attribute_names}
    return pl.DataFrame({**columns, name: values})


def _write_table(out: Path, plan: SubspacePlan, noisy: Integers, tags: dict[str, str]) -> None:
    frame = _frame(plan, noisy, "count")
    write_parquet(out / TABLE, frame, tags)
    write_file(out / TABLE_CSV, frame.write_csv)


def _write_draws(run: Run, plan: SubspacePlan, noise: NoisePlan, draws: int) -> None:
    """Noise alone, of the draws after the released one; it tells nothing of the table."""
    vectors = noise.draw(run.secrets.noise_key, range(1, draws + 1))
    labels = cell_labels(plan.schema)
    columns = {a: [label[a] for label in labels] * draws for a in plan.schema.attribute_names}
    number = np.repeat(np.arange(1, draws + 1), plan.schema.size)
    frame = pl.DataFrame({"draw": number, **columns, "noise": vectors.ravel()})
    write_parquet(run.path / DRAWS, frame, run.tags)


def _checks(out: Path, plan: SubspacePlan, noise: NoisePlan, table: ConfidentialTable) -> list[str]:
    """Read the written files back and hold them to the invariants."""
    written = collect(scan_parquet(out / TABLE), out / TABLE, "table")
    system = plan.constraints.system
    passed = {
        f"all {system.n_constraints} invariants are exact": keeps_invariants(
            table, written["count"].to_numpy(), system
        ),
        "every cell of the table is there once": written.height == plan.schema.size,
    }
    if (out / DRAWS).exists():
        drawn = collect(scan_parquet(out / DRAWS), out / DRAWS, "draws")
        vectors = drawn["noise"].to_numpy().reshape(-1, plan.schema.size)
        passed["every draw of noise leaves the invariants alone"] = noise.lattice.contains(vectors.T)
    for name, holds in passed.items():
        if not holds:
            raise SolverError(
                f"final check failed: {name}. The release must not be published; keep the folder and report this.",
                code="check-failed",
            )
    return list(passed)
