from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.presets import load_preset, preset_names, titles_of

RACES = ("white", "black", "aian", "asian", "nhopi", "sor")


def test_presets_are_found_by_name() -> None:
    assert preset_names() == (
        "dhc-persons", "dhc-units", "dhc-units-sizes", "pl94-persons", "pl94-units", "race-age",
    )  # fmt: skip
    for name in preset_names():
        assert load_preset(name).name == name
    with pytest.raises(SchemaError, match=r"no schema preset 'pl94-person'.*'pl94-persons'"):
        load_preset("pl94-person")


def test_a_preset_that_extends_another_one_only_adds_to_it() -> None:
    whole, own = load_preset("dhc-units"), load_preset("dhc-units-sizes")
    assert own.attributes == whole.attributes
    assert own.structural_zeros == whole.structural_zeros
    assert own.unit == whole.unit
    assert own.recodes[: len(whole.recodes)] == whole.recodes
    # From the largest size down: how many households of a size, and what sizes are told apart.
    assert [own.query(one.name).size for one in own.recodes[len(whole.recodes) :]] == [
        1,
        6,
        1,
        8,
        1,
        10,
        1,
        12,
        1,
        14,
    ]


@pytest.mark.parametrize("name", preset_names())
def test_every_attribute_and_recode_of_a_preset_has_a_title_of_its_own(name: str) -> None:
    schema = load_preset(name)
    titles = titles_of(schema)
    assert set(titles) == set(schema.factor_names)
    assert len(set(titles.values())) == len(titles)
    assert not any("_" in title for title in titles.values())


def test_only_what_is_the_preset_s_has_its_title() -> None:
    schema = load_preset("race-age")
    changed = replace(
        schema, attributes=(Attribute("voting_age", ("a", "b")), schema.attributes[1]), recodes=()
    )
    assert titles_of(changed) == {"race_ethnicity": "race or Hispanic origin"}
    assert titles_of(replace(schema, name="own")) == {}


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ("total", 1), ("cenrace", 63), ("hispanic", 2), ("votingage", 2), ("hhinstlevels", 3), ("hhgq", 8),
        ("hispanic*cenrace", 126), ("votingage*cenrace", 126), ("votingage*hispanic", 4),
        ("votingage*hispanic*cenrace", 252), ("detailed", 2016),
    ],
)  # fmt: skip
def test_measured_queries_of_the_redistricting_release(spec: str, size: int) -> None:
    assert load_preset("pl94-persons").query(spec).size == size


@pytest.mark.parametrize(
    ("recode", "size", "left_out"),
    [
        ("hhgq_2level", 2, 0), ("hhinstlevels", 3, 0), ("instlevels", 2, 1), ("gqlevels", 8, 0),
        ("voting", 1, 1), ("nonvoting", 1, 1), ("numraces", 6, 0), ("race7lev", 7, 0), ("cenrace_7lev", 7, 0),
        ("majorRaces", 7, 0), ("cenrace_7lev_two_comb", 7, 0), ("cenrace11cats", 11, 0),
        *((f"{race}combo", 1, 31) for race in RACES),
    ],
)  # fmt: skip
def test_recodes_of_the_redistricting_release(recode: str, size: int, left_out: int) -> None:
    schema = load_preset("pl94-persons")
    (found,) = (one for one in schema.recodes if one.name == recode)
    assert found.size == size
    (codes,) = found.layers(schema.attribute(found.attribute))
    assert (codes < 0).sum() == left_out


def test_racecomb_counts_every_race_of_a_person() -> None:
    schema = load_preset("pl94-persons")
    query = schema.query("racecomb")
    assert query.factors[3].labels == RACES
    places, answers = query.counted_in(schema.encode([[0, 1, 0, code] for code in range(63)]))
    levels = schema.attribute("cenrace").levels
    found = {level: {RACES[a] for a in answers[places == code]} for code, level in enumerate(levels)}
    assert all(found[level] == set(level.split("_")) for level in levels)
    assert query.sensitivity == 6
    assert schema.query("hispanic*racecomb").sensitivity == 6
    assert schema.query("hispanic*racecomb").size == 12


def test_racecomb_changes_no_release_that_does_not_use_it() -> None:
    schema = load_preset("pl94-persons")
    assert [one.name for one in schema.recodes if one.overlapping] == ["racecomb"]
    plain = schema.without_unused_overlaps(["total", "hispanic*cenrace"])
    assert plain.digest().hex() == "fc28b1abb1aea0110be40c491c763c090b1e9f6ec2f33cea151ad65f2b94e544"
    assert schema.without_unused_overlaps(["total", "votingage * racecomb"]) == schema


def test_races_are_all_sets_of_six_by_size() -> None:
    schema = load_preset("pl94-persons")
    assert schema.shape == (8, 2, 2, 63)
    sets = ["_".join(chosen) for size in range(1, 7) for chosen in combinations(RACES, size)]
    assert schema.attribute("cenrace").levels == tuple(sets)
    sizes = [len(name.split("_")) for name in sets]
    numraces = schema.query("numraces").factors[3].codes
    assert (numraces + 1).tolist() == sizes


def test_pairs_with_white_join_the_other_race() -> None:
    schema = load_preset("pl94-persons")
    codes = schema.query("cenrace_7lev_two_comb").factors[3].codes
    assert codes[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert codes[6:11].tolist() == [1, 2, 3, 4, 5]
    assert (codes[11:] == 6).all()


def test_only_minors_in_nursing_are_impossible() -> None:
    schema = load_preset("pl94-persons")
    codes = schema.decode(np.arange(schema.size))
    expected = (codes[:, 0] == schema.attribute("hhgq").code("nursing")) & (codes[:, 1] == 0)
    assert expected.sum() == 126
    assert np.array_equal(schema.possible(np.arange(schema.size)), ~expected)


def test_race_age() -> None:
    schema = load_preset("race-age")
    assert schema.shape == (2, 8)
    assert schema.query("voting*hispanic").labels() == [
        "voting=18_plus * hispanic=hisp",
        "voting=18_plus * hispanic=not_hisp",
    ]
    for spec, size in (("minority", 2), ("race5", 5), ("numraces", 2), ("nonvoting", 1), ("detailed", 16)):
        assert schema.query(spec).size == size
