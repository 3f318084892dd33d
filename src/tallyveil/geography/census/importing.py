"""Reads all files of a geography, and makes its Parquet tables and the report, as JSON and as text.

The report says what was read, which rule was applied to each State, and what did not fit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from tallyveil.errors import ConfigError, GeographyError
from tallyveil.geography.census.block_files import (
    COMPONENT,
    StateBlocks,
    bounds_of,
    find_assignment_files,
    kinds_of_group_quarters,
    read_assignment_files,
    read_facilities,
    read_reference_file,
)
from tallyveil.geography.census.codes import (
    BY_COLUMN,
    BY_KIND,
    STATES,
    STRONG_MCD_STATES,
    class_of,
    entities_of,
    geography_of,
    uses_subdivisions,
)
from tallyveil.geography.census.source_files import (
    SourceTable,
    check_code,
    check_form,
    check_known,
    check_once,
    read_source,
    read_spreadsheet,
)
from tallyveil.printable import shown
from tallyveil.storage.outputs import own_folder, refuse_inputs, remove
from tallyveil.storage.write import file_digest, write_json, write_parquet, write_text

# Version of the report's keys, for programs that read it; a change of their meaning needs the next number.
REPORT_FORMAT: Final = 1
SUBDIVISIONS: Final = "minor civil divisions; places inside tribal areas"
PLACES: Final = "places"
EXAMPLES: Final = 3
"""Largest number of examples in a sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The files of one kind.

    Attributes:
        what: What they are.
        tables: The files.
    """

    what: str
    tables: tuple[SourceTable, ...]


def audit(
    states: Sequence[StateBlocks], readings: Sequence[Reading], blocks: pl.DataFrame, entities: pl.DataFrame
) -> dict[str, Any]:
    """The report, ready for JSON.

    Args:
        states: What was read of each State.
        readings: All files.
        blocks: The codes of all blocks, as they were read.
        entities: The families made from them.
    """
    return {
        "format": REPORT_FORMAT,
        "files": list(_files(readings)),
        "blocks": entities.height,
        "states": [_state(state, entities) for state in states],
        "tribal_areas": list(_tribal_areas(blocks, entities)),
        "families": _families(entities),
        "misfits": list(_misfits(states, readings, blocks, entities)),
    }


def _files(readings: Sequence[Reading]) -> Iterator[dict[str, Any]]:
    seen = set()
    for reading in readings:
        for table in reading.tables:
            # The same table stands in the reading of each of its States.
            if table.path in seen:
                continue  # a geographic reference file with several States
            seen.add(table.path)
            yield {
                "path": str(table.path),
                "what": reading.what,
                "rows": table.rows.height,
                "sha256": file_digest(table.path),
                "notes": list(table.notes),
            }


def _state(state: StateBlocks, entities: pl.DataFrame) -> dict[str, Any]:
    state_entities = entities.filter(pl.col("geocode").str.starts_with(state.state))
    lengths = {"counties": 5, "tracts": 11, "block_groups": 12}
    by_subdivision, by_place = (
        state_entities["county_subdivision"].is_not_null(),
        state_entities["place"].is_not_null(),
    )
    tribal = state_entities["tribal_area"].is_not_null()
    return {
        "state": state.state,
        "name": STATES[state.state].name,
        "source": state.source,
        **{
            name: state_entities["geocode"].str.slice(0, length).n_unique()
            for name, length in lengths.items()
        },
        "blocks": state_entities.height,
        "rule": SUBDIVISIONS if uses_subdivisions(state.state) else PLACES,
        "county_subdivisions": state_entities["county_subdivision"].drop_nulls().n_unique(),
        "places": state_entities["place"].drop_nulls().n_unique(),
        "blocks_in_county_subdivisions": int(by_subdivision.sum()),
        "blocks_in_places": int(by_place.sum()),
        "blocks_in_neither": int((~by_subdivision & ~by_place).sum()),
        "tribal_areas": state_entities["tribal_area"].drop_nulls().n_unique(),
        "blocks_in_tribal_areas": int(tribal.sum()),
        "is_divided_by_tribal_branch": bool(tribal.any() and not tribal.all()),
    }


def _tribal_areas(blocks: pl.DataFrame, entities: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Every area of the files, with its class and its parts."""
    codes = entities["published_tribal_area"]
    component = (
        blocks[COMPONENT[0]] if COMPONENT[0] in blocks.columns else pl.repeat(None, len(codes), eager=True)
    )
    table = pl.DataFrame(
        {"code": codes, "block": entities["geocode"], "component": component.cast(pl.String)}
    )
    for (code,), area_rows in (
        # Sorted by code, so that the report is the same whatever the order of the blocks.
        table.drop_nulls("code").sort("code").partition_by("code", as_dict=True, maintain_order=True).items()
    ):
        kind = class_of(str(code))
        parts = area_rows["component"].drop_nulls().value_counts().sort("component")
        yield {
            "code": code,
            "class": "" if kind is None else kind.name,
            "in_spine": kind is not None and kind.in_spine,
            "states": area_rows["block"].str.slice(0, 2).unique().sort().to_list(),
            "counties": area_rows["block"].str.slice(0, 5).n_unique(),
            "block_groups": area_rows["block"].str.slice(0, 12).n_unique(),
            "blocks": area_rows.height,
            "components": dict(parts.iter_rows()),
        }


