"""Writes a made-up population to files."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.geography.census.group_quarters import kinds_of_group_quarters
from tallyveil.geography.geometry.geoparquet import POLYGONS, geo_metadata
from tallyveil.storage.read import read_parquet
from tallyveil.storage.write import write_parquet, write_parquet_chunks
from tallyveil.synthetic.country_map import make_map
from tallyveil.synthetic.entities import make_entities
from tallyveil.synthetic.population import SyntheticPopulation

TAGS = {"synthetic": "true"}
COUNTRY_FILES: Final = ("records.parquet", "geography.parquet", "entities.parquet", "facilities.parquet")
"""The files of a population; the last is not always there."""
MAP_FILE: Final = "geometry.parquet"


_NO_KINDS = pl.DataFrame(schema={"geocode": pl.String, "group_quarters": pl.String})


def with_kinds(entities: pl.DataFrame, kinds: pl.DataFrame) -> pl.DataFrame:
    """Entities with a column of the kinds of group quarters of each block, before the points."""
    return entities.join(kinds, on="geocode", how="left", maintain_order="left").select(
        pl.exclude("latitude", "longitude"), "latitude", "longitude"
    )


def write_population(population: SyntheticPopulation, directory: Path) -> dict[str, Path]:
    """Write a population as Parquet files. It does what `write_states` does for one state."""
    return write_states([population], directory)


def write_states(states: Iterable[SyntheticPopulation], directory: Path) -> dict[str, Path]:
    """Write a population as Parquet files, each complete or absent.

    Args:
        states: The states, sorted by geocode. The records of one state are in memory at a time.
        directory: Folder to write to. It is made if it does not exist. Files of an earlier population are replaced.
    Returns:
        Paths by name: "records", "geography", "entities" (for every block, its off-spine entities, its kinds of group
        quarters, and its point) and, except for preset "race-age", "facilities".
    Raises:
        StoreError: a file cannot be written.
    """
    geography: list[pl.DataFrame] = []
    facilities: list[pl.DataFrame] = []
    seeds: list[int] = []

    def records() -> Iterator[pl.DataFrame]:
        for state in states:
            geography.append(state.geography)
            seeds.append(state.seed)
            if state.facilities is not None:
                facilities.append(state.facilities)
            # A generator, so that the records of one state alone are in memory when they are written.
            yield state.records

    paths = {name.removesuffix(".parquet"): directory / name for name in COUNTRY_FILES}
    write_parquet_chunks(paths["records"], records(), TAGS)
    country = pl.concat(geography)
    write_parquet(paths["geography"], country, TAGS)
    # After the records: the lists that it reads are filled as the states are written.
    kinds = pl.concat(
        [_NO_KINDS, *(kinds_of_group_quarters(state_facilities) for state_facilities in facilities)]
    )
    entities = (with_kinds(state_entities, kinds) for state_entities in make_entities(country, seeds[0]))
    write_parquet_chunks(paths["entities"], entities, TAGS)
    if facilities:
        write_parquet(paths["facilities"], pl.concat(facilities), TAGS)
    else:
        # The bounds of an earlier population would contradict this one.
        paths.pop("facilities").unlink(missing_ok=True)
    return paths


def write_map(geography: Path, seed: int) -> Path:
    """Write a made-up polygon for every block beside a table of geography, as GeoParquet; returns its path.

    Args:
        geography: Table of the blocks, sorted by geocode.
        seed: Seed of the population.
    Raises:
        StoreError: a file cannot be read or written.
    """
    path = geography.with_name(MAP_FILE)
    blocks = read_parquet(geography, ["geocode", "state"])
    write_parquet_chunks(path, make_map(blocks, seed), TAGS, geo_metadata(POLYGONS))
    return path
