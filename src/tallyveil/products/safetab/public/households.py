"""The public half of SafeTab-H: tables T3 (household type) and T4 (tenure) of the groups that a published T1 lists.

The detail of a group of households follows from its published T1 count, which costs no privacy. Each of the two tables
is then measured with its own budget. A household is in the groups of its householder's codes.

    T3  household type: 1 married couple, 2 and 3 other family (male, female householder), 4 living alone,
        5 not living alone (nonfamily)
        T03001 total; T03002 family or not; T03003 four cells; T03004 all five
    T4  tenure: 1 owned with a mortgage, 2 owned clear, 3 and 4 rented (with and without payment)
        T04001 total; T04002 three cells

Every table shows its measured cells and their sums, including the total, as the production code does.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import (
    ByName,
    Declared,
    Exact,
    Flag,
    Format1,
    Many,
    Number,
    Text,
    Whole,
    mapping_of,
)
from tallyveil.errors import BudgetError, SchemaError
from tallyveil.noise.laws import Law
from tallyveil.products.safetab.public.config import (
    GEOGRAPHIES,
    LEVELS,
    MOST_CODES,
    NATIONWIDE,
    ConfigReading,
    Level,
    SafetabConfig,
    read_values,
)
from tallyveil.products.safetab.public.files import (
    BLOCK,
    RECORD_CODES,
    FileFormat,
    digit_of,
    race_summary,
)
from tallyveil.products.safetab.public.iterations import (
    IterationFiles,
    Stability,
    View,
    read_iterations,
    stability_of,
)
from tallyveil.products.safetab.public.levels import law_of, release_of

HOUSEHOLDS: Final = FileFormat(
    "household-records",
    (*BLOCK, race_summary("HHRACE"), *RECORD_CODES, digit_of("HOUSEHOLD_TYPE", 5), digit_of("TEN", 4)),
    confidential=True,
)
TableName = Literal["t3", "t4"]


@dataclass(frozen=True, slots=True)
class HouseholdDetail:
    """One detail of T3 or T4.

    Attributes:
        folder: Name of its published table.
        cell_of: For each finest cell, the measured cell that contains it.
        sums: For each published cell, its number and the measured cells that it sums.
    """

    folder: str
    cell_of: tuple[int, ...]
    sums: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def n_cells(self) -> int:
        """Number of measured cells."""
        # Measured cells are numbered from 0 without gaps.
        return max(self.cell_of) + 1


@dataclass(frozen=True, slots=True)
class HouseholdTable:
    """Table T3 or T4.

    Attributes:
        name: "t3" or "t4".
        column: Name of the column with the published cell.
        record: Name of the column in the household records.
        finest_of: For each value of that column, starting with 1, its finest cell.
        details: Details, from the total to the finest.
    """

    name: TableName
    column: str
    record: str
    finest_of: tuple[int, ...]
    details: tuple[HouseholdDetail, ...]


T3: Final = HouseholdTable(
    "t3",
    "T3_DATA_CELL",
    "HOUSEHOLD_TYPE",
    (0, 1, 2, 3, 4),
    (
        HouseholdDetail("T03001", (0, 0, 0, 0, 0), ((0, (0,)),)),
        HouseholdDetail("T03002", (0, 0, 0, 1, 1), ((0, (0, 1)), (1, (0,)), (6, (1,)))),
        HouseholdDetail(
            "T03003",
            (0, 1, 1, 2, 3),
            ((0, (0, 1, 2, 3)), (1, (0, 1)), (2, (0,)), (3, (1,)), (6, (2, 3)), (7, (2,)), (8, (3,))),
        ),
        HouseholdDetail(
            "T03004",
            (0, 1, 2, 3, 4),
            (
                *((0, (0, 1, 2, 3, 4)), (1, (0, 1, 2)), (2, (0,)), (3, (1, 2)), (4, (1,)), (5, (2,))),
                *((6, (3, 4)), (7, (3,)), (8, (4,))),
            ),
        ),
    ),
)
T4: Final = HouseholdTable(
    "t4",
    "T4_DATA_CELL",
    "TEN",
    (0, 1, 2, 2),
    (
        HouseholdDetail("T04001", (0, 0, 0), ((0, (0,)),)),
        HouseholdDetail("T04002", (0, 1, 2), ((0, (0, 1, 2)), (1, (0,)), (2, (1,)), (3, (2,)))),
    ),
)
TABLES: Final = (T3, T4)
"""Both tables, in the order in which sets are planned and measured."""

_FIXED: Final = (
    *("max_race_codes", "thresholds_h_t3", "thresholds_h_t4", "allow_negative_counts", "run_us", "run_pr"),
    *("reader", "state_filter_us", "privacy_defn"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedHouseholdSet(Declared):
    """What a plan states of the groups of one geography and iteration level in one table.

    Attributes:
        geography, level, stability: As in `StatedLevelSet`.
        budget: Rho or epsilon of all its groups together.
        thresholds: T1 counts from which each finer detail is chosen.
        standard_deviation: Of the noise of every measured cell.
        margin: Of a cell, with 95 % confidence.
    """

    table: TableName
    geography: Text
    level: Whole
    budget: Exact
    stability: Whole
    thresholds: Many[Whole]
    standard_deviation: Number
    margin: Whole

    @property
    def layout(self) -> HouseholdTable:
        """The layout of the table."""
        return next(table for table in TABLES if table.name == self.table)

    @property
    def name(self) -> str:
        """A name such as "t3 COUNTY level 2"."""
        return f"{self.table} {self.geography} level {self.level}"


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyHouseholdSet(StatedHouseholdSet):
    """The same groups with the law of their noise.

    Attributes:
        law: Law of the noise of every measured cell.
    """

    law: Law


@dataclass(frozen=True, eq=False, kw_only=True)
class HouseholdSet(NoisyHouseholdSet):
    """The same groups with what their measuring needs.

    Attributes:
        view: As in `LevelSet`.
    """

    view: View


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedHouseholdRun(Declared):
    """What a plan states of one run (US or PR).

    Attributes:
        budget: Sum of the budgets.
        sets: Sets with a budget, T3 first.
    """

    budget: Exact
    sets: Many[StatedHouseholdSet]


@dataclass(frozen=True, eq=False, kw_only=True)
class HouseholdRun(StatedHouseholdRun):
    """What one run measures.

    Attributes:
        run: "US" or "PR".
    """

    run: str
    sets: tuple[HouseholdSet, ...]

    def event(self) -> PrivacyEvent:
        """The privacy event of the run."""
        return event_of_sets(self.sets)


def event_of_sets(sets: Sequence[NoisyHouseholdSet]) -> PrivacyEvent:
    """The privacy event of a run. A household's record is in one cell of each of its groups in every set."""
    return SequentialEvent(
        tuple(
            # One cell in each of at most s groups: s counts with this law, in parallel over the rest.
            ParallelEvent((release_of(household_set.law),), household_set.stability)
            for household_set in sets
        )
    )


