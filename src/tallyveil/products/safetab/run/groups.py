"""A run on population groups in records of any kind: read the records; spend; tabulate each level; check the tables."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.accounting.ledger.book import Spend
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.budget.noise_size import certify_laws
from tallyveil.files.manifest import ReleaseKind
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential.group_records import RecordGroups, read_group_records
from tallyveil.products.safetab.confidential.measure import GroupMeasurer
from tallyveil.products.safetab.public.group_numbers import CollectedGroups
from tallyveil.products.safetab.public.group_plan import GroupPlan, MappedLevel
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan_record import level_errors, privacy_of_groups
from tallyveil.products.safetab.public.tables import (
    check_group_tables,
    group_table_paths,
    group_tables,
    require_passed,
    write_group_tables,
)
from tallyveil.products.safetab.run.run import safetab_job, write_plan_files
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run, Work
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import refuse_inputs
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.write import TEMPORARY_SUFFIX

logger = logging.getLogger(__name__)


def run_groups(
    plan: GroupPlan,
    records: Path,
    out: Path,
    *,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    book: Path | None = None,
) -> Outcome:
    """Tabulate population groups of records of any kind, or resume an interrupted run.

    Args:
        plan: The plan.
        records: Parquet or CSV file with one row for each record.
        out: Output folder. It does not exist, is empty, or holds an unfinished run with the same inputs.
        test_key: Key for tests; the run then protects nobody. None for a key from the operating system.
        observer: Receives reports of progress.
        book: The book of the register, into which the spend is entered; None for none.
    Raises:
        TallyveilError: an input is wrong. Nothing is spent before all inputs are checked.
    Privacy: spends the budgets of the levels once (`GroupPlan.event`), however often the run is interrupted and
        resumed. Neighbours differ by adding or removing one record.
    """
    return run_product(GroupsProduct(plan, records), out, test_key=test_key, observer=observer, book=book)


@dataclass(frozen=True, slots=True)
class GroupsProduct:
    """The tabulation of a plan.

    Attributes:
        plan: The plan.
        records: File of the records.
    """

    plan: GroupPlan
    records: Path

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return self.plan.digest().hex()

    def spend(self) -> Spend:
        """What the tables will cost."""
        return Spend(self.plan.event(), NEIGHBOURS, self.plan.description)

    def refuse(self, out: Path) -> None:
        """Refuse an output folder in which the records lie, or whose path is too long; raises StoreError."""
        refuse_inputs(out, [self.records])
        paths = [path for level in self.plan.levels for path in group_table_paths(level.name)]
        refuse_long_paths(out, paths, TEMPORARY_SUFFIX)

    def read(self, out: Path, observer: Observer) -> Work:
        """Read and check the records; nothing is written."""
        watch, plan = Stopwatch(observer), self.plan
        with watch.stage("read records"):
            # Everything that can be refused is refused here, before the ledger shows a spend.
            records = read_group_records(self.records, plan)
        # The noise must have certified boundaries before the spend: afterwards an error would cost the
        # budget.
        certify_laws(law for level in plan.levels for law in (level.stage_1, level.stage_2, level.total_only))
        # Also before the spend, because an epsilon may turn out not to exist at this delta.
        privacy = {plan.name: privacy_of_groups(plan).to_mapping()}
        return _GroupsWork(plan, records, watch, level_errors(plan), privacy)


@dataclass(slots=True, repr=False, eq=False)
class _GroupsWork:
    """Everything read and checked. Holds confidential records."""

    plan: GroupPlan
    records: RecordGroups
    watch: Stopwatch
    expected: JsonObject
    privacy: JsonObject

    def __repr__(self) -> str:
        return "_GroupsWork(<redacted>)"

    def job(self) -> Job:
        """The inputs that identify the run, and what it spends."""
        plan = self.plan
        return safetab_job(
            ReleaseKind.GROUPS,
            plan.digest(),
            # The key is bound to the records: other records would get other noise, so that no difference of
            # two runs shows a true one.
            [self.records.digest()],
            groups_declaration(plan),
            plan.event(),
            self.privacy,
            plan.description,
        )

    def release(self, run: Run) -> JsonObject:
        """Measure and write every level; returns the body of the manifest."""
        plan, noise = self.plan, NoiseSource(run.secrets.noise_key)
        write_plan_files(run, plan.to_mapping(), self.expected)
        # One source for all levels: their addresses differ in geolevel or query
        # (`GroupsFile._addresses_apart`).
        measurer = GroupMeasurer(self.records, noise)
        counts = {
            # A stage for each level, so that a killed run does only the begun level again.
            level.name: run.stage(
                f"tabulate {level.name}",
                group_table_paths(level.name),
                partial(self._tabulate, run, level, measurer),
            )
            for level in plan.levels
        }
        return {"name": plan.name, "sizes": counts}

    def _tabulate(self, run: Run, level: MappedLevel, measurer: GroupMeasurer[MappedLevel]) -> JsonObject:
        """Measure and write one level; returns the sizes of its tables."""
        with self.watch.stage(f"tabulate {level.name}"):
            totals, cells, n_counts = tables_of_level(level, measurer)
            write_group_tables(run.path, level, (totals, cells), run.tags)
        logger.info("%s tabulated", level.name)
        return {"groups": level.groups, "noisy_counts": n_counts, "cells_rows": cells.height}

    def check(self, run: Run) -> list[str]:
        """Check that the written tables have the properties that the documentation states."""
        with self.watch.stage("checks"):
            checks = check_group_tables(run.path, self.plan)
            require_passed(checks)
        return [check.name for check in checks]


def tables_of_level(
    level: MappedLevel, measurer: GroupMeasurer[MappedLevel]
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Totals, cells and the number of noisy counts of one level."""
    collected = CollectedGroups(level)
    # All rows: empty groups are measured like others, or their absence would tell that they are empty.
    for part in measurer.measure(level, np.arange(level.listed.n_rows)):
        collected.add(part)
    return *group_tables(level, collected), collected.n_counts


def groups_declaration(plan: GroupPlan) -> Declaration:
    """The declared budget."""
    return Declaration(plan.budget_unit, plan.declared, NEIGHBOURS)
