"""Parameter folders with other budgets: those of Table 4, and those that margins or an epsilon ask for."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.errors import BudgetError, ConfigError
from tallyveil.products.safetab.public.estimates import CONFIDENCE
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.privacy import (
    parse_margins,
    plan_for_epsilon,
    plan_for_margins,
    privacy_of,
    write_parameters,
)

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
    margins = parse_margins(TEXT)
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
        parse_margins(text)
    assert caught.value.code == "bad-flag"


def test_margins_must_fit_the_runs():
    plan = read_plan(TABLE_4 / "gaussian")
    with pytest.raises(ConfigError, match="names no level set of the US run"):
        plan_for_margins(plan, {("PR-STATE", 2): 6}, "exact")
    with pytest.raises(ConfigError, match="switched off"):
        plan_for_margins(plan, {("USA", 2): 6, ("PR-STATE", 2): 6}, "exact")
    with pytest.raises(BudgetError, match="margin of error"):
        plan_for_margins(plan, {("USA", 2): 0}, "exact")
