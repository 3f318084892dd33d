"""A made-up population: records, geography and facilities of a country that does not exist, and its files.

The population can be made to agree with counts that are published for real blocks (`PublishedCounts`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, GeographyError, SchemaError
from tallyveil.geography.census.block_files import kinds_of_group_quarters
from tallyveil.geography.geometry import POLYGONS, geo_metadata
from tallyveil.schema.names import closest_hint
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import read_parquet
from tallyveil.storage.write import write_parquet, write_parquet_chunks
from tallyveil.synthetic.country import GEOGRAPHY_COLUMNS, make_entities, make_geography, make_map
from tallyveil.synthetic.people import (
    HISPANIC,
    HOUSEHOLD,
    RACES,
    SINGLE_RACES,
    TWO_OR_MORE,
    Dwellings,
    draw_sets,
    make_people,
    make_totals,
    settle,
    tilt_races,
)

MOST_OF_A_BLOCK: Final = 1_000_000
"""Largest count that is accepted. Every person becomes a row, so that a wrong number could fill the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedCounts:
    """Public counts of real blocks by voting age and race.

    Attributes:
        counts: Columns geocode, voting_age, race_ethnicity (levels of preset "race-age") and count. Missing rows mean a
            count of zero.
        blocks: One row for each block, including empty ones: columns geocode, state, county, tract, block_group.
    """

    counts: pl.DataFrame
    blocks: pl.DataFrame


def geography_of(published: PublishedCounts) -> pl.DataFrame:
    """The blocks' geography, sorted by geocode.

    Args:
        published: Counts and blocks.
    Returns:
        One row for each block, columns `GEOGRAPHY_COLUMNS`, all strings.
    Raises:
        GeographyError: a column is missing or has a null, there are no rows, or a block is repeated.
    """
    blocks = published.blocks
    missing = [column for column in GEOGRAPHY_COLUMNS if column not in blocks.columns]
    if missing:
        raise GeographyError(
            f"published blocks: column {missing[0]!r} is missing; wanted {list(GEOGRAPHY_COLUMNS)}. Add it."
        )
    # Sorted here, because the rows of the array of people are in this order.
    geography = blocks.select(pl.col(GEOGRAPHY_COLUMNS).cast(pl.String)).sort("geocode")
    if geography.height == 0 or sum(geography.null_count().row(0)):
        raise GeographyError(
            "published blocks: there are no rows, or a geocode is null. Wanted at least one row, and a value in "
            "every column."
        )
    if geography["geocode"].is_duplicated().any():
        raise GeographyError("published blocks: a geocode is given twice; wanted one row per block.")
    return geography


def people_of(published: PublishedCounts, geography: pl.DataFrame, schema: Schema) -> NDArray[np.int64]:
    """The published counts as an array.

    Args:
        published: Counts and blocks.
        geography: The blocks, from `geography_of`.
        schema: Preset "race-age".
    Returns:
        Shape (n_blocks, 2, 8): people by voting age and race.
    Raises:
        SchemaError: a column is missing, a level is unknown, or a count is no whole number from 0 to `MOST_OF_A_BLOCK`.
        GeographyError: a geocode is not a block.
    """
    # Other columns are ignored, so that a published table can be given as it is.
    wanted = ("geocode", *schema.attribute_names, "count")
    missing = [column for column in wanted if column not in published.counts.columns]
    if missing:
        raise SchemaError(
            f"published counts: column {missing[0]!r} is missing; wanted {list(wanted)}. Add it."
        )
    counts = published.counts.select(wanted)
    codes = np.stack(
        [_codes(counts, attribute.name, attribute.levels) for attribute in schema.attributes], axis=1
    )
    place = (
        counts["geocode"]
        .cast(pl.String)
        .replace_strict(
            geography["geocode"],
            pl.int_range(geography.height, eager=True),
            default=None,
            return_dtype=pl.Int64,
        )
    )
    if place.null_count():
        raise GeographyError("published counts: a geocode is not among the published blocks; add its block.")
    # strict=False turns what is no number into null, which is refused below with the rest.
    number = counts["count"].cast(pl.Int64, strict=False)
    whole = not counts["count"].dtype.is_float() or bool((number == counts["count"]).all())
    if number.null_count() or not whole or (number < 0).any():
        raise SchemaError(
            "published counts: a count is null, negative or no whole number; wanted whole numbers from 0. Correct it."
        )
    if (number > MOST_OF_A_BLOCK).any():
        raise SchemaError(
            f"published counts: a count is above {MOST_OF_A_BLOCK:,}, which is more people than any block has. Correct "
            "it."
        )
    people = np.zeros((geography.height, *schema.shape), dtype=np.int64)
    # add.at, because a block may have several rows of one age and race.
    np.add.at(people, (place.to_numpy(), codes[:, 0], codes[:, 1]), number.to_numpy())
    return people


