"""A black-box audit: a million runs of the real measuring code refute no epsilon that is claimed, and would if it lied.

Every region is a run of its own, since each has noise of its own: half a million regions with the same few people in
each, and half a million with one person more.
"""

import importlib.util
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tallyveil.accounting import compose
from tallyveil.confidential.safetab_groups import PersonCounts
from tallyveil.confidential.safetab_measure import GroupMeasurer
from tallyveil.confidential.safetab_records import ConfidentialPersons
from tallyveil.evaluation.audit import audit_epsilon, binomial_bounds, person_scores
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace
from tallyveil.safetab.ages import FINEST_CELLS
from tallyveil.safetab.levels import NEIGHBOURS
from tallyveil.safetab.plan import read_plan
from tallyveil.safetab.regions import Regions

RUNS = 500_000
CELL = 10
CONFIDENCE = 0.999


@pytest.fixture(scope="module")
def toy():
    path = Path(__file__).parents[1] / "unit" / "safetab" / "conftest.py"
    spec = importlib.util.spec_from_file_location("toy_country_audit", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy_country_audit"] = module
    spec.loader.exec_module(module)
    return module


def plan_of(toy, folder, mechanism, budget):
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


def scores(one, codes, ethnicity, people, key):
    """Scores of every region, with so many people in each."""
    n = np.arange(RUNS)
    regions = Regions("US", n, {"TRACT": n}, {"TRACT": n.astype(np.int32)})
    persons = ConfidentialPersons(
        "US",
        np.arange(RUNS + 1, dtype=np.int64) * people,
        np.full(RUNS * people, ~0, np.int32),
        np.array([*codes, -1], np.int16),
        np.full(RUNS * people, ethnicity, np.int16),
        np.full(RUNS * people, CELL, np.int8),
    )
    measurer = GroupMeasurer(PersonCounts(persons, regions), NoiseSource(insecure_key(key)))
    view = one.view
    groups = sorted({int(view.combination_of[c]) for c in codes} | {int(view.ethnicity_of[ethnicity])})
    assert len(groups) == one.stability.groups
    others = np.zeros((len(groups), FINEST_CELLS), np.int64)
    others[:, CELL] = BASE
    found, details = [], set()
    for part in measurer.measure(one, n):
        found.append(person_scores(one, part, np.array(groups), CELL, others))
        details |= set(np.unique(part.detail[:, groups]).tolist())
    assert details == {0, 1, 2, 3}
    return np.concatenate(found)


BASE = 3


@pytest.mark.soak
@pytest.mark.parametrize(
    ("mechanism", "budget", "delta"), [("zcdp", 0.7, Fraction(1, 100)), ("puredp", 1.5, Fraction(1, 1000))]
)
def test_no_claimed_epsilon_is_refuted_and_halved_noise_is(toy, tmp_path, mechanism, budget, delta):
    plan = plan_of(toy, tmp_path / "p", mechanism, budget)
    (run,) = plan.runs
    (one,) = run.sets
    claimed = compose(run.event(), neighbours=NEIGHBOURS).epsilon(delta)
    codes, ethnicity = one.stability.race_codes, one.stability.ethnicity_code

    def audited(law_set):
        sides = [scores(law_set, codes, ethnicity, BASE + more, f"audit {more}") for more in (0, 1)]
        return audit_epsilon(*sides, delta=float(delta), confidence=CONFIDENCE)

    honest = audited(one)
    assert honest.lower <= claimed.upper
    assert honest.lower > 0.8 * claimed.upper  # an audit that sees nothing would refute nothing either

    def halved(law):
        if isinstance(law, DiscreteGaussian):
            return DiscreteGaussian(law.variance / 4)
        return DiscreteLaplace(law.scale / 2)

    lying = audited(replace(one, stage_1=halved(one.stage_1), stage_2=halved(one.stage_2)))
    assert lying.lower > claimed.upper


def test_binomial_bounds_are_exact():
    """Clopper and Pearson: at the bound the tail has exactly the chance of failure."""
    from scipy.stats import binom

    lower, upper = binomial_bounds(7, 50, 0.01)
    assert binom.sf(6, 50, lower) == pytest.approx(0.01)
    assert binom.cdf(7, 50, upper) == pytest.approx(0.01)
    assert binomial_bounds(0, 50, 0.01)[0] == 0
    assert binomial_bounds(50, 50, 0.01)[1] == 1


def test_equal_populations_show_no_difference():
    rng = np.random.default_rng(3)
    found = audit_epsilon(rng.normal(size=20_000), rng.normal(size=20_000), delta=0.0, confidence=0.999)
    assert found.lower == 0
