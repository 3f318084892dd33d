"""One Mapbox vector tile: its areas, cut and encoded."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.explore.maps.zooms import EXTENT

LAYER: Final = "areas"
BUFFER: Final = 64
"""Units by which the content of a tile reaches beyond its sides, so that lines do not end there."""
_POLYGON, _MULTIPOLYGON = 3, 6
_OPTIONS: Final = {"extents": EXTENT, "y_coord_down": True, "check_winding_order": False}


def cut(shapes: NDArray[Any], rows: Integers, x: int, y: int) -> tuple[NDArray[Any], Integers]:
    """The parts of shapes in a tile and its buffer, in units from its north-west corner, and the rows of those left.

    Args:
        shapes: Polygons in units from the corner of the world.
        rows: Row of each shape in its kind.
        x, y: The tile.
    """
    import shapely

    west, north = x * EXTENT, y * EXTENT
    box = (west - BUFFER, north - BUFFER, west + EXTENT + BUFFER, north + EXTENT + BUFFER)
    bounds = shapely.bounds(shapes)
    outside = (bounds[:, :2] < box[:2]).any(axis=1) | (bounds[:, 2:] > box[2:]).any(axis=1)
    pieces = shapes.copy()
    pieces[outside] = shapely.clip_by_rect(shapes[outside], *box)
    areal = np.isin(shapely.get_type_id(pieces), (_POLYGON, _MULTIPOLYGON)) & ~shapely.is_empty(pieces)
    # The rule of tiles for outer rings, a positive area where y grows downwards, is counter-clockwise to shapely.
    oriented = shapely.orient_polygons(pieces[areal], exterior_cw=False)
    return shapely.transform(oriented, lambda points: np.rint(points - (west, north))), rows[areal]


def encoded(shapes: NDArray[Any], rows: Integers) -> bytes:
    """A tile with one layer of polygons. The id of a feature is its row; there are no properties."""
    import mapbox_vector_tile

    features = [{"geometry": shape, "id": row} for shape, row in zip(shapes, rows.tolist(), strict=True)]
    tile: bytes = mapbox_vector_tile.encode([{"name": LAYER, "features": features}], default_options=_OPTIONS)
    return tile


def rows_in(tile: bytes) -> Integers:
    """The rows of the areas in a tile."""
    from mapbox_vector_tile.Mapbox import vector_tile_pb2

    read = vector_tile_pb2.tile()
    read.ParseFromString(tile)
    return np.array([feature.id for layer in read.layers for feature in layer.features], dtype=np.int64)
