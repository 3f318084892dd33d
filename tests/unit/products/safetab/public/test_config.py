"""config.json: every rule of its format has its error, and all mistakes are told at once."""

from fractions import Fraction

import pytest
from tests import toy_country as toy

from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError
from tallyveil.products.safetab.public.config import read_config


def refused(tmp_path, **changes):
    folder = toy.write_params(tmp_path / "p", **changes)
    with pytest.raises(ConfigError) as raised:
        read_config(folder)
    return raised.value


def test_a_valid_config(params):
    config = read_config(params)
    assert config.mechanism is Mechanism.DISCRETE_GAUSSIAN
    assert config.stage_1_fraction == Fraction(1, 10)
    assert config.budgets["USA", 2] == Fraction("2.134")
    assert config.suppression == Fraction("0.9999")
    assert config.runs == ("US", "PR")


def test_the_production_config(production):
    config = read_config(production)
    assert sum(config.budgets[g, level] for g, level in config.budgets if not g.startswith("PR")) == Fraction(
        "4.944"
    )
    assert config.thresholds["USA", 2] == (471, 971, 6971)
    assert len(config.states) == 51


BUDGET = "privacy_budget_p_level_2_county"
RULES = [
    ({"max_race_codes": 0}, "max_race_codes"),
    ({"max_race_codes": 9}, "max_race_codes"),
    ({"max_race_codes": True}, "max_race_codes"),
    ({"max_race_codes": 2.5}, "max_race_codes"),
    ({BUDGET: -1}, BUDGET),
    ({BUDGET: "0.2"}, BUDGET),
    ({BUDGET: True}, BUDGET),
    ({BUDGET: float("nan")}, BUDGET),
    ({BUDGET: float("-inf")}, BUDGET),
    ({BUDGET: None}, "is missing"),
    ({"privacy_budget_p_stage_1_fraction": 0}, "between 0 and 1"),
    ({"privacy_budget_p_stage_1_fraction": 1}, "between 0 and 1"),
    ({"privacy_budget_p_stage_1_fraction": -1}, "between 0 and 1"),
    ({"privacy_budget_p_stage_1_fraction": 2}, "between 0 and 1"),
    ({"zero_suppression_chance": 1}, "zero_suppression_chance"),
    ({"zero_suppression_chance": -0.1}, "zero_suppression_chance"),
    ({"zero_suppression_chance": "0.9"}, "zero_suppression_chance"),
    ({"allow_negative_counts": "true"}, "allow_negative_counts"),
    ({"run_us": 1}, "run_us"),
    ({"run_us": False, "run_pr": False}, "both false"),
    ({"reader": "spark"}, "reader"),
    ({"state_filter_us": []}, "state_filter_us"),
    ({"state_filter_us": "01"}, "state_filter_us"),
    ({"state_filter_us": [1]}, "state_filter_us"),
    ({"state_filter_us": ["01", "01"]}, "more than once"),
    ({"state_filter_us": ["01", "72"]}, "no states"),
    ({"privacy_defn": "approxdp"}, "privacy_defn"),
    ({"thresholds_p": [1, 2, 3]}, "thresholds_p"),
    ({"surprise": 1}, "unknown key"),
]


@pytest.mark.parametrize(("changes", "said"), RULES, ids=str)
def test_every_rule(tmp_path, changes, said):
    error = refused(tmp_path, **changes)
    assert error.code == "safetab-config"
    assert error.exit_code == 2
    assert said in str(error)


@pytest.mark.parametrize(
    "value", [[1, 2], [1, 2, 3, 4], [3, 2, 1], [1, 2, "3"], [1, 2, True], 5, [1, 2, float("inf")]]
)
def test_thresholds_are_exactly_three_rising_numbers(tmp_path, value):
    thresholds = toy.config_values()["thresholds_p"] | {"(USA, 1)": value}
    assert "(USA, 1)" in str(refused(tmp_path, thresholds_p=thresholds))


def test_thresholds_of_the_run_must_all_be_there(tmp_path):
    thresholds = toy.config_values()["thresholds_p"]
    del thresholds["(PLACE, 2)"]
    thresholds["(PLAZA, 2)"] = [1, 2, 3]
    said = str(refused(tmp_path, thresholds_p=thresholds))
    assert "lacks '(PLACE, 2)'" in said
    assert "'(PLAZA, 2)'" in said


def test_only_the_keys_of_the_runs_asked_for_are_needed(tmp_path):
    values = {key: None for key in toy.config_values() if "_pr_" in key}
    thresholds = {k: v for k, v in toy.config_values()["thresholds_p"].items() if "PR-" not in k}
    folder = toy.write_params(tmp_path / "p", run_pr=False, thresholds_p=thresholds, **values)
    assert read_config(folder).runs == ("US",)


def test_an_infinite_budget_is_told_apart(tmp_path):
    error = refused(tmp_path, **{BUDGET: float("inf")})
    assert error.code == "safetab-infinite"
    assert BUDGET in str(error)


def test_all_budgets_zero(tmp_path):
    zero = {
        key: 0 for key in toy.config_values() if key.startswith("privacy_budget_p_level") and "_pr_" in key
    }
    assert "every budget of the PR run is 0" in str(refused(tmp_path, **zero))


def test_all_mistakes_at_once(tmp_path):
    said = str(refused(tmp_path, max_race_codes=0, privacy_defn="x", reader="y"))
    assert "3 mistake(s)" in said


@pytest.mark.parametrize("text", ["{", "[1]", '{"run_us": true, "run_us": false}', "\udcff"])
def test_what_is_no_json_object(params, text):
    (params / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as raised:
        read_config(params)
    assert raised.value.code == "safetab-config"


def test_fractions_of_a_threshold_round_up(tmp_path):
    """A count is at least 2.5 where it is at least 3."""
    thresholds = toy.config_values()["thresholds_p"] | {"(USA, 1)": [-2.5, 2.5, 3]}
    folder = toy.write_params(tmp_path / "p", thresholds_p=thresholds)
    assert read_config(folder).thresholds["USA", 1] == (-2, 3, 3)
