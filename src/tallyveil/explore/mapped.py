"""The map of a site: bounding boxes of every area, and tiles of every kind, where the release has geometry."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.arrays import Floats
from tallyveil.explore.kinds import Areas
from tallyveil.explore.maps import (
    AreasOfKind,
    areas_of_family,
    areas_of_geolevel,
    bounding_boxes,
    read_finest_shapes,
    write_tiles,
)
from tallyveil.storage.json_files import JsonObject

NO_MAP: Final = (
    "The release has no geometry, so there is no map. The office that makes it can name a file of polygons or points "
    "as `geometry` in the table [geography] of its release file."
)
NO_SHAPES: Final = "The geometry of the release has no shape for any area, so there is no map."


@dataclass(frozen=True, slots=True, eq=False)
class MapParts:
    """What is known of the places of areas.

    Attributes:
        entry: What `site.json` says of the map; None without one.
        why: Why there is none; None if there is one.
        boxes: Bounding boxes of the areas of every kind; empty without a map.
    """

    entry: JsonObject | None
    why: str | None
    boxes: dict[int, Floats]


def write_map(site: Path, root: Path, areas: Areas) -> MapParts:
    """Write the tiles of every kind of area.

    Args:
        site: Folder of the site.
        root: Folder of the release.
        areas: Its areas.
    Raises:
        ConfigError: the release has geometry, and the extra `maps` is not installed.
        StoreError: the geometry was damaged, or a tile cannot be written.
    """
    stored = read_finest_shapes(root, areas.spine)
    if stored is None:
        return MapParts(None, NO_MAP, {})
    finest = stored.reordered(areas.measured)
    if not finest.known.any():
        return MapParts(None, NO_SHAPES, {})
    kinds = _kinds(areas)
    boxes = {kind.number: bounding_boxes(finest, kind) for kind in kinds}
    return MapParts(write_tiles(finest, kinds, site), None, boxes)


def _kinds(areas: Areas) -> list[AreasOfKind]:
    return [
        areas_of_geolevel(areas.tree, number, number)
        if kind.family is None
        else areas_of_family(kind.family, number)
        for number, kind in enumerate(areas.kinds)
    ]
