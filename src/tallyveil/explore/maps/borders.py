"""Shapes of areas from those of finest geounits: merged, and simplified without tearing shared borders."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.explore.maps.areas import AreasOfKind
from tallyveil.explore.maps.shapes import FinestShapes


def merged(finest: FinestShapes, areas: AreasOfKind) -> NDArray[Any]:
    """The shape of every area; None for an area without geometry; shape (n_areas,).

    Where finest geounits share their borders exactly, these are left out; otherwise shapes are overlaid, which is
    slower and bears gaps and overlaps.
    """
    import shapely

    merge = shapely.coverage_union_all if finest.shared else shapely.union_all
    members, known = areas.members, finest.known
    found: NDArray[Any] = np.full(areas.n_areas, None, dtype=object)
    sizes = np.diff(areas.offsets)
    alone = sizes == 1
    found[alone] = finest.shapes[members[areas.offsets[:-1][alone]]]
    for area in np.flatnonzero(~alone):
        own = members[areas.offsets[area] : areas.offsets[area + 1]]
        own = own[known[own]]
        if len(own):
            found[area] = merge(finest.shapes[own])
    return found


def simplified(shapes: NDArray[Any], tolerance: float, *, shared: bool) -> NDArray[Any]:
    """Shapes with fewer corners.

    Args:
        shapes: Polygons of the plane, without None.
        tolerance: About the width of the details that are left out.
        shared: Whether no two shapes overlap and neighbours share their borders exactly. Then they still do.
    """
    import shapely

    found: NDArray[Any] = (
        shapely.coverage_simplify(shapes, tolerance)
        if shared
        else shapely.simplify(shapes, tolerance, preserve_topology=True)
    )
    return found
