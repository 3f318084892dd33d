"""The made-up map: polygons that tile each state, in which every geounit hangs together."""

import json

import numpy as np
import polars as pl
import pytest
import shapely
from tests.samples import few

from tallyveil.synthetic.country import make_entities, make_geography, make_map

LEVELS = ("state", "county", "tract", "block_group")


@pytest.fixture(scope="module")
def country():
    geography = make_geography(5_000, np.random.default_rng(1), 2)
    return geography, pl.concat(make_map(geography, 7))


def shapes_of(table):
    return shapely.from_wkb(table["geometry"].to_list())


@pytest.mark.parametrize("n", [1, 2, 3, 37, 4_097])
def test_blocks_tile_the_square_of_their_state(n):
    shapes = shapes_of(pl.concat(make_map(make_geography(n, np.random.default_rng(n), 1), 1)))
    assert len(shapes) == n
    assert shapely.is_valid(shapes).all()
    assert set(shapely.get_type_id(shapes)) == {shapely.GeometryType.POLYGON}
    assert shapely.coverage_is_valid(shapes)
    assert shapely.equals(shapely.coverage_union_all(shapes), shapely.box(-120, 30, -119, 31))


def test_every_geounit_is_one_piece_without_holes(country):
    geography, table = country
    shapes = shapes_of(table)
    for level in LEVELS:
        for rows in geography.with_row_index().group_by(level).agg("index")["index"]:
            whole = shapely.coverage_union_all(shapes[rows.to_numpy()])
            assert whole.geom_type == "Polygon"
            assert not whole.interiors


def test_rings_are_counter_clockwise_as_geoparquet_prefers(country):
    assert shapely.is_ccw(shapely.get_exterior_ring(shapes_of(country[1]))).all()


def test_blocks_lie_around_their_points(country):
    """The points of the table of entities are of the same made-up country."""
    geography, table = country
    points = pl.concat(make_entities(geography, 7))
    apart = shapely.distance(shapes_of(table), shapely.points(points["longitude"], points["latitude"]))
    assert np.quantile(apart, 0.9) < 1 / np.sqrt(2_500)


def test_the_same_seed_gives_the_same_map(country):
    geography, table = country
    assert pl.concat(make_map(geography, 7)).equals(table)
    assert not pl.concat(make_map(geography, 8)).equals(table)


@pytest.mark.parametrize("schema", few(1, ["pl94-persons", "dhc"]))
def test_synth_names_the_map_in_its_release_files(command, tmp_path, schema):
    command("synth", "--blocks", 60, "--schema", schema, "--geometry", "--out", tmp_path / "made")
    releases = [path for path in (tmp_path / "made").glob("*.toml") if path.stem != "programme"]
    assert all('geometry = "geometry.parquet"' in path.read_text() for path in releases)
    geo = json.loads(pl.read_parquet_metadata(tmp_path / "made" / "geometry.parquet")["geo"])
    assert geo["columns"]["geometry"]["encoding"] == "WKB"
    said = command("plan", releases[0], "--json")
    assert json.loads(said)


def test_synth_without_the_flag_makes_no_map(command, tmp_path):
    command("synth", "--blocks", 60, "--out", tmp_path / "made")
    assert not (tmp_path / "made" / "geometry.parquet").exists()
    assert "geometry" not in (tmp_path / "made" / "release.toml").read_text()
