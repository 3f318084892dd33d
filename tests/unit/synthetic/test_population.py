from pathlib import Path

import polars as pl
import pytest
from tests.populations import make_population, n_persons

from tallyveil.errors import ConfigError
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema
from tallyveil.synthetic.population import PublishedCounts, SyntheticPopulation, make_states

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
PRESETS = ("pl94-persons", "race-age")
# Level of race_ethnicity that a level of cenrace of one race belongs to, where the person is not Hispanic.
SINGLE = {
    "white": "white",
    "black": "black",
    "aian": "aian",
    "asian": "asian",
    "nhopi": "nhpi",
    "sor": "other",
}


@pytest.fixture(scope="module")
def persons() -> SyntheticPopulation:
    return make_population("pl94-persons", 6_000, 7)


def published() -> PublishedCounts:
    blocks = pl.DataFrame(
        {
            "geocode": ["440010001001002", "440010001001001", "440010001001000"],
            "state": ["44"] * 3,
            "county": ["44001"] * 3,
            "tract": ["44001000100"] * 3,
            "block_group": ["440010001001"] * 3,
        }
    )
    counts = pl.DataFrame(
        {
            "geocode": ["440010001001002"] * 3 + ["440010001001000"] * 4,
            "voting_age": ["18_plus", "18_plus", "under_18", "18_plus", "under_18", "under_18", "18_plus"],
            "race_ethnicity": ["white", "two", "hisp", "hisp", "two", "black", "nhpi"],
            "count": [400, 30, 5, 100, 20, 3, 2],
        }
    )
    return PublishedCounts(counts, blocks)


def by_race_and_age(population: SyntheticPopulation) -> pl.DataFrame:
    """Counts of persons in the published groups, sorted."""
    race = (
        pl.when(pl.col("hispanic") == "hispanic")
        .then(pl.lit("hisp"))
        .otherwise(pl.col("cenrace").replace_strict(SINGLE, default="two"))
    )
    return (
        population.records.group_by(
            "geocode", pl.col("votingage").alias("voting_age"), race.alias("race_ethnicity")
        )
        .agg(pl.col("count").sum())
        .sort("geocode", "voting_age", "race_ethnicity")
    )


def cells_of(schema: Schema, records: pl.DataFrame) -> pl.Series:
    codes = [
        records[a.name].replace_strict(list(a.levels), list(range(a.size)), return_dtype=pl.Int64)
        for a in schema.attributes
    ]
    return pl.Series("cell", schema.encode(pl.DataFrame(codes).to_numpy()))


@pytest.mark.parametrize("preset", PRESETS)
def test_records_fit_the_schema_and_the_geography(preset: str) -> None:
    population = make_population(preset, 2_500, 1)
    schema = load_preset(preset)
    assert (population.preset, population.seed, population.geography.height) == (preset, 1, 2_500)
    assert population.records.columns == ["geocode", *schema.attribute_names, "count"]
    assert population.records["count"].dtype == pl.Int64
    assert population.records["count"].min() == 1
    assert n_persons(population) == population.records["count"].sum() > 50_000
    assert population.records["geocode"].is_in(population.geography["geocode"].implode()).all()
    cells = cells_of(schema, population.records)
    assert schema.possible(cells.to_numpy()).all()
    keys = population.records.select("geocode", cells)
    assert keys.equals(keys.sort("geocode", "cell"))
    assert not keys.is_duplicated().any()
    assert (population.facilities is not None) == (preset == "pl94-persons")


@pytest.mark.parametrize("preset", PRESETS)
def test_same_seed_same_population(preset: str) -> None:
    one, two, other = (make_population(preset, 800, seed) for seed in (5, 5, 6))
    assert one.records.equals(two.records)
    assert one.geography.equals(two.geography)
    assert not one.records.equals(other.records)
    if one.facilities is not None:
        assert two.facilities is not None
        assert one.facilities.equals(two.facilities)


def test_presets_describe_the_same_people(persons: SyntheticPopulation) -> None:
    coarse = make_population("race-age", persons.geography.height, persons.seed)
    assert coarse.geography.equals(persons.geography)
    assert by_race_and_age(persons).equals(coarse.records.sort("geocode", "voting_age", "race_ethnicity"))


