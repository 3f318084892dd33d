"""Cells around points: the shape of a finest geounit of which only a point is known.

A cell is the part of the plane that is nearer to its point than to any other (a Voronoi cell), within a hull around all
points. So cells are no borders; they only show which points are neighbours.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats, Integers

_RATIO: Final = 0.05
"""How closely the hull follows the points: 0 as closely as possible, 1 the convex hull."""
_MARGIN: Final = 1.0
"""Distance of the hull from the outermost points, in widths of a cell of average size."""
_APART: Final = 1e-9
"""Distance by which points at the same place are moved apart, in widths of the world (0.04 m at the equator)."""
_FEWEST: Final = 3
"""Number of points from which a hull has an area."""


def cells_around(points: NDArray[Any]) -> NDArray[Any]:
    """The cell of every point; None for a missing point.

    Args:
        points: shapely points of the plane, or None; shape (n,).
    """
    import shapely

    cells: NDArray[Any] = np.full(len(points), None, dtype=object)
    known: Bools = ~shapely.is_missing(points)
    if not known.any():
        return cells
    places = _moved_apart(shapely.get_coordinates(points[known]))
    hull = _hull(places)
    polygons = shapely.get_parts(
        shapely.voronoi_polygons(shapely.multipoints(places), extend_to=hull, ordered=True)
        if len(places) > 1
        else shapely.geometrycollections([hull])
    )
    shapely.prepare(hull)
    cut = ~shapely.contains_properly(hull, polygons)
    polygons[cut] = shapely.intersection(polygons[cut], hull)
    cells[known] = polygons
    return cells


def _moved_apart(places: Floats) -> Floats:
    """The points, where those at one place are moved to the east, each a little further than the one before."""
    order: Integers = np.lexsort((places[:, 1], places[:, 0]))
    ordered = places[order]
    begins = np.concatenate([[True], (np.diff(ordered, axis=0) != 0).any(axis=1)])
    starts = np.flatnonzero(begins)
    rank = np.arange(len(places)) - starts[np.cumsum(begins) - 1]
    moved = places.copy()
    moved[order, 0] += rank * _APART
    return moved


def _hull(places: Floats) -> Any:
    """A polygon around all points."""
    import shapely

    together = shapely.multipoints(places)
    width = _width(places)
    hull = shapely.concave_hull(together, ratio=_RATIO) if len(places) >= _FEWEST else together
    return shapely.buffer(hull, _MARGIN * width, quad_segs=2)


def _width(places: Floats) -> float:
    """Width of a cell of average size; one kilometre at the equator where all points are in one line or place."""
    extent = np.ptp(places, axis=0)
    return float(np.sqrt(extent.prod() / len(places))) or 1 / 40_000
