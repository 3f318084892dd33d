"""Population groups with adaptive detail: SafeTab's two stages, by its own measuring code.

Every region is a run of its own, since each has noise of its own. There are as many independent runs as regions. On the
second side each region has one person more, who counts in two population groups. Thresholds lie so near the counts
that every detail is chosen now and then.

An output has, for each of the person's groups, what was chosen and what was measured: the total of stage 1, the
indicator of each detail, and for each detail the noisy count that the person moves.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tests.auditors.drawing.claims import claim_of
from tests.auditors.outputs import Outputs

from tallyveil.confidential.safetab_groups import PersonCounts
from tallyveil.confidential.safetab_measure import GroupMeasurer
from tallyveil.confidential.safetab_records import ConfidentialPersons
from tallyveil.evaluation.audit import person_scores
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.safetab.ages import DETAILS, FINEST_CELLS
from tallyveil.safetab.levels import NEIGHBOURS
from tallyveil.safetab.measurements import GroupMeasurements
from tallyveil.safetab.plan import LevelSet, SafetabPlan, read_plan
from tallyveil.safetab.regions import Regions

CELL: Final = 10
"""The person's cell among the finest cells of sex and age."""

BASE: Final = 3
"""Other people in each region, all like the person."""

BUDGETS: Final = (("puredp", "3/2"), ("zcdp", "7/10"))


def draw(number: int) -> Iterator[Outputs]:
    """The outputs under both notions of privacy, so many on each side."""
    toy = _toy_country()
    for mechanism, budget in BUDGETS:
        with tempfile.TemporaryDirectory() as folder:
            plan = _plan(toy, Path(folder), mechanism, budget)
        (run,) = plan.runs
        (one,) = run.sets
        sides = [_side(one, BASE + more, number, f"auditors: {mechanism} {more}") for more in (0, 1)]
        declared = {"rho" if mechanism == "zcdp" else "epsilon": Fraction(budget)}
        claim = claim_of(run.event(), neighbours=NEIGHBOURS, delta=Fraction(1, 100), **declared)
        rows, scores = zip(*sides, strict=True)
        yield Outputs(f"groups-{mechanism}", rows[0], rows[1], scores[0], scores[1], claim)


def _toy_country() -> ModuleType:
    path = Path(__file__).parents[2] / "unit" / "safetab" / "conftest.py"
    spec = importlib.util.spec_from_file_location("toy_country_of_auditors", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _plan(toy: ModuleType, folder: Path, mechanism: str, budget: str) -> SafetabPlan:
    """Tracts at level 2 alone."""
    budgets = {key: 0 for key in toy.config_values() if key.startswith("privacy_budget_p_level")}
    budgets["privacy_budget_p_level_2_tract"] = float(Fraction(budget))
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


def _side(one: LevelSet, people: int, number: int, key: str) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Outputs and scores of every region, with so many people in each."""
    codes, ethnicity = one.stability.race_codes, one.stability.ethnicity_code
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
    rows = np.concatenate([_columns(part, groups) for part in parts])
    scores = np.concatenate([person_scores(one, part, groups, CELL, others) for part in parts])
    return rows, scores


def _columns(part: GroupMeasurements, groups: NDArray[np.int64]) -> NDArray[np.int32]:
    width = part.stage_1.shape[1]
    columns = []
    for group in groups.tolist():
        stage_1, chosen = part.stage_1[:, group], part.detail[:, group]
        counts = [np.where(chosen == 0, part.totals[:, group], 0)]
        for detail, table in zip(DETAILS, part.tables, strict=True):
            regions, iterations = np.divmod(table.places, width)
            own = iterations == group
            count = np.zeros(len(chosen), np.int64)
            count[regions[own]] = table.values[own, int(detail.cell_of_finest()[CELL])]
            counts.append(count)
        columns.append(stage_1)
        for number, count in enumerate(counts):
            here = chosen == number
            columns += [here, count, np.where(here, stage_1, 0)]
    return np.column_stack(columns).astype(np.int32)
