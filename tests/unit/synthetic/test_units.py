"""Made-up housing units are those of the people whom the same arguments make up."""

import polars as pl
import pytest

from tallyveil.synthetic.population import make_states


@pytest.fixture(scope="module")
def country():
    """The states of one country: with their people, and with their housing units."""
    return tuple(list(make_states(preset, 3_000, 6, n_states=3)) for preset in ("pl94-persons", "pl94-units"))


def test_units_stand_in_the_blocks_of_the_people(country):
    for persons, units in zip(*country, strict=True):
        assert units.geography.equals(persons.geography)
        assert units.facilities.equals(persons.facilities)
        assert units.preset == "pl94-units"


def test_units_are_counts_of_levels_in_order(country):
    for units in country[1]:
        records = units.records
        assert records.columns == ["geocode", "h1", "count"]
        assert records["count"].min() > 0
        assert records.select("geocode", "h1").is_unique().all()
        order = records.with_columns(pl.col("h1").replace_strict({"vacant": 0, "occupied": 1}))
        assert order.equals(order.sort("geocode", "h1"))


def test_a_block_has_occupied_units_if_and_only_if_it_has_households(country):
    for persons, units in zip(*country, strict=True):
        residents = (
            persons.records.filter(hhgq="household").group_by("geocode").agg(people=pl.col("count").sum())
        )
        occupied = units.records.filter(h1="occupied")
        assert set(occupied["geocode"]) == set(residents["geocode"])
        both = occupied.join(residents, on="geocode")
        assert (both["count"] <= both["people"]).all()
        assert 2 < both["people"].sum() / both["count"].sum() < 3


def test_a_block_has_units_if_and_only_if_the_facilities_say_so(country):
    for units in country[1]:
        housing = units.facilities.filter(hhgq="household")
        assert set(units.records["geocode"]) == set(housing["geocode"])
        vacant = units.records.filter(h1="vacant")["count"].sum()
        assert 0.05 < vacant / units.records["count"].sum() < 0.2


def test_a_state_does_not_depend_on_those_before_it(country):
    first = next(make_states("pl94-units", 3_000, 6, n_states=3))
    assert first.records.equals(country[1][0].records)
