"""Contradictions between small files of persons and of units, counted by hand."""

import numpy as np

from tallyveil.release.contradictions import contradictions
from tallyveil.universe.counts import PublicCounts, compress_rows
from tallyveil.universe.presets import load_preset

PERSONS, UNITS = load_preset("dhc-persons"), load_preset("dhc-units")

ALONE = "no_partner size_1"
PAIR = "married_opposite_sex size_2"


def counts_of(schema, n_geounits, records):
    """Counts of (geounit, levels in the order of the attributes)."""
    codes = [[a.code(level) for a, level in zip(schema.attributes, one[1:], strict=True)] for one in records]
    rows = np.array([one[0] for one in records], np.int64)
    cells = schema.encode(codes) if codes else np.zeros(0, np.int64)
    return PublicCounts("Block", *compress_rows(n_geounits, rows, cells, np.ones(len(rows), np.int64)))


def found(persons, units, n_geounits=1):
    every = contradictions(
        (PERSONS, counts_of(PERSONS, n_geounits, persons)), (UNITS, counts_of(UNITS, n_geounits, units))
    )
    return {one.name: (one.n_geounits, one.n_records) for one in every if one.n_geounits}


def unit(block, sex, age, household, *, race="white", origin="not_hispanic"):
    oldest = {"65_74": "65_74", "75_84": "75_plus", "85_plus": "75_plus", "60_64": "60_64"}.get(
        age, "under_60"
    )
    return (block, "rented", sex, age, origin, race, oldest, household)


def vacant(block):
    return (block, "for_rent", "none", "none", "none", "none", "none", "none")


def person(block, relgq, sex, age, *, race="white", origin="not_hispanic"):
    return (block, relgq, sex, str(age), origin, race)


def test_a_couple_and_a_single_agree():
    persons = [
        person(0, "householder_with_others", "male", 44),
        person(0, "opposite_sex_spouse", "female", 90),
        person(0, "householder_living_alone", "female", 24, race="white_black", origin="hispanic"),
        person(0, "college_housing", "male", 19),
    ]
    units = [
        unit(0, "male", "35_44", PAIR),
        unit(0, "female", "15_24", ALONE, race="two_or_more", origin="hispanic"),
        vacant(0),
    ]
    assert found(persons, units) == {}


def test_people_without_units_and_units_without_people():
    persons = [person(0, "householder_living_alone", "female", 30)]
    units = [unit(1, "female", "25_34", ALONE)]
    assert found(persons, units, 2) == {
        "people without a unit": (1, 1),
        "units without people": (1, 1),
        "householders": (2, 2),
        "kinds of householders": (2, 2),
        "living alone": (2, 2),
        "sizes": (2, 2),
    }


def test_another_age_group_of_the_householder():
    persons = [person(0, "householder_living_alone", "female", 85)]
    units = [unit(0, "female", "75_84", ALONE)]
    assert found(persons, units) == {"kinds of householders": (1, 2)}


def test_a_household_of_two_without_a_second_person():
    persons = [person(0, "householder_with_others", "male", 50)]
    units = [unit(0, "male", "45_54", PAIR)]
    assert found(persons, units) == {
        "households with others": (1, 1),
        "partners": (1, 1),
        "sizes": (1, 1),
    }


def test_the_open_size_takes_any_number_of_people():
    large = "no_partner size_7_plus relatives"
    persons = [
        person(0, "householder_with_others", "male", 50),
        *[person(0, "sibling", "male", 50) for _ in range(9)],
    ]
    assert found(persons, [unit(0, "male", "45_54", large)]) == {}
    assert found(persons[:5], [unit(0, "male", "45_54", large)]) == {"sizes": (1, 2)}


def test_every_comparison_has_its_sentence():
    nothing = contradictions((PERSONS, counts_of(PERSONS, 1, [])), (UNITS, counts_of(UNITS, 1, [])))
    assert len({one.name for one in nothing}) == 8
    assert all(one.meaning.endswith(".") for one in nothing)