def _families(entities: pl.DataFrame) -> dict[str, dict[str, int]]:
    return {
        name: {
            "entities": entities[name].drop_nulls().n_unique(),
            "blocks": len(entities) - entities[name].null_count(),
        }
        for name in entities.columns
        if name != "geocode"
    }


def _misfits(
    states: Sequence[StateBlocks], readings: Sequence[Reading], blocks: pl.DataFrame, entities: pl.DataFrame
) -> Iterator[str]:
    """A sentence for everything that was odd, or that the rules leave without an area."""
    for reading in readings:
        # A dictionary, because a file with several States would give its notes once for each of them.
        for table in dict.fromkeys(reading.tables):
            yield from (f"{table.path}: {note}" for note in table.notes)
    for state in states:
        yield from (
            f"{path}: this kind of area is not known, and the file was not read." for path in state.unused
        )
        yield from _missing_kinds(state)
    yield from _absent_columns(entities)
    yield from _without_area(entities)
    yield from _left_out(entities)
    yield from _outside_home(entities)
    yield from _two_kinds_of_districts(entities)


def _missing_kinds(state: StateBlocks) -> Iterator[str]:
    """Block assignment files that are not there: the Bureau makes none for a kind of area that a State lacks."""
    missing = [kind for kind, code in BY_KIND.items() if code.column not in state.rows.columns]
    if state.source == "block assignment files" and missing:
        yield (
            f"State {state.state}: no block assignment files of {', '.join(missing)}. The State was taken to have no "
            "such areas."
        )


def _absent_columns(entities: pl.DataFrame) -> Iterator[str]:
    reasons = {
        "group_quarters": "no table of facilities was given (--facilities)",
        "school_district": "no file has school districts",
        "prim": "primitives need functional statuses, from a geographic reference file or from lists of places and of "
        "county subdivisions (--areas)",
        "zcta": "no file has ZIP Code tabulation areas (--zcta)",
        "cbsa": "no list of metropolitan and micropolitan areas was given (--cbsa)",
    }
    for name, reason in reasons.items():
        if name not in entities.columns:
            yield f"The entity table has no column {name}: {reason}."


def _without_area(entities: pl.DataFrame) -> Iterator[str]:
    """Blocks of States of minor civil divisions for which the rule finds no area."""
    governed = entities.filter(pl.col("geocode").str.slice(0, 2).is_in(STRONG_MCD_STATES))
    inside = governed.filter(pl.col("tribal_area").is_not_null() & pl.col("place").is_null())
    if inside.height:
        yield (
            f"Blocks in tribal areas of States with minor civil divisions that are in no place: {inside.height}, such "
            f"as {_some(inside)}. By the rule they are in no minor civil division either."
        )
    outside = governed.filter(pl.col("tribal_area").is_null() & pl.col("county_subdivision").is_null())
    if outside.height:
        yield (
            f"Blocks of States with minor civil divisions that are in none: {outside.height}, such as "
            f"{_some(outside)}. The Bureau gives water outside minor civil divisions the code 00000."
        )


def _left_out(entities: pl.DataFrame) -> Iterator[str]:
    """Tribal areas for which the spine has no branch."""
    left_out = entities.filter(
        pl.col("published_tribal_area").is_not_null() & pl.col("tribal_area").is_null()
    )
    codes = left_out["published_tribal_area"].unique().sort().to_list()
    if codes:
        yield (
            f"Areas of classes for which the spine has no branch: {len(codes)}, such as {', '.join(codes[:EXAMPLES])}; "
            f"their blocks: {left_out.height}. They are in the column published_tribal_area alone."
        )


