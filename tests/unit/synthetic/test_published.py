import polars as pl
import pytest

from tallyveil.errors import GeographyError, SchemaError
from tallyveil.schema.presets import load_preset
from tallyveil.synthetic.population import PublishedCounts, geography_of, people_of

BLOCKS = pl.DataFrame(
    {
        "geocode": ["b", "a"],
        "state": ["s", "s"],
        "county": ["c", "c"],
        "tract": ["t", "t"],
        "block_group": ["g", "g"],
    }
)
COUNTS = pl.DataFrame(
    {"geocode": ["b", "b"], "voting_age": ["18_plus"] * 2, "race_ethnicity": ["two"] * 2, "count": [3, 4]}
)
SCHEMA = load_preset("race-age")


def test_counts_become_a_table() -> None:
    published = PublishedCounts(COUNTS, BLOCKS)
    geography = geography_of(published)
    assert geography["geocode"].to_list() == ["a", "b"]
    people = people_of(published, geography, SCHEMA)
    assert people.shape == (2, 2, 8)
    assert people.sum() == people[1, 1, 7] == 7


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (BLOCKS.drop("tract"), "column 'tract' is missing"),
        (BLOCKS.with_columns(tract=pl.lit(None, pl.String)), "null"),
        (BLOCKS.clear(), "no rows"),
        (pl.concat([BLOCKS, BLOCKS]), "given twice"),
    ],
)
def test_bad_blocks_are_refused(blocks: pl.DataFrame, message: str) -> None:
    with pytest.raises(GeographyError, match=message):
        geography_of(PublishedCounts(COUNTS, blocks))


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        (COUNTS.drop("count"), SchemaError, "column 'count' is missing"),
        (COUNTS.with_columns(voting_age=pl.lit("17")), SchemaError, "'voting_age' holds an unknown level"),
        (COUNTS.with_columns(geocode=pl.lit("z")), GeographyError, "not among the published blocks"),
        (COUNTS.with_columns(pl.lit(-1).alias("count")), SchemaError, "null, negative"),
        (COUNTS.with_columns(pl.lit(None, pl.Int64).alias("count")), SchemaError, "null, negative"),
        (COUNTS.with_columns(pl.col("count") + 0.5), SchemaError, "no whole number"),
        (COUNTS.with_columns(pl.lit("3 or 4").alias("count")), SchemaError, "no whole number"),
        (COUNTS.with_columns(pl.lit(2**40).alias("count")), SchemaError, "more people than any block"),
    ],
)
def test_bad_counts_are_refused(counts: pl.DataFrame, error: type[Exception], message: str) -> None:
    published = PublishedCounts(counts, BLOCKS)
    with pytest.raises(error, match=message):
        people_of(published, geography_of(published), SCHEMA)
