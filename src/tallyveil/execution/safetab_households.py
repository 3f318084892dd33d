"""A SafeTab-H run: groups of households in the detail that a published T1 chooses."""

import json
from pathlib import Path
from typing import Any

import polars as pl

import tallyveil
from tallyveil.accounting.composition import compose
from tallyveil.accounting.ledger_lines import Declaration
from tallyveil.budget.noise_size import certify_laws
from tallyveil.confidential.safetab_households import HouseholdMeasurer, read_households
from tallyveil.errors import StoreError
from tallyveil.execution.observer import Observer, SilentObserver
from tallyveil.execution.run_folder import MANIFEST, PLAN, FolderState, RunFolder, binding_of, folder_state
from tallyveil.execution.safetab import (
    DELTA,
    EXPECTED,
    TEST_KEY_WARNING,
    SafetabOutcome,
    already_finished,
    hashed_files,
    refuse_safetab_folder,
    spend_once,
)
from tallyveil.execution.stopwatch import Stopwatch
from tallyveil.noise.source import NoiseSource
from tallyveil.safetab.household_expected import expected_household_errors
from tallyveil.safetab.household_tables import (
    ListedGroups,
    check_household_tables,
    household_rows,
    listed_groups,
    read_group_totals,
    require_groups,
    totals_digest,
    write_household_tables,
)
from tallyveil.safetab.households import TABLES, HouseholdPlan, HouseholdRun, read_household_plan
from tallyveil.safetab.outputs import OutputCheck, require_passed
from tallyveil.safetab.plan import NEIGHBOURS
from tallyveil.safetab.regions import Regions, read_regions
from tallyveil.storage.write import write_json


def run_households(
    params: Path,
    data: Path,
    out: Path,
    *,
    published: Path | None = None,
    test_key: bytes | None = None,
    observer: Observer | None = None,
) -> SafetabOutcome:
    """Tabulate groups of households: T3 and T4; or go on with a run that was interrupted.

    Args:
        params: Folder of SafeTab-H's config.json and the four code files.
        data: Folder of household-records, GRF-C and, without `published`, pop-group-totals.
        out: Output folder; absent, empty, or holding an unfinished run of these very inputs.
        published: Folder of the SafeTab run whose T1 chooses the detail.
        test_key: Key of a run that protects nobody, for tests.
        observer: Told of progress.
    Raises:
        TallyveilError: nothing is spent before all inputs are checked.
    Privacy: spends the config's budgets once (`HouseholdPlan.event`), between sets of households that differ by one
        record. T1 is public; what it cost the people in it is T1's own spend.
    """
    state = folder_state(out)
    if state is FolderState.FOREIGN:
        raise StoreError(
            f"{out} holds files that are no Tallyveil run. Choose a new folder.", code="folder-taken"
        )
    refuse_safetab_folder(out, (params, data, *([] if published is None else [published])))
    watch = Stopwatch(observer or SilentObserver())
    plan = read_household_plan(params)
    with watch.stage("read geography"):
        regions = read_regions(data, plan.config)
        totals = read_group_totals(data, published, plan)
        groups = {run.run: groups_of(run, totals, regions[run.run]) for run in plan.runs}
    digest = binding_of(plan.digest(), totals_digest(totals))
    if state is FolderState.FINISHED:
        return already_finished(digest, out)
    with watch.stage("read records"):
        households = read_households(data, plan, regions)
    parts = [regions[run.run].digest() for run in plan.runs]
    parts += [homes.digest() for run in plan.runs for homes in households[run.run].values()]
    certify_laws(one.law for run in plan.runs for one in run.sets)
    privacy = {run.run: _privacy(run) for run in plan.runs}
    expected = [one.to_mapping() for one in expected_household_errors(plan)]
    with RunFolder(out) as folder:
        declared = Declaration(plan.budget_unit, max(run.budget for run in plan.runs), NEIGHBOURS)
        binding = binding_of(digest, *parts)
        secrets = spend_once(
            folder, declared, plan.event(), "SafeTab-H tabulation", binding, digest, test_key
        )
        write_json(out / PLAN, plan.to_mapping())
        noise, sizes = NoiseSource(secrets.noise_key), {}
        checks: list[OutputCheck] = []
        for run in plan.runs:
            with watch.stage(f"tabulate {run.run}", len(run.sets)):
                measurer = HouseholdMeasurer(households[run.run], regions[run.run], noise)
                frames = tables_of_households(plan, run, regions[run.run], groups[run.run], measurer)
                for table in TABLES:
                    write_household_tables(out, run.run, table, frames[table.name], secrets.file_tags())
            for table in TABLES:
                n = sum(len(g.regions) for name, g in groups[run.run].items() if name.startswith(table.name))
                allowed = plan.config.allow_negative
                checks += check_household_tables(out, run.run, table, n, allow_negative=allowed)
            sizes[run.run] = {
                "groups": {name: len(own.regions) for name, own in groups[run.run].items()},
                **{f"{table.name}_rows": frames[table.name].height for table in TABLES},
            }
        require_passed(tuple(checks))
        manifest: dict[str, Any] = {
            "format": 1,
            "kind": "safetab-households",
            "run": secrets.run_id,
            "private": secrets.private,
            "warnings": [] if secrets.private else [TEST_KEY_WARNING],
            "version": tallyveil.__version__,
            "plan_digest": digest.hex(),
            "budget_unit": plan.budget_unit,
            "budgets": {run.run: str(run.budget) for run in plan.runs},
            "privacy": privacy,
            "event": plan.event().to_mapping(),
            "sizes": sizes,
            "checks_passed": len(checks),
            "files": hashed_files(folder),
            "performance": watch.stages,
        }
        write_json(out / EXPECTED, expected)
        write_json(out / MANIFEST, manifest)
        folder.remove_private()
    return SafetabOutcome(out, json.loads((out / MANIFEST).read_text()), already_finished=False)


def tables_of_households(
    plan: HouseholdPlan,
    run: HouseholdRun,
    regions: Regions,
    groups: dict[str, ListedGroups],
    measurer: HouseholdMeasurer,
) -> dict[str, pl.DataFrame]:
    """T3 and T4 of one run."""
    frames: dict[str, list[pl.DataFrame]] = {table.name: [] for table in TABLES}
    for one in run.sets:
        cells = measurer.measure(one, groups[one.name])
        rows = household_rows(
            one, regions, groups[one.name], cells, allow_negative=plan.config.allow_negative
        )
        frames[one.table.name].append(rows)
    return {name: pl.concat(parts) for name, parts in frames.items()}


def groups_of(run: HouseholdRun, totals: pl.DataFrame, regions: Regions) -> dict[str, ListedGroups]:
    """The groups of every set of a run that the published totals list, by the set's name.

    Raises:
        SchemaError: there are none, or they are of another geography.
    """
    found = {one.name: listed_groups(totals, run.run, one, regions) for one in run.sets}
    require_groups(run.run, sum(len(groups.regions) for groups in found.values()))
    return found


def describe_households(plan: HouseholdPlan, out: Path) -> None:
    """State what a run's numbers are worth, in `expected.json`; a file that is there is left as it is."""
    if not (out / EXPECTED).exists():
        write_json(out / EXPECTED, [one.to_mapping() for one in expected_household_errors(plan)])


def _privacy(run: HouseholdRun) -> dict[str, Any]:
    epsilon = compose(run.event(), neighbours=NEIGHBOURS).epsilon(DELTA)
    return {
        "budget": str(run.budget),
        "delta": str(DELTA),
        "epsilon": {"lower": epsilon.lower, "upper": epsilon.upper},
    }
