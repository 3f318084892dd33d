"""The schemas of the Demographic and Housing Characteristics against the released code's levels and counts."""

import csv
import runpy
from pathlib import Path

import numpy as np
import pytest

from tallyveil.schema.household_types import household_types
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

DATA = Path(__file__).parent / "dhc"
SEVEN = ("couple", "rel", "oc", "xc", "c18", "multig", "size")
SIZES = {
    "dhc-persons": {
        "votingage": 2, "age_18_64_116": 3, "age_10_groups": 10, "agePyramid23groups": 23, "age_38_groups": 38,
        "age_40_groups": 40, "relgq_4_groups": 4, "gq_constr_groups": 6, "popSehsdTargetsRelship": 19, "hhgq8lev": 8,
        "relship_and_eight_level_GQ": 25, "gqlevels": 25, "cenrace_7lev": 7,
        "hhage": 9, "householders": 1, "living": 2, "living_alone": 1, "householders_with_others": 1,
        "other_members": 1, "partners": 1, "roles": 26, "living_roles": 27, "partner_roles": 28,
    },
    "dhc-units": {
        "ten2": 2, "ten3": 3, "occupancy": 2, "housing_units": 1, "gqtypes": 24, "sex": 2, "hhage": 9, "hisp": 2,
        "race": 7, "elderly": 4, "hhtype": 522, "multig": 2, "coupled_hh_type": 5, "partner_type_own_child_status": 6,
        "partner_type_detailed_own_child_status": 12, "DetailedCoupleTypeMultGenDetOwnChildSize": 183,
        "DetailedCoupleTypeMultGenOwnChildSize": 99, "DetailedCoupleTypeDetOwnChildSize": 104,
        "family_nonfamily_size": 13, "hhsize_all": 7,
        "occupancy_and_gqtypes": 26, "ten3_and_gqtypes": 28, "living": 2, "coupled": 1, "living_and_couple": 4,
        "DetailedCoupleTypeMultGenDetOwnChildSize_or_none": 184,
    },
}  # fmt: skip
# The columns of the tables of household types that have another name there.
COLUMNS = {
    "D": "DetailedCoupleTypeMultGenDetOwnChildSize",
    "D_coarse_own_child": "DetailedCoupleTypeMultGenOwnChildSize",
    "D_without_multig": "DetailedCoupleTypeDetOwnChildSize",
}
MEASURED = {
    "dhc-persons": {
        "age_18_64_116*relgq_4_groups": 12, "age_18_64_116*sex": 6, "age_38_groups*sex": 76, "hispanic*sex": 4,
        "sex*relgq_4_groups": 8, "gq_constr_groups*age_10_groups": 60, "popSehsdTargetsRelship": 19,
        "hispanic*sex*age_40_groups*relship_and_eight_level_GQ*cenrace": 252_000,
        "relgq*age_40_groups*hispanic*cenrace*sex": 423_360, "detailed": 1_227_744,
    },
    "dhc-units": {
        "multig*hisp*ten2": 8, "hisp*ten2": 4, "hisp*ten2*race": 28,
        "partner_type_detailed_own_child_status*sex*ten2": 48, "coupled_hh_type*hisp*ten2": 20,
        "sex*hisp*ten3*race*DetailedCoupleTypeMultGenDetOwnChildSize": 15_372,
        "sex*hisp*ten3*race*hhage*DetailedCoupleTypeMultGenDetOwnChildSize": 138_348,
        "ten3*hhage*DetailedCoupleTypeMultGenDetOwnChildSize": 4_941,
        "sex*hhage*hisp*race*elderly*ten3*hhtype": 1_578_528, "tenvacgq": 35,
    },
}  # fmt: skip
# First and last age of people by level of relgq; other levels have all ages.
AGES_ALLOWED = {
    **dict.fromkeys(range(6), (15, 115)), **dict.fromkeys((6, 7, 8), (0, 89)), **dict.fromkeys((10, 12), (30, 115)),
    11: (0, 74), 13: (15, 89), 16: (0, 20), **dict.fromkeys(range(18, 23), (15, 115)),
    **dict.fromkeys((24, 25, 26), (0, 25)), 27: (20, 115), **dict.fromkeys((31, 34, 35, 23), (17, 65)), 32: (3, 30),
    33: (16, 65), 37: (16, 115), 38: (16, 115), 39: (16, 75),
}  # fmt: skip


def rows_of(name: str) -> list[dict[str, int]]:
    with (DATA / f"{name}.csv").open() as file:
        return [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def persons() -> Schema:
    return load_preset("dhc-persons")


@pytest.fixture(scope="module")
def units() -> Schema:
    return load_preset("dhc-units")


def test_the_files_are_what_the_script_writes():
    script = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "dhc_presets.py"))
    for name, text in script["preset_texts"]().items():
        assert (script["FOLDER"] / name).read_text(encoding="utf-8") == text


def test_household_types_are_those_of_the_released_code():
    found = [
        (
            one.couple,
            one.relatives,
            one.own_children,
            one.minors,
            one.under_18,
            one.multigenerational,
            one.size,
        )
        for one in household_types()
    ]
    assert found == [tuple(row[key] for key in SEVEN) for row in rows_of("hhtype_522")]
    assert len({one.label for one in household_types()}) == 522


@pytest.mark.parametrize("name", SIZES)
def test_recodes_and_measured_queries_have_their_published_sizes(name: str):
    schema = load_preset(name)
    assert {recode.name: recode.size for recode in schema.recodes} == SIZES[name]
    assert {spec: schema.query(spec).size for spec in MEASURED[name]} == MEASURED[name]
    assert all(schema.query(spec).sensitivity == 1 for spec in MEASURED[name])


