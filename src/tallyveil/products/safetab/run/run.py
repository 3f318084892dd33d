"""A SafeTab run, and what the runs of SafeTab share.

A run reads the plan, the public files and the records, spends, tabulates each level set, and checks the
tables. All runs of SafeTab, whatever their tables, share what they spend, what it means, and the files that
say so.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import polars as pl

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.book import Spend
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.budget.guarantees import parameters_of_cost
from tallyveil.budget.noise_size import certify_laws
from tallyveil.budget.strategy import Mechanism
from tallyveil.files.finished import PLAN
from tallyveil.files.manifest import ReleaseKind
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential.measure import AddressedNoise, GroupMeasurer, PersonCounts
from tallyveil.products.safetab.confidential.records import ConfidentialPersons, read_persons
from tallyveil.products.safetab.public.expected import EXPECTED, expected_errors
from tallyveil.products.safetab.public.group_numbers import GroupSource
from tallyveil.products.safetab.public.households import HouseholdPlan
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan import LevelSet, RunPlan, SafetabPlan, read_plan
from tallyveil.products.safetab.public.privacy import privacy_of
from tallyveil.products.safetab.public.regions import (
    Regions,
    Tabulation,
    first_block_in_all,
    read_regions,
    tabulate_all,
    tabulate_once,
)
from tallyveil.products.safetab.public.tables import (
    HEADERS,
    SetTables,
    check_outputs,
    require_passed,
    table_paths,
    write_headers,
    write_tables,
)
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run, Work
from tallyveil.storage.json_files import Json, JsonObject
from tallyveil.storage.outputs import refuse_inputs
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.write import TEMPORARY_SUFFIX, write_json

DESCRIPTION: Final = "SafeTab tabulation"
"""What is made, in words, for the ledger and the book."""

"""File of the errors that the plan lets expect, in the folder of a run."""


def safetab_job(
    kind: ReleaseKind,
    digest: bytes,
    inputs: Sequence[bytes],
    declaration: Declaration,
    event: PrivacyEvent,
    privacy: JsonObject,
    description: str,
) -> Job:
    """What a run spends, and on what.

    Args:
        kind: Its product.
        digest: Of the plan.
        inputs: Digests of what is read beside the plan.
        declaration: The declared budget.
        event: What the run does.
        privacy: Its guarantee.
        description: What is made, in words.
    """
    return Job(
        kind=kind,
        plan_digest=digest.hex(),
        whole_plan=digest,
        # In the order of the arguments: the same inputs in another order would be another run.
        binding=binding_of(digest, *inputs),
        declaration=declaration,
        event=event,
        privacy=privacy,
        description=description,
        # The name of the one act of the run in the ledger, by which a resumed run finds its own spend.
        token="safetab",
    )


def write_plan_files(run: Run, plan: JsonObject, expected: Json) -> None:
    """Write the plan, and the errors that it lets expect."""
    # Written once; a resumed run finds them and leaves them as they are.
    run.make([PLAN], lambda: write_json(run.path / PLAN, plan))
    run.make([EXPECTED], lambda: write_json(run.path / EXPECTED, expected))


def parameter_table(mechanism: Mechanism, costs: Iterable[tuple[str, Fraction]]) -> pl.DataFrame:
    """The privacy parameters that follow from costs alone, to stand beside a claim of accuracy.

    Args:
        mechanism: Of the noise.
        costs: Names of levels, and what they cost in rho or epsilon.
    """
    # From the costs alone, so that no number here depends on the records.
    rows = [{"level": name, **parameters_of_cost(mechanism, cost)} for name, cost in costs]
    return pl.DataFrame(rows, infer_schema_length=None)


class _PlannedSet(Protocol):
    """A level set, whatever it counts."""

    @property
    def name(self) -> str: ...
    @property
    def budget(self) -> Fraction: ...


class _PlannedRun(Protocol):
    """One run of a plan."""

    @property
    def run(self) -> str: ...
    @property
    def budget(self) -> Fraction: ...
    @property
    def sets(self) -> Sequence[_PlannedSet]: ...


def run_parameters(mechanism: Mechanism, runs: Iterable[_PlannedRun]) -> pl.DataFrame:
    """The privacy parameters of every level set of some runs by itself, and of each run together."""
    costs = []
    for run in runs:
        costs += [(f"{run.run} {level_set.name}", level_set.budget) for level_set in run.sets]
        costs.append((f"{run.run}, all level sets", run.budget))
    return parameter_table(mechanism, costs)


logger = logging.getLogger(__name__)

DELTA = Fraction(1, 10**10)
"""Delta at which epsilon is reported."""

LONGEST_PATH = "evaluation/household-detail/headers.parquet"
"""The longest path of a file in the folder of a SafeTab run."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SafetabInputs:
    """All inputs of a run, after the checks. Holds confidential records.

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
        TallyveilError: a file breaks its rules. The error names the first such file and all rules that it breaks.
    """
    # Public files first: most mistakes are found without opening a record.
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
    book: Path | None = None,
) -> Outcome:
    """Tabulate detailed population groups, or resume an interrupted run.

    Args:
        params: Folder of config.json and the four code files.
        data: Folder of person-records and GRF-C.
        out: Output folder. It does not exist, is empty, or holds an unfinished run with the same inputs.
        coterminous_once: Whether regions with the same blocks are measured only once. Production measured each of them.
        test_key: Key for tests; the run then protects nobody. None for a key from the operating system.
        observer: Receives reports of progress.
        book: The book of the register, into which the spend is entered; None for none.
    Raises:
        TallyveilError: an input is wrong. Nothing is spent before all inputs are checked.
    Privacy: spends the budgets of the config once (`SafetabPlan.event`), however often the run is interrupted and
        resumed. Neighbours differ by adding or removing one record.
    """
    product = SafetabProduct(read_plan(params), (params, data), coterminous_once)
    return run_product(product, out, test_key=test_key, observer=observer, book=book)


