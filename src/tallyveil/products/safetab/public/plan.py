"""The plan of a SafeTab run: level sets with budgets, laws of noise and events, before any record is read."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal

from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import SchemaError
from tallyveil.noise.balls import rational
from tallyveil.noise.laws import Law
from tallyveil.products.safetab.public.addresses import CELLS_APART, GEOLEVELS, query_number
from tallyveil.products.safetab.public.ages import DETAILS, FINEST_CELLS
from tallyveil.products.safetab.public.config import (
    GEOGRAPHIES,
    LEVELS,
    NATIONWIDE,
    SafetabConfig,
    read_config,
)
from tallyveil.products.safetab.public.iterations import (
    IterationFiles,
    Stability,
    View,
    common_record,
    read_iterations,
    stability_of,
)
from tallyveil.products.safetab.public.levels import GroupLevel, Ladder, events_of, level_laws

LADDER: Final = Ladder(
    ("total", "sex by 4 ages", "sex by 9 ages", "sex by 23 ages", "total only"),
    DETAILS,
    FINEST_CELLS,
    CELLS_APART,
)
"""The details of the Census layout."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelSet(GroupLevel):
    """A level of the Census layout: the groups of one geography and iteration level. Its rows are regions.

    Attributes:
        geography: A name such as "COUNTY".
        level: Iteration level, 1 or 2.
        view: Its iterations, one for each group of a row.
        stability: Largest number of its groups that a record can be in.
    """

    geography: str
    level: int
    view: View
    stability: Stability


@dataclass(frozen=True, slots=True, eq=False)
class RunPlan:
    """What one run (US or PR) measures.

    Attributes:
        run: "US" or "PR".
        sets: Its level sets with a budget.
        witness: Race codes and ethnicity code of a record that attains the stability of every set. None if no such
            record was found; the sum of the stabilities is then an upper bound.
    """

    run: str
    sets: tuple[LevelSet, ...]
    witness: tuple[tuple[str, ...], str] | None

    @property
    def budget(self) -> Fraction:
        """Sum of the level budgets, in rho or pure epsilon."""
        return sum((level_set.budget for level_set in self.sets), Fraction(0))

    def event(self, *, total_only: bool = True) -> PrivacyEvent:
        """The privacy event of the run.

        Args:
            total_only: Whether total-only groups are a separate case. If not, every group counts as split, which is not
                a bound but has a single loss law.
        Source: SafeTab (Haney et al.), Theorems 1 to 3. A record is in the same iterations at every geography of a
            view. So its groups of an iteration are either all split or all total-only.
        """
        by_view: dict[tuple[int, bool], list[LevelSet]] = {}
        for level_set in self.sets:
            # Sets of one view have the same iterations, so a record's groups are the same at each of their
            # geographies.
            by_view.setdefault((level_set.level, level_set.view.nationwide), []).append(level_set)
        parts: list[PrivacyEvent] = []
        for together in by_view.values():
            # Equal within a view.
            stability = together[0].stability
            parts += events_of(together, stability.groups, stability.total_only if total_only else 0)
        return SequentialEvent(tuple(parts))


