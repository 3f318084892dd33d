"""Labels of a release: found by language, written as they are read, and refused where they do not fit it."""

import tomllib

import pytest
from tests.conftest import SMALL_RELEASE

from tallyveil.errors import TallyveilError
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.from_toml.load import load_plan, plan_from_mapping
from tallyveil.schema.labels import Forms

ENGLISH = """
[labels.en]
title = "People of two regions"
unit = { one = "resident", other = "residents" }
[labels.en.attributes]
age = "Age"
[labels.en.levels.age]
young = "under 18"
[labels.en.levels.grown]
grown = "18/over"
[labels.en.geolevels]
Town = { one = "town", other = "towns" }
[labels.en.tables]
home = "Where people live"
"""
GERMAN = """
[labels.de]
title = "Menschen zweier Regionen"
unit = { one = "Person", other = "Personen" }
[labels.de.attributes]
age = "Alter"
[labels.de.levels.age]
young = "unter 18"
[labels.de.levels.grown]
grown = "ab 18"
[labels.de.geolevels]
Town = { one = "Stadt", other = "Städte" }
[labels.de.tables]
home = "Wo Menschen wohnen"
"""


def plan_with(labels, folder):
    return plan_from_mapping(tomllib.loads(SMALL_RELEASE + labels), folder)


def test_labels_are_found_by_language(tmp_path):
    plan = plan_with(GERMAN + ENGLISH, tmp_path)
    assert plan.languages == ("de", "en")
    german = plan.labels_in("de")
    assert (german.title, german.unit) == ("Menschen zweier Regionen", Forms("Person", "Personen"))
    assert (german.attribute("age"), german.attribute("home")) == ("Alter", "home")
    assert (german.level("age", "young"), german.level("age", "old")) == ("unter 18", "old")
    assert german.geolevel("Town").other == "Städte"
    assert german.geolevel("Block") == Forms("Block", "Block")
    assert (german.table("home"), german.table("age")) == ("Wo Menschen wohnen", None)
    assert plan.labels_in(None).level("age", "young") == "young"


def test_a_plan_states_its_labels_and_measures_as_without(tmp_path, small_release):
    plain, labelled = load_plan(small_release), plan_with(ENGLISH + GERMAN, tmp_path)
    written = labelled.to_mapping()
    assert stated_plan(tmp_path / "plan.json", written).labels == labelled.labels
    assert "labels" not in plain.to_mapping()
    assert {key: value for key, value in written.items() if key != "labels"} == plain.to_mapping()
    assert labelled.measuring_digest() == plain.measuring_digest()
    assert labelled.digest() != plain.digest()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[labels.de]", "[labels.DE]", "'DE' is no tag of a language"),
        (
            'young = "unter 18"',
            'yung = "unter 18"',
            r"\[labels.de.levels.age\] labels 'yung'.* Did you mean 'young'",
        ),
        ("de.levels.age", "de.levels.agge", r"\[labels.de.levels.agge\] labels 'agge'.* Did you mean 'age'"),
        ('home = "Wo', 'hoem = "Wo', r"\[labels.de.tables\] labels 'hoem'"),
        ('Town = { one = "Stadt"', 'Twn = { one = "Stadt"', r"\[labels.de.geolevels\] labels 'Twn'"),
        ("unter 18", "old", "calls both 'young' and 'old' 'old'"),
        ('title = "Menschen zweier Regionen"', "", r"\[labels.de\] has no label of title, which .* in en"),
        ('young = "unter 18"', "", r"\[labels.de\] has no label of levels.age.young"),
        ("Alter", "Al\\u202eter", "labels.de.attributes.age: a label is shown on one line"),
        ("Alter", "A" * 201, "labels.de.attributes.age: .*at most 200"),
        ("title =", "tytle =", "labels.de.tytle: unknown key; did you mean 'title'"),
        (
            '{ one = "Stadt", other = "Städte" }',
            '"Stadt"',
            "labels.de.geolevels.Town: Input should be a table",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, old, new, said):
    assert old in GERMAN
    with pytest.raises(TallyveilError, match=said) as refused:
        plan_with(ENGLISH + GERMAN.replace(old, new, 1), tmp_path)
    assert refused.value.code in ("labels", "bad-key-or-value")
