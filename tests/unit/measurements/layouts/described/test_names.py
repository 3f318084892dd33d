"""Names of queries and constraints, as production wrote them."""

from tallyveil.measurements.layouts.census_2020.words import (
    answer_name,
    attribute_words,
    lower_name,
    upper_name,
    zero_words,
)
from tallyveil.measurements.layouts.described.settings import queries_by_name
from tallyveil.schema.presets import load_preset

from .conftest import PERSONS

SCHEMA = load_preset("pl94-persons")


def test_names_of_answers_go_there_and_back():
    queries = ("total", "detailed", "hispanic*cenrace", "votingage*hispanic*cenrace")
    found = [answer_name(query) for query in queries]
    assert found[2:] == ["hispanic * cenrace_dpq", "votingage * hispanic * cenrace_dpq"]
    assert queries_by_name(PERSONS.form, queries, found) == dict(zip(found, queries, strict=True))
    assert queries_by_name(PERSONS.form, queries, ["cenrace * hispanic_dpq", "cenrace*hispanic_dpq"]) == {
        "cenrace * hispanic_dpq": "hispanic*cenrace",
        "cenrace*hispanic_dpq": "hispanic*cenrace",
    }
    assert queries_by_name(PERSONS.form, queries, ["hispanic_dpq", "total_con", "total"]) == {}


def test_columns_of_attributes():
    assert attribute_words(SCHEMA.query("hispanic*cenrace")) == {
        "hhgq": "*",
        "votingage": "*",
        "hispanic": "hispanic",
        "cenrace": "cenrace",
    }
    assert attribute_words(SCHEMA.query("hhinstlevels"))["hhgq"] == "hhinstlevels"
    assert set(attribute_words(SCHEMA.query("detailed")).values()) == {"detailed"}
    assert zero_words(SCHEMA, {"hhgq": "x"}) == {
        "hhgq": "x",
        "votingage": "*",
        "hispanic": "*",
        "cenrace": "*",
    }
    assert (lower_name("hhgq"), upper_name("hhgq")) == ("hhgq_total_lb_con", "hhgq_total_ub_con")
