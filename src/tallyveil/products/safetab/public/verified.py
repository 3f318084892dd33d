"""Derives again what a finished release of population groups in the Census layout says of its plan and its tables."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.budget.strategy import Mechanism
from tallyveil.files.finished import LEDGER, PLAN, require_fits
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed, read_listed_table
from tallyveil.products.safetab.public.config import GEOGRAPHIES, LEVELS, SafetabConfig
from tallyveil.products.safetab.public.expected import expected_errors
from tallyveil.products.safetab.public.iterations import Detailing, Iteration, IterationFiles, Membership
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan import SafetabPlan, StatedSafetabPlan, make_plan
from tallyveil.products.safetab.public.tables import TABLES, check_outputs, read_text_table, require_passed


def require_tables(root: Path, manifest: Manifest) -> None:
    """Hold the plan to the ledger, and the tables to the plan.

    Raises:
        StoreError, SolverError, SchemaError, BudgetError: the plan is none of a run, or gives another event than the
            ledger shows; a sum or a label of a table is wrong, its two forms differ, or the manifest names other checks
            or sizes.
    """
    stated: Any = read_listed(root, manifest, PLAN, StatedSafetabPlan)
    plan = plan_of(stated)
    require_fits(
        plan.to_mapping() == stated, "plan.json states what does not follow from its config and its codes"
    )
    declaration, entries = read_ledger(root / LEDGER)
    event = next(entry.event for entry in entries if entry.kind == "spend")
    require_fits(event == plan.event(), "the ledger shows another event than the plan gives")
    require_fits(
        declaration.neighbours is NEIGHBOURS, "the ledger has other neighbours than population groups have"
    )
    require_fits(
        declaration.total == max(run.budget for run in plan.runs),
        "the ledger declares another budget than the plan",
    )
    checks = check_outputs(root, plan)
    require_passed(checks)
    require_fits(manifest.checks == tuple(check.name for check in checks), "the manifest names other checks")
    for run in plan.runs:
        for name, columns in TABLES.items():
            text = read_text_table(root, run.run, name)
            frame = read_listed_table(root, manifest, f"{name}-{run.run.lower()}.parquet").select(columns)
            same = text.equals(frame.select(column.cast(text.schema[column.name]) for column in frame))
            require_fits(same, f"{name} of {run.run} differs between its text and its Parquet file")
            rows = manifest.body["sizes"][run.run][f"{name}_rows"]
            require_fits(rows == text.height, f"sizes.{run.run}.{name}_rows is not {text.height:,}")


def derived_expected(root: Path, manifest: Manifest) -> dict[str, Any]:
    """What `expected.json` of a release should hold, by its plan; raises as `require_tables`."""
    stated: Any = read_listed(root, manifest, PLAN, StatedSafetabPlan)
    return expected_errors(plan_of(stated))


def plan_of(stated: Mapping[str, Any]) -> SafetabPlan:
    """The plan that a release states, made again from its config and its code files.

    Raises:
        StoreError, SchemaError, BudgetError: no plan can be made of it.
    """
    sets = {
        (item["geography"], item["level"]): item for run in stated["runs"].values() for item in run["sets"]
    }
    # A geography and level that is not tabulated has no budget, and its thresholds are never looked at.
    keys = [
        (geography, level) for run in stated["runs"] for geography in GEOGRAPHIES[run] for level in LEVELS
    ]
    codes, known = set(stated["codes"]), {code for code, *_ in stated["iterations"]}
    fits = all(code in codes and iteration in known for code, iteration in stated["mapping"])
    require_fits(fits, f"{PLAN} maps a code or to an iteration that it does not list")
    # The number of the cuts between four details.
    fits = all(len(item["thresholds"]) == 3 for item in sets.values())
    require_fits(fits, f"{PLAN} has a level without its three thresholds")
    chance = stated["zero_suppression_chance"]
    config = SafetabConfig(
        max_race_codes=stated["max_race_codes"],
        mechanism=Mechanism(stated["mechanism"]),
        stage_1_fraction=Fraction(stated["stage_1_fraction"]),
        budgets={key: Fraction(sets[key]["budget"]) if key in sets else Fraction(0) for key in keys},
        thresholds={key: tuple(sets[key]["thresholds"]) if key in sets else (0, 0, 0) for key in keys},
        suppression=None if chance is None else Fraction(chance),
        allow_negative=stated["allow_negative_counts"],
        runs=tuple(stated["runs"]),
        states=tuple(stated["states"]),
    )
    iterations = tuple(
        Iteration(code, name, level, Membership(membership), Detailing(detailing))
        for code, name, level, membership, detailing in stated["iterations"]
    )
    mapping = tuple((code, iteration) for code, iteration in stated["mapping"])
    return make_plan(config, IterationFiles(tuple(stated["codes"]), iterations, mapping))
