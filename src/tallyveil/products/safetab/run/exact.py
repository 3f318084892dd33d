"""Tables without noise, to verify an implementation. They hold true counts and protect nobody.

They go through `confidential/declassify.py`, as an evaluation does: the ledger gets a non-private event before anything
is counted. There is no key and no spend. An interrupted command cannot be resumed, but the same command in a new
folder gives the same tables. The manifest has a kind of its own, so no other command mistakes the folder for a release.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.accounting.events import WITHOUT_NOISE
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import LEDGER, Declaration
from tallyveil.files.finished import MANIFEST
from tallyveil.files.manifest import MANIFEST_FORMAT, listed_file
from tallyveil.products.safetab.confidential.declassify import exact_group_measurer, exact_household_measurer
from tallyveil.products.safetab.confidential.measure import read_households
from tallyveil.products.safetab.public.household_tables import read_group_totals, write_household_tables
from tallyveil.products.safetab.public.households import TABLES, read_household_plan
from tallyveil.products.safetab.public.plan import RunPlan
from tallyveil.products.safetab.public.regions import read_regions, tabulate_all
from tallyveil.products.safetab.public.tables import write_headers, write_tables
from tallyveil.products.safetab.run.households import groups_of, tables_of_households
from tallyveil.products.safetab.run.run import declaration_of, read_safetab_inputs, tables_of
from tallyveil.storage.outputs import refuse_taken
from tallyveil.storage.write import write_json
from tallyveil.version import VERSION

WARNING: Final = (
    "NOT PRIVATE: tabulated without noise. These are the true counts; they protect nobody and must not "
    "be published."
)
RUN: Final = "without-noise"
_TAGS: Final = {"run": RUN, "protected": "false: the true counts, without noise", "warning": WARNING}


def tabulate_exactly(params: Path, data: Path, out: Path) -> dict[str, Any]:
    """Write T1 and T2 without noise: true counts in the detail, suppression and layout of a run.

    Args:
        params, data: As in `run_safetab`. The budgets decide only which groups are tabulated.
        out: A folder that does not exist or is empty.
    Returns:
        The manifest.
    Raises:
        TallyveilError: an input is wrong, or the folder is not empty.
    Privacy: none. The ledger gets a non-private event first, and every file with metadata is marked as unprotected.
    """
    refuse_taken(out, "tables without noise")
    inputs = read_safetab_inputs(params, data)
    sizes = {}
    with _ledger(out, declaration_of(inputs.plan)) as ledger:
        for run in inputs.plan.runs:
            regions = inputs.regions[run.run]
            source = exact_group_measurer(
                inputs.persons[run.run], regions, ledger=ledger, reason=WITHOUT_NOISE.reason
            )
            # Thresholds stay: detail and suppression are those of a run, applied to the true counts.
            exact = _without_bounds(run)
            # Every region by itself, as production does; without noise, twins would be equal anyway.
            tabulation = tabulate_all(exact.sets, regions)
            t1, t2, _ = tables_of(exact, inputs.plan, regions, source, tabulation, exact=True)
            write_tables(out, run.run, t1, t2, _TAGS)
            sizes[run.run] = {"t1_rows": t1.height, "t2_rows": t2.height}
    # The manifest comes last: a folder without one is not finished.
    write_headers(out)
    return _finish(out, "safetab-without-noise", sizes)


def tabulate_households_exactly(
    params: Path, data: Path, out: Path, *, published: Path | None = None
) -> dict[str, Any]:
    """Write T3 and T4 without noise, in the detail that a T1 chooses.

    Args:
        params, data: As in `run_households`.
        out: A folder that does not exist or is empty.
        published: Folder of the T1 that chooses the detail, with or without noise; None for `pop-group-totals`.
    Returns:
        The manifest.
    Raises:
        TallyveilError: an input is wrong, or the folder is not empty.
    Privacy: none, as for `tabulate_exactly`.
    """
    refuse_taken(out, "tables without noise")
    plan = read_household_plan(params)
    regions = read_regions(data, plan.config)
    totals = read_group_totals(data, published, plan)
    groups = {run.run: groups_of(run, totals, regions[run.run]) for run in plan.runs}
    households = read_households(data, plan, regions)
    declared = declaration_of(plan)
    sizes = {}
    with _ledger(out, declared) as ledger:
        for run in plan.runs:
            geography = regions[run.run]
            source = exact_household_measurer(
                households[run.run], geography, ledger=ledger, reason=WITHOUT_NOISE.reason
            )
            frames = tables_of_households(plan, run, geography, groups[run.run], source)
            for table in TABLES:
                # Without noise nothing is uncertain.
                marks = {name: pl.lit(0.0) for name in ("VARIANCE", "MARGIN")}
                frame = frames[table.name].with_columns(**marks)
                write_household_tables(out, run.run, table, frame, _TAGS)
            sizes[run.run] = {f"{table.name}_rows": frames[table.name].height for table in TABLES}
    return _finish(out, "safetab-households-without-noise", sizes)


def _ledger(out: Path, declared: Declaration) -> Ledger:
    # The ledger is the first file of the folder, and its entry the first write.
    out.mkdir(parents=True, exist_ok=True)
    return Ledger(out / LEDGER, declared, RUN)


def _without_bounds(run: RunPlan) -> RunPlan:
    """The run with suppression bound 0: below the state a total is published if it is above 0."""
    sets = (
        replace(level_set, keep_above=None if level_set.keep_above is None else 0) for level_set in run.sets
    )
    return replace(run, sets=tuple(sets))


def _finish(out: Path, kind: str, sizes: dict[str, Any]) -> dict[str, Any]:
    # The ledger is left out, because an evaluation may add to it later.
    files = sorted(path for path in out.rglob("*") if path.is_file() and path != out / LEDGER)
    manifest: dict[str, Any] = {
        "format": MANIFEST_FORMAT,
        "kind": kind,
        "run": RUN,
        "protected": False,
        "warnings": [WARNING],
        "tallyveil": [VERSION],
        "body": {"sizes": sizes},
        "files": [asdict(listed_file(out, path.relative_to(out).as_posix())) for path in files],
    }
    write_json(out / MANIFEST, manifest)
    return manifest
