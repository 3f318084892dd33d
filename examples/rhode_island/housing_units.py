"""Make public bounds for `bounded.toml` from a table of housing units by block.

    python examples/rhode_island/housing_units.py ../shared/data releases/rhode-island-bounds

A census publishes how many housing units and group quarters each block has. The public files of this example have only
the number of housing units of each county, so `made_up_housing` makes up units for the blocks. A block with people gets
the county's units in proportion to its people, and at least one. Every fourth block without people gets one vacant
unit. Here a block's units are made from its counts, which is allowed only because these counts are public. For
confidential records the table has to come from elsewhere. `bounds_of` turns any such table into bounds.
"""

import sys
from pathlib import Path

import polars as pl

PEOPLE_PER_UNIT = 20
"""Most people in a housing unit: far above what occurs, because a single block above its bound stops the run."""


def bounds_of(housing: pl.DataFrame) -> pl.DataFrame:
    """Bounds on the total of each block, to be read with `missing = "zero"`.

    A block without housing units and group quarters has no row, so that nobody is published there. A block with group
    quarters has no upper bound. The upper bound of any other block is `PEOPLE_PER_UNIT` times its units.

    Args:
        housing: Columns `geocode`, `housing_units` and `group_quarters`.
    """
    most = pl.when(pl.col("group_quarters") == 0).then(PEOPLE_PER_UNIT * pl.col("housing_units"))
    return housing.filter(pl.col("housing_units") + pl.col("group_quarters") > 0).select(
        "geocode", pl.lit(0, pl.Int64).alias("lower"), most.cast(pl.Int64).alias("upper")
    )


def made_up_housing(data: Path) -> pl.DataFrame:
    """Made-up housing units of every block, as the head of this module describes them."""
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
