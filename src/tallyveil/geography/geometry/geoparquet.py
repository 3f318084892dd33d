"""The metadata that makes a Parquet file a GeoParquet 1.1 file."""

import json
from collections.abc import Sequence
from typing import Final

GEO: Final = "geo"
"""Name of the metadata."""
COLUMN: Final = "geometry"
"""Name of the column of shapes in the files that are written."""
POINTS: Final = ("Point",)
POLYGONS: Final = ("Polygon", "MultiPolygon")


def geo_metadata(kinds: Sequence[str]) -> dict[str, str]:
    """The metadata of a file with one column of shapes, as well-known binary in longitude and latitude.

    A file without the key `crs` is in OGC:CRS84.

    Args:
        kinds: Types of shapes in the column, `POINTS` or `POLYGONS`.
    """
    column = {"encoding": "WKB", "geometry_types": list(kinds)}
    return {GEO: json.dumps({"version": "1.1.0", "primary_column": COLUMN, "columns": {COLUMN: column}})}
