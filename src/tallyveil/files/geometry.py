"""`geometry.parquet`: the shapes of the finest geounits in a release folder, as GeoParquet 1.1.

Its rows are the finest geounits in the order of the spine. Columns: `geocode`, and `geometry` as well-known binary in
longitude and latitude (OGC:CRS84), null where a geounit has no shape. QGIS, GDAL and geopandas open it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.geography.geometry.geometry import Geometry
from tallyveil.geography.geometry.geoparquet import COLUMN, GEO, POINTS, POLYGONS, geo_metadata
from tallyveil.geography.spine import Spine
from tallyveil.storage.json_files import damaged
from tallyveil.storage.published import published_schema, published_tags, read_published
from tallyveil.storage.write import write_parquet

GEOMETRY: Final = "geometry.parquet"
_COLUMNS: Final = {"geocode": pl.String, COLUMN: pl.Binary}


def write_geometry(root: Path, spine: Spine, geometry: Geometry, metadata: Mapping[str, str]) -> None:
    """Write the shapes of the finest geounits of a release; raises StoreError.

    Args:
        root: Release folder.
        spine: The spine that is measured.
        geometry: Shapes in the order of its finest geounits.
        metadata: Tags of the run.
    """
    frame = pl.DataFrame([spine.geocodes[spine.finest].text.alias("geocode"), geometry.wkb.alias(COLUMN)])
    write_parquet(root / GEOMETRY, frame, metadata, geo_metadata(POINTS if geometry.points else POLYGONS))


def read_geometry(root: Path, spine: Spine) -> Geometry | None:
    """The shapes of a release; None if it has none.

    Args:
        root: Release folder.
        spine: Its spine.
    Raises:
        StoreError: the file is damaged, or is of another geography.
    """
    path = root / GEOMETRY
    if not path.is_file():
        return None
    schema, kinds = published_schema(path), _kinds(path)
    if any(schema.get(name) != kind for name, kind in _COLUMNS.items()) or kinds is None:
        raise damaged(path, "the columns and the metadata `geo`", _RESTORE)
    frame = read_published(path, tuple(_COLUMNS))
    if not frame["geocode"].equals(spine.geocodes[spine.finest].text.alias("geocode")):
        raise damaged(path, "the geocodes of the finest geounits in the order of the spine", _RESTORE)
    return Geometry(frame[COLUMN], points=kinds == POINTS)


def _kinds(path: Path) -> tuple[str, ...] | None:
    """Types of shapes that the file names; None if it names others than a release has."""
    try:
        column = json.loads(published_tags(path)[GEO])["columns"][COLUMN]
        kinds = tuple(column["geometry_types"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return kinds if kinds in (POINTS, POLYGONS) and column.get("encoding") == "WKB" else None


_RESTORE: Final = "Restore the file from a copy of the release."
