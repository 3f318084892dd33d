"""Geometry of the finest geounits: polygons or points, so that a release can be shown on a map.

No count depends on it. The packages of the extra `maps` are imported only where geometry is used. Files are
GeoParquet, GeoJSON, shapefiles or GeoPackage; what is read is held to the spine: one shape for each finest
geounit, in longitude and latitude.

GDAL opens a file by its content, and some of its formats name further files or addresses. So the first bytes
of a file must be those of the format that its name ends in, and GDAL must then have taken it for this format.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.geography.spine import Spine
from tallyveil.printable import shown, some_names
from tallyveil.storage.addresses import is_object, shown_path
from tallyveil.storage.read import (
    collect,
    input_size,
    is_input,
    open_input,
    require_text,
    scan_table,
    table_metadata,
)

PACKAGES: Final = ("shapely", "pyogrio", "pyproj", "mapbox_vector_tile")


def has_maps() -> bool:
    """Whether the extra `maps` is installed."""
    return all(find_spec(name) is not None for name in PACKAGES)


def require_maps(what: str) -> None:
    """Refuse work on geometry where the extra `maps` is not installed.

    Args:
        what: What needs it, as the begin of the message.
    Raises:
        ConfigError: a package of the extra is missing.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"{what} needs the package(s) {', '.join(missing)}. Install them with `pip install 'tallyveil[maps]'`.",
            code="maps-extra",
        )


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


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Polygons or points of finest geounits, in longitude and latitude (OGC:CRS84).

    Attributes:
        wkb: ISO well-known binary of every finest geounit, in the order of the spine; null where there is none.
        points: Whether all shapes are points; otherwise all are polygons or multipolygons.
    """

    wkb: pl.Series
    points: bool

    @property
    def n_missing(self) -> int:
        """Number of finest geounits without geometry."""
        return self.wkb.null_count()

    def digest(self) -> bytes:
        """SHA-256 of the geometry."""
        digest = hashlib.sha256(b"tallyveil geometry 1\n")
        for wkb in self.wkb:
            # The length goes before each shape, so that no two lists of shapes write the same bytes.
            shape = wkb or b""
            digest.update(len(shape).to_bytes(8, "big") + shape)
        return digest.digest()


def geometry_warnings(geometry: Geometry | None) -> tuple[str, ...]:
    """What to say of finest geounits without geometry, which is public."""
    if geometry is None or not geometry.n_missing:
        return ()
    return (
        f"the geometry file has no shape for {geometry.n_missing:,} of {len(geometry.wkb):,} finest geounits. Maps "
        "leave them out; no count changes.",
    )


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
                f"{_columns(present)} Name the right one as [geography] geometry_geocode of a release file, or "
                "with --shapes-geocode.",
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


_POINT, _POLYGON, _MULTIPOLYGON = 0, 3, 6
"""Numbers of the types of shapes in shapely."""
# Smallest longitude and latitude, then the largest, in degrees. Shapely gives the bounds of a shape in this order.
_LIMITS: Final = np.array([-180.0, -90.0, 180.0, 90.0])


def with_geometry(spine: Spine, stored: StoredShapes) -> Geometry:
    """The shapes of a file in the order of a spine's finest geounits, in longitude and latitude.

    A finest geounit may lack a shape, but not all of them. The extra `maps` must be there.

    Args:
        spine: The spine that is measured.
        stored: Content of the file.
    Raises:
        GeographyError: a geocode is missing, twice or unknown (`geometry-geocodes`), or no geounit has
            a shape, or a shape is empty, invalid, of another type than the others, or outside the world
            (`geometry-shape`).
        ConfigError: the coordinate reference system is not stated, or cannot be turned into longitude and latitude.
    """
    _require_geocodes(spine, stored)
    # Inside functions, because shapely and pyproj belong to the extra `maps`, which most installations lack.
    import shapely

    named = stored.wkb.is_not_null()
    if not named.any():
        raise GeographyError(
            f"the geometry file {stored.path} has no shape: it has {len(named):,} rows, and none of them has one. "
            "Wanted: the shapes of the finest geounits. Write the file again, or leave [geography] geometry out.",
            code="geometry-shape",
        )
    # Rows without a shape are dropped before they are parsed; a geounit may lack one.
    codes = stored.geocodes.filter(named)
    held = np.array(stored.wkb.filter(named).to_list(), dtype=object)
    # Invalid bytes become None here, so that the check below can name the geounit; an exception would name none.
    shapes = shapely.force_2d(shapely.from_wkb(held, on_invalid="ignore"))
    _require_kind(stored, codes, shapes)
    # Into degrees before the checks of the limits, which are in degrees.
    shapes = _in_degrees(stored, shapes)
    _require_sound(stored, codes, shapes)
    # One byte order and one flavour, so that equal shapes have one digest on every machine.
    wkb = pl.Series(list(shapely.to_wkb(shapes, byte_order=1, flavor="iso")), dtype=pl.Binary)
    rows = spine.locate(spine.finest, codes)
    # -1 marks the geounits of the spine for which the file has no shape; they get null.
    place = np.full(spine.n_geounits(spine.finest), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    ordered = wkb.gather(pl.Series(place).replace(-1, None))
    points = bool((shapely.get_type_id(shapes) == _POINT).all())
    return Geometry(ordered.alias("geometry"), points)


def _require_geocodes(spine: Spine, stored: StoredShapes) -> None:
    """Refuse missing, repeated and unknown geocodes; raises GeographyError."""
    codes = stored.geocodes
    unknown = codes.filter(spine.locate(spine.finest, codes) < 0).drop_nulls()
    twice = codes.filter(codes.is_duplicated()).drop_nulls()
    for misfits, what in (
        (codes.filter(codes.is_null()), "have no geocode"),
        (twice, "share their geocode with another row"),
        (unknown, f"have a geocode that is not in the geography ({spine.geolevels[-1]})"),
    ):
        if len(misfits):
            first = "" if misfits[0] is None else f", such as '{shown(misfits[0])[:40]}'"
            raise GeographyError(
                f"the geometry file {stored.path}: {len(misfits):,} rows {what}{first}. Wanted: at most one row for "
                "each finest geounit of the geography, and no other row. Remove or correct these rows.",
                code="geometry-geocodes",
            )


def _require_kind(stored: StoredShapes, codes: pl.Series, shapes: NDArray[Any]) -> None:
    """Refuse shapes that cannot be read, and those that are not all points or all polygons; raises GeographyError."""
    import shapely

    kinds = shapely.get_type_id(shapes)
    # -1 is shapely's type of what could not be read.
    unread = kinds < 0
    if unread.any():
        _refuse_shapes(stored, codes, unread, "cannot be read as well-known binary. Write the file again")
    polygons = np.isin(kinds, (_POLYGON, _MULTIPOLYGON))
    if not polygons.all() and not (kinds == _POINT).all():
        wrong = ~polygons if polygons.any() else kinds != _POINT
        _refuse_shapes(
            stored, codes, wrong, "are no polygons. Wanted all polygons (or multipolygons), or all points"
        )


def _require_sound(stored: StoredShapes, codes: pl.Series, shapes: NDArray[Any]) -> None:
    """Refuse shapes that are empty, outside the world or invalid; raises GeographyError."""
    import shapely

    # Empty shapes first: they have no bounds, and NaN fits no limit.
    _refuse_shapes(
        stored, codes, shapely.is_empty(shapes), "are empty. Remove these rows, or give their shape"
    )
    boxes: Floats = shapely.bounds(shapes)
    within = (boxes >= _LIMITS[[0, 1, 0, 1]]) & (boxes <= _LIMITS[[2, 3, 2, 3]])
    outside: Bools = np.logical_not(within).max(axis=1, initial=False)
    _refuse_shapes(
        stored,
        codes,
        outside,
        "lie outside longitudes -180 to 180 and latitudes -90 to 90. State the coordinate reference system that the "
        "file really has",
    )
    _refuse_shapes(
        stored,
        codes,
        ~shapely.is_valid(shapes),
        "are invalid: a ring crosses itself, or rings overlap. Repair them, for instance with `Fix geometries` in QGIS "
        "or with shapely.make_valid",
    )


def _refuse_shapes(stored: StoredShapes, codes: pl.Series, wrong: Bools, what: str) -> None:
    if wrong.any():
        first = shown(codes.filter(pl.Series(wrong))[0])[:40]
        raise GeographyError(
            f"the geometry file {stored.path}: the shapes of {int(wrong.sum()):,} finest geounits, such as '{first}', "
            f"{what}.",
            code="geometry-shape",
        )


def _in_degrees(stored: StoredShapes, shapes: NDArray[Any]) -> NDArray[Any]:
    """The shapes in longitude and latitude; raises ConfigError."""
    if stored.crs == LONLAT:
        return shapes
    import shapely
    from pyproj import CRS, Transformer
    from pyproj.exceptions import ProjError

    if stored.crs is None:
        _refuse_crs(stored, "does not state its coordinate reference system")
    try:
        known = CRS.from_user_input(stored.crs)
        to_degrees = Transformer.from_crs(known, LONLAT, always_xy=True)
    except ProjError:  # CRSError is one
        _refuse_crs(
            stored, "has a coordinate reference system that cannot be turned into longitude and latitude"
        )
    if known == CRS.from_user_input("EPSG:4326") or known == CRS.from_user_input(LONLAT):
        return shapes  # files hold longitude before latitude, whatever the order of the axes is called

    def transformed(coordinates: Floats) -> Floats:
        return np.column_stack(to_degrees.transform(coordinates[:, 0], coordinates[:, 1]))

    projected: NDArray[Any] = shapely.transform(shapes, transformed)
    return projected


def _refuse_crs(stored: StoredShapes, what: str) -> NoReturn:
    raise ConfigError(
        f"the geometry file {stored.path} {what}. Wanted: longitude and latitude, or a system that PROJ knows, such as "
        "EPSG:5070. A shapefile states it in its part .prj, GeoParquet in its metadata `geo`.",
        code="geometry-crs",
    )


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
