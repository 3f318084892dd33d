"""Derives again what a finished release of population groups says of its plan, its expected errors and its tables."""

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.arrays import Floats, Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import validated
from tallyveil.files.finished import PLAN, require_fits
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed, read_listed_table
from tallyveil.products.safetab.public.config import GEOGRAPHIES, LEVELS, SafetabConfig
from tallyveil.products.safetab.public.estimates import Method, estimator_of
from tallyveil.products.safetab.public.expected import expected_errors, expected_household_errors
from tallyveil.products.safetab.public.group_numbers import (
    METHODS,
    QUALITY_COLUMNS,
    Worth,
    methods_of,
    total_only_worth,
    worth_of,
)
from tallyveil.products.safetab.public.group_plan import (
    GroupPlan,
    MappedLevel,
    StatedGroupLevel,
    StatedGroupPlan,
    ladder_of,
    mapped_level,
)
from tallyveil.products.safetab.public.group_totals import KEYS
from tallyveil.products.safetab.public.groupings import Grouping, group_list
from tallyveil.products.safetab.public.household_tables import (
    check_household_tables,
    quality_of_sum,
    read_household_text,
)
from tallyveil.products.safetab.public.households import TABLES as HOUSEHOLD_TABLES
from tallyveil.products.safetab.public.households import (
    HouseholdTable,
    NoisyHouseholdSet,
    StatedHouseholdPlan,
    StatedHouseholdRun,
    accuracy_of,
    event_of_runs,
    event_of_sets,
    law_of_share,
)
from tallyveil.products.safetab.public.iterations import Detailing, Iteration, IterationFiles, Membership
from tallyveil.products.safetab.public.levels import NEIGHBOURS, Ladder, level_laws
from tallyveil.products.safetab.public.plan import RunPlan, SafetabPlan, StatedSafetabPlan, make_plan
from tallyveil.products.safetab.public.plan_record import level_errors
from tallyveil.products.safetab.public.tables import (
    ANY,
    TABLES,
    OutputCheck,
    check_group_tables,
    check_outputs,
    group_table_paths,
    read_text_table,
    require_passed,
)
from tallyveil.storage.json_files import Json


def require_tables(root: Path, manifest: Manifest) -> Json:
    """Hold the plan to the ledger, and the tables to the plan.

    Returns:
        What `expected.json` of the release should hold, by its plan.
    Raises:
        StoreError, SolverError, SchemaError, BudgetError: the plan is none of a run, or gives another event than the
            ledger shows; a sum or a label of a table is wrong, its two forms differ, or the manifest names other checks
            or sizes.
    """
    expected: Json = json.loads(json.dumps(_OF_KIND[manifest.kind](root, manifest)))
    return expected


def _require_spend(root: Path, event: PrivacyEvent, declared: Fraction) -> None:
    """Hold the ledger to the event and the budget that a plan gives."""
    declaration, entries = read_ledger(root / LEDGER)
    spent = next(entry.event for entry in entries if entry.kind == "spend")
    require_fits(spent == event, "the ledger shows another event than the plan gives")
    require_fits(
        declaration.neighbours is NEIGHBOURS, "the ledger has other neighbours than population groups have"
    )
    require_fits(declaration.total == declared, "the ledger declares another budget than the plan")


def _require_checks(manifest: Manifest, checks: Sequence[OutputCheck]) -> None:
    require_passed(tuple(checks))
    require_fits(manifest.checks == tuple(check.name for check in checks), "the manifest names other checks")


def _require_text(text: pl.DataFrame, frame: pl.DataFrame, what: str) -> None:
    same = text.equals(frame.select(column.cast(text.schema[column.name]) for column in frame))
    require_fits(same, f"{what} differs between its text and its Parquet file")


def _require_rows(stated: Mapping[str, Any], name: str, rows: int, place: str) -> None:
    require_fits(stated.get(name) == rows, f"sizes.{place}.{name} is not {rows:,}")


# ---- Persons --------------------------------------------------------------------------------------------------------


