"""Shapes of the finest geounits of a release, on the plane of the map (Web Mercator)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class FinestShapes:
    """The shape of every finest geounit, in the order of the spine that is measured.

    Attributes:
        shapes: shapely polygons on the unit square of Web Mercator (0, 0 is the north-west corner); None without
            geometry. Shape (n_finest,).
        boxes: West, south, east, north in degrees; NaN without geometry. Shape (n_finest, 4).
        made_from: What `geometry.parquet` holds. Cells around points are made where it holds points.
        shared: Whether neighbours share their borders exactly, so that borders are simplified together.
    """

    shapes: NDArray[Any]
    boxes: Floats
    made_from: Literal["polygons", "points"]
    shared: bool

    @property
    def known(self) -> Bools:
        """Whether each finest geounit has a shape."""
        raise NotImplementedError


def read_finest_shapes(root: Path) -> FinestShapes | None:
    """The shapes of a finished release; None if it has no `geometry.parquet`.

    Raises:
        ConfigError: the extra `maps` is not installed (`maps-extra`).
        StoreError: the file is damaged.
    """
    raise NotImplementedError