def _outside_home(entities: pl.DataFrame) -> Iterator[str]:
    """Areas of a class that only one State has, in another State."""
    home = pl.col("geocode").str.slice(0, 2).alias("state")
    pairs = entities.select("published_tribal_area", home).drop_nulls().unique()
    for code, state in pairs.sort(pairs.columns).iter_rows():
        kind = class_of(code)
        # A class without a State of its own is at home everywhere.
        if kind is not None and kind.state not in (None, state):
            yield (
                f"Area {code} has blocks in State {state}; by its code it is a {kind.name}, which only State "
                f"{kind.state} has."
            )


def _two_kinds_of_districts(entities: pl.DataFrame) -> Iterator[str]:
    """A unified district does the work of the two others, so a block in both is odd."""
    names = ["unified_school_district", "elementary_school_district", "secondary_school_district"]
    present = [name for name in names[1:] if name in entities.columns]
    if names[0] not in entities.columns or not present:
        return
    other = pl.any_horizontal(pl.col(name).is_not_null() for name in present)
    both = entities.filter(pl.col(names[0]).is_not_null() & other)
    if both.height:
        yield (
            f"Blocks in a unified school district and in an elementary or secondary one: {both.height}, such as "
            f"{_some(both)}. The column school_district names their combination."
        )


def _some(table: pl.DataFrame) -> str:
    return ", ".join(table["geocode"].head(EXAMPLES).to_list())


ZCTA_BLOCK: Final = "GEOID_TABBLOCK_20"
ZCTA_AREA: Final = "GEOID_ZCTA5_20"
ZCTA: Final = "ZCTA5CE"
"""The columns of the relationship file of ZCTAs and blocks, and the code of a block that it gives."""

