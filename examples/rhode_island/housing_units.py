"""Make public bounds for `bounded.toml` from a table of housing units by block.

    python examples/rhode_island/housing_units.py ../shared/data releases/rhode-island-bounds

A census publishes how many housing units and group quarters each block has. Among the public files of this example is
only the number of housing units of each county, so the first half makes up units for the blocks: where people live, the
county's units in proportion to them, one at least; and one vacant unit in every fourth block without people. A block's
units are made from its published counts here, which is possible because these are public. For records that are
confidential the table has to come from elsewhere. The second half, `bounds_of`, is what anybody does with such a table.
"""

import sys
from pathlib import Path

import polars as pl

PEOPLE_PER_UNIT = 20
"""Most people a housing unit is allowed; far above what occurs, for one household above it stops the run."""


def bounds_of(housing: pl.DataFrame) -> pl.DataFrame:
    """Bounds on the total of each block, to be read with `missing = "zero"`.

    A block without housing units and group quarters has no row, so that nobody is published there. A block with group
    quarters has no upper bound, any other so many people a unit.

    Args:
        housing: Columns `geocode`, `housing_units` and `group_quarters`.
    """
    most = pl.when(pl.col("group_quarters") == 0).then(PEOPLE_PER_UNIT * pl.col("housing_units"))
    return housing.filter(pl.col("housing_units") + pl.col("group_quarters") > 0).select(
        "geocode", pl.lit(0, pl.Int64).alias("lower"), most.cast(pl.Int64).alias("upper")
    )


def made_up_housing(data: Path) -> pl.DataFrame:
    """Made-up housing units of every block; see above."""
    people = pl.read_parquet(data / "ri_2010_counts.parquet").group_by("geocode").agg(pl.col("count").sum())
    blocks = pl.read_parquet(data / "ri_2010_blocks.parquet").sort("geocode").select("geocode")
    found = blocks.join(people, on="geocode", how="left").with_columns(
        pl.col("count").fill_null(0), pl.col("geocode").str.head(5).alias("fips")
    )
    counties = pl.read_csv(data / "vtd" / "us_2010_county_pop_hu.csv", schema_overrides={"fips": pl.String})
    found = found.join(counties, on="fips", how="left", maintain_order="left")
    vacant = (pl.col("count") == 0) & ((pl.col("count") == 0).cum_sum() % 4 == 0)
    units = (pl.col("count") * pl.col("hu") / pl.col("pop")).ceil().cast(pl.Int64) + vacant.cast(pl.Int64)
    return found.select("geocode", units.alias("housing_units"), pl.lit(0).alias("group_quarters"))


def main(data: Path, out: Path) -> None:
    """Write the made-up table and its bounds."""
    out.mkdir(parents=True, exist_ok=True)
    housing = made_up_housing(data)
    housing.write_parquet(out / "housing.parquet")
    bounds_of(housing).write_parquet(out / "bounds.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
