"""Made-up people and housing units of one state, some blocks at a time, and their files.

Four releases can be made from the files.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Int16s, Int32s, Integers
from tallyveil.geography.census.block_files import kinds_of_group_quarters
from tallyveil.products.dhc.made_up.households import (
    ADULT,
    NEIGHBOURHOODS,
    BlockRange,
    For,
    HouseholdResidents,
    MadeUpHouseholds,
    compositions,
    make_households,
    rank_within,
    uniforms,
)
from tallyveil.products.dhc.made_up.people import (
    FIRST_FACILITY,
    FIRST_VACANT,
    Facilities,
    GroupQuartersPeople,
    Inmates,
    MadeUpPeople,
    MadeUpUnits,
    make_facilities,
    make_inmates,
    make_people,
    occupied_units,
    vacant_units,
    without_household,
)
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema
from tallyveil.storage.write import write_parquet, write_parquet_chunks
from tallyveil.synthetic.country import make_entities
from tallyveil.synthetic.people import ADULT as OF_AGE
from tallyveil.synthetic.people import HOUSEHOLD, N_TYPES
from tallyveil.synthetic.population import TAGS, SettledState, with_kinds

BLOCKS_AT_ONCE: Final = 8_192
"""Number of blocks that are made together. It limits memory and does not change what is made."""
_OWNERS_SPREAD, _HOLIDAY_SHARE = 3.0, 0.06
"""How far tracts differ in the log odds of owning, from end to end; share of the tracts with many holiday homes."""
_FIRST_GROUP_QUARTERS: Final = 18
"""Level of relgq of the first type of group quarters; those of tenvacgq begin at `FIRST_FACILITY` in the same order."""


class Persons(NamedTuple):
    """People, as positions of levels of preset dhc-persons; sorted by block and unit; the arrays have shape (n,).

    Attributes:
        block: Block of each person, a row of the state's geography.
        unit: Number of the person's housing unit or facility in the block, from 1.
        relgq, sex, age, hispanic, cenrace: Levels.
        hhgq, votingage: Levels of preset pl94-persons.
    """

    block: Integers
    unit: Integers
    relgq: Integers
    sex: Integers
    age: Integers
    hispanic: Integers
    cenrace: Integers
    hhgq: Integers
    votingage: Integers


class MadeUpBlocks(NamedTuple):
    """Some blocks of a state.

    Attributes:
        persons: Their people.
        units: Their housing units and facilities, sorted by block.
        number: Number of each unit in its block, from 1: occupied units, then vacant ones, then facilities.
    """

    persons: Persons
    units: MadeUpUnits
    number: Integers


class _Tracts(NamedTuple):
    """What is drawn for tracts, by block, for `BlockRange`, `make_people`, `occupied_units` and `vacant_units`."""

    neighbourhood: Integers
    tilt: Integers
    owners: Floats
    holiday: Integers

    def rows(self, span: slice) -> "_Tracts":
        return _Tracts(self.neighbourhood[span], self.tilt[span], self.owners[span], self.holiday[span])


def make_parts(
    settled: SettledState, seed: int, first: int, blocks_at_once: int = BLOCKS_AT_ONCE
) -> Iterator[MadeUpBlocks]:
    """Put the people of a state into households and facilities, and make up everything else about them.

    Args:
        settled: The state.
        seed: Seed of the population.
        first: Number of the state's first block in the country. All random numbers are addressed by block.
        blocks_at_once: Number of blocks that are made together. It does not change what is made.
    Yields:
        The blocks in order. A household's people are next to each other, the householder first.
    """
    tracts = _tracts(settled, seed, first)
    # By block, then by class of group quarters: households first, as code 0.
    order = np.lexsort((settled.codes[:, 0], settled.block))
    sorted_blocks = settled.block[order]
    n_blocks = settled.geography.height
    for start in range(0, n_blocks, blocks_at_once):
        stop = min(start + blocks_at_once, n_blocks)
        low, high = np.searchsorted(sorted_blocks, [start, stop])
        yield _part(
            settled,
            order[low:high],
            (start, stop),
            tracts.rows(slice(start, stop)),
            seed,
            first,
        )


def _tracts(settled: SettledState, seed: int, first: int) -> _Tracts:
    tract = settled.geography["tract"].rle_id().to_numpy().astype(np.int64)
    # A tract is addressed by its first block, so that its numbers do not depend on where the cuts are.
    address = np.flatnonzero(np.diff(tract, prepend=-1))[tract] + first
    numbers = [uniforms(seed, For.NEIGHBOURHOOD, address, np.full(len(address), item)) for item in range(4)]
    return _Tracts(
        (numbers[0] * len(NEIGHBOURHOODS)).astype(np.int64),
        (numbers[1] * 3).astype(np.int64) - 1,
        _OWNERS_SPREAD * (numbers[2] - 0.5),
        (numbers[3] < _HOLIDAY_SHARE).astype(np.int64),
    )


def _part(
    settled: SettledState, rows: Integers, span: tuple[int, int], tracts: _Tracts, seed: int, first: int
) -> MadeUpBlocks:
    """The blocks from `span[0]` to `span[1] - 1`, whose groups of people are `rows`, sorted by block and hhgq."""
    known, start = compositions(), span[0]
    blocks = BlockRange(seed, first + start, tracts.neighbourhood)
    # From groups of like people to single people.
    rows = np.repeat(rows, settled.counts[rows])
    block, codes = settled.block[rows] - start, settled.codes[rows]
    home = codes[:, 0] == HOUSEHOLD
    grown = codes[:, 1] == OF_AGE
    residents = HouseholdResidents(block[home], grown[home], codes[home, 2], codes[home, 3])
    households = make_households(residents, blocks, known)
    people = make_people(households, blocks, tracts.tilt, known)
    occupied = occupied_units(households, people, blocks, tracts.owners, known)
    vacant = vacant_units(occupied, settled.dwellings.housing[slice(*span)], blocks, tracts.holiday)
    away = ~home
    inmates = Inmates(block[away], codes[away, 0], grown[away], codes[away, 2], codes[away, 3])
    facilities, residing = _in_facilities(settled, span, inmates, blocks)
    types = FIRST_FACILITY + facilities.relgq - _FIRST_GROUP_QUARTERS
    parts = (occupied, vacant, without_household(facilities.block, types))
    units, number = _in_order(parts)
    # `number` is in the order of `parts`; facilities begin after both kinds of housing units.
    offset = len(occupied.block) + len(vacant.block)
    persons = _joined(
        _in_households(households, people, number),
        _in_group_quarters(residing, inmates, facilities, number[offset + residing.facility]),
    )
    sorted_number = rank_within(units.block) + 1
    return MadeUpBlocks(
        persons._replace(block=persons.block + start),
        units._replace(block=units.block + start),
        sorted_number,
    )


def _in_facilities(
    settled: SettledState, span: tuple[int, int], inmates: Inmates, blocks: BlockRange
) -> tuple[Facilities, GroupQuartersPeople]:
    """The facilities of some blocks, and the people in them."""
    dwellings = settled.dwellings
    here = (dwellings.block >= span[0]) & (dwellings.block < span[1]) & (dwellings.facilities > 0)
    # Block and class as one number, so that a search finds the facilities of a person.
    pair = (dwellings.block[here] - span[0]) * N_TYPES + dwellings.hhgq[here]
    order = np.argsort(pair)
    pair, number = pair[order], dwellings.facilities[here][order]
    facilities = make_facilities(pair // N_TYPES, pair % N_TYPES, number, blocks)
    place = np.searchsorted(pair, inmates.block * N_TYPES + inmates.hhgq)
    first = np.cumsum(number) - number
    return facilities, make_inmates(inmates, first[place], number[place], facilities, blocks)


def _in_order(parts: tuple[MadeUpUnits, ...]) -> tuple[MadeUpUnits, Integers]:
    """Units sorted by block, and the number in its block of every unit in the order of the parts."""
    units = MadeUpUnits(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.argsort(units.block, kind="stable")
    units = MadeUpUnits(*(column[order] for column in units))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = rank_within(units.block) + 1
    return units, number


def _in_households(households: MadeUpHouseholds, people: MadeUpPeople, number: Integers) -> Persons:
    of = households.household
    return Persons(
        block=households.block[of],
        unit=number[of],
        relgq=households.relation,
        sex=people.sex,
        age=people.age,
        hispanic=households.hispanic,
        cenrace=households.cenrace,
        hhgq=np.full(len(of), HOUSEHOLD),
        votingage=(households.band == ADULT).astype(np.int64),
    )


def _in_group_quarters(
    residing: GroupQuartersPeople, inmates: Inmates, facilities: Facilities, unit: Integers
) -> Persons:
    return Persons(
        block=residing.block,
        unit=unit,
        relgq=facilities.relgq[residing.facility],
        sex=residing.sex,
        age=residing.age,
        hispanic=residing.hispanic,
        cenrace=residing.cenrace,
        hhgq=inmates.hhgq,
        votingage=inmates.adult.astype(np.int64),
    )


def _joined(*parts: Persons) -> Persons:
    """People sorted by block and unit."""
    persons = Persons(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((persons.unit, persons.block))
    return Persons(*(column[order] for column in persons))


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
