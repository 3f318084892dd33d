"""Parameter folders with other budgets: those of Table 4, and those that margins or an epsilon ask for."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.samples import nightly

from tallyveil.errors import BudgetError, ConfigError
from tallyveil.products.safetab.public.calibration import (
    parse_margins,
    plan_for_epsilon,
    plan_for_margins,
    write_parameters,
)
from tallyveil.products.safetab.public.estimates import CONFIDENCE, estimator_of
from tallyveil.products.safetab.public.expected import detail_errors
from tallyveil.products.safetab.public.levels import level_laws
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.privacy import privacy_of

TABLE_4 = Path(__file__).parents[5] / "examples" / "safetab_table_4"
DELTA = Fraction(1, 10**10)
TEXT = "USA 2 = 6, STATE 2=6, COUNTY 2 = 11,AIANNH 2 = 11, USA 1 = 50, STATE 1 = 50, COUNTY 1 = 50"


@pytest.mark.parametrize(
    ("name", "total", "epsilon"), [("geometric", "15.29", 12.7132574796), ("gaussian", "1.41", 11.6800611785)]
)
def test_the_folders_of_table_4_have_its_budgets_and_the_trusted_epsilon(name, total, epsilon):
    plan = read_plan(TABLE_4 / name)
    assert {one.stability for one in plan.runs[0].sets} == {9}
    (found,) = privacy_of(plan, DELTA)
    assert found.budget == Fraction(total)
    assert found.exact == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "recipe", "total"),
    [
        ("geometric", "printed", 15.314318),
        ("gaussian", "printed", 1.407062),
        ("geometric", "exact", 16.112757),
        ("gaussian", "exact", 1.214748),
    ],
)
def test_budgets_for_the_margins_of_table_4(name, recipe, total):
    margins = parse_margins(TEXT, "--margins")
    found = plan_for_margins(read_plan(TABLE_4 / name), margins, recipe)
    assert float(found.runs[0].budget) == pytest.approx(total, abs=1e-6)
    if recipe == "exact":
        for one in found.runs[0].sets:
            assert one.stage_2.margin(CONFIDENCE) == margins[one.geography, one.level]


def test_a_written_folder_is_the_plan_with_all_else_unchanged(tmp_path):
    source = TABLE_4 / "gaussian"
    found = plan_for_margins(read_plan(source), {("USA", 2): 6, ("TRACT", 1): 50}, "exact")
    write_parameters(source, tmp_path / "out", found)
    assert read_plan(tmp_path / "out").to_mapping() == found.to_mapping()
    old, new = (json.loads((folder / "config.json").read_text()) for folder in (source, tmp_path / "out"))
    changed = {key for key in old if old[key] != new[key]}
    assert old.keys() == new.keys()
    assert {"privacy_budget_p_level_2_usa", "privacy_budget_p_level_1_tract"} <= changed
    assert all(key.startswith("privacy_budget_p_level_") for key in changed)


@pytest.mark.parametrize("name", ["geometric", "gaussian"])
def test_budgets_for_an_epsilon_are_certified(name):
    one_level = plan_for_margins(read_plan(TABLE_4 / name), {("USA", 2): 6}, "exact")
    (found,) = privacy_of(plan_for_epsilon(one_level, Fraction(2), DELTA), DELTA)
    assert 2 - 1e-5 < found.exact <= 2


@pytest.mark.parametrize(
    "text", ["", "USA 2", "USA 3 = 6", "MOON 1 = 6", "USA 2 = 6, USA 2 = 7", "USA 2 = -1"]
)
def test_margins_are_read_strictly(text):
    with pytest.raises(ConfigError) as caught:
        parse_margins(text, "--margins")
    assert caught.value.code == "bad-flag"


@pytest.mark.parametrize("flag", ["--margins", "--total-margins"])
def test_margins_whose_noise_is_out_of_range_name_their_level_set(flag):
    wanted = parse_margins("USA 2 = 1000000000000", flag)
    cells, totals = (wanted, {}) if flag == "--margins" else ({}, wanted)
    with pytest.raises(BudgetError, match=r"^the margins of USA level 2 .* a smaller one"):
        plan_for_margins(read_plan(TABLE_4 / "gaussian"), cells, totals=totals)


def test_margins_must_fit_the_runs():
    plan = read_plan(TABLE_4 / "gaussian")
    with pytest.raises(ConfigError, match="name no level set of the US run"):
        plan_for_margins(plan, {("PR-STATE", 2): 6}, "exact")
    with pytest.raises(ConfigError, match="switched off"):
        plan_for_margins(plan, {("USA", 2): 6, ("PR-STATE", 2): 6}, "exact")
    with pytest.raises(BudgetError, match="margin of error"):
        plan_for_margins(plan, {("USA", 2): 0}, "exact")


CELL, TOTAL = 6, 11


@pytest.fixture(scope="module", params=["gaussian", nightly("geometric")])
def both(request):
    """The plan in which cells of a level have one margin, and totals another."""
    plan = read_plan(TABLE_4 / request.param)
    return plan_for_margins(plan, {("USA", 2): CELL}, totals={("USA", 2): TOTAL})


def test_totals_and_cells_have_their_margins_at_the_least_budget(both):
    """With one in ten thousand less, no share of stage 1 holds both margins."""
    (level,) = both.runs[0].sets
    errors = list(detail_errors(level))
    assert max(error.total_estimate for error in errors) <= TOTAL
    assert {error.cell for error in errors} == {CELL, None}
    share = level.budget / level.stability * Fraction(9999, 10000)
    for gamma in range(1, 100):
        laws = level_laws(both.config.mechanism, share, 1, Fraction(gamma, 100), "")
        held = laws[1].margin(CONFIDENCE) <= CELL
        assert not held or estimator_of(46, *laws[:2], None, None).combined(46).margin > TOTAL


def test_simulated_totals_are_within_their_margin(both):
    """200,000 totals of 46 cells, from draws by the definition of the noise."""
    (level,) = both.runs[0].sets
    rng, n, draws = np.random.default_rng(1), 46, 200_000
    x = np.arange(-400, 401)
    gaussian = both.config.mechanism.budget_unit == "rho"
    noise, variances = [], []
    for budget in (both.config.stage_1_fraction, 1 - both.config.stage_1_fraction):
        part = float(budget * level.budget / level.stability)
        weights = np.exp(-part * x**2 if gaussian else -part * abs(x))
        variances.append(float(weights @ x**2 / weights.sum()))
        noise.append(np.cumsum(weights / weights.sum()))
    first = x[np.searchsorted(noise[0], rng.random(draws))]
    cells = sum(x[np.searchsorted(noise[1], rng.random(draws))] for _ in range(n))
    unit = variances[1] / (variances[0] + n * variances[1])
    errors = cells + n * unit * (first - cells)
    # 0.95, with four standard errors of 0.0005 and what rounding to a hundredth and to whole margins leaves.
    assert 0.948 < (np.abs(errors) <= TOTAL).mean() < 0.956


def test_margins_and_an_epsilon_keep_the_proportions(tmp_path):
    """All margins grow alike; the share of stage 1 stays."""
    wanted = {("USA", 2): 6, ("COUNTY", 2): 12}
    plan = plan_for_margins(read_plan(TABLE_4 / "gaussian"), wanted, totals={("USA", 2): 20})
    scaled = plan_for_epsilon(plan, Fraction(2), DELTA)
    assert scaled.config.stage_1_fraction == plan.config.stage_1_fraction
    before, after = ([float(one.budget) for one in made.runs[0].sets] for made in (plan, scaled))
    assert after[0] / before[0] == pytest.approx(after[1] / before[1], rel=1e-8)
    (found,) = privacy_of(scaled, DELTA)
    assert 2 - 1e-5 < found.exact <= 2
    write_parameters(TABLE_4 / "gaussian", tmp_path / "out", scaled)
    assert read_plan(tmp_path / "out").to_mapping() == scaled.to_mapping()


def test_totals_have_no_printed_formula():
    plan = read_plan(TABLE_4 / "gaussian")
    with pytest.raises(ConfigError, match="--total-margins"):
        plan_for_margins(plan, {("USA", 2): 6}, "printed", {("USA", 2): 6})
    with pytest.raises(BudgetError, match="margin of error"):
        plan_for_margins(plan, {}, totals={("USA", 2): 0})
