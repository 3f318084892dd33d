"""Made-up households and their people agree with each other, with the schemas, and with the people who were given."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from tests.populations import make_population

from tallyveil.products.dhc.made_up.population import (
    DHC_FILES,
    make_parts,
    persons_table,
    units_table,
    write_dhc_states,
)
from tallyveil.schema.household_types import Couple, HouseholdType, MinorAges, household_types
from tallyveil.schema.presets import load_preset
from tallyveil.synthetic.population import PublishedCounts, settled_states

SEED = 11
BLOCKS = 4_000
PLACE = ["geocode", "unit"]
HOUSEHOLDERS = ["householder_living_alone", "householder_with_others"]
COUPLES = {
    "opposite_sex_spouse": Couple.MARRIED_OPPOSITE_SEX,
    "same_sex_spouse": Couple.MARRIED_SAME_SEX,
    "opposite_sex_unmarried_partner": Couple.COHABITING_OPPOSITE_SEX,
    "same_sex_unmarried_partner": Couple.COHABITING_SAME_SEX,
}
OWN = ["biological_child", "adopted_child", "stepchild"]
RELATIVES = [
    *OWN, "opposite_sex_spouse", "same_sex_spouse", "sibling", "parent", "grandchild", "parent_in_law", "child_in_law",
    "other_relative",
]  # fmt: skip


class Country(NamedTuple):
    """The tables of a made-up country, with ages as numbers."""

    persons: pl.DataFrame
    units: pl.DataFrame
    h1: pl.DataFrame
    geography: pl.DataFrame
    entities: pl.DataFrame
    facilities: pl.DataFrame
    facilities_by_type: pl.DataFrame


@pytest.fixture(scope="module")
def country(tmp_path_factory: pytest.TempPathFactory) -> Country:
    paths = write_dhc_states(settled_states(BLOCKS, SEED, n_states=2), SEED, tmp_path_factory.mktemp("dhc"))
    tables = [pl.read_parquet(paths[name.removesuffix(".parquet")]) for name in DHC_FILES]
    return Country(tables[0].with_columns(pl.col("age").cast(pl.Int64)), *tables[1:])


@pytest.fixture(scope="module")
def occupied(country: Country) -> pl.DataFrame:
    """Occupied units."""
    tenures = load_preset("dhc-units").attribute("tenvacgq").levels[:4]
    return country.units.filter(pl.col("tenvacgq").is_in(tenures))


@pytest.fixture(scope="module")
def residents(country: Country) -> pl.DataFrame:
    """People in households."""
    return country.persons.filter(pl.col("hhgq") == "household")


def test_the_people_are_those_of_the_redistricting_data(country: Country) -> None:
    expected = make_population("pl94-persons", BLOCKS, SEED, n_states=2)
    keys = ["geocode", "hhgq", "votingage", "hispanic", "cenrace"]
    found = country.persons.group_by(keys).agg(pl.len().cast(pl.Int64).alias("count"))
    assert found.sort(keys).equals(expected.records.select(*keys, "count").sort(keys))
    assert country.geography.equals(expected.geography)
    assert expected.facilities is not None
    assert country.facilities.equals(expected.facilities)
    of_age = pl.col("age") >= 18
    assert country.persons.select((of_age == (pl.col("votingage") == "18_plus")).all()).item()


@pytest.mark.parametrize("name", ["persons", "units"])
def test_nothing_lies_in_a_structural_zero(country: Country, name: str) -> None:
    schema, table = load_preset(f"dhc-{name}"), getattr(country, name)
    for zero in schema.structural_zeros:
        barred = [pl.col(column).cast(pl.String).is_in(levels) for column, levels in zero.levels]
        assert table.filter(pl.all_horizontal(barred)).height == 0, zero.name


def test_every_household_has_one_householder_and_one_unit(
    occupied: pl.DataFrame, residents: pl.DataFrame
) -> None:
    leads = residents.filter(pl.col("relgq").is_in(HOUSEHOLDERS))
    assert leads.select(PLACE).sort(PLACE).equals(occupied.select(PLACE).sort(PLACE))
    assert set(residents.select(PLACE).unique().iter_rows()) == set(occupied.select(PLACE).iter_rows())
    sizes = residents.group_by(PLACE).agg(pl.len().alias("size"))
    alone = leads.join(sizes, on=PLACE).select(
        (pl.col("size") == 1) == (pl.col("relgq") == "householder_living_alone")
    )
    assert alone.to_series().all()


def test_householders_are_the_same_in_both_tables(occupied: pl.DataFrame, residents: pl.DataFrame) -> None:
    both = occupied.join(residents.filter(pl.col("relgq").is_in(HOUSEHOLDERS)), on=PLACE)
    one_race = pl.col("cenrace").is_in(load_preset("dhc-persons").attribute("cenrace").levels[:6])
    race = pl.when(one_race).then(pl.col("cenrace")).otherwise(pl.lit("two_or_more"))
    ages = pl.col("age").cut(
        [24, 34, 44, 54, 59, 64, 74, 84],
        labels=load_preset("dhc-units").attribute("householder_age").levels[:9],
    )
    assert both.height == occupied.height
    for column, expected in (
        ("householder_sex", pl.col("sex")),
        ("householder_hispanic", pl.col("hispanic")),
        ("householder_race", race),
        ("householder_age", ages.cast(pl.String)),
    ):
        assert both.select((pl.col(column) == expected).all()).item(), column


@pytest.mark.nightly
def test_household_types_and_oldest_ages_are_those_of_the_members(
    occupied: pl.DataFrame, residents: pl.DataFrame
) -> None:
    leading = [*HOUSEHOLDERS, *COUPLES]
    relation, age = pl.col("relgq"), pl.col("age")
    under_6, older = age < 6, age.is_between(6, 17)
    own, others = relation.is_in(OWN), ~relation.is_in(leading)
    generations = relation.is_in(["parent", "parent_in_law", "grandchild"])
    members = residents.group_by(PLACE).agg(
        relation.filter(relation.is_in(list(COUPLES))).alias("partners"),
        relation.is_in(RELATIVES).any().alias("relatives"),
        ((own & under_6).any().cast(int) + 2 * (own & older).any().cast(int)).alias("own"),
        ((others & under_6).any().cast(int) + 2 * (others & older).any().cast(int)).alias("minors"),
        (age < 18).any().alias("under_18"),
        (own.any() & generations.any()).alias("multigenerational"),
        pl.len().clip(upper_bound=7).alias("size"),
        age.max()
        .cut([59, 64, 74], labels=["under_60", "60_64", "65_74", "75_plus"])
        .alias("expected_oldest"),
    )
    both = occupied.join(members, on=PLACE)
    assert both["partners"].list.len().max() == 1
    labels = {one: one.label for one in household_types()}
    for row in both.iter_rows(named=True):
        couple = COUPLES[row["partners"][0]] if row["partners"] else Couple.NO_PARTNER
        found = HouseholdType(
            couple, row["relatives"], MinorAges(row["own"]), MinorAges(row["minors"]), row["under_18"],
            row["multigenerational"], row["size"],
        )  # fmt: skip
        assert labels[found] == row["household"]
    assert both.select((pl.col("oldest") == pl.col("expected_oldest").cast(pl.String)).all()).item()


def test_partners_have_the_sex_that_their_relationship_says(residents: pl.DataFrame) -> None:
    lead = residents.filter(pl.col("relgq").is_in(HOUSEHOLDERS)).select(*PLACE, pl.col("sex").alias("lead"))
    both = residents.filter(pl.col("relgq").is_in(list(COUPLES))).join(lead, on=PLACE)
    same = pl.col("relgq").str.starts_with("same_sex")
    assert both.select(((pl.col("sex") == pl.col("lead")) == same).all()).item()


def test_own_children_and_parents_are_a_generation_away(residents: pl.DataFrame) -> None:
    lead = residents.filter(pl.col("relgq").is_in(HOUSEHOLDERS)).select(*PLACE, pl.col("age").alias("lead"))
    both = residents.join(lead, on=PLACE).with_columns((pl.col("age") - pl.col("lead")).alias("older"))
    assert both.filter(pl.col("relgq").is_in(OWN))["older"].max() <= -15
    assert both.filter(pl.col("relgq").str.starts_with("parent"))["older"].min() >= 15


def test_vacant_units_and_facilities_have_no_household(country: Country, occupied: pl.DataFrame) -> None:
    others = country.units.join(occupied, on=PLACE, how="anti")
    columns = [name for name in others.columns if name.startswith("household") or name == "oldest"]
    assert others.select(pl.all_horizontal(pl.col(columns) == "none").all()).item()
    levels = load_preset("dhc-units").attribute("tenvacgq").levels
    assert set(others["tenvacgq"]) <= set(levels[4:])
    assert set(levels[4:11]) <= set(others["tenvacgq"])


def test_units_are_numbered_from_one_in_every_block(country: Country) -> None:
    blocks = country.units.group_by("geocode").agg(
        pl.col("unit").min().alias("first"), pl.col("unit").max().alias("last"), pl.len().alias("n")
    )
    assert (blocks["first"] == 1).all()
    assert (blocks["last"] == blocks["n"]).all()
    assert country.units.select(PLACE).is_unique().all()


def test_every_facility_has_somebody_of_its_type(country: Country) -> None:
    facilities = country.units.filter(
        pl.col("tenvacgq").is_in(load_preset("dhc-units").attribute("tenvacgq").levels[11:])
    )
    assert facilities.height > 10
    inside = country.persons.filter(pl.col("hhgq") != "household").select(*PLACE, "relgq").unique()
    assert inside.sort(PLACE).rows() == facilities.select(*PLACE, "tenvacgq").sort(PLACE).rows()


def test_bounds_count_the_facilities_and_hold(country: Country) -> None:
    bounds = country.facilities_by_type
    assert bounds.select("geocode", "gqlevels").is_unique().all()
    levels = load_preset("dhc-persons").query("gqlevels").factors[0].labels
    types = pl.col("relgq").replace_strict(
        dict(zip(load_preset("dhc-persons").attribute("relgq").levels[18:], levels[1:], strict=True)),
        default=levels[0],
    )
    people = country.persons.group_by("geocode", types.alias("gqlevels")).agg(pl.len().alias("people"))
    both = people.join(bounds, on=["geocode", "gqlevels"], how="full", coalesce=True)
    assert both["lower"].null_count() == 0
    assert both.select((pl.col("people").fill_null(0) >= pl.col("lower")).all()).item()
    assert both["lower"].sum() == country.units.filter(pl.col("tenvacgq").is_in(levels[1:])).height


def test_h1_counts_the_housing_units(country: Country, occupied: pl.DataFrame) -> None:
    found = country.h1.filter(pl.col("h1") == "occupied").select("geocode", "count")
    expected = occupied.group_by("geocode").agg(pl.len().cast(pl.Int64).alias("count")).sort("geocode")
    assert found.equals(expected)
    vacancies = load_preset("dhc-units").attribute("tenvacgq").levels[4:11]
    n_vacant = country.units.filter(pl.col("tenvacgq").is_in(vacancies)).height
    assert country.h1.filter(pl.col("h1") == "vacant")["count"].sum() == n_vacant
    housing = country.facilities.filter(pl.col("hhgq") == "household")["geocode"]
    assert set(country.h1["geocode"]) == set(housing)


def test_entities_have_the_columns_of_the_spine(country: Country) -> None:
    assert country.entities["geocode"].equals(country.geography["geocode"])
    assert {"tribal_area", "prim", "school_district", "block_group"} <= set(country.entities.columns)
    assert country.entities["block_group"].equals(country.geography["block_group"])


def test_most_household_types_occur(occupied: pl.DataFrame) -> None:
    assert occupied["household"].n_unique() > 350


def test_chunks_do_not_change_what_is_made() -> None:
    settled = next(settled_states(300, 3))
    geocode = settled.geography["geocode"]
    tables = []
    for blocks_at_once in (7, 300):
        parts = list(make_parts(settled, 3, 40, blocks_at_once))
        tables.append(
            (
                pl.concat([persons_table(geocode, part.persons) for part in parts]),
                pl.concat([units_table(geocode, part.units, part.number) for part in parts]),
            )
        )
    assert tables[0][0].equals(tables[1][0])
    assert tables[0][1].equals(tables[1][1])


def one_block(counts: dict[tuple[str, str], int]) -> PublishedCounts:
    """A block with people by voting age and race, and an empty block."""
    geocodes = ["440010001001000", "440010001001001"]
    blocks = pl.DataFrame(
        {
            "geocode": geocodes,
            "state": "44",
            "county": "44001",
            "tract": "44001000100",
            "block_group": "440010001001",
        }
    )
    rows = [(geocodes[0], age, race, n) for (age, race), n in counts.items()]
    table = pl.DataFrame(rows, schema=["geocode", "voting_age", "race_ethnicity", "count"], orient="row")
    return PublishedCounts(table, blocks)


@pytest.mark.parametrize(
    "counts",
    [
        {("under_18", "white"): 1},
        {("under_18", "white"): 19, ("under_18", "hisp"): 4},
        {("under_18", "black"): 40, ("18_plus", "two"): 1},
        {("18_plus", "asian"): 1},
    ],
)
def test_odd_blocks_have_households_too(counts: dict[tuple[str, str], int], tmp_path: Path) -> None:
    paths = write_dhc_states(settled_states(None, 2, one_block(counts)), 2, tmp_path)
    persons, units = (pl.read_parquet(paths[name]) for name in ("persons", "units"))
    assert persons.height == sum(counts.values())
    homes = persons.filter(pl.col("hhgq") == "household")
    leads = homes.filter(pl.col("relgq").is_in(HOUSEHOLDERS))
    assert leads.select(PLACE).rows() == homes.select(PLACE).unique(maintain_order=True).rows()
    assert units.filter(pl.col("household") != "none").height == leads.height


def test_households_tend_to_be_of_one_race(residents: pl.DataFrame) -> None:
    by_home = residents.group_by(PLACE).agg(pl.len().alias("n"), pl.col("hispanic").n_unique().alias("kinds"))
    share = by_home.filter(pl.col("n") > 1).select((pl.col("kinds") == 1).mean()).item()
    assert share > 0.8


def test_the_seed_changes_the_households() -> None:
    settled = next(settled_states(60, 3))
    ages = [np.concatenate([part.persons.age for part in make_parts(settled, seed, 0)]) for seed in (3, 4)]
    assert not np.array_equal(*ages)