def _persons(root: Path, manifest: Manifest) -> Any:
    stated: Any = read_listed(root, manifest, PLAN, StatedSafetabPlan)
    plan = plan_of(stated)
    require_fits(
        plan.to_mapping() == stated, "plan.json states what does not follow from its config and its codes"
    )
    _require_spend(root, plan.event(), max(run.budget for run in plan.runs))
    _require_checks(manifest, check_outputs(root, plan))
    for run in plan.runs:
        frames = {
            name: read_listed_table(root, manifest, f"{name}-{run.run.lower()}.parquet") for name in TABLES
        }
        for name, columns in TABLES.items():
            text = read_text_table(root, run.run, name)
            _require_text(text, frames[name].select(columns), f"{name} of {run.run}")
            _require_rows(manifest.body["sizes"][run.run], f"{name}_rows", text.height, run.run)
        _require_variances_of_sums(plan, run, frames["t1"], frames["t2"])
    return expected_errors(plan)


def _require_variances_of_sums(plan: SafetabPlan, run: RunPlan, t1: pl.DataFrame, t2: pl.DataFrame) -> None:
    """Variances follow from the details, which T1 names, but for regions that have the numbers of another one."""
    levels = {iteration.code: iteration.level for iteration in plan.files.iterations}
    laws = [
        (level_set.geography, level_set.level, name, ladder.n_cells(detail), law.variance_float())
        for level_set in run.sets
        for ladder in (level_set.ladder,)
        for detail, name in enumerate(ladder.names)
        for law in (level_set.total_only if detail == ladder.total_only else level_set.stage_2,)
    ]
    known = pl.DataFrame(laws, schema=["REGION_TYPE", "level", "DETAIL", "cells", "variance"], orient="row")
    level = pl.col("ITERATION_CODE").replace_strict(levels, return_dtype=pl.Int64).alias("level")
    groups = t1.filter(pl.col("SAME_AS") == "").with_columns(level)
    groups = groups.join(known, on=["REGION_TYPE", "level", "DETAIL"], how="left")
    # A sex has half of the cells.
    parts = pl.when(pl.col("AGESTART") == ANY).then(pl.col("cells") / 2).otherwise(1)
    of_cells = t2.join(groups.select(*KEYS, "cells", "variance"), on=KEYS, how="inner").with_columns(
        parts=parts
    )
    for name, frame, cells in (("t1", groups, pl.col("cells")), ("t2", of_cells, pl.col("parts"))):
        # A null, of a detail that no level has, is another variance, too.
        other = frame.filter(
            ((pl.col("VARIANCE") / (cells * pl.col("variance")) - 1).abs() > 1e-9).fill_null(True)
        )
        require_fits(other.is_empty(), f"{name} of {run.run} has another variance than the plan gives")


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


# ---- Households -----------------------------------------------------------------------------------------------------


def _households(root: Path, manifest: Manifest) -> Any:
    """The plan does not list the iterations, so that the number of a household's groups is taken as it is stated."""
    content: Any = read_listed(root, manifest, PLAN, StatedHouseholdPlan)
    plan = validated(StatedHouseholdPlan, content)
    sets = {name: _noisy_sets(run, plan.mechanism, name) for name, run in plan.runs}
    event = event_of_runs([event_of_sets(of_run) for of_run in sets.values()])
    _require_spend(root, event, max(run.budget for _, run in plan.runs))
    iterations = {iteration for _, iteration in plan.mapping}
    checks: list[OutputCheck] = []
    for name, of_run in sets.items():
        sizes = manifest.body["sizes"][name]
        require_fits(
            list(sizes["groups"]) == [household_set.name for household_set in of_run],
            f"sizes.{name} is of other sets than the plan",
        )
        for table in HOUSEHOLD_TABLES:
            frame = read_listed_table(root, manifest, f"{table.name}-{name.lower()}.parquet")
            _require_rows(sizes, f"{table.name}_rows", frame.height, name)
            require_fits(
                set(frame["ITERATION_CODE"]) <= iterations, f"{table.name} has an iteration of no code"
            )
            _require_states(frame, plan.states, table.name)
            _require_sizes(frame, table, of_run, sizes["groups"])
            _require_variances(frame, table, of_run)
            for detail in table.details:
                text = read_household_text(root, name, table, detail)
                part = frame.filter(pl.col("TABLE") == detail.folder).select(text.columns)
                _require_text(text, part, f"{detail.folder} of {name}")
            n = sum(count for key, count in sizes["groups"].items() if key.startswith(table.name))
            checks += check_household_tables(root, name, table, n, allow_negative=plan.allow_negative_counts)
    _require_checks(manifest, checks)
    return [error.to_mapping() for error in expected_household_errors(sets.items())]