def _codes(counts: pl.DataFrame, column: str, levels: tuple[str, ...]) -> NDArray[np.int64]:
    codes = (
        counts[column]
        .cast(pl.String)
        .replace_strict(list(levels), list(range(len(levels))), default=None, return_dtype=pl.Int64)
    )
    if codes.null_count():
        raise SchemaError(
            f"published counts: column {column!r} holds an unknown level; wanted {list(levels)}."
        )
    return codes.to_numpy()


PRESETS = ("pl94-persons", "pl94-units", "race-age")
"""Schema presets that `make_states` knows."""

MORE_HOUSEHOLDS = 0.38
"""Probability that a household resident, after the first of the block, begins a household: about 2.6 people each."""
VACANT_SHARE = 0.1
"""Mean number of vacant housing units for each occupied one."""
MORE_VACANT = 0.5
"""In a block whose housing units are all vacant: the probability of one more of them."""
_UNITS_STREAM = 0x756E74  # a separate random stream from those that make people and entities


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPopulation:
    """All inputs of a release, about people who do not exist.

    Attributes:
        preset: Schema preset of the records.
        seed: The seed that the population was made from.
        records: Counts: geocode, one column for each attribute with names of levels, and count (above zero). Sorted by
            geocode, then cell; each (geocode, cell) pair once.
        geography: One row for each block, including empty ones, sorted: geocode, state, county, tract, block_group.
        facilities: Bounds on the people of each (geocode, hhgq) pair that can have any: geocode, hhgq, lower (the
            number of facilities; 0 for households), upper (null for no bound). A missing pair means upper 0: there is
            no housing unit or facility of that type. None for preset "race-age". The facilities of "pl94-units" are
            those of the people who live in the units.
    """

    preset: str
    seed: int
    records: pl.DataFrame
    geography: pl.DataFrame
    facilities: pl.DataFrame | None


