"""Contradictions between small files of persons and of units, counted by hand."""

import numpy as np

from tallyveil.files.between import (
    between_people,
    between_units,
    household_people,
    households,
    people_and_units,
    redistricting_people,
    units,
)
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset

PERSONS, UNITS = load_preset("dhc-persons"), load_preset("dhc-units")
EARLIER, H1 = load_preset("pl94-persons"), load_preset("pl94-units")

ALONE = "no_partner size_1"
PAIR = "married_opposite_sex size_2"


def counts_of(schema, n_geounits, records):
    """Counts of (geounit, levels in the order of the attributes)."""
    codes = [[a.code(level) for a, level in zip(schema.attributes, one[1:], strict=True)] for one in records]
    rows = np.array([one[0] for one in records], np.int64)
    cells = schema.encode(codes) if codes else np.zeros(0, np.int64)
    return PublicCounts("Block", *compress_rows(n_geounits, rows, cells, np.ones(len(rows), np.int64)))


def compared(persons, homes, n_geounits=1):
    return people_and_units(
        household_people(PERSONS, counts_of(PERSONS, n_geounits, persons)),
        households(UNITS, counts_of(UNITS, n_geounits, homes)),
    )


def found(persons, homes, n_geounits=1):
    return by_name(compared(persons, homes, n_geounits))


def by_name(every):
    return {one.name: (one.n_geounits, one.n_records) for one in every if one.n_geounits}


def unit(block, sex, age, household, *, race="white", origin="not_hispanic", oldest=None):
    oldest = oldest or {"65_74": "65_74", "75_84": "75_plus", "85_plus": "75_plus", "60_64": "60_64"}.get(
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
    homes = [
        unit(0, "male", "35_44", PAIR, oldest="75_plus"),
        unit(0, "female", "15_24", ALONE, race="two_or_more", origin="hispanic"),
        vacant(0),
    ]
    assert found(persons, homes) == {}
    homes[0] = unit(0, "male", "35_44", PAIR, oldest="60_64")
    assert found(persons, homes) == {"older people": (1, 2)}
    homes[0] = unit(0, "male", "35_44", "married_same_sex size_2", oldest="75_plus")
    assert found(persons, homes) == {"kinds of partners": (1, 2)}
    persons[2] = person(0, "householder_with_others", "female", 24, race="white_black", origin="hispanic")
    homes[0] = unit(0, "male", "35_44", PAIR, oldest="75_plus")
    assert found(persons, homes) == {"kinds of householders": (1, 2), "living alone": (1, 1)}


def test_people_without_units_and_units_without_people():
    persons = [person(0, "householder_living_alone", "female", 30)]
    homes = [unit(1, "female", "25_34", ALONE)]
    assert found(persons, homes, 2) == {
        "people without a unit": (1, 1),
        "units without people": (1, 1),
        "householders": (2, 2),
        "kinds of householders": (2, 2),
        "living alone": (2, 2),
        "sizes": (2, 2),
    }


def test_another_age_group_of_the_householder():
    persons = [person(0, "householder_living_alone", "female", 85)]
    homes = [unit(0, "female", "75_84", ALONE)]
    assert found(persons, homes) == {"kinds of householders": (1, 2)}


def test_a_household_of_two_without_a_second_person():
    persons = [person(0, "householder_with_others", "male", 50)]
    homes = [unit(0, "male", "45_54", PAIR)]
    assert found(persons, homes) == {
        "households with others": (1, 1),
        "partners": (1, 1),
        "kinds of partners": (1, 1),
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


def test_children_and_generations():
    family = "no_partner size_4 relatives own_both minors_both multigenerational"
    persons = [
        person(0, "householder_with_others", "female", 40),
        person(0, "biological_child", "male", 3),
        person(0, "adopted_child", "male", 17),
        person(0, "parent", "male", 59),
    ]
    homes = [unit(0, "female", "35_44", family)]
    assert found(persons, homes) == {}
    persons[2] = person(0, "biological_child", "male", 18)
    assert found(persons, homes) == {"own children": (1, 1)}
    persons[3] = person(0, "sibling", "male", 59)
    assert found(persons, homes) == {"own children": (1, 1), "generations": (1, 1)}
    persons[1] = person(0, "sibling", "male", 19)
    assert found(persons, homes) == {"minors": (1, 1), "own children": (1, 2), "generations": (1, 1)}
    grown = [unit(0, "female", "35_44", "no_partner size_4 relatives")]
    persons[1] = person(0, "stepchild", "male", 17)
    assert found(persons, grown) == {"minors": (1, 1), "own children": (1, 1)}


def test_earlier_files():
    persons = [
        person(0, "householder_with_others", "female", 40),
        person(0, "nursing_facilities", "male", 80),
    ]
    people = household_people(PERSONS, counts_of(PERSONS, 1, persons))
    homes = households(UNITS, counts_of(UNITS, 1, [unit(0, "female", "35_44", ALONE), vacant(0)]))
    earlier = [
        (0, "household", "18_plus", "hispanic", "white"),
        (0, "nursing", "18_plus", "hispanic", "white"),
    ]
    before = redistricting_people(EARLIER, counts_of(EARLIER, 1, earlier))
    h1 = units(H1, counts_of(H1, 1, [(0, "occupied"), (0, "vacant")]))
    empty = units(H1, counts_of(H1, 1, [(0, "vacant"), (0, "vacant")]))
    full = units(H1, counts_of(H1, 1, [(0, "occupied"), (0, "occupied")]))
    assert by_name(between_people(before, people)) == {}
    assert by_name(between_people(redistricting_people(EARLIER, counts_of(EARLIER, 1, [])), people)) == {
        "people in households": (1, 1)
    }
    assert by_name(between_units(h1, homes)) == {}
    assert by_name(between_units(empty, homes)) == {"occupied units": (1, 1), "vacant units": (1, 1)}
    assert by_name(people_and_units(before, h1)) == by_name(people_and_units(people, h1)) == {}
    assert by_name(people_and_units(before, homes)) == {}
    assert by_name(people_and_units(before, empty)) == {"people without a unit": (1, 1)}
    assert by_name(people_and_units(before, full)) == {"units without people": (1, 1)}
    assert by_name(people_and_units(people, full)) == {"units without people": (1, 1), "householders": (1, 1)}


def test_every_comparison_has_its_sentence():
    nothing = compared([], [])
    assert len({one.name for one in nothing}) == 13
    assert all(one.meaning.endswith(".") for one in nothing)
    assert [one.name for one in nothing if not one.can_agree] == [
        "kinds of partners",
        "sizes",
        "minors",
        "own children",
        "older people",
        "generations",
    ]
