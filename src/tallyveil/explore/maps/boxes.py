"""Bounding boxes of areas, in degrees."""

from tallyveil.arrays import Floats
from tallyveil.explore.maps.areas import AreasOfKind
from tallyveil.explore.maps.shapes import FinestShapes


def bounding_boxes(finest: FinestShapes, areas: AreasOfKind) -> Floats:
    """West, south, east and north of every area, in degrees; NaN for an area without geometry; shape (n_areas, 4)."""
    raise NotImplementedError
