"""The unit of record: singular, plural, and words that no page or terminal could mistake for more."""

import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import PERSON, Unit, plural_of, schema_from_mapping, unit_of


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((None, None), ("person", "people")),
        (("person", None), ("person", "people")),
        (("person", "persons"), ("person", "persons")),
        (("household", None), ("household", "households")),
        (("housing unit", None), ("housing unit", "housing units")),
        (("family", "families"), ("family", "families")),
        (("élève", None), ("élève", "élèves")),
        (("family", None), ("family", "families")),
        (("group quarters facility", None), ("group quarters facility", "group quarters facilities")),
    ],
)
def test_the_plural_follows_english_unless_it_is_given(given, wanted):
    unit = unit_of(*given)
    assert (unit.one, unit.many) == wanted


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        ("municipality", "municipalities"),
        ("school district", "school districts"),
        ("valley", "valleys"),
        ("parish", "parishes"),
        ("census", "censuses"),
        ("box", "boxes"),
        ("analysis", "analyses"),
        ("towns", "towns"),
    ],
)
def test_plurals_of_names_of_areas(noun, many):
    assert plural_of(noun) == many


@pytest.mark.parametrize("word", ["", " ", "a ", "[red]", "a\nb", "\x1b[2J", "h1", "<b>", "x" * 41, "-"])
def test_a_word_of_anything_but_letters_is_refused(word):
    with pytest.raises(SchemaError, match=r"\[schema\] unit") as caught:
        Unit(word, "units")
    assert caught.value.code == "schema-unit"
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(SchemaError, match=r"\[schema\] units"):
        Unit("unit", word)


def test_a_number_of_them_is_spelled():
    assert [PERSON.counted(number) for number in (0, 1, 1200)] == ["0 people", "1 person", "1,200 people"]


def test_the_preset_of_housing_units_says_what_it_counts():
    """Its records are housing units: before, every page and message called them people."""
    schema = load_preset("pl94-units")
    assert schema.unit == Unit("housing unit", "housing units")
    assert schema_from_mapping(schema.to_mapping()) == schema


def test_the_usual_unit_leaves_a_schema_its_digest():
    schema = load_preset("race-age")
    assert schema.unit == PERSON
    assert not {"unit", "units"} & set(schema.to_mapping())
