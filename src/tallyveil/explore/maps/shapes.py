"""Shapes of the finest geounits of a release, on the plane of the map (`plane`)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.explore.maps.cells import cells_around
from tallyveil.explore.maps.plane import on_plane
from tallyveil.geography.geometry import Geometry, require_maps
from tallyveil.geography.spine import Spine
from tallyveil.release.geometry import GEOMETRY, read_geometry
from tallyveil.storage.json_files import damaged


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
    if not np.array_equal(shapely.is_missing(degrees), geometry.wkb.is_null().to_numpy()):
        return None
    shapes = shapely.transform(degrees, on_plane)
    if geometry.points:
        return FinestShapes(cells_around(shapes), shapely.bounds(degrees), "points", shared=True)
    shared = bool(shapely.coverage_is_valid(shapes[~shapely.is_missing(shapes)]))
    return FinestShapes(shapes, shapely.bounds(degrees), "polygons", shared)
