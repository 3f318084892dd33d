"""A SafeTab-H run: groups of households in the detail that a published T1 chooses."""

from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import polars as pl

import tallyveil
from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.composition import compose
from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.budget.noise_size import certify_laws
from tallyveil.confidential.safetab_households import HouseholdMeasurer, read_households
from tallyveil.confidential.safetab_records import ConfidentialPersons
from tallyveil.execution.safetab.run import DELTA, EXPECTED, refuse_safetab_folder
from tallyveil.noise.source import NoiseSource
from tallyveil.release.manifest import MANIFEST_FORMAT, ReleaseKind, protection, read_manifest
from tallyveil.run.folder import PLAN
from tallyveil.run.key_file import binding_of
from tallyveil.run.observer import Observer, SilentObserver
from tallyveil.run.once import Job, Outcome, Run, finished_before, run_once
from tallyveil.run.stopwatch import Stopwatch
from tallyveil.safetab.household_expected import expected_household_errors
from tallyveil.safetab.household_tables import (
    ListedGroups,
    check_household_tables,
    household_rows,
    household_table_paths,
    listed_groups,
    read_group_totals,
    require_groups,
    totals_digest,
    write_household_tables,
)
from tallyveil.safetab.households import TABLES, HouseholdPlan, HouseholdRun, read_household_plan
from tallyveil.safetab.outputs import OutputCheck, require_passed
from tallyveil.safetab.plan import NEIGHBOURS
from tallyveil.safetab.privacy import changed_event, changed_mapping
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
) -> Outcome:
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
    refuse_safetab_folder(out, (params, data, *([] if published is None else [published])))
    watch = Stopwatch(observer or SilentObserver())
    plan = read_household_plan(params)
    if published is not None:
        read_manifest(published, ReleaseKind.SAFETAB)
    with watch.stage("read geography"):
        regions = read_regions(data, plan.config)
        totals = read_group_totals(data, published, plan)
        groups = {run.run: groups_of(run, totals, regions[run.run]) for run in plan.runs}
    digest = binding_of(plan.digest(), totals_digest(totals))
    outcome = finished_before(out, digest.hex())
    if outcome is not None:
        return outcome
    with watch.stage("read records"):
        households = read_households(data, plan, regions)
    parts = [regions[run.run].digest() for run in plan.runs]
    parts += [homes.digest() for run in plan.runs for homes in households[run.run].values()]
    certify_laws(one.law for run in plan.runs for one in run.sets)
    privacy = {run.run: _privacy(run) for run in plan.runs}  # before the spend, as the expected errors are
    expected = _expected(plan)
    job = Job(
        plan_digest=digest.hex(),
        whole_plan=digest,
        binding=binding_of(digest, *parts),
        declaration=Declaration(plan.budget_unit, max(run.budget for run in plan.runs), NEIGHBOURS),
        event=plan.event(),
        description="SafeTab-H tabulation",
        token="safetab",
        test_key=test_key,
    )
    inputs = _Inputs(plan, regions, groups, households, privacy)
    outcome = run_once(out, job, lambda run: _tabulate(run, inputs, digest, watch))
    if not (out / EXPECTED).exists():
        write_json(out / EXPECTED, expected)
    return outcome


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Inputs:
    """Everything a run reads, checked. Holds confidential records."""

    plan: HouseholdPlan
    regions: dict[str, Regions]
    groups: dict[str, dict[str, ListedGroups]]
    households: dict[str, dict[str, ConfidentialPersons]]
    privacy: dict[str, dict[str, Any]]

    def __repr__(self) -> str:
        return "_Inputs(<redacted>)"


def _tabulate(run: Run, inputs: _Inputs, digest: bytes, watch: Stopwatch) -> dict[str, Any]:
    """Measure and write every run of the config, check, and describe it all in the manifest."""
    plan = inputs.plan
    run.make([PLAN], lambda: write_json(run.path / PLAN, plan.to_mapping()))
    noise = NoiseSource(run.secrets.noise_key)

    def tabulate(own: HouseholdRun) -> dict[str, Any]:
        groups, regions = inputs.groups[own.run], inputs.regions[own.run]
        with watch.stage(f"tabulate {own.run}", len(own.sets)):
            measurer = HouseholdMeasurer(inputs.households[own.run], regions, noise)
            frames = tables_of_households(plan, own, regions, groups, measurer)
            for table in TABLES:
                write_household_tables(run.path, own.run, table, frames[table.name], run.tags)
        return {
            "groups": {name: len(listed.regions) for name, listed in groups.items()},
            **{f"{table.name}_rows": frames[table.name].height for table in TABLES},
        }

    sizes: dict[str, Any] = {}
    checks: list[OutputCheck] = []
    for own in plan.runs:
        places = household_table_paths(own.run)
        sizes[own.run] = run.stage(f"tabulate {own.run}", places, partial(tabulate, own))
        for table in TABLES:
            listed = inputs.groups[own.run].items()
            n = sum(len(one.regions) for name, one in listed if name.startswith(table.name))
            allowed = plan.config.allow_negative
            checks += check_household_tables(run.path, own.run, table, n, allow_negative=allowed)
    require_passed(tuple(checks))
    return {
        "format": MANIFEST_FORMAT,
        "kind": "safetab-households",
        "run": run.run_id,
        **protection(protected=run.secrets.protected),
        "version": tallyveil.__version__,
        "plan_digest": digest.hex(),
        "budget_unit": plan.budget_unit,
        "budgets": {own.run: str(own.budget) for own in plan.runs},
        "privacy": inputs.privacy,
        "event": plan.event().to_mapping(),
        "sizes": sizes,
        "checks_passed": len(checks),
        "files": run.files(),
        "performance": watch.stages,
    }


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
        write_json(out / EXPECTED, _expected(plan))


def _expected(plan: HouseholdPlan) -> list[dict[str, Any]]:
    return [one.to_mapping() for one in expected_household_errors(plan)]


def _privacy(run: HouseholdRun) -> dict[str, Any]:
    epsilon, changed = _epsilon(run.event()), _epsilon(changed_event(run.event()))
    return {
        "budget": str(run.budget),
        "delta": str(DELTA),
        "epsilon": {"lower": epsilon.lower, "upper": epsilon.upper},
        "changed": changed_mapping(run.budget, changed.lower, changed.upper),
    }


@lru_cache(maxsize=16)  # a process that runs the same plan again need not wait for it again
def _epsilon(event: PrivacyEvent) -> Bounds:
    return compose(event, neighbours=NEIGHBOURS).epsilon(DELTA)
