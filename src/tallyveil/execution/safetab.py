"""A SafeTab run: plan, public files, records, spend, then level set by level set to checked tables."""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

import tallyveil
from tallyveil.accounting.events import NonPrivateEvent, PrivacyEvent
from tallyveil.accounting.ledger import Ledger
from tallyveil.accounting.ledger_lines import Declaration
from tallyveil.budget.noise_size import certify_laws
from tallyveil.confidential.safetab_measure import AddressedNoise, GroupMeasurer
from tallyveil.confidential.safetab_records import ConfidentialPersons, read_persons
from tallyveil.errors import StoreError, TallyveilError
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
from tallyveil.noise.source import NoiseSource
from tallyveil.safetab.coterminous import Tabulation, tabulate_all, tabulate_once
from tallyveil.safetab.expected import errors_by_size, expected_errors
from tallyveil.safetab.measurements import GroupSource
from tallyveil.safetab.outputs import check_outputs, require_passed, write_tables
from tallyveil.safetab.plan import NEIGHBOURS, RunPlan, SafetabPlan, read_plan
from tallyveil.safetab.privacy import privacy_of
from tallyveil.safetab.regions import Regions, first_block_in_all, read_regions
from tallyveil.safetab.tables import SetTables
from tallyveil.storage.outputs import refuse_inputs
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.write import TEMPORARY_SUFFIX, file_digest, write_json

logger = logging.getLogger(__name__)

PRIVACY = "privacy.json"
EXPECTED = "expected.json"
DELTA = Fraction(1, 10**10)
"""Epsilon is stated at this delta."""

LONGEST_PATH = "evaluation/household-detail/headers.parquet"
"""No file of a SafeTab run has a longer path in its folder."""

TEST_KEY_WARNING = "Made with an insecure test key: this release protects nobody and must not be published."


@dataclass(frozen=True, slots=True)
class SafetabOutcome:
    """What a SafeTab run left behind.

    Attributes:
        path: The output folder.
        manifest: Content of `manifest.json`.
        already_finished: True when the folder held this run's tables before, and nothing was done.
    """

    path: Path
    manifest: dict[str, Any]
    already_finished: bool


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SafetabInputs:
    """Everything a run reads, checked. Holds confidential records.

    Attributes:
        plan: From the parameter folder.
        regions: The public geography of each run.
        persons: The people of each run. Confidential.
    """

    plan: SafetabPlan
    regions: dict[str, Regions]
    persons: dict[str, ConfidentialPersons]

    def __repr__(self) -> str:
        return f"SafetabInputs(runs={[run.run for run in self.plan.runs]!r}, persons=<redacted>)"


def read_safetab_inputs(params: Path, data: Path) -> SafetabInputs:
    """Read and validate parameters, geography and person records; nothing is written or spent.

    Raises:
        TallyveilError: the first file that breaks its rules, with all that it breaks.
    """
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    return SafetabInputs(plan, regions, read_persons(data, plan.config, plan.files, regions))


def run_safetab(
    params: Path,
    data: Path,
    out: Path,
    *,
    coterminous_once: bool = True,
    test_key: bytes | None = None,
    observer: Observer | None = None,
) -> SafetabOutcome:
    """Tabulate detailed population groups, or go on with a run that was interrupted.

    Args:
        params: Folder of config.json and the four code files.
        data: Folder of person-records and GRF-C.
        out: Output folder; absent, empty, or holding an unfinished run of these very inputs.
        coterminous_once: Measure regions with the same blocks once; else each by itself, as in production.
        test_key: Key of a run that protects nobody, for tests; None for a key from the operating system.
        observer: Told of progress.
    Raises:
        TallyveilError: nothing is spent before all inputs are checked.
    Privacy: spends the config's budgets once, however often the run is interrupted and taken up again
        (`SafetabPlan.event`), under neighbours that add or remove one record.
    """
    state = folder_state(out)
    if state is FolderState.FOREIGN:
        raise StoreError(
            f"{out} holds files that are no Tallyveil run. Choose a new folder.", code="folder-taken"
        )
    refuse_safetab_folder(out, (params, data))
    plan = read_plan(params)
    digest = binding_of(plan.digest(), bytes([coterminous_once]))
    if state is FolderState.FINISHED:
        return already_finished(digest, out)
    watch = Stopwatch(observer or SilentObserver())
    with watch.stage("read geography"):
        regions = read_regions(data, plan.config)
    with watch.stage("read records"):
        persons = read_persons(data, plan.config, plan.files, regions)
    inputs = SafetabInputs(plan, regions, persons)
    certify_laws(
        law for run in plan.runs for one in run.sets for law in (one.stage_1, one.stage_2, one.total_only)
    )
    description = _description_of(plan)  # before the spend, for not every event can be accounted for
    with RunFolder(out) as folder:
        _tabulate(folder, inputs, digest, watch, test_key, once=coterminous_once)
    _write_description(out, *description)
    return SafetabOutcome(out, json.loads((out / MANIFEST).read_text()), already_finished=False)


