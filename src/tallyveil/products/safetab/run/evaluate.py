"""Compare releases of SafeTab, and simulated runs like them, with the true counts.

These jobs declassify records. There is one for SafeTab, one for SafeTab-H, and one for population groups in
records of any kind.
"""

from itertools import chain
from pathlib import Path

import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.errors import StoreError
from tallyveil.files.declassified import mark_declassified
from tallyveil.files.evaluation import PARAMETERS, write_errors
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed_table, read_manifest, require_unchanged
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential.declassify import (
    declassify_groups,
    declassify_households,
    declassify_levels,
)
from tallyveil.products.safetab.confidential.group_records import RecordGroups, read_group_records
from tallyveil.products.safetab.confidential.measure import GroupMeasurer, HouseholdMeasurer, read_households
from tallyveil.products.safetab.confidential.records import ConfidentialPersons
from tallyveil.products.safetab.public.evaluation import (
    CELL_KEYS,
    LEVEL,
    T1_KEYS,
    TRUE,
    TrueGroups,
    TrueLevel,
    cell_errors,
    household_errors,
    level_cell_errors,
    level_total_errors,
    size_of,
    total_errors,
    true_tables,
    true_totals,
    with_truth,
)
from tallyveil.products.safetab.public.group_plan import GroupPlan, MappedLevel
from tallyveil.products.safetab.public.group_totals import KEYS
from tallyveil.products.safetab.public.household_tables import (
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
from tallyveil.products.safetab.public.plan import RunPlan, coterminous_once
from tallyveil.products.safetab.public.regions import Regions, read_regions, tabulate_all, tabulate_once
from tallyveil.products.safetab.public.tables import group_table_paths, read_group_tables
from tallyveil.products.safetab.run.groups import groups_declaration, tables_of_level
from tallyveil.products.safetab.run.households import groups_of, tables_of_households
from tallyveil.products.safetab.run.run import (
    SafetabInputs,
    declaration_of,
    measurer_of,
    parameter_table,
    read_safetab_inputs,
    run_parameters,
    tables_of,
)
from tallyveil.runs.key_file import binding_of
from tallyveil.storage.paths import inside

Truth = list[tuple[pl.DataFrame, TrueGroups]]


def evaluate_safetab(params: Path, data: Path, out: Path, *, repeats: int = 0) -> dict[str, pl.DataFrame]:
    """Errors of a SafeTab release against the true counts, together with those of repeated runs with test keys.

    Args:
        params, data: The folders that the release was made from.
        out: Its folder.
        repeats: Number of further runs. Their keys are public, and their errors are pooled with those of the release.
    Returns:
        Tables "errors-t1" and "errors-t2", and the privacy parameters of the noise. They and the true tables are also
        written to the folder `evaluation`.
    Raises:
        StoreError: the folder holds no finished SafeTab release that was made with these parameters.
    Privacy: none. Before records are compared, the ledger of the release gets a non-private event for every run.
    """
    inputs = read_safetab_inputs(params, data)
    manifest = read_manifest(out, ReleaseKind.SAFETAB)
    once = coterminous_once(inputs.plan, manifest.plan_digest, out)
    # The whole release is read before the ledger says that records were compared with it.
    released = {run.run: _released(out, manifest, run) for run in inputs.plan.runs}
    t1_rows, t2_rows, groups, tables = [], [], [], {}
    with Ledger(out / LEDGER, declaration_of(inputs.plan), manifest.run) as ledger:
        for run in inputs.plan.runs:
            regions = inputs.regions[run.run]
            reason = f"true counts of the {run.run} run compared with the release; the results reveal them"
            declassified = declassify_groups(
                inputs.persons[run.run], regions, run.sets, ledger=ledger, reason=reason
            )
            # The folder says so, too, before anything is computed; whoever finds it later sees that records
            # were compared.
            mark_declassified(out, ledger.entries)
            # Generated now, after the entry and the mark are on disk: a process killed in between has shown
            # no true count.
            truth: Truth = [(true_totals(level_set, regions, true), true) for level_set, true in declassified]
            groups.append(_group_numbers(run, regions, truth))
            stem = run.run.lower()
            totals = pl.concat(frame for frame, _ in truth)
            tables[f"truth-t1-{stem}"] = totals
            # The release itself is the first of the runs whose errors are pooled.
            for published in [released[run.run], *_repeated(inputs, run, repeats, once=once)]:
                t1, t2 = _with_truth(published, truth, totals)
                t1_rows.append(t1)
                t2_rows.append(t2)
    levels = _levels(inputs)
    errors = {
        "errors-t1": total_errors(pl.concat(t1_rows).with_columns(levels), pl.concat(groups), 1 + repeats),
        "errors-t2": cell_errors(pl.concat(t2_rows).with_columns(levels)),
        PARAMETERS: run_parameters(inputs.plan.config.mechanism, inputs.plan.runs),
    }
    write_errors(out, errors | tables, {"run": manifest.run, "runs": 1 + repeats})
    return errors


def _released(out: Path, manifest: Manifest, run: RunPlan) -> tuple[pl.DataFrame, pl.DataFrame]:
    """T1 and T2 of the release."""
    t1, t2 = (
        read_listed_table(out, manifest, f"{table}-{run.run.lower()}.parquet") for table in ("t1", "t2")
    )
    return t1, t2


def _repeated(
    inputs: SafetabInputs, run: RunPlan, repeats: int, *, once: bool
) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """T1 and T2 of the repeated runs."""
    tables = []
    regions = inputs.regions[run.run]
    tabulation = (tabulate_once if once else tabulate_all)(run.sets, regions)
    for number in range(repeats):
        # A public key for each number: these runs can be repeated by anybody, protect nobody and are never
        # published.
        noise = NoiseSource(insecure_key(f"SafeTab evaluation {number}"))
        measurer = measurer_of(inputs, run.run, noise)
        t1, t2, _ = tables_of(run, inputs.plan, regions, measurer, tabulation)
        tables.append((t1, t2))
    return tables


def _with_truth(
    published: tuple[pl.DataFrame, pl.DataFrame], truth: Truth, totals: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    t1, t2 = published
    # The detail of each group is that of this run, since each run chooses its own.
    cells = [true_tables(frame, groups, t1) for frame, groups in truth]
    of_group = totals.rename({TRUE: "TOTAL"})
    compared = with_truth(t2, cells, CELL_KEYS).join(of_group, on=T1_KEYS, how="left", maintain_order="left")
    # A group that is published and has no true row is empty, so its true total is 0.
    return with_truth(t1, [totals], T1_KEYS), compared.with_columns(pl.col("TOTAL").fill_null(0))


def _levels(inputs: SafetabInputs) -> pl.Expr:
    levels = {iteration.code: iteration.level for iteration in inputs.plan.files.iterations}
    return pl.col("ITERATION_CODE").replace_strict(levels, return_dtype=pl.Int64).alias(LEVEL)


def _group_numbers(run: RunPlan, regions: Regions, truth: Truth) -> pl.DataFrame:
    """How many groups of the public product there are in every class of true size."""
    frames = []
    for level_set, (_, groups) in zip(run.sets, truth, strict=True):
        only = groups.iterations >= level_set.view.n_adaptive
        for total_only in (False, True):
            n = (
                len(level_set.view.iterations) - level_set.view.n_adaptive
                if total_only
                else level_set.view.n_adaptive
            )
            # A level below the state has no total-only groups.
            if not n:
                continue
            totals = pl.Series("TRUE", groups.totals[only == total_only])
            # Empty groups are most of the product and are counted, never listed.
            empty = n * len(regions.ids[level_set.geography]) - len(totals)
            sizes = pl.DataFrame([totals]).select(size_of(pl.col("TRUE")).alias("SIZE"))
            sizes = sizes.group_by("SIZE").agg(pl.len().cast(pl.Int64).alias("groups"))
            sizes = pl.concat([sizes, pl.DataFrame({"SIZE": ["0"], "groups": [empty]})])
            frames.append(
                sizes.select(
                    pl.lit(level_set.geography).alias("REGION_TYPE"),
                    pl.lit(level_set.level).cast(pl.Int64).alias(LEVEL),
                    pl.lit(value=total_only).alias("TOTAL_ONLY"),
                    "SIZE",
                    "groups",
                )
            )
    return pl.concat(frames)


ALL_LEVELS = "all levels"
"""Name of the row of privacy parameters that is about the whole release."""


def evaluate_groups(
    plan: GroupPlan, records: Path, out: Path, *, repeats: int = 0
) -> dict[str, pl.DataFrame]:
    """Errors of a release of population groups, together with those of repeated runs with test keys.

    Args:
        plan: The plan that the release was made with.
        records: The records that it was made from.
        out: Its folder.
        repeats: Number of further runs. Their keys are public, and their errors are pooled with those of the release.
    Returns:
        Tables "errors-totals" and "errors-cells", and the privacy parameters of the noise. They and the true totals are
        also written to the folder `evaluation`.
    Raises:
        StoreError: the folder holds no finished release that was made with this plan.
    Privacy: none. Before records are compared, the ledger of the release gets a non-private event.
    """
    # Before the records are read: the plan, and the tables as they were written.
    manifest = require_groups_release(plan, out)
    records_read = read_group_records(records, plan)
    totals, cells, truths = [], [], {}
    reason = "true counts compared with the release; the results reveal them"
    with Ledger(out / LEDGER, groups_declaration(plan), manifest.run) as ledger:
        true_levels = declassify_levels(records_read, plan.levels, ledger=ledger, reason=reason)
        # Entry and mark come before the first true count; `true_levels` is a generator that has not yet
        # begun.
        mark_declassified(out, ledger.entries)
        # One level at a time: the finest tables of all levels may not fit in memory together.
        for truth in true_levels:
            of_totals, of_cells = _compared_groups(records_read, truth, out, repeats)
            totals.append(of_totals)
            cells.append(of_cells)
            truths[f"truth-{truth.level.name}"] = truth.table()
    # All levels have the same ladder.
    levels, details = [level.name for level in plan.levels], plan.levels[0].ladder.names
    errors = {
        "errors-totals": level_total_errors(pl.concat(totals), levels, details, 1 + repeats),
        "errors-cells": level_cell_errors(pl.concat(cells), levels),
        PARAMETERS: group_parameters(plan),
    }
    write_errors(out, errors | truths, {"run": manifest.run, "runs": 1 + repeats})
    return errors


def require_groups_release(plan: GroupPlan, out: Path) -> Manifest:
    """The manifest of a finished release that was made with a plan, and whose tables are as they were written.

    Raises:
        StoreError: the folder holds no such release, or a table is missing or was changed.
    """
    manifest = read_manifest(out, ReleaseKind.GROUPS)
    if manifest.plan_digest != plan.digest().hex():
        raise StoreError(
            f"{out} holds a release of population groups that was made with another file, or with other public tables "
            "of groups. Name the file that it was made with.",
            code="no-release",
        )
    for path in [path for level in plan.levels for path in group_table_paths(level.name)]:
        require_unchanged(out, manifest, inside(out, *path.split("/")))
    return manifest


def group_parameters(plan: GroupPlan) -> pl.DataFrame:
    """What the noise of each level costs by itself, and that of all levels together."""
    costs = [*((level.name, level.budget) for level in plan.levels), (ALL_LEVELS, plan.spent)]
    return parameter_table(plan.mechanism, costs)


def _compared_groups(
    records: RecordGroups, truth: TrueLevel, out: Path, repeats: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Totals and cells of the release and of the repeated runs, beside the true ones, at one level."""
    totals, cells = [], []
    # Number 0 is the release; the others have public keys made from their numbers.
    for number in range(1 + repeats):
        tables = _tables(records, truth.level, out, number)
        totals.append(truth.beside_totals(tables[0]))
        cells.append(truth.beside_cells(tables[1]))
    level = pl.lit(truth.level.name).alias("LEVEL")
    return pl.concat(totals).with_columns(level), pl.concat(cells).with_columns(level)


def _tables(
    records: RecordGroups, level: MappedLevel, out: Path, number: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Totals and cells of the release (number 0), or of a run like it."""
    # Read as published, never tabulated again: the key of the release is gone.
    if not number:
        return read_group_tables(out, level)
    noise = NoiseSource(insecure_key(f"population groups evaluation {number}"))
    totals, cells, _ = tables_of_level(level, GroupMeasurer(records, noise))
    return totals, cells


TRUE_HOUSEHOLDS = "TRUE"
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
    declared = declaration_of(plan)
    # The whole release is read before the ledger says that records were compared with it.
    released = {run.run: _released_households(out, manifest, run) for run in plan.runs}
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
                _repeated_households(plan, run, geography, groups, households[run.run], n)
                for n in range(1, 1 + repeats)
            )
            for frames in chain([released[run.run]], repeated):
                rows += [_compared_households(frames[name], truth[name], name) for name in truth]
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
        true = rows.select(*KEYS, household_set.layout.column, pl.col("COUNT").alias(TRUE_HOUSEHOLDS))
        frames[household_set.table].append(true)
    return {name: pl.concat(parts) for name, parts in frames.items()}


def _released_households(out: Path, manifest: Manifest, run: HouseholdRun) -> dict[str, pl.DataFrame]:
    """Tables of the release."""
    stem = run.run.lower()
    return {table.name: read_listed_table(out, manifest, f"{table.name}-{stem}.parquet") for table in TABLES}


def _repeated_households(
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


def _compared_households(frame: pl.DataFrame, truth: pl.DataFrame, name: str) -> pl.DataFrame:
    """Published rows beside the true counts, with the size of the group and the number of cells in each sum."""
    table = next(table for table in TABLES if table.name == name)
    parts = [
        (detail.folder, str(cell), len(summed)) for detail in table.details for cell, summed in detail.sums
    ]
    # How many measured cells a published number sums: its noise grows with that, so errors are compared by
    # it.
    sums = pl.DataFrame(parts, schema=["TABLE", table.column, "PARTS"], orient="row")
    # Cell 0 of T3 and T4 is the total of the group.
    of_group = truth.filter(pl.col(table.column) == "0").select(*KEYS, pl.col(TRUE_HOUSEHOLDS).alias("TOTAL"))
    joined = frame.join(truth, on=[*KEYS, table.column], how="left").join(of_group, on=KEYS, how="left")
    wide = joined.join(sums, on=["TABLE", table.column], how="left").drop(table.column)
    return wide.with_columns(pl.lit(name.upper()).alias("TABLE"))
