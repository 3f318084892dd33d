"""Counts of a place by geolevel, to which Figures 6 and 8 add noise. Without a user's own, those of Rhode Island 2010.

The paper uses Pennsylvania. The nine counts are the same: the total, Hispanics, and non-Hispanics in seven race groups.
"""

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.storage.read import read_parquet
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.own_data import CensusCounts, CountedLevel

FILES: Final = ("ri_2010_counts.parquet", "ri_2010_blocks.parquet")
QUERIES: Final = {
    "total": "Total",
    "white": "White",
    "black": "Black",
    "hisp": "Hispanic",
    "asian": "Asian",
    "two": "Two or more",
    "other": "Other",
    "aian": "AI/AN",
    "nhpi": "NH/PI",
}
# Column of the blocks file, and the geolevel of Table 1 whose noise is added. The paper's numbers for tracts
# are those of the Tract Subset (15.45 = 1 - 4.87 / 5.76).
LEVELS: Final = {
    "State": ("state", "State"),
    "County": ("county", "County"),
    "Tract": ("tract", "Tract Subset"),
    "Block": ("geocode", "Block"),
}


def census_counts(inputs: StudyInputs, exhibit: str) -> CensusCounts:
    """The user's own counts, or without a file of the user's own those of Rhode Island.

    Raises:
        MissingDataError: the user's file has no counts, or the counts of Rhode Island are not there.
    """
    if inputs.own_data is not None:
        return inputs.own_data.require_counts(exhibit)
    paths = inputs.files(exhibit, FILES)
    levels = (CountedLevel(name, noise, counts_by(paths, column)) for name, (column, noise) in LEVELS.items())
    return CensusCounts("Rhode Island", tuple(QUERIES.values()), tuple(levels))


def counts_by(paths: tuple[Path, ...], column: str) -> Integers:
    """The nine counts of every geounit of a level, empty ones included: int64 [n_geounits, 9].

    Args:
        paths: Counts by block, and all blocks with the geounits they are in.
        column: The level's column in the blocks file.
    """
    counts, blocks = (read_parquet(path) for path in paths)
    return nine_counts(counts, blocks.select("geocode", pl.col(column).alias("geounit")))


def nine_counts(counts: pl.DataFrame, geounits: pl.DataFrame) -> Integers:
    """The nine counts of every geounit, empty ones included: int64 [n_geounits, 9], geounits in order.

    Args:
        counts: Persons in column `count`, by `geocode`, `race_ethnicity` and perhaps more.
        geounits: Every `geocode`, and the `geounit` that its persons are counted in.
    """
    races = [race for race in QUERIES if race != "total"]
    wide = (
        counts.group_by("geocode", pl.col("race_ethnicity").cast(pl.String))
        .agg(pl.col("count").sum())
        .pivot(on="race_ethnicity", index="geocode", on_columns=races, values="count")
    )
    # Left, so that empty blocks stay.
    joined = geounits.join(wide, on="geocode", how="left").with_columns(pl.col(*races).fill_null(0))
    summed = joined.group_by("geounit").agg(pl.col(*races).sum()).sort("geounit")
    # The total is the sum of the eight groups, which are disjoint.
    summed = summed.with_columns(pl.sum_horizontal(*races).alias("total"))
    return np.ascontiguousarray(summed.select(*QUERIES).to_numpy().astype(np.int64))
