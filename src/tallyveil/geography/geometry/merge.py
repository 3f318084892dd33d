"""Shapes of areas from those of the finest geounits that they consist of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers


def merged(shapes: NDArray[Any], offsets: Integers, members: Integers, *, shared: bool) -> NDArray[Any]:
    """The shape of every area; None for an area without geometry; shape (n_areas,).

    Args:
        shapes: shapely shape of every finest geounit; None without geometry.
        offsets: Area `i` consists of `members[offsets[i]:offsets[i + 1]]`; shape (n_areas + 1,).
        members: Rows of finest geounits.
        shared: Whether neighbours share their borders exactly. Then these are left out; otherwise shapes are overlaid,
            which is slower, and bears gaps and overlaps.
    """
    import shapely

    merge = shapely.coverage_union_all if shared else shapely.union_all
    known = ~shapely.is_missing(shapes)
    merged_shapes: NDArray[Any] = np.full(len(offsets) - 1, None, dtype=object)
    # Most areas of a fine geolevel are one geounit: these are copied, without a call for each.
    alone = np.diff(offsets) == 1
    merged_shapes[alone] = shapes[members[offsets[:-1][alone]]]
    for area in np.flatnonzero(~alone):
        area_members = members[offsets[area] : offsets[area + 1]]
        # A union with None is an error in shapely, and a geounit without a shape leaves the rest of its area.
        area_members = area_members[known[area_members]]
        if len(area_members):
            merged_shapes[area] = merge(shapes[area_members])
    return merged_shapes
