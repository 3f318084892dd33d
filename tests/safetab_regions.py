"""Regions with the same few people in each, measured by SafeTab's own code: every region is a run of its own.

Each region has noise of its own, so that many regions are as many independent runs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tests import toy_country as toy
from tests.auditing import person_scores

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.safetab.confidential.measure import GroupMeasurer, PersonCounts
from tallyveil.products.safetab.confidential.records import ConfidentialPersons
from tallyveil.products.safetab.public.ages import FINEST_CELLS
from tallyveil.products.safetab.public.group_numbers import GroupMeasurements
from tallyveil.products.safetab.public.plan import LevelSet, SafetabPlan, read_plan
from tallyveil.products.safetab.public.regions import Regions

CELL: Final = 10
"""The cell of every person among the finest cells of sex and age."""

BASE: Final = 3
"""People in a region of the first side, all alike. On the second side there is one more."""


def plan_of_tracts(folder: Path, mechanism: str, budget: float) -> SafetabPlan:
    """Tracts at level 2 alone; thresholds so near the counts that every detail is chosen now and then."""
    budgets = {key: 0 for key in toy.config_values() if key.startswith("privacy_budget_p_level")}
    budgets["privacy_budget_p_level_2_tract"] = budget
    thresholds = toy.config_values()["thresholds_p"] | {"(TRACT, 2)": [4, 6, 8]}
    params = toy.write_params(
        folder,
        **budgets,
        run_pr=False,
        thresholds_p=thresholds,
        privacy_defn=mechanism,
        privacy_budget_p_stage_1_fraction=0.3,
    )
    return read_plan(params)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured in all regions.

    Attributes:
        groups: The population groups that a person counts in.
        parts: The measurements, in the order of the regions.
        scores: For each region, how strongly it speaks for one person more than `BASE`.
    """

    groups: NDArray[np.int64]
    parts: list[GroupMeasurements]
    scores: NDArray[np.float64]


def measured(one: LevelSet, people: int, number: int, key: str) -> Measured:
    """Measure so many regions with so many people in each."""
    codes, ethnicity = one.witness.race_codes, one.witness.ethnicity_code
    n = np.arange(number)
    regions = Regions("US", n, {"TRACT": n}, {"TRACT": n.astype(np.int32)})
    persons = ConfidentialPersons(
        "US",
        np.arange(number + 1, dtype=np.int64) * people,
        np.full(number * people, ~0, np.int32),
        np.array([*codes, -1], np.int16),
        np.full(number * people, ethnicity, np.int16),
        np.full(number * people, CELL, np.int8),
    )
    measurer = GroupMeasurer(PersonCounts(persons, regions), NoiseSource(insecure_key(key)))
    view = one.view
    groups = np.array(
        sorted({int(view.combination_of[c]) for c in codes} | {int(view.ethnicity_of[ethnicity])})
    )
    others = np.zeros((len(groups), FINEST_CELLS), np.int64)
    others[:, CELL] = BASE
    parts = list(measurer.measure(one, n))
    scores = np.concatenate([person_scores(one, part, groups, CELL, others) for part in parts])
    return Measured(groups, parts, scores)