def tables_of(
    run: RunPlan, plan: SafetabPlan, regions: Regions, source: GroupSource, tabulation: Tabulation
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """T1, T2 and the number of noisy counts of one run, level set by level set.

    Args:
        run: What is measured.
        plan: The plan it belongs to.
        regions: The run's geography.
        source: Where the measurements come from.
        tabulation: Which regions are measured.
    """
    t1, t2, n_counts = [], [], 0
    for one in run.sets:
        tables = SetTables(one, regions, plan.config)
        for part in source.measure(one, tabulation.measured[one.geography, one.level]):
            tables.add(part)
        twins = tabulation.twins[one.geography, one.level]
        t1.append(tables.t1(twins))
        t2.append(tables.t2(twins))
        n_counts += tables.n_counts
        logger.info("%s tabulated", one.name)
    return pl.concat(t1), pl.concat(t2), n_counts


def measurer_of(inputs: SafetabInputs, run: str, noise: AddressedNoise) -> GroupMeasurer:
    """The measurer of one run's people."""
    return GroupMeasurer(inputs.persons[run], inputs.regions[run], noise)


def _tabulate(
    folder: RunFolder,
    inputs: SafetabInputs,
    digest: bytes,
    watch: Stopwatch,
    test_key: bytes | None,
    *,
    once: bool,
) -> None:
    plan, out = inputs.plan, folder.path
    data = [part.digest() for run in plan.runs for part in (inputs.regions[run.run], inputs.persons[run.run])]
    secrets = spend_once(
        folder,
        declaration_of(plan),
        plan.event(),
        "SafeTab tabulation",
        binding_of(digest, *data),
        digest,
        test_key,
    )
    write_json(out / PLAN, plan.to_mapping())
    noise = NoiseSource(secrets.noise_key)
    sizes: dict[str, Any] = {}
    for run in plan.runs:
        regions = inputs.regions[run.run]
        with watch.stage(f"tabulate {run.run}", len(run.sets)):
            tabulation = (tabulate_once if once else tabulate_all)(run.sets, regions)
            t1, t2, n_counts = tables_of(run, plan, regions, measurer_of(inputs, run.run, noise), tabulation)
        with watch.stage(f"write {run.run}"):
            write_tables(out, run.run, t1, t2, secrets.file_tags())
        sizes[run.run] = {
            "noisy_counts": n_counts,
            "groups": {
                one.name: len(regions.ids[one.geography]) * len(one.view.iterations) for one in run.sets
            },
            "coterminous_regions": tabulation.n_twins,
            "stability": _stability_mapping(run, regions),
            "t1_rows": t1.height,
            "t2_rows": t2.height,
        }
    with watch.stage("checks"):
        checks = check_outputs(out, plan)
        require_passed(checks)
    _finish(
        folder, inputs, digest, watch, secrets.run_id, private=secrets.private, sizes=sizes, n=len(checks)
    )


def declaration_of(plan: SafetabPlan) -> Declaration:
    """What a run may spend: the costlier of its runs, since every person is in one of them."""
    return Declaration(plan.budget_unit, max(run.budget for run in plan.runs), NEIGHBOURS)


def spend_once(
    folder: RunFolder,
    declared: Declaration,
    event: PrivacyEvent,
    what: str,
    binding: bytes,
    digest: bytes,
    test_key: bytes | None,
) -> RunSecrets:
    """Take or make the key, and write the spend into the ledger before the first draw.

    Args:
        folder: The run folder.
        declared: What may be spent.
        event: What will be done.
        what: The same in words.
        binding: Digest of all inputs.
        digest: Digest of the plan.
        test_key: As in `run_safetab`.
    """
    path = folder.path / LEDGER
    fresh = not path.exists()
    try:
        secrets = folder.secrets(binding, digest, test_key)
        with Ledger(path, declared, secrets.run_id) as ledger:
            if not secrets.private:
                ledger.declassify(
                    NonPrivateEvent("insecure test key: anybody can recompute the noise"),
                    description="run with an insecure test key",
                    token=f"{secrets.run_id} test key",
                )
            token = f"{secrets.run_id} safetab"
            ledger.spend(event, description=what, token=token)
    except TallyveilError:
        if fresh:
            path.unlink(missing_ok=True)
            folder.abandon()
        raise
    return secrets


def describe_safetab(plan: SafetabPlan, out: Path) -> list[dict[str, Any]]:
    """State what a run guarantees and what its numbers are worth, in `privacy.json` and `expected.json`.

    Args:
        plan: The plan of the run.
        out: Its folder; a file that is there is left as it is.
    Returns:
        The guarantee of each run (US, PR) by every accountant, as `RunPrivacy.to_mapping`.
    """
    if not ((out / EXPECTED).exists() and (out / PRIVACY).exists()):
        _write_description(out, *_description_of(plan))
    stored: list[dict[str, Any]] = json.loads((out / PRIVACY).read_text())
    return stored


def refuse_safetab_folder(out: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output folder in which inputs lie, or whose path is too long; raises StoreError."""
    refuse_inputs(out, inputs)
    refuse_long_paths(out, [LONGEST_PATH], TEMPORARY_SUFFIX)


def _description_of(plan: SafetabPlan) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Contents of `expected.json` and `privacy.json`."""
    details, sizes = expected_errors(plan), errors_by_size(plan)
    expected = {"details": [d.to_mapping() for d in details], "sizes": [s.to_mapping() for s in sizes]}
    return expected, [one.to_mapping() for one in privacy_of(plan, DELTA)]


def _write_description(out: Path, expected: dict[str, Any], privacy: list[dict[str, Any]]) -> None:
    for name, content in ((EXPECTED, expected), (PRIVACY, privacy)):
        if not (out / name).exists():
            write_json(out / name, content)


def _stability_mapping(run: RunPlan, regions: Regions) -> dict[str, Any]:
    """The record that is in as many groups of every set as any can be, and whether there is one."""
    block = first_block_in_all(regions, [one.geography for one in run.sets])
    attained = run.witness is not None and block is not None
    return {
        "attained_by_one_record": attained,
        "race_codes": list(run.witness[0]) if run.witness else None,
        "ethnicity_code": run.witness[1] if run.witness else None,
        "block": None if block is None else f"{block:015d}",
    }


def _finish(
    folder: RunFolder,
    inputs: SafetabInputs,
    digest: bytes,
    watch: Stopwatch,
    run_id: str,
    *,
    private: bool,
    sizes: dict[str, Any],
    n: int,
) -> None:
    """Write the manifest, then remove the key."""
    out = folder.path
    manifest = {
        "format": 1,
        "kind": "safetab",
        "run": run_id,
        "private": private,
        "warnings": [] if private else [TEST_KEY_WARNING],
        "version": tallyveil.__version__,
        "plan_digest": digest.hex(),
        "budget_unit": inputs.plan.budget_unit,
        "budgets": {run.run: str(run.budget) for run in inputs.plan.runs},
        "event": inputs.plan.event().to_mapping(),
        "sizes": sizes,
        "checks_passed": n,
        "files": hashed_files(folder),
        "performance": watch.stages,
    }
    write_json(out / MANIFEST, manifest)
    folder.remove_private()


def already_finished(digest: bytes, out: Path) -> SafetabOutcome:
    """The finished run of a plan; a run killed while removing its key ends here too."""
    manifest = json.loads((out / MANIFEST).read_text())
    if manifest.get("plan_digest") != digest.hex():
        raise StoreError(
            f"{out} holds a finished release of another plan. Choose another folder.", code="folder-taken"
        )
    folder = RunFolder(out)
    if folder.private.exists():  # a run killed while removing its key
        with folder:
            folder.remove_private()
    return SafetabOutcome(out, manifest, already_finished=True)


def hashed_files(folder: RunFolder) -> dict[str, str]:
    """SHA-256 of every published file. The ledger may still grow: an evaluation writes that it looked."""
    out = folder.path
    files = [p for p in sorted(out.rglob("*")) if p.is_file() and folder.private not in p.parents]
    return {str(path.relative_to(out)): file_digest(path) for path in files if path != out / LEDGER}
