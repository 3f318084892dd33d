"""Shapes of areas: of the release's polygons, or cells around points where only these are known.

A cell is the part of the plane that is nearer to its point than to any other (a Voronoi cell), within a hull around all
points. So cells are no borders; they only show which points are neighbours.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.explore.maps.plane import on_plane
from tallyveil.files.geography import GEOMETRY, read_geometry
from tallyveil.geography.geometry import Geometry, require_maps
from tallyveil.geography.spine import Spine
from tallyveil.storage.json_files import damaged

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
    # Two points at one place would have one Voronoi cell between them, and one geounit no shape.
    places = _moved_apart(shapely.get_coordinates(points[known]))
    hull = _hull(places)
    polygons = shapely.get_parts(
        shapely.voronoi_polygons(shapely.multipoints(places), extend_to=hull, ordered=True)
        if len(places) > 1
        else shapely.geometrycollections([hull])
    )
    shapely.prepare(hull)
    # Only cells at the rim are cut: most lie inside, and a prepared test is cheaper than a cut.
    cut = ~shapely.contains_properly(hull, polygons)
    polygons[cut] = shapely.intersection(polygons[cut], hull)
    cells[known] = polygons
    return cells


def _moved_apart(places: Floats) -> Floats:
    """The points, where those at one place are moved to the east, each a little further than the one before."""
    # Sorted by both coordinates, so that equal points stand side by side.
    order: Integers = np.lexsort((places[:, 1], places[:, 0]))
    ordered = places[order]
    begins = np.concatenate([[True], (np.diff(ordered, axis=0) != 0).any(axis=1)])
    starts = np.flatnonzero(begins)
    # Place in its run of equal points: 0 for the first, which stays where it is.
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


@dataclass(frozen=True, slots=True, eq=False)
class FinestShapes:
    """The shape of every finest geounit, in the order of a spine.

    Attributes:
        shapes: shapely polygons of the plane; None without geometry. Shape (n_finest,).
        boxes: West, south, east, north in degrees; NaN without geometry. Shape (n_finest, 4).
        made_from: What `geometry.parquet` holds. Cells around points are made where it holds points.
        shared: Whether neighbours share their borders exactly, so that they are merged and simplified together.
    """

    shapes: NDArray[Any]
    boxes: Floats
    made_from: Literal["polygons", "points"]
    shared: bool

    @property
    def known(self) -> Bools:
        """Whether each finest geounit has a shape; shape (n_finest,)."""
        import shapely

        known: Bools = ~shapely.is_missing(self.shapes)
        return known

    def reordered(self, rows: Integers) -> "FinestShapes":
        """The same shapes in another order.

        Args:
            rows: For each finest geounit of another spine, its present row; shape (n_finest,).
        """
        return replace(self, shapes=self.shapes[rows], boxes=self.boxes[rows])


def read_finest_shapes(root: Path, spine: Spine) -> FinestShapes | None:
    """The shapes of a finished release, in the order of its spine; None if it has no `geometry.parquet`.

    Args:
        root: Release folder.
        spine: The spine that was measured (`release.geography.read_geography`).
    Raises:
        ConfigError: the extra `maps` is not installed.
        StoreError: the file is damaged.
    """
    if not (root / GEOMETRY).is_file():
        return None
    require_maps(f"{GEOMETRY} of {root}")
    geometry = read_geometry(root, spine)
    assert geometry is not None
    shapes = finest_shapes(geometry)
    if shapes is None:
        raise damaged(
            root / GEOMETRY, "the column `geometry`", "Restore the file from a copy of the release."
        )
    return shapes


def finest_shapes(geometry: Geometry) -> FinestShapes | None:
    """The shapes on the plane; None if they cannot be read. The extra `maps` must be there."""
    import shapely

    stored = np.array(geometry.wkb.to_list(), dtype=object)
    degrees = shapely.from_wkb(stored, on_invalid="ignore")
    # on_invalid gives None for bytes that are no shape; one that was not null is damage.
    if not np.array_equal(shapely.is_missing(degrees), geometry.wkb.is_null().to_numpy()):
        return None
    shapes = shapely.transform(degrees, on_plane)
    if geometry.points:
        return FinestShapes(cells_around(shapes), shapely.bounds(degrees), "points", shared=True)
    shared = bool(shapely.coverage_is_valid(shapes[~shapely.is_missing(shapes)]))
    return FinestShapes(shapes, shapely.bounds(degrees), "polygons", shared)
