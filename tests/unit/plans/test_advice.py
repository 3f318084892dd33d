"""What a plan could do better: shares that buy something, and the spine that goes with production's shares."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.budget.presets import strategy_preset_names
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.record import fixed_shares, spine_advice

EXAMPLES = Path(__file__).parents[3] / "examples"


def without_tables(text, *names):
    """A release file without some tables and their parts."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("["):
            name = line.strip("[]").split("]")[0].split(".")[0]
            inside = name in names
        kept += [] if inside else [line]
    return "\n".join(kept)


def pasted(path):
    """The release file with the shares that the advice gives."""
    found = fixed_shares(load_plan(path))
    better = path.with_name("better.toml")
    better.write_text(
        without_tables(path.read_text(), "strategy", "estimation") + "\n\n" + found["toml"] + "\n"
    )
    return load_plan(better), found


def test_the_shares_can_be_pasted_into_a_file_with_shares_of_its_own(small_release):
    """A quarter of the budget at Region measures totals that are exact; its pass goes, too."""
    before = load_plan(small_release)
    plan, found = pasted(small_release)
    assert found["freed"] == "1/16"
    assert [(item["geolevel"], item["query"]) for item in found["fixed"]] == [("Region", "total")]
    assert plan.spent == before.spent
    assert plan.estimation_of("Region").passes == (("grown", "age*home"),)
    assert plan.estimation_of("Town") == before.estimation_of("Town")
    assert plan.strategy.share("Block", "grown") == before.strategy.share("Block", "grown") * Fraction(16, 15)
    assert fixed_shares(plan) is None
    assert sum(map(Fraction, found["better"]["geolevels"].values())) == 1


@pytest.mark.parametrize("name", ["national", "one_state"])
def test_the_shares_can_stand_in_for_a_preset(tmp_path, name):
    path = tmp_path / f"{name}.toml"
    path.write_text((EXAMPLES / "redistricting" / f"{name}.toml").read_text())
    before = load_plan(path)
    plan, found = pasted(path)
    assert "32.4 %" in found["sentences"][0] or "33.2 %" in found["sentences"][0]
    assert plan.spent == before.spent
    for geolevel in plan.geolevels:
        was, now = before.estimation_of(geolevel), plan.estimation_of(geolevel)
        assert (was.slack, was.rounding, was.target) == (now.slack, now.rounding, now.target)
    assert fixed_shares(plan) is None


def test_a_plan_read_back_from_its_folder_says_the_same(small_release):
    plan = load_plan(small_release)
    stated = stated_plan(Path("plan.json"), json.loads(json.dumps(plan.to_mapping())))
    assert fixed_shares(stated) == fixed_shares(plan)


@pytest.mark.parametrize("example", ["redistricting/puerto_rico", "rhode_island/release"])
def test_nothing_is_said_where_nothing_is_wasted(example):
    assert fixed_shares(load_plan(EXAMPLES / f"{example}.toml")) is None


def test_names_of_any_kind_stay_valid_toml(edit):
    path = edit('"age*home" = "1/2"', '"age*home" = "1/4"\n"a b\\"é" = "1/4"')
    path.write_text(
        path.read_text().replace(
            "[[schema.recodes]]",
            '[[schema.recodes]]\nname = "a b\\"é"\nattribute = "home"\ngroups = { x = ["house"] }\n[[schema.recodes]]',
            1,
        )
    )
    plan, _ = pasted(path)
    assert 'a b"é' in plan.strategy.queries("Block")


@pytest.mark.parametrize(
    ("name", "spine"),
    [
        ("national", "redistricting-persons-us"),
        ("one_state", "redistricting-persons-state-rooted"),
        ("puerto_rico", "redistricting-persons-state-rooted"),
    ],
)
def test_production_shares_of_one_state_name_their_spine(name, spine):
    assert f'preset = "{spine}"' in spine_advice(load_plan(EXAMPLES / "redistricting" / f"{name}.toml"))


def test_a_spine_that_a_constraint_rules_out_is_not_advised(tmp_path):
    """The national spine cuts States into siblings, whose sums invariants may fix; a County's parts are no siblings."""
    path = tmp_path / "national.toml"
    path.write_text((EXAMPLES / "redistricting" / "national.toml").read_text())
    assert 'preset = "redistricting-persons-us"' in spine_advice(load_plan(path))
    path.write_text(path.read_text().replace('geolevels = ["State"]', 'geolevels = ["County"]'))
    assert spine_advice(load_plan(path)) is None


def test_shares_of_parts_whose_sum_alone_is_exact_are_not_called_wasted(tmp_path):
    path = tmp_path / "national.toml"
    text = (EXAMPLES / "redistricting" / "national.toml").read_text()
    path.write_text(text)
    wasted = fixed_shares(load_plan(path))
    assert [(item["geolevel"], item["query"]) for item in wasted["fixed"]] == [("State", "total")]
    spine = '\n[spine]\nentities = "e.parquet"\npreset = "redistricting-persons-us"\n'
    path.write_text(text + spine)
    assert fixed_shares(load_plan(path)) is None


def test_a_spine_of_its_own_or_shares_of_its_own_are_left_alone(tmp_path, small_release):
    assert spine_advice(load_plan(small_release)) is None
    path = tmp_path / "one.toml"
    text = (EXAMPLES / "redistricting" / "one_state.toml").read_text()
    path.write_text(
        text + '\n[spine]\nentities = "e.parquet"\npreset = "redistricting-persons-state-rooted"\n'
    )
    assert spine_advice(load_plan(path)) is None
    path.write_text(text + "\n[spine]\nbypass = true\n")
    assert spine_advice(load_plan(path)) is not None


def test_every_strategy_preset_names_a_spine_of_its_geolevels():
    from tallyveil.budget.presets import load_strategy_preset
    from tallyveil.budget.spine.presets import load_spine_preset

    for name in strategy_preset_names():
        preset = load_strategy_preset(name)
        if name.startswith("dhc") and "from-state" in name:
            assert preset.spine is None  # not a strategy of production
            continue
        assert load_spine_preset(preset.spine).result == preset.strategy.geolevels
