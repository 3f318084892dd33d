"""Every table of a release file: one mistake in it is refused at its place, and nothing is converted in silence."""

import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from pydantic import ValidationError

import tallyveil.plans.from_toml.planning as config_schema
from tallyveil.declared import adapter_of
from tallyveil.errors import ConfigError, SchemaError, TallyveilError
from tallyveil.plans.fitting import known_query
from tallyveil.plans.from_toml.estimation import by_geolevel, estimation_of
from tallyveil.plans.from_toml.load import load_plan, parse_file
from tallyveil.plans.from_toml.models import EstimationTable, PrivacyTable, ReleaseFile, StrategyTable
from tallyveil.plans.from_toml.planning import MOST_CELLS, require_few_layers, require_size
from tallyveil.plans.inputs import GeographyInput, RecordsInput
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema, SchemaTable, schema_from_mapping

GAUSSIAN = 'neighbours = "bounded"\nmechanism = "discrete_gaussian"\n'
WRONG = [
    (GeographyInput, 'path = "g"\ngeolevels = ["A"]', "either prefix_lengths or parent_columns"),
    (GeographyInput, 'path = "g"\ngeolevels = ["A"]\nprefix_lengths = [1]\nparent_columns = []', "not both"),
    (GeographyInput, 'path = "g"\ngeolevels = ["A", "B"]\nprefix_lengths = [1]', "1 entries, wanted 2"),
    (GeographyInput, 'path = "g"\ngeolevels = ["A", "B"]\nparent_columns = ["a", "b"]', "2 entries, wanted 1"),
    (GeographyInput, 'path = "g"\ngeolevels = ["A", "B"]\nprefix_lengths = [2, 2]', "do not rise"),
    (GeographyInput, 'path = "g"\ngeolevels = []\nprefix_lengths = []', "at least 1 item"),
    (GeographyInput, 'path = "g"\ngeolevels = ["A"]\nprefix_lengths = [-1]', "greater than or equal to 0"),
    (GeographyInput, 'path = "g"\ngeolevels = ["A"]\nprefix_lengths = ["1"]', "valid integer"),
    (SchemaTable, "", "give a preset, or a name and attributes"),
    (SchemaTable, 'name = "own"', "give a preset, or a name and attributes"),
    (SchemaTable, 'preset = "race-age"\nname = "own"', "a preset takes no other keys"),
    (SchemaTable, 'name = "s"\nunits = "homes"\nattributes = [{name = "a", levels = ["x"]}]', "give unit as well"),
    (SchemaTable, 'name = "s"\nattributes = [{name = "a", levels = []}]', "at least 1 item"),
    (PrivacyTable, 'neighbours = "bounded"\nmechanism = "discrete_gaussian"', "either rho or epsilon"),
    (PrivacyTable, GAUSSIAN + 'rho = "1"\nepsilon = "1"', "not both"),
    (PrivacyTable, 'neighbours = "bounded"\nmechanism = "discrete_laplace"\nrho = "1"', "give epsilon, and no rho"),
    (PrivacyTable, 'neighbours = "near"\nmechanism = "discrete_gaussian"\nrho = "1"', "'bounded' or 'unbounded'"),
    (PrivacyTable, GAUSSIAN + 'rho = 1.5', "1.5"),
    (PrivacyTable, GAUSSIAN + 'rho = "1"\ndelta = "0"', "between 0 and 1"),
    (PrivacyTable, GAUSSIAN + 'rho = "1"\ndelta = "1"', "between 0 and 1"),
    (StrategyTable, "", "give a preset, or the shares"),
    (StrategyTable, '[geolevels]\nA = "1"', "give a preset, or the shares"),
    (StrategyTable, 'preset = "redistricting-us"\n[geolevels]\nA = "1"', "a preset has shares of its own"),
    (StrategyTable, 'preset = "redistricting-us"\nrho = "1"\nepsilon = "1"', "not both"),
    (StrategyTable, 'preset = "redistricting-us"\ndelta = "1/10"', "delta is given together with epsilon"),
    (StrategyTable, 'preset = "redistricting-us"\nepsilon = "1"\ndelta = "2"', "between 0 and 1"),
    (EstimationTable, 'slack = "-1"', "number of records"),
    (EstimationTable, 'slack = "4294967297"', "number of records"),
    (EstimationTable, 'rounding_target = "up"', "fraction"),
    (EstimationTable, '[rounding]\n"*" = []', "at least 1 item"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "text", "said"), WRONG)