@dataclass(frozen=True, slots=True, eq=False)
class SafetabPlan:
    """The plan of a SafeTab release, from public files alone.

    Attributes:
        config: The config.
        files: Codes and iterations.
        runs: The runs. No person is in two of them.
    """

    config: SafetabConfig
    files: IterationFiles
    runs: tuple[RunPlan, ...]

    @property
    def budget_unit(self) -> Literal["rho", "epsilon"]:
        """Unit of the budgets: "rho" or "epsilon"."""
        return "rho" if self.config.mechanism is Mechanism.DISCRETE_GAUSSIAN else "epsilon"

    def event(self) -> PrivacyEvent:
        """The event of both runs. Every person is in one of them, so the more expensive run determines the cost."""
        return ParallelEvent(tuple(run.event() for run in self.runs), degree=1)

    def run(self, name: str) -> RunPlan:
        """The run with a given name."""
        return next(run for run in self.runs if run.run == name)

    def digest(self) -> bytes:
        """SHA-256 of everything that determines the meaning of the noise: config, codes and iterations."""
        # Sorted keys, so that the digest does not depend on the order in which the mapping is built.
        text = json.dumps(self.to_mapping(), sort_keys=True)
        return hashlib.sha256(text.encode()).digest()

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain data, with budgets as exact text."""
        config = self.config
        return {
            "format": 1,
            "mechanism": config.mechanism.value,
            "max_race_codes": config.max_race_codes,
            "stage_1_fraction": str(config.stage_1_fraction),
            "zero_suppression_chance": None if config.suppression is None else str(config.suppression),
            "allow_negative_counts": config.allow_negative,
            "states": list(config.states),
            "codes": list(self.files.codes),
            "mapping": [list(pair) for pair in self.files.mapping],
            "iterations": [
                [i.code, i.name, i.level, int(i.membership), int(i.detailing)] for i in self.files.iterations
            ],
            "runs": {
                run.run: {
                    "budget": str(run.budget),
                    "witness": None if run.witness is None else [list(run.witness[0]), run.witness[1]],
                    "sets": [_set_mapping(level_set) for level_set in run.sets],
                }
                for run in self.runs
            },
        }


def read_plan(folder: Path) -> SafetabPlan:
    """Read a parameter folder (config.json and the four code files) into a plan.

    Raises:
        ConfigError, SchemaError, BudgetError, StoreError: the folder has an error.
    """
    return make_plan(read_config(folder), read_iterations(folder))


def make_plan(config: SafetabConfig, files: IterationFiles) -> SafetabPlan:
    """Make the plan of a config and its code files.

    Raises:
        SchemaError: a level with a budget has no iterations.
        BudgetError: a budget is so small or large that its noise is out of range.
    """
    views: dict[tuple[int, bool], tuple[View, Stability]] = {}
    for level in LEVELS:
        for nationwide in (True, False):
            view = files.view(level, nationwide=nationwide)
            # Four views serve all geographies; the stability of each is computed once.
            views[level, nationwide] = view, stability_of(view, config.max_race_codes)
    return SafetabPlan(config, files, tuple(_run_plan(run, config, files, views) for run in config.runs))


def with_budgets(plan: SafetabPlan, budgets: Mapping[tuple[str, int], Fraction]) -> SafetabPlan:
    """The same plan with other budgets at the given geographies and levels."""
    old = plan.config
    config = SafetabConfig(
        old.max_race_codes,
        old.mechanism,
        old.stage_1_fraction,
        {**old.budgets, **budgets},
        old.thresholds,
        old.suppression,
        old.allow_negative,
        old.runs,
        old.states,
    )
    return make_plan(config, plan.files)


def suppression_bound(law: Law, chance: Fraction) -> int:
    """Smallest x with P(noise <= x) >= chance. An empty group exceeds it with probability at most 1 - chance."""
    if chance >= Fraction(1, 2):
        # For symmetric noise P(noise <= x) >= c is P(|noise| <= x) >= 2 c - 1.
        return law.margin(2 * chance - 1)
    x = 0
    # Below one half the bound is negative and small, so a step at a time is enough.
    while law.cdf(x - 1) >= rational(chance):
        x -= 1
    return x


def _run_plan(
    run: str,
    config: SafetabConfig,
    files: IterationFiles,
    views: Mapping[tuple[int, bool], tuple[View, Stability]],
) -> RunPlan:
    sets = tuple(
        _level_set(config, geography, level, *views[level, geography in NATIONWIDE])
        for geography in GEOGRAPHIES[run]
        for level in LEVELS
        # A level without budget is not measured and has no law.
        if config.budgets[geography, level]
    )
    # Only views that are measured need to be attained at once.
    used = list({(level_set.level, level_set.view.nationwide): None for level_set in sets})
    record = common_record(
        [views[key][0] for key in used], [views[key][1] for key in used], config.max_race_codes
    )
    witness = None if record is None else (tuple(files.codes[c] for c in record[0]), files.codes[record[1]])
    return RunPlan(run, sets, witness)


def _level_set(
    config: SafetabConfig, geography: str, level: int, view: View, stability: Stability
) -> LevelSet:
    budget = config.budgets[geography, level]
    if not view.iterations or not stability.groups:
        raise SchemaError(
            f"{geography} level {level} has a budget, but no iteration of that level has codes. Set the budget to 0, "
            "or add iterations of that level.",
            code="safetab-no-iterations",
        )
    name = f"{geography} level {level}"
    laws = level_laws(config.mechanism, budget, stability.groups, config.stage_1_fraction, name)
    keep_above = None
    if config.suppression is not None and geography not in NATIONWIDE:
        # The noise that a total of detail 0 has is that of stage 2.
        keep_above = suppression_bound(laws[1], config.suppression)
    return LevelSet(
        name,
        GEOLEVELS[geography],
        query_number(level, 0),
        len(view.iterations),
        view.n_adaptive,
        LADDER,
        budget,
        config.thresholds[geography, level],
        *laws,
        keep_above,
        geography,
        level,
        view,
        stability,
    )


def _set_mapping(level_set: LevelSet) -> dict[str, Any]:
    return {
        "geography": level_set.geography,
        "level": level_set.level,
        "budget": str(level_set.budget),
        "stability": level_set.stability.groups,
        "stability_formula": level_set.stability.formula,
        "thresholds": list(level_set.thresholds),
        "keep_above": level_set.keep_above,
        "iterations": len(level_set.view.iterations),
        "total_only_iterations": len(level_set.view.iterations) - level_set.view.n_adaptive,
        "standard_deviations": [
            law.standard_deviation() for law in (level_set.stage_1, level_set.stage_2, level_set.total_only)
        ],
    }
