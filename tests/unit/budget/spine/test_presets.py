"""Production spines as presets: they load, run on a small geography, and leave the geolevels they promise."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.budget.spine.presets import (
    bypass_rule,
    load_spine_preset,
    read_step,
    spine_preset_names,
)
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.optimise import Branch, GroupByMembership, optimise_spine
from tallyveil.geography.spine import path_total
from tallyveil.geography.steps import PRODUCTION_LIMIT, FanOutLimit
from tallyveil.geography.tables import entities_from_columns


def geography(rng, n=400):
    number = np.arange(n)
    codes = {"US": ["us"] * n, "State": ["44"] * n}
    for name, size in (("County", 200), ("Tract", 50), ("Block_Group", 17)):
        codes[name] = [f"44{name[0]}{k // size:03d}" for k in number]
    codes["Block_Group"] = [f"{t}-{b}" for t, b in zip(codes["Tract"], codes["Block_Group"], strict=True)]
    codes["Block"] = [f"b{k:04d}" for k in number]

    def runs(width, some):
        label = (number + int(rng.integers(width))) // width
        return [f"{width}x{k}" if k % some else None for k in label]

    table = {
        "geocode": codes["Block"],
        "tribal_area": [f"T{k // 60}" if 90 < k < 160 else None for k in number],
        "place": runs(37, 3),
        "county_subdivision": runs(71, 99),
        "school_district": runs(90, 99),
        "prim": runs(43, 2),
        "group_quarters": ["college" if k % 29 == 0 else None for k in number],
        "block_group": codes["Block_Group"],
    }
    return codes, table


@pytest.mark.parametrize("name", spine_preset_names())
def test_presets_make_the_spines_they_promise(name):
    preset = load_spine_preset(name)
    assert preset.name == name
    assert preset.source
    assert preset.bypasses
    codes, table = geography(np.random.default_rng(71))
    spine = spine_from_columns({level: codes[level] for level in preset.geolevels}, preset.geolevels)
    families = entities_from_columns(spine, table, preset.families)
    shares = {level: Fraction(1, len(preset.result)) for level in preset.result}
    made = optimise_spine(
        spine, families, preset.steps, shares=shares, bypassing=bypass_rule(Mechanism.DISCRETE_GAUSSIAN)
    )
    assert made.spine.geolevels == preset.result
    assert path_total(made.spine, made.shares) == 1
    groups = made.spine.level_index("Block_Group")
    for group in range(made.spine.n_geounits(groups)):
        inside = made.rows[slice(*made.spine.finest_offsets(groups)[group : group + 2])]
        for family in preset.steps[-1].families:
            assert len({table[family][k] for k in inside}) == 1


@pytest.mark.parametrize("name", spine_preset_names())
def test_summaries_name_a_branch_only_where_a_step_makes_one(name):
    preset = load_spine_preset(name)
    has_branch = any(isinstance(step, Branch) for step in preset.steps)
    assert "branch" not in preset.summary or has_branch


def test_the_rule_of_bypassing_follows_the_mechanism():
    assert bypass_rule(Mechanism.DISCRETE_LAPLACE) is BypassRule.PURE_DP
    assert bypass_rule(Mechanism.DISCRETE_GAUSSIAN) is BypassRule.SINGLE_CHILD


def test_tract_subsets_are_tract_and_prim_and_tribal_area():
    preset = load_spine_preset("dhc-us")
    codes, table = geography(np.random.default_rng(72))
    spine = spine_from_columns({level: codes[level] for level in preset.geolevels}, preset.geolevels)
    families = entities_from_columns(spine, table, preset.families)
    made = optimise_spine(spine, families, preset.steps)
    wanted = {}
    for k in range(400):
        wanted.setdefault((codes["Tract"][k], table["prim"][k], table["tribal_area"][k]), set()).add(k)
    level = made.spine.level_index("Tract_Subset")
    offsets = made.spine.finest_offsets(level)
    found = {frozenset(made.rows[a:b].tolist()) for a, b in itertools.pairwise(offsets)}
    assert found == {frozenset(one) for one in wanted.values()}


def test_names_and_steps_that_are_unknown():
    with pytest.raises(BudgetError, match="no spine preset"):
        load_spine_preset("atlantis")
    assert read_step({"step": "branch", "family": "f", "geolevel": "S", "name": "N"}) == Branch("f", "S", "N")
    table = {"step": "group_by_membership", "families": ["f"], "geolevel": "G", "children": "B", "cutoff": 3}
    assert read_step(table) == GroupByMembership(("f",), "G", "B", FanOutLimit(cutoff=3))
    limited = {**table, "at_most": 7}
    assert read_step(limited).limit == FanOutLimit(cutoff=3, at_most=7)
    del limited["cutoff"]
    assert read_step(limited).limit == FanOutLimit(PRODUCTION_LIMIT.cutoff, 7)
    for wrong in ({"step": "fold"}, {"step": "branch"}, {**table, "colour": "red"}, {"family": "f"}):
        with pytest.raises(BudgetError):
            read_step(wrong)
