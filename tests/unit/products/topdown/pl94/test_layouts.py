"""The tables have the columns, identifiers and labels of the Census Bureau."""

from itertools import chain

import pytest

from tallyveil.products.topdown.pl94.layouts import PERSON_TABLES, UNIT_TABLES, label_rows
from tallyveil.schema.presets import load_preset

TABLES = {layout.name: layout for layout in (*PERSON_TABLES, *UNIT_TABLES)}

# As in the technical documentation of the 2020 redistricting data.
PRINTED = {
    "P0010001": "Total:",
    "P0010002": "Population of one race:",
    "P0010003": "White alone",
    "P0010008": "Some Other Race alone",
    "P0010009": "Population of two or more races:",
    "P0010010": "Population of two races:",
    "P0010011": "White; Black or African American",
    "P0010016": "Black or African American; American Indian and Alaska Native",
    "P0010025": "Native Hawaiian and Other Pacific Islander; Some Other Race",
    "P0010026": "Population of three races:",
    "P0010047": "Population of four races:",
    "P0010063": "Population of five races:",
    "P0010069": "Black or African American; American Indian and Alaska Native; Asian; Native Hawaiian and Other "
    "Pacific Islander; Some Other Race",
    "P0010070": "Population of six races:",
    "P0010071": "White; Black or African American; American Indian and Alaska Native; Asian; Native Hawaiian and "
    "Other Pacific Islander; Some Other Race",
    "P0020002": "Hispanic or Latino",
    "P0020003": "Not Hispanic or Latino:",
    "P0020005": "White alone",
    "P0020011": "Population of two or more races:",
    "P0020028": "Population of three races:",
    "P0020073": "White; Black or African American; American Indian and Alaska Native; Asian; Native Hawaiian and "
    "Other Pacific Islander; Some Other Race",
    "P0030009": "Population of two or more races:",
    "P0040004": "Population of one race:",
    "P0040010": "Some Other Race alone",
    "P0050001": "Total:",
    "P0050002": "Institutionalized population:",
    "P0050003": "Correctional facilities for adults",
    "P0050004": "Juvenile facilities",
    "P0050005": "Nursing facilities/Skilled-nursing facilities",
    "P0050006": "Other institutional facilities",
    "P0050007": "Noninstitutionalized population:",
    "P0050008": "College/University student housing",
    "P0050009": "Military quarters",
    "P0050010": "Other noninstitutional facilities",
    "H0010001": "Total:",
    "H0010002": "Occupied",
    "H0010003": "Vacant",
}


def test_every_table_has_the_number_of_columns_that_the_bureau_publishes():
    sizes = {name: len(layout.columns) for name, layout in TABLES.items()}
    assert sizes == {"P1": 71, "P2": 73, "P3": 71, "P4": 73, "P5": 10, "H1": 3}


def test_identifiers_count_from_one():
    for name, layout in TABLES.items():
        wanted = [f"{name[0]}00{name[1]}{number:04d}" for number in range(1, len(layout.columns) + 1)]
        assert layout.identifiers == wanted


def test_labels_are_those_of_the_bureau():
    found = {column.identifier: column.label for layout in TABLES.values() for column in layout.columns}
    assert {name: found[name] for name in PRINTED} == PRINTED


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
def test_parts_divide_what_their_sum_counts(layout):
    for column in layout.columns:
        assert len(set(column.counts)) == len(column.counts)
        if column.parts:
            parts = [layout.columns[part] for part in column.parts]
            assert list(chain.from_iterable(part.counts for part in parts)) == list(column.counts)
            assert {part.indent for part in parts} == {column.indent + 1}
    below = [part for column in layout.columns for part in column.parts]
    assert sorted(below) == list(range(1, len(layout.columns)))


def test_levels_are_those_of_the_presets():
    persons, units = load_preset("pl94-persons"), load_preset("pl94-units")
    races = tuple(levels[0] for levels in TABLES["P1"].columns[0].counts)
    assert races == persons.attribute("cenrace").levels
    assert {levels[0] for levels in TABLES["P5"].columns[0].counts} == set(
        persons.attribute("hhgq").levels[1:]
    )
    assert {levels[0] for levels in TABLES["H1"].columns[0].counts} == set(units.attribute("h1").levels)
    for levels in TABLES["P4"].columns[0].counts:
        for name, level in zip(TABLES["P4"].attributes, levels, strict=True):
            assert level in persons.attribute(name).levels


def test_paths_hold_the_labels_above():
    rows = label_rows((TABLES["P2"],))
    (path,) = rows.filter(column="P0020014")["path"]
    assert path == (
        "Total: > Not Hispanic or Latino: > Population of two or more races: > Population of two races: > "
        "White; American Indian and Alaska Native"
    )
    assert rows["position"].to_list() == list(range(1, 74))
    assert rows["universe"].unique().to_list() == ["Total population"]
