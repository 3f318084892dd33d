"""Release files: what they come to mean, and what they refuse."""

import json
import re
from fractions import Fraction

import pytest

from tallyveil.accounting import compose, rho_of
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.errors import BudgetError, ConfigError, StoreError, TallyveilError
from tallyveil.plans.from_toml.load import load_plan, release_file_schema
from tallyveil.runs.executor import ClusterSettings


def test_the_small_release_file(small_release):
    plan = load_plan(small_release)
    assert plan.name == "small"
    assert plan.schema.shape == (3, 2)
    assert plan.records.path == small_release.parent / "people.parquet"
    assert dict(plan.records.columns) == {"age": "age", "home": "home"}
    assert plan.geography.prefix_lengths == (1, 3, 5)
    assert plan.strategy.share("Block", "grown") == Fraction(2) * Fraction(1, 2) * Fraction(1, 4)
    assert plan.declared == 2
    assert plan.delta == Fraction(1, 10**10)
    town = plan.estimation_of("Town")
    assert town.passes == (("total",), ("grown", "age*home"))
    assert town.rounding == (("total",), ("home", "age*home"))
    assert plan.bounds[0].missing_upper == 0


def test_the_event_costs_what_was_asked(small_release):
    assert rho_of(load_plan(small_release).event()) == 2


def test_unbounded_neighbours_halve_the_variance(edit):
    bounded = load_plan(edit('rho = "2"', 'rho = "2"')).strategy
    unbounded = load_plan(edit('"bounded"', '"unbounded"')).strategy
    assert unbounded.law("Town", "total").variance * 2 == bounded.law("Town", "total").variance
    assert rho_of(unbounded.event()) == rho_of(bounded.event()) == 2


def test_defaults_need_not_be_written(small_release):
    text = small_release.read_text()
    start, stop = text.index("[estimation.passes]"), text.index("[[invariants]]")
    small_release.write_text(text[:start] + text[stop : text.index("[outputs]")])
    plan = load_plan(small_release)
    assert plan.estimation_of("Region").passes == (("total", "grown", "age*home"),)
    assert plan.estimation_of("Region").rounding == (("total",), ("detailed",))
    assert plan.estimation_of("Region").slack == 0
    assert plan.tables == ("total", "detailed")


def test_a_preset_brings_budget_passes_and_rounding(small_release):
    text = small_release.read_text()
    start, stop = text.index("[schema]"), text.index("[[invariants]]")
    preset = (
        '[schema]\npreset = "pl94-persons"\n[privacy]\nneighbours = "bounded"\nmechanism = "discrete_gaussian"\n'
        'rho = "3"\n[strategy]\npreset = "redistricting-state-rooted"\n'
    )
    text = (text[:start] + preset + text[stop : text.index("[[bounds]]")]).replace(
        '"Region"]\n', '"State"]\n'
    )
    small_release.write_text(
        text.replace(
            'geolevels = ["Region", "Town", "Block"]\nprefix_lengths = [1, 3, 5]',
            'geolevels = ["State", "County", "Tract", "Block_Group", "Block"]\nprefix_lengths = [0, 1, 2, 3, 5]',
        )
    )
    plan = load_plan(small_release)
    assert plan.strategy.total == Fraction(293764, 114921)
    assert plan.estimation_of("County").passes[0] == ("total",)
    assert plan.estimation_of("County").slack == Fraction(1, 10)
    assert plan.estimation_of("Block").rounding[0][0] == "total"
    assert not plan.uses_tree
    small_release.write_text(small_release.read_text() + '[estimation]\nvalues = "tree"\n')
    assert load_plan(small_release).uses_tree


def test_a_preset_with_other_geolevels_is_refused(edit):
    release = edit('[strategy]\nrho = "2"\n', '[strategy]\npreset = "redistricting-us"\n')
    text = release.read_text()
    start, stop = text.index("[strategy.geolevels]"), text.index("[estimation.passes]")
    release.write_text(text[:start] + text[stop:])
    with pytest.raises(ConfigError, match="divides its budget over US"):
        load_plan(release)


def test_a_cost_above_the_declared_budget_is_refused_whatever_the_unit(edit):
    edit("discrete_gaussian", "discrete_laplace")
    release = edit('rho = "2"', 'epsilon = "2"')
    load_plan(release)
    release.write_text(
        release.read_text().replace('[strategy]\nepsilon = "2"', '[strategy]\nepsilon = "2.0001"')
    )
    with pytest.raises(BudgetError, match="declared"):
        load_plan(release)


def test_plans_differ_where_answers_are_numbered_differently(edit, small_release):
    """The order of a recode's groups, and of the queries, numbers the noise: it must enter the digest."""
    first = load_plan(small_release).digest()
    groups = 'groups = { young = ["young"], grown = ["middle", "old"] }'
    second = load_plan(edit(groups, 'groups = { grown = ["middle", "old"], young = ["young"] }')).digest()
    third = load_plan(edit('total = "1/4"\ngrown = "1/4"', 'grown = "1/4"\ntotal = "1/4"')).digest()
    assert len({first, second, third}) == 3


