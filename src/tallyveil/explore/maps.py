"""The map of a release: shapes of its areas, and vector tiles of them. It needs the extra `maps`.

A site has bounding boxes of every area, and tiles of every kind, where the release has geometry. The plane is
Web Mercator. The world is the unit square. Its north-west corner is (0, 0), so that y grows to the south as
in tiles.

A cell is the part of the plane that is nearer to its point than to any other (a Voronoi cell), within a hull
around all points. So cells are no borders; they only show which points are neighbours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.explore.areas import Areas
from tallyveil.files.geography import GEOMETRY, read_geometry
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geometry import Geometry, merged, require_maps
from tallyveil.geography.spine import Spine
from tallyveil.storage.json_files import JsonObject, damaged
from tallyveil.storage.write import write_file

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


@dataclass(frozen=True, slots=True, eq=False)
class AreasOfKind:
    """The areas of one kind. Area `i` consists of the finest geounits `members[offsets[i]:offsets[i + 1]]`.

    Attributes:
        number: Number of the kind in `site.json`.
        offsets: Start of each area's members; shape (n_areas + 1,).
        members: Rows of finest geounits, on the spine that is measured.
    """

    number: int
    offsets: Integers
    members: Integers

    @property
    def n_areas(self) -> int:
        """Number of areas."""
        return len(self.offsets) - 1

    @property
    def is_disjoint(self) -> bool:
        """Whether no finest geounit is in two areas."""
        return bool(np.bincount(self.members, minlength=1).max() <= 1)


def areas_of_geolevel(spine: Spine, level: int, number: int) -> AreasOfKind:
    """The geounits of a geolevel of a spine, in their order.

    Args:
        spine: The spine that is measured.
        level: Index of the geolevel.
        number: Number of the kind.
    """
    n_finest = spine.n_geounits(spine.finest)
    return AreasOfKind(number, spine.finest_offsets(level), np.arange(n_finest, dtype=np.int64))


def areas_of_family(family: EntityFamily, number: int) -> AreasOfKind:
    """The entities of a family on the spine that is measured, in their order."""
    return AreasOfKind(number, family.offsets, family.members)


_RATIO: Final = 0.05
"""How closely the hull follows the points: 0 as closely as possible, 1 the convex hull."""
_MARGIN: Final = 1.0
"""Distance of the hull from the outermost points, in widths of a cell of average size."""
_APART: Final = 1e-9
"""Distance by which points at the same place are moved apart, in widths of the world (0.04 m at the equator)."""
_FEWEST: Final = 3
"""Number of points from which a hull has an area."""


def cells_around(points: NDArray[Any]) -> NDArray[Any]:
    """The cell of every point; None for a missing point.

    Args:
        points: shapely points of the plane, or None; shape (n,).
    """
    import shapely

    cells: NDArray[Any] = np.full(len(points), None, dtype=object)
    known: Bools = ~shapely.is_missing(points)
    if not known.any():
        return cells
    # Two points at one place would have one Voronoi cell between them, and one geounit no shape.
    places = _moved_apart(shapely.get_coordinates(points[known]))
    hull = _hull(places)
    polygons = shapely.get_parts(
        shapely.voronoi_polygons(shapely.multipoints(places), extend_to=hull, ordered=True)
        if len(places) > 1
        else shapely.geometrycollections([hull])
    )
    shapely.prepare(hull)
    # Only cells at the rim are cut: most lie inside, and a prepared test is cheaper than a cut.
    cut = ~shapely.contains_properly(hull, polygons)
    polygons[cut] = shapely.intersection(polygons[cut], hull)
    cells[known] = polygons
    return cells


def _moved_apart(places: Floats) -> Floats:
    """The points, where those at one place are moved to the east, each a little further than the one before."""
    # Sorted by both coordinates, so that equal points stand side by side.
    order: Integers = np.lexsort((places[:, 1], places[:, 0]))
    ordered = places[order]
    begins = np.concatenate([[True], (np.diff(ordered, axis=0) != 0).any(axis=1)])
    starts = np.flatnonzero(begins)
    # Place in its run of equal points: 0 for the first, which stays where it is.
    rank = np.arange(len(places)) - starts[np.cumsum(begins) - 1]
    moved = places.copy()
    moved[order, 0] += rank * _APART
    return moved


def _hull(places: Floats) -> Any:
    """A polygon around all points."""
    import shapely

    together = shapely.multipoints(places)
    width = _width(places)
    hull = shapely.concave_hull(together, ratio=_RATIO) if len(places) >= _FEWEST else together
    return shapely.buffer(hull, _MARGIN * width, quad_segs=2)


def _width(places: Floats) -> float:
    """Width of a cell of average size; one kilometre at the equator where all points are in one line or place."""
    extent = np.ptp(places, axis=0)
    return float(np.sqrt(extent.prod() / len(places))) or 1 / 40_000


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
    # on_invalid gives None for bytes that are no shape; one that was not null is damage.
    if not np.array_equal(shapely.is_missing(degrees), geometry.wkb.is_null().to_numpy()):
        return None
    shapes = shapely.transform(degrees, on_plane)
    if geometry.points:
        return FinestShapes(cells_around(shapes), shapely.bounds(degrees), "points", shared=True)
    shared = bool(shapely.coverage_is_valid(shapes[~shapely.is_missing(shapes)]))
    return FinestShapes(shapes, shapely.bounds(degrees), "polygons", shared)


def bounding_boxes(finest: FinestShapes, areas: AreasOfKind) -> Floats:
    """West, south, east and north of every area, in degrees; NaN for an area without geometry; shape (n_areas, 4).

    Where geometry is points, a box holds the points and not the cells around them.
    """
    starts, boxes = areas.offsets[:-1], finest.boxes[areas.members]
    corners = np.empty((areas.n_areas, 4))
    for side in (0, 1):
        corners[:, side] = np.fmin.reduceat(boxes[:, side], starts)
    for side in (2, 3):
        corners[:, side] = np.fmax.reduceat(boxes[:, side], starts)
    return corners


EXTENT: Final = 4096
"""Units along the side of a tile."""
MOST_FEATURES: Final = 16_000
"""Areas in a tile from which on it would load slowly: pages show a coarser kind instead."""
MOST_TILES: Final = 20_000
"""Tiles of a kind at one zoom, at most, unless its smallest zoom needs more."""
GREATEST: Final = 16
"""Greatest zoom: a tile is then about 600 m wide at the equator. One more zoom makes four times as many tiles."""
_DETAIL: Final = 48.0
"""Units along the side of a finest geounit of middle size at the greatest zoom."""
_OUT: Final = 2
"""Zooms by which one may zoom out from the whole map."""


class Zooms(NamedTuple):
    """Smallest and greatest zoom for which tiles are made."""

    least: int
    greatest: int


def sharpest(boxes: Floats) -> int:
    """The greatest zoom that pages need, from the boxes of finest geounits on the plane; shape (n, 4)."""
    # The median, because a few huge areas of water or desert would make a mean that fits no block.
    sides = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    middle = float(np.median(sides))
    wanted = _DETAIL / EXTENT / middle if middle > 0 else 2.0**GREATEST
    return int(np.clip(np.ceil(np.log2(max(wanted, 1.0))), 0, GREATEST))


def zooms_of(boxes: Floats, greatest: int) -> Zooms:
    """The zooms of a kind of areas.

    Args:
        boxes: Boxes of its areas on the plane; shape (n, 4).
        greatest: What `sharpest` says.
    """
    whole = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
    side = float((whole[2:] - whole[:2]).max())
    fits = int(np.clip(np.floor(-np.log2(max(side, 2.0**-GREATEST))), 0, GREATEST))
    least = max(fits - _OUT, 0)
    # A tile with too many areas loads slowly, so the kind begins at a finer zoom.
    while least < GREATEST and _most_in_a_tile(boxes, least) > MOST_FEATURES:
        least += 1
    # At least one zoom, also where the smallest is beyond what pages need.
    greatest = max(greatest, least)
    while greatest > least and _tiles(whole, greatest) > MOST_TILES:
        greatest -= 1
    return Zooms(least, greatest)


def _most_in_a_tile(boxes: Floats, zoom: int) -> int:
    """The largest number of areas whose middle lies in one tile."""
    middles = np.floor((boxes[:, :2] + boxes[:, 2:]) / 2 * 2**zoom).astype(np.int64)
    return int(np.unique(middles, axis=0, return_counts=True)[1].max())


def _tiles(whole: Floats, zoom: int) -> int:
    """Number of tiles that the box of all areas touches."""
    ends = np.floor(whole * 2**zoom)
    return int(np.prod(ends[2:] - ends[:2] + 1))


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


LAYER: Final = "areas"
BUFFER: Final = 64
"""Units by which the content of a tile reaches beyond its sides, so that lines do not end there."""
_POLYGON, _MULTIPOLYGON = 3, 6
_OPTIONS: Final = {"extents": EXTENT, "y_coord_down": True, "check_winding_order": False}


def cut(shapes: NDArray[Any], rows: Integers, x: int, y: int) -> tuple[NDArray[Any], Integers]:
    """The parts of shapes in a tile and its buffer, in units from its north-west corner, and the rows of those left.

    Args:
        shapes: Polygons in units from the corner of the world.
        rows: Row of each shape in its kind.
        x, y: The tile.
    """
    import shapely

    west, north = x * EXTENT, y * EXTENT
    box = (west - BUFFER, north - BUFFER, west + EXTENT + BUFFER, north + EXTENT + BUFFER)
    bounds = shapely.bounds(shapes)
    outside = (bounds[:, :2] < box[:2]).any(axis=1) | (bounds[:, 2:] > box[2:]).any(axis=1)
    pieces = shapes.copy()
    pieces[outside] = shapely.clip_by_rect(shapes[outside], *box)
    areal = np.isin(shapely.get_type_id(pieces), (_POLYGON, _MULTIPOLYGON)) & ~shapely.is_empty(pieces)
    # The rule of tiles for outer rings, a positive area where y grows downwards, is counter-clockwise to shapely.
    oriented = shapely.orient_polygons(pieces[areal], exterior_cw=False)
    return shapely.transform(oriented, lambda points: np.rint(points - (west, north))), rows[areal]


def encoded(shapes: NDArray[Any], rows: Integers) -> bytes:
    """A tile with one layer of polygons. The id of a feature is its row; there are no properties."""
    import mapbox_vector_tile

    features = [{"geometry": shape, "id": row} for shape, row in zip(shapes, rows.tolist(), strict=True)]
    tile: bytes = mapbox_vector_tile.encode([{"name": LAYER, "features": features}], default_options=_OPTIONS)
    return tile


def rows_in(tile: bytes) -> Integers:
    """The rows of the areas in a tile."""
    from mapbox_vector_tile.Mapbox import vector_tile_pb2

    read = vector_tile_pb2.tile()
    read.ParseFromString(tile)
    return np.array([feature.id for layer in read.layers for feature in layer.features], dtype=np.int64)


TILES: Final = ("data", "tiles")
_COARSE, _FINE = 4.0, 0.5
"""Width of details that are left out, in units: half a pixel of a page. Less at the greatest zoom, whose tiles pages
enlarge."""


class Tile(NamedTuple):
    """A tile with its content."""

    x: int
    y: int
    content: bytes


def write_tiles(finest: FinestShapes, kinds: Sequence[AreasOfKind], out: Path) -> JsonObject:
    """Write the tiles of every kind, and describe them.

    The only layer of a tile is `areas`. The id of a feature is the row of the area in its kind. Features have no
    properties. Every tile that touches the bounds of its kind is there, also if it has no area: a page that asks for
    it gets no error. An area that is too small to be seen at a zoom is a square of one unit there, so none is left out.

    Args:
        finest: The shapes of the finest geounits, at least one.
        kinds: The kinds of areas, whose members are rows of `finest`.
        out: Folder of the site. Tiles are written to `data/tiles` in it.
    Returns:
        The entry `map` of `site.json`: `bounds` (west, south, east, north), `tiles` (`kind`, `minzoom`, `maxzoom` and
        `bounds` of every kind that has tiles) and `made_from`.
    Raises:
        StoreError: a tile cannot be written.
        SolverError: an area with geometry is in no tile (`check-failed`).
    """
    known = finest.boxes[finest.known]
    greatest = sharpest(_plane_boxes(finest.shapes[finest.known]))
    described = []
    for kind in kinds:
        entry = _write_kind(finest, kind, greatest, out)
        described += [] if entry is None else [entry]
    west, south = known[:, :2].min(axis=0).tolist()
    east, north = known[:, 2:].max(axis=0).tolist()
    return {"bounds": [west, south, east, north], "tiles": described, "made_from": finest.made_from}


def _write_kind(finest: FinestShapes, kind: AreasOfKind, greatest: int, out: Path) -> JsonObject | None:
    """Write the tiles of a kind; None if none of its areas has geometry."""
    import shapely

    shapes = merged(finest.shapes, kind.offsets, kind.members, shared=finest.shared)
    rows = np.flatnonzero(~shapely.is_missing(shapes)).astype(np.int64)
    if not len(rows):
        return None
    shapes, shared = shapes[rows], finest.shared and kind.is_disjoint
    boxes = _plane_boxes(shapes)
    whole = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
    zooms = zooms_of(boxes, greatest)
    for zoom in range(zooms.least, zooms.greatest + 1):
        unit = 1 / (EXTENT * 2**zoom)
        tolerance = (_FINE if zoom == zooms.greatest else _COARSE) * unit
        on_grid = _on_grid(simplified(shapes, tolerance, shared=shared), unit)
        seen = np.zeros(kind.n_areas, dtype=np.bool_)
        folder = out.joinpath(*TILES, str(kind.number), str(zoom))
        missing = set(_touched(whole, zoom))
        for tile in tiles_of(on_grid, rows, zoom):
            seen[rows_in(tile.content)] = True
            missing.discard((tile.x, tile.y))
            _write(folder.joinpath(str(tile.x), f"{tile.y}.pbf"), tile.content)
        for x, y in sorted(missing):
            _write(folder.joinpath(str(x), f"{y}.pbf"), encoded(shapes[:0], rows[:0]))
        _require_all(kind, zoom, rows[~seen[rows]])
    return {
        "kind": kind.number,
        "minzoom": zooms.least,
        "maxzoom": zooms.greatest,
        "bounds": _degrees(whole),
    }


def _touched(whole: Floats, zoom: int) -> Iterator[tuple[int, int]]:
    """The tiles that a box on the plane touches."""
    first, last = np.split(np.clip(np.floor(whole * 2**zoom), 0, 2**zoom - 1).astype(int), 2)
    return product(range(first[0], last[0] + 1), range(first[1], last[1] + 1))


def _degrees(whole: Floats) -> list[float]:
    """West, south, east and north of a box on the plane, whose second coordinate grows to the south."""
    (west, north), (east, south) = in_degrees(whole.reshape(2, 2)).tolist()
    return [west, south, east, north]


def tiles_of(shapes: NDArray[Any], rows: Integers, zoom: int) -> Iterator[Tile]:
    """The tiles of a zoom that have content, from west to east and north to south.

    Args:
        shapes: Polygons in units from the north-west corner of the world at this zoom.
        rows: Row of each shape in its kind.
        zoom: The zoom.
    """
    bounds = _plane_boxes(shapes)
    first = np.floor((bounds[:, :2] - BUFFER) / EXTENT).astype(np.int64)
    last = np.floor((bounds[:, 2:] + BUFFER) / EXTENT).astype(np.int64)
    first, last = np.maximum(first, 0), np.minimum(last, 2**zoom - 1)
    for (x, y), shapes_of_tile in _by_tile(first, last):
        parts, left = cut(shapes[shapes_of_tile], rows[shapes_of_tile], x, y)
        if len(left):
            yield Tile(x, y, encoded(parts, left))


def _by_tile(first: Integers, last: Integers) -> Iterator[tuple[tuple[int, int], Integers]]:
    """For each tile, the shapes whose box touches it; arguments: north-west and south-east tile of every shape."""
    wide = last - first + 1
    number = np.maximum(wide, 0).prod(axis=1)
    shape = np.repeat(np.arange(len(first)), number)
    within = np.arange(len(shape)) - np.repeat(np.cumsum(number) - number, number)
    x = first[shape, 0] + within // wide[shape, 1]
    y = first[shape, 1] + within % wide[shape, 1]
    order = np.lexsort((shape, y, x))
    x, y, shape = x[order], y[order], shape[order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(x) != 0) | (np.diff(y) != 0)]))
    for start, shapes_of_tile in zip(starts, np.split(shape, starts[1:]), strict=True):
        yield (int(x[start]), int(y[start])), shapes_of_tile


def _on_grid(shapes: NDArray[Any], unit: float) -> NDArray[Any]:
    """Shapes in whole units from the corner of the world; those that vanish become squares of one unit."""
    import shapely

    scaled = shapely.transform(shapes, lambda points: points / unit)
    snapped: NDArray[Any] = shapely.set_precision(scaled, 1.0)
    gone = shapely.is_empty(snapped)
    corner = np.floor(shapely.get_coordinates(shapely.point_on_surface(scaled[gone])))
    snapped[gone] = shapely.box(*corner.T, *(corner + 1).T)
    return snapped


def _plane_boxes(shapes: NDArray[Any]) -> Floats:
    import shapely

    boxes: Floats = shapely.bounds(shapes)
    return boxes


def _write(path: Path, content: bytes) -> None:
    def fill(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_file(path, fill)


def _require_all(kind: AreasOfKind, zoom: int, missing: Integers) -> None:
    if len(missing):
        raise SolverError(
            f"final check failed: {len(missing):,} areas of kind {kind.number}, such as row {missing[0]}, are in no "
            f"tile of zoom {zoom}. The map would leave them out without a word; please report this.",
            code="check-failed",
        )


NO_MAP: Final = (
    "The release has no geometry, so there is no map. The office that makes it can name a file of polygons or points "
    "as `geometry` in the table [geography] of its release file."
)
NO_SHAPES: Final = "The geometry of the release has no shape for any area, so there is no map."


@dataclass(frozen=True, slots=True, eq=False)
class MapParts:
    """What is known of the places of areas.

    Attributes:
        entry: What `site.json` says of the map; None without one.
        why: Why there is none; None if there is one.
        boxes: Bounding boxes of the areas of every kind; empty without a map.
    """

    entry: JsonObject | None
    why: str | None
    boxes: dict[int, Floats]


def write_map(site: Path, root: Path, areas: Areas) -> MapParts:
    """Write the tiles of every kind of area.

    Args:
        site: Folder of the site.
        root: Folder of the release.
        areas: Its areas.
    Raises:
        ConfigError: the release has geometry, and the extra `maps` is not installed.
        StoreError: the geometry was damaged, or a tile cannot be written.
    """
    stored = read_finest_shapes(root, areas.spine)
    if stored is None:
        return MapParts(None, NO_MAP, {})
    finest = stored.reordered(areas.measured)
    if not finest.known.any():
        return MapParts(None, NO_SHAPES, {})
    kinds = _kinds(areas)
    boxes = {kind.number: bounding_boxes(finest, kind) for kind in kinds}
    return MapParts(write_tiles(finest, kinds, site), None, boxes)


def _kinds(areas: Areas) -> list[AreasOfKind]:
    return [
        areas_of_geolevel(areas.tree, number, number)
        if kind.family is None
        else areas_of_family(kind.family, number)
        for number, kind in enumerate(areas.kinds)
    ]
