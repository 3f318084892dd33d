"""Shapes of areas from finest geounits: boxes, unions, simplification with shared borders, cells around points."""

import numpy as np
import polars as pl
import pytest
import shapely

from tallyveil.explore.maps import (
    AreasOfKind,
    areas_of_family,
    areas_of_geolevel,
    bounding_boxes,
    cells_around,
    finest_shapes,
    in_degrees,
    on_plane,
    simplified,
)
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.geometry import Geometry, merged
from tallyveil.geography.tables import entities_from_pairs
from tallyveil.synthetic.country import make_geography, make_map


@pytest.fixture(scope="module")
def country():
    geography = make_geography(600, np.random.default_rng(3), 1)
    spine = spine_from_prefixes(geography["geocode"], ["State", "Tract", "Block"], [2, 11, 15])
    return spine, finest_shapes(Geometry(pl.concat(make_map(geography, 1))["geometry"], points=False))


def squares(*wests, missing=()):
    wkb = [None if west in missing else shapely.to_wkb(shapely.box(west, 0, west + 1, 1)) for west in wests]
    return finest_shapes(Geometry(pl.Series(wkb, dtype=pl.Binary), points=False))


def tracts_of(spine, finest):
    kind = areas_of_geolevel(spine, 1, 1)
    return merged(finest.shapes, kind.offsets, kind.members, shared=True)


def test_the_plane_and_back():
    points = np.array([[0.0, 0.0], [-180, 85], [179, -60.5], [12.3, 89.9]])
    found = on_plane(points)
    assert found[0].tolist() == [0.5, 0.5]
    assert ((found >= -1e-9) & (found <= 1 + 1e-9)).all()
    assert in_degrees(found)[:3] == pytest.approx(points[:3])


def test_boxes_are_those_of_the_members(country):
    spine, finest = country
    boxes = bounding_boxes(finest, areas_of_geolevel(spine, 1, 1))
    offsets = spine.finest_offsets(1)
    for tract in range(spine.n_geounits(1)):
        own = finest.boxes[offsets[tract] : offsets[tract + 1]]
        assert boxes[tract].tolist() == [*own[:, :2].min(axis=0), *own[:, 2:].max(axis=0)]
    assert bounding_boxes(finest, areas_of_geolevel(spine, 0, 0))[0] == pytest.approx([-120, 30, -119, 31])


def test_areas_without_geometry_have_no_box_and_no_shape():
    finest = squares(0, 1, 2, missing=(1,))
    kind = AreasOfKind(0, np.array([0, 2, 3]), np.array([0, 1, 1]))
    boxes = bounding_boxes(finest, kind)
    assert boxes[0].tolist() == [0, 0, 1, 1]
    assert np.isnan(boxes[1]).all()
    shapes = merged(finest.shapes, kind.offsets, kind.members, shared=True)
    assert shapely.equals(shapes[0], finest.shapes[0])
    assert shapes[1] is None


@pytest.mark.parametrize("shared", [True, False])
def test_areas_are_the_unions_of_their_members(country, shared):
    spine, finest = country
    family = entities_from_pairs(
        spine, "any", spine.geocodes[-1].text[:9], pl.Series(["a"] * 4 + ["b"] * 4 + ["c"])
    )
    for kind in (areas_of_geolevel(spine, 1, 1), areas_of_family(family, 2), areas_of_geolevel(spine, 2, 3)):
        found = merged(finest.shapes, kind.offsets, kind.members, shared=shared)
        assert shapely.is_valid(found).all()
        for area, shape in enumerate(found):
            own = finest.shapes[kind.members[kind.offsets[area] : kind.offsets[area + 1]]]
            assert shapely.area(shape) == pytest.approx(shapely.area(own).sum())
            assert shapely.equals_exact(shape.normalize(), shapely.union_all(own).normalize(), 1e-12) or (
                shapely.area(shapely.symmetric_difference(shape, shapely.union_all(own))) < 1e-15
            )


def test_simplified_neighbours_keep_their_border(country):
    spine, finest = country
    tracts = tracts_of(spine, finest)
    found = simplified(tracts, 1e-4, shared=True)
    assert shapely.get_num_coordinates(found).sum() < 0.7 * shapely.get_num_coordinates(tracts).sum()
    assert shapely.coverage_is_valid(found)
    apart = simplified(tracts, 1e-4, shared=False)
    assert not shapely.coverage_is_valid(apart)  # why shared borders are simplified together
    assert shapely.is_valid(apart).all()


def test_overlaps_are_noticed():
    assert squares(0, 1, 2).shared
    assert not squares(0, 0.5, 2).shared


def test_cells_tile_a_hull_and_hold_their_points():
    points = shapely.points(np.random.default_rng(5).random((300, 2)) * 0.01 + 0.3)
    cells = cells_around(points)
    assert shapely.contains(cells, points).all()
    assert shapely.is_valid(cells).all()
    whole = shapely.union_all(cells)
    assert shapely.area(whole) == pytest.approx(shapely.area(cells).sum(), rel=1e-6)
    assert shapely.area(whole) < 2 * 0.01**2


@pytest.mark.parametrize(
    "places",
    [
        [[0.3, 0.4]],
        [[0.3, 0.4], [0.3, 0.4]],
        [[0.3, 0.4], [0.31, 0.4]],
        [[0.3, 0.4], [0.31, 0.4], [0.32, 0.4]],
        [[0.3, 0.4]] * 5 + [[0.31, 0.41], [0.33, 0.4]],
    ],
)
def test_points_at_one_place_or_in_a_line_have_cells(places):
    cells = cells_around(shapely.points(places))
    assert len(cells) == len(places)
    assert (shapely.area(cells) > 0).all()
    assert shapely.area(shapely.union_all(cells)) == pytest.approx(shapely.area(cells).sum(), rel=1e-6)


def test_a_missing_point_has_no_cell():
    cells = cells_around(np.array([shapely.Point(0.3, 0.3), None, shapely.Point(0.4, 0.3)]))
    assert [cell is None for cell in cells] == [False, True, False]


def test_reordered_shapes(country):
    _, finest = country
    rows = np.arange(len(finest.shapes))[::-1].copy()
    other = finest.reordered(rows)
    assert other.shapes[0] is finest.shapes[-1]
    assert (other.boxes == finest.boxes[::-1]).all()