@dataclass(frozen=True, slots=True)
class SafetabProduct:
    """The tabulation of a plan.

    Attributes:
        plan: From the parameter folder.
        folders: The parameter folder and the data folder.
        once: Whether regions with the same blocks are measured once.
    """

    plan: SafetabPlan
    folders: tuple[Path, Path]
    once: bool

    @property
    def digest(self) -> bytes:
        """Digest of the plan and of how it is tabulated."""
        # Whether twins are measured changes which counts exist, so a run may not be resumed in the other way.
        return binding_of(self.plan.digest(), bytes([self.once]))

    @property
    def plan_digest(self) -> str:
        """The same in hexadecimal."""
        return self.digest.hex()

    def spend(self) -> Spend:
        """What the tables will cost."""
        return Spend(self.plan.event(), NEIGHBOURS, DESCRIPTION)

    def refuse(self, out: Path) -> None:
        """Refuse an output folder in which inputs lie, or whose path is too long; raises StoreError."""
        refuse_safetab_folder(out, self.folders)

    def read(self, out: Path, observer: Observer) -> Work:
        """Read and check every input; nothing is written."""
        watch, plan, data = Stopwatch(observer), self.plan, self.folders[1]
        with watch.stage("read geography"):
            regions = read_regions(data, plan.config)
        with watch.stage("read records"):
            persons = read_persons(data, plan.config, plan.files, regions)
        certify_laws(
            law
            for run in plan.runs
            for level_set in run.sets
            for law in (level_set.stage_1, level_set.stage_2, level_set.total_only)
        )
        inputs = SafetabInputs(plan, regions, persons)
        return _SafetabWork(inputs, self.digest, self.once, watch, expected_errors(plan), _privacy(plan))


