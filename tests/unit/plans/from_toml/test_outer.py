"""Outer passes and agreements in release files: what they come to mean, and what is refused before anything is read."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest
from tests.outer_worlds import PERSONS, UNITS

from tallyveil.declared import mapping_of
from tallyveil.errors import TallyveilError
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.from_toml.load import load_estimation, load_plan
from tallyveil.plans.outer import early_answers, measured_by_pass, sources_of_groups


def plan_from(folder: Path, text: str):
    path = folder / "release.toml"
    path.write_text(text)
    return load_plan(path)


def test_queries_belong_to_the_first_pass_that_determines_them(tmp_path):
    plan = plan_from(tmp_path, PERSONS)
    assert [one.cells for one in plan.outer] == ["relation*ages*sex", "detailed"]
    queries = plan.strategy.queries("Town")
    by_pass = measured_by_pass(plan.schema, plan.outer, queries)
    assert by_pass == (("sex", "relation*sex", "ages*sex", "relation*ages*sex"), ("detailed",))
    town = plan.estimation_of("Town")
    assert town.passes == by_pass
    assert town.rounding == (("sex", "ages*sex", "relation*ages*sex"), ("detailed",))
    assert town.values == "own"
    assert plan.agreement[0].path == tmp_path / "coarse"


def test_the_plan_says_so_and_is_read_back(tmp_path):
    for text in (PERSONS, UNITS):
        plan = plan_from(tmp_path, text)
        mapping = json.loads(json.dumps(plan.to_mapping()))
        assert mapping["outer"][-1]["cells"] == plan.outer[-1].cells
        assert mapping["agreement"] == [mapping_of(item) for item in plan.agreement]
        assert stated_plan(Path("manifest.json"), mapping).to_mapping() == plan.to_mapping()
        for wrong in (
            {**mapping, "outer": []},
            {**mapping, "outer": mapping["outer"][:1]},
            {**mapping, "agreement": []},
        ):
            with pytest.raises(TallyveilError) as caught:
                stated_plan(Path("manifest.json"), wrong)
            assert caught.value.code == "release-damaged"


def test_a_plan_without_passes_has_no_new_keys(small_release):
    assert {"outer", "agreement"}.isdisjoint(load_plan(small_release).to_mapping())


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            ('cells = "detailed"', 'cells = "relation*ages*sex"'),
            "outer-pass",
            "do not tell all levels of 'age' apart",
        ),
        (('"relation*ages*sex" = "1/4"', '"relation*grown" = "1/4"'), None, ""),
        (('cells = "relation*ages*sex"', 'cells = "relation*grown*sex"'), "outer-pass", "must be nested"),
        (
            ('rounding = ["sex", "ages*sex"]', 'rounding = ["ages*sex", "sex"]'),
            "outer-pass",
            "must be nested",
        ),
        (('cells = "detailed"', 'cells = "relation*age"'), "outer-pass", "no outer pass determines"),
        (('cells = "detailed"', 'cells = "detailed"\nroundings = []'), "bad-key-or-value", "rounding"),
        (("[[agreement]]", "[[agreement]]\nfoo = 1"), "bad-key-or-value", "foo"),
        (('query = "home*grown"', 'query = "home*grwn"'), "schema", "grwn"),
        (("[[agreement]]", '[estimation.passes]\n"*" = [["*"]]\n[[agreement]]'), "outer-pass", "passes"),
        (("[[agreement]]", '[estimation]\nvalues = "tree"\n[[agreement]]'), "outer-pass", "values"),
    ],
)
def test_bad_passes_are_refused(tmp_path, change, code, words):
    text = PERSONS.replace(*change)
    if change[0] == "[[agreement]]" and "[estimation]" in change[1]:
        text = PERSONS.replace(
            "[[estimation.outer]]", '[estimation]\nvalues = "tree"\n[[estimation.outer]]', 1
        )
    if code is None:
        plan_from(tmp_path, text)
        return
    with pytest.raises(TallyveilError) as caught:
        plan_from(tmp_path, text)
    assert caught.value.code == code, str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        # Nothing says in which cell vacant units lie.
        (
            (
                'cells = { tenure = ["for_rent", "other_vacant", "prison"], size',
                'cells = { tenure = ["prison"], size',
            ),
            "several cells",
        ),
        # Rented units may have one person, units without rent may not.
        (
            (
                'name = "occupied has a size"\ncells = { tenure = ["owned", "rented", "free"], size = ["none"] }',
                'name = "odd"\ncells = { tenure = ["rented"], size = ["1"] }',
            ),
            "bars some levels",
        ),
        (('cells = "tenure"', 'cells = "ten2"'), "pass 1 leaves out records with tenure=for_rent"),
    ],
)
def test_passes_that_leave_cells_open_are_refused(tmp_path, change, words):
    assert change[0] in UNITS
    with pytest.raises(TallyveilError) as caught:
        plan_from(tmp_path, UNITS.replace(change[0], change[1], 1))
    assert words in str(caught.value)


def test_counts_drawn_on_a_lattice_are_refused(tmp_path):
    drawn = '[[subspace]]\nquery = "sex"\ngeolevel = "Town"\nrho = "1/10"\n'
    with pytest.raises(TallyveilError, match="drawn on a lattice") as caught:
        plan_from(tmp_path, PERSONS + drawn)
    assert caught.value.code == "outer-pass"


def test_all_answers_of_a_huge_query_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tallyveil.plans.from_toml.estimation.MOST_ANSWERS_IN_FULL", 50)
    text = PERSONS.replace('measurements = "none"', 'measurements = "full"')
    with pytest.raises(TallyveilError) as caught:
        plan_from(tmp_path, text)
    assert caught.value.code == "many-answers"
    assert 'measurements = "small"' in str(caught.value)


def test_other_settings_cannot_be_put_in_the_place_of_outer_passes(tmp_path, small_release):
    plan = plan_from(tmp_path, PERSONS)
    path = tmp_path / "settings.toml"
    path.write_text("[estimation]\n")
    with pytest.raises(TallyveilError, match="cannot be changed here"):
        load_estimation(path, plan)
    path.write_text('[[estimation.outer]]\ncells = "detailed"\n')
    with pytest.raises(TallyveilError, match="cannot be changed here"):
        load_estimation(path, load_plan(small_release))


def test_the_examples_of_the_page_are_a_plan(tmp_path):
    page = (Path(__file__).parents[4] / "docs" / "outer-passes.md").read_text()
    outer, beside, *_, agreement = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    text = (resources.files("tallyveil.api") / "release_files" / "dhc-persons.toml").read_text()
    begin, end = text.index("[[agreement]]"), text.index("[[bounds]]")
    plan = plan_from(tmp_path, text[:begin].replace("@NAME@", "example") + outer + agreement + text[end:])
    assert [one.cells for one in plan.outer] == ["relgq*age_40_groups*hispanic*cenrace*sex", "detailed"]
    assert plan.agreement[0].path == tmp_path / "../releases/redistricting"
    assert plan.estimation_of("Block").passes[1] == ("detailed",)
    begin, end = UNITS.index("[[estimation.outer]]"), UNITS.index("[[agreement]]")
    plan = plan_from(tmp_path, UNITS[:begin] + beside + UNITS[end:])
    assert plan.outer[0].also == ("tenure",)
    assert sources_of_groups([plan.query(one.cells) for one in plan.outer]) == [0, 0, 0]


def test_a_pass_that_loses_what_an_earlier_one_counts_is_refused(tmp_path):
    text = PERSONS.replace(
        "[[agreement]]",
        '[[estimation.outer]]\ncells = "relation*age"\n[[estimation.outer]]\ncells = "detailed"\n[[agreement]]',
        1,
    )
    text = text.replace('[[estimation.outer]]\ncells = "detailed"\n\n', "", 1)
    with pytest.raises(TallyveilError, match="pass 3 counts 'detailed' within") as caught:
        plan_from(tmp_path, text)
    assert caught.value.code == "outer-pass"
    assert "'relation*age'" in str(caught.value)


def test_a_pass_divides_the_earlier_counts_that_say_most_about_it(tmp_path):
    schema = plan_from(tmp_path, UNITS).schema
    passes = [schema.query(one) for one in ("ten2_or_not*holder*size", "tenure", "ten2*sex*persons")]
    assert sources_of_groups(passes) == [0, 0, 0]
    assert sources_of_groups([passes[1], schema.query("ten2*sex"), passes[2]]) == [0, 0, 1]


EARLY = 'cells = "ten2_or_not*holder*size"\nalso = ["tenure"]\n[[estimation.outer]]\ncells = "tenure"\n'


def test_a_pass_may_use_some_answers_of_a_later_query(tmp_path):
    text = UNITS.replace('cells = "tenure"\n', EARLY).replace(
        '[[estimation.outer]]\ncells = "ten2*sex"\n', ""
    )
    plan = plan_from(tmp_path, text)
    assert stated_plan(Path("manifest.json"), plan.to_mapping()).outer == plan.outer
    measured = ["tenure", "ten2*sex"]
    assert measured_by_pass(plan.schema, plan.outer, measured) == (("ten2*sex",), ("tenure",), ())
    (early,) = early_answers(plan.schema, plan.outer, 0, measured)
    assert early.name == "tenure"
    # Owned units and prisons are counted by the first pass; others only together with other tenures.
    assert early.factors[0].codes.tolist() == [0, -1, -1, -1, -1, 5]
    assert early_answers(plan.schema, plan.outer, 1, measured) == ()
    assert early_answers(plan.schema, plan.outer, 0, ["ten2*sex"]) == ()


@pytest.mark.parametrize("name", ["ten2*sex", "detailed", "holder"])
def test_answers_that_have_no_effect_are_refused(tmp_path, name):
    early = EARLY.replace('also = ["tenure"]', f'also = ["{name}"]')
    text = UNITS.replace('cells = "tenure"\n', early).replace(
        '[[estimation.outer]]\ncells = "ten2*sex"\n', ""
    )
    with pytest.raises(TallyveilError, match=r"pass 1 has .* in 'also'"):
        plan_from(tmp_path, text)