def _noisy_sets(run: StatedHouseholdRun, mechanism: Mechanism, name: str) -> tuple[NoisyHouseholdSet, ...]:
    """The sets of a run with the laws that follow from their budgets; raises StoreError for a false statement."""
    sets = []
    for stated in run.sets:
        require_fits(
            stated.geography in GEOGRAPHIES[name] and stated.stability > 0, f"{PLAN} has a set of no run"
        )
        law = law_of_share(mechanism, stated.budget, stated.stability)
        fields = {field: getattr(stated, field) for field in stated.__dataclass_fields__}
        require_fits(
            fields | accuracy_of(law) == fields,
            f"{PLAN} states another accuracy of {stated.name} than its budget gives",
        )
        require_fits(
            len(stated.thresholds) == len(stated.layout.details) - 1,
            f"{PLAN} lacks a threshold of {stated.name}",
        )
        sets.append(NoisyHouseholdSet(**fields, law=law))
    require_fits(
        run.budget == sum(stated.budget for stated in run.sets),
        f"{PLAN} states another budget of {name} than its sets",
    )
    return tuple(sets)


def _require_states(frame: pl.DataFrame, states: Sequence[str], name: str) -> None:
    """The states of the plan are those of the regions in the tables."""
    # Ids of the nation and of tribal areas do not begin with a state.
    of_states = frame.filter(~pl.col("REGION_TYPE").is_in(["USA", "AIANNH"]))
    there = set(of_states["REGION_ID"].str.slice(0, 2))
    require_fits(there <= set(states), f"{name} has a region in a state that {PLAN} does not list")


def _require_sizes(
    frame: pl.DataFrame, table: HouseholdTable, sets: Sequence[NoisyHouseholdSet], sizes: Mapping[str, int]
) -> None:
    """There are as many groups of a geography as its sets list together; of which level each is, no file says."""
    groups = frame.select(KEYS).unique()
    for geography in {household_set.geography for household_set in sets}:
        listed = sum(
            sizes[household_set.name]
            for household_set in sets
            if household_set.geography == geography and household_set.table == table.name
        )
        there = groups.filter(pl.col("REGION_TYPE") == geography).height
        require_fits(listed == there, f"{table.name} has {there:,} groups at {geography}, not {listed:,}")


def _require_variances(frame: pl.DataFrame, table: HouseholdTable, sets: Sequence[NoisyHouseholdSet]) -> None:
    """Every variance is that of as many cells as the published number sums, in one of the sets of its geography."""
    known = [
        (
            detail.folder,
            str(cell),
            household_set.geography,
            quality_of_sum(household_set, len(parts)).variance,
        )
        for household_set in sets
        if household_set.table == table.name
        for detail in table.details
        for cell, parts in detail.sums
    ]
    columns = ["TABLE", table.column, "REGION_TYPE", "VARIANCE"]
    derived = pl.DataFrame(known, schema=columns, orient="row")
    require_fits(
        frame.select(columns).unique().join(derived, on=columns, how="anti").is_empty(),
        f"{table.name} states a variance that no set of the plan gives",
    )


# ---- Groups of records of any kind ----------------------------------------------------------------------------------


