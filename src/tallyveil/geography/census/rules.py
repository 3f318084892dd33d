"""The rules that make families of entities from the codes of blocks.

A spine brings some areas nearer: tribal areas, and in each State either its minor civil divisions or its places. The
columns of these rules (`tribal_area`, `county_subdivision`, `place`, ...) have the names that the spine presets need.
The `published_` columns beside them hold all areas as they are tabulated.
"""

from typing import Final

import polars as pl

from tallyveil.geography.census.codes import CODES, SCHOOL_COLUMNS
from tallyveil.geography.census.states import PUERTO_RICO, STRONG_MCD_STATES
from tallyveil.geography.census.tribal_classes import class_of

GOVERNS: Final = ("A", "B", "C")
"""Functional statuses of county subdivisions that make their county one of minor civil divisions."""
GOVERNED_PLACE: Final = ("A", "B", "F")
"""Functional statuses of the places that are primitives."""
PLACES_BESIDE: Final = ("2236255", "1150000", "1571550", "2071450")
"""Places that are primitives, whatever their status. Source: the released code of the 2020 spines."""
NO_CODE: Final = "99999"

STATE, COUNTY = pl.col("geocode").str.slice(0, 2), pl.col("geocode").str.slice(0, 5)
HIERARCHY: Final = {"state": 2, "county": 5, "tract": 11, "block_group": 12}


def geography_of(blocks: pl.DataFrame) -> pl.DataFrame:
    """The geography table: every block with its State, county, tract and tabulation block group.

    The tabulation block group is the first digit of the block number.
    """
    return blocks.select(
        "geocode", *(pl.col("geocode").str.slice(0, length).alias(name) for name, length in HIERARCHY.items())
    )


def entities_of(blocks: pl.DataFrame) -> pl.DataFrame:
    """The entity table: for every block, its entity in every family; null for none.

    Args:
        blocks: Columns geocode and those of `CODES`, as the files give them. All families are made whose codes are
            there.
    """
    published = blocks.select("geocode", *_published(blocks))
    tribal = _tribal_areas(published)
    # In these States minor civil divisions govern; in the others, and inside tribal areas, places are brought nearer.
    subdivisions = STATE.is_in(STRONG_MCD_STATES)
    by_subdivision = subdivisions & pl.col("tribal_area").is_null()
    entities = published.with_columns(tribal).with_columns(
        pl.when(by_subdivision).then(pl.col("published_county_subdivision")).alias("county_subdivision"),
        pl.when(~by_subdivision).then(pl.col("published_place")).alias("place"),
    )
    entities = entities.with_columns(*_school_district(entities), *_prim(blocks))
    first = ["geocode", "tribal_area", "county_subdivision", "place"]
    rest = [name for name in entities.columns if name not in first]
    return entities.select(
        # The families that presets name come first, those that are only tabulated last; otherwise the order stays.
        *first,
        *sorted(rest, key=lambda name: (name.startswith("published_"), rest.index(name))),
    )


def _published(blocks: pl.DataFrame) -> list[pl.Expr]:
    """Names of the entities of all codes, unique in the country."""
    families = []
    for code in CODES:
        if code.family is None:
            continue
        if code.column not in blocks.columns:
            # A published family without its file is an empty column, so that presets find the name; others are absent.
            if code.family.startswith("published_"):
                families.append(pl.lit(None, dtype=pl.String).alias(code.family))
            continue
        code_text = pl.when(~pl.col(code.column).is_in(code.none)).then(pl.col(code.column))
        # The digits before the code make it unique in the country: two States may use the same code.
        families.append((pl.col("geocode").str.slice(0, code.prefix) + code_text).alias(code.family))
    return families


def _tribal_areas(published: pl.DataFrame) -> pl.Expr:
    """The tribal areas for which the spine has a branch."""
    codes = published["published_tribal_area"].drop_nulls().unique().to_list()
    chosen = [code for code in codes if (area_class := class_of(code)) is not None and area_class.in_spine]
    column = pl.col("published_tribal_area")
    return pl.when(column.is_in(chosen)).then(column).alias("tribal_area")


def _school_district(entities: pl.DataFrame) -> list[pl.Expr]:
    """The combination of a block's school districts, so that one disjoint family tells all of them apart."""
    families = [
        code.family for code in CODES if code.column in SCHOOL_COLUMNS and code.family in entities.columns
    ]
    if not families:
        return []
    # One entity a block: two kinds of districts may overlap, and their combination may not.
    joined = pl.concat_str(families, separator="+", ignore_nulls=True)
    return [pl.when(joined != "").then(joined).alias("school_district")]


def _prim(blocks: pl.DataFrame) -> list[pl.Series]:
    """The primitive: minor civil division and governed place, within the county. Null is the rest of the county.

    Source: `create_prims` of the released code of the 2020 spines; Cumings-Menon et al. 2023, section 6.
    """
    if not {"COUSUBFS", "PLACEFS"} <= set(blocks.columns):
        return []
    # One subdivision with a government is enough to make its whole county one of minor civil divisions.
    governs = pl.col("COUSUBFS").is_in(GOVERNS).fill_null(False).max().over(COUNTY)
    governed = pl.col("PLACEFS").is_in(GOVERNED_PLACE) | (STATE + pl.col("PLACEFP")).is_in(PLACES_BESIDE)
    mcd = pl.when(governs).then(pl.col("COUSUBFP")).fill_null(NO_CODE)
    place = pl.when(governed.fill_null(False)).then(pl.col("PLACEFP")).fill_null(NO_CODE)
    # Blocks in neither are the rest of their county, which is null. Puerto Rico has no primitives.
    divided = (STATE != PUERTO_RICO) & ~((mcd == NO_CODE) & (place == NO_CODE))
    return [blocks.select(pl.when(divided).then(COUNTY + mcd + place).alias("prim"))["prim"]]
