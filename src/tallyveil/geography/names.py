"""Names of geounits and entities, for people who read a release. No count depends on them."""

from dataclasses import replace
from typing import Final

import polars as pl

from tallyveil.errors import GeographyError
from tallyveil.geography.areas import Hierarchies

NAME_COLUMNS: Final = ("geolevel", "geocode", "name")


def with_names(hierarchies: Hierarchies, table: pl.DataFrame) -> Hierarchies:
    """Hierarchies with names of their geounits and entities, and of no others.

    Args:
        hierarchies: The spine and the areas beside it.
        table: Text columns `NAME_COLUMNS`; `geolevel` may be the name of a family of entities.
    Raises:
        GeographyError: a row lacks a text, an area has two names, a geolevel does not exist, or no area is named.
    """
    codes = _codes(hierarchies)
    unknown = table["geolevel"].drop_nulls().unique().sort().to_list()
    # A column of names may hold nulls; these are counted as lacking below, and sorting them with text would fail.
    unknown = [name for name in unknown if name not in codes]
    lacking = sum(table.null_count().row(0)) or (table["name"] == "").any()
    # A pair of geolevel and geocode may stand once: of two names of an area, either could be the wrong one.
    if unknown or lacking or not table.select("geolevel", "geocode").is_unique().all():
        what = (
            f"names the geolevel '{unknown[0]}'"
            if unknown
            else "has a row without text, or two names of one area"
        )
        raise GeographyError(
            f"the table of names {what}. Wanted: at most one row for each geounit or entity, with geolevel, geocode "
            f"and name. The geolevels and families of this release are {', '.join(codes)}.",
            code="geounit-names",
        )
    # Rows of other areas are dropped without a word: a table of names is often that of the whole country.
    parts = [
        table.filter(pl.col("geolevel") == name, pl.col("geocode").is_in(area_codes.implode()))
        for name, area_codes in codes.items()
    ]
    named = pl.concat(parts).select(NAME_COLUMNS)
    if named.is_empty():
        raise GeographyError(
            f"none of the {table.height:,} rows of the table of names has the code of a geounit or entity of this "
            "release, so that it names nothing. Use codes of the same geography, with their leading zeros.",
            code="geounit-names",
        )
    return replace(hierarchies, names=named)


def _codes(hierarchies: Hierarchies) -> dict[str, pl.Series]:
    """The codes of all geounits and entities that counts may be published of, by geolevel or family."""
    spine, areas = hierarchies.spine, (*hierarchies.replaced, *hierarchies.families)
    return {
        **{spine.geolevels[level]: spine.geocodes[level].text for level in hierarchies.known_levels},
        **{area.name: pl.Series(area.codes, dtype=pl.String) for area in areas},
    }
