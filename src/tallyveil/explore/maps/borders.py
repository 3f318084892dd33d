"""Shapes of areas with fewer corners, without tearing shared borders."""

from typing import Any

from numpy.typing import NDArray


def simplified(shapes: NDArray[Any], tolerance: float, *, shared: bool) -> NDArray[Any]:
    """Shapes with fewer corners.

    Args:
        shapes: Polygons of the plane, without None.
        tolerance: About the width of the details that are left out.
        shared: Whether no two shapes overlap and neighbours share their borders exactly. Then they still do.
    """
    import shapely

    shapes_there: NDArray[Any] = (
        shapely.coverage_simplify(shapes, tolerance)
        if shared
        else shapely.simplify(shapes, tolerance, preserve_topology=True)
    )
    return shapes_there