@pytest.mark.parametrize(
    ("preset", "attribute", "name"),
    [
        ("dhc-persons", "age", "age_recodes"),
        ("dhc-persons", "relgq", "relgq_recodes"),
        ("dhc-units", "household", "hhtype_recodes"),
    ],
)
def test_every_level_is_in_its_published_group(preset: str, attribute: str, name: str):
    schema = load_preset(preset)
    rows = rows_of(name)
    for column in list(rows[0])[1:]:
        (recode,) = (one for one in schema.recodes if one.name == COLUMNS.get(column, column))
        (codes,) = recode.layers(schema.attribute(attribute))
        assert codes[: len(rows)].tolist() == [row[column] for row in rows], column
        assert (codes[len(rows) :] == -1).all()  # the level "none"


def test_labels_shared_with_the_redistricting_data_are_equal(persons: Schema, units: Schema):
    redistricting = load_preset("pl94-persons")
    for ours, theirs in (
        ("hhgq8lev", "hhgq"),
        *((name, name) for name in ("votingage", "hispanic", "cenrace")),
    ):
        mine, other = persons.query(ours), redistricting.query(theirs)
        assert next(f.labels for f in mine.factors if f.name) == next(
            f.labels for f in other.factors if f.name
        )
    assert persons.attribute("hispanic") == redistricting.attribute("hispanic")
    assert persons.attribute("cenrace") == redistricting.attribute("cenrace")
    (h1,) = load_preset("pl94-units").attributes
    assert units.query("occupancy").factors[0].labels == h1.levels


def test_impossible_ages_of_persons(persons: Schema):
    wanted = np.ones((42, 116), dtype=bool)
    for code, (first, last) in AGES_ALLOWED.items():
        wanted[code, :first] = wanted[code, last + 1 :] = False
    relgq, age = (axis.ravel() for axis in np.indices(wanted.shape))
    cells = persons.encode(np.stack([relgq, 0 * age, age, 0 * age, 0 * age], axis=1))
    assert np.array_equal(persons.possible(cells), wanted.ravel())
    assert (~wanted).sum() == 1_280
    for spec, size in (("detailed", 905_184), ("relgq*age_40_groups*hispanic*cenrace*sex", 283_248)):
        assert len(persons.possible_answers(persons.query(spec))) == size


def impossible_households() -> np.ndarray:
    """The structural zeros of the released code, (sex, age of householder, oldest, household type)."""
    couple, _, own_children, minors, under_18, _, size = np.array(
        [[row[key] for key in SEVEN] for row in rows_of("hhtype_522")]
    ).T
    own = np.array([0, 0, 0, 0, 0, 1, 2, 3, 3])[:, None, None]
    age, oldest = np.arange(9)[:, None, None], np.arange(4)[:, None]
    only_children = ((size == 2) & (minors > 0)) | ((size == 3) & (own_children == 3))
    zero = oldest < own
    zero = zero | ((oldest != own) & ((size == 1) | only_children))
    zero |= (oldest != own) & (age >= 5) & (size == 2) & (under_18 == 1)
    zero |= (size == 1) & (under_18 == 1) & (age >= 1)
    two = (size == 2) | ((size == 3) & (own_children > 0)) | ((size == 4) & (own_children == 3))
    zero |= (age == 0) & (oldest == 3) & (couple < 4) & two
    young = (own_children == 1) | (own_children == 3)
    both = np.stack([zero | ((age >= 7) & young), zero | ((age >= 7) & (own_children > 0))])
    both[1] |= (age >= 5) & young
    return both


def test_impossible_households(units: Schema):
    zero = impossible_households()
    assert zero.sum() == 11_118
    sex, age, oldest, household = (axis.ravel() for axis in np.indices(zero.shape))
    for tenure in range(4):
        columns = (np.full_like(sex, tenure), sex, age, 0 * sex, 0 * sex, oldest, household)
        assert np.array_equal(units.possible(units.encode(np.stack(columns, axis=1))), ~zero.ravel())


def test_only_occupied_units_have_a_household(units: Schema):
    drawn = np.random.default_rng(1).integers(0, np.array(units.shape), size=(20_000, 7))
    none = np.array(units.shape) - 1
    drawn[::2, 1:] = np.where(drawn[::2, :1] < 3, drawn[::2, 1:], none[1:])
    is_none = drawn[:, 1:] == none[1:]
    occupied = drawn[:, 0] < 4
    zero = np.concatenate([impossible_households(), np.zeros((2, 9, 4, 1), dtype=bool)], axis=3)
    safe = np.where(is_none.any(axis=1)[:, None], 0, drawn)
    allowed = ~zero[safe[:, 1], safe[:, 2], safe[:, 5], safe[:, 6]]
    wanted = np.where(occupied, ~is_none.any(axis=1) & allowed, is_none.all(axis=1))
    assert np.array_equal(units.possible(units.encode(drawn)), wanted)
    assert wanted[occupied].any()
    assert wanted[~occupied].any()


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ("detailed", 4 * 26_466 * 14 + 31),
        ("sex*hhage*hisp*race*elderly*ten3*hhtype", 1_111_572),
        ("sex*hhage*elderly*hhtype", 26_466),
        ("sex*hhage*DetailedCoupleTypeMultGenDetOwnChildSize", 3_294 - 598),
        ("hhage*DetailedCoupleTypeMultGenDetOwnChildSize", 1_647 - 168),
        ("sex*hisp*ten3*race*DetailedCoupleTypeMultGenDetOwnChildSize", 15_372),
        ("tenvacgq", 35),
    ],
)
def test_possible_answers_of_units(units: Schema, spec: str, size: int):
    assert len(units.possible_answers(units.query(spec))) == size