def tables_of(
    run: RunPlan,
    plan: SafetabPlan,
    regions: Regions,
    source: GroupSource,
    tabulation: Tabulation,
    *,
    exact: bool = False,
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """T1, T2 and the number of noisy counts of one run, level set by level set.

    Args:
        run: What is measured.
        plan: The plan it belongs to.
        regions: The run's geography.
        source: Where the measurements come from.
        tabulation: Which regions are measured.
        exact: Whether the measurements have no noise.
    """
    t1, t2, n_counts = [], [], 0
    for level_set in run.sets:
        tables = SetTables(level_set, regions, plan.config, exact=exact)
        # Parts of limited size; a country's groups at a tract level do not fit in memory at once.
        for part in source.measure(level_set, tabulation.measured[level_set.place]):
            tables.add(part)
        # Twins are copies of published numbers and so need no further noise and no further spend.
        twins = tabulation.twins[level_set.place]
        t1.append(tables.t1(twins))
        t2.append(tables.t2(twins))
        n_counts += tables.n_counts
        logger.info("%s tabulated", level_set.name)
    return pl.concat(t1), pl.concat(t2), n_counts


def measurer_of(inputs: SafetabInputs, run: str, noise: AddressedNoise) -> GroupMeasurer[LevelSet]:
    """The measurer of one run's people."""
    return GroupMeasurer(PersonCounts(inputs.persons[run], inputs.regions[run]), noise)


@dataclass(slots=True, repr=False, eq=False)
class _SafetabWork:
    """Everything read and checked. Holds confidential records."""

    inputs: SafetabInputs
    digest: bytes
    once: bool
    watch: Stopwatch
    expected: JsonObject
    privacy: JsonObject

    def __repr__(self) -> str:
        return "_SafetabWork(<redacted>)"

    def job(self) -> Job:
        """The inputs that identify the run, and what it spends."""
        plan, regions, persons = self.inputs.plan, self.inputs.regions, self.inputs.persons
        # Geography and records of each run, in the order of the runs.
        parts = [part.digest() for run in plan.runs for part in (regions[run.run], persons[run.run])]
        return safetab_job(
            ReleaseKind.SAFETAB,
            self.digest,
            parts,
            declaration_of(plan),
            plan.event(),
            self.privacy,
            DESCRIPTION,
        )

    def release(self, run: Run) -> JsonObject:
        """Measure and write every run of the config; returns the body of the manifest."""
        plan, noise = self.inputs.plan, NoiseSource(run.secrets.noise_key)
        write_plan_files(run, plan.to_mapping(), self.expected)
        sizes = {
            run_plan.run: run.stage(
                f"tabulate {run_plan.run}",
                table_paths(run_plan.run),
                partial(self._tabulate, run, run_plan, noise),
            )
            for run_plan in plan.runs
        }
        # Written after the runs, which share them.
        run.make(HEADERS, lambda: write_headers(run.path))
        return {"sizes": sizes}

    def _tabulate(self, run: Run, run_plan: RunPlan, noise: NoiseSource) -> JsonObject:
        """Measure and write one run of the config; returns the sizes of its inputs and tables."""
        inputs, regions = self.inputs, self.inputs.regions[run_plan.run]
        with self.watch.stage(f"tabulate {run_plan.run}", len(run_plan.sets)):
            # Depends on public files alone, so it is the same after an interruption.
            tabulation = (tabulate_once if self.once else tabulate_all)(run_plan.sets, regions)
            measurer = measurer_of(inputs, run_plan.run, noise)
            t1, t2, n_counts = tables_of(run_plan, inputs.plan, regions, measurer, tabulation)
        with self.watch.stage(f"write {run_plan.run}"):
            write_tables(run.path, run_plan.run, t1, t2, run.tags)
        return {
            "noisy_counts": n_counts,
            "groups": {
                level_set.name: len(regions.ids[level_set.geography]) * len(level_set.view.iterations)
                for level_set in run_plan.sets
            },
            "coterminous_regions": tabulation.n_twins,
            "stability": _stability_mapping(run_plan, regions),
            "t1_rows": t1.height,
            "t2_rows": t2.height,
        }

    def check(self, run: Run) -> list[str]:
        """Check that the written tables have the properties that the documentation states."""
        with self.watch.stage("checks"):
            checks = check_outputs(run.path, self.inputs.plan)
            require_passed(checks)
        return [check.name for check in checks]


def declaration_of(plan: SafetabPlan | HouseholdPlan) -> Declaration:
    """The declared budget: the larger cost of the US run and the PR run, since every record is in one of them."""
    return Declaration(plan.config.mechanism.budget_unit, max(run.budget for run in plan.runs), NEIGHBOURS)


def refuse_safetab_folder(out: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output folder in which inputs lie, or whose path is too long; raises StoreError."""
    refuse_inputs(out, inputs)
    # Before the spend: a path that the system refuses in the middle of a run would waste it.
    refuse_long_paths(out, [LONGEST_PATH], TEMPORARY_SUFFIX)


def _privacy(plan: SafetabPlan) -> JsonObject:
    """The privacy guarantee of each run by every accountant, before the spend, because some events have none."""
    return {guarantee.run: guarantee.to_mapping() for guarantee in privacy_of(plan, DELTA)}


def _stability_mapping(run: RunPlan, regions: Regions) -> JsonObject:
    """Whether a record exists that is in the largest possible number of groups of every level set, and that record."""
    # A record attains all stabilities at once only if it can also lie in a region of every geography.
    block = first_block_in_all(regions, [level_set.geography for level_set in run.sets])
    attained = run.witness is not None and block is not None
    return {
        "attained_by_one_record": attained,
        "race_codes": list(run.witness[0]) if run.witness else None,
        "ethnicity_code": run.witness[1] if run.witness else None,
        # 15 digits: state 2, county 3, tract 6, block 4.
        "block": None if block is None else f"{block:015d}",
    }