def test_paths_do_not_enter_the_plan(small_release, tmp_path):
    elsewhere = tmp_path / "elsewhere" / "release.toml"
    elsewhere.parent.mkdir()
    elsewhere.write_text(small_release.read_text())
    assert load_plan(elsewhere).digest() == load_plan(small_release).digest()


def test_an_absent_file(tmp_path):
    with pytest.raises(StoreError, match="cannot be read"):
        load_plan(tmp_path / "absent.toml")


def test_the_json_schema_is_complete():
    schema = release_file_schema()
    json.dumps(schema)
    assert set(schema["required"]) == {"release", "records", "geography", "schema", "privacy", "strategy"}
    assert schema["additionalProperties"] is False


def test_a_budget_stated_as_epsilon_at_delta(edit):
    edit(
        '[privacy]\nneighbours = "bounded"\nmechanism = "discrete_gaussian"\nrho = "2"',
        '[privacy]\nneighbours = "bounded"\nmechanism = "discrete_gaussian"\nepsilon = "8"',
    )
    plan = load_plan(edit('[strategy]\nrho = "2"', '[strategy]\nepsilon = "8"'))
    assert plan.strategy.total == plan.declared
    assert compose(plan.event(), neighbours=plan.strategy.neighbours).epsilon(plan.delta).upper <= 8
    assert zcdp_to_epsilon(plan.strategy.total, plan.delta) > 8


def test_a_target_above_the_declared_one_is_refused(edit):
    release = edit('[strategy]\nrho = "2"', '[strategy]\nepsilon = "80"')
    with pytest.raises(BudgetError, match="declared"):
        load_plan(release)


@pytest.mark.parametrize(
    "keys", ['rho = "2"\nepsilon = "8"', 'rho = "2"\ndelta = "1e-9"', 'epsilon = "8"\ndelta = "2"']
)
def test_budgets_stated_twice_or_by_halves_are_refused(edit, keys):
    release = edit('[strategy]\nrho = "2"', f"[strategy]\n{keys}")
    with pytest.raises(ConfigError, match="strategy"):
        load_plan(release)


def test_the_rounding_target_reaches_every_family(edit):
    from tallyveil.noise.key import insecure_key
    from tallyveil.products.topdown.run.run import run_release

    release = edit("[estimation.passes]", '[estimation]\nrounding_target = "nearest"\n[estimation.passes]')
    plan = load_plan(release)
    assert {item.target for _, item in plan.estimation} == {"nearest"}
    outcome = run_release(plan, release.parent / "out", test_key=insecure_key("nearest"))
    assert outcome.manifest.body["plan"]["estimation"]["Town"]["rounding_target"] == "nearest"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('units = "homes"', "give unit as well"),
        ('unit = "[red]home"', "letters, spaces, hyphens and apostrophes"),
        ('preset = "race-age"\nunit = "household"', "a preset takes no other keys"),
    ],
)
def test_words_for_what_is_counted_that_cannot_be_are_refused(edit, line, wanted):
    with pytest.raises(TallyveilError, match=re.escape(wanted)):
        load_plan(edit('name = "people"\n[[schema', f'name = "people"\n{line}\n[[schema'))


@pytest.mark.parametrize("slack", ["-1", "-1/1000000", "4294967297", "1e999"])
def test_a_slack_that_no_family_could_take_is_refused_with_the_plan(edit, slack):
    """It would stop the run at the second geolevel, after the spend."""
    with pytest.raises(TallyveilError, match="slack"):
        load_plan(edit("[estimation.passes]", f'[estimation]\nslack = "{slack}"\n[estimation.passes]'))


def test_a_rounding_without_a_stage_is_refused_with_the_plan(edit):
    with pytest.raises(TallyveilError, match="rounding"):
        load_plan(edit('"*" = [["total"], ["home", "age*home"]]', '"*" = []'))


def test_where_the_work_is_done_is_no_part_of_the_plan(small_release):
    here = load_plan(small_release)
    assert here.cluster is None
    table = '\n[execution]\nexecutor = "ray"\naddress = "10.0.0.1:6379"\nopen_cluster = true\n'
    small_release.write_text(small_release.read_text() + table)
    there = load_plan(small_release)
    assert there.cluster == ClusterSettings("10.0.0.1:6379", None, open_allowed=True)
    assert there.digest() == here.digest()
    assert there.to_mapping() == here.to_mapping()


@pytest.mark.parametrize(
    "lines", ['address = "a:1"', "open_cluster = true", 'executor = "spark"', "workers = 2"]
)
def test_an_execution_that_makes_no_sense_is_refused(small_release, lines):
    small_release.write_text(f"{small_release.read_text()}\n[execution]\n{lines}\n")
    with pytest.raises(ConfigError, match="execution"):
        load_plan(small_release)
