"""Geometry of the finest geounits: polygons or points, so that a release can be shown on a map."""

from tallyveil.geography.geometry.extra import require_maps
from tallyveil.geography.geometry.fitted import with_geometry
from tallyveil.geography.geometry.geometry import Geometry, geometry_warnings
from tallyveil.geography.geometry.read import StoredShapes, read_shapes

__all__ = ["Geometry", "StoredShapes", "geometry_warnings", "read_shapes", "require_maps", "with_geometry"]