def test_one_mistake_is_refused_where_it_is(model, text, said):
    with pytest.raises(ValidationError) as caught:
        adapter_of(model).validate_python(tomllib.loads(text), context=Path())
    assert said in str(caught.value)


@pytest.mark.parametrize("model", [GeographyInput, SchemaTable, PrivacyTable, StrategyTable, EstimationTable])
def test_unknown_keys_are_refused_in_every_table(model):
    with pytest.raises(ValidationError, match=r"Extra inputs|Unexpected keyword"):
        adapter_of(model).validate_python({"surprise": 1})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rho = ", "rhoo = ", "did you mean 'rho'"),
        ('count = "count"', "count = 3", "records.count"),
        ("[geography]", "[geograhpy]", "geograhpy: unknown key; did you mean 'geography'"),
        ('levels = ["young", "middle", "old"]', 'levels = "young"', "schema.attributes[1].levels"),
        ('missing = "zero"', 'missing = "none"', "bounds[1].missing"),
        ('missing = "zero"', 'missing = "zero"\ncolour = 1', "bounds[1].colour: unknown key"),
        ('name = "small"', 'name = "sm\\u001ball"', "release.name"),
    ],
)
def test_a_mistake_is_told_with_its_place(edit, old, new, said):
    with pytest.raises(ConfigError) as caught:
        load_plan(edit(old, new))
    assert caught.value.code == "bad-key-or-value"
    assert said in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_key_of_any_length_leaves_the_message_short(edit):
    path = edit("[geography]", f"[{'x' * 100_000}]")
    with pytest.raises(ConfigError) as caught:
        load_plan(path)
    assert caught.value.code == "bad-key-or-value"
    assert f"{'x' * 77}...: unknown key" in str(caught.value)
    assert len(str(caught.value)) < 1000


LONG_KEY = f'"{"x" * 100_000}"'


@pytest.mark.parametrize(
    ("model", "table"),
    [
        (StrategyTable, f"[geolevels]\n{LONG_KEY} = 1"),
        (StrategyTable, f"[queries]\n{LONG_KEY} = {{total = 1}}"),
        (StrategyTable, f'[queries]\n"*" = {{{LONG_KEY} = 1}}'),
        (EstimationTable, f'[passes]\n{LONG_KEY} = [["total"]]'),
        (EstimationTable, f'[rounding]\n{LONG_KEY} = [["total"]]'),
        (RecordsInput, f'[columns]\n{LONG_KEY} = "home"'),
    ],
    ids=["geolevels", "queries", "query", "passes", "rounding", "columns"],
)
def test_a_name_that_is_a_key_has_at_most_4096_characters(model, table):
    """A message names geolevels, queries and attributes that do not exist."""
    with pytest.raises(ValidationError, match="at most 4096 characters"):
        adapter_of(model).validate_python(tomllib.loads(table), context=Path())


def test_a_query_of_any_length_leaves_the_message_short(edit):
    path = edit('"home"]', f'"{"x" * 100_000}"]')
    with pytest.raises(ConfigError) as caught:
        load_plan(path)
    assert caught.value.code == "bad-key-or-value"
    assert "at most 4096 characters" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_all_mistakes_are_told_at_once(edit, small_release):
    edit('count = "count"', "count = 3")
    edit('missing = "zero"', 'missing = "none"')
    with pytest.raises(ConfigError) as caught:
        load_plan(small_release)
    assert str(caught.value).startswith("2 mistakes in ")


@pytest.mark.parametrize("text", ["[", "a = 1\na = 2", "\x00", "a = " + "[" * 5000, "a = 1" + "0" * 5000])
def test_text_that_is_no_toml_is_refused(tmp_path, text):
    path = tmp_path / "release.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        parse_file(path, ReleaseFile)
    assert caught.value.code in ("not-toml", "bad-key-or-value")
    assert len(str(caught.value)) < 2000


