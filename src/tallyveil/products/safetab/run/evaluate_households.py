"""Compare a SafeTab-H release, and simulated runs like it, with the true counts. This job declassifies records."""

from itertools import chain
from pathlib import Path

import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.errors import StoreError
from tallyveil.files.declassified import mark_declassified
from tallyveil.files.evaluation.store import PARAMETERS, write_errors
from tallyveil.files.finished import LEDGER
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed_table, read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential.declassify import declassify_households
from tallyveil.products.safetab.confidential.households import HouseholdMeasurer, read_households
from tallyveil.products.safetab.confidential.records import ConfidentialPersons
from tallyveil.products.safetab.public.evaluation import LEVEL, household_errors
from tallyveil.products.safetab.public.household_tables import (
    KEYS,
    ListedGroups,
    household_rows,
    read_group_totals,
    totals_digest,
)
from tallyveil.products.safetab.public.households import (
    TABLES,
    HouseholdPlan,
    HouseholdRun,
    read_household_plan,
)
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.regions import Regions, read_regions
from tallyveil.products.safetab.run.households import groups_of, tables_of_households
from tallyveil.products.safetab.run.job import run_parameters
from tallyveil.runs.key_file import binding_of

TRUE = "TRUE"
"""Column of the true counts beside the published ones."""


def evaluate_households(
    params: Path, data: Path, out: Path, *, published: Path | None = None, repeats: int = 0
) -> dict[str, pl.DataFrame]:
    """Errors of a SafeTab-H release against the true counts, together with those of repeated runs with test keys.

    Args:
        params, data, published: The folders that the release was made from.
        out: Its folder.
        repeats: Number of further runs. Their keys are public, and their errors are pooled with those of the release.
    Returns:
        Table "errors-households", and the privacy parameters of the noise. They and the true tables are also written
        to the folder `evaluation`.
    Raises:
        StoreError: the folder holds no finished SafeTab-H release that was made with these parameters and totals.
    Privacy: none. Before records are compared, the ledger of the release gets a non-private event for every run.
    """
    manifest = read_manifest(out, ReleaseKind.HOUSEHOLDS)
    # The digest covers T1 as well: another T1 would choose other details, and the rows would not match.
    plan = read_household_plan(params)
    totals = read_group_totals(data, published, plan)
    if binding_of(plan.digest(), totals_digest(totals)).hex() != manifest.plan_digest:
        raise StoreError(
            f"{out} holds a SafeTab-H release that was made with other parameters or with another table T1. Name the "
            "parameter folder and the T1 that it was made with.",
            code="no-release",
        )
    regions = read_regions(data, plan.config)
    households = read_households(data, plan, regions)
    declared = Declaration(plan.budget_unit, max(run.budget for run in plan.runs), NEIGHBOURS)
    # The whole release is read before the ledger says that records were compared with it.
    released = {run.run: _released(out, manifest, run) for run in plan.runs}
    listed = {run.run: groups_of(run, totals, regions[run.run]) for run in plan.runs}
    rows: list[pl.DataFrame] = []
    truths: dict[str, pl.DataFrame] = {}
    with Ledger(out / LEDGER, declared, manifest.run) as ledger:
        for run in plan.runs:
            geography, groups = regions[run.run], listed[run.run]
            # Entered in the ledger inside, before it counts; the mark follows as soon as there is something
            # to mark.
            truth = _truth(run, geography, groups, households[run.run], ledger)
            mark_declassified(out, ledger.entries)
            # A generator: one repeated run is in memory at a time.
            repeated = (
                _repeated(plan, run, geography, groups, households[run.run], n) for n in range(1, 1 + repeats)
            )
            for frames in chain([released[run.run]], repeated):
                rows += [_compared(frames[name], truth[name], name) for name in truth]
            truths |= {f"truth-{name}-{run.run.lower()}": frame for name, frame in truth.items()}
    levels = {iteration.code: iteration.level for iteration in plan.files.iterations}
    level = pl.col("ITERATION_CODE").replace_strict(levels, return_dtype=pl.Int64).alias(LEVEL)
    errors = {
        "errors-households": household_errors(pl.concat(rows).with_columns(level)),
        PARAMETERS: run_parameters(plan.config.mechanism, plan.runs),
    }
    write_errors(out, errors | truths, {"run": manifest.run, "runs": 1 + repeats})
    return errors


def _truth(
    run: HouseholdRun,
    regions: Regions,
    groups: dict[str, ListedGroups],
    households: dict[str, ConfidentialPersons],
    ledger: Ledger,
) -> dict[str, pl.DataFrame]:
    """T3 and T4 as they would be without noise."""
    reason = f"true counts of the {run.run} run compared with the release; the results reveal them"
    asked = [(household_set, groups[household_set.name]) for household_set in run.sets]
    frames: dict[str, list[pl.DataFrame]] = {table.name: [] for table in TABLES}
    for household_set, listed, cells in declassify_households(
        households, regions, asked, ledger=ledger, reason=reason
    ):
        # True cells are not negative, so nothing is raised; the option only spares a pass.
        rows = household_rows(household_set, regions, listed, cells, allow_negative=True)
        true = rows.select(*KEYS, household_set.layout.column, pl.col("COUNT").alias(TRUE))
        frames[household_set.table].append(true)
    return {name: pl.concat(parts) for name, parts in frames.items()}


def _released(out: Path, manifest: Manifest, run: HouseholdRun) -> dict[str, pl.DataFrame]:
    """Tables of the release."""
    stem = run.run.lower()
    return {table.name: read_listed_table(out, manifest, f"{table.name}-{stem}.parquet") for table in TABLES}


def _repeated(
    plan: HouseholdPlan,
    run: HouseholdRun,
    regions: Regions,
    groups: dict[str, ListedGroups],
    households: dict[str, ConfidentialPersons],
    number: int,
) -> dict[str, pl.DataFrame]:
    """Tables of a run like that of the release, with a public key."""
    noise = NoiseSource(insecure_key(f"SafeTab-H evaluation {number}"))
    measurer = HouseholdMeasurer(households, regions, noise)
    return tables_of_households(plan, run, regions, groups, measurer)


def _compared(frame: pl.DataFrame, truth: pl.DataFrame, name: str) -> pl.DataFrame:
    """Published rows beside the true counts, with the size of the group and the number of cells in each sum."""
    table = next(table for table in TABLES if table.name == name)
    parts = [
        (detail.folder, str(cell), len(summed)) for detail in table.details for cell, summed in detail.sums
    ]
    # How many measured cells a published number sums: its noise grows with that, so errors are compared by
    # it.
    sums = pl.DataFrame(parts, schema=["TABLE", table.column, "PARTS"], orient="row")
    # Cell 0 of T3 and T4 is the total of the group.
    of_group = truth.filter(pl.col(table.column) == "0").select(*KEYS, pl.col(TRUE).alias("TOTAL"))
    joined = frame.join(truth, on=[*KEYS, table.column], how="left").join(of_group, on=KEYS, how="left")
    wide = joined.join(sums, on=["TABLE", table.column], how="left").drop(table.column)
    return wide.with_columns(pl.lit(name.upper()).alias("TABLE"))