def test_facility_bounds_hold(persons: SyntheticPopulation) -> None:
    facilities = persons.facilities
    assert facilities is not None
    assert facilities.columns == ["geocode", "hhgq", "lower", "upper"]
    assert facilities["upper"].dtype == pl.Int64
    assert facilities["upper"].null_count() == facilities.height
    assert not facilities.select("geocode", "hhgq").is_duplicated().any()
    counted = persons.records.group_by("geocode", "hhgq").agg(pl.col("count").sum())
    joined = facilities.join(counted, on=["geocode", "hhgq"], how="full", coalesce=True)
    # Nobody lives where no housing unit or facility is, and every facility has somebody.
    assert joined["lower"].null_count() == 0
    assert (joined["lower"] <= joined["count"].fill_null(0)).all()
    is_household = joined["hhgq"] == "household"
    assert (joined.filter(is_household)["lower"] == 0).all()
    assert (joined.filter(~is_household)["lower"] >= 1).all()
    # Vacant housing leaves rows without people.
    assert joined.filter(is_household)["count"].null_count() > 0


def test_group_quarters_are_plausible(persons: SyntheticPopulation) -> None:
    counted = {
        (hhgq, age): count
        for hhgq, age, count in persons.records.group_by("hhgq", "votingage")
        .agg(pl.col("count").sum())
        .rows()
    }
    assert ("nursing", "under_18") not in counted
    assert counted["college", "18_plus"] > 10 * counted.get(("college", "under_18"), 0)
    assert counted["juvenile", "under_18"] > counted.get(("juvenile", "18_plus"), 0)
    assert {hhgq for hhgq, _ in counted} >= {"household", "nursing", "college", "other_noninstitutional"}
    assert persons.records["cenrace"].n_unique() > 30


def test_like_keeps_counts_and_geography() -> None:
    source = published()
    population = make_population("pl94-persons", None, 3, source)
    wanted = source.counts.sort("geocode", "voting_age", "race_ethnicity")
    assert by_race_and_age(population).equals(wanted)
    assert population.geography.equals(source.blocks.sort("geocode"))
    assert n_persons(make_population("race-age", None, 3, source)) == n_persons(population) == 560


def test_like_rhode_island() -> None:
    if not (DATA / "ri_2010_counts.parquet").exists():
        pytest.skip("published counts of Rhode Island are not at ../shared/data")
    source = PublishedCounts(
        pl.read_parquet(DATA / "ri_2010_counts.parquet"), pl.read_parquet(DATA / "ri_2010_blocks.parquet")
    )
    population = make_population("pl94-persons", None, 1, source)
    assert n_persons(population) == 1_052_567
    assert population.geography.height == 25_181
    wanted = source.counts.sort("geocode", "voting_age", "race_ethnicity")
    assert by_race_and_age(population).equals(wanted)


def test_country_without_people() -> None:
    source = published()
    population = make_population(
        "pl94-persons", None, 1, PublishedCounts(source.counts.clear(), source.blocks)
    )
    assert n_persons(population) == 0
    assert population.records.height == 0
    assert population.records.columns[-1] == "count"


def test_states_one_at_a_time_are_the_whole() -> None:
    whole = make_population("pl94-persons", 6_000, 3, n_people=200_000, n_states=3)
    states = list(make_states("pl94-persons", 6_000, 3, n_people=200_000, n_states=3))
    assert len(states) == whole.geography["state"].n_unique() > 1
    assert pl.concat([state.records for state in states]).equals(whole.records)
    assert n_persons(whole) == sum(n_persons(state) for state in states) == 200_000
    assert whole.geography["geocode"].is_sorted()
    keys = whole.records.select("geocode", cells_of(load_preset("pl94-persons"), whole.records))
    assert keys.equals(keys.sort("geocode", "cell"))


def test_like_fixes_people_and_states() -> None:
    with pytest.raises(ConfigError, match="like fixes the people"):
        make_population("race-age", None, 1, published(), n_people=5)
