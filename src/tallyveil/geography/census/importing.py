"""Reads all files of a geography, and makes its tables and the report."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.errors import ConfigError, GeographyError
from tallyveil.geography.census.area_codes import with_statuses
from tallyveil.geography.census.assignment_files import (
    StateBlocks,
    find_assignment_files,
    read_assignment_files,
)
from tallyveil.geography.census.audit import Reading, audit
from tallyveil.geography.census.group_quarters import bounds_of, kinds_of_group_quarters, read_facilities
from tallyveil.geography.census.reference_files import read_reference_file
from tallyveil.geography.census.rules import entities_of, geography_of
from tallyveil.geography.census.zcta_file import CODE as ZCTA
from tallyveil.geography.census.zcta_file import read_zctas


@dataclass(frozen=True, slots=True)
class Sources:
    """The files to read.

    Attributes:
        assignment_folders: Folders with block assignment files, of one State or several.
        reference_files: Geographic reference files.
        facilities: Table of group quarters, if there is one.
        zctas: Relationship file of ZIP Code tabulation areas and blocks, if there is one.
        area_lists: Lists of places and county subdivisions with their functional statuses.
    """

    assignment_folders: tuple[Path, ...] = ()
    reference_files: tuple[Path, ...] = ()
    facilities: Path | None = None
    zctas: Path | None = None
    area_lists: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """The tables of a geography.

    Attributes:
        geography: One row for every block: geocode, state, county, tract, block_group. Sorted by geocode.
        entities: For every block, its entity in each family; null for none. The same blocks in the same order.
        facilities: Bounds on group quarters: geocode, hhgq, lower, upper. None without a table of facilities.
        report: What was read, which rule was applied, and what did not fit; ready for JSON.
        inputs: Every file that was read.
    """

    geography: pl.DataFrame
    entities: pl.DataFrame
    facilities: pl.DataFrame | None
    report: dict[str, Any]
    inputs: tuple[Path, ...]


def import_geography(sources: Sources) -> Imported:
    """Make the tables of a geography from public files. No record is read.

    Args:
        sources: The files. Every State is in the block assignment files or in one geographic reference file, not in
            both.

    Raises:
        ConfigError: no file is named.
        GeographyError: a file is missing or cannot be read, or files contradict themselves or each other.
    """
    if not sources.assignment_folders and not sources.reference_files:
        raise ConfigError(
            "no blocks are named. Give --baf FOLDER (block assignment files) or --grf FILE (a geographic reference "
            "file).",
            code="bad-flag",
        )
    states = _states(sources)
    # Diagonal: States come from different sources, and a column that one of them lacks is null there.
    blocks = pl.concat([state.rows for state in states], how="diagonal").sort("geocode")
    geocodes = blocks["geocode"]
    readings = [Reading(state.source, state.tables) for state in states]
    if sources.zctas is not None:
        table, zctas = read_zctas(sources.zctas, geocodes)
        readings.append(Reading("ZIP Code tabulation areas", (table,)))
        # A reference file may have ZCTAs of its own; the table that the user names takes their place.
        blocks = blocks.drop(ZCTA, strict=False).join(zctas, on="geocode", how="left", maintain_order="left")
    # Before the entities: the primitives are made of the statuses that these lists bring.
    for path in sources.area_lists:
        table, blocks = with_statuses(path, blocks)
        readings.append(Reading("functional statuses", (table,)))
    entities = entities_of(blocks)
    bounds = None
    if sources.facilities is not None:
        table, facilities = read_facilities(sources.facilities, geocodes)
        readings.append(Reading("facilities of group quarters", (table,)))
        bounds = bounds_of(geocodes, facilities)
        kinds = kinds_of_group_quarters(bounds)
        entities = entities.join(kinds, on="geocode", how="left", maintain_order="left")
    report = audit(states, readings, blocks, entities)
    # A file with several States occurs in several readings, and is an input once.
    inputs = tuple(dict.fromkeys(table.path for reading in readings for table in reading.tables))
    return Imported(geography_of(blocks), entities, bounds, report, inputs)


def _states(sources: Sources) -> list[StateBlocks]:
    """Every State, sorted, each from one source."""
    states = [
        *(
            read_assignment_files(state, paths)
            for state, paths in find_assignment_files(sources.assignment_folders).items()
        ),
        *(state for path in sources.reference_files for state in read_reference_file(path)),
    ]
    # Blocks of a State from two sources would be there twice, and with them their people.
    _refuse_repeated(states)
    return sorted(states, key=lambda state: state.state)


def _refuse_repeated(states: Iterable[StateBlocks]) -> None:
    seen: dict[str, StateBlocks] = {}
    for state in states:
        if state.state in seen:
            first = seen[state.state]
            raise GeographyError(
                f"State {state.state}: got it from {state.tables[0].path} ({state.source}) and from "
                f"{first.tables[0].path} ({first.source}); wanted one source for each State. Leave one of them out.",
                code="census-file",
            )
        seen[state.state] = state