def test_geolevels_are_looked_up_by_name_by_star_and_by_default():
    levels = ["A", "B", "C"]
    assert by_geolevel("[x]", {"B": 2, "*": 1}, levels, None) == {"A": 1, "B": 2, "C": 1}
    assert by_geolevel("[x]", {"B": 2}, levels, 7) == {"A": 7, "B": 2, "C": 7}
    with pytest.raises(ConfigError) as caught:
        by_geolevel("[x]", {"D": 1}, levels, 7)
    assert caught.value.code == "unknown-geolevel"
    with pytest.raises(ConfigError) as caught:
        by_geolevel("[x]", {"A": 1}, levels, None)
    assert caught.value.code == "missing-geolevel"


def test_queries_are_looked_up_in_the_schema():
    schema = load_preset("race-age")
    known_query(schema, "total", "outputs.tables")
    with pytest.raises(TallyveilError, match=r"^outputs.tables: "):
        known_query(schema, "income", "outputs.tables")


def test_a_schema_of_too_many_cells_is_refused_with_its_size(small_release):
    strategy = load_plan(small_release).strategy
    attribute = tuple(str(i) for i in range(1 << 14))
    fits = Schema("fits", (Attribute("a", attribute), Attribute("b", attribute[: MOST_CELLS >> 14])))
    require_size(fits, strategy)
    large = Schema("large", (Attribute("a", attribute), Attribute("b", attribute[: (MOST_CELLS >> 14) + 1])))
    with pytest.raises(SchemaError) as caught:
        require_size(large, strategy)
    assert caught.value.code == "schema-too-large"
    assert f"{large.size:,} cells" in str(caught.value)


def test_overlapping_queries_of_too_many_layers_are_refused(small_release, monkeypatch):
    plan = load_plan(small_release)
    sums = tuple(
        (level, plan.schema.attributes[0].levels[: n + 1]) for n, level in enumerate(("a", "b", "c"))
    )
    schema = replace(plan.schema, recodes=(Recode("grown", "age", sums, overlapping=True),))
    require_few_layers(schema, plan.strategy)
    monkeypatch.setattr(config_schema, "MOST_LAYERED_CELLS", 3 * schema.size - 1)
    require_few_layers(plan.schema, plan.strategy)
    with pytest.raises(SchemaError, match="have 3 layers") as caught:
        require_few_layers(schema, plan.strategy)
    assert caught.value.code == "schema-too-large"


def test_units_have_a_plural():
    table = {"name": "s", "attributes": [{"name": "a", "levels": ["x", "y"]}], "unit": "home"}
    assert schema_from_mapping(table).unit.many == "homes"
    assert schema_from_mapping(table | {"units": "dwellings"}).unit.many == "dwellings"


def passes_of(small_release, passes):
    plan = load_plan(small_release)
    table = EstimationTable(passes={"*": passes}, slack="1/2")
    return dict(estimation_of(table, plan.strategy, None, drawn=False))["Town"]


@pytest.mark.parametrize(
    ("passes", "wanted"),
    [
        ([["*"]], (("total", "grown", "age*home"),)),
        ([["total"], ["*"]], (("total",), ("grown", "age*home"))),
        ([["*"], ["total"]], (("grown", "age*home"), ("total",))),
        ([["total", "grown", "age*home"], ["*"]], (("total", "grown", "age*home"),)),
    ],
)
def test_a_star_stands_for_what_no_pass_names(small_release, passes, wanted):
    found = passes_of(small_release, passes)
    assert found.passes == wanted
    assert found.slack == Fraction(1, 2)


@pytest.mark.parametrize(
    ("passes", "said"),
    [
        ([["total"]], "left out: age\\*home, grown"),
        ([["total"], ["total"], ["*"]], "repeated: total"),
        ([["*"], ["home"]], "not measured there or repeated: home"),
        ([["*"], ["*"]], "repeated"),
        ([], "left out"),
    ],
)
def test_passes_use_every_measured_query_once(small_release, passes, said):
    with pytest.raises(ConfigError, match=said) as caught:
        passes_of(small_release, passes)
    assert caught.value.code == "bad-passes"
