"""Reads all files of a geography, and makes its tables and the report."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from tallyveil.errors import ConfigError, GeographyError
from tallyveil.geography.census.assignment_files import (
    StateBlocks,
    find_assignment_files,
    read_assignment_files,
)
from tallyveil.geography.census.audit import Reading, audit
from tallyveil.geography.census.checks import check_code, check_form, check_known, check_once
from tallyveil.geography.census.codes import BY_COLUMN
from tallyveil.geography.census.group_quarters import bounds_of, kinds_of_group_quarters, read_facilities
from tallyveil.geography.census.reference_files import read_reference_file
from tallyveil.geography.census.rules import entities_of, geography_of
from tallyveil.geography.census.source_files import SourceTable, read_source

ZCTA_BLOCK: Final = "GEOID_TABBLOCK_20"
ZCTA_AREA: Final = "GEOID_ZCTA5_20"
ZCTA: Final = "ZCTA5CE"
"""The columns of the relationship file of ZCTAs and blocks, and the code of a block that it gives."""

STATUS: Final = "FUNCSTAT"
"""Column of the functional status in the Bureau's lists of places and county subdivisions."""


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


def read_zctas(path: Path, blocks: pl.Series) -> tuple[SourceTable, pl.DataFrame]:
    """The ZCTA of every block.

    The file of the Bureau covers the country. Rows of States that are not imported are passed over, and so are rows of
    a ZCTA without a block.

    Args:
        path: The relationship file, such as `tab20_zcta520_tabblock20_natl.txt`.
        blocks: Blocks of the geography.

    Returns:
        The file with the rows of these States, and columns geocode, ZCTA5CE.

    Raises:
        GeographyError: the file cannot be read, a code has another form, or a block is unknown or there twice.
    """
    table = read_source(path, [ZCTA_BLOCK, ZCTA_AREA])
    check_code(table, ZCTA_AREA, BY_COLUMN[ZCTA])
    states = blocks.str.slice(0, 2).unique().to_list()
    table = table.filtered(table.rows[ZCTA_BLOCK].str.slice(0, 2).is_in(states).fill_null(False))
    check_known(table, ZCTA_BLOCK, blocks)
    check_once(table, ZCTA_BLOCK)
    return table, table.rows.select(pl.col(ZCTA_BLOCK).alias("geocode"), pl.col(ZCTA_AREA).alias(ZCTA))


class AreaList(NamedTuple):
    """A kind of list.

    Attributes:
        keys: Columns that together name an area.
        code: The last of them: the code that blocks have.
        status: Column of the blocks' tables for the functional status.
        prefix: Number of digits of a block that the keys before the code are.
    """

    keys: tuple[str, ...]
    code: str
    status: str
    prefix: int


LISTS: Final = (
    AreaList(("STATEFP", "COUNTYFP", "COUSUBFP"), "COUSUBFP", "COUSUBFS", 5),
    AreaList(("STATEFP", "PLACEFP"), "PLACEFP", "PLACEFS", 2),
)
DIGITS: Final = {"STATEFP": 2, "COUNTYFP": 3, "COUSUBFP": 5, "PLACEFP": 5}


def with_statuses(path: Path, blocks: pl.DataFrame) -> tuple[SourceTable, pl.DataFrame]:
    """Blocks with the functional status of their place or county subdivision.

    Args:
        path: A list such as `national_place2020.txt` or `national_cousub2020.txt`.
        blocks: Columns geocode and the codes. A status that a block has already is kept.

    Returns:
        The list, and the blocks with the status.

    Raises:
        GeographyError: the file cannot be read, is neither kind of list, names an area twice, or lacks an area of the
            blocks.
    """
    table = read_source(path, ["STATEFP", STATUS], ["COUNTYFP", "COUSUBFP", "PLACEFP"])
    kind = next((area_list for area_list in LISTS if set(area_list.keys) <= set(table.rows.columns)), None)
    if kind is None:
        raise GeographyError(
            f"{path}: got a list without PLACEFP, and without COUNTYFP and COUSUBFP; wanted one of the Bureau's lists "
            "of places or of county subdivisions, such as national_place2020.txt. Use such a list.",
            code="census-file",
        )
    for name in kind.keys:
        check_form(table, name, f"[0-9]{{{DIGITS[name]}}}", f"{DIGITS[name]} digits", may_be_empty=False)
    check_code(table, STATUS, BY_COLUMN[kind.status], may_be_empty=False)
    names = table.rows.select(pl.concat_str(kind.keys).alias("area"), pl.col(STATUS).alias("listed"))
    _refuse_repeated_areas(table, names["area"], kind)
    # A code that means "in none" becomes null, so that its blocks join nothing and are not reported as unlisted.
    code = pl.when(~pl.col(kind.code).is_in(BY_COLUMN[kind.code].none)).then(pl.col(kind.code))
    # The list names areas by State (and county); the digits of the block say which these are.
    area = pl.col("geocode").str.slice(0, kind.prefix) + code
    # The join keeps the order of the blocks, on which the tables of all families rely.
    joined = blocks.with_columns(area.alias("area")).join(names, on="area", how="left", maintain_order="left")
    known = pl.col(kind.status) if kind.status in blocks.columns else pl.lit(None, dtype=pl.String)
    # What a block has already comes from a reference file, which is nearer to the block than a list.
    joined = joined.with_columns(pl.coalesce(known, "listed").alias(kind.status))
    _refuse_unlisted(path, joined, kind)
    return table, joined.drop("area", "listed")


def _refuse_repeated_areas(table: SourceTable, areas: pl.Series, kind: AreaList) -> None:
    again = (~areas.is_first_distinct()).arg_true()
    if len(again):
        raise table.error(
            again[0],
            f"{', '.join(kind.keys)} '{areas[again[0]]}' a second time",
            "every area once",
            "Remove one of the rows.",
            code="census-file",
        )


def _refuse_unlisted(path: Path, joined: pl.DataFrame, kind: AreaList) -> None:
    lost = joined.filter(pl.col("area").is_not_null() & pl.col(kind.status).is_null())
    if lost.height:
        raise GeographyError(
            f"{path}: got no row for {', '.join(kind.keys)} '{lost['area'][0]}', in which block '{lost['geocode'][0]}' "
            f"is ({lost.height} blocks are in such areas); wanted every area of the blocks. Use a list of the year and "
            "the States of the blocks.",
            code="census-file",
        )
