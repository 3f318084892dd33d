"""The finest geounits of a geounit or an entity that somebody asks for by its code or by its name."""

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.exact import as_given
from tallyveil.geography.areas import Hierarchies
from tallyveil.printable import is_one_line
from tallyveil.schema.names import closest_hint


def finest_geocodes(hierarchies: Hierarchies, asked: str, geolevel: str | None) -> pl.Series:
    """Geocodes of the finest geounits of an area.

    Args:
        hierarchies: The spine of the release, and its areas off the spine.
        asked: Geocode of a geounit, name of an entity, or else a name in the release's table of names.
        geolevel: Its geolevel, or its family of entities; None if only one of these has it.
    Raises:
        GeographyError: no area has this code or name, or several have it.
    """
    kind, code = _only_area(hierarchies, asked, geolevel)
    members = _members(hierarchies, kind, code)
    return hierarchies.spine.geocodes[-1].text.gather(members).cast(pl.String).alias("geocode")


def areas_asked(hierarchies: Hierarchies, asked: str, geolevel: str | None = None) -> list[tuple[str, str]]:
    """Geolevel or family, and code, of every area with a code; of those with a name, if there is no such code.

    Args:
        hierarchies: The spine of the release, and its areas off the spine.
        asked: The code or the name.
        geolevel: The geolevel or the family; None for all.
    Raises:
        GeographyError: there is none.
    """
    if not isinstance(asked, str) or not is_one_line(asked):
        raise GeographyError(f"an area is {as_given(asked)}, wanted a geocode as text, such as '44007'.")
    spine = hierarchies.spine
    kinds = [
        spine.geolevels[level] for level in hierarchies.known_levels if spine.locate(level, [asked])[0] >= 0
    ]
    kinds += [area.name for area in (*hierarchies.replaced, *hierarchies.families) if asked in area.codes]
    areas = [(kind, asked) for kind in kinds] or _areas_named(hierarchies, asked)
    areas = [(kind, code) for kind, code in areas if geolevel in (None, kind)]
    if not areas:
        raise GeographyError(
            f"no geounit or entity of the release has the code or the name {asked!r}"
            f"{'' if geolevel is None else f' in {geolevel!r}'}. {_hint(hierarchies, asked)}"
        )
    return areas


def _only_area(hierarchies: Hierarchies, asked: str, geolevel: str | None) -> tuple[str, str]:
    areas = areas_asked(hierarchies, asked, geolevel)
    if len(areas) == 1:
        return areas[0]
    kinds, codes = [list(dict.fromkeys(column)) for column in zip(*areas, strict=True)]
    if codes == [asked]:
        raise GeographyError(
            f"{asked!r} is a code in {' and in '.join(kinds)}. Say which is meant: geolevel={kinds[0]!r}."
        )
    raise GeographyError(
        f"{len(areas):,} areas have the name {asked!r}: "
        f"{', '.join(f'{code} in {kind}' for kind, code in areas[:_SHOWN])}{', ...' * (len(areas) > _SHOWN)}. Give the "
        "code of the one that is meant, and its geolevel."
    )


_SHOWN = 5
"""Areas of one name that a message shows."""


def _areas_named(hierarchies: Hierarchies, name: str) -> list[tuple[str, str]]:
    if hierarchies.names is None:
        return []
    rows = hierarchies.names.filter(pl.col("name").cast(pl.String) == name).select("geolevel", "geocode")
    return [(str(kind), str(code)) for kind, code in rows.iter_rows()]


def _hint(hierarchies: Hierarchies, asked: str) -> str:
    wanted = "Give a geocode as text, such as '44007', and a geolevel or family of the release, or none."
    if hierarchies.names is None:
        return f"{wanted} The release has no names of areas."
    names = hierarchies.names["name"].cast(pl.String)
    near = names.filter(names.str.to_lowercase().str.starts_with(asked[:3].lower())).unique().sort().to_list()
    close = closest_hint(asked, near)
    return f"{close} {wanted}" if close.startswith("Did you mean") else wanted


def _members(hierarchies: Hierarchies, kind: str, code: str) -> Integers:
    """Rows of the finest geounits of one area."""
    spine = hierarchies.spine
    for level in hierarchies.known_levels:
        if spine.geolevels[level] == kind:
            (geounit,) = spine.locate(level, [code])
            begin, end = spine.finest_offsets(level)[geounit : geounit + 2]
            return np.arange(begin, end, dtype=np.int64)
    family = next(area for area in (*hierarchies.replaced, *hierarchies.families) if area.name == kind)
    return family.members_of(family.index(code))
