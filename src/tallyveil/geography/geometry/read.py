"""Read files of geometry: GeoParquet, GeoJSON, shapefile and GeoPackage.

GDAL opens a file by its content, and some of its formats name further files or addresses. So the first bytes of a file
must be those of the format that its name ends in, and GDAL must then have taken it for this format.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import polars as pl

from tallyveil.errors import ConfigError, StoreError
from tallyveil.geography.geometry.geoparquet import GEO
from tallyveil.printable import some_names
from tallyveil.storage.addresses import is_object, shown_path
from tallyveil.storage.inputs import input_size, is_input, open_input
from tallyveil.storage.read import collect, require_text, scan_table, table_metadata

WHAT: Final = "geometry"
MOST_BYTES: Final = 8 << 30
"""Largest file of geometry, and largest size of its shapes when they are unpacked. All shapes are held in memory."""
LONLAT: Final = "OGC:CRS84"
"""Longitude and latitude in degrees: the coordinate reference system of GeoParquet where a file names none."""

_BEGINNINGS: Final = {
    ".geojson": ("GeoJSON", b"{"),
    ".json": ("GeoJSON", b"{"),
    ".shp": ("ESRI Shapefile", (9994).to_bytes(4, "big")),
    ".gpkg": ("GPKG", b"SQLite format 3\x00"),
}
"""For each ending that GDAL reads, its name of the format and the first bytes of such a file."""
# Bytes read to know a format: the longest of the signs below and a .shp's header fields end within 64, and leading
# blanks of a GeoJSON may take the rest. With half as many the signs still fit.
_LONGEST_BEGINNING: Final = 64
_SHAPEFILE_LENGTH: Final = slice(24, 28)
"""Where a .shp states its length, in words of two bytes."""
_SHORTEST_SHAPEFILE: Final = 100
"""Bytes of the header of a .shp."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredShapes:
    """The content of a file of geometry, before it is checked.

    Attributes:
        path: The file.
        geocodes: Geocode of each shape; text.
        wkb: The shapes as well-known binary; null where a row has none.
        crs: Coordinate reference system as the file states it: a name, a text, or PROJJSON. None: not stated.
    """

    path: Path
    geocodes: pl.Series
    wkb: pl.Series
    crs: str | dict[str, Any] | None


def read_shapes(path: Path, geocode: str) -> StoredShapes:
    """Read a file of geometry. The extra `maps` must be there.

    Args:
        path: File ending in `.parquet`, `.geojson`, `.json`, `.shp` or `.gpkg`.
        geocode: Column of the geocode; text.
    Raises:
        StoreError: the file is missing, unreadable or too large.
        ConfigError: a column is missing or is no text, or the file is of another form than wanted.
    """
    if path.suffix.lower() == ".parquet":
        return _read_geoparquet(path, geocode)
    if path.suffix.lower() not in _BEGINNINGS:
        _refuse(path, f"ends in '{path.suffix}'", "wanted .parquet, .geojson, .json, .shp or .gpkg")
    if is_object(path):
        _refuse(
            path,
            "lies in an object store",
            "only GeoParquet is read from there. Copy the file to this machine, or convert it to GeoParquet",
        )
    return _read_by_gdal(path, geocode)


def _read_geoparquet(path: Path, geocode: str) -> StoredShapes:
    scan_table(path, [geocode], WHAT)  # refuses a file that is missing or no Parquet
    column, crs = _geoparquet_column(path)
    frame = scan_table(path, [geocode, column], WHAT)
    require_text(frame, geocode, path, WHAT)
    if frame.collect_schema()[column] != pl.Binary:
        _refuse(path, f"has a column '{column}' that holds no bytes", "wanted well-known binary (WKB)")
    # The sizes alone are read first: the shapes of a file that is too large are never in memory.
    size = collect(frame.select(pl.col(column).bin.size().cast(pl.Int64).sum()), path, WHAT).item()
    _refuse_large(path, size)
    table = collect(frame, path, WHAT)
    return StoredShapes(path, table[geocode].cast(pl.String), table[column], crs)


def _geoparquet_column(path: Path) -> tuple[str, str | dict[str, Any] | None]:
    """The column of the shapes, and its coordinate reference system; raises ConfigError, StoreError."""
    text = table_metadata(path, WHAT).get(GEO, "")
    try:
        geo = json.loads(text)
        column = geo["primary_column"]
        about = geo["columns"][column]
        encoding, crs = about["encoding"], about.get("crs", LONLAT)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        _refuse(
            path,
            "is Parquet without the metadata `geo` of GeoParquet",
            "write it with a program that knows GeoParquet, such as QGIS, GDAL or geopandas",
        )
    if encoding != "WKB" or not isinstance(column, str):
        _refuse(
            path, "stores its shapes in another encoding than WKB", "wanted the encoding WKB of GeoParquet"
        )
    if not (crs is None or crs == LONLAT or isinstance(crs, dict)):
        _refuse(path, "names a coordinate reference system that is not PROJJSON", "see GeoParquet 1.1")
    return column, crs


