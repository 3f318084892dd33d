"""Hold a file of geometry to the spine: one shape for each finest geounit, in longitude and latitude."""

from typing import Any, Final, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats
from tallyveil.errors import ConfigError, GeographyError
from tallyveil.geography.geometry.geometry import Geometry
from tallyveil.geography.geometry.read import LONLAT, StoredShapes
from tallyveil.geography.spine import Spine
from tallyveil.printable import shown

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
