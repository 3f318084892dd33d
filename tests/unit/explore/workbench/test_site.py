"""What the workbench is made of, and what it refuses."""

import json
from pathlib import Path

import pytest
from tests.samples import few
from tests.unit.explore.workbench.in_node import SMALL

from tallyveil.errors import ConfigError, StoreError
from tallyveil.explore.workbench import filled, make_workbench, planned_values, release_template
from tallyveil.plans.from_toml.load import load_plan

EXAMPLES = Path(__file__).parents[4] / "examples"
FILES = [
    "redistricting/national.toml",
    "redistricting/national_spine.toml",
    "redistricting/national_units.toml",
    "redistricting/puerto_rico.toml",
    "dhc/dhc-persons.toml",
    "dhc/dhc-units.toml",
    "race_combinations/release.toml",
    "rhode_island/release.toml",
    "rhode_island/bounded.toml",
]


@pytest.mark.parametrize("name", few(3, FILES))
def test_a_template_stands_for_the_same_plan_and_keeps_comments(tmp_path, name):
    path = EXAMPLES / name
    plan = load_plan(path)
    text = filled(release_template(path, plan), planned_values(plan))
    (tmp_path / "again.toml").write_text(text, encoding="utf-8")
    assert load_plan(tmp_path / "again.toml").to_mapping() == plan.to_mapping()
    given = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == given.splitlines()[0]
    assert ("# confidential" in text) == ("# confidential" in given)


def test_counts_drawn_on_a_lattice_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no slider") as caught:
        make_workbench(EXAMPLES / "rhode_island" / "integer_subspace.toml", tmp_path / "site")
    assert caught.value.code == "workbench-file"
    assert not (tmp_path / "site").exists()


def test_a_file_with_the_mark_of_a_slot_is_refused(tmp_path):
    (tmp_path / "x.toml").write_text(SMALL + "# tallyveil-workbench-slot:g0:\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="uses for itself") as caught:
        make_workbench(tmp_path / "x.toml", tmp_path / "site")
    assert caught.value.code == "workbench-file"


def test_a_spine_that_follows_the_shares_has_no_estimates_and_says_why(tmp_path):
    made = make_workbench(EXAMPLES / "redistricting" / "national_spine.toml", tmp_path / "site")
    assert "another spine" in made.why
    content = json.loads((tmp_path / "site/data/site.json").read_text(encoding="utf-8"))
    assert content["plan"]["spine"] is None
    assert content["plan"]["bypasses"]
    assert not (tmp_path / "site/data/district.json").exists()


def test_two_plans(tmp_path):
    for name, text in (
        ("one", SMALL),
        ("two", SMALL.replace('"9/10"', '"1/2"').replace('"small"', '"second"')),
    ):
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    make_workbench(tmp_path / "one.toml", tmp_path / "site", compared=tmp_path / "two.toml")
    content = json.loads((tmp_path / "site/data/site.json").read_text(encoding="utf-8"))
    assert (content["plan"]["total"], content["other"]["total"], content["other"]["name"]) == (
        "9/10",
        "1/2",
        "second",
    )
    assert content["other_file"] == "two.toml"
    assert (tmp_path / "site/data/other/data/district.json").exists()


@pytest.mark.nightly
def test_plans_with_other_geolevels_are_compared_on_a_regular_spine(tmp_path):
    files = [EXAMPLES / "redistricting" / f"{name}.toml" for name in ("national", "puerto_rico")]
    make_workbench(files[0], tmp_path / "site", compared=files[1])
    content = json.loads((tmp_path / "site/data/site.json").read_text(encoding="utf-8"))
    assert content["plan"]["spine"]["levels"][1:] == content["other"]["spine"]["levels"]


def test_plans_with_other_schemas_are_not_compared_and_the_page_says_why(tmp_path):
    (tmp_path / "one.toml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "two.toml").write_text(SMALL.replace('"65+"', '"65-79", "80+"'), encoding="utf-8")
    make_workbench(tmp_path / "one.toml", tmp_path / "site", compared=tmp_path / "two.toml")
    content = json.loads((tmp_path / "site/data/site.json").read_text(encoding="utf-8"))
    assert content["other"]["spine"] is None
    assert "another schema" in content["other"]["why"]


def test_a_site_is_replaced_and_other_folders_are_not(tmp_path):
    (tmp_path / "one.toml").write_text(SMALL, encoding="utf-8")
    for _ in range(2):
        make_workbench(tmp_path / "one.toml", tmp_path / "site")
    page = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert "app/workbench/main.js" in page
    assert "default-src 'none'" in page


INLINE = """strategy = {rho = "1", geolevels = {A = "1/4", B = "3/4"}, queries = {"*" = {total = "1"}}}
"""
DOTTED = """strategy.rho = "1"
strategy.geolevels.A = "1/4"
strategy.geolevels.B = "3/4"
strategy.queries."*".total = "1"
"""
APART = """
[strategy.geolevels]
A = "1/4"
B = "3/4"
[outputs]
tables = ["total"]
[strategy.queries."*"]
total = "1"
[strategy]
rho = "1"
"""
REST = """[release]
name = "x" # kept
[records]
path = "records.parquet"
geocode = "b"
[geography]
path = "geography.parquet"
geocode = "b"
geolevels = ["A", "B"]
prefix_lengths = [1, 2]
[schema]
name = "s"
attributes = [{name = "sex", levels = ["f", "m"]}]
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "1"
"""


@pytest.mark.parametrize(
    "text", [INLINE + REST, DOTTED + REST, REST + APART], ids=["inline", "dotted", "apart"]
)
def test_a_strategy_may_be_written_in_every_form_of_toml(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text, encoding="utf-8")
    plan = load_plan(path)
    made = filled(release_template(path, plan), planned_values(plan))
    path.write_text(made, encoding="utf-8")
    assert load_plan(path).to_mapping() == plan.to_mapping()
    assert "# kept" in made


def test_an_input_in_the_site_is_not_removed(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(REST + APART, encoding="utf-8")
    make_workbench(path, tmp_path / "site")
    inside = tmp_path / "site" / "data" / "x.toml"
    inside.write_text(REST + APART, encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        make_workbench(inside, tmp_path / "site")
    assert caught.value.code == "input-in-output"
    assert inside.exists()
