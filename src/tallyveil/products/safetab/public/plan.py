"""The plan of a SafeTab run: level sets with budgets, laws of noise and events, before any record is read."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

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
from tallyveil.errors import SchemaError, StoreError
from tallyveil.noise.balls import rational
from tallyveil.noise.laws import Law
from tallyveil.products.safetab.public.addresses import CELLS_APART, GEOLEVELS, query_number
from tallyveil.products.safetab.public.ages import DETAILS, FINEST_CELLS
from tallyveil.products.safetab.public.config import (
    GEOGRAPHIES,
    LEVELS,
    NATIONWIDE,
    Level,
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
from tallyveil.products.safetab.public.levels import GroupLevel, Ladder, deviations_of, events_of, level_laws
from tallyveil.runs.key_file import binding_of

LADDER: Final = Ladder(
    ("total", "sex by 4 ages", "sex by 9 ages", "sex by 23 ages", "total only"),
    DETAILS,
    FINEST_CELLS,
    CELLS_APART,
)
"""The details of the Census layout."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedLevelSet(Declared):
    """What a plan states of a level of the Census layout: the groups of one geography and iteration level.

    Attributes:
        geography: A name such as "COUNTY".
        level: Iteration level, 1 or 2.
        budget, thresholds, keep_above: As in `GroupLevel`.
        stability: Largest number of its groups that a record can be in.
        stability_formula: The published formula of the same, for comparison.
        iterations: Number of its iterations, one for each group of a row.
        total_only_iterations: How many of them have no detail.
        standard_deviations: Of the noise of stage 1, of stage 2 and of a total-only group.
    """

    geography: Text
    level: Whole
    budget: Exact
    stability: Whole
    stability_formula: Whole
    thresholds: Many[Whole]
    keep_above: Whole | None
    iterations: Whole
    total_only_iterations: Whole
    standard_deviations: Many[Number]


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelSet(StatedLevelSet, GroupLevel):
    """A level of the Census layout with what its measuring needs. Its rows are regions.

    Attributes:
        view: Its iterations.
        witness: A record that is in as many of its groups as any can be.
    """

    view: View
    witness: Stability

    @property
    def place(self) -> Level:
        """Its geography and iteration level, by which budgets and thresholds are stated."""
        return self.geography, self.level


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedRun(Declared):
    """What a plan states of one run (US or PR).

    Attributes:
        budget: Sum of the level budgets, in rho or pure epsilon.
        witness: Race codes and ethnicity code of a record that attains the stability of every set. None if no such
            record was found; the sum of the stabilities is then an upper bound.
        sets: Its level sets with a budget.
    """

    budget: Exact
    witness: tuple[Many[Text], Text] | None
    sets: Many[StatedLevelSet]


@dataclass(frozen=True, eq=False, kw_only=True)
class RunPlan(StatedRun):
    """What one run measures.

    Attributes:
        run: "US" or "PR".
    """

    run: str
    sets: tuple[LevelSet, ...]

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
            # The stability is equal within a view.
            first = together[0]
            parts += events_of(together, first.stability, first.witness.total_only if total_only else 0)
        return SequentialEvent(tuple(parts))


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedSafetabPlan(Declared):
    """The plan of a SafeTab release as `plan.json` states it, with the lists of its code files.

    Attributes:
        mapping: Pairs of a code and an iteration that it counts in.
        iterations: Code, name, level, `Membership` and `Detailing` of each.
    """

    format: Format1 = 1
    mechanism: Mechanism
    max_race_codes: Whole
    stage_1_fraction: Exact
    zero_suppression_chance: Exact | None
    allow_negative_counts: Flag
    states: Many[Text]
    codes: Many[Text]
    mapping: Many[tuple[Text, Text]]
    iterations: Many[tuple[Text, Text, Whole, Whole, Whole]]
    runs: ByName[StatedRun]


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
        config, files = self.config, self.files
        stated = StatedSafetabPlan(
            mechanism=config.mechanism,
            max_race_codes=config.max_race_codes,
            stage_1_fraction=config.stage_1_fraction,
            zero_suppression_chance=config.suppression,
            allow_negative_counts=config.allow_negative,
            states=config.states,
            codes=files.codes,
            mapping=files.mapping,
            iterations=tuple(
                (i.code, i.name, i.level, int(i.membership), int(i.detailing)) for i in files.iterations
            ),
            runs=tuple((run.run, run) for run in self.runs),
        )
        return mapping_of(stated)


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
    return make_plan(replace(plan.config, budgets={**plan.config.budgets, **budgets}), plan.files)


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
    budget = sum((level_set.budget for level_set in sets), Fraction(0))
    return RunPlan(run=run, budget=budget, witness=witness, sets=sets)


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
        geography=geography,
        level=level,
        budget=budget,
        stability=stability.groups,
        stability_formula=stability.formula,
        thresholds=config.thresholds[geography, level],
        keep_above=keep_above,
        iterations=len(view.iterations),
        total_only_iterations=len(view.iterations) - view.n_adaptive,
        standard_deviations=deviations_of(laws),
        name=name,
        geolevel=GEOLEVELS[geography],
        query=query_number(level, 0),
        width=len(view.iterations),
        n_adaptive=view.n_adaptive,
        ladder=LADDER,
        stage_1=laws[0],
        stage_2=laws[1],
        total_only=laws[2],
        view=view,
        witness=stability,
    )


def coterminous_once(plan: SafetabPlan, digest: str, out: Path) -> bool:
    """Whether a finished run measured coterminous regions once.

    Args:
        plan: The plan that it should have.
        digest: Its plan digest, in hexadecimal.
        out: Its folder, for the message.
    Raises:
        StoreError: the run had another plan.
    """
    # The manifest holds the digest alone, so both ways of tabulating are tried; only one of them can match.
    for once in (True, False):
        if binding_of(plan.digest(), bytes([once])).hex() == digest:
            return once
    raise StoreError(
        f"{out} holds a SafeTab release that was made with other parameters. Name the parameter folder that it was "
        "made with.",
        code="no-release",
    )
