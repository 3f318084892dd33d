"""Mapbox vector tiles of every kind of area: `data/tiles/<kind>/<z>/<x>/<y>.pbf`."""

from collections.abc import Sequence
from pathlib import Path

from tallyveil.explore.maps.areas import AreasOfKind
from tallyveil.explore.maps.shapes import FinestShapes
from tallyveil.storage.json_files import JsonObject


def write_tiles(finest: FinestShapes, kinds: Sequence[AreasOfKind], out: Path) -> JsonObject:
    """Write the tiles of every kind, and describe them.

    The only layer of a tile is `areas`. The id of a feature is the row of the area in its kind. Features have no
    properties.

    Args:
        finest: The shapes of the finest geounits.
        kinds: The kinds of areas.
        out: Folder of the site. Tiles are written to `data/tiles` in it.
    Returns:
        The entry `map` of `site.json`: `bounds` (west, south, east, north), `tiles` (`kind`, `minzoom`, `maxzoom` of
        every kind that has tiles) and `made_from`.
    """
    raise NotImplementedError
