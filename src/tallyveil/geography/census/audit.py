"""What an import read, which rule it applied to each State, and what did not fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from tallyveil.geography.census.assignment_files import COMPONENT, StateBlocks
from tallyveil.geography.census.codes import BY_KIND
from tallyveil.geography.census.source_files import SourceTable
from tallyveil.geography.census.states import STATES, STRONG_MCD_STATES, uses_subdivisions
from tallyveil.geography.census.tribal_classes import class_of
from tallyveil.storage.write import file_digest

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
