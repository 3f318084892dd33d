"""The release of one table with exact invariants: plan, table, spend, noise, checks on the written file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.accounting.events import NonPrivateEvent
from tallyveil.accounting.ledger import Ledger
from tallyveil.accounting.ledger_lines import Declaration
from tallyveil.confidential.subspace_table import (
    ConfidentialTable,
    check_stated_totals,
    keeps_invariants,
    read_confidential_table,
    release_table,
)
from tallyveil.errors import ConfigError, SolverError, StoreError, TallyveilError
from tallyveil.execution.observer import Observer, SilentObserver
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
from tallyveil.execution.stopwatch import Stopwatch
from tallyveil.execution.subspace_plan import SubspacePlan
from tallyveil.execution.subspace_record import noise_record
from tallyveil.storage.outputs import refuse_inputs
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.storage.write import TEMPORARY_SUFFIX, file_digest, write_file, write_json, write_parquet
from tallyveil.subspace.noise_plan import NoisePlan, guarantee_record, plan_noise
from tallyveil.subspace.table import cell_labels
from tallyveil.universe.counts import Int64Array

TABLE = "table.parquet"
TABLE_CSV = "table.csv"
DRAWS = "draws.parquet"
TEST_KEY_WARNING = "Made with an insecure test key: this release protects nobody and must not be published."


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
    """How the noise of a plan is drawn; without data."""
    return plan_noise(plan.lattice(), plan.law, plan.wish, plan.chain, observer)


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
    state = folder_state(out)
    if state is FolderState.FOREIGN:
        raise StoreError(
            f"{out} holds files that are no Tallyveil run. Choose a new folder.", code="folder-taken"
        )
    if state is FolderState.FINISHED:
        return _already_finished(plan, out)
    refuse_inputs(out, [plan.table.path])
    refuse_long_paths(out, [DRAWS, "diagnostics/total-variation.csv"], TEMPORARY_SUFFIX)
    watch = Stopwatch(observer or SilentObserver())
    noise = noise_of(plan, observer)
    guarantee = guarantee_record(noise, plan.distance, plan.delta)
    with watch.stage("read table"):
        columns = dict(plan.table.columns)
        table = read_confidential_table(
            plan.table.path, count=plan.table.count, columns=columns, schema=plan.schema
        )
        check_stated_totals(table, plan.constraints)
    with RunFolder(out) as folder:
        secrets = _spend(folder, plan, noise, table, test_key)
        with watch.stage("draw and write"):
            vector = noise.draw(secrets.noise_key, range(1))[0]
            _write_table(out, plan, release_table(table, vector, plan.constraints.system), secrets)
            if draws:
                _write_draws(out, plan, noise, secrets, draws)
        with watch.stage("checks"):
            checks = _checks(out, plan, noise, table)
        manifest = _manifest(out, plan, noise, guarantee, secrets, table, checks, watch)
        write_json(out / MANIFEST, manifest)
        folder.remove_private()
    return SubspaceOutcome(out, manifest, noise, already_finished=False)


def _spend(
    folder: RunFolder, plan: SubspacePlan, noise: NoisePlan, table: ConfidentialTable, test_key: bytes | None
) -> RunSecrets:
    fresh = not (folder.path / LEDGER).exists()
    try:
        secrets = folder.secrets(binding_of(table.digest(), plan.digest()), plan.digest(), test_key)
        declaration = Declaration(plan.budget_unit, plan.declared, plan.neighbours)
        with Ledger(folder.path / LEDGER, declaration, secrets.run_id) as ledger:
            if not secrets.private:
                ledger.declassify(
                    NonPrivateEvent("insecure test key: anybody can recompute the noise"),
                    description="run with an insecure test key",
                    token=f"{secrets.run_id} test key",
                )
            ledger.spend(
                plan.event(noise), description=f"table {plan.name}", token=f"{secrets.run_id} release"
            )
    except TallyveilError:
        if fresh:
            (folder.path / LEDGER).unlink(missing_ok=True)
            folder.abandon()
        raise
    write_json(folder.path / PLAN, plan.to_mapping())
    return secrets


def _frame(plan: SubspacePlan, values: Int64Array, name: str) -> pl.DataFrame:
    labels = cell_labels(plan.schema)
    columns = {a: [label[a] for label in labels] for a in plan.schema.attribute_names}
    return pl.DataFrame({**columns, name: values})


def _write_table(out: Path, plan: SubspacePlan, noisy: Int64Array, secrets: RunSecrets) -> None:
    frame = _frame(plan, noisy, "count")
    write_parquet(out / TABLE, frame, secrets.file_tags())
    write_file(out / TABLE_CSV, frame.write_csv)


def _write_draws(out: Path, plan: SubspacePlan, noise: NoisePlan, secrets: RunSecrets, draws: int) -> None:
    """Noise alone, of the draws after the released one; it tells nothing of the table."""
    vectors = noise.draw(secrets.noise_key, range(1, draws + 1))
    labels = cell_labels(plan.schema)
    columns = {a: [label[a] for label in labels] * draws for a in plan.schema.attribute_names}
    number = np.repeat(np.arange(1, draws + 1), plan.schema.size)
    frame = pl.DataFrame({"draw": number, **columns, "noise": vectors.ravel()})
    write_parquet(out / DRAWS, frame, secrets.file_tags())


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


def _manifest(
    out: Path,
    plan: SubspacePlan,
    noise: NoisePlan,
    guarantee: dict[str, object],
    secrets: RunSecrets,
    table: ConfidentialTable,
    checks: list[str],
    watch: Stopwatch,
) -> dict[str, Any]:
    import tallyveil

    files = [path for path in (out / TABLE, out / TABLE_CSV, out / DRAWS) if path.exists()]
    return {
        "format": 1,
        "kind": "integer-subspace",
        "name": plan.name,
        "run": secrets.run_id,
        "private": secrets.private,
        "warnings": [] if secrets.private else [TEST_KEY_WARNING],
        "plan": plan.to_mapping(),
        "plan_digest": plan.digest().hex(),
        "privacy": guarantee,
        "event": plan.event(noise).to_mapping(),
        "noise": noise_record(noise),
        "inputs": {"table_keyed_hash": secrets.commitment(table.digest())},
        "checks": [{"check": check, "passed": True} for check in checks],
        "files": [
            {"path": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)} for path in files
        ],
        "versions": {"tallyveil": tallyveil.__version__},
        "performance": watch.stages,
    }


def _already_finished(plan: SubspacePlan, out: Path) -> SubspaceOutcome:
    manifest = json.loads((out / MANIFEST).read_text())
    if manifest.get("plan_digest") != plan.digest().hex():
        raise StoreError(
            f"{out} holds a finished release of another plan. Choose another folder.", code="folder-taken"
        )
    folder = RunFolder(out)
    if folder.private.exists():  # a run killed while removing its key
        with folder:
            folder.remove_private()
    return SubspaceOutcome(out, manifest, None, already_finished=True)
