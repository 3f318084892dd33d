"""Bounding boxes of areas, in degrees."""

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.explore.maps.areas import AreasOfKind
from tallyveil.explore.maps.shapes import FinestShapes


def bounding_boxes(finest: FinestShapes, areas: AreasOfKind) -> Floats:
    """West, south, east and north of every area, in degrees; NaN for an area without geometry; shape (n_areas, 4).

    Where geometry is points, a box holds the points and not the cells around them.
    """
    starts, boxes = areas.offsets[:-1], finest.boxes[areas.members]
    corners = np.empty((areas.n_areas, 4))
    for side in (0, 1):
        corners[:, side] = np.fmin.reduceat(boxes[:, side], starts)
    for side in (2, 3):
        corners[:, side] = np.fmax.reduceat(boxes[:, side], starts)
    return corners
