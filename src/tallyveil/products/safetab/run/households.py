"""A SafeTab-H run: counts of groups of households, whose detail a published table T1 chooses."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.book import Spend
from tallyveil.accounting.numbers import Bounds
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.budget.noise_size import certify_laws
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_manifest
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential.measure import HouseholdMeasurer, read_households
from tallyveil.products.safetab.confidential.records import ConfidentialPersons
from tallyveil.products.safetab.public.expected import expected_household_errors
from tallyveil.products.safetab.public.household_tables import (
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
from tallyveil.products.safetab.public.households import (
    TABLES,
    HouseholdPlan,
    HouseholdRun,
    read_household_plan,
)
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.privacy import changed_event, changed_mapping
from tallyveil.products.safetab.public.regions import Regions, read_regions
from tallyveil.products.safetab.public.tables import OutputCheck, require_passed
from tallyveil.products.safetab.run.run import (
    DELTA,
    declaration_of,
    refuse_safetab_folder,
    safetab_job,
    write_plan_files,
)
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.observer import Observer, SilentObserver, Stopwatch
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run, Work
from tallyveil.storage.json_files import JsonObject

DESCRIPTION: Final = "SafeTab-H tabulation"
"""What is made, in words, for the ledger and the book."""


def run_households(
    params: Path,
    data: Path,
    out: Path,
    *,
    published: Path | None = None,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    book: Path | None = None,
) -> Outcome:
    """Tabulate groups of households in T3 and T4, or resume an interrupted run.

    Args:
        params: Folder of SafeTab-H's config.json and the four code files.
        data: Folder of household-records, GRF-C and, without `published`, pop-group-totals.
        out: Output folder. It does not exist, is empty, or holds an unfinished run with the same inputs.
        published: Folder of the SafeTab run whose T1 chooses the detail.
        test_key: Key for tests; the run then protects nobody.
        observer: Receives reports of progress.
        book: The book of the register, into which the spend is entered; None for none.
    Raises:
        TallyveilError: an input is wrong. Nothing is spent before all inputs are checked.
    Privacy: spends the budgets of the config once (`HouseholdPlan.event`). Neighbours are sets of households that
        differ by one record. T1 is public; its cost was spent by the run that made it.
    """
    folders = (params, data, *([] if published is None else [published]))
    # Before anything is read: an output folder with inputs in it is refused at once.
    refuse_safetab_folder(out, folders)
    watch = Stopwatch(observer or SilentObserver())
    plan = read_household_plan(params)
    if published is not None:
        # Refuses a run that is not finished, whose T1 may yet change.
        read_manifest(published, ReleaseKind.SAFETAB)
    with watch.stage("read geography"):
        regions = read_regions(data, plan.config)
        totals = read_group_totals(data, published, plan)
        groups = {run.run: groups_of(run, totals, regions[run.run]) for run in plan.runs}
    # T1 chooses the addresses that are used, so it is part of what the noise means.
    digest = binding_of(plan.digest(), totals_digest(totals))
    product = HouseholdsProduct(plan, folders, regions, groups, digest, watch)
    return run_product(product, out, test_key=test_key, observer=observer, book=book)


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdsProduct:
    """The tabulation of a plan, with the detail that a published T1 chooses.

    Attributes:
        plan: From the parameter folder.
        folders: Every folder that is read. The second one holds the records.
        regions: The public geography of each run.
        groups: The groups that T1 lists, by run and set.
        digest: Of the plan and of T1.
        watch: Times the stages.
    """

    plan: HouseholdPlan
    folders: tuple[Path, ...]
    regions: dict[str, Regions]
    groups: dict[str, dict[str, ListedGroups]]
    digest: bytes
    watch: Stopwatch

    @property
    def plan_digest(self) -> str:
        """The digest in hexadecimal."""
        return self.digest.hex()

    def spend(self) -> Spend:
        """What the tables will cost."""
        return Spend(self.plan.event(), NEIGHBOURS, DESCRIPTION)

    def refuse(self, out: Path) -> None:
        """Refuse an output folder in which inputs lie, or whose path is too long; raises StoreError."""
        refuse_safetab_folder(out, self.folders)

    def read(self, out: Path, observer: Observer) -> Work:
        """Read and check the records; nothing is written."""
        plan = self.plan
        with self.watch.stage("read records"):
            households = read_households(self.folders[1], plan, self.regions)
        # Certified now, so that no law can fail after the spend.
        certify_laws(household_set.law for run in plan.runs for household_set in run.sets)
        privacy = {run.run: _privacy(run) for run in plan.runs}
        return _HouseholdsWork(
            plan,
            self.regions,
            self.groups,
            households,
            self.digest,
            self.watch,
            _expected(plan),
            privacy,
        )


@dataclass(slots=True, repr=False, eq=False)
class _HouseholdsWork:
    """Everything read and checked. Holds confidential records."""

    plan: HouseholdPlan
    regions: dict[str, Regions]
    groups: dict[str, dict[str, ListedGroups]]
    households: dict[str, dict[str, ConfidentialPersons]]
    digest: bytes
    watch: Stopwatch
    expected: list[JsonObject]
    privacy: JsonObject

    def __repr__(self) -> str:
        return "_HouseholdsWork(<redacted>)"

    def job(self) -> Job:
        """The inputs that identify the run, and what it spends."""
        plan = self.plan
        parts = [self.regions[run.run].digest() for run in plan.runs]
        # Both tables' records: they share blocks and codes, but their cells differ.
        parts += [homes.digest() for run in plan.runs for homes in self.households[run.run].values()]
        return safetab_job(
            ReleaseKind.HOUSEHOLDS,
            self.digest,
            parts,
            declaration_of(plan),
            plan.event(),
            self.privacy,
            DESCRIPTION,
        )

    def release(self, run: Run) -> JsonObject:
        """Measure and write every run of the config; returns the body of the manifest."""
        plan, noise = self.plan, NoiseSource(run.secrets.noise_key)
        write_plan_files(run, plan.to_mapping(), self.expected)
        sizes = {
            run_plan.run: run.stage(
                f"tabulate {run_plan.run}",
                household_table_paths(run_plan.run),
                partial(self._tabulate, run, run_plan, noise),
            )
            for run_plan in plan.runs
        }
        return {"sizes": sizes}

    def _tabulate(self, run: Run, run_plan: HouseholdRun, noise: NoiseSource) -> JsonObject:
        """Measure and write one run of the config; returns the sizes of its inputs and tables."""
        groups, regions = self.groups[run_plan.run], self.regions[run_plan.run]
        with self.watch.stage(f"tabulate {run_plan.run}", len(run_plan.sets)):
            measurer = HouseholdMeasurer(self.households[run_plan.run], regions, noise)
            frames = tables_of_households(self.plan, run_plan, regions, groups, measurer)
            for table in TABLES:
                write_household_tables(run.path, run_plan.run, table, frames[table.name], run.tags)
        return {
            "groups": {name: len(listed.regions) for name, listed in groups.items()},
            **{f"{table.name}_rows": frames[table.name].height for table in TABLES},
        }

    def check(self, run: Run) -> list[str]:
        """Check that the written tables have the properties that the documentation states."""
        plan, checks = self.plan, list[OutputCheck]()
        for run_plan in plan.runs:
            listed = self.groups[run_plan.run].items()
            for table in TABLES:
                # Set names begin with the table's name ("t3 COUNTY level 2").
                n = sum(len(groups.regions) for name, groups in listed if name.startswith(table.name))
                allowed = plan.config.allow_negative
                checks += check_household_tables(run.path, run_plan.run, table, n, allow_negative=allowed)
        require_passed(tuple(checks))
        return [check.name for check in checks]


def tables_of_households(
    plan: HouseholdPlan,
    run: HouseholdRun,
    regions: Regions,
    groups: dict[str, ListedGroups],
    measurer: HouseholdMeasurer,
) -> dict[str, pl.DataFrame]:
    """T3 and T4 of one run."""
    frames: dict[str, list[pl.DataFrame]] = {table.name: [] for table in TABLES}
    for household_set in run.sets:
        cells = measurer.measure(household_set, groups[household_set.name])
        rows = household_rows(
            household_set,
            regions,
            groups[household_set.name],
            cells,
            allow_negative=plan.config.allow_negative,
        )
        frames[household_set.table].append(rows)
    return {name: pl.concat(parts) for name, parts in frames.items()}


def groups_of(run: HouseholdRun, totals: pl.DataFrame, regions: Regions) -> dict[str, ListedGroups]:
    """The groups that the published totals list for each level set of a run, by the name of the set.

    Raises:
        SchemaError: there are none, or they are of another geography.
    """
    listed = {
        household_set.name: listed_groups(totals, run.run, household_set, regions)
        for household_set in run.sets
    }
    require_groups(run.run, sum(len(groups.regions) for groups in listed.values()))
    return listed


def _expected(plan: HouseholdPlan) -> list[JsonObject]:
    """Content of `expected.json`: the expected errors of the published numbers."""
    return [
        error.to_mapping() for error in expected_household_errors((run.run, run.sets) for run in plan.runs)
    ]


def _privacy(run: HouseholdRun) -> JsonObject:
    """The privacy guarantee of a run. It is computed before the spend, because some events have none."""
    # A household may move, so the guarantee for a changed record is stated beside that for an added one.
    epsilon, changed = _epsilon(run.event()), _epsilon(changed_event(run.event()))
    return {
        "budget": str(run.budget),
        "delta": str(DELTA),
        "epsilon": {"lower": epsilon.lower, "upper": epsilon.upper},
        "changed": changed_mapping(run.budget, changed.lower, changed.upper),
    }


def _epsilon(event: PrivacyEvent) -> Bounds:
    return proved_epsilon(event, NEIGHBOURS, DELTA).bounds
