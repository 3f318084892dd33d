"""Compare a release of population groups, and simulated runs like it, with the truth. It declassifies records."""

from pathlib import Path

import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.errors import StoreError
from tallyveil.files.declassified import mark_declassified
from tallyveil.files.evaluation.store import PARAMETERS, write_errors
from tallyveil.files.finished import LEDGER
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_manifest, require_unchanged
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential.declassify import declassify_levels
from tallyveil.products.safetab.confidential.group_records import RecordGroups, read_group_records
from tallyveil.products.safetab.confidential.measure import GroupMeasurer
from tallyveil.products.safetab.public.evaluation import level_cell_errors, level_total_errors
from tallyveil.products.safetab.public.group_plan import GroupPlan, MappedLevel
from tallyveil.products.safetab.public.group_tables import group_table_paths, read_group_tables
from tallyveil.products.safetab.public.true_levels import TrueLevel
from tallyveil.products.safetab.run.groups import groups_declaration, tables_of_level
from tallyveil.products.safetab.run.job import parameter_table
from tallyveil.storage.paths import inside

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
            of_totals, of_cells = _compared(records_read, truth, out, repeats)
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
    for path in [path for level in plan.levels for path in group_table_paths(level)]:
        require_unchanged(out, manifest, inside(out, *path.split("/")))
    return manifest


def group_parameters(plan: GroupPlan) -> pl.DataFrame:
    """What the noise of each level costs by itself, and that of all levels together."""
    costs = [*((level.name, level.budget) for level in plan.levels), (ALL_LEVELS, plan.spent)]
    return parameter_table(plan.mechanism, costs)


def _compared(
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
