"""Vector tiles, read back by GDAL: every area is there, where it belongs, at every zoom of its kind."""

from collections import defaultdict

import mapbox_vector_tile
import numpy as np
import polars as pl
import pyogrio
import pytest
import shapely

from tallyveil.errors import SolverError
from tallyveil.explore import maps
from tallyveil.explore.maps import (
    LAYER,
    MOST_FEATURES,
    AreasOfKind,
    Zooms,
    areas_of_geolevel,
    encoded,
    finest_shapes,
    on_plane,
    rows_in,
    sharpest,
    write_tiles,
    zooms_of,
)
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.geometry import Geometry
from tallyveil.synthetic.country import make_geography, make_map

WORLD = 20_037_508.342789244
"""Half the side of the world in Web Mercator, in metres."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    geography = make_geography(1_500, np.random.default_rng(3), 1)
    spine = spine_from_prefixes(geography["geocode"], ["State", "Tract", "Block"], [2, 11, 15])
    whole = pl.concat(make_map(geography, 1))["geometry"].to_list()
    stored = pl.Series([*whole[:7], None, *whole[8:]], dtype=pl.Binary)
    finest = finest_shapes(Geometry(stored, points=False))
    out = tmp_path_factory.mktemp("site")
    return out, spine, finest, write_tiles(finest, [areas_of_geolevel(spine, k, k) for k in range(3)], out)


def test_the_description_fits_the_files(site):
    out, _, _, described = site
    assert described["made_from"] == "polygons"
    assert described["bounds"] == pytest.approx([-120, 30, -119, 31])
    assert [entry["kind"] for entry in described["tiles"]] == [0, 1, 2]
    for entry in described["tiles"]:
        zooms = {int(path.name) for path in (out / "data" / "tiles" / str(entry["kind"])).iterdir()}
        assert zooms == set(range(entry["minzoom"], entry["maxzoom"] + 1))


def test_no_tile_inside_the_bounds_is_missing(tmp_path):
    """Two areas at opposite corners: the tiles between them have no area, and are there."""
    shapes = [shapely.box(0, 0, 0.01, 0.01), shapely.box(9.99, 9.99, 10, 10)]
    finest = finest_shapes(Geometry(pl.Series(list(shapely.to_wkb(shapes))), points=False))
    spine = spine_from_prefixes(pl.Series(["a", "b"]), ["Block"], [1])
    [entry] = write_tiles(finest, [areas_of_geolevel(spine, 0, 0)], tmp_path)["tiles"]
    assert entry["bounds"] == pytest.approx([0, 0, 10, 10])
    made = [path.relative_to(tmp_path / "data/tiles/0").parts for path in tmp_path.rglob("*.pbf")]
    for zoom in range(entry["minzoom"], entry["maxzoom"] + 1):
        tiles_made = {(int(x), int(y.removesuffix(".pbf"))) for z, x, y in made if int(z) == zoom}
        (west, south), (east, north) = np.floor(on_plane(np.array([[0, 0], [10, 10]])) * 2**zoom).astype(int)
        assert tiles_made >= {(x, y) for x in range(west, east + 1) for y in range(north, south + 1)}
    contents = [path.read_bytes() for path in (tmp_path / f"data/tiles/0/{zoom}").rglob("*.pbf")]
    assert 0 in [len(mapbox_vector_tile.decode(content)[LAYER]["features"]) for content in contents]


def test_every_area_with_geometry_is_at_every_zoom(site):
    out, spine, _, described = site
    for entry in described["tiles"]:
        kind, seen = entry["kind"], defaultdict(set)
        for path in (out / "data" / "tiles" / str(kind)).rglob("*.pbf"):
            features = mapbox_vector_tile.decode(path.read_bytes())[LAYER]["features"]
            assert all(not feature["properties"] for feature in features)
            seen[int(path.parts[-3])] |= {feature["id"] for feature in features}
        wanted = set(range(spine.n_geounits(kind))) - ({7} if kind == 2 else set())
        assert all(rows == wanted for rows in seen.values())


def test_gdal_finds_the_areas_where_they_are(site):
    """Another reader: areas of the greatest zoom, merged over tiles, cover what the shapes cover."""
    out, spine, finest, described = site
    greatest = described["tiles"][2]["maxzoom"]
    parts = defaultdict(list)
    for path in (out / "data" / "tiles" / "2" / str(greatest)).rglob("*.pbf"):
        _, _, wkb, fields = pyogrio.raw.read(path, columns=["mvt_id"])
        for row, shape in zip(fields[0], shapely.from_wkb(wkb), strict=True):
            parts[int(row)].append(shape)
    unit = 1 / (4096 * 2**greatest)
    for row, shapes in parts.items():
        metres = shapely.union_all([shapely.make_valid(shape) for shape in shapes])
        found = shapely.transform(metres, lambda points: (points * [1, -1] + WORLD) / (2 * WORLD))
        off = shapely.area(shapely.symmetric_difference(found, finest.shapes[row]))
        assert off < 3 * unit * shapely.length(finest.shapes[row])
    assert len(parts) == spine.n_geounits(2) - 1


def test_tiles_are_not_compressed_and_the_same_again(site, tmp_path):
    out, spine, finest, _ = site
    write_tiles(finest, [areas_of_geolevel(spine, 1, 1)], tmp_path)
    made = sorted((tmp_path / "data" / "tiles" / "1").rglob("*.pbf"))
    assert made
    for path in made:
        content = path.read_bytes()
        assert content == (out / path.relative_to(tmp_path)).read_bytes()
        assert content[:1] == b"\x1a"  # a layer, and not the begin of a gzip file


def test_an_area_too_small_to_be_seen_is_a_square(tmp_path):
    shapes = [shapely.box(0, 0, 10, 10), shapely.box(10, 0, 10 + 1e-7, 1e-7)]
    finest = finest_shapes(Geometry(pl.Series(list(shapely.to_wkb(shapes))), points=False))
    spine = spine_from_prefixes(pl.Series(["a", "b"]), ["Block"], [1])
    described = write_tiles(finest, [areas_of_geolevel(spine, 0, 0)], tmp_path)
    zoom = described["tiles"][0]["minzoom"]
    rows = [rows_in(path.read_bytes()) for path in (tmp_path / f"data/tiles/0/{zoom}").rglob("*.pbf")]
    assert set(np.concatenate(rows)) == {0, 1}


def test_an_area_that_is_lost_is_an_error(site, tmp_path, monkeypatch):
    _, spine, finest, _ = site
    monkeypatch.setattr(maps, "rows_in", lambda tile: rows_in(tile)[1:])
    with pytest.raises(SolverError) as refused:
        write_tiles(finest, [areas_of_geolevel(spine, 2, 2)], tmp_path)
    assert refused.value.code == "check-failed"


def test_nothing_is_written_of_a_kind_without_geometry(tmp_path):
    shapes = pl.Series([shapely.to_wkb(shapely.box(0, 0, 1, 1)), None])
    finest = finest_shapes(Geometry(shapes, points=False))
    kind = AreasOfKind(4, np.array([0, 1]), np.array([1]))
    assert write_tiles(finest, [kind], tmp_path)["tiles"] == []
    assert not (tmp_path / "data").exists()


def test_ids_are_rows():
    tile = encoded(np.array([shapely.box(0, 0, 9, 9), shapely.box(9, 0, 19, 9)]), np.array([0, 70_000]))
    assert rows_in(tile).tolist() == [0, 70_000]


def boxes_of_grid(n, side):
    west = np.stack(np.meshgrid(np.arange(n), np.arange(n)), axis=-1).reshape(-1, 2) * side / n + 0.2
    return np.hstack([west, west + side / n])


def test_zooms_keep_tiles_small_and_shapes_sharp():
    few, many = boxes_of_grid(10, 0.01), boxes_of_grid(300, 0.01)
    assert zooms_of(few, 12) == Zooms(4, 12)
    zooms = zooms_of(many, sharpest(many))
    middles = np.floor((many[:, :2] + many[:, 2:]) / 2 * 2**zooms.least)
    assert np.unique(middles, axis=0, return_counts=True)[1].max() <= MOST_FEATURES
    assert zooms.least > 4
    assert many[0, 2] - many[0, 0] >= 24 / 4096 / 2**zooms.greatest
    assert zooms_of(boxes_of_grid(2, 0.9), 16).greatest < 16  # there would be a thousand million tiles