def event_of_runs(runs: Sequence[PrivacyEvent]) -> PrivacyEvent:
    """The event of both runs. Every household is in one of them."""
    # degree=1: no household is in both runs, so only the dearer one counts.
    return ParallelEvent(tuple(runs), degree=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedHouseholdPlan(Declared):
    """The plan of a SafeTab-H release as `plan.json` states it; its keys are those of `StatedSafetabPlan`."""

    format: Format1 = 1
    kind: Literal["safetab-households"] = "safetab-households"
    mechanism: Mechanism
    max_race_codes: Whole
    allow_negative_counts: Flag
    states: Many[Text]
    codes: Many[Text]
    mapping: Many[tuple[Text, Text]]
    runs: ByName[StatedHouseholdRun]


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdPlan:
    """The plan of a SafeTab-H release.

    Attributes:
        config: The settings in common with SafeTab: runs, states, codes, mechanism.
        files: Codes and iterations.
        runs: The runs.
    """

    config: SafetabConfig
    files: IterationFiles
    runs: tuple[HouseholdRun, ...]

    def event(self) -> PrivacyEvent:
        """The event of both runs."""
        return event_of_runs([run.event() for run in self.runs])

    def digest(self) -> bytes:
        """SHA-256 of everything that determines the meaning of the noise, except the published T1."""
        return hashlib.sha256(json.dumps(self.to_mapping(), sort_keys=True).encode()).digest()

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain data, with budgets as exact text."""
        stated = StatedHouseholdPlan(
            mechanism=self.config.mechanism,
            max_race_codes=self.config.max_race_codes,
            allow_negative_counts=self.config.allow_negative,
            states=self.config.states,
            codes=self.files.codes,
            mapping=self.files.mapping,
            runs=tuple((run.run, run) for run in self.runs),
        )
        return mapping_of(stated)


def read_household_plan(folder: Path) -> HouseholdPlan:
    """Read a parameter folder of SafeTab-H: config.json with its keys, and the four code files.

    Raises:
        ConfigError, SchemaError, BudgetError, StoreError: the folder has an error.
    """
    values, where = read_values(folder)
    reading = ConfigReading(values)
    runs = reading.runs()
    budgets = {table.name: reading.budgets(runs, f"h_{table.name}") for table in TABLES}
    thresholds = {
        table.name: reading.threshold_lists(runs, f"thresholds_h_{table.name}", len(table.details) - 1)
        for table in TABLES
    }
    config = SafetabConfig(
        max_race_codes=reading.whole("max_race_codes", 1, MOST_CODES),
        mechanism=reading.mechanism(),
        # SafeTab-H has no stage 1: T1 has chosen the detail. The shared config has these fields empty.
        stage_1_fraction=Fraction(0),
        budgets=MappingProxyType({}),
        thresholds=MappingProxyType({}),
        suppression=None,
        allow_negative=reading.flag("allow_negative_counts"),
        runs=runs,
        states=reading.states(),
    )
    # Before the lists are read, so that a mistake in the config is not hidden behind one in a list.
    reading.finish(_FIXED, [f"h_{table.name}" for table in TABLES], where)
    files = read_iterations(folder)
    views = {
        (level, nationwide): files.view(level, nationwide=nationwide)
        for level in LEVELS
        for nationwide in (True, False)
    }
    # A household has its householder's codes, so its groups are counted like a person's.
    stabilities = {key: stability_of(view, config.max_race_codes) for key, view in views.items()}
    planned = []
    for run in runs:
        sets = tuple(
            _household_set(
                config,
                table,
                (geography, level),
                views[level, geography in NATIONWIDE],
                stabilities[level, geography in NATIONWIDE],
                budgets[table.name],
                thresholds[table.name],
            )
            for table in TABLES
            for geography in GEOGRAPHIES[run]
            for level in LEVELS
            # A set without a budget is not measured; T3 sets come first, which the plan's digest fixes.
            if budgets[table.name][geography, level]
        )
        budget = sum((household_set.budget for household_set in sets), Fraction(0))
        planned.append(HouseholdRun(run=run, budget=budget, sets=sets))
    return HouseholdPlan(config, files, tuple(planned))


def _household_set(
    config: SafetabConfig,
    table: HouseholdTable,
    place: Level,
    view: View,
    stability: Stability,
    budgets: Mapping[Level, Fraction],
    thresholds: Mapping[Level, tuple[int, ...]],
) -> HouseholdSet:
    geography, level = place
    name = f"{table.name} {geography} level {level}"
    if not view.iterations or not stability.groups:
        raise SchemaError(
            f"{name} has a budget, but no iteration of that level has codes. Set the budget to 0, or add iterations "
            "of that level.",
            code="safetab-no-iterations",
        )
    try:
        law = law_of_share(config.mechanism, budgets[place], stability.groups)
    except BudgetError as error:
        raise BudgetError(f"{name}, budget {budgets[place]}: {error}") from None
    return HouseholdSet(
        table=table.name,
        geography=geography,
        level=level,
        budget=budgets[place],
        stability=stability.groups,
        thresholds=thresholds[place],
        **accuracy_of(law),
        view=view,
        law=law,
    )


def law_of_share(mechanism: Mechanism, budget: Fraction, stability: int) -> Law:
    """Law of the noise of a set with a budget, of whose groups a household can be in `stability`.

    Raises:
        BudgetError: the noise would be out of range.
    """
    # The whole share of a group goes to its one table; nothing is kept for a choice of detail.
    return law_of(mechanism, budget / stability)


def accuracy_of(law: Law) -> dict[str, Any]:
    """What a plan states of a law: its standard deviation, and the margin of a cell at 95 %."""
    return {"standard_deviation": law.standard_deviation(), "margin": law.margin(Fraction(19, 20))}