def _read_by_gdal(path: Path, geocode: str) -> StoredShapes:
    """Read a file of one layer with GDAL; raises ConfigError, StoreError."""
    # Inside the function, because pyogrio belongs to the extra `maps`.
    import pyogrio
    from pyogrio.errors import (
        CRSError,
        DataLayerError,
        DataSourceError,
        FeatureError,
        FieldError,
        GeometryError,
    )

    # Before GDAL sees the file: some of its formats open further files or addresses that the content names.
    driver = _require_beginning(path)
    try:
        layers = pyogrio.list_layers(path.absolute())
        if len(layers) != 1:
            _refuse(
                path, f"has {len(layers)} layers", "wanted one. Write the layer of the finest geounits alone"
            )
        info = pyogrio.read_info(path.absolute())
        # The first bytes fit, but GDAL has decided by itself; its decision must be the same.
        if info["driver"] != driver:
            _refuse(path, f"holds the format {info['driver']}", f"its ending promises {driver}")
        present = list(info["fields"])
        if geocode not in present:
            raise ConfigError(
                f"the geometry file {path} lacks the column '{geocode}' of geocodes. "
                f"{_columns(present)} Name the right one as [geography] geometry_geocode.",
                code="column-missing",
            )
        meta, _, shapes, fields = pyogrio.raw.read(path.absolute(), columns=[geocode], force_2d=True)
    except (
        CRSError,
        DataLayerError,
        DataSourceError,
        FeatureError,
        FieldError,
        GeometryError,
        UnicodeDecodeError,
    ) as error:
        # Without its cause: GDAL's texts may hold content of the file.
        raise _unreadable(path, f"ended with {type(error).__name__}") from None
    if shapes is None:
        _refuse(path, "is a table without shapes", "wanted polygons or points")
    codes = pl.Series(geocode, fields[0]) if fields[0].dtype != np.object_ else _text(fields[0])
    require_text(pl.LazyFrame({geocode: codes}), geocode, path, WHAT)
    return StoredShapes(path, codes, pl.Series(list(shapes), dtype=pl.Binary), meta["crs"])


def _columns(names: list[str]) -> str:
    """What a file has. Its format stores names apart from values, so that no value can be in the place of a name."""
    if not names:
        return "It has no column. A GeoJSON has columns if it has features, a shapefile if its part .dbf is beside it."
    return f"It has: {some_names(names)}."


def _text(values: Any) -> pl.Series:
    """A column of Python objects: text, or what it is."""
    is_text = all(value is None or isinstance(value, str) for value in values)
    return pl.Series(list(values), dtype=pl.String if is_text else pl.Object)


def _require_beginning(path: Path) -> str:
    """GDAL's name of the format that a file's name and its first bytes show; raises ConfigError, StoreError."""
    if not is_input(path, WHAT):
        raise StoreError(
            f"the geometry file {path} {'is no file' if path.exists() else 'does not exist'}. Name a file of "
            "GeoParquet, GeoJSON, a shapefile (.shp) or a GeoPackage. Paths in a TOML file are relative to that file.",
            code="input-missing",
        )
    try:
        size = input_size(path, WHAT)
        _refuse_large(path, size)
        with open_input(path, WHAT) as stream:
            begin = stream.read(_LONGEST_BEGINNING)
    except OSError as error:
        raise _unreadable(path, f"ended with {type(error).__name__}") from None
    driver, wanted = _BEGINNINGS[path.suffix.lower()]
    # A GeoJSON may begin with a byte-order mark and blanks; binary formats may not.
    content = begin.removeprefix(b"\xef\xbb\xbf").lstrip() if driver == "GeoJSON" else begin
    if not content.startswith(wanted):
        _refuse(path, f"does not begin as a file of the format {driver} does", "rename it, or convert it")
    if driver == "ESRI Shapefile":
        _require_whole(path, begin, size)
    return driver


def _require_whole(path: Path, begin: bytes, size: int) -> None:
    """Refuse a .shp that is shorter than it says: GDAL would read what is lacking as rows without a shape."""
    stated = 2 * int.from_bytes(begin[_SHAPEFILE_LENGTH], "big")
    if size < max(stated, _SHORTEST_SHAPEFILE):
        raise _unreadable(path, f"found {size:,} bytes, where its header states {stated:,}")


def _refuse_large(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise StoreError(
            f"the shapes of the geometry file {shown_path(path)} have {size:,} bytes, wanted at most {MOST_BYTES:,}. "
            "Simplify them, for instance with `mapshaper`, which keeps shared borders; or give points.",
            code="geometry-file",
        )


def _refuse(path: Path, what: str, wanted: str) -> NoReturn:
    raise ConfigError(f"the geometry file {shown_path(path)} {what}; {wanted}.", code="geometry-file")


def _unreadable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"reading the geometry file {shown_path(path)} {why}. Check that the file is complete, and that a "
        "shapefile has its parts .shx, .dbf and .prj beside it.",
        code="input-unreadable",
    )
