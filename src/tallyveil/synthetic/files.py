"""Writing a made-up population down."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from tallyveil.storage.write import write_parquet, write_parquet_chunks
from tallyveil.synthetic.entities import make_entities
from tallyveil.synthetic.population import SyntheticPopulation

TAGS = {"synthetic": "true"}


def write_population(population: SyntheticPopulation, directory: Path) -> dict[str, Path]:
    """Write a population as Parquet files; as `write_states` with one state."""
    return write_states([population], directory)


def write_states(states: Iterable[SyntheticPopulation], directory: Path) -> dict[str, Path]:
    """Write a population as Parquet files, each complete or absent.

    Args:
        states: What to write, in order of geocode. The records of one state are held at a time.
        directory: Folder to write to; made where it is missing. Files of an earlier population are replaced.
    Returns:
        Paths by name: "records", "geography", "entities" (off-spine entities and the point of every block) and,
        where the preset has group quarters, "facilities".
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
            yield state.records

    paths = {
        name: directory / f"{name}.parquet" for name in ("records", "geography", "entities", "facilities")
    }
    write_parquet_chunks(paths["records"], records(), TAGS)
    country = pl.concat(geography)
    write_parquet(paths["geography"], country, TAGS)
    write_parquet_chunks(paths["entities"], make_entities(country, seeds[0]), TAGS)
    if facilities:
        write_parquet(paths["facilities"], pl.concat(facilities), TAGS)
    else:
        # Bounds of an earlier population would contradict this one.
        paths.pop("facilities").unlink(missing_ok=True)
    return paths
