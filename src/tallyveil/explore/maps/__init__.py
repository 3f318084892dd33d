"""The map of a release: shapes of its areas, and vector tiles of them. It needs the extra `maps`."""

from tallyveil.explore.maps.areas import AreasOfKind, areas_of_family, areas_of_geolevel
from tallyveil.explore.maps.boxes import bounding_boxes
from tallyveil.explore.maps.shapes import FinestShapes, read_finest_shapes
from tallyveil.explore.maps.tiles import write_tiles

__all__ = [
    "AreasOfKind",
    "FinestShapes",
    "areas_of_family",
    "areas_of_geolevel",
    "bounding_boxes",
    "read_finest_shapes",
    "write_tiles",
]
