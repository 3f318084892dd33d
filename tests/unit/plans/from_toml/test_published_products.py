"""The products whose measurements can be imported have production's settings."""

import pytest

from tallyveil.budget.presets import load_strategy_preset
from tallyveil.errors import ConfigError
from tallyveil.measurements.layouts.census_2020.words import GEOLEVELS
from tallyveil.plans.from_toml.descriptions import descriptions_named
from tallyveil.plans.from_toml.load import load_plan

PRODUCTS = {
    item.name.removeprefix("redistricting-data-"): item.declared for item in descriptions_named("census-2020")
}


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("persons-us", "redistricting-us"),
        ("persons-one-state", "redistricting-us-from-state"),
        ("persons-pr", "redistricting-state-rooted"),
        ("units-us", "redistricting-units-us"),
        ("units-pr", "redistricting-units-state-rooted"),
    ],
)
def test_settings_are_those_of_the_presets(name, preset):
    plan = PRODUCTS[name]
    known = load_strategy_preset(preset)
    assert plan.strategy.query_shares == known.strategy.query_shares
    assert plan.strategy.total == plan.declared == known.strategy.total
    assert [item.passes for _, item in plan.estimation] == [steps for _, steps in known.passes]
    assert plan.geolevels in (GEOLEVELS, GEOLEVELS[1:])
    assert len(PRODUCTS) == 5


@pytest.mark.parametrize(
    ("name", "example"),
    [("persons-us", "national"), ("persons-pr", "puerto_rico"), ("units-us", "national_units")],
)
def test_a_release_file_of_the_examples_gives_the_same_plan(name, example, pytestconfig):
    plan = load_plan(pytestconfig.rootpath / "examples" / "redistricting" / f"{example}.toml").to_mapping()
    assert plan | {"name": ""} == PRODUCTS[name].to_mapping() | {"name": ""}


def test_a_name_that_is_none():
    with pytest.raises(ConfigError, match="census-2020") as caught:
        descriptions_named("census-2030")
    assert caught.value.code == "unknown-description"
