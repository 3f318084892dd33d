"""Comparing a SafeTab-H release, and runs like it, with the truth: a job that declassifies records."""

from pathlib import Path

import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.confidential.declassify import declassify_households
from tallyveil.confidential.safetab_households import HouseholdMeasurer, read_households
from tallyveil.confidential.safetab_records import ConfidentialPersons
from tallyveil.errors import StoreError
from tallyveil.evaluation.safetab_errors import LEVEL, household_errors, write_errors
from tallyveil.execution.safetab.households import groups_of, tables_of_households
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.release.declassified import mark_declassified
from tallyveil.release.finished import LEDGER
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest_files import read_manifest
from tallyveil.run.key_file import binding_of
from tallyveil.safetab.household_tables import (
    KEYS,
    ListedGroups,
    household_rows,
    read_group_totals,
    totals_digest,
)
from tallyveil.safetab.households import TABLES, HouseholdPlan, HouseholdRun, read_household_plan
from tallyveil.safetab.plan import NEIGHBOURS
from tallyveil.safetab.regions import Regions, read_regions
from tallyveil.storage.published import read_published

TRUE = "TRUE"


def evaluate_households(
    params: Path, data: Path, out: Path, *, published: Path | None = None, repeats: int = 0
) -> dict[str, pl.DataFrame]:
    """Errors of a SafeTab-H release against the true counts, and of as many runs with test keys as are asked for.

    Args:
        params, data, published: What the release was made from.
        out: Its folder.
        repeats: Further runs, with keys that anybody can derive; their errors are taken together with the release's.
    Returns:
        "errors-households"; it, and the true tables, are also written to the folder's `evaluation`.
    Raises:
        StoreError: the folder holds no finished SafeTab-H release of these parameters and totals.
    Privacy: none. The ledger of the release receives a non-private event for every run first.
    """
    manifest = read_manifest(out, ReleaseKind.HOUSEHOLDS)
    plan = read_household_plan(params)
    totals = read_group_totals(data, published, plan)
    if binding_of(plan.digest(), totals_digest(totals)).hex() != manifest.plan_digest:
        raise StoreError(
            f"{out} holds a SafeTab-H release of other parameters or another T1. Name those it was made with.",
            code="no-release",
        )
    regions = read_regions(data, plan.config)
    households = read_households(data, plan, regions)
    declared = Declaration(plan.budget_unit, max(run.budget for run in plan.runs), NEIGHBOURS)
    rows: list[pl.DataFrame] = []
    truths: dict[str, pl.DataFrame] = {}
    with Ledger(out / LEDGER, declared, manifest.run) as ledger:
        for run in plan.runs:
            own = regions[run.run]
            groups = groups_of(run, totals, own)
            truth = _truth(run, own, groups, households[run.run], ledger)
            mark_declassified(out, ledger.entries)
            for number in range(1 + repeats):
                frames = _tables(plan, run, own, groups, households[run.run], out, number)
                rows += [_compared(frames[name], truth[name], name) for name in truth]
            truths |= {f"truth-{name}-{run.run.lower()}": frame for name, frame in truth.items()}
    levels = {iteration.code: iteration.level for iteration in plan.files.iterations}
    level = pl.col("ITERATION_CODE").replace_strict(levels, return_dtype=pl.Int64).alias(LEVEL)
    errors = {"errors-households": household_errors(pl.concat(rows).with_columns(level))}
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
    asked = [(one, groups[one.name]) for one in run.sets]
    frames: dict[str, list[pl.DataFrame]] = {table.name: [] for table in TABLES}
    for one, own, cells in declassify_households(households, regions, asked, ledger=ledger, reason=reason):
        rows = household_rows(one, regions, own, cells, allow_negative=True)
        kept = rows.select(*KEYS, one.table.column, pl.col("COUNT").alias(TRUE))
        frames[one.table.name].append(kept)
    return {name: pl.concat(parts) for name, parts in frames.items()}


def _tables(
    plan: HouseholdPlan,
    run: HouseholdRun,
    regions: Regions,
    groups: dict[str, ListedGroups],
    households: dict[str, ConfidentialPersons],
    out: Path,
    number: int,
) -> dict[str, pl.DataFrame]:
    """Tables of the release (number 0), or of a run like it."""
    if not number:
        stem = run.run.lower()
        return {table.name: read_published(out / f"{table.name}-{stem}.parquet") for table in TABLES}
    noise = NoiseSource(insecure_key(f"SafeTab-H evaluation {number}"))
    measurer = HouseholdMeasurer(households, regions, noise)
    return tables_of_households(plan, run, regions, groups, measurer)


def _compared(frame: pl.DataFrame, truth: pl.DataFrame, name: str) -> pl.DataFrame:
    """Published rows beside the truth, the households of their group, and how many measured cells each sums."""
    table = next(table for table in TABLES if table.name == name)
    parts = [
        (detail.folder, str(cell), len(summed)) for detail in table.details for cell, summed in detail.sums
    ]
    sums = pl.DataFrame(parts, schema=["TABLE", table.column, "PARTS"], orient="row")
    of_group = truth.filter(pl.col(table.column) == "0").select(*KEYS, pl.col(TRUE).alias("TOTAL"))
    joined = frame.join(truth, on=[*KEYS, table.column], how="left").join(of_group, on=KEYS, how="left")
    wide = joined.join(sums, on=["TABLE", table.column], how="left").drop(table.column)
    return wide.with_columns(pl.lit(name.upper()).alias("TABLE"))
