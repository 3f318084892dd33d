"""Longitude and latitude on the plane of a web map (Web Mercator).

The world is the unit square. Its north-west corner is (0, 0), so that y grows to the south as in tiles.
"""

from typing import Final

import numpy as np

from tallyveil.arrays import Floats

GREATEST_LATITUDE: Final = 85.051128
"""Latitude of the square's edges. What lies nearer to a pole is drawn there."""


def on_plane(coordinates: Floats) -> Floats:
    """Points of the plane, from longitudes and latitudes; shape (n, 2)."""
    latitude = np.radians(np.clip(coordinates[:, 1], -GREATEST_LATITUDE, GREATEST_LATITUDE))
    return np.column_stack([coordinates[:, 0] / 360 + 0.5, 0.5 - np.arcsinh(np.tan(latitude)) / (2 * np.pi)])


def in_degrees(points: Floats) -> Floats:
    """Longitudes and latitudes of points of the plane; shape (n, 2)."""
    latitude = np.degrees(np.arctan(np.sinh((0.5 - points[:, 1]) * 2 * np.pi)))
    return np.column_stack([(points[:, 0] - 0.5) * 360, latitude])