CBSA: Final = "CBSAFP"
"""The code of a block that the list of metropolitan and micropolitan areas gives."""
DELINEATION: Final = {"cbsacode": CBSA, "fipsstatecode": "STATEFP", "fipscountycode": "COUNTYFP"}
"""The columns of that list that are read."""

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
        cbsas: List of metropolitan and micropolitan statistical areas and their counties, if there is one.
    """

    assignment_folders: tuple[Path, ...] = ()
    reference_files: tuple[Path, ...] = ()
    facilities: Path | None = None
    zctas: Path | None = None
    area_lists: tuple[Path, ...] = ()
    cbsas: Path | None = None


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
    if sources.cbsas is not None:
        table, cbsas = read_cbsas(sources.cbsas, geocodes)
        readings.append(Reading("metropolitan and micropolitan areas", (table,)))
        county = pl.col("geocode").str.slice(0, 5)
        blocks = blocks.drop(CBSA, strict=False).with_columns(county.alias("county"))
        blocks = blocks.join(cbsas, on="county", how="left", maintain_order="left").drop("county")
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


def read_cbsas(path: Path, blocks: pl.Series) -> tuple[SourceTable, pl.DataFrame]:
    """The metropolitan or micropolitan statistical area of every county; counties in none are left out.

    The list covers the country. Rows of States that are not imported are passed over.

    Args:
        path: The list of core based statistical areas and their counties, such as `list1_2020.xls` saved as CSV.
        blocks: Blocks of the geography.

    Returns:
        The list with the rows of these States, and columns county (State and county), CBSAFP.

    Raises:
        GeographyError: the file cannot be read, a code has another form, a county is there twice, or no block is in it.
    """
    table = read_spreadsheet(path, DELINEATION)
    for name, digits in ((CBSA, 5), ("STATEFP", DIGITS["STATEFP"]), ("COUNTYFP", DIGITS["COUNTYFP"])):
        check_form(table, name, f"[0-9]{{{digits}}}", f"{digits} digits", may_be_empty=False)
    states = blocks.str.slice(0, 2).unique().to_list()
    table = table.filtered(table.rows["STATEFP"].is_in(states))
    if table.rows.is_empty():
        raise GeographyError(
            f"{path}: got no county of the imported States ({', '.join(sorted(states))}); wanted a list with their "
            "counties. Use the list of the country, or leave it out where these States have no such area.",
            code="census-file",
        )
    counties = table.rows.select(pl.concat_str("STATEFP", "COUNTYFP").alias("county"), CBSA)
    _refuse_repeated_areas(table, counties["county"], ("STATEFP", "COUNTYFP"))
    lost = (~counties["county"].is_in(blocks.str.slice(0, 5).unique().to_list())).arg_true()
    if len(lost):
        raise table.error(
            lost[0],
            f"county '{counties['county'][lost[0]]}', in which there is no block ({len(lost)} rows have such counties)",
            "counties of the blocks",
            "Use the list that was in force in the year of the blocks: that of 2020 for blocks of 2020.",
            code="census-file",
        )
    return table, counties


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
    _refuse_repeated_areas(table, names["area"], kind.keys)
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


def _refuse_repeated_areas(table: SourceTable, areas: pl.Series, keys: Sequence[str]) -> None:
    again = (~areas.is_first_distinct()).arg_true()
    if len(again):
        raise table.error(
            again[0],
            f"{', '.join(keys)} '{areas[again[0]]}' a second time",
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


COMMAND: Final = "geography import"
TAGS: Final = {"source": "census"}


def write_imported(imported: Imported, folder: Path) -> dict[str, Path]:
    """Write the tables and the report; until all are written, the folder is marked as unfinished.

    The files of an earlier import are removed before the first new one is written, because tables of two imports are of
    different blocks.

    Args:
        imported: The geography.
        folder: A new or empty folder, or one that an import wrote to before. It is made if it does not exist.

    Returns:
        Paths by name: geography, entities, facilities (if there are any), import.json and import.txt.

    Raises:
        StoreError: the folder holds other files or one of the inputs, another process writes it, or a file cannot be
            written.
    """
    # Before anything is removed: an input in the same folder would be lost.
    refuse_inputs(folder, imported.inputs)
    tables = {
        "geography": imported.geography,
        "entities": imported.entities,
        "facilities": imported.facilities,
    }
    paths = {name: folder / f"{name}.parquet" for name in tables}
    paths |= {"import.json": folder / "import.json", "import.txt": folder / "import.txt"}
    with own_folder(folder, COMMAND):
        # All old files go before the first new one: tables of two imports would fit each other in form, and in nothing
        # else.
        for path in paths.values():
            remove(path)
        for name, table in tables.items():
            if table is None:
                del paths[name]
            else:
                write_parquet(paths[name], table, TAGS)
        write_text(paths["import.txt"], "\n".join(report_lines(imported.report)) + "\n")
        # The JSON is written last: a folder with it has everything else.
        write_json(paths["import.json"], imported.report)
    return paths


def report_lines(report: dict[str, Any]) -> Iterator[str]:
    """The report as lines of text that are safe to print."""
    for line in _lines(report):
        yield shown(line)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"Blocks: {report['blocks']:,}. States: {len(report['states'])}."
    yield "\nFiles"
    for source_file in report["files"]:
        yield f"  {source_file['path']}: {source_file['what']}, {source_file['rows']:,} rows"
    yield "\nStates, and the rule for each"
    for state in report["states"]:
        yield from _state_lines(state)
    yield "\nTribal areas"
    yield from (_tribal_line(area) for area in report["tribal_areas"])
    if not report["tribal_areas"]:
        yield "  none"
    yield "\nFamilies of the entity table"
    for name, counts in report["families"].items():
        yield f"  {name}: {counts['entities']:,} entities, {counts['blocks']:,} blocks"
    yield "\nWhat did not fit"
    yield from (f"  {misfit}" for misfit in report["misfits"] or ["nothing"])


def _state_lines(state: dict[str, Any]) -> Iterator[str]:
    yield (
        f"  {state['state']} {state['name']}, from {state['source']}. Counties: {state['counties']:,}; "
        f"tracts: {state['tracts']:,}; block groups: {state['block_groups']:,}; blocks: {state['blocks']:,}."
    )
    yield f"    Rule: {state['rule']}."
    yield (
        f"    Minor civil divisions: {state['county_subdivisions']:,} with {state['blocks_in_county_subdivisions']:,} "
        f"blocks; places: {state['places']:,} with {state['blocks_in_places']:,}; blocks in neither: "
        f"{state['blocks_in_neither']:,}."
    )
    branch = "divide the State" if state["is_divided_by_tribal_branch"] else "do not divide the State"
    yield (
        f"    Tribal areas of the spine: {state['tribal_areas']:,} with {state['blocks_in_tribal_areas']:,} blocks; "
        f"they {branch}."
    )


def _tribal_line(area: dict[str, Any]) -> str:
    parts = "".join(f"; component {kind}: {number:,}" for kind, number in area["components"].items())
    use = "in the spine" if area["in_spine"] else "not in the spine"
    return (
        f"  {area['code']}, {area['class']}, {use}. States: {', '.join(area['states'])}; "
        f"counties: {area['counties']:,}; block groups: {area['block_groups']:,}; blocks: {area['blocks']:,}{parts}."
    )
