"""Writes made-up people and housing units to files, from which four releases can be made."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Int16s, Int32s, Integers
from tallyveil.geography.census.block_files import kinds_of_group_quarters
from tallyveil.products.dhc.made_up.population import MadeUpBlocks, Persons, make_parts
from tallyveil.products.dhc.made_up.units import FIRST_FACILITY, FIRST_VACANT, MadeUpUnits
from tallyveil.schema import Schema, load_preset
from tallyveil.storage.write import write_parquet, write_parquet_chunks
from tallyveil.synthetic.country import make_entities
from tallyveil.synthetic.population import TAGS, SettledState, with_kinds

DHC_FILES: Final = (
    "persons.parquet",
    "units.parquet",
    "h1.parquet",
    "geography.parquet",
    "entities.parquet",
    "facilities.parquet",
    "facilities_by_type.parquet",
)
"""The tables of a population."""


def write_dhc_states(states: Iterable[SettledState], seed: int, directory: Path) -> dict[str, Path]:
    """Write people, housing units, areas and bounds as Parquet files, each complete or absent.

    Args:
        states: The states, sorted by geocode. The people of one state are in memory at a time.
        seed: Seed of the population.
        directory: Folder to write to. It is made if it does not exist.
    Returns:
        Paths by name. "persons": one row for each person. "units": one row for each housing unit and each facility.
        "h1": housing units by block, occupied and vacant. "geography": every block. "entities": for every block, its
        areas off the spine. "facilities" and "facilities_by_type": bounds on the people of every block, by hhgq of
        preset pl94-persons and by gqlevels of preset dhc-persons.
    Raises:
        StoreError: a file cannot be written.
    """
    paths = {name.removesuffix(".parquet"): directory / name for name in DHC_FILES}
    country = _Country(seed)
    # Persons come first: `country` gathers the units while their generator runs.
    write_parquet_chunks(paths["persons"], country.persons(states), TAGS)
    write_parquet_chunks(paths["units"], country.units(), TAGS)
    write_parquet(paths["h1"], country.h1(), TAGS)
    geography = pl.concat(country.geography)
    write_parquet(paths["geography"], geography, TAGS)
    facilities = pl.concat(country.facilities)
    write_parquet(paths["facilities"], facilities, TAGS)
    write_parquet(paths["facilities_by_type"], country.facilities_by_type(), TAGS)
    kinds = kinds_of_group_quarters(facilities)
    entities = (_for_dhc(with_kinds(state, kinds), geography) for state in make_entities(geography, seed))
    write_parquet_chunks(paths["entities"], entities, TAGS)
    return paths


class _Country:
    """What is kept of every state while its people are written. Units are kept as small numbers."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.geography: list[pl.DataFrame] = []
        self.facilities: list[pl.DataFrame] = []
        self._housing: list[Integers] = []
        self._units: list[tuple[pl.Series, Int32s, Int16s]] = []

    def persons(self, states: Iterable[SettledState]) -> Iterator[pl.DataFrame]:
        """The people of all states, some blocks at a time."""
        first = 0
        for settled in states:
            geocode = settled.geography["geocode"]
            self.geography.append(settled.geography)
            self.facilities.append(settled.facilities())
            for part in make_parts(settled, self.seed, first):
                self._keep(geocode, part)
                yield persons_table(geocode, part.persons)
            first += settled.geography.height

    def _keep(self, geocode: pl.Series, part: MadeUpBlocks) -> None:
        units = part.units
        # 16 bits hold the 522 household types and every number of a unit in a block; a country has millions of units.
        levels = np.stack([part.number, *units[1:]], axis=1).astype(np.int16)
        self._units.append((geocode, units.block.astype(np.int32), levels))

    def units(self) -> Iterator[pl.DataFrame]:
        """The units of all states."""
        for geocode, block, levels in self._units:
            yield units_table(geocode, _wide(block, levels), levels[:, 0].astype(np.int64))

    def h1(self) -> pl.DataFrame:
        """Records of preset pl94-units: geocode, h1, count (above zero), sorted."""
        level = load_preset("pl94-units").attribute("h1").levels
        parts = []
        for geocode, block, levels in self._units:
            housing = levels[:, 1] < FIRST_FACILITY
            occupied = levels[housing, 1] < FIRST_VACANT
            of_block = block[housing].astype(np.int64) * 2 + occupied
            pairs, count = np.unique(of_block, return_counts=True)
            h1 = pl.Series("h1", level, dtype=pl.String).gather(pairs % 2)
            parts.append(pl.DataFrame([geocode.gather(pairs // 2), h1, pl.Series("count", count)]))
        return pl.concat(parts)

    def facilities_by_type(self) -> pl.DataFrame:
        """Bounds on the people of every block by gqlevels: geocode, gqlevels, lower, upper (null for no bound)."""
        levels = pl.Series(
            "gqlevels", load_preset("dhc-persons").query("gqlevels").factors[0].labels, dtype=pl.String
        )
        parts = []
        for geocode, block, unit_levels in self._units:
            # Types of facilities from 1, and 0 for all housing units, as in gqlevels.
            kind = np.maximum(unit_levels[:, 1].astype(np.int64) - (FIRST_FACILITY - 1), 0)
            pairs, count = np.unique(block.astype(np.int64) * len(levels) + kind, return_counts=True)
            types = pairs % len(levels)
            # Each facility has at least one person; for people in households there is no bound below.
            lower = pl.Series("lower", np.where(types == 0, 0, count))
            upper = pl.repeat(None, len(pairs), dtype=pl.Int64, eager=True).alias("upper")
            parts.append(
                pl.DataFrame([geocode.gather(pairs // len(levels)), levels.gather(types), lower, upper])
            )
        return pl.concat(parts)


def persons_table(geocode: pl.Series, persons: Persons) -> pl.DataFrame:
    """People as names of levels: geocode, unit, relgq, sex, age, hispanic, cenrace, hhgq, votingage."""
    redistricting, schema = _preset("pl94-persons"), _preset("dhc-persons")
    columns = [_named(schema, name, getattr(persons, name)) for name in schema.attribute_names]
    columns += [_named(redistricting, name, getattr(persons, name)) for name in ("hhgq", "votingage")]
    return pl.DataFrame([geocode.gather(persons.block), _numbers(persons.unit), *columns])


def units_table(geocode: pl.Series, units: MadeUpUnits, number: Integers) -> pl.DataFrame:
    """Units as names of levels: geocode, unit, and the attributes of preset dhc-units."""
    schema = _preset("dhc-units")
    columns = [
        _named(schema, name, codes) for name, codes in zip(schema.attribute_names, units[1:], strict=True)
    ]
    return pl.DataFrame([geocode.gather(units.block), _numbers(number), *columns])


_preset = cache(load_preset)  # tables are made in many parts


def _wide(block: Int32s, levels: Int16s) -> MadeUpUnits:
    return MadeUpUnits(block.astype(np.int64), *levels[:, 1:].T.astype(np.int64))


def _named(schema: Schema, name: str, codes: Integers) -> pl.Series:
    return pl.Series(name, schema.attribute(name).levels, dtype=pl.String).gather(codes)


def _numbers(unit: Integers) -> pl.Series:
    return pl.Series("unit", unit.astype(np.int32))


def _for_dhc(entities: pl.DataFrame, geography: pl.DataFrame) -> pl.DataFrame:
    """Entities with the columns that the spine of the DHC needs."""
    groups = geography.select("geocode", "block_group")
    with_groups = entities.join(groups, on="geocode", how="left", maintain_order="left")
    prim = pl.coalesce("place", "county_subdivision").alias("prim")
    return with_groups.with_columns(prim).select(pl.exclude("latitude", "longitude"), "latitude", "longitude")