def make_states(
    preset: str,
    n_blocks: int | None,
    seed: int,
    like: PublishedCounts | None = None,
    n_people: int | None = None,
    n_states: int | None = None,
) -> Iterator[SyntheticPopulation]:
    """Make up a population one state at a time, so that the memory needed is that of the largest state.

    The same arguments give the same population under the same numpy release. The random numbers come from an ordinary
    pseudo-random generator. They have nothing to do with privacy noise, and no privacy depends on them.

    Args:
        preset: "pl94-persons", "pl94-units" or "race-age". The units are those of the people that the same other
            arguments give with "pl94-persons", in the same blocks.
        n_blocks: Number of blocks; None with `like`.
        seed: Seed of numpy's PCG64, zero or more.
        like: Published counts that the population must agree with. Geocodes, and every block's counts by voting age and
            race (Hispanic of any race, non-Hispanic of each race or of several), are kept exactly. Everything else is
            made up.
        n_people: Exact total number of people; None for about forty people for each block. Not with `like`.
        n_states: Number of states; None for one for every 400,000 blocks. Not with `like`.
    Yields:
        The population of each state, in order of geocode; with `like`, one population of everything.
    Raises:
        ConfigError: an argument is out of range, or both or neither of `n_blocks` and `like` are given.
        SchemaError: the published counts do not fit preset "race-age".
        GeographyError: the published blocks do not fit.
    """
    if preset not in PRESETS:
        raise ConfigError(f"synthetic population of preset {preset!r}: {closest_hint(preset, PRESETS)}")
    if preset == "race-age":
        # One generator for everything: the order of the draws is part of what a seed means.
        generator = _generator(n_blocks, seed, like, n_people, n_states)
        schema = load_preset(preset)
        for geography, people in _geography_and_people(n_blocks, like, n_people, n_states, generator):
            # Only pairs with people become records, in the order of block and cell.
            block, age, race = np.nonzero(people)
            cells = schema.encode(np.stack([age, race], axis=1))
            records = _records(geography, schema, block, cells, people[block, age, race])
            yield SyntheticPopulation(preset, seed, records, geography, None)
        return
    for number, settled in enumerate(settled_states(n_blocks, seed, like, n_people, n_states)):
        persons = _persons(settled, seed)
        # The units are those of the people, who are made up first, and in the same way.
        yield _with_units(persons, number) if preset == "pl94-units" else persons


@dataclass(frozen=True, slots=True, eq=False)
class SettledState:
    """The people of one state and where they live, as arrays.

    Attributes:
        geography: One row for each block, sorted.
        dwellings: Where people live.
        block: Shape (n,): block of each group of people, a row of `geography`.
        codes: Shape (n, 4): levels of preset pl94-persons (hhgq, votingage, hispanic, cenrace).
        counts: Shape (n,): number of people.
    """

    geography: pl.DataFrame
    dwellings: Dwellings
    block: NDArray[np.int64]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]

    def facilities(self) -> pl.DataFrame:
        """Bounds of every (block, hhgq) pair with a housing unit or a facility, as in `SyntheticPopulation`."""
        return _facilities(self.geography, load_preset("pl94-persons"), self.dwellings)


def settled_states(
    n_blocks: int | None,
    seed: int,
    like: PublishedCounts | None = None,
    n_people: int | None = None,
    n_states: int | None = None,
) -> Iterator[SettledState]:
    """Make up the people of one state at a time; arguments and errors as in `make_states`."""
    generator = _generator(n_blocks, seed, like, n_people, n_states)
    schema = load_preset("pl94-persons")
    for geography, people in _geography_and_people(n_blocks, like, n_people, n_states, generator):
        dwellings = settle(people, generator)
        yield SettledState(
            geography, dwellings, *_person_cells(schema, geography, people, dwellings, generator)
        )


def _generator(
    n_blocks: int | None, seed: int, like: PublishedCounts | None, n_people: int | None, n_states: int | None
) -> np.random.Generator:
    """The source of random numbers, after the arguments have been checked."""
    if seed < 0:
        raise ConfigError(f"synthetic population: seed is {seed}, wanted 0 or more.")
    # One of them says how many blocks there are, and both could contradict each other.
    if (n_blocks is None) == (like is None):
        given = "neither was" if like is None else "both were"
        raise ConfigError(f"synthetic population: wanted either n_blocks or like, {given} given.")
    if like is not None and (n_people is not None or n_states is not None):
        raise ConfigError(
            "synthetic population: like fixes the people and the states; give neither of them.",
            code="bad-flag",
        )
    return np.random.Generator(np.random.PCG64(seed))


def _with_units(persons: SyntheticPopulation, number: int) -> SyntheticPopulation:
    """The state's housing units in the place of its people."""
    assert persons.facilities is not None
    units = make_units(persons.records, persons.geography, persons.facilities, persons.seed, number)
    return replace(persons, preset="pl94-units", records=units)