def _groups(root: Path, manifest: Manifest) -> Any:
    content: Any = read_listed(root, manifest, PLAN, StatedGroupPlan)
    stated = validated(StatedGroupPlan, content)
    require_fits(stated.name == manifest.body["name"], "the manifest has another name than the plan")
    delta = manifest.privacy[stated.name]["delta"]
    require_fits(
        Fraction(delta) == stated.delta, "the manifest states a guarantee at another delta than the plan"
    )
    plan = _group_plan(root, manifest, stated)
    require_fits(
        plan.to_mapping() == content,
        "plan.json states what does not follow from its groupings and its levels",
    )
    _require_spend(root, plan.event(), plan.declared)
    _require_checks(manifest, check_group_tables(root, plan))
    sizes = manifest.body["sizes"]
    require_fits(
        list(sizes) == [level.name for level in plan.levels], "sizes are of other levels than the plan"
    )
    for level in plan.levels:
        totals, cells = (read_listed_table(root, manifest, path) for path in group_table_paths(level.name))
        _require_rows(sizes[level.name], "groups", totals.height, level.name)
        _require_rows(sizes[level.name], "cells_rows", cells.height, level.name)
        _require_rows(sizes[level.name], "noisy_counts", _n_counts(totals, level), level.name)
        _require_labels(cells, level)
        _require_qualities(totals, cells, level)
    return level_errors(plan)


def _require_labels(cells: pl.DataFrame, level: MappedLevel) -> None:
    """Every table has the cells of its detail, in their order."""
    of_groups = cells.group_by(*level.by, "DETAIL", maintain_order=True).agg("CELL")
    for detail in range(1, level.ladder.total_only):
        there = of_groups.filter(pl.col("DETAIL") == level.ladder.names[detail])["CELL"].to_list()
        same = there == [level.cell_labels(detail)] * len(there)
        require_fits(same, f"a table of {level.name!a:.80} has other cells than the plan")


def _require_qualities(totals: pl.DataFrame, cells: pl.DataFrame, level: MappedLevel) -> None:
    """Variances, margins and methods follow from the published estimates, and cells are corrected as their total is.

    By how much a total is corrected follows from the noisy count that chose its detail, which is not published.
    """
    for detail, name in enumerate(level.ladder.names):
        groups = totals.filter(pl.col("DETAIL") == name)
        if not groups.height:
            continue
        if detail == level.ladder.total_only:
            measured = np.full(groups.height, Method.MEASURED, np.int64)
            _require_numbers(groups, total_only_worth(level, 1), groups["COUNT"].to_numpy(), measured)
            continue
        n = level.ladder.n_cells(detail)
        estimator = estimator_of(n, level.stage_1, level.stage_2, *level.bounds(detail))
        estimates = groups["ESTIMATE"].to_numpy()
        _require_numbers(
            groups, worth_of(estimator, estimates, n), estimates, methods_of(estimator, estimates)
        )
        if not detail:
            continue
        of_group = groups.select(*level.by, corrected="ESTIMATE", total="COUNT")
        how: Any = (
            {"on": list(level.by), "how": "left", "maintain_order": "left"} if level.by else {"how": "cross"}
        )
        of_cells = cells.filter(pl.col("DETAIL") == name).join(of_group, **how)
        corrected = of_cells["corrected"].to_numpy()
        # The correction of a total is divided equally over its cells.
        estimates = (of_cells["COUNT"] + (of_cells["corrected"] - of_cells["total"]) / n).to_numpy()
        worth = worth_of(estimator, corrected, 1)
        _require_numbers(of_cells, worth, estimates, methods_of(estimator, corrected))


def _require_numbers(frame: pl.DataFrame, worth: Worth, estimates: Floats, methods: Integers) -> None:
    """Hold the columns of quality of a table to what follows."""
    measured, variances, margins = worth
    derived = (measured.variance, measured.margin, estimates, variances, margins)
    for name, values in zip(QUALITY_COLUMNS, derived, strict=False):
        # The last digits of a float may differ between machines.
        same = np.allclose(frame[name].to_numpy(), values, rtol=1e-9, atol=1e-9)
        require_fits(same, f"{name} of a table is not what follows")
    said = [METHODS[method] for method in methods]
    require_fits(frame["METHOD"].to_list() == said, "METHOD of a table is not what follows")


