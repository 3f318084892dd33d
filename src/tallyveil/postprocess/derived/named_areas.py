"""The finest geounits of a geounit or an entity that is named by its code."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.exact import as_given
from tallyveil.geography.areas import Hierarchies
from tallyveil.printable import is_one_line


def finest_geocodes(hierarchies: Hierarchies, code: str, geolevel: str | None) -> pl.Series:
    """Geocodes of the finest geounits of an area.

    Args:
        hierarchies: The spine of the release, and its areas off the spine.
        code: Geocode of a geounit, or name of an entity.
        geolevel: Its geolevel, or its family of entities; None if only one of these has the code.
    Raises:
        GeographyError: nothing has this code, or areas of several geolevels or families have it.
    """
    if not isinstance(code, str) or not is_one_line(code):
        raise GeographyError(f"an area is {as_given(code)}, wanted a geocode as text, such as '44007'.")
    found = {name: members for name, members in _areas_with(hierarchies, code) if geolevel in (None, name)}
    if not found:
        raise GeographyError(
            f"no geounit or entity of the release has the code {code!r}"
            f"{'' if geolevel is None else f' in {geolevel!r}'}. Give a geocode as text, such as '44007', and a "
            "geolevel or family of the release, or none."
        )
    if len(found) > 1:
        raise GeographyError(
            f"{code!r} is a code in {' and in '.join(found)}. Say which is meant: geolevel={next(iter(found))!r}."
        )
    (members,) = found.values()
    return hierarchies.spine.geocodes[-1].text.gather(members).cast(pl.String).alias("geocode")


def _areas_with(hierarchies: Hierarchies, code: str) -> Iterator[tuple[str, Integers]]:
    """Each geolevel or family in which an area has a code, and the area's finest geounits."""
    spine = hierarchies.spine
    for level in hierarchies.known_levels:
        (geounit,) = spine.locate(level, [code])
        if geounit >= 0:
            begin, end = spine.finest_offsets(level)[geounit : geounit + 2]
            yield spine.geolevels[level], np.arange(begin, end, dtype=np.int64)
    for family in (*hierarchies.replaced, *hierarchies.families):
        if code in family.codes:
            yield family.name, family.members_of(family.index(code))