def _geography_and_people(
    n_blocks: int | None,
    like: PublishedCounts | None,
    n_people: int | None,
    n_states: int | None,
    generator: np.random.Generator,
) -> Iterator[tuple[pl.DataFrame, NDArray[np.int64]]]:
    """The blocks of each state, with their people by voting age and race."""
    if like is not None:
        geography = geography_of(like)
        yield geography, people_of(like, geography, load_preset("race-age"))
    elif n_blocks is not None:
        country = make_geography(n_blocks, generator, n_states)
        totals = make_totals(country, generator, n_people)
        ends = np.cumsum(country["state"].rle().struct.field("len").to_numpy()).tolist()
        for start, stop in pairwise([0, *ends]):
            geography = country.slice(start, stop - start)
            yield geography, make_people(geography, totals.rows(start, stop), generator)


def _persons(settled: SettledState, seed: int) -> SyntheticPopulation:
    schema = load_preset("pl94-persons")
    cells = schema.encode(settled.codes)
    records = _records(settled.geography, schema, settled.block, cells, settled.counts)
    return SyntheticPopulation("pl94-persons", seed, records, settled.geography, settled.facilities())


def _person_cells(
    schema: Schema,
    geography: pl.DataFrame,
    people: NDArray[np.int64],
    dwellings: Dwellings,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Block, level codes (hhgq, votingage, hispanic, cenrace) and count of all people, with made-up race detail."""
    block, hhgq, age, race, count = _groups(dwellings)
    area = geography["tract"].rle_id().to_numpy().astype(np.int64)
    area_races = np.zeros((int(area[-1]) + 1, len(RACES)), dtype=np.int64)
    # add.at, because all blocks of a tract add to one row.
    np.add.at(area_races, area, people.sum(axis=1))
    detail = tilt_races(schema.attribute("cenrace").levels, area_races, generator)
    parts = []
    for code, name in enumerate(RACES):
        rows = np.flatnonzero(race == code)
        if name in SINGLE_RACES:
            # People of a single race need no draw.
            drawn = (np.arange(len(rows)), np.full(len(rows), SINGLE_RACES.index(name)), count[rows])
        else:
            shares = {TWO_OR_MORE: detail.two_or_more, HISPANIC: detail.hispanic}[code]
            drawn = draw_sets(count[rows], area[block[rows]], shares, generator)
        person, cenrace, number = rows[drawn[0]], drawn[1], drawn[2]
        hispanic = np.full(len(person), int(code == HISPANIC))
        parts.append(np.stack([block[person], hhgq[person], age[person], hispanic, cenrace, number]))
    table = np.concatenate(parts, axis=1)
    return table[0], table[1:5].T, table[5]


def _groups(dwellings: Dwellings) -> tuple[NDArray[np.int64], ...]:
    """Block, hhgq, voting age, race and count of every nonempty group of people."""
    home_block, home_age, home_race = np.nonzero(dwellings.households)
    entry, age, race = np.nonzero(dwellings.residents)
    return (
        np.concatenate([home_block, dwellings.block[entry]]),
        np.concatenate([np.full(len(home_block), HOUSEHOLD), dwellings.hhgq[entry]]),
        np.concatenate([home_age, age]),
        np.concatenate([home_race, race]),
        np.concatenate(
            [dwellings.households[home_block, home_age, home_race], dwellings.residents[entry, age, race]]
        ),
    )


def _records(
    geography: pl.DataFrame,
    schema: Schema,
    block: NDArray[np.int64],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> pl.DataFrame:
    """Counts as a table of records, sorted by block and cell."""
    # Block and cell in one number, so that one sort orders both; below 2^63 for every preset.
    order = np.argsort(block * schema.size + cells, kind="stable")
    codes = schema.decode(cells[order])
    columns = [
        pl.Series(attribute.name, attribute.levels, dtype=pl.String).gather(codes[:, axis])
        for axis, attribute in enumerate(schema.attributes)
    ]
    return pl.DataFrame(
        [geography["geocode"].gather(block[order]), *columns, pl.Series("count", counts[order])]
    )


def _facilities(geography: pl.DataFrame, schema: Schema, dwellings: Dwellings) -> pl.DataFrame:
    """Bounds of every (block, hhgq) pair with a housing unit or a facility."""
    occupied = np.flatnonzero(dwellings.facilities)
    housing = np.flatnonzero(dwellings.housing)
    block = np.concatenate([housing, dwellings.block[occupied]])
    hhgq = np.concatenate([np.full(len(housing), HOUSEHOLD), dwellings.hhgq[occupied]])
    lower = np.concatenate([np.zeros(len(housing), dtype=np.int64), dwellings.facilities[occupied]])
    # By block, then by type of dwelling, as the table is described.
    order = np.lexsort((hhgq, block))
    levels = pl.Series("hhgq", schema.attribute("hhgq").levels, dtype=pl.String)
    return pl.DataFrame(
        [
            geography["geocode"].gather(block[order]),
            levels.gather(hhgq[order]),
            # Public files give no upper bound on residents, so that none is made up.
            pl.Series("lower", lower[order]),
            pl.repeat(None, len(order), dtype=pl.Int64, eager=True).alias("upper"),
        ]
    )


def make_units(
    persons: pl.DataFrame, geography: pl.DataFrame, facilities: pl.DataFrame, seed: int, number: int
) -> pl.DataFrame:
    """Make up occupied and vacant housing units that agree with the people of one state.

    A block has occupied housing units if and only if people live in households there, and it has at most as many as
    people. It has housing units, occupied or vacant, if and only if the facilities have a row for its households.

    Args:
        persons: Records of preset "pl94-persons", one state.
        geography: The state's blocks, sorted by geocode.
        facilities: The state's facilities, as in `SyntheticPopulation`.
        seed: The seed of the population. The random stream of the units is used for nothing else.
        number: Number of the state, from 0.
    Returns:
        Records of preset "pl94-units": geocode, h1, count (above zero), sorted by geocode, then level.
    """
    # A stream for each state, apart from those of the people: the people are the same with and without units.
    generator = np.random.Generator(np.random.PCG64([seed, _UNITS_STREAM, number]))
    residents = _of_blocks(geography, persons.filter(pl.col("hhgq") == "household"), pl.col("count").sum())
    housing = _of_blocks(geography, facilities.filter(pl.col("hhgq") == "household"), pl.len()) > 0
    # Every inhabited block has one household at least, and every further person may begin another.
    occupied = np.minimum(residents, 1) + generator.binomial(np.maximum(residents - 1, 0), MORE_HOUSEHOLDS)
    beside = generator.binomial(2 * occupied, VACANT_SHARE / 2)
    # A block with housing and without residents has vacant units alone, of which there is one at least.
    alone = generator.geometric(1 - MORE_VACANT, len(housing))
    vacant = np.where(occupied > 0, beside, np.where(housing, alone, 0))
    return _unit_records(geography, {"vacant": vacant, "occupied": occupied})


def _of_blocks(geography: pl.DataFrame, rows: pl.DataFrame, value: pl.Expr) -> Integers:
    """A sum for each block, in the order of the geography; 0 where a block has no rows."""
    sums = rows.group_by("geocode").agg(value.cast(pl.Int64).alias("value"))
    of_blocks = geography.select("geocode").join(sums, on="geocode", how="left", maintain_order="left")
    return of_blocks["value"].fill_null(0).to_numpy()


def _unit_records(geography: pl.DataFrame, counts: dict[str, Integers]) -> pl.DataFrame:
    levels = load_preset("pl94-units").attribute("h1").levels
    table = np.stack([counts[level] for level in levels], axis=1)
    block, code = np.nonzero(table)
    return pl.DataFrame(
        [
            geography["geocode"].gather(block),
            pl.Series("h1", levels, dtype=pl.String).gather(code),
            pl.Series("count", table[block, code]),
        ]
    )


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