def _n_counts(totals: pl.DataFrame, level: MappedLevel) -> int:
    """How many noisy counts the groups have: a total that chose the detail, unless there is none, and its numbers."""
    names = level.ladder.names
    counted = [
        level.ladder.n_cells(detail) + (detail != level.ladder.total_only) for detail in range(len(names))
    ]
    of_detail = dict(zip(names, counted, strict=True))
    return int(totals["DETAIL"].replace_strict(of_detail, return_dtype=pl.Int64).sum())


def _group_plan(root: Path, manifest: Manifest, stated: StatedGroupPlan) -> GroupPlan:
    """The plan made again from its groupings, its levels, and the groups that the tables show to be total-only."""
    groupings = {grouping.name: grouping for grouping in stated.groupings}
    levels = []
    for number, level in enumerate(stated.levels):
        require_fits(
            set(level.by) <= groupings.keys(), f"{PLAN} has a level by a grouping that it does not list"
        )
        ladder = ladder_of(stated.schema, level.details[1:-1])
        require_fits(
            len(level.thresholds) == len(ladder.tables),
            f"{PLAN} lacks a threshold of level {level.name!a:.80}",
        )
        levels.append(_level(root, manifest, (number, level), groupings, ladder, stated))
    fields = {field: getattr(stated, field) for field in stated.__dataclass_fields__}
    spent = sum((level.budget for level in levels), Fraction(0))
    return GroupPlan(**fields | {"levels": tuple(levels), "spent": spent})


def _level(
    root: Path,
    manifest: Manifest,
    numbered: tuple[int, StatedGroupLevel],
    groupings: Mapping[str, Grouping],
    ladder: Ladder,
    plan: StatedGroupPlan,
) -> MappedLevel:
    number, level = numbered
    rows = groupings[level.noise.geounit] if level.noise.geounit is not None else None
    within = [groupings[name] for name in level.by if name != level.noise.geounit]
    listed = group_list(within, _total_only(root, manifest, level, within), rows)
    require_fits(
        0 < level.stability <= listed.most, f"no record can be in {level.stability} groups of a level"
    )
    laws = level_laws(plan.mechanism, level.budget, level.stability, plan.stage_1_fraction, level.name)
    return mapped_level(
        level.name,
        number,
        level.noise,
        listed,
        ladder,
        laws,
        budget=level.budget,
        thresholds=level.thresholds,
        stability=level.stability,
    )


def _total_only(
    root: Path, manifest: Manifest, level: StatedGroupLevel, within: Sequence[Grouping]
) -> NDArray[np.bool_]:
    """Which combinations of groupings are total-only, by the published totals."""
    totals = read_listed_table(root, manifest, group_table_paths(level.name)[0])
    names = [grouping.name for grouping in within]
    only = totals.filter(pl.col("DETAIL") == level.details[-1]).select(names).unique()
    places = []
    for grouping in within:
        known = {label: place for place, label in enumerate(grouping.groups)}
        require_fits(
            set(only[grouping.name]) <= known.keys(),
            f"a table has a label that {grouping.name!a:.80} does not list",
        )
        places.append([known[label] for label in only[grouping.name]])
    which = np.zeros([len(grouping.groups) for grouping in within], np.bool_)
    # Without groupings there is one group, of which the table has one row.
    which[tuple(places)] = True if within else level.total_only_groups > 0
    return which


_OF_KIND: Final[Mapping[ReleaseKind, Callable[[Path, Manifest], Any]]] = {
    ReleaseKind.SAFETAB: _persons,
    ReleaseKind.HOUSEHOLDS: _households,
    ReleaseKind.GROUPS: _groups,
}
"""What holds the tables of a kind to its plan, and returns the expected errors."""
